//! Every answer that is not success: code, status, body and headers in one table.

use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER};
use actix_web::{HttpResponse, HttpResponseBuilder, ResponseError};
use serde::Serialize;

use crate::actors::{MailboxError, QueueError};
use crate::domain::{ActorConflict, Refusal};
use crate::providers::Rejection;
use crate::store::StoreError;

/// Seconds after which an overloaded gateway may be asked again.
const RETRY_SECONDS: u32 = 2;

/// One field of a request that is missing or malformed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FieldProblem {
    /// Its path, such as `commit[0].outcome`.
    pub(crate) field: String,
    /// What it must be.
    pub(crate) message: String,
}

/// Why a request is not answered with success. The only `ResponseError` of the gateway.
#[derive(Debug)]
pub(crate) enum ApiError {
    /// The body is not a JSON object in UTF-8.
    InvalidPayload,
    /// The signature is missing, malformed or wrong.
    BadSignature,
    /// The timestamp is more than 300 s away.
    ReplayWindow,
    /// The configuration does not list the instance.
    UnknownInstance,
    /// `Host` or `Origin` is not one of this gateway.
    ForbiddenOrigin,
    /// There is no such thing, or it is disabled.
    NotFound,
    /// The path does not answer that method.
    MethodNotAllowed {
        /// The methods that it answers.
        allow: &'static str,
    },
    /// The body was not complete in time; the connection ends.
    RequestTimeout,
    /// The request contradicts what is stored.
    Refused(Refusal),
    /// The body is larger than it may be; the connection ends.
    BodyTooLarge {
        /// The limit, for people.
        limit: &'static str,
    },
    /// The body is not declared as JSON.
    UnsupportedMediaType,
    /// Some fields are missing or malformed.
    InvalidFields(Vec<FieldProblem>),
    /// The store failed.
    StoreUnavailable,
    /// A bound was reached, or the wait for the store ran out.
    Overloaded(&'static str),
    /// Starting, draining, or the store refuses writes.
    NotReady(&'static str),
}

/// The body of an error; members that are `None` belong to other codes.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    error: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fingerprint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conflicts: Option<&'a [ActorConflict]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seqs: Option<Vec<i64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<&'a [FieldProblem]>,
}

impl ApiError {
    /// The word to branch on, and the status that goes with it.
    pub(crate) const fn code(&self) -> (&'static str, StatusCode) {
        match self {
            Self::InvalidPayload => ("invalid-payload", StatusCode::BAD_REQUEST),
            Self::BadSignature => ("bad-signature", StatusCode::UNAUTHORIZED),
            Self::ReplayWindow => ("replay-window", StatusCode::UNAUTHORIZED),
            Self::UnknownInstance => ("unknown-instance", StatusCode::FORBIDDEN),
            Self::ForbiddenOrigin => ("forbidden-origin", StatusCode::FORBIDDEN),
            Self::NotFound => ("not-found", StatusCode::NOT_FOUND),
            Self::MethodNotAllowed { .. } => ("method-not-allowed", StatusCode::METHOD_NOT_ALLOWED),
            Self::RequestTimeout => ("request-timeout", StatusCode::REQUEST_TIMEOUT),
            Self::Refused(refusal) => (refusal_code(refusal), StatusCode::CONFLICT),
            Self::BodyTooLarge { .. } => ("body-too-large", StatusCode::PAYLOAD_TOO_LARGE),
            Self::UnsupportedMediaType => {
                ("unsupported-media-type", StatusCode::UNSUPPORTED_MEDIA_TYPE)
            }
            Self::InvalidFields(_) => ("invalid-field", StatusCode::UNPROCESSABLE_ENTITY),
            Self::StoreUnavailable => ("store-unavailable", StatusCode::INTERNAL_SERVER_ERROR),
            Self::Overloaded(_) => ("overloaded", StatusCode::SERVICE_UNAVAILABLE),
            Self::NotReady(_) => ("not-ready", StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    fn message(&self) -> String {
        match self {
            Self::InvalidPayload => "The body is not a JSON object in UTF-8.".to_owned(),
            Self::BadSignature => "The signature is missing or wrong.".to_owned(),
            Self::ReplayWindow => "The timestamp is more than 300 s away.".to_owned(),
            Self::UnknownInstance => "The configuration does not list this instance.".to_owned(),
            Self::ForbiddenOrigin => "The Host or Origin is not one of this gateway.".to_owned(),
            Self::NotFound => "There is no such thing here.".to_owned(),
            Self::MethodNotAllowed { .. } => "This path does not answer that method.".to_owned(),
            Self::RequestTimeout => "The body was not complete within 30 s.".to_owned(),
            Self::Refused(refusal) => refusal_message(refusal),
            Self::BodyTooLarge { limit } => format!("The body is larger than {limit}."),
            Self::UnsupportedMediaType => "The body must be application/json.".to_owned(),
            Self::InvalidFields(problems) if problems.len() == 1 => {
                "One field is missing or malformed.".to_owned()
            }
            Self::InvalidFields(problems) => {
                format!("{} fields are missing or malformed.", problems.len())
            }
            Self::StoreUnavailable => "The store could not do it; try again.".to_owned(),
            Self::Overloaded(why) | Self::NotReady(why) => (*why).to_owned(),
        }
    }

    fn body(&self) -> Body<'_> {
        let mut body = Body {
            error: self.code().0,
            message: self.message(),
            ..Body::default()
        };
        match self {
            Self::Refused(Refusal::DuplicateInstance {
                holder,
                since,
                fingerprint,
                superseded,
                retry_after,
            }) => {
                body.holder = Some(holder.as_str());
                body.since = Some(since.to_string());
                body.fingerprint = Some(fingerprint);
                body.reason = superseded.then_some("superseded");
                body.retry_after = Some(*retry_after);
            }
            Self::Refused(Refusal::DuplicateActor { conflicts }) => {
                body.conflicts = Some(conflicts);
            }
            Self::Refused(Refusal::CommitUndelivered { seqs }) => {
                body.seqs = Some(seqs.iter().map(|seq| seq.0).collect());
            }
            Self::InvalidFields(problems) => body.fields = Some(problems),
            Self::InvalidPayload
            | Self::BadSignature
            | Self::ReplayWindow
            | Self::UnknownInstance
            | Self::ForbiddenOrigin
            | Self::NotFound
            | Self::MethodNotAllowed { .. }
            | Self::RequestTimeout
            | Self::BodyTooLarge { .. }
            | Self::UnsupportedMediaType
            | Self::StoreUnavailable
            | Self::Overloaded(_)
            | Self::NotReady(_) => {}
        }
        body
    }

    fn add_headers(&self, response: &mut HttpResponseBuilder) {
        match self {
            Self::MethodNotAllowed { allow } => {
                response.insert_header((ALLOW, *allow));
            }
            Self::Refused(Refusal::DuplicateInstance { retry_after, .. }) => {
                response.insert_header((RETRY_AFTER, *retry_after));
            }
            Self::Overloaded(_) | Self::NotReady(_) => {
                response.insert_header((RETRY_AFTER, RETRY_SECONDS));
            }
            // What is left of the body would be read as the next request.
            Self::RequestTimeout | Self::BodyTooLarge { .. } => {
                response.force_close();
            }
            Self::InvalidPayload
            | Self::BadSignature
            | Self::ReplayWindow
            | Self::UnknownInstance
            | Self::ForbiddenOrigin
            | Self::NotFound
            | Self::Refused(Refusal::DuplicateActor { .. } | Refusal::CommitUndelivered { .. })
            | Self::UnsupportedMediaType
            | Self::InvalidFields(_)
            | Self::StoreUnavailable => {}
        }
    }
}

const fn refusal_code(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::DuplicateInstance { .. } => "duplicate-instance",
        Refusal::DuplicateActor { .. } => "duplicate-actor",
        Refusal::CommitUndelivered { .. } => "commit-undelivered",
    }
}

fn refusal_message(refusal: &Refusal) -> String {
    match refusal {
        Refusal::DuplicateInstance {
            superseded: true, ..
        } => "A newer run of this peer took over.".to_owned(),
        Refusal::DuplicateInstance { .. } => "Another peer holds this name.".to_owned(),
        Refusal::DuplicateActor { conflicts } if conflicts.len() == 1 => {
            "One actor is registered by another live instance.".to_owned()
        }
        Refusal::DuplicateActor { conflicts } => {
            let count = conflicts.len();
            format!("{count} actors are registered by other live instances.")
        }
        Refusal::CommitUndelivered { seqs } if seqs.len() == 1 => {
            "One outcome is for a delivery that this queue never handed out.".to_owned()
        }
        Refusal::CommitUndelivered { seqs } => {
            let count = seqs.len();
            format!("{count} outcomes are for deliveries that this queue never handed out.")
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code().0)
    }
}

impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.code().1
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        self.add_headers(&mut response);
        response.json(self.body())
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::BadSignature => Self::BadSignature,
            Rejection::ReplayWindow => Self::ReplayWindow,
            Rejection::InvalidPayload => Self::InvalidPayload,
            Rejection::TooLarge => Self::BodyTooLarge {
                limit: "25 MiB of JSON",
            },
            Rejection::Exhausted => Self::Overloaded("There is no memory for the payload."),
        }
    }
}

