//! Checks, workflows and statuses: the pull requests that they name, or else their commit.

use super::Named;
use super::repository::Repository;
use super::work_item::sha_in;
use crate::domain::WorkItemRef;
use crate::providers::lenient::Node;

/// True for the kinds of events that machines cause; they have no actor.
pub(super) fn is_kind(kind: &str) -> bool {
    matches!(
        kind,
        "check_run" | "check_suite" | "workflow_run" | "workflow_job" | "status"
    )
}

/// The pull requests of a CI event. GitHub leaves the list empty for forks and merged pull
/// requests, and a status or job has none: then the commit, whose pull request may be known.
pub(super) fn named(kind: &str, payload: &Node<'_>, repository: &Repository) -> Named {
    if kind == "status" {
        return Named {
            items: Vec::new(),
            commit: sha_in(payload, "sha"),
        };
    }
    let run = payload.at(kind);
    let suite = run.at("check_suite");
    let mut items = pull_requests(run, repository);
    if items.is_empty() {
        items = pull_requests(suite, repository);
    }
    let commit = if items.is_empty() {
        sha_in(run, "head_sha").or_else(|| sha_in(suite, "head_sha"))
    } else {
        None
    };
    Named { items, commit }
}

/// The pull requests into this repository, each once, in order.
fn pull_requests(run: &Node<'_>, repository: &Repository) -> Vec<WorkItemRef> {
    let mut numbers = Vec::new();
    for pull_request in run.items("pull_requests") {
        let number = pull_request.number("number");
        if let Some(number) = number.filter(|_| !is_elsewhere(pull_request, repository))
            && !numbers.contains(&number)
        {
            numbers.push(number);
        }
    }
    numbers
        .into_iter()
        .filter_map(|number| repository.item(number))
        .collect()
}

/// True for a pull request from this repository into another one: its number is one of there.
fn is_elsewhere(pull_request: &Node<'_>, repository: &Repository) -> bool {
    let base = pull_request.at("base").at("repo").number("id");
    base.is_some() && repository.id.is_some() && base != repository.id
}
