//! Why something failed, in words that can be shown: no token, no ticket, no URL.

use std::error::Error;
use std::fmt;

use awc::error::{ConnectError, SendRequestError, WsClientError};

use crate::providers::clipped;

/// What tells a word that is, or holds, a token or a ticket.
const SECRET_SIGNS: [&str; 5] = ["xapp-", "xoxb-", "xoxe", "ticket=", "://"];

/// A text without secrets, of bounded length, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason(String);

impl Reason {
    pub(super) fn new(text: &str) -> Self {
        let words = text.split_whitespace().map(|word| {
            let is_secret = SECRET_SIGNS.iter().any(|sign| word.contains(sign));
            if is_secret { "…" } else { word }
        });
        Self(clipped(&words.collect::<Vec<_>>().join(" ")))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a request got no answer.
pub(super) fn of_request(error: &SendRequestError) -> Reason {
    if let SendRequestError::Connect(error) = error {
        of_connect(error)
    } else if matches!(error, SendRequestError::Timeout) {
        Reason::new("no answer in time")
    } else {
        Reason::new(&with_causes(error))
    }
}

/// Why a WebSocket did not open.
pub(super) fn of_handshake(error: &WsClientError) -> Reason {
    if let WsClientError::SendRequest(error) = error {
        of_request(error)
    } else if let WsClientError::InvalidResponseStatus(status) = error {
        let status = status.as_u16();
        Reason::new(&format!("HTTP status {status} instead of a WebSocket"))
    } else {
        Reason::new(&with_causes(error))
    }
}

fn of_connect(error: &ConnectError) -> Reason {
    if let ConnectError::Resolver(cause) = error {
        Reason::new(&format!("the host's name cannot be resolved: {cause}"))
    } else if let ConnectError::Io(cause) = error {
        let inner = cause.get_ref();
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(tls) => Reason::new(&format!("TLS: {tls}")),
            None => Reason::new(&format!("no connection: {cause}")),
        }
    } else {
        Reason::new(&error.to_string())
    }
}

/// An error with what caused it.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_shows_no_token_and_no_ticket() {
        let reason =
            Reason::new("GET wss://x/link/?ticket=abc&app_id=A with (xapp-1-A-2-c) failed");
        assert_eq!(reason.as_str(), "GET … with … failed");
    }

    #[test]
    fn a_reason_is_one_short_line() {
        let reason = Reason::new(&format!("a\n\tb {}", "c".repeat(1_000)));
        assert!(reason.as_str().starts_with("a b ccc"));
        assert!(reason.as_str().chars().count() <= 200);
    }
}
