//! What bytes are thrown at: plain functions that panic when a promise is broken. They build on
//! any toolchain; `fuzz/fuzz_targets` hands them to libFuzzer.
//!
//! An input is a line of header values, divided by `|`, and behind it the body.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use serde_json::value::RawValue;
use the_loop_gateway::config::{Environment, Search, load};
use the_loop_gateway::domain::{Arrival, OnUnresolved, Timestamp, WorkItemRef};
use the_loop_gateway::http::trial::{Trial, try_commit, try_fetch};
use the_loop_gateway::providers::signature::{
    SlackProof, sign_github, sign_slack, verify_github, verify_slack,
};
use the_loop_gateway::providers::slack::{Found, Frame, SlackVerdict};
use the_loop_gateway::providers::{
    Declared, Rejection, RepositoryPattern, Secrets, Verdict, Verified, github, jira, slack,
};

/// A target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 7] = [
    ("github", github_webhook),
    ("jira", jira_webhook),
    ("slack", slack_request),
    ("slack_frame", slack_frame),
    ("signatures", signatures),
    ("config", config),
    ("consume_bodies", consume_bodies),
];

/// A value that stands where a secret was pasted by mistake.
pub const CANARY: &str = "xoxb-7d1f4a93-canary-b2c8e6";

/// The secrets of the signatures' target.
pub const CURRENT: &str = "current-secret";
const PREVIOUS: &str = "previous-secret";

/// The moment at which everything arrives, in ms and in seconds.
const NOW: Timestamp = Timestamp(1_767_225_600_000);
pub const NOW_S: i64 = NOW.0 / 1_000;

/// A key is a line of an index: nobody can make it long.
const KEY_BYTES_MAX: usize = 1_024;

const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

fn declared() -> Declared {
    let pattern = |text: &str| RepositoryPattern::parse(text).expect("a pattern");
    Declared {
        repositories: ["octo/*", "Codertocat/Hello-World", "ghe.example.com/octo/*"]
            .map(pattern)
            .into(),
        jira_site: Some("acme.atlassian.net".to_owned()),
        jira_projects: ["PROJ".to_owned()].into(),
        rooms: BTreeMap::from([(
            "C1".to_owned(),
            WorkItemRef::parse("github:octo/repo#1").expect("a reference"),
        )]),
    }
}

/// Header values and a body.
fn split<'a, const N: usize>(
    data: &'a [u8],
    names: [&str; N],
) -> (BTreeMap<String, String>, &'a [u8]) {
    let end = data.iter().position(|byte| *byte == b'\n');
    let (line, body) = match end {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (&data[..0], data),
    };
    let line = String::from_utf8_lossy(line);
    let headers = names
        .into_iter()
        .zip(line.split('|'))
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    (headers.collect(), body)
}

/// Whether a body is one JSON object in UTF-8, by another judge than the program's.
fn object_in(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?.trim_matches(JSON_SPACE);
    let is_object = text.starts_with('{') && serde_json::from_str::<&RawValue>(text).is_ok();
    is_object.then_some(text)
}

/// A body that starts as JSON is accepted exactly when it is a JSON object.
fn check_judgement<T>(body: &[u8], read: &Result<T, Rejection>) {
    if body.trim_ascii_start().first() == Some(&b'{') {
        assert_eq!(
            read.is_ok(),
            object_in(body).is_some(),
            "accepted or refused wrongly"
        );
    }
    if let Err(rejection) = read {
        assert_eq!(*rejection, Rejection::InvalidPayload);
    }
}

fn check_arrival(arrival: &Arrival, body: Option<&[u8]>) {
    assert!(!arrival.kind.is_empty() && !arrival.delivery_id.is_empty());
    assert!(!arrival.keys.is_empty() || arrival.on_unresolved == OnUnresolved::ToActor);
    assert!(arrival.kind.chars().count() <= 200);
    assert!(arrival.delivery_id.chars().count() <= 200);
    for key in &arrival.dedup_keys {
        assert!((1..=KEY_BYTES_MAX).contains(&key.text.len()), "{key:?}");
    }
    let text = arrival.payload.text().expect("what was compressed");
    let text = std::str::from_utf8(&text).expect("text");
    assert_eq!(
        object_in(text.as_bytes()),
        Some(text),
        "what is stored is an object"
    );
    if let Some(sent) = body.and_then(object_in) {
        assert_eq!(text, sent, "what is stored is what was sent");
    }
}

