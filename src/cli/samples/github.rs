//! Samples of what GitHub sends.
//!
//! A pull request's sample and those of its checks share one commit, so a status finds the pull
//! request that was sent before it.

use serde_json::{Value, json};

use super::Sample;
use crate::digest::sha256_hex;

/// What a sample is about.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Scene {
    /// `host[:port]`; `github.com` as a rule.
    pub(in crate::cli) host: String,
    /// The owner of the repository.
    pub(in crate::cli) owner: String,
    /// The repository.
    pub(in crate::cli) repo: String,
    /// The issue or pull request.
    pub(in crate::cli) number: u64,
    /// The login of whoever does it.
    pub(in crate::cli) actor: String,
    /// What a comment says.
    pub(in crate::cli) text: String,
    /// When it happens: RFC 3339 in UTC, whole seconds.
    pub(in crate::cli) now: String,
    /// The number of the comment, review or check: a new one is a new event.
    pub(in crate::cli) id: u64,
}

impl Scene {
    fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.repo)
    }

    fn url(&self) -> String {
        format!("https://{}/{}", self.host, self.full_name())
    }

    /// A number that stays the repository's.
    fn repository_id(&self) -> u64 {
        let digest = sha256_hex(self.url().to_ascii_lowercase().as_bytes());
        digest
            .get(..8)
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .unwrap_or(1)
    }

    /// The head commit, always the same one for a pull request.
    fn head_sha(&self) -> String {
        let mut digest = sha256_hex(format!("{}#{}", self.url(), self.number).as_bytes());
        digest.truncate(40);
        digest
    }

    fn repository(&self) -> Value {
        json!({
            "id": self.repository_id(),
            "name": self.repo,
            "full_name": self.full_name(),
            "private": false,
            "owner": {"login": self.owner, "type": "Organization"},
            "html_url": self.url(),
            "default_branch": "main",
        })
    }

    fn user(&self) -> Value {
        json!({"login": self.actor, "id": 1, "type": "User"})
    }

    fn issue(&self) -> Value {
        json!({
            "id": self.repository_id().saturating_add(self.number),
            "number": self.number,
            "title": "Sort the list",
            "body": "The list on the first page has no order.",
            "state": "open",
            "user": self.user(),
            "labels": [],
            "html_url": format!("{}/issues/{}", self.url(), self.number),
            "created_at": self.now,
            "updated_at": self.now,
            "closed_at": null,
        })
    }

    fn pull_request(&self) -> Value {
        json!({
            "id": self.repository_id().saturating_add(self.number),
            "number": self.number,
            "title": "Sort the list",
            "body": "Sorts the list by name.",
            "state": "open",
            "draft": false,
            "merged": false,
            "user": self.user(),
            "labels": [],
            "html_url": format!("{}/pull/{}", self.url(), self.number),
            "head": {"ref": "sort-the-list", "sha": self.head_sha()},
            "base": {"ref": "main", "repo": {"id": self.repository_id()}},
            "created_at": self.now,
            "updated_at": self.now,
            "closed_at": null,
        })
    }

    fn comment(&self) -> Value {
        json!({
            "id": self.id,
            "body": self.text,
            "user": self.user(),
            "html_url": format!("{}/issues/{}#issuecomment-{}", self.url(), self.number, self.id),
            "created_at": self.now,
            "updated_at": self.now,
        })
    }

    fn review(&self) -> Value {
        json!({
            "id": self.id,
            "body": self.text,
            "state": "changes_requested",
            "user": self.user(),
            "submitted_at": self.now,
        })
    }

    /// What a check or workflow says of itself; `pull_requests` as GitHub lists them.
    fn run(&self, name: &str) -> Value {
        json!({
            "id": self.id,
            "name": name,
            "status": "completed",
            "conclusion": "failure",
            "head_branch": "sort-the-list",
            "head_sha": self.head_sha(),
            "run_attempt": 1,
            "started_at": self.now,
            "completed_at": self.now,
            "updated_at": self.now,
            "pull_requests": [
                {"number": self.number, "base": {"repo": {"id": self.repository_id()}}}
            ],
        })
    }

    /// A payload: some fields, and those that every event of a repository has.
    fn event(&self, action: Option<&str>, fields: Value) -> Value {
        let mut payload = json!({"repository": self.repository(), "sender": self.user()});
        if let (Some(payload), Value::Object(fields)) = (payload.as_object_mut(), fields) {
            payload.extend(action.map(|action| ("action".to_owned(), action.into())));
            payload.extend(fields);
        }
        payload
    }
}

