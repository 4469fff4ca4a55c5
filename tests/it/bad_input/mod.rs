//! Bodies that are broken, odd or too large, on every route that takes them: a refusal or a
//! delivery, never a failure, and what is stored comes out as it came.

mod bodies;
mod fields;
mod json;
mod sizes;

use the_loop_gateway::domain::Clock;
use the_loop_gateway::providers::signature::{sign_github, sign_jira, sign_slack};

use crate::support::gateway::{GITHUB_SECRET, JIRA_SECRET, SLACK_SECRET};
use crate::support::{Call, Consumer, TestGateway};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const MIB: usize = 1024 * 1024;

/// A route that takes JSON, and how it is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    GitHub,
    Jira,
    SlackEvents,
    SlackInteractions,
}

const ROUTES: [Route; 4] = [
    Route::GitHub,
    Route::Jira,
    Route::SlackEvents,
    Route::SlackInteractions,
];

impl Route {
    /// A signed request with any bytes.
    fn call(self, gateway: &TestGateway, content_type: &str, id: &str, body: &[u8]) -> Call {
        let now = gateway.clock.now().0.div_euclid(1000);
        let post = |target| {
            Call::new(gateway.ingress_port, "POST", target)
                .header("Content-Type", content_type)
                .body(body)
        };
        let slack = |target| {
            post(target)
                .header("X-Slack-Request-Timestamp", now)
                .header("X-Slack-Signature", sign_slack(SLACK_SECRET, now, body))
        };
        match self {
            Self::GitHub => post("/gh-webhook")
                .header("X-GitHub-Event", "issue_comment")
                .header("X-GitHub-Delivery", id)
                .header("X-Hub-Signature-256", sign_github(GITHUB_SECRET, body)),
            Self::Jira => post("/jira-webhook")
                .header("X-Atlassian-Webhook-Identifier", id)
                .header("X-Hub-Signature", sign_jira(JIRA_SECRET, body)),
            Self::SlackEvents => slack("/slack/events"),
            Self::SlackInteractions => slack("/slack/interactions"),
        }
    }

    /// A payload that is stored, with more members at its end.
    fn payload(self, id: u64, more: &str) -> String {
        let payload = match self {
            Self::GitHub => format!(
                r#"{{"action":"created","issue":{{"number":15}},"comment":{{"id":{id},"user":{{"login":"ada"}}}},"repository":{{"id":77,"full_name":"octo/repo","html_url":"https://github.com/octo/repo"}},"sender":{{"login":"octocat"}}"#
            ),
            Self::Jira => format!(
                r#"{{"webhookEvent":"comment_created","comment":{{"id":"{id}","author":{{"accountId":"octocat"}}}},"issue":{{"id":"1","key":"PROJ-1","self":"https://acme.atlassian.net/rest/api/2/issue/1"}}"#
            ),
            Self::SlackEvents => format!(
                r#"{{"type":"event_callback","team_id":"T1","api_app_id":"A1","event_id":"Ev{id}","event":{{"type":"message","channel":"C1","user":"octocat","ts":"1792332131.{id:06}","thread_ts":"1792332000.000100"}}"#
            ),
            Self::SlackInteractions => format!(
                r#"{{"type":"block_actions","team":{{"id":"T1"}},"user":{{"id":"octocat"}},"trigger_id":"{id}.2.a0","container":{{"channel_id":"C1","thread_ts":"1792332000.000100","message_ts":"1792332000.000100"}}"#
            ),
        };
        format!("{payload}{more}}}")
    }

    /// What success is answered with.
    const fn success(self) -> u16 {
        match self {
            Self::GitHub | Self::Jira => 202,
            Self::SlackEvents | Self::SlackInteractions => 200,
        }
    }
}

/// A form whose `payload` is this, or the JSON itself.
fn encoded(payload: &str) -> String {
    form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", payload)
        .finish()
}

/// A gateway where what [`Route::payload`] makes reaches `laptop`.
fn gateway() -> TestGateway {
    let gateway = TestGateway::start();
    let laptop = Consumer::new("laptop");
    for subject in [
        "loop-github-octo-repo-15",
        "loop-jira-acme_atlassian_net-PROJ-1",
    ] {
        let claim = serde_json::json!({"subject": subject, "role": "driver"});
        laptop.put(&gateway, "/claims", &claim).assert(200);
    }
    let binding = laptop.body(&serde_json::json!({
        "ref": "github:octo/repo#15",
        "provider": "slack",
        "key": "C1/1792332000.000100",
    }));
    gateway.api("POST", "/bindings", &binding).assert(200);
    gateway
}

/// Fails unless all that is handed out next is this payload, byte for byte.
#[track_caller]
fn assert_next(gateway: &TestGateway, laptop: &mut Consumer, payload: &str) {
    let call = laptop.fetch_call(gateway, &serde_json::json!({}));
    let reply = call.send();
    assert_eq!(reply.status, 200);
    let text = reply.text();
    let embedded = format!("\"payload\":{payload},\"attempt\":1}}}}],\"cursor\":");
    assert!(
        text.contains(&embedded),
        "{} is not in {}",
        &payload[..payload.len().min(400)],
        &text[..text.len().min(1_000)]
    );
    let (_, after) = text.rsplit_once("\"cursor\":").unwrap();
    let cursor = after.split(',').next().unwrap().parse().unwrap();
    laptop.cursor = Some(cursor);
    let (_, seq) = text.split_once("\"seq\":").unwrap();
    let seq = seq.split(',').next().unwrap().parse().unwrap();
    laptop.commit(gateway, &[(seq, "delivered")]).assert(200);
}
