//! Bodies of the consumer API read as the routes read them, without a gateway around: what
//! fuzzing throws bytes at. Must not read anything in a way of its own.

use super::consume::{commit_of, fetch_of};
use super::error::ApiError;
use super::fields::Fields;

/// What a route makes of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// It is a request, with so many outcomes.
    Request {
        /// Outcomes, 0 to 10,000.
        outcomes: usize,
    },
    /// It is refused as no JSON object.
    InvalidPayload,
    /// It is refused; the paths of the fields that are wrong, never what they hold.
    InvalidFields(Vec<String>),
    /// It is refused with another code, which no body alone can cause.
    Other,
}

/// Reads the body of a fetch.
#[must_use]
pub fn try_fetch(body: &[u8]) -> Trial {
    let read = Fields::of_json(body).and_then(fetch_of);
    verdict(read.map(|(fetch, _)| fetch.commit.len()))
}

/// Reads the body of a commit.
#[must_use]
pub fn try_commit(body: &[u8]) -> Trial {
    let read = Fields::of_json(body).and_then(commit_of);
    verdict(read.map(|outcomes| outcomes.commit.len()))
}

fn verdict(read: Result<usize, ApiError>) -> Trial {
    match read {
        Ok(outcomes) => Trial::Request { outcomes },
        Err(ApiError::InvalidPayload) => Trial::InvalidPayload,
        Err(ApiError::InvalidFields(problems)) => {
            Trial::InvalidFields(problems.into_iter().map(|problem| problem.field).collect())
        }
        Err(
            ApiError::BadSignature
            | ApiError::ReplayWindow
            | ApiError::ForbiddenOrigin
            | ApiError::UnknownInstance
            | ApiError::NotFound
            | ApiError::MethodNotAllowed { .. }
            | ApiError::RequestTimeout
            | ApiError::BodyTooLarge { .. }
            | ApiError::UnsupportedMediaType
            | ApiError::Refused(_)
            | ApiError::StoreUnavailable
            | ApiError::Overloaded(_)
            | ApiError::NotReady(_),
        ) => Trial::Other,
    }
}
