use super::*;

fn found(message: &str) -> Result<SlackVerdict, Rejection> {
    let found = Found {
        team: "T1",
        app: Some("A1"),
        channel: "C1",
        message: Verified::by_connection(message),
    };
    caught_up(found, &declared(), Timestamp(7))
}

#[test]
fn a_found_message_is_the_event_that_it_was() {
    let message = r#" { "user": "U1", "type": "message", "ts": "10.1", "thread_ts": "9.9",
        "text": "hi", "n": 1.0 }"#;
    let late = arrival(found(message).unwrap());
    let live = arrival(sent(&outer(&json!({"thread_ts": "9.9"}))));
    assert_eq!(keys(&late), ["slack:T1:msg:C1:10.1"]);
    assert!(live.dedup_keys.contains(&late.dedup_keys[0]));
    assert_eq!(references(&late), references(&live));
    assert_eq!((late.kind, late.actor), (live.kind, live.actor));
    assert_eq!(late.on_unresolved, OnUnresolved::Grace);
    assert_eq!(late.source, Source::Poll);
    assert_eq!(late.delivery_id, "poll-slack-C1-10.1");
    assert!(!late.is_retry);

    let payload = String::from_utf8(late.payload.text().unwrap()).unwrap();
    let outer: Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(outer["type"], "event_callback");
    assert_eq!(
        (&outer["team_id"], &outer["api_app_id"]),
        (&json!("T1"), &json!("A1"))
    );
    assert_eq!(outer["event"]["channel"], "C1");
    assert_eq!(outer["event"]["event_ts"], "10.1");
    assert_eq!(payload.matches("\"type\"").count(), 2, "{payload}");
    assert!(payload.contains("\"n\": 1.0 }"), "{payload}");
}

#[test]
fn a_message_keeps_what_it_says_itself() {
    let message = r#"{"ts": "10.1", "channel": "C9", "event_ts": "10.2", "bot_id": "B1"}"#;
    let late = arrival(found(message).unwrap());
    assert_eq!(keys(&late), ["slack:T1:msg:C9:10.1"]);
    assert_eq!(late.kind, "message");
    let payload = String::from_utf8(late.payload.text().unwrap()).unwrap();
    assert_eq!(payload.matches("\"channel\"").count(), 1, "{payload}");
}

#[test]
fn a_found_heartbeat_is_still_a_heartbeat() {
    let message = r#"{"ts": "1.1", "bot_id": "B1", "text": "the-loop doctor heartbeat 01234567"}"#;
    assert!(matches!(found(message), Ok(SlackVerdict::Heartbeat { .. })));
}

#[test]
fn what_is_no_message_is_refused() {
    for bad in [
        "",
        "[]",
        "{}",
        r#"{"ts": ""}"#,
        r#"{"ts": 1}"#,
        "{\"ts\": \"1.1\"",
    ] {
        assert_eq!(found(bad).unwrap_err(), Rejection::InvalidPayload, "{bad}");
    }
}
