//! Which browsers may talk to the API: those that our own page runs in, and no others.
//!
//! A page of another site can send requests to a loopback address, and a name that resolves to
//! one can read the answers. So on the API and the dashboard `Host` must be a name of ours, and an
//! `Origin` must be the very host that was asked. `X-Forwarded-*` is never looked at, and no CORS
//! header is ever sent. The routes of the providers are not guarded: they prove who they are.

use std::collections::BTreeSet;
use std::net::IpAddr;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{HOST, HeaderValue, ORIGIN};
use actix_web::middleware::Next;
use actix_web::{Error, web};

use super::error::ApiError;
use super::state::HttpState;

/// The names that a `Host` header may carry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OwnNames(BTreeSet<String>);

impl OwnNames {
    pub(super) fn new(listen_host: &str, allowed: &BTreeSet<String>) -> Self {
        let names = allowed.iter().map(String::as_str).chain([listen_host]);
        Self(names.map(bare).collect())
    }

    /// True when an authority (`name[:port]`) is one of ours or loopback.
    fn has(&self, authority: &str) -> bool {
        let Some(host) = host_of(authority) else {
            return false;
        };
        let host = bare(host);
        let is_loopback = host == "localhost"
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        is_loopback || self.0.contains(&host)
    }
}

/// A host in lower case, without the brackets of an IPv6 address and without a final dot.
fn bare(host: &str) -> String {
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let host = host.strip_suffix('.').unwrap_or(host);
    host.to_ascii_lowercase()
}

/// The host of `host[:port]`; `None` when the port is none.
fn host_of(authority: &str) -> Option<&str> {
    let is_port = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match authority.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => {
            is_port(port).then_some(host)
        }
        _ => Some(authority),
    }
}

/// Lets a request through when its `Host` and `Origin` are ours.
pub(super) async fn admit_own(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let is_ours = request
        .app_data::<web::Data<HttpState>>()
        .is_some_and(|state| is_own(&request, &state.settings().names));
    if !is_ours {
        return Err(ApiError::ForbiddenOrigin.into());
    }
    next.call(request).await
}

fn is_own(request: &ServiceRequest, names: &OwnNames) -> bool {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST);
    let (Some(Ok(host)), None) = (hosts.next().map(HeaderValue::to_str), hosts.next()) else {
        return false;
    };
    // A request line can name a host too.
    let is_line_own = request
        .uri()
        .authority()
        .is_none_or(|authority| names.has(authority.as_str()));
    let are_origins_own = headers
        .get_all(ORIGIN)
        .all(|origin| origin.to_str().is_ok_and(|origin| is_origin(origin, host)));
    names.has(host) && is_line_own && are_origins_own
}

/// True when an origin is the host that was asked, by either scheme.
fn is_origin(origin: &str, host: &str) -> bool {
    let (authority, default_port) = if let Some(authority) = origin.strip_prefix("http://") {
        (authority, ":80")
    } else if let Some(authority) = origin.strip_prefix("https://") {
        (authority, ":443")
    } else {
        return false;
    };
    let plain = |authority: &str| {
        let authority = authority.to_ascii_lowercase();
        match authority.strip_suffix(default_port) {
            Some(host) => host.to_owned(),
            None => authority,
        }
    };
    plain(authority) == plain(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_loopback_or_listed() {
        let allowed = BTreeSet::from(["gw.example".to_owned()]);
        let names = OwnNames::new("10.0.0.7", &allowed);
        for own in [
            "localhost",
            "LOCALHOST:8790",
            "localhost.",
            "127.0.0.1:8790",
            "127.8.8.8",
            "[::1]",
            "[::1]:8790",
            "::1",
            "10.0.0.7:1",
            "gw.example",
            "GW.example.:443",
        ] {
            assert!(names.has(own), "{own}");
        }
        for foreign in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "gw.example:80:80",
            "gw.example:",
            "gw.example:x",
            "10.0.0.8",
            "0.0.0.0",
            "2130706433",
        ] {
            assert!(!names.has(foreign), "{foreign}");
        }
    }

    #[test]
    fn an_origin_is_the_very_host_that_was_asked() {
        for (origin, host, is_own) in [
            ("http://localhost:8790", "localhost:8790", true),
            ("http://LocalHost:8790", "localhost:8790", true),
            ("https://gw.example", "gw.example", true),
            ("https://gw.example", "gw.example:443", true),
            ("http://gw.example:80", "gw.example", true),
            ("http://localhost:3000", "localhost:8790", false),
            ("http://127.0.0.1:8790", "localhost:8790", false),
            ("https://evil.example", "localhost:8790", false),
            ("null", "localhost:8790", false),
            ("", "localhost:8790", false),
            ("file://", "", false),
        ] {
            assert_eq!(is_origin(origin, host), is_own, "{origin} {host}");
        }
    }
}
