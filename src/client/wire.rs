//! The JSON of the consumer API, as the client sends and reads it.
//!
//! Unknown members are ignored: a gateway may say more than this client knows.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Delivery;
use crate::domain::{CommitItem, Identity, Provider, Role, Seq, Subject, WorkItemRef};

/// Who sends a request.
#[derive(Debug, Serialize)]
pub(super) struct Who<'a> {
    instance: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a str>,
}

impl<'a> From<&'a Identity> for Who<'a> {
    fn from(identity: &'a Identity) -> Self {
        Self {
            instance: identity.instance.as_str(),
            peer: identity.peer.as_ref().map(crate::domain::PeerId::as_str),
            run: identity.run.as_ref().map(crate::domain::RunId::as_str),
        }
    }
}

/// What a fetch asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct FetchRequest {
    /// The `cursor` of the last answer that was received, 0 at first.
    pub(super) cursor: i64,
    /// Deliveries at most; 0 sends outcomes and renews.
    pub(super) max: usize,
    /// How long to hold the request while nothing is due.
    pub(super) wait: Duration,
    /// How long the name stays ours after the answer.
    pub(super) lease: Duration,
    /// Outcomes.
    pub(super) commit: Vec<CommitItem>,
}

#[derive(Serialize)]
pub(super) struct FetchBody<'a> {
    #[serde(flatten)]
    who: Who<'a>,
    cursor: i64,
    max: usize,
    wait: f64,
    lease: f64,
    commit: Vec<CommitBody<'a>>,
}

impl<'a> FetchBody<'a> {
    pub(super) fn new(identity: &'a Identity, request: &'a FetchRequest) -> Self {
        Self {
            who: identity.into(),
            cursor: request.cursor,
            max: request.max,
            wait: request.wait.as_secs_f64(),
            lease: request.lease.as_secs_f64(),
            commit: request.commit.iter().map(CommitBody::from).collect(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct CommitRequestBody<'a> {
    #[serde(flatten)]
    who: Who<'a>,
    cursor: i64,
    commit: Vec<CommitBody<'a>>,
}

impl<'a> CommitRequestBody<'a> {
    pub(super) fn new(identity: &'a Identity, cursor: i64, commit: &'a [CommitItem]) -> Self {
        Self {
            who: identity.into(),
            cursor,
            commit: commit.iter().map(CommitBody::from).collect(),
        }
    }
}

#[derive(Serialize)]
struct CommitBody<'a> {
    seq: i64,
    outcome: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
}

impl<'a> From<&'a CommitItem> for CommitBody<'a> {
    fn from(item: &'a CommitItem) -> Self {
        Self {
            seq: item.seq.0,
            outcome: item.outcome.to_string(),
            detail: item.detail.as_deref(),
        }
    }
}

/// Something that an instance publishes.
#[derive(Debug, Clone)]
pub(super) enum Registration {
    /// For whom it works; replaces.
    Actors(Actors),
    /// Which Slack channels belong to which work items; replaces.
    Rooms(Vec<(String, WorkItemRef)>),
    /// It works on a subject.
    Claim(Subject, Role),
    /// It works on a subject no more.
    Release(Subject, Role),
    /// An object belongs to a work item.
    Bind(BindingKey),
    /// An object belongs to a work item no more.
    Unbind(BindingKey),
}

/// The accounts that an instance works for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Actors {
    pub(super) github: Vec<String>,
    pub(super) slack: Vec<String>,
    pub(super) jira: Vec<String>,
}

impl Actors {
    pub(super) const fn of(&mut self, provider: Provider) -> &mut Vec<String> {
        match provider {
            Provider::GitHub => &mut self.github,
            Provider::Jira => &mut self.jira,
            Provider::Slack => &mut self.slack,
        }
    }
}

/// A secondary object and its work item.
#[derive(Debug, Clone)]
pub(super) struct BindingKey {
    pub(super) work_item: WorkItemRef,
    pub(super) provider: Provider,
    pub(super) key: String,
}

#[derive(Serialize)]
pub(super) struct RegistrationBody<'a> {
    #[serde(flatten)]
    who: Who<'a>,
    #[serde(flatten)]
    what: What<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum What<'a> {
    Actors {
        actors: &'a Actors,
    },
    Rooms {
        rooms: Vec<RoomBody<'a>>,
    },
    Claim {
        subject: &'a str,
        role: Role,
    },
    Binding {
        #[serde(rename = "ref")]
        work_item: String,
        provider: Provider,
        key: &'a str,
    },
}

#[derive(Serialize)]
struct RoomBody<'a> {
    channel: &'a str,
    #[serde(rename = "ref")]
    work_item: String,
}

impl<'a> RegistrationBody<'a> {
    pub(super) fn new(identity: &'a Identity, registration: &'a Registration) -> Self {
        let what = match registration {
            Registration::Actors(actors) => What::Actors { actors },
            Registration::Rooms(rooms) => What::Rooms {
                rooms: (rooms.iter())
                    .map(|(channel, work_item)| RoomBody {
                        channel,
                        work_item: work_item.to_string(),
                    })
                    .collect(),
            },
            Registration::Claim(subject, role) | Registration::Release(subject, role) => {
                What::Claim {
                    subject: subject.as_str(),
                    role: *role,
                }
            }
            Registration::Bind(binding) | Registration::Unbind(binding) => What::Binding {
                work_item: binding.work_item.to_string(),
                provider: binding.provider,
                key: &binding.key,
            },
        };
        Self {
            who: identity.into(),
            what,
        }
    }
}

