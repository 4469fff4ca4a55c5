use super::*;

const SECRET: &str = "It's a Secret to Everybody";
const GITHUB_VECTOR: &str =
    "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const JIRA_VECTOR: &str = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9";
const SLACK_SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
const SLACK_SENT: i64 = 1_531_420_618;
const SLACK_VECTOR: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

fn secrets(current: &str, previous: Option<&str>) -> Secrets {
    Secrets::new(current.to_owned(), previous.map(str::to_owned)).unwrap()
}

#[test]
fn the_published_vectors_of_github_and_jira_verify() {
    let secrets = secrets(SECRET, None);
    let body = "Hello, World!";
    let (verified, which) = verify_github(&secrets, Some(GITHUB_VECTOR.as_bytes()), body).unwrap();
    assert_eq!(verified.as_bytes().into_body(), body.as_bytes());
    assert_eq!(which, WhichSecret::Current);
    assert_eq!(sign_github(SECRET, body.as_bytes()), GITHUB_VECTOR);

    assert!(verify_jira(&secrets, Some(JIRA_VECTOR.as_bytes()), "Hello World!").is_ok());
    assert_eq!(sign_jira(SECRET, b"Hello World!"), JIRA_VECTOR);
}

#[test]
fn the_published_vector_of_slack_verifies() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../shared/payloads/slack_http/command.pysdk.rawform.txt"
    );
    let Ok(body) = std::fs::read(path) else {
        eprintln!("SKIPPED: no payload corpus at {path}");
        return;
    };
    assert_eq!(sign_slack(SLACK_SECRET, SLACK_SENT, &body), SLACK_VECTOR);
    let proof = SlackProof {
        signature: Some(SLACK_VECTOR.as_bytes()),
        timestamp: Some(b"1531420618"),
    };
    let now = Timestamp(SLACK_SENT * 1000);
    assert!(verify_slack(&secrets(SLACK_SECRET, None), proof, body, now).is_ok());
}

#[test]
fn a_signature_that_is_not_exactly_right_is_refused() {
    let secrets = secrets(SECRET, Some("another"));
    let digits = GITHUB_VECTOR.strip_prefix("sha256=").unwrap();
    let upper = format!("sha256={}", digits.to_uppercase());
    let spaced = format!("{GITHUB_VECTOR} ");
    let sha1 = format!("sha1={digits:.40}");
    let sha1_long = format!("sha1={digits}");
    let method = format!("SHA256={digits}");
    let short = GITHUB_VECTOR.strip_suffix('7').unwrap();
    let wrong = GITHUB_VECTOR.replace('7', "8");
    let non_ascii = format!("sha256={}", "é".repeat(32));
    for bad in [
        "", "sha256=", digits, &upper, &spaced, &sha1, &sha1_long, &method, short, &wrong,
        &non_ascii, "sha256", "=",
    ] {
        for verify in [verify_github::<&str>, verify_jira::<&str>] {
            let refused = verify(&secrets, Some(bad.as_bytes()), "Hello, World!").unwrap_err();
            assert_eq!(refused, Rejection::BadSignature, "{bad:?}");
        }
    }
    let raw = [b"sha256=".as_slice(), &[0xff; 64]].concat();
    assert!(verify_github(&secrets, Some(&raw), "Hello, World!").is_err());
    assert!(verify_github(&secrets, None, "Hello, World!").is_err());
    let header = Some(GITHUB_VECTOR.as_bytes());
    assert!(verify_github(&secrets, header, "Hello, World").is_err());
}

#[test]
fn either_live_secret_will_do_and_it_is_told_which() {
    let secrets = secrets("new", Some("old"));
    for (secret, which) in [
        ("new", WhichSecret::Current),
        ("old", WhichSecret::Previous),
    ] {
        let header = sign_github(secret, b"{}");
        let verified = verify_github(&secrets, Some(header.as_bytes()), "{}").unwrap();
        assert_eq!(verified.1, which);
    }
    let header = sign_github("older", b"{}");
    assert!(verify_github(&secrets, Some(header.as_bytes()), "{}").is_err());
}

#[test]
fn a_blank_secret_is_none_and_no_secret_is_shown() {
    assert!(Secrets::new(" \n".to_owned(), Some("old".to_owned())).is_none());
    let one = Secrets::new("s3cret".to_owned(), Some(String::new())).unwrap();
    assert_eq!(
        format!("{one:?}"),
        "Secrets { current: set, previous: unset }"
    );
    let two = secrets("s3cret", Some("0ld"));
    assert_eq!(
        format!("{two:?}"),
        "Secrets { current: set, previous: set }"
    );
    let header = sign_github("", b"{}");
    assert!(verify_github(&one, Some(header.as_bytes()), "{}").is_err());
}

fn slack(
    signature: Option<&str>,
    timestamp: Option<&[u8]>,
    now: i64,
) -> Result<WhichSecret, Rejection> {
    let proof = SlackProof {
        signature: signature.map(str::as_bytes),
        timestamp,
    };
    let secrets = secrets(SLACK_SECRET, None);
    verify_slack(&secrets, proof, "a=b", Timestamp(now)).map(|(_, which)| which)
}

#[test]
fn a_slack_request_is_valid_for_five_minutes_around_its_timestamp() {
    let signature = sign_slack(SLACK_SECRET, SLACK_SENT, b"a=b");
    let sent = SLACK_SENT * 1000;
    for (now, expected) in [
        (sent, Ok(WhichSecret::Current)),
        (sent + 300_000, Ok(WhichSecret::Current)),
        (sent - 300_000, Ok(WhichSecret::Current)),
        (sent + 300_001, Err(Rejection::ReplayWindow)),
        (sent - 300_001, Err(Rejection::ReplayWindow)),
        (i64::MIN, Err(Rejection::ReplayWindow)),
    ] {
        assert_eq!(
            slack(Some(&signature), Some(b"1531420618"), now),
            expected,
            "{now}"
        );
    }
}

#[test]
fn a_slack_timestamp_is_judged_by_form_then_age_then_signature() {
    let now = SLACK_SENT * 1000;
    let wrong = format!("v0={}", "0".repeat(64));
    for bad in [
        None,
        Some(&b""[..]),
        Some(b"x"),
        Some(b"1531420618.0"),
        Some(b" 1531420618"),
        Some(b"-1"),
        Some(b"+1531420618"),
        Some(b"\xff"),
    ] {
        assert_eq!(
            slack(Some(&wrong), bad, now),
            Err(Rejection::BadSignature),
            "{bad:?}"
        );
    }
    for old in [&b"0"[..], b"99999999999999999999999999"] {
        assert_eq!(
            slack(Some(&wrong), Some(old), now),
            Err(Rejection::ReplayWindow)
        );
        assert_eq!(slack(None, Some(old), now), Err(Rejection::ReplayWindow));
    }
    let sent = Some(&b"1531420618"[..]);
    assert_eq!(slack(Some(&wrong), sent, now), Err(Rejection::BadSignature));
    assert_eq!(slack(None, sent, now), Err(Rejection::BadSignature));
    // The signed text holds the timestamp as it was sent.
    let signature = sign_slack(SLACK_SECRET, SLACK_SENT, b"a=b");
    let padded = Some(&b"01531420618"[..]);
    assert_eq!(
        slack(Some(&signature), padded, now),
        Err(Rejection::BadSignature)
    );
}
