//! What the tests of this folder share: a declared fleet, and a signed delivery read back.

use std::collections::BTreeMap;

use crate::domain::{Arrival, DedupKind, Reference, Timestamp};
use crate::providers::signature::{sign_github, verify_github};
use crate::providers::{Declared, Dropped, Rejection, RepositoryPattern, Secrets, Verdict};

pub(super) const GUID: &str = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
pub(super) const NOW: Timestamp = Timestamp(1_792_332_131_120);
const SECRET: &str = "It's a Secret to Everybody";

/// The repository of most payloads, as a field.
pub(super) const REPOSITORY: &str = r#""repository": {"id": 7, "full_name": "octo/repo", "html_url": "https://github.com/octo/repo"}"#;

/// An event of a pull request with further fields.
pub(super) fn pull_request(action: &str, rest: &str) -> String {
    format!(
        r#"{{"action": "{action}", {REPOSITORY}, "sender": {{"login": "octocat"}}, "pull_request":
            {{"number": 9, "updated_at": "2026-11-30T10:00:00Z", "closed_at": "2026-11-30T11:00:00Z"}}, {rest}}}"#
    )
}

/// An event of an issue with further fields.
pub(super) fn issue(rest: &str) -> String {
    format!(
        r#"{{{REPOSITORY}, "issue": {{"number": 4, "updated_at": "2026-11-30T10:00:00Z", "user": {{"login": "author"}}}}, {rest}}}"#
    )
}

pub(super) fn declared(repositories: &[&str]) -> Declared {
    Declared {
        repositories: repositories
            .iter()
            .map(|text| RepositoryPattern::parse(text).unwrap())
            .collect(),
        ..Declared::default()
    }
}

pub(super) fn headers(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Signs, verifies and parses, as the ingress does.
pub(super) fn deliver(
    headers: &BTreeMap<String, String>,
    body: &[u8],
    declared: &Declared,
) -> Result<Verdict, Rejection> {
    let secrets = Secrets::new(SECRET.to_owned(), None).unwrap();
    let signature = sign_github(SECRET, body);
    let (verified, _) = verify_github(&secrets, Some(signature.as_bytes()), body)?;
    super::parse(headers, verified.as_bytes(), declared, NOW)
}

/// A JSON delivery of a kind to a gateway that declares `octo/*` and one Enterprise repository.
pub(super) fn send(kind: &str, body: &str) -> Result<Verdict, Rejection> {
    let headers = headers(&[
        ("x-github-event", kind),
        ("x-github-delivery", GUID),
        ("content-type", "application/json"),
    ]);
    let declared = declared(&["octo/*", "ghe.corp.example:8443/octo/repo"]);
    deliver(&headers, body.as_bytes(), &declared)
}

pub(super) fn stored(kind: &str, body: &str) -> Arrival {
    match send(kind, body).unwrap() {
        Verdict::Append(arrival) => *arrival,
        Verdict::Drop(dropped) => panic!("dropped: {dropped:?}"),
    }
}

pub(super) fn dropped(kind: &str, body: &str) -> Dropped {
    match send(kind, body).unwrap() {
        Verdict::Drop(dropped) => dropped,
        Verdict::Append(arrival) => panic!("appended: {arrival:?}"),
    }
}

/// The keys without that of the delivery, joined by blanks; `-` for none.
pub(super) fn object_keys(arrival: &Arrival) -> String {
    let keys: Vec<&str> = arrival
        .dedup_keys
        .iter()
        .filter(|key| key.kind == DedupKind::Object)
        .map(|key| key.text.as_str())
        .collect();
    if keys.is_empty() {
        "-".to_owned()
    } else {
        keys.join(" ")
    }
}

/// One word per reference, in order.
pub(super) fn references(arrival: &Arrival) -> Vec<String> {
    arrival
        .keys
        .iter()
        .map(|reference| match reference {
            Reference::Direct(item) => item.to_string(),
            Reference::Bound { provider, key } => format!("bound {provider} {key}"),
            Reference::Commit { repository, sha } => format!("commit {repository} {sha}"),
            Reference::Room { .. } | Reference::DeclaredRoom(_) => "room".to_owned(),
        })
        .collect()
}
