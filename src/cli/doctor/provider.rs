//! Asks a provider one thing, and brings back what the checks look at.

use std::time::Duration;

use awc::http::header::{DATE, HeaderMap, USER_AGENT};
use awc::{Client, ClientRequest};
use serde_json::Value;

use crate::domain::{Clock, SystemClock, Timestamp};
use crate::outbound::{self, Limits, NoTls};

const BODY_BYTES_MAX: usize = 1024 * 1024;
const ANSWER_MAX: Duration = Duration::from_secs(15);
const OURSELVES: &str = concat!("the-loop-gateway/", env!("CARGO_PKG_VERSION"));

/// What a provider answered.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// Null when it is not JSON.
    pub(super) body: Value,
    /// Its clock, in whole seconds.
    pub(super) date: Option<Timestamp>,
    /// Ours at the same moment.
    pub(super) at: Timestamp,
}

/// A client for questions; needs a running actix system.
pub(super) fn client() -> Result<Client, NoTls> {
    outbound::client(Limits::default())
}

/// Sends a question.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn ask(request: ClientRequest, body: Vec<u8>) -> Result<Told, String> {
    let exchange = async {
        let request = request.insert_header((USER_AGENT, OURSELVES));
        let mut answer = request
            .send_body(body)
            .await
            .map_err(|error| error.to_string())?;
        let at = SystemClock.now();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let body = answer.body().limit(BODY_BYTES_MAX).await;
        let body = body.map_err(|error| error.to_string())?;
        Ok(Told {
            status,
            date: date_of(&headers),
            headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            at,
        })
    };
    let answered = tokio::time::timeout(ANSWER_MAX, exchange).await;
    answered.unwrap_or_else(|_| Err(format!("no answer within {} s", ANSWER_MAX.as_secs())))
}

fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    let moment = jiff::fmt::rfc2822::parse(text).ok()?;
    Some(Timestamp(moment.timestamp().as_millisecond()))
}
