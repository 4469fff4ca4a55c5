//! The client for everything that the gateway asks of others: HTTPS and WebSocket, with the
//! machine's root certificates and a time limit for each step.
//!
//! Invariant: every connection made here speaks HTTP/1.1 (a WebSocket cannot be opened over
//! HTTP/2) and follows no redirect, so a token goes only where it was meant to go. A root
//! certificate that cannot be read is skipped: one odd file must not keep the gateway from
//! starting. Must not know who is asked, or for what.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use awc::{Client, Connector};
use rustls::{ClientConfig, RootCertStore};

/// How long each step of a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Finding the address and opening the TCP connection.
    pub connect: Duration,
    /// The TLS handshake.
    pub handshake: Duration,
    /// From the start of a request to the head of its answer, the others included.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            handshake: Duration::from_secs(5),
            answer: Duration::from_secs(10),
        }
    }
}

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct NoTls(#[from] rustls::Error);

/// A client for the thread that it is made on.
///
/// # Errors
/// When the TLS library refuses its own defaults.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the client that the ban points to"
)]
pub fn client(limits: Limits) -> Result<Client, NoTls> {
    let connector = Connector::new()
        .rustls_0_23(tls()?)
        .timeout(limits.connect)
        .handshake_timeout(limits.handshake);
    Ok(Client::builder()
        .connector(connector)
        .timeout(limits.answer)
        .disable_redirects()
        .finish())
}

/// The TLS settings of all clients; reading the certificates is worth doing once.
fn tls() -> Result<Arc<ClientConfig>, NoTls> {
    static SETTINGS: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(settings) = SETTINGS.get() {
        return Ok(Arc::clone(settings));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut settings = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots())
        .with_no_client_auth();
    settings.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::clone(SETTINGS.get_or_init(|| Arc::new(settings))))
}

fn roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, odd) = roots.add_parsable_certificates(found.certs);
    let unreadable = found.errors.len();
    tracing::debug!(usable, odd, unreadable, "root certificates");
    if usable == 0 {
        tracing::warn!("no root certificate was found: every HTTPS request will fail");
    }
    roots
}
