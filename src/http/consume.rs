//! The queue of an instance: fetch and commit.

use std::time::Duration;

use actix_web::web::{Data, Payload};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use serde::Serialize;
use tracing::Instrument;

use super::admission::OpenRequest;
use super::api_request::{admit, read, record_refusal};
use super::envelope::{self, LeaseLeft};
use super::error::ApiError;
use super::fields::{Fields, whole_number};
use super::limits::Share;
use super::state::HttpState;
use crate::actors::{Commit, Fetch, FetchAnswer, PollEnd};
use crate::broken::Break;
use crate::domain::{CallerGuard, CommitItem, Outcome, Seq};
use crate::store::{CommitOutcomes, Fetched};

const LIMIT_DEFAULT: i64 = 64;
const LEASE_DEFAULT_MS: i64 = 60_000;
const COMMITS_MAX: usize = 10_000;
const DETAIL_BYTES_MAX: usize = 500;
/// An answer with more text than this is written on a thread of its own, so that the requests
/// of the same worker do not wait for it.
const WRITTEN_HERE_MAX: u64 = 1024 * 1024;

pub(super) async fn fetch(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let fields = read(&request, payload, &state).await?;
    let (mut fetch, wait_ms) = fetch_of(fields)?;
    admit(&state, &fetch.identity)
        .map_err(|error| record_refusal(&state, &fetch.identity, error))?;
    let guard = CallerGuard::new();
    fetch.caller = guard.token();
    let held = grant_wait(&request, &state, &mut fetch, wait_ms);
    let identity = fetch.identity.clone();
    let span = tracing::debug_span!("fetch", instance = %identity.instance);
    let answer = state.parts.queues.send(fetch).instrument(span).await?;
    drop((guard, held));
    let answer = answer.map_err(|error| record_refusal(&state, &identity, error.into()))?;
    let poll_after = poll_after(&answer);
    let body = write_body(answer.fetched, poll_after).await?;
    Ok(HttpResponse::Ok()
        .content_type("application/json")
        .body(body))
}

/// The fetch that the fields describe, and the milliseconds that it would wait.
pub(super) fn fetch_of(mut fields: Fields) -> Result<(Fetch, i64), ApiError> {
    let identity = fields.identity();
    if identity.peer.is_none() && !fields.is_bad("peer") {
        fields.complain("peer", "is required");
    }
    let cursor = fields.whole("cursor");
    let limit = fields.whole("max").unwrap_or(LIMIT_DEFAULT);
    let wait_ms = fields.seconds("wait").unwrap_or(0);
    let lease_ms = fields.seconds("lease").unwrap_or(LEASE_DEFAULT_MS);
    let commit = commit_list(&mut fields).unwrap_or_default();
    let made = identity.peer.clone().map(|peer| Fetch {
        identity,
        peer,
        cursor,
        limit: u32::try_from(limit).unwrap_or(u32::MAX),
        lease_ms,
        wait: Duration::ZERO,
        commit,
        caller: crate::domain::CallerToken::always(),
    });
    Ok((fields.finish(made)?, wait_ms))
}

/// Lets a fetch wait as long as it may, if there is room for one more that is held: then it does
/// not count as an open request any more.
fn grant_wait(
    request: &HttpRequest,
    state: &HttpState,
    fetch: &mut Fetch,
    wait_ms: i64,
) -> Option<Share> {
    let wished = Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0));
    let wait = wished.min(state.settings().wait_max);
    if wait.is_zero() || fetch.limit == 0 {
        return None;
    }
    let held = state.long_polls.take(1)?;
    fetch.wait = wait;
    drop(request.extensions_mut().remove::<OpenRequest>());
    Some(held)
}

/// 0 after a wait that was granted or an answer with deliveries; else so long that a refused
/// long poll does not become a spin.
fn poll_after(answer: &FetchAnswer) -> f64 {
    let is_waited = answer.ended == PollEnd::WaitElapsed && !Break::PollAfterAWait.is_on();
    if Break::PollAtOnce.is_on() || is_waited || !answer.fetched.deliveries.is_empty() {
        return 0.0;
    }
    f64::from(fastrand::u32(1_000..=5_000)) / 1000.0
}

async fn write_body(fetched: Fetched, poll_after: f64) -> Result<Vec<u8>, ApiError> {
    let written = if envelope::payload_bytes(&fetched) > WRITTEN_HERE_MAX {
        actix_web::web::block(move || envelope::write(&fetched, poll_after))
            .await
            .map_err(|error| {
                tracing::error!(%error, "no thread writes an answer");
                ApiError::StoreUnavailable
            })?
    } else {
        envelope::write(&fetched, poll_after)
    };
    written.map_err(|error| {
        tracing::error!(%error, "an answer cannot be written");
        ApiError::StoreUnavailable
    })
}

#[derive(Serialize)]
struct CommitResponse {
    committed: i64,
    lease: LeaseLeft,
}

pub(super) async fn commit(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let outcomes = commit_of(read(&request, payload, &state).await?)?;
    let identity = outcomes.identity.clone();
    admit(&state, &identity).map_err(|error| record_refusal(&state, &identity, error))?;
    let committed = state.parts.queues.send(Commit(outcomes)).await?;
    let committed = committed.map_err(|error| record_refusal(&state, &identity, error.into()))?;
    Ok(HttpResponse::Ok().json(CommitResponse {
        committed: committed.committed.0,
        lease: LeaseLeft::of_ms(committed.lease_ms),
    }))
}

/// The commit that the fields describe.
pub(super) fn commit_of(mut fields: Fields) -> Result<CommitOutcomes, ApiError> {
    let identity = fields.identity();
    let cursor = fields.whole("cursor");
    let commit = fields.expect("commit").then(|| commit_list(&mut fields));
    let commit = fields.finish(commit.flatten())?;
    Ok(CommitOutcomes {
        identity,
        cursor,
        commit,
    })
}

fn commit_list(fields: &mut Fields) -> Option<Vec<CommitItem>> {
    fields.objects("commit", COMMITS_MAX, |item| {
        let seq = item.expect("seq").then(|| seq_of(item)).flatten();
        let outcome = item.required("outcome", Outcome::parse);
        let detail = item.text("detail");
        if detail
            .as_ref()
            .is_some_and(|detail| detail.len() > DETAIL_BYTES_MAX)
        {
            item.complain("detail", "must be at most 500 bytes");
        }
        Some(CommitItem {
            seq: seq?,
            outcome: outcome?,
            detail,
        })
    })
}

/// Any whole number: one that no delivery can have is the store's to refuse.
fn seq_of(item: &mut Fields) -> Option<Seq> {
    let seq = item.value("seq").as_ref().and_then(whole_number);
    if seq.is_none() {
        item.complain("seq", "must be a whole number");
    }
    seq.map(Seq)
}

#[cfg(test)]
#[path = "consume_tests.rs"]
mod tests;