/// A delivery of GitHub: `event|id|content type|enterprise host`.
pub fn github_webhook(data: &[u8]) {
    let names = [
        "x-github-event",
        "x-github-delivery",
        "content-type",
        "x-github-enterprise-host",
    ];
    let (headers, body) = split(data, names);
    let proven = Verified::by_connection(body);
    let read = github::parse(&headers, proven, &declared(), NOW);
    check_judgement(body, &read);
    if let Ok(Verdict::Append(arrival)) = read {
        check_arrival(&arrival, Some(body));
    }
    if let Ok(Verdict::Append(arrival)) = github::parse_polled(&headers, proven, &declared(), NOW) {
        check_arrival(&arrival, Some(body));
    }
}

/// A delivery of Jira: `identifier|retry`.
pub fn jira_webhook(data: &[u8]) {
    let names = [
        "x-atlassian-webhook-identifier",
        "x-atlassian-webhook-retry",
    ];
    let (headers, body) = split(data, names);
    let proven = Verified::by_connection(body);
    let read = jira::parse(&headers, proven, &declared(), NOW);
    assert_eq!(
        read.is_ok(),
        object_in(body).is_some(),
        "accepted or refused wrongly"
    );
    if let Ok(Verdict::Append(arrival)) = read {
        check_arrival(&arrival, Some(body));
        assert!(!arrival.dedup_keys.is_empty());
    }
    for item in [
        jira::Polled::Comment,
        jira::Polled::Closure,
        jira::Polled::Presence,
    ] {
        let read = jira::polled(item, proven, "poll-1".to_owned(), &declared(), NOW);
        if let Ok(Verdict::Append(arrival)) = read {
            check_arrival(&arrival, Some(body));
        }
    }
}

/// A request of Slack, or a message that the catch-up finds: `content type|retry number`.
pub fn slack_request(data: &[u8]) {
    let (headers, body) = split(data, ["content-type", "x-slack-retry-num"]);
    let read = slack::parse(&headers, Verified::by_connection(body), &declared(), NOW);
    if !is_empty_challenge(body) {
        check_judgement(body, &read);
    }
    if let Ok(verdict) = read {
        check_slack(&verdict, Some(body));
    }
    if let Ok(text) = std::str::from_utf8(body) {
        let found = Found {
            team: "T1",
            app: Some("A1"),
            channel: "C1",
            message: Verified::by_connection(text),
        };
        if let Ok(verdict) = slack::caught_up(found, &declared(), NOW) {
            check_slack(&verdict, None);
        }
    }
}

/// A test of the URL that says nothing to be said back.
fn is_empty_challenge(body: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    value["type"] == "url_verification" && !value["challenge"].is_string()
}

fn check_slack(verdict: &SlackVerdict, body: Option<&[u8]>) {
    match verdict {
        SlackVerdict::Append(arrival) => {
            check_arrival(arrival, body);
            assert!(!arrival.dedup_keys.is_empty());
        }
        SlackVerdict::Heartbeat { nonce, .. } => {
            let is_hex = |c: char| matches!(c, 'a'..='f' | '0'..='9');
            assert!((8..=32).contains(&nonce.len()) && nonce.chars().all(is_hex));
        }
        SlackVerdict::Drop(_)
        | SlackVerdict::Challenge(_)
        | SlackVerdict::Options
        | SlackVerdict::SslCheck => {}
    }
}

/// A frame of Socket Mode: whatever has an id can be acked, and the ack says that id.
pub fn slack_frame(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let frame = slack::read_frame(Verified::by_connection(text), &declared(), NOW);
    if object_in(data).is_none() {
        assert!(matches!(frame, Frame::Ignored), "no object, and a frame");
    }
    if let Frame::Envelope(envelope) = frame {
        let ack: Value = serde_json::from_str(&envelope.ack()).expect("an ack is JSON");
        assert_eq!(ack["envelope_id"], envelope.envelope_id.as_str());
        check_slack(&envelope.verdict, None);
    }
}

