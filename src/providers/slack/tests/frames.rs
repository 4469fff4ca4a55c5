use super::*;

#[test]
fn a_hello_may_say_nothing_more() {
    assert!(matches!(
        framed(r#"{"type": "hello"}"#),
        Frame::Hello {
            num_connections: None,
            app_id: None,
            approximate_connection_time: None
        }
    ));
    let frame = framed(
        r#"{"type": "hello", "num_connections": 2, "connection_info": {"app_id": "A1"},
            "debug_info": {"approximate_connection_time": 18060}, "envelope_id": "e"}"#,
    );
    let Frame::Hello {
        num_connections,
        app_id,
        approximate_connection_time,
    } = frame
    else {
        panic!("{frame:?}");
    };
    assert_eq!(
        (num_connections, approximate_connection_time),
        (Some(2), Some(18_060))
    );
    assert_eq!(app_id.as_deref(), Some("A1"));
}

#[test]
fn a_disconnect_may_give_no_reason() {
    for (text, expected) in [
        (
            r#"{"type": "disconnect", "reason": "warning", "envelope_id": "e"}"#,
            "warning",
        ),
        (r#"{"type": "disconnect", "reason": 7}"#, ""),
    ] {
        assert!(matches!(framed(text), Frame::Disconnect { reason } if reason == expected));
    }
}

#[test]
fn what_cannot_be_acked_is_ignored() {
    for text in [
        "",
        " ",
        "ping from applink",
        "[]",
        "{",
        "{}",
        r#"{"type": "events_api", "payload": {}}"#,
        r#"{"type": "events_api", "envelope_id": "", "payload": {}}"#,
        r#"{"type": "events_api", "envelope_id": 1, "payload": {}}"#,
    ] {
        assert!(matches!(framed(text), Frame::Ignored), "{text}");
    }
}

#[test]
fn a_malformed_envelope_can_still_be_acked() {
    let without = json!({"type": "events_api", "envelope_id": "e"});
    let found = envelope(&without);
    assert_eq!(found.ack(), r#"{"envelope_id":"e"}"#);
    assert_eq!(reason(found.verdict), DropReason::InvalidPayload);
    for payload in [json!("{}"), json!([]), json!(1), json!(null)] {
        let mut frame = without.clone();
        frame["payload"] = payload;
        assert_eq!(reason(envelope(&frame).verdict), DropReason::InvalidPayload);
    }
    let unknown = json!({"type": "new", "envelope_id": "a\"b", "payload": {}});
    let found = envelope(&unknown);
    assert_eq!(found.kind, "new");
    assert_eq!(found.ack(), r#"{"envelope_id":"a\"b"}"#);
    assert_eq!(reason(found.verdict), DropReason::NoWorkItem);
    let untyped = json!({"envelope_id": "e", "payload": outer(&json!({}))});
    assert_eq!(reason(envelope(&untyped).verdict), DropReason::NoWorkItem);
}

#[test]
fn a_suggestion_is_acked_with_options() {
    for kind in ["block_suggestion", "dialog_suggestion"] {
        let found = envelope(&json!({"type": "interactive", "envelope_id": "e",
            "payload": {"type": kind, "user": {"id": "U1"}}}));
        assert!(matches!(found.verdict, SlackVerdict::Options));
        assert_eq!(
            found.ack(),
            r#"{"envelope_id":"e","payload":{"options":[]}}"#
        );
    }
}

#[test]
fn a_retry_is_one_event_with_the_headers_of_a_retry() {
    let frame = |attempt: u64, reason: &str| {
        envelope(
            &json!({"type": "events_api", "envelope_id": format!("e{attempt}"),
            "payload": outer(&json!({})), "retry_attempt": attempt, "retry_reason": reason}),
        )
    };
    let (first, second) = (frame(0, ""), frame(2, "timeout"));
    assert_eq!((first.retry_attempt, first.retry_reason), (Some(0), None));
    assert_eq!(second.retry_attempt, Some(2));
    let (first, second) = (arrival(first.verdict), arrival(second.verdict));
    assert!(!first.is_retry && second.is_retry);
    assert!(first.headers.is_empty());
    assert_eq!(second.headers[RETRY_NUM], "2");
    assert_eq!(second.headers[RETRY_REASON], "timeout");
    assert_eq!(first.dedup_keys, second.dedup_keys);
    assert_eq!(first.source, Source::Socket);
}

#[test]
fn the_payload_is_cut_out_byte_for_byte() {
    let payload = "{ \"event_id\":\"Ev1\" , \"n\": 1.50e0, \"n\":2, \"s\":\"\\ud800\\/\",\r\n\
                   \"event\": {\"type\":\"message\",\"channel\":\"C1\",\"ts\":\"1.1\"}}";
    let text =
        format!("{{\"payload\" : {payload}  , \"envelope_id\":\"e\",\"type\":\"events_api\"}}");
    let Frame::Envelope(envelope) = framed(&text) else {
        panic!("no envelope");
    };
    let found = arrival(envelope.verdict);
    assert_eq!(found.payload.text().unwrap(), payload.as_bytes());
    assert_eq!(keys(&found), ["slack:-:Ev1", "slack:-:msg:C1:1.1"]);
}

#[test]
fn a_transport_does_not_change_the_event() {
    let body = outer(&json!({"thread_ts": "9.9"}));
    let over_http = arrival(sent(&body));
    let frame = json!({"type": "events_api", "envelope_id": "e", "payload": body});
    let over_socket = arrival(envelope(&frame).verdict);
    assert_eq!(over_http.dedup_keys, over_socket.dedup_keys);
    assert_eq!(over_http.payload, over_socket.payload);
    assert_eq!(references(&over_http), references(&over_socket));
    assert_eq!(over_http.delivery_id, over_socket.delivery_id);
}

#[test]
fn a_heartbeat_comes_over_the_socket_too() {
    let event = json!({"text": "the-loop doctor heartbeat deadbeef", "bot_id": "B1"});
    let found =
        envelope(&json!({"type": "events_api", "envelope_id": "e", "payload": outer(&event)}));
    assert!(matches!(found.verdict, SlackVerdict::Heartbeat { .. }));
    assert_eq!(found.ack(), r#"{"envelope_id":"e"}"#);
}
