//! A request of the consumer API: its body as fields, and whether its instance may ask.

use actix_web::HttpRequest;
use actix_web::web::Payload;

use super::body;
use super::error::ApiError;
use super::fields::Fields;
use super::state::HttpState;
use crate::domain::Identity;
use crate::telemetry::GatewayEvent;

/// Reads a JSON body.
pub(super) async fn read(
    request: &HttpRequest,
    payload: Payload,
    state: &HttpState,
) -> Result<Fields, ApiError> {
    if body::media_type(request).is_none_or(|kind| kind != "application/json") {
        return Err(ApiError::UnsupportedMediaType);
    }
    let body = body::read(request, payload, state, body::API).await?;
    Fields::of_json(&body.bytes)
}

/// Reads a JSON body, or the query when there is no body.
pub(super) async fn read_body_or_query(
    request: &HttpRequest,
    payload: Payload,
    state: &HttpState,
) -> Result<Fields, ApiError> {
    let body = body::read(request, payload, state, body::API).await?;
    if body.bytes.is_empty() {
        return Ok(Fields::of_query(request.query_string()));
    }
    if body::media_type(request).is_none_or(|kind| kind != "application/json") {
        return Err(ApiError::UnsupportedMediaType);
    }
    Fields::of_json(&body.bytes)
}

/// Lets an instance ask that the configuration admits. The one place where a proof of who asks
/// would be checked.
pub(super) fn admit(state: &HttpState, identity: &Identity) -> Result<(), ApiError> {
    if state.settings().instances.admit(&identity.instance) {
        Ok(())
    } else {
        Err(ApiError::UnknownInstance)
    }
}

/// Records that an instance was refused, when that is what the error is.
pub(super) fn record_refusal(state: &HttpState, identity: &Identity, error: ApiError) -> ApiError {
    use crate::domain::Refusal;

    let (mut holder, mut actors, mut seqs) = (None, None, None);
    match &error {
        ApiError::Refused(Refusal::DuplicateInstance { holder: held, .. }) => {
            holder = Some(held.to_string());
        }
        ApiError::Refused(Refusal::DuplicateActor { conflicts }) => {
            let shown = conflicts
                .iter()
                .map(|conflict| format!("{}:{}", conflict.provider, conflict.actor));
            actors = Some(shown.collect());
        }
        ApiError::Refused(Refusal::CommitUndelivered { seqs: unknown }) => {
            seqs = Some(unknown.iter().map(|seq| seq.0).collect());
        }
        ApiError::UnknownInstance => {}
        ApiError::InvalidPayload
        | ApiError::BadSignature
        | ApiError::ReplayWindow
        | ApiError::ForbiddenOrigin
        | ApiError::NotFound
        | ApiError::MethodNotAllowed { .. }
        | ApiError::RequestTimeout
        | ApiError::BodyTooLarge { .. }
        | ApiError::UnsupportedMediaType
        | ApiError::InvalidFields(_)
        | ApiError::StoreUnavailable
        | ApiError::Overloaded(_)
        | ApiError::NotReady(_) => return error,
    }
    state.parts.log.record(GatewayEvent::Refused {
        reason: error.code().0,
        instance: identity.instance.to_string(),
        holder,
        actors,
        seqs,
    });
    error
}
