//! The keys by which one Jira event is recognised, whichever way it arrives.

use super::body::{Body, Verb};
use crate::domain::DedupKey;
use crate::providers::digest;

/// How far the clocks of an event and of the change that it reports may lie apart.
const SAME_CHANGE_MS: u64 = 10_000;

/// The keys of a webhook: its own identifier and the thing that happened; the hash of `text`, the
/// stored payload, where it has neither.
pub(super) fn of_webhook(
    body: &Body<'_>,
    site: &str,
    identifier: Option<&str>,
    text: &str,
) -> Vec<DedupKey> {
    let delivery = identifier.map(|id| DedupKey::delivery(format!("jira:{site}:delivery:{id}")));
    let object = comment(body, site)
        .or_else(|| reported_closure(body, site))
        .or_else(|| change(body, site));
    let keys: Vec<DedupKey> = delivery.into_iter().chain(object).collect();
    or_hash(keys, site, text)
}

/// The key of a polled comment: the one that its webhooks carry.
pub(super) fn of_polled_comment(body: &Body<'_>, site: &str, text: &str) -> Vec<DedupKey> {
    or_hash(comment(body, site).into_iter().collect(), site, text)
}

/// The key of a polled closure: the one that its webhook carries.
pub(super) fn of_polled_closure(body: &Body<'_>, site: &str, text: &str) -> Vec<DedupKey> {
    or_hash(closure(body, site).into_iter().collect(), site, text)
}

fn or_hash(keys: Vec<DedupKey>, site: &str, text: &str) -> Vec<DedupKey> {
    if !keys.is_empty() {
        return keys;
    }
    let sha256 = digest::sha256(text.as_bytes());
    vec![DedupKey::object(format!("jira:{site}:sha256:{sha256}"))]
}

/// A comment without any change of the issue: Data Center reports it twice, Cloud once.
fn comment(body: &Body<'_>, site: &str) -> Option<DedupKey> {
    if body.changes().next().is_some() {
        return None;
    }
    let id = body.comment_id()?;
    let verb = body.verb()?;
    let head = format!("jira:{site}:comment:{id}:{}", verb.as_str());
    let text = match verb {
        Verb::Created => head,
        Verb::Updated | Verb::Deleted => format!("{head}:{}", body.comment_updated()?),
    };
    Some(DedupKey::object(text))
}

/// A closure, when the changes say so.
///
/// A change within *done* carries the dates of the closure before it; under that key it would
/// be swallowed as a duplicate, so it is not one.
fn reported_closure(body: &Body<'_>, site: &str) -> Option<DedupKey> {
    let resolves = || {
        body.changes()
            .any(|change| change.is_of("resolution") && change.is_first_value())
    };
    let ends = || body.resolved().is_none() && category_just_changed(body);
    let is_closure = &*body.kind() == "jira:issue_updated"
        && (resolves()
            || body.is_done() && body.changes().any(|change| change.is_of("status")) && ends());
    is_closure.then(|| closure(body, site)).flatten()
}

fn category_just_changed(body: &Body<'_>) -> bool {
    match (body.category_changed(), body.timestamp()) {
        (Some(changed), Some(happened)) => changed.abs_diff(happened) <= SAME_CHANGE_MS,
        _ => false,
    }
}

fn closure(body: &Body<'_>, site: &str) -> Option<DedupKey> {
    let issue = body.issue_id()?;
    let closed = body.resolved().or_else(|| body.category_changed())?;
    Some(DedupKey::object(format!(
        "jira:{site}:close:{issue}:{closed}"
    )))
}

fn change(body: &Body<'_>, site: &str) -> Option<DedupKey> {
    let issue = body.issue_id()?;
    let changelog = body.changelog_id()?;
    Some(DedupKey::object(format!(
        "jira:{site}:issue:{issue}:changelog:{changelog}"
    )))
}
