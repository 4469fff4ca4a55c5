//! Proves that a body comes from its provider.
//!
//! Invariant: [`Verified`] has a private field, and only this module fills it, so no parser sees
//! bytes whose origin is unproven. Comparisons run in constant time, and a secret never leaves.
//!
//! Must not look into a body.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::Rejection;
use crate::domain::Timestamp;

const DIGEST_BYTES: usize = 32;
const SLACK_WINDOW_MS: u64 = 300_000;

/// A body whose origin is proven.
#[derive(Clone, Copy)]
pub struct Verified<B> {
    body: B,
    _witness: Witness,
}

#[derive(Clone, Copy)]
struct Witness;

impl<B> Verified<B> {
    const fn new(body: B) -> Self {
        Self {
            body,
            _witness: Witness,
        }
    }

    /// The body of an envelope or answer on a connection that the gateway opened itself to its
    /// provider, over TLS and with a token: the connection is the proof.
    ///
    /// Never for what a stranger can send.
    #[must_use]
    pub const fn by_connection(body: B) -> Self {
        Self::new(body)
    }

    /// The body.
    #[must_use]
    pub fn into_body(self) -> B {
        self.body
    }
}

impl<B: AsRef<[u8]>> Verified<B> {
    /// The same body, borrowed.
    #[must_use]
    pub fn as_bytes(&self) -> Verified<&[u8]> {
        Verified::new(self.body.as_ref())
    }
}

/// Says nothing of the body: payload text belongs in no log.
impl<B> fmt::Debug for Verified<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified").finish_non_exhaustive()
    }
}

/// The one or two secrets that are live for a provider.
#[derive(Clone)]
pub struct Secrets {
    current: String,
    previous: Option<String>,
}

/// The live secret that a signature matched; counted, so that a rotation can be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhichSecret {
    /// The one that senders ought to use.
    Current,
    /// The one that is being replaced.
    Previous,
}

impl WhichSecret {
    /// The word recorded.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Previous => "previous",
        }
    }
}

impl Secrets {
    /// The secrets of a provider; `None` when the current one is blank, because a blank secret
    /// proves nothing. A blank previous one counts as unset.
    #[must_use]
    pub fn new(current: String, previous: Option<String>) -> Option<Self> {
        let is_set = |secret: &String| !secret.trim().is_empty();
        Some(Self {
            current: Some(current).filter(is_set)?,
            previous: previous.filter(is_set),
        })
    }

    /// Checks a digest over the parts of a message against each live secret.
    fn verify(
        &self,
        message: &[&[u8]],
        digest: [u8; DIGEST_BYTES],
    ) -> Result<WhichSecret, Rejection> {
        let matches = |secret: &str| {
            digest_of(secret, message).is_some_and(|mac| mac.verify_slice(&digest).is_ok())
        };
        if matches(&self.current) {
            Ok(WhichSecret::Current)
        } else if self.previous.as_deref().is_some_and(matches) {
            Ok(WhichSecret::Previous)
        } else {
            Err(Rejection::BadSignature)
        }
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let previous = self.previous.as_ref().map_or("unset", |_| "set");
        f.debug_struct("Secrets")
            .field("current", &format_args!("set"))
            .field("previous", &format_args!("{previous}"))
            .finish()
    }
}

/// Checks the value of `X-Hub-Signature-256` as GitHub sends it: `sha256=` and 64 lower-case
/// hexadecimal digits.
///
/// # Errors
/// [`Rejection::BadSignature`] when it is missing, malformed or of another body or secret.
pub fn verify_github<B: AsRef<[u8]>>(
    secrets: &Secrets,
    header: Option<&[u8]>,
    body: B,
) -> Result<(Verified<B>, WhichSecret), Rejection> {
    let digest = digest_in(header, b"sha256=")?;
    let which = secrets.verify(&[body.as_ref()], digest)?;
    Ok((Verified::new(body), which))
}

