use proptest::prelude::*;

use super::*;

static WANT: Want = Want::Object(&[
    ("action", Want::Leaf),
    ("number", Want::Leaf),
    (
        "issue",
        Want::Object(&[
            ("number", Want::Leaf),
            ("user", Want::Object(&[("login", Want::Leaf)])),
        ]),
    ),
    ("channel", Want::Whole(&[("id", Want::Leaf)])),
    (
        "pull_requests",
        Want::Items(&[
            ("number", Want::Leaf),
            ("base", Want::Object(&[("id", Want::Leaf)])),
        ]),
    ),
]);

fn node(text: &str) -> Node<'_> {
    read(text, &WANT).unwrap()
}

#[test]
fn wanted_fields_are_found_at_their_depth() {
    let text = r#"{"x": [1, {"issue": 2}], "action": "opened",
        "issue": {"number": 15, "user": {"login": "octo", "id": 1}, "labels": []}, "number": 3}"#;
    let found = node(text);
    assert_eq!(found.text("action").unwrap(), "opened");
    assert!(matches!(found.text("action"), Some(Cow::Borrowed(_))));
    assert_eq!(found.number("number"), Some(3));
    assert_eq!(found.at("issue").number("number"), Some(15));
    let user = found.at("issue").at("user");
    assert_eq!(user.text("login").unwrap(), "octo");
    assert!(found.has("issue"));
    assert!(!found.has("channel"));
    assert_eq!(found.at("channel").text("id"), None);
    assert_eq!(found.items("pull_requests").count(), 0);
}

#[test]
fn the_text_must_be_one_json_object() {
    let bom = "\u{feff}{}";
    for bad in [
        "",
        " ",
        "null",
        "[]",
        "\"{}\"",
        "1",
        "{",
        "{}x",
        "{} {}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{'a': 1}",
        "{\"a\": 01}",
        "{\"a\": 1,}",
        "{\"a\": \"\\x\"}",
        "{\"a\": \"\\ud8\"}",
        "{\"a\nb\": 1}",
        "{\"issue\": {\"a\nb\": 1}}",
        "{\"issue\": {\"a\tb\": 1}, \"number\": {}, \"channel\": {\"a\tb\": 1}}",
        "{\"a\": \"\n\"}",
        "{\"a\": NaN}",
        "{\"issue\": [}",
        "{\"issue\": 3, \"action\": tru}",
        bom,
    ] {
        assert_eq!(read(bad, &WANT).unwrap_err(), NotJson, "{bad:?}");
    }
}

#[test]
fn the_stored_text_has_no_whitespace_around_it() {
    assert_eq!(text_of(b" \r\n\t{ } \n").unwrap(), "{ }");
    // Whitespace that is not JSON's stays, and is then no JSON.
    assert_eq!(text_of("\u{a0}{}".as_bytes()).unwrap(), "\u{a0}{}");
    assert_eq!(text_of(b"{\"a\": \"\xff\"}"), Err(NotJson));
    assert_eq!(text_of(b"\xff\xfe{\0}\0"), Err(NotJson));
    assert_eq!(text_of(b""), Ok(""));
}

