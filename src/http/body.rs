//! Reading a body: bounded in size, in time, and in what all bodies together may hold.

use actix_web::HttpRequest;
use actix_web::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use actix_web::web::{Bytes, BytesMut, Payload};
use futures_util::StreamExt;

use super::error::ApiError;
use super::limits::Share;
use super::state::HttpState;

const MIB: usize = 1024 * 1024;
/// Room that is made at once for a body of declared length; a longer one grows as it comes.
const RESERVED_MAX: usize = 64 * 1024;

/// How large a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BodyLimit {
    bytes: usize,
    shown: &'static str,
}

/// A request of the API.
pub(super) const API: BodyLimit = BodyLimit {
    bytes: 2 * MIB,
    shown: "2 MiB",
};
/// What a provider sends as JSON.
const PROVIDER: BodyLimit = BodyLimit {
    bytes: 25 * MIB,
    shown: "25 MiB",
};
/// What a provider sends as a form: its JSON, percent-encoded.
const PROVIDER_FORM: BodyLimit = BodyLimit {
    bytes: 40 * MIB,
    shown: "40 MiB",
};

/// The limit for what a provider sends.
pub(super) fn limit_of_provider(request: &HttpRequest) -> BodyLimit {
    if media_type(request).is_some_and(|kind| kind == "application/x-www-form-urlencoded") {
        PROVIDER_FORM
    } else {
        PROVIDER
    }
}

/// The media type in lower case, without parameters.
pub(super) fn media_type(request: &HttpRequest) -> Option<String> {
    let value = request.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or(value);
    Some(kind.trim().to_ascii_lowercase())
}

/// A body, with its share of what all bodies may hold; given back when dropped.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) bytes: Bytes,
    _share: Share,
}

/// Reads a body to its end.
pub(super) async fn read(
    request: &HttpRequest,
    payload: Payload,
    state: &HttpState,
    limit: BodyLimit,
) -> Result<Body, ApiError> {
    let declared = declared_length(request);
    if declared.is_some_and(|length| length > limit.bytes) {
        return Err(limit.exceeded());
    }
    let room = declared.unwrap_or_default().min(RESERVED_MAX);
    let reading = collect(payload, state, limit, BytesMut::with_capacity(room));
    match tokio::time::timeout(state.parts.timeouts.body, reading).await {
        Ok(result) => result,
        Err(_) => Err(ApiError::RequestTimeout),
    }
}

async fn collect(
    mut payload: Payload,
    state: &HttpState,
    limit: BodyLimit,
    mut bytes: BytesMut,
) -> Result<Body, ApiError> {
    const FULL: ApiError = ApiError::Overloaded("Too many bytes of bodies are in progress.");
    let mut share = state.body_bytes.take(0).ok_or(FULL)?;
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|error| {
            tracing::debug!(%error, "a body broke off");
            ApiError::InvalidPayload
        })?;
        if bytes.len().saturating_add(chunk.len()) > limit.bytes {
            return Err(limit.exceeded());
        }
        if !share.grow(u64::try_from(chunk.len()).unwrap_or(u64::MAX)) {
            return Err(FULL);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Body {
        bytes: bytes.freeze(),
        _share: share,
    })
}

impl BodyLimit {
    const fn exceeded(self) -> ApiError {
        ApiError::BodyTooLarge { limit: self.shown }
    }
}

fn declared_length(request: &HttpRequest) -> Option<usize> {
    let value = request.headers().get(CONTENT_LENGTH)?.to_str().ok()?;
    // A number too large for us is larger than any limit.
    Some(value.parse().unwrap_or(usize::MAX))
}
