//! Every payload of the corpus, from its signature or frame to its verdict.

use std::collections::BTreeMap;

use super::*;
use crate::providers::expectations::{Row, damaged, rows, sorted};
use crate::providers::signature::{Secrets, SlackProof, sign_slack, verify_slack};

const SECRET: &str = "corpus";
const NOW_S: i64 = 1_700_000_000;

fn content_type(file: &str) -> &'static str {
    match file.rsplit_once('.') {
        Some((_, "txt")) => "application/x-www-form-urlencoded",
        _ => "application/json",
    }
}

fn sent(bytes: &[u8], content_type: &str) -> Result<SlackVerdict, Rejection> {
    let secrets = Secrets::new(SECRET.to_owned(), None).unwrap();
    let signature = sign_slack(SECRET, NOW_S, bytes);
    let timestamp = NOW_S.to_string();
    let proof = SlackProof {
        signature: Some(signature.as_bytes()),
        timestamp: Some(timestamp.as_bytes()),
    };
    let now = Timestamp(NOW_S * 1000);
    let (body, _) = verify_slack(&secrets, proof, bytes, now).unwrap();
    let headers = BTreeMap::from([("content-type".to_owned(), content_type.to_owned())]);
    parse(&headers, body, &Declared::default(), now)
}

fn framed(text: &str) -> Frame {
    read_frame(
        Verified::by_connection(text),
        &Declared::default(),
        Timestamp(0),
    )
}

/// The place that the references of an arrival give away.
fn place_in(arrival: &Arrival) -> [Option<String>; 3] {
    let mut place = [None, None, None];
    for reference in &arrival.keys {
        match reference {
            Reference::Room { channel } => place[1] = Some(channel.clone()),
            Reference::Bound { key, .. } => {
                let parts: Vec<&str> = key.split('/').collect();
                match parts.as_slice() {
                    [team, _, _] if place[0].is_none() => place[0] = Some((*team).to_owned()),
                    [thread] => place[2] = Some((*thread).to_owned()),
                    _ => {}
                }
            }
            Reference::Direct(_) | Reference::Commit { .. } | Reference::DeclaredRoom(_) => {
                panic!("{reference:?}")
            }
        }
    }
    place
}

fn check_arrival(row: &Row, arrival: &Arrival, text: &str) {
    let file = row.file();
    let outcome = match arrival.on_unresolved {
        OnUnresolved::Grace => ("grace", None),
        OnUnresolved::ToActor => ("by-actor", None),
        OnUnresolved::Drop(reason) => ("dropped", Some(reason.as_str())),
    };
    assert_eq!(
        (row.get("outcome").unwrap(), row.get("reason")),
        outcome,
        "{file}"
    );
    assert_eq!(row.get("kind").unwrap_or_default(), arrival.kind, "{file}");
    assert_eq!(
        row.get("user"),
        arrival.actor.as_ref().map(|actor| actor.name.as_str()),
        "{file}"
    );
    assert_eq!(arrival.payload.text().unwrap(), text.as_bytes(), "{file}");
    let [team, channel, thread] = place_in(arrival);
    assert_eq!(row.get("channel"), channel.as_deref(), "{file}");
    assert_eq!(row.get("thread_ts"), thread.as_deref(), "{file}");
    if let Some(team) = team {
        assert_eq!(row.get("team"), Some(&*team), "{file}");
    }
    if outcome.0 != "dropped" {
        let body = Body::read(text).unwrap();
        let app = body
            .app()
            .unwrap_or_else(|| row.get("team").unwrap_or("-").to_owned().into());
        let hash = format!("slack:{app}:sha256:{}", digest::sha256(text.as_bytes()));
        let keys = sorted(arrival.dedup_keys.iter().map(|key| key.text.clone()));
        assert_eq!(keys, row.keys(&hash), "{file}");
    }
}

fn check(row: &Row, verdict: &SlackVerdict, text: &str) {
    let file = row.file();
    match verdict {
        SlackVerdict::Append(arrival) => check_arrival(row, arrival, text),
        SlackVerdict::Drop(dropped) => {
            assert_eq!(row.get("outcome"), Some("dropped"), "{file}");
            assert_eq!(row.get("reason"), Some(dropped.reason.as_str()), "{file}");
            assert_eq!(row.get("kind").unwrap_or_default(), dropped.kind, "{file}");
            assert_eq!(row.get("channel"), None, "{file}");
        }
        SlackVerdict::Challenge(_)
        | SlackVerdict::Options
        | SlackVerdict::SslCheck
        | SlackVerdict::Heartbeat { .. } => assert_eq!(row.get("outcome"), Some("none"), "{file}"),
    }
}

