use super::*;

#[test]
fn a_command_is_stored_as_socket_mode_sends_it() {
    let form = "token=t&team_id=T1&channel_id=CROOM&user_id=U1&command=%2Frun&text=a+%22b%22\
                %0A%C3%A4&is_enterprise_install=false&trigger_id=1.2.x";
    let found = arrival(posted(form).unwrap());
    let stored = found.payload.text().unwrap();
    assert_eq!(
        serde_json::from_slice::<Value>(&stored).unwrap(),
        json!({"token": "t", "team_id": "T1", "channel_id": "CROOM", "user_id": "U1",
            "command": "/run", "text": "a \"b\"\nä", "is_enterprise_install": "false",
            "trigger_id": "1.2.x"})
    );
    assert!(stored.starts_with(b"{\"token\":\"t\",\"team_id\":\"T1\","));
    assert_eq!(
        references(&found),
        ["room CROOM", "declared github:octo/repo#1"]
    );
    assert_eq!(keys(&found), ["slack:T1:1.2.x"]);
    assert_eq!(
        (&*found.kind, &*found.delivery_id),
        ("slash_command", "1.2.x")
    );

    let frame = json!({"type": "slash_commands", "envelope_id": "e",
        "payload": serde_json::from_slice::<Value>(&stored).unwrap()});
    assert_eq!(keys(&arrival(envelope(&frame).verdict)), ["slack:T1:1.2.x"]);
}

#[test]
fn of_two_payloads_the_first_wins() {
    let first = form_of(&json!({"type": "shortcut", "user": {"id": "U1"}, "trigger_id": "1"}));
    let last = form_of(&json!({"type": "shortcut", "user": {"id": "U2"}, "trigger_id": "2"}));
    let found = arrival(posted(&format!("{first}&x=1&{last}")).unwrap());
    assert_eq!(keys(&found), ["slack:-:1"]);
    assert_eq!(found.actor.unwrap().name, "U1");
}

#[test]
fn the_stored_text_is_the_one_inside_the_form() {
    let form =
        "payload=%20%7B%22type%22%3A+%22shortcut%22,%22user%22:%7B%22id%22:%22U1%22%7D%7D%0A";
    let found = arrival(posted(form).unwrap());
    let text: &[u8] = br#"{"type": "shortcut","user":{"id":"U1"}}"#;
    assert_eq!(found.payload.text().unwrap(), text);
    assert_eq!(
        keys(&found),
        [format!("slack:-:sha256:{}", digest::sha256(text))]
    );
    assert_eq!(
        found.delivery_id,
        digest::fallback_delivery_id(form.as_bytes())
    );
}

#[test]
fn a_form_that_holds_no_payload_is_refused() {
    for bad in [
        "",
        "a=b",
        "payload=",
        "payload=%5B%5D",
        "payload=%EF%BB%BF%7B%7D",
        "payload=%7B%22a%22:%22%FF%22%7D",
        "command=%FF",
    ] {
        assert_eq!(posted(bad).unwrap_err(), Rejection::InvalidPayload, "{bad}");
    }
}

#[test]
fn a_payload_above_the_limit_is_refused() {
    let form = format!(
        "payload=%7B%22a%22:%22{}%22%7D",
        "x".repeat(25 * 1024 * 1024)
    );
    assert_eq!(posted(&form).unwrap_err(), Rejection::TooLarge);
}