#[test]
fn of_duplicate_keys_the_last_wins() {
    let found =
        node(r#"{"action": "a", "action": "b", "issue": {"number": 1}, "issue": {"x": 1}}"#);
    assert_eq!(found.text("action").unwrap(), "b");
    assert!(found.has("issue"));
    assert_eq!(found.at("issue").number("number"), None);
    assert!(!node(r#"{"action": "a", "action": null}"#).has("action"));
    let escaped = node(r#"{"action": "a", "\u0061ction": "b"}"#);
    assert_eq!(escaped.text("action").unwrap(), "b");
}

#[test]
fn a_wrong_type_counts_as_absent() {
    for text in [
        r#"{"action": {"a": 1}, "issue": 1, "pull_requests": {"number": 1}, "number": "3"}"#,
        r#"{"action": 7, "issue": "x", "pull_requests": "x", "number": -3}"#,
        r#"{"action": [], "issue": [{"number": 1}], "pull_requests": null, "number": 1.0}"#,
        r#"{"action": true, "issue": false, "pull_requests": 1e999, "number": 18446744073709551616}"#,
        r#"{"action": null, "issue": null, "pull_requests": true, "number": 1e999}"#,
        r#"{"action": " \t", "issue": -1e-999, "pull_requests": ["a", 1, [], null], "number": []}"#,
    ] {
        let found = node(text);
        assert_eq!(found.text("action"), None, "{text}");
        assert_eq!(found.number("number"), None, "{text}");
        assert!(!found.has("issue"), "{text}");
        assert_eq!(found.at("issue").number("number"), None, "{text}");
        assert_eq!(found.items("pull_requests").count(), 0, "{text}");
    }
}

#[test]
fn a_wrong_type_does_not_hide_its_neighbours() {
    let found = node(
        r#"{"issue": {"user": "octo", "number": 4}, "pull_requests": [7, {"base": 1, "number": 5}], "action": "x"}"#,
    );
    assert_eq!(found.at("issue").number("number"), Some(4));
    assert_eq!(
        found
            .items("pull_requests")
            .next()
            .unwrap()
            .number("number"),
        Some(5)
    );
    assert_eq!(found.text("action").unwrap(), "x");
}

#[test]
fn lone_surrogates_cost_only_the_field_that_holds_them() {
    let found = node(
        r#"{"\udead": "\ud800", "action": "\ud800x", "issue": {"\ud800": {"\ud800": "\udc00"}, "number": 4,
            "user": {"login": "a\udbffb"}}, "number": 9}"#,
    );
    assert_eq!(found.text("action"), None);
    assert!(found.has("action"));
    assert_eq!(found.raw("action"), Some(r#""\ud800x""#));
    assert_eq!(found.at("issue").number("number"), Some(4));
    assert_eq!(found.at("issue").at("user").text("login"), None);
    assert_eq!(found.number("number"), Some(9));
    assert_eq!(
        node(r#"{"action": "\ud83d\ude00"}"#)
            .text("action")
            .unwrap(),
        "😀"
    );
}

#[test]
fn escapes_are_decoded_and_a_nul_is_a_character() {
    let found = node(r#"{"action": "a\u0000\n\"\/é"}"#);
    assert_eq!(found.text("action").unwrap(), "a\0\n\"/é");
}

#[test]
fn what_is_skipped_may_nest_without_limit() {
    let deep = 200_000;
    let nested = format!("{}{}", "[".repeat(deep), "]".repeat(deep));
    let objects = format!("{}1{}", "{\"issue\":".repeat(deep), "}".repeat(deep));
    for value in [nested, objects] {
        for name in ["x", "action", "issue", "channel", "pull_requests"] {
            let text = format!("{{\"{name}\": {value}, \"number\": 1}}");
            assert_eq!(node(&text).number("number"), Some(1), "{name}");
        }
    }
    assert!(read(&"[".repeat(deep), &WANT).is_err());
    assert!(read(&"{\"issue\":".repeat(deep), &WANT).is_err());
}

#[test]
fn a_whole_field_is_exact_text_object_and_plain_value() {
    let found = node(r#"{"channel": { "id":"C1" , "x": [1 ] }, "action": ""}"#);
    assert_eq!(found.raw("channel"), Some(r#"{ "id":"C1" , "x": [1 ] }"#));
    assert_eq!(found.at("channel").text("id").unwrap(), "C1");
    assert_eq!(found.text("channel"), None);
    let plain = node(r#"{"channel":  "C2"}"#);
    assert_eq!(plain.text("channel").unwrap(), "C2");
    assert_eq!(plain.raw("channel"), Some(r#""C2""#));
    assert_eq!(plain.at("channel").text("id"), None);
    assert!(!node(r#"{"channel": null}"#).has("channel"));
    assert_eq!(node(r#"{"channel": null}"#).raw("channel"), None);
}

#[test]
fn an_id_may_be_a_text_or_a_number() {
    assert_eq!(node(r#"{"number": 7}"#).id("number").unwrap(), "7");
    assert_eq!(node(r#"{"number": "7a"}"#).id("number").unwrap(), "7a");
    assert_eq!(node(r#"{"number": ""}"#).id("number"), None);
}

#[test]
fn only_the_first_items_of_an_array_are_read() {
    let items: Vec<String> = (0..1000).map(|n| format!("{{\"number\":{n}}}")).collect();
    let text = format!(
        "{{\"pull_requests\": [{}], \"number\": 1}}",
        items.join(",")
    );
    let found = node(&text);
    assert_eq!(found.items("pull_requests").count(), ITEMS_MAX);
    assert_eq!(
        found
            .items("pull_requests")
            .last()
            .unwrap()
            .number("number"),
        Some(255)
    );
    assert_eq!(found.number("number"), Some(1));
    let broken = format!("{{\"pull_requests\": [{},]}}", items.join(","));
    assert!(read(&broken, &WANT).is_err());
}

/// Texts made of the names that are wanted, so that every combination of types meets them.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1.5e3".to_owned()),
        Just(r#""\ud800""#.to_owned()),
        Just(r#"" ""#.to_owned()),
        any::<u64>().prop_map(|n| n.to_string()),
        "[a-z]{0,4}".prop_map(|text| format!("\"{text}\"")),
    ];
    let name = prop::sample::select(vec![
        "action",
        "number",
        "issue",
        "user",
        "login",
        "channel",
        "id",
        "pull_requests",
        "base",
        "\\udead",
    ]);
    leaf.prop_recursive(5, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("\"{name}\" :{value}"))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn both_passes_find_the_same(text in json()) {
        let Want::Object(fields) = WANT else { unreachable!() };
        let careful = read_in(&text, fields, Pass::Careful).unwrap();
        prop_assert_eq!(careful.is_some(), text.starts_with('{'));
        if let Ok(quick) = read_in(&text, fields, Pass::Quick) {
            prop_assert_eq!(format!("{quick:?}"), format!("{careful:?}"));
        }
    }

    #[test]
    fn a_damaged_text_is_refused_as_serde_json_refuses_it(
        text in json(),
        at in any::<prop::sample::Index>(),
        with in prop::sample::select(vec!["", "\"", "{", "]", ",", ":", "\\", "0", "\n", " "]),
    ) {
        let mut damaged: Vec<char> = text.chars().collect();
        let at = at.index(damaged.len());
        damaged.splice(at..=at, with.chars());
        let damaged: String = damaged.into_iter().collect();
        let valid = serde_json::from_str::<&RawValue>(&damaged).is_ok();
        let is_object = damaged.trim_start().starts_with('{');
        prop_assert_eq!(read(&damaged, &WANT).is_ok(), valid && is_object);
    }
}
