//! How many requests may be open: one more is told to come back, at once.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, web};
use tracing::Instrument;

use super::error::ApiError;
use super::limits::Share;
use super::state::{HttpState, Phase};

/// Answered whatever the load: it says how the gateway is.
const HEALTH: &str = "/api/v1/gateway/health";

/// Lives with its request, and counts it.
#[derive(Debug)]
pub(super) struct OpenRequest {
    _share: Share,
}

/// Counts a request as open while it is; answers end their connection during the drain.
pub(super) async fn count_open(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let state = request.app_data::<web::Data<HttpState>>().cloned();
    let open = state.as_ref().and_then(|state| state.open_requests.take(1));
    match open {
        Some(share) => {
            drop(
                request
                    .extensions_mut()
                    .insert(OpenRequest { _share: share }),
            );
        }
        None if request.path() == HEALTH => {}
        None => return Err(ApiError::Overloaded("Too many requests are open.").into()),
    }
    let span = tracing::debug_span!(
        "request",
        method = %request.method(),
        path = request.path(),
        status = tracing::field::Empty
    );
    let mut response = next.call(request).instrument(span.clone()).await?;
    span.record("status", response.status().as_u16());
    if state.is_some_and(|state| state.phase() == Phase::Draining) {
        let head = response.response_mut().head_mut();
        head.set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}