/// Checks the value of `X-Hub-Signature` as Jira sends it: a method and a digest, `sha256=…`.
/// Another method is refused: whoever adds one here decides that it is good enough.
///
/// # Errors
/// [`Rejection::BadSignature`] when it is missing, malformed or of another body or secret.
pub fn verify_jira<B: AsRef<[u8]>>(
    secrets: &Secrets,
    header: Option<&[u8]>,
    body: B,
) -> Result<(Verified<B>, WhichSecret), Rejection> {
    verify_github(secrets, header, body)
}

/// The two headers by which Slack proves a request.
#[derive(Debug, Clone, Copy)]
pub struct SlackProof<'a> {
    /// `X-Slack-Signature`: `v0=` and 64 lower-case hexadecimal digits.
    pub signature: Option<&'a [u8]>,
    /// `X-Slack-Request-Timestamp`: seconds since the Unix epoch.
    pub timestamp: Option<&'a [u8]>,
}

/// Checks a Slack request: the form of its timestamp, then its age, then its signature.
///
/// # Errors
/// [`Rejection::ReplayWindow`] when the timestamp is more than 300 s from `now`;
/// [`Rejection::BadSignature`] when a header is missing, malformed or of another body or secret.
pub fn verify_slack<B: AsRef<[u8]>>(
    secrets: &Secrets,
    proof: SlackProof<'_>,
    body: B,
    now: Timestamp,
) -> Result<(Verified<B>, WhichSecret), Rejection> {
    let timestamp = proof.timestamp.ok_or(Rejection::BadSignature)?;
    let sent = moment_in(timestamp).ok_or(Rejection::BadSignature)?;
    if now.0.abs_diff(sent.0) > SLACK_WINDOW_MS {
        return Err(Rejection::ReplayWindow);
    }
    let digest = digest_in(proof.signature, b"v0=")?;
    let which = secrets.verify(&[b"v0:", timestamp, b":", body.as_ref()], digest)?;
    Ok((Verified::new(body), which))
}

/// The value of `X-Hub-Signature-256` for a body.
#[must_use]
pub fn sign_github(secret: &str, body: &[u8]) -> String {
    format!("sha256={}", signed(secret, &[body]))
}

/// The value of Jira's `X-Hub-Signature` for a body.
#[must_use]
pub fn sign_jira(secret: &str, body: &[u8]) -> String {
    sign_github(secret, body)
}

/// The value of `X-Slack-Signature` for a body sent at a second since the Unix epoch.
#[must_use]
pub fn sign_slack(secret: &str, timestamp: i64, body: &[u8]) -> String {
    let timestamp = timestamp.to_string();
    format!(
        "v0={}",
        signed(secret, &[b"v0:", timestamp.as_bytes(), b":", body])
    )
}

fn signed(secret: &str, message: &[&[u8]]) -> String {
    digest_of(secret, message)
        .map(|mac| hex::encode(mac.finalize().into_bytes()))
        .unwrap_or_default()
}

/// `None` never happens: HMAC takes keys of any length.
fn digest_of(secret: &str, message: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).ok()?;
    for part in message {
        mac.update(part);
    }
    Some(mac)
}

/// The digest in a signature header; anything but the prefix and lower-case digits is refused.
fn digest_in(header: Option<&[u8]>, prefix: &[u8]) -> Result<[u8; DIGEST_BYTES], Rejection> {
    let mut digest = [0; DIGEST_BYTES];
    header
        .and_then(|header| header.strip_prefix(prefix))
        .filter(|digits| !digits.iter().any(u8::is_ascii_uppercase))
        .and_then(|digits| hex::decode_to_slice(digits, &mut digest).ok())
        .map(|()| digest)
        .ok_or(Rejection::BadSignature)
}

/// The moment that a text of digits names in seconds; one too large for us is the latest.
fn moment_in(seconds: &[u8]) -> Option<Timestamp> {
    let digits = std::str::from_utf8(seconds).ok()?;
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| Timestamp(digits.parse().unwrap_or(i64::MAX).saturating_mul(1000)))
}

#[cfg(test)]
#[path = "signature_tests.rs"]
mod tests;
