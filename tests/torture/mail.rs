//! What the senders send: all of it follows from a mark, a number that the payload carries.

use serde_json::json;
use the_loop_gateway::providers::signature::{sign_github, sign_jira, sign_slack};

use crate::support::{Call, comment_on};

pub(crate) const GITHUB_SECRET: &str = "github-secret-of-the-torture";
pub(crate) const JIRA_SECRET: &str = "jira-secret-of-the-torture";
pub(crate) const SLACK_SECRET: &str = "slack-secret-of-the-torture";

/// Work items that events are about.
pub(crate) const ITEMS: u64 = 8;

/// Whose event one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    GitHub,
    Jira,
    Slack,
}

/// One event in the making.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mail {
    pub(crate) mark: u64,
    pub(crate) from: From,
    /// The number of its work item, 1 to [`ITEMS`].
    pub(crate) item: u64,
}

impl Mail {
    /// The event of a mark. Without Slack, whose signatures need the gateway's own time.
    pub(crate) fn of(mark: u64, with_slack: bool) -> Self {
        let mixed = mark.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let from = match mixed % 5 {
            0 => From::Jira,
            1 if with_slack => From::Slack,
            _ => From::GitHub,
        };
        let item = (mixed / 5) % ITEMS + 1;
        Self { mark, from, item }
    }

    /// The one about a work item of the tester's choice.
    pub(crate) const fn about(mark: u64, item: u64) -> Self {
        let from = From::GitHub;
        Self { mark, from, item }
    }

    /// The bytes of the payload.
    pub(crate) fn body(&self) -> String {
        let Self { mark, item, .. } = self;
        let filler = "lorem ipsum ".repeat((mark % 97) as usize);
        let text = format!("mark-{mark} {filler}");
        match self.from {
            From::GitHub => comment_on(*item, *mark, &text),
            From::Jira => json!({
                "webhookEvent": "comment_created",
                "timestamp": mark,
                "issue": {
                    "id": format!("1000{item}"),
                    "key": format!("PROJ-{item}"),
                    "self": format!("https://acme.atlassian.net/rest/api/2/issue/1000{item}"),
                },
                "comment": {"id": mark.to_string(), "body": text, "author": {"accountId": "a-1"}},
            })
            .to_string(),
            From::Slack => json!({
                "type": "event_callback",
                "team_id": "T1",
                "api_app_id": "A1",
                "event_id": self.delivery_id(),
                "event": {
                    "type": "message",
                    "channel": format!("C{item}"),
                    "user": "U1",
                    "ts": format!("{mark}.000100"),
                    "text": text,
                },
            })
            .to_string(),
        }
    }

    /// The provider's id of it.
    pub(crate) fn delivery_id(&self) -> String {
        match self.from {
            From::GitHub | From::Jira => format!("torture-{}", self.mark),
            From::Slack => format!("Ev{}", self.mark),
        }
    }

    /// The signed request.
    pub(crate) fn request(&self, port: u16) -> Call {
        let body = self.body();
        let bytes = body.as_bytes();
        let call = match self.from {
            From::GitHub => Call::new(port, "POST", "/gh-webhook")
                .header("X-GitHub-Event", "issue_comment")
                .header("X-GitHub-Delivery", self.delivery_id())
                .header("X-Hub-Signature-256", sign_github(GITHUB_SECRET, bytes)),
            From::Jira => Call::new(port, "POST", "/jira-webhook")
                .header("X-Atlassian-Webhook-Identifier", self.delivery_id())
                .header("X-Hub-Signature", sign_jira(JIRA_SECRET, bytes)),
            From::Slack => {
                let now = jiff::Timestamp::now().as_second();
                Call::new(port, "POST", "/slack/events")
                    .header("X-Slack-Request-Timestamp", now)
                    .header("X-Slack-Signature", sign_slack(SLACK_SECRET, now, bytes))
            }
        };
        call.header("Content-Type", "application/json").body(body)
    }

    /// What the provider takes for *stored*.
    pub(crate) const fn is_acked_by(&self, status: u16) -> bool {
        match self.from {
            From::GitHub | From::Jira => status == 202,
            From::Slack => status == 200,
        }
    }
}

/// The mark that a payload carries.
pub(crate) fn mark_in(payload: &str) -> u64 {
    let (_, rest) = payload.split_once("mark-").unwrap();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap()
}

/// The subjects of a work item: that of GitHub (and of the Slack channel that is its room) and
/// that of Jira.
pub(crate) fn subjects(item: u64) -> [String; 2] {
    [
        format!("loop-github-octo-repo-{item}"),
        format!("loop-jira-acme_atlassian_net-PROJ-{item}"),
    ]
}
