use super::*;

#[test]
fn no_field_is_called_source_and_every_name_is_unique() {
    let mut names = std::collections::BTreeSet::new();
    for entry in CATALOGUE {
        assert!(names.insert(entry.name), "{} twice", entry.name);
        assert!(
            entry.fields.iter().all(|(field, _)| *field != "source"),
            "{}",
            entry.name
        );
    }
}

#[test]
fn absent_fields_are_left_out() {
    let event = GatewayEvent::Stopped { reason: "signal" };
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        r#"{"reason":"signal"}"#
    );
    let event = GatewayEvent::IngressChanged {
        ingress: "github-webhook".into(),
        state: "up",
        error: None,
        variable: None,
    };
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(text, r#"{"ingress":"github-webhook","state":"up"}"#);
}
