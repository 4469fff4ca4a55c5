//! What providers post: size, signature over the raw bytes, parse, append, answer.
//!
//! Invariant: success is answered after the COMMIT that holds the event, or for what is not
//! stored on purpose. The body's share of the memory is held until then.

mod signed;
mod slack;

use std::sync::Arc;
use std::time::Duration;

use actix_web::http::Method;
use actix_web::http::header::HeaderMap;
use actix_web::web::{Bytes, Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use tracing::Instrument;

use super::error::ApiError;
use super::settings::{HttpSettings, Ingress};
use super::state::HttpState;
use crate::actors::Submit;
use crate::domain::{Arrival, CallerGuard, DropReason, Provider, Source, Timestamp};
use crate::providers::signature::WhichSecret;
use crate::providers::slack::is_ssl_check;
use crate::providers::{Dropped, Headers, Rejection, Secrets, clipped};
use crate::store::{Append, Appended};
use crate::telemetry::{GatewayEvent, RequestEnd};

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

/// One request of a provider on its way.
struct Delivery<'a> {
    request: &'a HttpRequest,
    state: &'a HttpState,
    settings: &'a Arc<HttpSettings>,
    ingress: Ingress,
}

/// What is judged of a request.
struct Judged<'a> {
    headers: &'a RequestHeaders<'a>,
    body: Bytes,
    settings: &'a HttpSettings,
    now: Timestamp,
}

impl<'a> Judged<'a> {
    /// The secrets of a route; they were there when the request was let in.
    fn secrets(&self, ingress: Ingress) -> Result<&'a Secrets, Rejection> {
        self.settings
            .secrets(ingress)
            .ok_or(Rejection::BadSignature)
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
    if is_certificate_test(&request, ingress) {
        return Ok(HttpResponse::Ok().finish());
    }
    if request.method() != Method::POST {
        let is_slack = ingress.provider() == Provider::Slack && request.method() != Method::GET;
        let allow = if is_slack { "GET, POST" } else { "POST" };
        return Err(ApiError::MethodNotAllowed { allow });
    }
    let delivery = Delivery {
        request: &request,
        state: &state,
        settings: &settings,
        ingress,
    };
    let answer = match ingress {
        Ingress::GitHub | Ingress::Jira => signed::receive(&delivery, payload).await,
        Ingress::SlackEvents | Ingress::SlackInteractions | Ingress::SlackCommands => {
            slack::receive(&delivery, payload).await
        }
    };
    let ended = match &answer {
        Ok(_) => RequestEnd::Accepted,
        Err(ApiError::StoreUnavailable | ApiError::Overloaded(_)) => RequestEnd::Failed,
        Err(_) => RequestEnd::Refused,
    };
    state.metrics().request(ingress.provider(), ended);
    answer
}

/// True for Slack's test of a certificate when it comes as a GET: its form is the query then.
fn is_certificate_test(request: &HttpRequest, ingress: Ingress) -> bool {
    request.method() == Method::GET
        && ingress.provider() == Provider::Slack
        && is_ssl_check(None, request.query_string().as_bytes())
}

impl Delivery<'_> {
    const fn provider(&self) -> Provider {
        self.ingress.provider()
    }

    fn headers(&self) -> RequestHeaders<'_> {
        RequestHeaders(self.request.headers())
    }

    /// Verifies and reads a body, here or, when it is long, on a thread of its own.
    async fn judge<V: Send + 'static>(
        &self,
        body: Bytes,
        judge: impl FnOnce(&Judged<'_>) -> Result<(V, WhichSecret), Rejection> + Send + 'static,
    ) -> Result<V, ApiError> {
        let now = self.state.parts.clock.now();
        let judged = if body.len() <= READ_HERE_MAX {
            judge(&Judged {
                headers: &self.headers(),
                body,
                settings: self.settings,
                now,
            })
        } else {
            let (headers, settings) = (self.request.headers().clone(), Arc::clone(self.settings));
            let judging = move || {
                judge(&Judged {
                    headers: &RequestHeaders(&headers),
                    body,
                    settings: &settings,
                    now,
                })
            };
            actix_web::web::block(judging).await.map_err(|error| {
                tracing::error!(%error, "no thread reads a body");
                ApiError::Overloaded("No thread is free to read the body.")
            })?
        };
        let (verdict, which) = judged.map_err(|rejection| self.refuse(rejection))?;
        let metrics = self.state.metrics();
        metrics.secret_matched(self.provider(), which.as_str());
        Ok(verdict)
    }

    /// Stores an arrival, and waits for it no longer than its provider does.
    async fn append(&self, arrival: Box<Arrival>, wait: Duration) -> Result<Appended, ApiError> {
        let guard = CallerGuard::new();
        let (clock, began) = (&self.state.parts.clock, self.state.parts.clock.instant());
        let span = tracing::debug_span!(
            "append",
            provider = %arrival.provider,
            kind = arrival.kind,
            delivery_id = arrival.delivery_id
        );
        let write = Append {
            arrival,
            caller: guard.token(),
        };
        let answer = self.state.parts.store.send(Submit(write));
        let answer = tokio::time::timeout(wait, answer).instrument(span).await;
        let took = clock.instant().saturating_duration_since(began);
        self.state.metrics().appended(Source::Webhook, took);
        // From here on an append that has not begun is skipped.
        drop(guard);
        match answer {
            Ok(answer) => Ok(answer??),
            Err(_) => Err(ApiError::Overloaded("The store did not answer in time.")),
        }
    }

    /// Records that a stranger was refused.
    fn refuse(&self, rejection: Rejection) -> ApiError {
        let reason = match rejection {
            Rejection::BadSignature => DropReason::BadSignature,
            Rejection::ReplayWindow => DropReason::ReplayWindow,
            Rejection::InvalidPayload | Rejection::TooLarge => DropReason::InvalidPayload,
            // Not the sender's fault, and not decided: it may come again.
            Rejection::Exhausted => return rejection.into(),
        };
        let headers = self.headers();
        let shown = |name: &str| headers.text(name).map(clipped).unwrap_or_default();
        let (kind, delivery_id) = match self.provider() {
            Provider::GitHub => (shown("x-github-event"), shown("x-github-delivery")),
            Provider::Jira => (String::new(), shown("x-atlassian-webhook-identifier")),
            Provider::Slack => (String::new(), String::new()),
        };
        let log = &self.state.parts.log;
        log.refuse(self.provider(), reason, &kind, &delivery_id);
        rejection.into()
    }

    /// Records what is not stored on purpose.
    fn record_drop(&self, dropped: Dropped) {
        let shown = |text: String| (!text.is_empty()).then_some(text);
        let mut records = vec![GatewayEvent::Dropped {
            provider: self.provider(),
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
        self.state.parts.log.record_all(records);
    }
}
