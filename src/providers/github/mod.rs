//! GitHub deliveries and polled objects, read into arrivals.
//!
//! Invariant: the same comment, review, closure or check gives the same object keys whether a
//! webhook or the poller brings it, so polled objects go through [`parse_polled`], shaped as
//! webhooks.
//!
//! Must not judge an event (who may do what, what a label means): consumers do.

mod body;
mod ci;
mod dedup;
mod happened;
mod repository;
mod want;
mod work_item;

#[cfg(test)]
mod corpus_tests;
#[cfg(test)]
mod dedup_tests;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::repository::Repository;
use super::lenient::{self, Node};
use super::{Declared, Dropped, Headers, Rejection, Verdict, Verified, clipped, digest, known};
use crate::domain::{
    Arrival, DropReason, EventActor, OnUnresolved, Payload, Provider, Reference, Source, Timestamp,
    WorkItemRef,
};

const GITHUB_HOST: &str = "github.com";

/// The headers that are stored: enough to post the payload again as GitHub did.
const STORED_HEADERS: [&str; 7] = [
    "x-github-event",
    "x-github-delivery",
    "x-github-hook-id",
    "x-github-hook-installation-target-id",
    "x-github-hook-installation-target-type",
    "x-github-enterprise-host",
    "x-github-enterprise-version",
];

/// Reads a delivery of a webhook.
///
/// # Errors
/// [`Rejection::InvalidPayload`] when the body holds no JSON object in UTF-8,
/// [`Rejection::TooLarge`] when its JSON is above 25 MiB.
pub fn parse(
    headers: &impl Headers,
    body: Verified<&[u8]>,
    declared: &Declared,
    received_at: Timestamp,
) -> Result<Verdict, Rejection> {
    let body = body.into_body();
    let text = body::json_text(headers, body)?;
    let delivery = Delivery::of(headers, body, Source::Webhook);
    judge(delivery, &text, declared, received_at)
}

/// Reads an object that the poller shaped as a webhook; its `x-github-event` and
/// `x-github-delivery` are the poller's. That delivery id repeats by design and is no key.
///
/// # Errors
/// As [`parse`].
pub fn parse_polled(
    headers: &impl Headers,
    body: Verified<&[u8]>,
    declared: &Declared,
    received_at: Timestamp,
) -> Result<Verdict, Rejection> {
    let body = body.into_body();
    let text = body::json_text(headers, body)?;
    let delivery = Delivery::of(headers, body, Source::Poll);
    judge(delivery, &text, declared, received_at)
}

/// What the headers tell of a delivery.
struct Delivery {
    source: Source,
    kind: String,
    id: String,
    /// The id that GitHub gave it, the same for every hook and redelivery; polls have none.
    guid: Option<String>,
    enterprise_host: Option<String>,
    headers: BTreeMap<String, String>,
}

impl Delivery {
    fn of(headers: &impl Headers, body: &[u8], source: Source) -> Self {
        let text = |name: &str| {
            let value = headers.text(name).map(clipped)?;
            (!value.is_empty()).then_some(value)
        };
        let given_id = text("x-github-delivery");
        let stored = |name: &str| text(name).map(|value| (name.to_owned(), value));
        Self {
            source,
            kind: known(&text("x-github-event").unwrap_or_default()),
            id: given_id
                .clone()
                .unwrap_or_else(|| digest::fallback_delivery_id(body)),
            guid: given_id.filter(|_| source == Source::Webhook),
            enterprise_host: text("x-github-enterprise-host").map(|host| host.to_ascii_lowercase()),
            headers: STORED_HEADERS.into_iter().filter_map(stored).collect(),
        }
    }

    fn dropped(self, reason: DropReason, about: String) -> Dropped {
        Dropped {
            reason,
            kind: self.kind,
            delivery_id: self.id,
            about,
            moved: None,
        }
    }
}