/// The sample that shows best what happens.
pub(in crate::cli) const ISSUE_COMMENT: Sample<Scene> = Sample {
    name: "issue_comment",
    about: "somebody comments on an issue",
    payload: |scene| {
        let fields = json!({"issue": scene.issue(), "comment": scene.comment()});
        scene.event(Some("created"), fields)
    },
};

/// All GitHub samples: each kind that names a work item, and two that name none.
pub(in crate::cli) const GITHUB: &[Sample<Scene>] = &[
    Sample {
        name: "issues",
        about: "an issue is opened",
        payload: |scene| scene.event(Some("opened"), json!({"issue": scene.issue()})),
    },
    ISSUE_COMMENT,
    Sample {
        name: "pull_request",
        about: "a pull request is opened",
        payload: |scene| {
            let fields = json!({"number": scene.number, "pull_request": scene.pull_request()});
            scene.event(Some("opened"), fields)
        },
    },
    Sample {
        name: "pull_request_review",
        about: "a review asks for changes",
        payload: |scene| {
            let fields = json!({"pull_request": scene.pull_request(), "review": scene.review()});
            scene.event(Some("submitted"), fields)
        },
    },
    Sample {
        name: "pull_request_review_comment",
        about: "a review comments on a line",
        payload: |scene| {
            let fields = json!({"pull_request": scene.pull_request(), "comment": scene.comment()});
            scene.event(Some("created"), fields)
        },
    },
    Sample {
        name: "pull_request_review_thread",
        about: "a thread of a review is resolved",
        payload: |scene| {
            let thread = json!({"comments": [scene.comment()]});
            let fields = json!({"pull_request": scene.pull_request(), "thread": thread});
            scene.event(Some("resolved"), fields)
        },
    },
    Sample {
        name: "check_run",
        about: "a check of a pull request fails",
        payload: |scene| scene.event(Some("completed"), json!({"check_run": scene.run("tests")})),
    },
    Sample {
        name: "check_suite",
        about: "all checks of a pull request end",
        payload: |scene| scene.event(Some("completed"), json!({"check_suite": scene.run("ci")})),
    },
    Sample {
        name: "workflow_run",
        about: "a workflow of a pull request fails",
        payload: |scene| scene.event(Some("completed"), json!({"workflow_run": scene.run("ci")})),
    },
    Sample {
        name: "workflow_job",
        about: "a job fails; it names only the commit",
        payload: |scene| {
            let mut job = scene.run("tests");
            if let Some(job) = job.as_object_mut() {
                job.remove("pull_requests");
            }
            scene.event(Some("completed"), json!({"workflow_job": job}))
        },
    },
    Sample {
        name: "status",
        about: "a commit status; it names only the commit",
        payload: |scene| {
            let fields = json!({
                "id": scene.id,
                "sha": scene.head_sha(),
                "state": "failure",
                "context": "ci/tests",
                "updated_at": scene.now,
            });
            scene.event(None, fields)
        },
    },
    Sample {
        name: "push",
        about: "a push, which names no work item: accepted, not stored",
        payload: |scene| {
            let fields =
                json!({"ref": "refs/heads/main", "after": scene.head_sha(), "commits": []});
            scene.event(None, fields)
        },
    },
    Sample {
        name: "ping",
        about: "what GitHub sends when a hook is made: accepted, not stored",
        payload: |scene| {
            let fields = json!({"zen": "Keep it logically awesome.", "hook_id": scene.id});
            scene.event(None, fields)
        },
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::domain::{Arrival, Reference, Timestamp};
    use crate::providers::signature::{sign_github, verify_github};
    use crate::providers::{Declared, RepositoryPattern, Secrets, Verdict, github};

    fn scene() -> Scene {
        Scene {
            host: "github.com".to_owned(),
            owner: "octo".to_owned(),
            repo: "repo".to_owned(),
            number: 15,
            actor: "octocat".to_owned(),
            text: "please start".to_owned(),
            now: "2026-10-18T14:02:11Z".to_owned(),
            id: 9001,
        }
    }

    fn parsed(sample: &Sample<Scene>, scene: &Scene) -> Verdict {
        let body = sample.bytes(scene);
        let secrets = Secrets::new("secret".to_owned(), None).unwrap();
        let signature = sign_github("secret", &body);
        let (verified, _) = verify_github(&secrets, Some(signature.as_bytes()), body).unwrap();
        let headers: BTreeMap<String, String> = [
            ("x-github-event", sample.name),
            ("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"),
            ("content-type", "application/json"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let declared = Declared {
            repositories: vec![
                RepositoryPattern::parse("octo/repo").unwrap(),
                RepositoryPattern::parse("ghe.corp.example:8443/octo/*").unwrap(),
            ],
            ..Declared::default()
        };
        github::parse(&headers, verified.as_bytes(), &declared, Timestamp(0)).unwrap()
    }

    fn arrival(sample: &Sample<Scene>, scene: &Scene) -> Arrival {
        match parsed(sample, scene) {
            Verdict::Append(arrival) => *arrival,
            Verdict::Drop(dropped) => panic!("{}: {dropped:?}", sample.name),
        }
    }

    #[test]
    fn each_sample_names_the_work_item_of_its_scene_but_push_and_ping() {
        for sample in GITHUB {
            if matches!(sample.name, "push" | "ping") {
                assert!(
                    matches!(parsed(sample, &scene()), Verdict::Drop(_)),
                    "{}",
                    sample.name
                );
                continue;
            }
            let arrival = arrival(sample, &scene());
            let named = match arrival.keys.as_slice() {
                [Reference::Direct(item)] => item.to_string(),
                [Reference::Commit { repository, sha }] => {
                    assert_eq!(
                        (repository.as_str(), sha),
                        ("github.com/octo/repo", &scene().head_sha())
                    );
                    "the commit".to_owned()
                }
                other => panic!("{}: {other:?}", sample.name),
            };
            let expected = match sample.name {
                "workflow_job" | "status" => "the commit",
                _ => "github:octo/repo#15",
            };
            assert_eq!(named, expected, "{}", sample.name);
            assert_eq!(arrival.kind, sample.name);
        }
    }

    #[test]
    fn the_pull_requests_sample_teaches_the_commit_that_the_checks_name() {
        let opened = arrival(Sample::of(GITHUB, "pull_request").unwrap(), &scene());
        let learned = opened.learns.first().unwrap();
        assert_eq!(learned.sha, scene().head_sha());
        assert_eq!(learned.pull_request.to_string(), "github:octo/repo#15");
    }

    #[test]
    fn a_sample_of_an_enterprise_server_names_its_host() {
        let scene = Scene {
            host: "ghe.corp.example:8443".to_owned(),
            ..scene()
        };
        let arrival = arrival(Sample::of(GITHUB, "issue_comment").unwrap(), &scene);
        assert!(matches!(
            arrival.keys.as_slice(),
            [Reference::Direct(item)] if item.to_string() == "github:ghe.corp.example:8443/octo/repo#15"
        ));
        assert_eq!(arrival.actor.unwrap().name, "octocat");
    }

    #[test]
    fn a_sample_with_another_id_is_another_event() {
        for event in [
            "issue_comment",
            "pull_request_review",
            "check_run",
            "status",
        ] {
            let sample = Sample::of(GITHUB, event).unwrap();
            let one = arrival(sample, &scene()).dedup_keys;
            let two = arrival(
                sample,
                &Scene {
                    id: 9002,
                    ..scene()
                },
            )
            .dedup_keys;
            assert_ne!(one.last(), two.last(), "{event}");
        }
    }

    #[test]
    fn every_sample_is_listed_once() {
        for sample in GITHUB {
            assert_eq!(
                GITHUB
                    .iter()
                    .filter(|other| other.name == sample.name)
                    .count(),
                1
            );
        }
        assert!(Sample::of(GITHUB, "nonsense").is_none());
    }
}
