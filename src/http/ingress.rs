//! What providers post: size, signature over the raw bytes, parse, append, answer.
//!
//! Invariant: success is answered after the COMMIT that holds the event, or for what is not
//! stored on purpose. The body's share of the memory is held until then.

use std::time::Duration;

use actix_web::http::header::HeaderMap;
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::body;
use super::counters::Counted;
use super::error::ApiError;
use super::settings::{HttpSettings, Ingress};
use super::state::HttpState;
use crate::actors::Submit;
use crate::domain::{Arrival, CallerGuard, DropReason, Provider, Source, Timestamp};
use crate::providers::signature::verify_github;
use crate::providers::{Dropped, Headers, Rejection, Verdict, Verified, clipped, github};
use crate::store::{Append, Appended};
use crate::telemetry::GatewayEvent;

/// How long a busy store is waited for.
const WAIT_GITHUB_AND_JIRA: Duration = Duration::from_secs(8);
/// A body with more text than this is read on a thread of its own, so that the requests of the
/// same worker do not wait for it.
const READ_HERE_MAX: usize = 256 * 1024;

/// The headers of a request, as the adapters read them.
struct RequestHeaders<'a>(&'a HeaderMap);

impl Headers for RequestHeaders<'_> {
    fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(|value| value.as_bytes())
    }
}

/// Answers what is posted to a provider's path; any other path is not found.
pub(super) async fn receive(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let settings = state.settings();
    let ingress = settings
        .ingress_at(request.path())
        .filter(|ingress| settings.secrets(*ingress).is_some())
        .ok_or(ApiError::NotFound)?;
    if request.method() != actix_web::http::Method::POST {
        return Err(ApiError::MethodNotAllowed { allow: "POST" });
    }
    let answer = match ingress {
        Ingress::GitHub => receive_github(&request, payload, &state, &settings).await,
        // Their adapters are not here yet.
        Ingress::Jira
        | Ingress::SlackEvents
        | Ingress::SlackInteractions
        | Ingress::SlackCommands => Err(ApiError::NotFound),
    };
    let counted = match &answer {
        Ok(_) => Counted::Accepted,
        Err(ApiError::StoreUnavailable | ApiError::Overloaded(_)) => Counted::Failed,
        Err(_) => Counted::Refused,
    };
    state.counters.count(ingress.provider(), counted);
    answer
}

async fn receive_github(
    request: &HttpRequest,
    payload: Payload,
    state: &HttpState,
    settings: &HttpSettings,
) -> Result<HttpResponse, ApiError> {
    let secrets = settings
        .secrets(Ingress::GitHub)
        .ok_or(ApiError::NotFound)?;
    let headers = RequestHeaders(request.headers());
    let refused = |rejection| refuse(state, Provider::GitHub, &headers, rejection);
    let body = body::read(request, payload, state, body::limit_of_provider(request)).await?;
    let signature = headers.bytes("x-hub-signature-256");
    let (verified, which) =
        verify_github(secrets, signature, body.bytes.clone()).map_err(refused)?;
    state
        .counters
        .count(Provider::GitHub, Counted::Matched(which));
    let now = state.parts.clock.now();
    let verdict = read_github(request.headers(), verified, settings, now)
        .await?
        .map_err(refused)?;
    match verdict {
        Verdict::Append(arrival) => {
            append(state, arrival, WAIT_GITHUB_AND_JIRA).await?;
        }
        Verdict::Drop(dropped) => record_drop(state, Provider::GitHub, dropped),
    }
    drop(body);
    Ok(accepted())
}

async fn read_github(
    headers: &HeaderMap,
    body: Verified<Bytes>,
    settings: &HttpSettings,
    now: Timestamp,
) -> Result<Result<Verdict, Rejection>, ApiError> {
    if body.as_bytes().into_body().len() <= READ_HERE_MAX {
        let headers = RequestHeaders(headers);
        return Ok(github::parse(
            &headers,
            body.as_bytes(),
            &settings.declared,
            now,
        ));
    }
    let (headers, declared) = (headers.clone(), settings.declared.clone());
    actix_web::web::block(move || {
        github::parse(&RequestHeaders(&headers), body.as_bytes(), &declared, now)
    })
    .await
    .map_err(|error| {
        tracing::error!(%error, "no thread reads a body");
        ApiError::Overloaded("No thread is free to read the body.")
    })
}

/// Stores an arrival, and waits for it no longer than its provider does.
async fn append(
    state: &HttpState,
    arrival: Box<Arrival>,
    wait: Duration,
) -> Result<Appended, ApiError> {
    let guard = CallerGuard::new();
    let write = Append {
        arrival,
        caller: guard.token(),
    };
    let answer = tokio::time::timeout(wait, state.parts.store.send(Submit(write))).await;
    // From here on an append that has not begun is skipped.
    drop(guard);
    match answer {
        Ok(answer) => Ok(answer??),
        Err(_) => Err(ApiError::Overloaded("The store did not answer in time.")),
    }
}

/// Records that a stranger was refused.
fn refuse(
    state: &HttpState,
    provider: Provider,
    headers: &impl Headers,
    rejection: Rejection,
) -> ApiError {
    let reason = match rejection {
        Rejection::BadSignature => DropReason::BadSignature,
        Rejection::ReplayWindow => DropReason::ReplayWindow,
        Rejection::InvalidPayload | Rejection::TooLarge => DropReason::InvalidPayload,
        // Not the sender's fault, and not decided: it may come again.
        Rejection::Exhausted => return rejection.into(),
    };
    let shown = |name: &str| headers.text(name).map(clipped).unwrap_or_default();
    let (kind, delivery_id) = match provider {
        Provider::GitHub => (shown("x-github-event"), shown("x-github-delivery")),
        Provider::Jira => (String::new(), shown("x-atlassian-webhook-identifier")),
        Provider::Slack => (String::new(), String::new()),
    };
    state
        .parts
        .log
        .refuse(provider, reason, &kind, &delivery_id);
    rejection.into()
}

/// Records what is not stored on purpose.
fn record_drop(state: &HttpState, provider: Provider, dropped: Dropped) {
    let shown = |text: String| (!text.is_empty()).then_some(text);
    let mut records = vec![GatewayEvent::Dropped {
        provider,
        transport: Source::Webhook,
        reason: dropped.reason,
        kind: shown(dropped.kind),
        delivery_id: shown(dropped.delivery_id),
        about: shown(dropped.about),
        gateway_event_id: None,
        suppressed: None,
    }];
    records.extend(dropped.moved.map(|moved| GatewayEvent::RepositoryMoved {
        from: moved.from,
        to: moved.to,
    }));
    state.parts.log.record_all(records);
}

fn accepted() -> HttpResponse {
    HttpResponse::Accepted().json(json!({"status": "accepted"}))
}