/// What a payload says it is about.
#[derive(Default)]
struct Named {
    /// Issues and pull requests of the event's repository; the first is the work item.
    items: Vec<WorkItemRef>,
    /// The commit, when it is all that names a pull request.
    commit: Option<String>,
}

fn judge(
    delivery: Delivery,
    text: &str,
    declared: &Declared,
    received_at: Timestamp,
) -> Result<Verdict, Rejection> {
    let payload = lenient::read(text, &want::PAYLOAD)?;
    let Some(repository) = Repository::of(&payload, delivery.enterprise_host.as_deref()) else {
        let dropped = delivery.dropped(DropReason::NoWorkItem, String::new());
        return Ok(Verdict::Drop(dropped));
    };
    let named = if ci::is_kind(&delivery.kind) {
        ci::named(&delivery.kind, &payload, &repository)
    } else {
        work_item::named(&delivery.kind, &payload, &repository)
    };
    if named.items.is_empty() && named.commit.is_none() {
        let moved = repository.moved(&delivery.kind, &payload, declared);
        let dropped = delivery.dropped(DropReason::NoWorkItem, repository.shown());
        return Ok(Verdict::Drop(Dropped { moved, ..dropped }));
    }
    let Some(ways) = Ways::to(named, &repository, declared) else {
        let dropped = delivery.dropped(DropReason::UndeclaredRepository, repository.shown());
        return Ok(Verdict::Drop(dropped));
    };
    let learns = work_item::learned(&payload, &repository, declared);
    let arrival = Arrival {
        provider: Provider::GitHub,
        source: delivery.source,
        received_at,
        happened_at: happened::at(&delivery.kind, &payload),
        payload: Payload::compress(text.as_bytes())
            .ok()
            .ok_or(Rejection::Exhausted)?,
        actor: actor_of(&delivery, &payload),
        keys: ways.keys,
        also: ways.also,
        learns: learns.into_iter().collect(),
        dedup_keys: digest::bounded(dedup::keys(&delivery, &payload, &repository)),
        on_unresolved: ways.on_unresolved,
        is_retry: false,
        delivery_id: delivery.id,
        kind: delivery.kind,
        headers: delivery.headers,
    };
    Ok(Verdict::Append(Box::new(arrival)))
}

fn actor_of(delivery: &Delivery, payload: &Node<'_>) -> Option<EventActor> {
    if ci::is_kind(&delivery.kind) {
        None
    } else {
        work_item::actor(payload)
    }
}

/// The ways in which the store finds the work item.
struct Ways {
    keys: Vec<Reference>,
    also: Vec<WorkItemRef>,
    on_unresolved: OnUnresolved,
}

impl Ways {
    /// `None` when the repository is not declared and nothing could be bound to the event.
    fn to(named: Named, repository: &Repository, declared: &Declared) -> Option<Self> {
        let Named { items, commit } = named;
        if repository.is_declared(declared) {
            return Some(Self::in_declared(items, commit, repository));
        }
        let bindable = !items.is_empty() && !declared.repositories.is_empty();
        bindable.then(|| Self {
            keys: items.iter().map(bound).collect(),
            also: Vec::new(),
            on_unresolved: OnUnresolved::Drop(DropReason::UndeclaredRepository),
        })
    }

    fn in_declared(
        items: Vec<WorkItemRef>,
        commit: Option<String>,
        repository: &Repository,
    ) -> Self {
        let mut items = items.into_iter();
        match items.next() {
            Some(first) => Self {
                keys: vec![Reference::Direct(first)],
                also: items.collect(),
                on_unresolved: OnUnresolved::Drop(DropReason::Unbound),
            },
            None => Self {
                keys: commit
                    .map(|sha| Reference::Commit {
                        repository: repository.key(),
                        sha,
                    })
                    .into_iter()
                    .collect(),
                also: Vec::new(),
                on_unresolved: OnUnresolved::Grace,
            },
        }
    }
}

fn bound(item: &WorkItemRef) -> Reference {
    Reference::Bound {
        provider: Provider::GitHub,
        key: item.key(),
    }
}
