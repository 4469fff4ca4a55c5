//! From nothing to an open WebSocket.

use std::rc::Rc;

use futures_util::StreamExt;

use super::api::{CallError, SlackApi};
use super::core::Core;
use super::link::{Frames, LinkHandle, start};
use super::outbox::Wire;
use super::reason::{self, Reason};

/// The largest frame, and the largest message of several frames.
pub(super) const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Codes of `apps.connections.open` that do not go away by themselves.
const FATAL: [&str; 10] = [
    "not_authed",
    "invalid_auth",
    "account_inactive",
    "user_removed_from_team",
    "team_disabled",
    "not_allowed_token_type",
    "missing_scope",
    "token_revoked",
    "token_expired",
    "no_permission",
];

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// Somebody has to mend something.
    Fatal(Reason),
    /// The app has too many connections already.
    Crowded(Reason),
    /// Slack asks for a pause.
    RateLimited(std::time::Duration),
    /// It may work the next time.
    Passing(Reason),
}

/// Makes connections.
pub(super) struct Connector {
    core: Rc<Core>,
    api: Rc<SlackApi>,
    client: awc::Client,
}

impl Connector {
    pub(super) fn new(core: Rc<Core>, api: Rc<SlackApi>, client: awc::Client) -> Self {
        Self { core, api, client }
    }

    /// The URL of the next connection. It serves once: every try needs a new one.
    pub(super) async fn next_url(&self) -> Result<String, Failure> {
        match self.api.open_connection(&self.core.app_token).await {
            Ok(url) if self.is_allowed(&url) => Ok(url),
            Ok(_) => Err(Failure::Passing(Reason::new(
                "the url is no secure WebSocket",
            ))),
            Err(CallError::RateLimited(pause)) => Err(Failure::RateLimited(pause)),
            Err(CallError::Refused(code)) if FATAL.contains(&code.as_str()) => {
                Err(Failure::Fatal(code))
            }
            Err(CallError::Refused(reason) | CallError::Unreachable(reason)) => {
                Err(Failure::Passing(reason))
            }
        }
    }

    /// Who is asked over TLS answers with an address that is reached over TLS.
    fn is_allowed(&self, url: &str) -> bool {
        let is_plain = self.core.settings.api_base.starts_with("http://");
        url.starts_with("wss://") || is_plain && url.starts_with("ws://")
    }

    /// Opens a connection and lets it run; it is not up before its `hello`.
    pub(super) async fn open(&self, url: &str) -> Result<LinkHandle, Failure> {
        let request = self.client.ws(url).max_frame_size(FRAME_BYTES_MAX);
        let (_, connection) = request
            .connect()
            .await
            .map_err(|error| Failure::Passing(reason::of_handshake(&error)))?;
        let (wire, frames) = connection.split();
        let (wire, frames): (Wire, Frames) = (Box::pin(wire), Box::pin(frames));
        Ok(start(Rc::clone(&self.core), wire, frames))
    }
}
