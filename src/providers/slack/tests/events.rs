use super::*;

#[test]
fn a_message_is_looked_for_from_its_thread_to_its_room() {
    let found = arrival(sent(&outer(
        &json!({"channel": "CROOM", "thread_ts": "9.9"}),
    )));
    assert_eq!(
        references(&found),
        [
            "T1/CROOM/9.9",
            "CROOM/9.9",
            "9.9",
            "room CROOM",
            "declared github:octo/repo#1"
        ]
    );
    assert_eq!(keys(&found), ["slack:A1:Ev1", "slack:T1:msg:CROOM:10.1"]);
    assert_eq!(
        found.dedup_keys[0],
        DedupKey::delivery("slack:A1:Ev1".to_owned())
    );
    assert_eq!(found.on_unresolved, OnUnresolved::Grace);
    assert_eq!(found.delivery_id, "Ev1");
}

#[test]
fn a_shared_channel_is_known_by_both_teams() {
    let mut body = outer(&json!({}));
    body["team_id"] = json!("T-sender");
    body["authorizations"] = json!([{"team_id": "T1"}, {"team_id": "T2"}]);
    let found = arrival(sent(&body));
    assert_eq!(
        references(&found),
        [
            "T-sender/C1/10.1",
            "T1/C1/10.1",
            "C1/10.1",
            "10.1",
            "room C1"
        ]
    );
    assert_eq!(
        keys(&found),
        [
            "slack:A1:Ev1",
            "slack:T-sender:msg:C1:10.1",
            "slack:T1:msg:C1:10.1"
        ]
    );
}

#[test]
fn an_edit_a_deletion_and_a_reaction_belong_to_the_thread_of_their_message() {
    for (event, thread) in [
        (
            json!({"subtype": "message_changed", "message": {"ts": "5.5", "thread_ts": "4.4"}}),
            "4.4",
        ),
        (
            json!({"subtype": "message_changed", "previous_message": {"ts": "5.5"}}),
            "5.5",
        ),
        (
            json!({"subtype": "message_deleted", "previous_message": {"thread_ts": "3.3"},
                "deleted_ts": "5.5"}),
            "3.3",
        ),
        (
            json!({"subtype": "message_deleted", "deleted_ts": "5.5"}),
            "5.5",
        ),
        (
            json!({"type": "reaction_added", "channel": null,
                "item": {"channel": "C1", "ts": "5.5"}}),
            "5.5",
        ),
    ] {
        let found = arrival(sent(&outer(&event)));
        assert_eq!(references(&found)[0], format!("T1/C1/{thread}"), "{event}");
        assert_eq!(keys(&found), ["slack:A1:Ev1"], "{event}");
    }
}

#[test]
fn ids_may_be_objects() {
    let event = json!({"type": "channel_rename", "channel": {"id": "C7"}, "user": {"id": "U7"}});
    let found = arrival(sent(&outer(&event)));
    assert_eq!(references(&found).last().unwrap(), "room C7");
    assert_eq!(found.actor.unwrap().name, "U7");
    assert_eq!(found.on_unresolved, OnUnresolved::Drop(DropReason::Unbound));
}

#[test]
fn a_blank_id_is_no_key() {
    for blank in ["", "  "] {
        let mut body = outer(&json!({}));
        body["event_id"] = json!(blank);
        let found = arrival(sent(&body));
        assert_eq!(keys(&found), ["slack:T1:msg:C1:10.1"]);
        let fallback = digest::fallback_delivery_id(body.to_string().as_bytes());
        assert_eq!(found.delivery_id, fallback);

        body["event"]["ts"] = json!(blank);
        body["api_app_id"] = json!(blank);
        let found = arrival(sent(&body));
        let hash = digest::sha256(body.to_string().as_bytes());
        assert_eq!(keys(&found), [format!("slack:T1:sha256:{hash}")]);
        body["team_id"] = json!(null);
        assert!(keys(&arrival(sent(&body)))[0].starts_with("slack:-:sha256:"));
        body["event"]["channel"] = json!(blank);
        assert_eq!(reason(sent(&body)), DropReason::NoWorkItem);
    }
}

#[test]
fn a_retry_is_marked_and_stored_as_one() {
    let body = outer(&json!({})).to_string();
    let headers = [
        ("content-type", JSON),
        (RETRY_NUM, "1"),
        (RETRY_REASON, "http_timeout"),
        ("x-slack-request-timestamp", "1700000000"),
        ("x-slack-signature", "v0=1"),
    ];
    let found = arrival(parsed(body.as_bytes(), &headers).unwrap());
    assert!(found.is_retry);
    let names: Vec<&str> = found.headers.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "content-type",
            "x-slack-request-timestamp",
            RETRY_NUM,
            RETRY_REASON
        ]
    );
}

