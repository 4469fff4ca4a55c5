//! The spans that follow a request through the program, as an operator sees them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::program::Home;
use crate::support::Call;
use crate::support::gateway::{comment_on, wait_until};
use the_loop_gateway::providers::signature::sign_github;

const SECRET: &str = "secret-of-the-spans";

fn configured() -> Home {
    let home = Home::new();
    home.write(
        "gateway-config.yaml",
        "version: \"1\"\nenv: {file: the.env}\nstate: {root: state}\nlisten: {port: 0}\n\
         repositories: [octo/repo]\ngithub: {webhook: {enabled: true}}\n",
    );
    home.write("the.env", &format!("THE_LOOP_GH_WEBHOOK_SECRET={SECRET}\n"));
    home
}

/// What the program wrote to standard error while it stored one delivery and was fetched from.
fn diagnostics(filter: &str, format: &str) -> String {
    let home = configured();
    let variables = [("RUST_LOG", filter)];
    let arguments = [
        "--config",
        "gateway-config.yaml",
        "run",
        "--log-format",
        format,
    ];
    let running = home.start_with(&arguments, &variables);
    let line = running.line_with("listening on ");
    let port = line.trim_end().rsplit(':').next().unwrap();
    let port = port.trim_end_matches('/').parse().unwrap();
    let body = comment_on(15, 1, "a text that no diagnostic may hold");
    let call = Call::new(port, "POST", "/gh-webhook")
        .header("X-GitHub-Event", "issue_comment")
        .header("X-GitHub-Delivery", "guid-of-the-spans")
        .header("X-Hub-Signature-256", sign_github(SECRET, body.as_bytes()))
        .header("Content-Type", "application/json")
        .body(&body);
    call.send().assert(202);
    let fetch = serde_json::json!({"instance": "laptop", "peer": "p"});
    let fetch = Call::new(port, "POST", "/api/v1/gateway/fetch").json(&fetch);
    fetch.send().assert(200);
    let ready = Call::new(port, "GET", "/api/v1/gateway/ready");
    wait_until("it is ready", || ready.send().status == 200);
    let ended = running.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!ended.err.contains(SECRET), "a secret");
    assert!(!ended.err.contains("no diagnostic may hold"), "a payload");
    ended.err
}

#[test]
fn a_request_is_followed_into_the_store_and_each_span_tells_how_long_it_took() {
    let text = diagnostics("the_loop_gateway=debug", "json");
    let closed = text
        .lines()
        // What the command says to its user is no diagnostic.
        .filter(|line| line.starts_with('{'))
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        })
        .filter(|record| record["message"] == "close");
    let mut spans: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for record in closed {
        assert!(record["time.busy"].is_string(), "{record}");
        let span = &record["span"];
        let name = span["name"].as_str().unwrap().to_owned();
        spans.entry(name).or_default().push(record);
    }
    let append = &spans["append"][0];
    assert_eq!(append["span"]["delivery_id"], "guid-of-the-spans");
    assert_eq!(append["span"]["kind"], "issue_comment");
    assert_eq!(append["spans"][0]["name"], "request", "within its request");
    assert_eq!(append["spans"][0]["path"], "/gh-webhook");
    assert_eq!(spans["fetch"][0]["span"]["instance"], "laptop");
    let is_answered = |record: &&Value| record["span"]["status"] == 202;
    let request = spans["request"].iter().find(is_answered).unwrap();
    assert_eq!(request["span"]["method"], "POST");
    assert!(
        spans["batch"]
            .iter()
            .all(|batch| batch["span"]["writes"].as_u64() >= Some(1))
    );
}

#[test]
fn on_an_ordinary_day_there_are_no_spans() {
    let text = diagnostics("info", "text");
    assert!(text.contains("listening"), "{text}");
    for span in ["request{", "append{", "batch{", "fetch{", "time.busy"] {
        assert!(!text.contains(span), "{span} in {text}");
    }
}

#[test]
fn spans_can_be_read_by_people_too() {
    let text = diagnostics("the_loop_gateway=debug", "text");
    let line = text.lines().find(|line| line.contains("append{")).unwrap();
    for part in ["request{", "guid-of-the-spans", "time.busy="] {
        assert!(line.contains(part), "{part} in {line}");
    }
}
