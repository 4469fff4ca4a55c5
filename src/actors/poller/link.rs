//! Where an answer leads: redirects and next pages, kept on the API's own server.

/// The server of an API, by its URL.
#[derive(Debug)]
pub(super) struct Home {
    /// `https://host[:port]` in lower case.
    origin: String,
    /// The path of the base, without a trailing `/`.
    path: String,
}

const PUBLIC_ORIGIN: &str = "https://api.github.com";
/// The path of the API on an Enterprise Server.
const ENTERPRISE_PATH: &str = "/api/v3";

impl Home {
    pub(super) fn of(base: &str) -> Option<Self> {
        let (origin, path) = split(base)?;
        Some(Self {
            origin,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// The URL that a redirect from `url` leads to, if it stays here.
    pub(super) fn within(&self, url: &str, location: &str) -> Option<String> {
        if location.contains("://") {
            return self.adopt(location);
        }
        let (origin, path) = split(url)?;
        let is_query = location.starts_with('?');
        let before = match path.split_once('?') {
            Some((before, _)) => before,
            None => &path,
        };
        let path = if location.starts_with('/') && !location.starts_with("//") {
            location.to_owned()
        } else if is_query {
            format!("{before}{location}")
        } else {
            return None;
        };
        (origin == self.origin).then(|| format!("{origin}{path}"))
    }

    /// A URL that the API names. Behind a proxy it may name itself as it knows itself: then its
    /// path is taken, and asked of the configured server.
    pub(super) fn adopt(&self, url: &str) -> Option<String> {
        let (origin, path) = split(url)?;
        if origin == self.origin {
            return Some(format!("{origin}{path}"));
        }
        let inner = path.strip_prefix(ENTERPRISE_PATH).unwrap_or(&path);
        self.is_proxy()
            .then(|| format!("{}{}{inner}", self.origin, self.path))
    }

    /// True when it is not where GitHub itself has its API.
    fn is_proxy(&self) -> bool {
        let is_public = self.origin == PUBLIC_ORIGIN && self.path.is_empty();
        !is_public && self.path != ENTERPRISE_PATH
    }
}

/// The origin in lower case, and the rest.
fn split(url: &str) -> Option<(String, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end)?;
    let is_plain = !authority.is_empty() && !authority.contains(['@', '\\']);
    let is_http = scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http");
    (is_plain && is_http).then(|| {
        (
            format!("{scheme}://{authority}").to_ascii_lowercase(),
            path.to_owned(),
        )
    })
}

/// The URL with `rel="next"` of a `Link` header.
pub(super) fn next_page(header: &str) -> Option<&str> {
    let mut rest = header;
    while let Some((_, after)) = rest.split_once('<') {
        let (url, after) = after.split_once('>')?;
        let end = after.find('<').unwrap_or(after.len());
        let (parameters, behind) = after.split_at_checked(end)?;
        let is_next = parameters.split([';', ',']).any(|parameter| {
            let relation = parameter.trim().strip_prefix("rel=");
            relation.is_some_and(|relation| relation.trim_matches('"') == "next")
        });
        if is_next {
            return Some(url);
        }
        rest = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_the_links() {
        let header = "<https://api.github.com/repositories/1/issues?page=1>; rel=\"prev\", \
             <https://api.github.com/repositories/1/issues?after=a%2Cb&page=3>; rel=\"next\", \
             <https://api.github.com/repositories/1/issues?page=9>; rel=\"last\"";
        assert_eq!(
            next_page(header),
            Some("https://api.github.com/repositories/1/issues?after=a%2Cb&page=3")
        );
        assert_eq!(next_page("<https://a/b>; rel=next"), Some("https://a/b"));
        for none in [
            "",
            "<https://a/b>; rel=\"last\"",
            "<https://a",
            "rel=\"next\"",
        ] {
            assert_eq!(next_page(none), None, "{none}");
        }
    }

    #[test]
    fn a_redirect_is_followed_on_the_same_server_only() {
        let home = Home::of("https://api.github.com").unwrap();
        let from = "https://api.github.com/repos/o/r/issues?x=1";
        for (location, to) in [
            (
                "https://api.github.com/repositories/1/issues",
                Some("https://api.github.com/repositories/1/issues"),
            ),
            (
                "/repositories/1?y=2",
                Some("https://api.github.com/repositories/1?y=2"),
            ),
            ("?y=2", Some("https://api.github.com/repos/o/r/issues?y=2")),
            ("https://evil.example/x", None),
            ("http://api.github.com/x", None),
            ("https://api.github.com@evil.example/x", None),
            ("https://api.github.com.evil.example/x", None),
            ("https://api.github.com:8443/x", None),
            ("//evil.example/x", None),
            ("x", None),
        ] {
            assert_eq!(home.within(from, location).as_deref(), to, "{location}");
        }
    }

    #[test]
    fn behind_a_proxy_the_path_counts() {
        let home = Home::of("https://proxy.example/github/").unwrap();
        let named = "https://ghe.corp.example/api/v3/repositories/1/issues?page=2";
        assert_eq!(
            home.adopt(named).as_deref(),
            Some("https://proxy.example/github/repositories/1/issues?page=2")
        );
        let local = Home::of("http://127.0.0.1:8080").unwrap();
        assert_eq!(
            local.adopt("https://api.github.com/x").as_deref(),
            Some("http://127.0.0.1:8080/x")
        );
        let enterprise = Home::of("https://ghe.corp.example/api/v3").unwrap();
        assert_eq!(enterprise.adopt("https://other.example/api/v3/x"), None);
        assert_eq!(
            enterprise
                .adopt("https://GHE.corp.example/api/v3/x")
                .as_deref(),
            Some("https://ghe.corp.example/api/v3/x")
        );
    }
}