/// The JSON text that is stored of a request's body.
fn stored_text(bytes: &[u8], file: &str) -> String {
    let text = recognise::payload_in(Some(content_type(file)), bytes);
    text.map_or_else(|_| String::new(), std::borrow::Cow::into_owned)
}

#[test]
fn every_request_becomes_what_its_row_says() {
    for (row, bytes) in rows("slack_http") {
        let file = row.file();
        let verdict = sent(&bytes, content_type(file)).unwrap();
        check(&row, &verdict, &stored_text(&bytes, file));
        let answer = match &verdict {
            SlackVerdict::Challenge(_) => "challenge",
            SlackVerdict::Options => "options",
            SlackVerdict::Append(_)
            | SlackVerdict::Drop(_)
            | SlackVerdict::SslCheck
            | SlackVerdict::Heartbeat { .. } => "empty",
        };
        assert_eq!(row.get("answer"), Some(answer), "{file}");
        let is_ssl_check = is_ssl_check(Some(content_type(file)), &bytes);
        assert_eq!(
            is_ssl_check,
            matches!(verdict, SlackVerdict::SslCheck),
            "{file}"
        );
    }
}

#[test]
fn every_frame_becomes_what_its_row_says() {
    for (row, bytes) in rows("slack_socket") {
        let text = std::str::from_utf8(&bytes).unwrap();
        let file = row.file();
        let frame = match framed(text) {
            Frame::Hello { app_id, .. } => {
                assert_eq!(app_id.as_deref(), Some("A111"));
                "hello"
            }
            Frame::Disconnect { reason } => {
                assert!(file.contains(&reason));
                "disconnect"
            }
            Frame::Envelope(envelope) => {
                let json: serde_json::Value = serde_json::from_str(text).unwrap();
                assert_eq!(json["envelope_id"], *envelope.envelope_id);
                let ack: serde_json::Value = serde_json::from_str(&envelope.ack()).unwrap();
                assert_eq!(
                    ack,
                    serde_json::json!({"envelope_id": envelope.envelope_id})
                );
                check(&row, &envelope.verdict, payload_of(text));
                "envelope"
            }
            Frame::Ignored => "ignored",
        };
        assert_eq!(row.get("frame"), Some(frame), "{file}");
    }
}

/// The payload of an envelope, cut out by another reader than the one under test.
fn payload_of(frame: &str) -> &str {
    #[derive(serde::Deserialize)]
    struct Cut<'a> {
        #[serde(borrow)]
        payload: &'a serde_json::value::RawValue,
    }
    serde_json::from_str::<Cut<'_>>(frame)
        .unwrap()
        .payload
        .get()
}

#[test]
fn a_form_with_the_same_payload_is_read_alike() {
    for (row, bytes) in rows("slack_http") {
        let file = row.file();
        if content_type(file) != "application/json" {
            continue;
        }
        let text = std::str::from_utf8(&bytes).unwrap();
        let pairs = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", text)
            .finish();
        let (plain, form) = (
            sent(&bytes, "application/json"),
            sent(pairs.as_bytes(), "application/x-www-form-urlencoded"),
        );
        if let (Ok(SlackVerdict::Append(plain)), Ok(SlackVerdict::Append(form))) = (plain, form) {
            assert_eq!(plain.dedup_keys, form.dedup_keys, "{file}");
            assert_eq!(plain.payload, form.payload, "{file}");
        }
    }
}

#[test]
fn no_damage_makes_a_request_panic_or_lose_the_text() {
    for (row, bytes) in rows("slack_http") {
        let text = stored_text(&bytes, row.file());
        if text.is_empty() {
            continue;
        }
        for text in damaged(&text) {
            if let Ok(SlackVerdict::Append(arrival)) = sent(text.as_bytes(), "application/json") {
                assert_eq!(arrival.payload.text().unwrap(), text.as_bytes());
                assert!(!arrival.dedup_keys.is_empty());
            }
        }
    }
}

#[test]
fn no_damage_makes_a_frame_panic_or_an_envelope_unackable() {
    for (_, bytes) in rows("slack_socket") {
        for text in damaged(std::str::from_utf8(&bytes).unwrap()) {
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let id = json["envelope_id"]
                .as_str()
                .filter(|id| !id.trim().is_empty());
            let is_link_frame = ["hello", "disconnect"]
                .iter()
                .any(|kind| json["type"] == **kind);
            let Some(id) = id.filter(|_| !is_link_frame) else {
                continue;
            };
            let Frame::Envelope(envelope) = framed(&text) else {
                panic!("cannot be acked: {text}");
            };
            assert_eq!(envelope.envelope_id, id);
        }
    }
}