/// `signature|timestamp` and a body: accepted only with the signature of a live secret.
pub fn signatures(data: &[u8]) {
    let (headers, body) = split(data, ["signature", "timestamp"]);
    let secrets = Secrets::new(CURRENT.to_owned(), Some(PREVIOUS.to_owned())).expect("secrets");
    let signature = headers.get("signature").map(String::as_str);
    let proof = signature.map(str::as_bytes);
    let is_signed = [CURRENT, PREVIOUS]
        .iter()
        .any(|secret| signature == Some(sign_github(secret, body).as_str()));
    assert_eq!(verify_github(&secrets, proof, body).is_ok(), is_signed);
    let timestamp = headers.get("timestamp").map(String::as_str);
    let proof = SlackProof {
        signature: proof,
        timestamp: timestamp.map(str::as_bytes),
    };
    let is_accepted = verify_slack(&secrets, proof, body, NOW).is_ok();
    let moment = timestamp.and_then(|text| text.parse::<i64>().ok());
    let is_recent = moment.is_some_and(|moment| NOW_S.abs_diff(moment) <= 300);
    assert!(!is_accepted || is_recent, "{timestamp:?}");
    // Of one moment there is one spelling that the signer writes.
    if let Some(moment) = moment.filter(|moment| Some(moment.to_string().as_str()) == timestamp) {
        let is_signed = [CURRENT, PREVIOUS]
            .iter()
            .any(|secret| signature == Some(sign_slack(secret, moment, body).as_str()));
        assert_eq!(is_accepted, is_signed && is_recent);
    }
}

struct Scratch {
    _directory: tempfile::TempDir,
    config: PathBuf,
    env: PathBuf,
}

thread_local! {
    static SCRATCH: RefCell<Option<Scratch>> = const { RefCell::new(None) };
}

/// A config file, and behind a NUL its env file: loaded or refused, but never quoted.
pub fn config(data: &[u8]) {
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (text, env) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    SCRATCH.with_borrow_mut(|scratch| {
        let scratch = scratch.get_or_insert_with(|| {
            let directory = tempfile::tempdir().expect("a directory");
            Scratch {
                config: directory.path().join("gateway-config.yaml"),
                env: directory.path().join("the-loop.env"),
                _directory: directory,
            }
        });
        std::fs::write(&scratch.config, text).expect("room");
        std::fs::write(&scratch.env, env).expect("room");
        let search = Search {
            explicit: Some(scratch.config.clone()),
            directory: scratch.config.parent().expect("a parent").to_owned(),
        };
        let environment = Environment::given([("HOME", "/nowhere")]);
        match load(&search, &environment) {
            Ok(loaded) => {
                let config = &loaded.config;
                assert!(config.store_path.starts_with(&config.state_root));
                // A path is named in full, whatever it is.
                let is_in_path = format!("{:?}", config.env_file).contains(CANARY);
                let warnings: String = (loaded.warnings.iter())
                    .map(|warning| format!("{warning} {warning:?}"))
                    .collect();
                assert!(is_in_path || !warnings.contains(CANARY), "{warnings}");
            }
            Err(error) => {
                let said = format!("{error} {error:?}");
                assert!(!said.contains(CANARY), "{said}");
            }
        }
    });
}

/// The body of a fetch or a commit: read, or refused by the names of its fields.
pub fn consume_bodies(data: &[u8]) {
    for (route, trial) in [("fetch", try_fetch(data)), ("commit", try_commit(data))] {
        match trial {
            Trial::Request { outcomes } => assert!(outcomes <= 10_000),
            Trial::InvalidPayload => {
                // Nesting ends at 128 here: nothing that is read of a request is so deep.
                let value: Result<Value, _> = serde_json::from_slice(data);
                assert!(
                    !value.is_ok_and(|value| value.is_object()),
                    "an object is refused"
                );
            }
            Trial::InvalidFields(paths) => {
                assert!(!paths.is_empty() && paths.len() <= 100);
                let is_ours = |c: char| c.is_ascii_alphanumeric() || "[].".contains(c);
                assert!(
                    paths.iter().all(|path| path.chars().all(is_ours)),
                    "{paths:?}"
                );
            }
            Trial::Other => panic!("{route} is refused for a reason that no body has"),
        }
    }
}
