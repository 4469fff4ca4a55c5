//! Where a gateway is.

use std::fmt;

use awc::http::Uri;

use crate::domain::ParseError;

/// The base of a gateway's routes: `http[s]://host[:port]`, with a path when a proxy adds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayUrl(String);

impl GatewayUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// When it is no `http` or `https` URL with a host, or has a query.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let refused = ParseError("must be http://host:port or https://host:port");
        let uri: Uri = text.trim().parse().or(Err(refused.clone()))?;
        let scheme = uri.scheme_str();
        let scheme = scheme.filter(|scheme| matches!(*scheme, "http" | "https"));
        let authority = uri.authority().filter(|found| !found.host().is_empty());
        match (scheme, authority) {
            (Some(scheme), Some(authority)) if uri.query().is_none() => {
                let path = uri.path().trim_end_matches('/');
                Ok(Self(format!("{scheme}://{authority}{path}")))
            }
            _ => Err(refused),
        }
    }

    /// The URL of a route, whose path begins with `/`.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }
}

impl fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_scheme_and_a_host_and_keeps_its_path() {
        for (text, route) in [
            ("http://127.0.0.1:8790", "http://127.0.0.1:8790/x"),
            ("https://gw.example/", "https://gw.example/x"),
            ("http://[::1]:1/a/b/", "http://[::1]:1/a/b/x"),
        ] {
            assert_eq!(GatewayUrl::parse(text).unwrap().at("/x"), route);
        }
        for bad in [
            "",
            "127.0.0.1:8790",
            "ftp://host",
            "http://",
            "http://h/?a=b",
        ] {
            assert!(GatewayUrl::parse(bad).is_err(), "{bad:?}");
        }
    }
}
