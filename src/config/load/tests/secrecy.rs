//! A token that somebody pasted appears in no error.

use super::*;

const TOKEN: &str = "xoxb-2345-PASTED-token";

fn assert_refused_without_the_token(text: &str, path: &str) {
    let error = parse_text(text).expect_err(text);
    let path = path.replace("[]", "[0]");
    assert!(
        error.to_string().contains(&format!("\n  {path}: ")),
        "{path} in {error}"
    );
    for shown in [
        error.to_string(),
        format!("{error:?}"),
        format!("{error:#?}"),
    ] {
        assert!(!shown.contains("PASTED"), "{shown}");
    }
}

/// The dotted keys of the schema's strings, with the text of a file that sets each to the token.
fn keys_of_strings() -> Vec<(String, String)> {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let keys = schema::keys(&schema);
    let strings = keys.iter().filter(|key| key.rules["type"] == "string");
    strings
        .map(|key| (key.path.clone(), key.file_with(&Value::from(TOKEN))))
        .collect()
}

#[test]
fn a_token_under_a_key_for_a_variable_is_refused_and_not_repeated() {
    let keys = keys_of_strings();
    let for_variables: Vec<_> = keys
        .iter()
        .filter(|(path, _)| path.ends_with("Env"))
        .collect();
    assert_eq!(for_variables.len(), 12);
    for (path, text) in for_variables {
        assert_refused_without_the_token(text, path);
    }
}

#[test]
fn a_token_under_any_other_key_is_not_repeated_either() {
    for (path, text) in keys_of_strings() {
        if let Err(error) = parse_text(&text) {
            assert!(
                !format!("{error} {error:?}").contains("PASTED"),
                "{path}: {error}"
            );
        }
    }
}

#[test]
fn a_token_in_any_other_place_is_refused_and_not_repeated() {
    for (text, path) in [
        (
            format!("slack: {{socket: {{appTokenEnv: [{TOKEN}]}}}}"),
            "slack.socket.appTokenEnv",
        ),
        (
            format!("slack: {{socket: {{appTokenEnv: {{{TOKEN}: 1}}}}}}"),
            "slack.socket.appTokenEnv",
        ),
        (
            format!("slack: {{socket: {{{TOKEN}: 1}}}}"),
            "slack.socket.(key 1)",
        ),
        (
            format!("slack: {{apiBase: 5, {TOKEN}: {{a: 1}}}}"),
            "slack.(key 2)",
        ),
        (TOKEN.to_owned(), "(root)"),
        (
            format!("slack: {{socket: {{appTokenEnv: !{TOKEN} x}}}}"),
            "slack.socket.appTokenEnv",
        ),
        (
            format!("slack: {{socket: {{appTokenEnv: *{TOKEN}}}}}"),
            "(root)",
        ),
        (
            format!("slack: {{socket: {{appTokenEnv: \"{TOKEN}}}}}"),
            "(root)",
        ),
        (
            format!("slack: {{socket: {{appTokenEnv: @{TOKEN}}}}}"),
            "(root)",
        ),
        (format!("{{{TOKEN}: 1, {TOKEN}: 2}}"), "(key 1)"),
        (format!("repositories: [{TOKEN}]"), "repositories[0]"),
        (format!("listen: {{host: {TOKEN}}}"), "listen.host"),
    ] {
        assert_refused_without_the_token(&text, path);
    }
}