/// What a fetch brought.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fetched {
    pub(super) deliveries: Vec<Delivery>,
    pub(super) cursor: i64,
    pub(super) committed: i64,
    pub(super) lease: LeaseLeft,
    pub(super) poll_after: f64,
}

impl Fetched {
    /// How long to wait before the next fetch, never longer than a minute whatever was said.
    pub(super) fn poll_after(&self) -> Duration {
        const LONGEST: Duration = Duration::from_secs(60);
        let said = Duration::try_from_secs_f64(self.poll_after.max(0.0));
        said.unwrap_or(LONGEST).min(LONGEST)
    }
}

/// What a commit brought.
#[derive(Debug, Deserialize)]
pub(super) struct Committed {
    pub(super) committed: i64,
    pub(super) lease: LeaseLeft,
}

/// The hold on the name.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeaseLeft {
    /// Seconds.
    pub(super) expires_in: f64,
}

/// What a registration set in motion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Routed {
    /// Deliveries made from held events so far.
    pub routed: u64,
    /// True while the rest follows by itself.
    #[serde(default)]
    pub more: bool,
}

/// The body of a refusal.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ErrorBody {
    pub(super) error: String,
    pub(super) message: String,
    pub(super) holder: Option<String>,
    pub(super) since: Option<String>,
    pub(super) fingerprint: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) retry_after: Option<u64>,
    #[serde(default)]
    pub(super) conflicts: Vec<ActorHolder>,
    #[serde(default)]
    pub(super) seqs: Vec<i64>,
}

impl ErrorBody {
    pub(super) fn seqs(&self) -> Vec<Seq> {
        self.seqs.iter().copied().map(Seq).collect()
    }
}

/// An account that another live instance is registered for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ActorHolder {
    /// The provider's word: `github`, `jira` or `slack`.
    pub provider: String,
    /// The account.
    pub actor: String,
    /// The instance that is registered for it.
    pub holder: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{InstanceName, Outcome, PeerId, RunId};

    fn identity() -> Identity {
        Identity {
            instance: InstanceName::parse("laptop").unwrap(),
            peer: Some(PeerId::parse("0f4d").unwrap()),
            run: Some(RunId::parse("7c1e").unwrap()),
        }
    }

    #[test]
    fn a_fetch_says_who_asks_what_came_and_what_became_of_it() {
        let request = FetchRequest {
            cursor: 412,
            max: 64,
            wait: Duration::from_secs(25),
            lease: Duration::from_millis(90_500),
            commit: vec![
                CommitItem {
                    seq: Seq(410),
                    outcome: Outcome::Spawned,
                    detail: None,
                },
                CommitItem {
                    seq: Seq(411),
                    outcome: Outcome::Failed,
                    detail: Some("why".to_owned()),
                },
            ],
        };
        let body = serde_json::to_string(&FetchBody::new(&identity(), &request)).unwrap();
        assert_eq!(
            body,
            r#"{"instance":"laptop","peer":"0f4d","run":"7c1e","cursor":412,"max":64,"wait":25.0,"lease":90.5,"commit":[{"seq":410,"outcome":"spawned"},{"seq":411,"outcome":"failed","detail":"why"}]}"#
        );
    }

    #[test]
    fn each_registration_has_its_fields() {
        let work_item = WorkItemRef::parse("github:octo/repo#15").unwrap();
        let binding = BindingKey {
            work_item: work_item.clone(),
            provider: Provider::Slack,
            key: "C1/1.2".to_owned(),
        };
        let actors = Actors {
            github: vec!["octocat".to_owned()],
            ..Actors::default()
        };
        for (registration, expected) in [
            (
                Registration::Actors(actors),
                r#""actors":{"github":["octocat"],"slack":[],"jira":[]}"#,
            ),
            (
                Registration::Rooms(vec![("C1".to_owned(), work_item.clone())]),
                r#""rooms":[{"channel":"C1","ref":"github:octo/repo#15"}]"#,
            ),
            (
                Registration::Claim(work_item.subject(), Role::Driver),
                r#""subject":"loop-github-octo-repo-15","role":"driver""#,
            ),
            (
                Registration::Bind(binding),
                r#""ref":"github:octo/repo#15","provider":"slack","key":"C1/1.2""#,
            ),
        ] {
            let identity = identity();
            let body = RegistrationBody::new(&identity, &registration);
            assert_eq!(
                serde_json::to_string(&body).unwrap(),
                format!(r#"{{"instance":"laptop","peer":"0f4d","run":"7c1e",{expected}}}"#)
            );
        }
    }

    #[test]
    fn no_answer_makes_the_client_wait_for_longer_than_a_minute() {
        let fetched = |poll_after: f64| Fetched {
            deliveries: Vec::new(),
            cursor: 0,
            committed: 0,
            lease: LeaseLeft { expires_in: 1.0 },
            poll_after,
        };
        for (said, waited) in [(2.5, 2_500), (-1.0, 0), (1e300, 60_000), (f64::NAN, 0)] {
            assert_eq!(fetched(said).poll_after().as_millis(), waited, "{said}");
        }
    }
}
