//! What each provider is answered, and what of it is stored.

use serde_json::json;

use crate::support::TestGateway;

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

fn message(ts: &str, text: &str, more: &str) -> String {
    format!(
        "{{\"type\":\"event_callback\",\"team_id\":\"T1\",\"api_app_id\":\"A1\",\
         \"event_id\":\"Ev{ts}\",\"event\":{{\"type\":\"message\",\"channel\":\"C1\",\
         \"user\":\"U1\",\"text\":\"{text}\",\"ts\":\"{ts}\"{more}}}}}"
    )
}

/// A gateway on which the channel C1 is the room of octo/repo#15, which laptop works on.
fn with_room() -> TestGateway {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    let rooms = json!({
        "instance": "laptop",
        "peer": "peer-of-laptop",
        "rooms": [{"channel": "C1", "ref": "github:octo/repo#15"}],
    });
    gateway.api("PUT", "/rooms", &rooms).assert(200);
    gateway
}

#[track_caller]
fn assert_empty(reply: &crate::support::Reply) {
    assert_eq!((reply.status, reply.text().as_str()), (200, ""));
}

#[test]
fn a_slack_message_is_stored_and_answered_with_nothing() {
    let gateway = with_room();
    let body = message("1792332131.000200", "go on", "");
    for _ in 0..2 {
        let call = gateway.slack("events", JSON, &body);
        let retry = call
            .header("X-Slack-Retry-Num", 1)
            .header("X-Slack-Retry-Reason", "timeout");
        assert_empty(&retry.send());
    }
    let answer = gateway.fetch_call("laptop", &json!({})).send();
    assert!(answer.text().contains(&body));
    let event = &answer.json()["deliveries"][0]["event"];
    assert_eq!(
        (&event["kind"], &event["provider"]),
        (&json!("message"), &json!("slack"))
    );
    assert_eq!(event["headers"]["x-slack-retry-num"], "1");
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "duplicate");
}

#[test]
fn a_slack_command_is_stored_as_an_object() {
    let gateway = with_room();
    let body =
        "command=%2Fthe-loop&text=start+it&team_id=T1&channel_id=C1&user_id=U1&trigger_id=1.2.a";
    assert_empty(&gateway.slack("commands", FORM, body).send());
    let answer = gateway.fetch("laptop", &json!({}));
    let event = &answer["deliveries"][0]["event"];
    assert_eq!(event["kind"], "slash_command");
    assert_eq!(event["payload"]["text"], "start it");
}

#[test]
fn a_slack_suggestion_gets_its_options_and_is_not_stored() {
    let gateway = with_room();
    let payload = r#"{"type":"block_suggestion","team":{"id":"T1"},"user":{"id":"U1"}}"#;
    let body: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", payload)
        .finish();
    let reply = gateway.slack("interactions", FORM, &body).send();
    assert_eq!(reply.assert(200), json!({"options": []}));
    assert_eq!(gateway.fetch("laptop", &json!({}))["deliveries"], json!([]));
}

#[test]
fn a_heartbeat_is_recorded_and_not_stored() {
    let gateway = with_room();
    let text = "the-loop doctor heartbeat 0123456789abcdef";
    let body = message("1792332131.000300", text, ",\"bot_id\":\"B1\"");
    assert_empty(&gateway.slack("events", JSON, &body).send());
    let heartbeat = &gateway.wait_for_records("channel.heartbeat", 1)[0];
    assert_eq!(heartbeat["nonce"], "0123456789abcdef");
    assert_eq!(heartbeat["channel_id"], "C1");
    assert_eq!(gateway.fetch("laptop", &json!({}))["deliveries"], json!([]));
}

#[test]
fn a_jira_comment_reaches_the_claimant_of_its_issue() {
    let gateway = TestGateway::start();
    let claim = json!({
        "instance": "laptop",
        "peer": "peer-of-laptop",
        "subject": "loop-jira-acme_atlassian_net-PROJ-1",
        "role": "driver",
    });
    gateway.api("PUT", "/claims", &claim).assert(200);
    let of_site = |site: &str, id: &str| {
        let body = json!({
            "timestamp": 1_792_332_131_000_i64,
            "webhookEvent": "comment_created",
            "comment": {"id": "10082", "author": {"accountId": "5b10"}, "body": "please start"},
            "issue": {
                "id": "10357",
                "key": "PROJ-1",
                "self": format!("https://{site}/rest/api/2/issue/10357"),
                "fields": {"project": {"key": "PROJ"}},
            },
        });
        gateway.jira(id, &body.to_string()).send()
    };
    let accepted = of_site("acme.atlassian.net", "id-1").assert(202);
    assert_eq!(accepted, json!({"status": "accepted"}));
    of_site("other.atlassian.net", "id-2").assert(202);
    let answer = gateway.fetch("laptop", &json!({}));
    assert_eq!(answer["deliveries"].as_array().unwrap().len(), 1);
    assert_eq!(answer["deliveries"][0]["event"]["deliveryId"], "id-1");
    let dropped = gateway.wait_for_records("gateway.dropped", 1);
    assert_eq!(dropped[0]["reason"], "undeclared-project");
}

#[test]
fn what_is_not_ours_is_accepted_dropped_and_recorded() {
    let gateway = TestGateway::start();
    let foreign = json!({
        "action": "opened",
        "issue": {"number": 1},
        "repository": {
            "id": 1, "name": "repo", "full_name": "other/repo", "owner": {"login": "other"},
            "html_url": "https://github.com/other/repo",
        },
    });
    let ping = json!({"zen": "Keep it simple.", "hook_id": 1});
    for (kind, id, body) in [("issues", "1", &foreign), ("ping", "2", &ping)] {
        gateway
            .github(kind, id, &body.to_string())
            .send()
            .assert(202);
    }
    let dropped = gateway.wait_for_records("gateway.dropped", 2);
    assert_eq!(dropped[0]["reason"], "undeclared-repository");
    assert_eq!(dropped[1]["reason"], "no-work-item");
    assert_eq!(gateway.get("/health").assert(200)["store"]["events"], 0);
}
