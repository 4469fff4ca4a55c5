//! The consumer API over HTTP: every call bounded, every answer sorted into what it means.
//!
//! All calls may be repeated: that is what the contract of the API is made for. So a connection
//! that breaks before the answer is tried once more at once; it may be one that the gateway had
//! closed for being idle.

use std::future::Future;
use std::time::Duration;

use awc::Client;
use awc::error::{ConnectError, SendRequestError};
use awc::http::Method;
use awc::http::header::RETRY_AFTER;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::url::GatewayUrl;
use super::wire::{
    CommitRequestBody, Committed, ErrorBody, FetchBody, FetchRequest, Fetched, Registration,
    RegistrationBody, Routed,
};
use super::{ActorHolder, Holder};
use crate::domain::{CommitItem, Identity, Seq};
use crate::outbound::{self, Limits, NoTls};

/// Bytes of an answer: several times what a gateway puts into one.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
const ATTEMPTS: u32 = 2;

/// A client of one gateway, for the thread that it is made on.
pub(super) struct Api {
    client: Client,
    url: GatewayUrl,
    identity: Identity,
    /// How long an answer may take beyond the wait that was asked for.
    patience: Duration,
}

/// Why a call did not do what it was made for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// No answer, none that can be read, or one that says "later".
    Unreachable {
        why: String,
        retry_after: Option<Duration>,
    },
    /// Another peer holds the name.
    DuplicateInstance(Holder),
    /// A newer run of this peer took over.
    Superseded(Holder),
    /// Other live instances are registered for some of the actors.
    DuplicateActor(Vec<ActorHolder>),
    /// Outcomes of deliveries that were never handed out.
    CommitUndelivered(Vec<Seq>),
    /// The request is not acceptable, now or later.
    Rejected { code: String, message: String },
}