#[test]
fn every_route_knows_every_body() {
    let command = json!({"command": "/run", "user_id": "U1", "trigger_id": "1"});
    assert_eq!(arrival(sent(&command)).kind, "slash_command");
    let shortcut = json!({"type": "shortcut", "user": {"id": "U1"}, "trigger_id": "1"});
    assert_eq!(
        arrival(sent(&shortcut)).on_unresolved,
        OnUnresolved::ToActor
    );
    let event = form_of(&outer(&json!({})));
    assert_eq!(arrival(posted(&event).unwrap()).kind, "message");
    let challenge = form_of(&json!({"type": "url_verification", "challenge": "c"}));
    let verdict = posted(&challenge).unwrap();
    assert!(matches!(verdict, SlackVerdict::Challenge(text) if text == "c"));
    let untyped = form_of(&json!({"user": {"id": "U1"}}));
    assert_eq!(arrival(posted(&untyped).unwrap()).kind, "unknown");
    let new_kind = form_of(&json!({"type": "new_thing", "user": {"id": "U1"}}));
    assert_eq!(arrival(posted(&new_kind).unwrap()).kind, "new_thing");
    assert_eq!(
        reason(sent(&json!({"type": "app_rate_limited"}))),
        DropReason::NoWorkItem
    );
}

#[test]
fn the_test_of_a_certificate_is_a_field_of_a_form() {
    for form in [
        "ssl_check=1",
        "token=a&ssl_check=1\n",
        "command=/x&ssl_check=1&payload=%",
    ] {
        assert!(is_ssl_check(Some(FORM), form.as_bytes()), "{form}");
        assert!(matches!(posted(form), Ok(SlackVerdict::SslCheck)));
    }
    for form in [
        "ssl_check=0",
        "ssl_check=",
        "xssl_check=1",
        "ssl_check=11",
        "a=ssl_check=1",
    ] {
        assert!(!is_ssl_check(Some(FORM), form.as_bytes()), "{form}");
    }
    assert!(!is_ssl_check(Some(JSON), b"ssl_check=1"));
    assert!(is_ssl_check(None, b"ssl_check=1"));
}

#[test]
fn an_interaction_without_a_gesture_is_known_by_its_parts() {
    let mut body = json!({
        "type": "block_actions",
        "team": null,
        "user": {"id": "U1", "team_id": "T1"},
        "container": {"view_id": "V1"},
        "actions": [{"action_id": "a", "block_id": "b", "action_ts": "1.1"}],
    });
    assert_eq!(
        keys(&arrival(sent(&body))),
        ["slack:T1:block_actions:U1:V1:a:b:1.1"]
    );
    body["container"]["message_ts"] = json!("2.2");
    assert_eq!(
        keys(&arrival(sent(&body))),
        ["slack:T1:block_actions:U1:2.2:a:b:1.1"]
    );
    body["actions"][0]["block_id"] = json!("");
    assert!(keys(&arrival(sent(&body)))[0].starts_with("slack:T1:sha256:"));
}

#[test]
fn an_interaction_of_nobody_nowhere_is_unbound() {
    assert_eq!(
        reason(sent(&json!({"type": "shortcut"}))),
        DropReason::Unbound
    );
    let in_channel = json!({"type": "block_actions", "channel": {"id": "C1"}});
    assert_eq!(references(&arrival(sent(&in_channel))), ["room C1"]);
}

#[test]
fn an_interaction_belongs_to_the_thread_of_the_message_that_it_is_on() {
    for (more, thread) in [
        (
            json!({"container": {"thread_ts": "1.1", "message_ts": "2.2"}}),
            "1.1",
        ),
        (
            json!({"container": {"message_ts": "2.2"}, "message": {"thread_ts": "1.1"}}),
            "1.1",
        ),
        (
            json!({"container": {"message_ts": "2.2"}, "message": {"ts": "3.3"}}),
            "2.2",
        ),
        (
            json!({"original_message": {"thread_ts": "1.1", "ts": "2.2"}}),
            "1.1",
        ),
        (
            json!({"original_message": {"ts": "2.2"}, "message_ts": "3.3"}),
            "2.2",
        ),
        (json!({"message_ts": "3.3"}), "3.3"),
    ] {
        let mut body = json!({"type": "block_actions", "channel": {"id": "C1"}});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let found = arrival(sent(&body));
        assert_eq!(references(&found)[0], format!("C1/{thread}"), "{body}");
    }
}