#[test]
fn a_heartbeat_of_a_bot_is_reported_and_not_stored() {
    let beat = |event: Value| sent(&outer(&event));
    let text = "the-loop doctor heartbeat 0123abcd";
    for by_bot in [
        json!({"text": text, "bot_id": "B1"}),
        json!({"text": text, "subtype": "bot_message"}),
    ] {
        let SlackVerdict::Heartbeat { channel, ts, nonce } = beat(by_bot) else {
            panic!("stored");
        };
        assert_eq!((&*channel, &*ts, &*nonce), ("C1", "10.1", "0123abcd"));
    }
    for other in [
        json!({"text": text}),
        json!({"text": text, "bot_id": ""}),
        json!({"text": text, "bot_id": "B1", "type": "app_mention"}),
        json!({"text": format!(" {text}"), "bot_id": "B1"}),
        json!({"text": format!("{text}\n"), "bot_id": "B1"}),
        json!({"text": "the-loop doctor heartbeat 0123abc", "bot_id": "B1"}),
        json!({"text": "the-loop doctor heartbeat 0123ABCD", "bot_id": "B1"}),
        json!({"text": format!("{text}{}", "0".repeat(25)), "bot_id": "B1"}),
    ] {
        arrival(beat(other));
    }
}

#[test]
fn what_is_no_json_object_is_refused() {
    let bom = [b"\xef\xbb\xbf", outer(&json!({})).to_string().as_bytes()].concat();
    for bad in [&b""[..], b"[]", b"{", b"\"x\"", b"{\"a\": \"\xff\"}", &bom] {
        let refused = parsed(bad, &[("content-type", JSON)]);
        assert_eq!(refused.unwrap_err(), Rejection::InvalidPayload, "{bad:?}");
    }
    let challenge = json!({"type": "url_verification", "challenge": 1}).to_string();
    assert!(parsed(challenge.as_bytes(), &[]).is_err());
}

#[test]
fn oddities_of_json_are_stored_as_sent() {
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    let text = format!(
        r#"{{"event_id": "Ev0", "team_id": "\ud800", "api_app_id": "A1", "deep": {deep},
            "event": {{"type": "reaction_added", "channel": "C0"}},
            "event": {{"type": "message", "channel": "C1", "ts": "10.1", "text": "\udfff",
                       "channel": "C2", "bot_id": "B1"}}, "event_id": "Ev1"}}"#
    );
    let found = arrival(parsed(text.as_bytes(), &[("content-type", JSON)]).unwrap());
    assert_eq!(found.kind, "message");
    assert_eq!(keys(&found), ["slack:A1:Ev1", "slack:-:msg:C2:10.1"]);
    assert_eq!(references(&found), ["C2/10.1", "10.1", "room C2"]);
    assert_eq!(found.payload.text().unwrap(), text.as_bytes());
}

/// A text with the longest name at its star, and with one that is longer.
fn around_the_bound(text: &str) -> [Option<Arrival>; 2] {
    [200, 201].map(|length| {
        let text = text.replace('*', &"n".repeat(length));
        let verdict = sent(&serde_json::from_str(&text).unwrap());
        let is_stored = matches!(verdict, SlackVerdict::Append(_));
        is_stored.then(|| arrival(verdict))
    })
}

fn longest_key(arrival: &Arrival) -> usize {
    let keys = arrival.keys.iter().map(|key| match key {
        Reference::Bound { key, .. } => key.len(),
        Reference::Room { channel } => channel.len(),
        Reference::Direct(_) | Reference::Commit { .. } | Reference::DeclaredRoom(_) => 0,
    });
    keys.max().unwrap_or_default()
}

#[test]
fn a_place_whose_name_is_longer_than_any_is_none() {
    for (text, names_a_channel) in [
        (
            r#"{"team_id":"*","event":{"type":"message","channel":"C","user":"U","ts":"1.1"}}"#,
            true,
        ),
        (
            r#"{"event":{"type":"message","channel":"*","user":"U","ts":"1.1"}}"#,
            false,
        ),
        (
            r#"{"event":{"type":"message","channel":{"id":"*"},"user":"U","ts":"1.1"}}"#,
            false,
        ),
        (
            r#"{"event":{"type":"message","channel":"C","user":"U","ts":"*"}}"#,
            true,
        ),
        (
            r#"{"event":{"type":"message","channel":"C","user":"U","ts":"1.1","thread_ts":"*"}}"#,
            true,
        ),
        (
            r#"{"type":"block_actions","channel":{"id":"*"},"user":{"id":"U"}}"#,
            false,
        ),
        (
            r#"{"type":"block_actions","channel":{"id":"C"},"message":{"ts":"*"},"user":{"id":"U"}}"#,
            true,
        ),
        (r#"{"command":"/x","channel_id":"*","user_id":"U"}"#, false),
    ] {
        let [longest, longer] = around_the_bound(text);
        assert!(longest_key(&longest.unwrap()) >= 200, "{text}");
        let key = longer.as_ref().map(longest_key).unwrap_or_default();
        assert!(key < 200, "{text}");
        assert_eq!(key > 0, names_a_channel, "{text}");
    }
}

#[test]
fn an_actor_whose_name_is_longer_than_any_is_nobody() {
    for text in [
        r#"{"event":{"type":"message","channel":"C","user":"*","ts":"1.1"}}"#,
        r#"{"event":{"type":"message","channel":"C","user":{"id":"*"},"ts":"1.1"}}"#,
        r#"{"event":{"type":"message","channel":"C","user_id":"*","ts":"1.1"}}"#,
        r#"{"type":"block_actions","channel":{"id":"C"},"user":{"id":"*"}}"#,
        r#"{"command":"/x","channel_id":"C","user_id":"*"}"#,
    ] {
        let [longest, longer] = around_the_bound(text).map(Option::unwrap);
        assert_eq!(longest.actor.unwrap().name.len(), 200, "{text}");
        assert_eq!(longer.actor, None, "{text}");
    }
}