/// Logs a fault here, once; a refusal is an answer.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => Self::Refused(refusal),
            StoreError::CallerGone => Self::Overloaded("The caller gave up."),
            StoreError::Unavailable { .. } | StoreError::Aborted(_) | StoreError::Corrupt(_) => {
                tracing::warn!(%error, "a request failed");
                Self::StoreUnavailable
            }
        }
    }
}

impl From<QueueError> for ApiError {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::Store(error) => error.into(),
            QueueError::Overloaded => {
                Self::Overloaded("Too many requests of this instance wait for the store.")
            }
            QueueError::Unavailable => Self::StoreUnavailable,
        }
    }
}

impl From<MailboxError> for ApiError {
    fn from(_: MailboxError) -> Self {
        Self::StoreUnavailable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{InstanceName, Seq, Timestamp};

    fn text(error: &ApiError) -> String {
        serde_json::to_string(&error.body()).unwrap()
    }

    #[test]
    fn a_refusal_names_what_it_is_about() {
        let duplicate = ApiError::Refused(Refusal::DuplicateInstance {
            holder: InstanceName::parse("laptop").unwrap(),
            since: Timestamp(0),
            fingerprint: "9f86d081884c7d65".to_owned(),
            superseded: true,
            retry_after: 42,
        });
        assert_eq!(
            text(&duplicate),
            "{\"error\":\"duplicate-instance\",\"message\":\"A newer run of this peer took over.\",\
             \"holder\":\"laptop\",\"since\":\"1970-01-01T00:00:00.000Z\",\
             \"fingerprint\":\"9f86d081884c7d65\",\"reason\":\"superseded\",\"retryAfter\":42}"
        );
        let response = duplicate.error_response();
        assert_eq!(response.headers().get(RETRY_AFTER).unwrap(), "42");
        let undelivered = ApiError::Refused(Refusal::CommitUndelivered {
            seqs: vec![Seq(9001)],
        });
        assert!(text(&undelivered).ends_with(r#""seqs":[9001]}"#));
    }

    #[test]
    fn an_overloaded_gateway_says_when_to_come_back() {
        let response = ApiError::Overloaded("Too many requests are open.").error_response();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers().get(RETRY_AFTER).unwrap(), "2");
    }
}
