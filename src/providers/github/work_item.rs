//! Events about one issue or pull request: which one, who did it, and the commit it teaches.

use super::Named;
use super::repository::Repository;
use crate::domain::{EventActor, LearnedCommit, Provider};
use crate::providers::Declared;
use crate::providers::lenient::Node;

/// The objects that can be the event's own, innermost first: the author of the first that is
/// there did it, if GitHub names no sender.
const AUTHORED: [&str; 4] = ["comment", "review", "issue", "pull_request"];

const SHA_DIGITS: [usize; 2] = [40, 64];

/// The issue or pull request that a payload is about.
///
/// Any kind of event will do, so that kinds yet to come arrive too; but a discussion's number
/// means no issue.
pub(super) fn named(kind: &str, payload: &Node<'_>, repository: &Repository) -> Named {
    if kind.starts_with("discussion") {
        return Named::default();
    }
    let number = ["issue", "pull_request"]
        .iter()
        .find_map(|object| payload.at(object).number("number"));
    Named {
        items: number
            .and_then(|number| repository.item(number))
            .into_iter()
            .collect(),
        commit: None,
    }
}

/// Who did it. Deleted accounts make both places null; then nobody is known.
pub(super) fn actor(payload: &Node<'_>) -> Option<EventActor> {
    let author = || {
        let object = AUTHORED.iter().find(|object| payload.has(object))?;
        payload.at(object).at("user").name("login")
    };
    let login = payload.at("sender").name("login").or_else(author)?;
    Some(EventActor {
        provider: Provider::GitHub,
        name: login.into_owned(),
    })
}

/// The pull request that the head commit belongs to, for the checks that name only a commit.
pub(super) fn learned(
    payload: &Node<'_>,
    repository: &Repository,
    declared: &Declared,
) -> Option<LearnedCommit> {
    let pull_request = payload.at("pull_request");
    let sha = sha_in(pull_request.at("head"), "sha")?;
    let pull_request = repository.item(pull_request.number("number")?)?;
    repository.is_declared(declared).then(|| LearnedCommit {
        repository: repository.key(),
        sha,
        pull_request,
    })
}

/// The full hash of a commit in lower case.
pub(super) fn sha_in(object: &Node<'_>, field: &str) -> Option<String> {
    let sha = object.text(field)?;
    let is_full = SHA_DIGITS.contains(&sha.len()) && sha.bytes().all(|b| b.is_ascii_hexdigit());
    is_full.then(|| sha.to_ascii_lowercase())
}