impl Fault {
    pub(super) fn unreachable(why: impl std::fmt::Display) -> Self {
        Self::Unreachable {
            why: why.to_string(),
            retry_after: None,
        }
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Api {
    /// A client; needs the runtime of the thread.
    pub(super) fn new(
        url: GatewayUrl,
        identity: Identity,
        patience: Duration,
    ) -> Result<Self, NoTls> {
        let client = outbound::client(Limits::default())?;
        Ok(Self {
            client,
            url,
            identity,
            patience,
        })
    }

    /// Sends outcomes and gets deliveries.
    pub(super) async fn fetch(&self, request: &FetchRequest) -> Result<Fetched, Fault> {
        let body = FetchBody::new(&self.identity, request);
        self.call(Method::POST, "fetch", &body, request.wait).await
    }

    /// Sends outcomes.
    pub(super) async fn commit(
        &self,
        cursor: i64,
        items: &[CommitItem],
    ) -> Result<Committed, Fault> {
        let body = CommitRequestBody::new(&self.identity, cursor, items);
        self.call(Method::POST, "commit", &body, Duration::ZERO)
            .await
    }

    /// Publishes something.
    pub(super) async fn register(&self, registration: &Registration) -> Result<Routed, Fault> {
        let (method, route) = match registration {
            Registration::Actors(_) => (Method::PUT, "actors"),
            Registration::Rooms(_) => (Method::PUT, "rooms"),
            Registration::Claim(..) => (Method::PUT, "claims"),
            Registration::Release(..) => (Method::DELETE, "claims"),
            Registration::Bind(_) => (Method::POST, "bindings"),
            Registration::Unbind(_) => (Method::DELETE, "bindings"),
        };
        let body = RegistrationBody::new(&self.identity, registration);
        self.call(method, route, &body, Duration::ZERO).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        route: &str,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<T, Fault> {
        let body = serde_json::to_vec(body).map_err(Fault::unreachable)?;
        let limit = wait.saturating_add(self.patience);
        let mut attempt = 1;
        loop {
            let exchange = self.exchange(method.clone(), route, body.clone(), limit);
            match within(limit, exchange).await? {
                Exchanged::Answer(answer) => return answer.read(),
                Exchanged::Broken(why) if attempt >= ATTEMPTS => {
                    return Err(Fault::unreachable(why));
                }
                Exchanged::Broken(_) => attempt = attempt.saturating_add(1),
            }
        }
    }

    async fn exchange(
        &self,
        method: Method,
        route: &str,
        body: Vec<u8>,
        limit: Duration,
    ) -> Result<Exchanged, Fault> {
        let url = self.url.at(&format!("/api/v1/gateway/{route}"));
        let request = self
            .client
            .request(method, url)
            .insert_header(("content-type", "application/json"))
            .timeout(limit);
        let mut response = match request.send_body(body).await {
            Ok(response) => response,
            Err(error) if is_broken(&error) => return Ok(Exchanged::Broken(error.to_string())),
            Err(error) => return Err(Fault::unreachable(error)),
        };
        let retry_after = (response.headers().get(RETRY_AFTER))
            .and_then(|value| value.to_str().ok()?.trim().parse().ok());
        let body = response.body().limit(ANSWER_BYTES_MAX).await;
        Ok(Exchanged::Answer(Answer {
            status: response.status().as_u16(),
            retry_after: retry_after.map(Duration::from_secs),
            body: body.map_err(Fault::unreachable)?.to_vec(),
        }))
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let late = || Fault::unreachable(format_args!("no answer within {} s", limit.as_secs()));
    tokio::time::timeout(limit, work)
        .await
        .unwrap_or_else(|_elapsed| Err(late()))
}

/// True when there was a connection, and it broke before a whole answer came.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library's list of errors is open"
)]
pub(super) const fn is_broken(error: &SendRequestError) -> bool {
    match error {
        // The library's name for an end of the connection in place of an answer.
        SendRequestError::Connect(ConnectError::Disconnected) => true,
        SendRequestError::Connect(_) | SendRequestError::Timeout | SendRequestError::Url(_) => {
            false
        }
        _ => true,
    }
}

enum Exchanged {
    Answer(Answer),
    Broken(String),
}

struct Answer {
    status: u16,
    retry_after: Option<Duration>,
    body: Vec<u8>,
}

impl Answer {
    fn read<T: DeserializeOwned>(self) -> Result<T, Fault> {
        if self.status == 200 {
            return serde_json::from_slice(&self.body).map_err(|error| self.malformed(&error));
        }
        match serde_json::from_slice::<ErrorBody>(&self.body) {
            Ok(error) => Err(self.fault(error)),
            Err(error) => Err(self.malformed(&error)),
        }
    }

    /// Where the text is wrong, and never what it says.
    fn malformed(&self, error: &serde_json::Error) -> Fault {
        Fault::unreachable(format_args!(
            "HTTP {} with a malformed body ({:?} error in column {}): is this a gateway?",
            self.status,
            error.classify(),
            error.column()
        ))
    }

    fn fault(&self, error: ErrorBody) -> Fault {
        match (self.status, error.error.as_str()) {
            (409, "duplicate-instance") => {
                let is_superseded = error.reason.as_deref() == Some("superseded");
                let holder = Holder::from(error);
                if is_superseded {
                    Fault::Superseded(holder)
                } else {
                    Fault::DuplicateInstance(holder)
                }
            }
            (409, "duplicate-actor") => Fault::DuplicateActor(error.conflicts),
            (409, "commit-undelivered") => Fault::CommitUndelivered(error.seqs()),
            (408 | 429 | 500.., _) => Fault::Unreachable {
                why: format!("HTTP {} {}: {}", self.status, error.error, error.message),
                retry_after: self.retry_after,
            },
            _ => Fault::Rejected {
                code: error.error,
                message: error.message,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, body: &str) -> Result<Routed, Fault> {
        let answer = Answer {
            status,
            retry_after: Some(Duration::from_secs(2)),
            body: body.as_bytes().to_vec(),
        };
        answer.read()
    }

    #[test]
    fn a_refusal_is_told_by_its_code() {
        let held = r#"{"error":"duplicate-instance","message":"m","holder":"laptop","since":"s",
            "fingerprint":"9f86","retryAfter":42}"#;
        let holder = Holder {
            instance: "laptop".to_owned(),
            since: "s".to_owned(),
            fingerprint: "9f86".to_owned(),
            retry_after: Duration::from_secs(42),
        };
        assert_eq!(
            read(409, held),
            Err(Fault::DuplicateInstance(holder.clone()))
        );
        let superseded = held.replace("\"since\"", "\"reason\":\"superseded\",\"since\"");
        assert_eq!(read(409, &superseded), Err(Fault::Superseded(holder)));
        let undelivered = r#"{"error":"commit-undelivered","message":"m","seqs":[9001]}"#;
        let seqs = vec![Seq(9001)];
        assert_eq!(read(409, undelivered), Err(Fault::CommitUndelivered(seqs)));
        let unknown = r#"{"error":"unknown-instance","message":"not listed"}"#;
        assert!(
            matches!(read(403, unknown), Err(Fault::Rejected { code, .. }) if code == "unknown-instance")
        );
    }

    #[test]
    fn what_says_later_or_nothing_that_can_be_read_is_unreachable() {
        let busy = r#"{"error":"overloaded","message":"m"}"#;
        assert!(matches!(
            read(503, busy),
            Err(Fault::Unreachable { retry_after: Some(wait), .. }) if wait.as_secs() == 2
        ));
        for (status, body) in [
            (200, ""),
            (200, "<html>"),
            (200, "{\"routed\":\"3\"}"),
            (200, "{}"),
            (404, "not found"),
            (409, "{}"),
            (502, ""),
        ] {
            let fault = read(status, body);
            assert!(
                matches!(fault, Err(Fault::Unreachable { .. })),
                "{status} {body}"
            );
        }
        assert!(read(200, "{\"routed\":3,\"new\":1}").is_ok());
    }
}
