//! Asks one API: conditional requests, redirects, limits, and a bound on everything.
//!
//! Invariant: a request goes to the API's own server and nowhere else, wherever an answer leads,
//! because it carries the token. Must not know what is asked for.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use awc::Client;
use awc::error::{PayloadError, SendRequestError, StatusCode};
use awc::http::header::HeaderMap;

use super::credentials::Credentials;
use super::failure::{Failure, Limit};
use super::gate::Gate;
use super::limits::Told;
use super::link::{Home, next_page};
use super::moment;
use crate::domain::{Clock, Timestamp};
use crate::outbound::Limits;

/// A page of a hundred items with long texts stays far below.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Of a refusal only a message is read.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const REDIRECTS_MAX: usize = 4;
/// A pooled connection may have been closed meanwhile; that says nothing of the server.
const CONNECTION_TRIES: usize = 2;
const USER_AGENT: &str = concat!("the-loop-gateway/", env!("CARGO_PKG_VERSION"));

/// How long a request may take.
#[derive(Debug, Clone, Copy)]
pub struct HttpTiming {
    /// Up to the head of the answer.
    pub limits: Limits,
    /// For the body of the answer.
    pub body: Duration,
}

impl Default for HttpTiming {
    fn default() -> Self {
        Self {
            limits: Limits {
                answer: Duration::from_secs(30),
                ..Limits::default()
            },
            body: Duration::from_secs(60),
        }
    }
}

/// What an API is and how it is asked.
#[derive(Debug, Clone)]
pub(super) struct ApiParts {
    /// Its URL, without a trailing `/`.
    pub(super) base: String,
    /// Headers of every request.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) credentials: Credentials,
    pub(super) gate: Arc<Gate>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) timing: HttpTiming,
}

/// One API, asked from one thread.
#[derive(Clone)]
pub(super) struct Api {
    client: Client,
    parts: Rc<ApiParts>,
    home: Rc<Home>,
}

/// What a request brought.
#[derive(Debug)]
pub(super) enum Answer {
    /// Nothing has changed since the ETag.
    NotModified,
    /// This.
    Page(Page),
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct Page {
    /// The JSON text.
    pub(super) body: String,
    /// The ETag; empty for none.
    pub(super) etag: String,
    /// The URL of the next page.
    pub(super) next: Option<String>,
    /// When the server answered, by its own clock.
    pub(super) date: Timestamp,
    /// True when it was found under another URL, for good.
    pub(super) moved: bool,
    /// How long the server wants to be left alone.
    pub(super) poll_interval: Option<Duration>,
    /// Who asked, as the server sees it (Jira).
    pub(super) user: Option<String>,
}

/// One answer, of whatever status.
struct Received {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Api {
    pub(super) fn new(client: Client, parts: ApiParts) -> Result<Self, Failure> {
        let home = Home::of(&parts.base).ok_or(Failure::Elsewhere)?;
        Ok(Self {
            client,
            parts: Rc::new(parts),
            home: Rc::new(home),
        })
    }

    /// The URL of a path below the base.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.parts.base)
    }

    /// Asks for a page, unless it is as it was under this ETag (empty: none is known).
    pub(super) async fn get_if_changed(&self, url: &str, etag: &str) -> Result<Answer, Failure> {
        let _seat = self.parts.gate.enter().await?;
        let result = self.follow(url, etag).await;
        match result {
            Err(Failure::Limited { limit, wait }) => {
                let wait = self.parts.gate.close(limit, wait);
                Err(Failure::Limited { limit, wait })
            }
            Err(failure) => Err(failure),
            Ok(answer) => {
                self.parts.gate.passed();
                Ok(answer)
            }
        }
    }

    /// Asks for a page.
    pub(super) async fn get(&self, url: &str) -> Result<Page, Failure> {
        match self.get_if_changed(url, "").await? {
            Answer::Page(page) => Ok(page),
            Answer::NotModified => Err(Failure::Malformed("304 without an ETag")),
        }
    }

    async fn follow(&self, url: &str, etag: &str) -> Result<Answer, Failure> {
        let (mut url, mut moved) = (url.to_owned(), false);
        for _ in 0..=REDIRECTS_MAX {
            let received = self.ask(&url, etag).await?;
            let status = received.status.as_u16();
            match status {
                200 => return self.page(received, moved).map(Answer::Page),
                304 => return Ok(Answer::NotModified),
                301 | 302 | 307 | 308 => {
                    let to = text(&received.headers, "location").ok_or(Failure::Elsewhere)?;
                    url = self.home.within(&url, to).ok_or(Failure::Elsewhere)?;
                    moved |= matches!(status, 301 | 308);
                }
                _ => return Err(self.told(&received).failure()),
            }
        }
        Err(Failure::Redirects)
    }

    fn page(&self, received: Received, moved: bool) -> Result<Page, Failure> {
        if let Some(wait) = self.told(&received).spent() {
            self.parts.gate.close(Limit::Primary, wait);
        }
        let headers = &received.headers;
        let next = match text(headers, "link").and_then(next_page) {
            Some(next) => Some(self.home.adopt(next).ok_or(Failure::Elsewhere)?),
            None => None,
        };
        let seconds = text(headers, "x-poll-interval").and_then(|text| text.parse().ok());
        Ok(Page {
            etag: text(headers, "etag").unwrap_or_default().to_owned(),
            next,
            date: self.date(headers),
            moved,
            poll_interval: seconds.map(Duration::from_secs),
            user: text(headers, "x-ausername").map(str::to_owned),
            body: received.body,
        })
    }

    fn told<'a>(&self, received: &'a Received) -> Told<'a> {
        let headers = &received.headers;
        Told {
            status: received.status.as_u16(),
            retry_after: text(headers, "retry-after"),
            remaining: text(headers, "x-ratelimit-remaining"),
            reset: text(headers, "x-ratelimit-reset"),
            body: &received.body,
            now: self.date(headers),
        }
    }

    fn date(&self, headers: &HeaderMap) -> Timestamp {
        let told = text(headers, "date").and_then(moment::parse_http_date);
        told.unwrap_or_else(|| moment::whole_second(self.parts.clock.now()))
    }

    async fn ask(&self, url: &str, etag: &str) -> Result<Received, Failure> {
        let mut tries = 1;
        loop {
            match self.ask_once(url, etag).await {
                Err(Failure::Network(_)) if tries < CONNECTION_TRIES => {
                    tries = tries.saturating_add(1);
                }
                result => return result,
            }
        }
    }

    async fn ask_once(&self, url: &str, etag: &str) -> Result<Received, Failure> {
        let mut request = self
            .client
            .get(url)
            .insert_header(("user-agent", USER_AGENT));
        for header in self.parts.headers {
            request = request.insert_header(*header);
        }
        if !etag.is_empty() {
            request = request.insert_header(("if-none-match", etag));
        }
        let request = self.parts.credentials.sign(request)?;
        let mut response = request.send().await.map_err(|error| not_sent(&error))?;
        let (status, headers) = (response.status(), response.headers().clone());
        let is_wanted = status == StatusCode::OK;
        let bytes_max = if is_wanted {
            BODY_BYTES_MAX
        } else {
            REFUSAL_BYTES_MAX
        };
        let body = tokio::time::timeout(self.parts.timing.body, response.body().limit(bytes_max));
        let body = match body.await {
            Ok(Ok(body)) if is_wanted => whole(&headers, &body)?,
            Ok(Ok(body)) => String::from_utf8_lossy(&body).into_owned(),
            // The status says enough.
            Ok(Err(_)) | Err(_) if !is_wanted => String::new(),
            Ok(Err(error)) => return Err(not_read(&error)),
            Err(_) => return Err(Failure::Timeout),
        };
        Ok(Received {
            status,
            headers,
            body,
        })
    }
}

/// The text of a body that came as a whole: a connection that closes early looks like an end.
fn whole(headers: &HeaderMap, body: &[u8]) -> Result<String, Failure> {
    let announced = text(headers, "content-length").and_then(|text| text.parse().ok());
    if announced.is_some_and(|announced: usize| announced != body.len()) {
        return Err(Failure::Cut);
    }
    let text = std::str::from_utf8(body).ok();
    text.map(str::to_owned)
        .ok_or(Failure::Malformed("not UTF-8"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let text = headers.get(name)?.to_str().ok()?.trim();
    (!text.is_empty()).then_some(text)
}

fn not_sent(error: &SendRequestError) -> Failure {
    match error {
        SendRequestError::Timeout => Failure::Timeout,
        SendRequestError::Connect(awc::error::ConnectError::Timeout) => Failure::Timeout,
        SendRequestError::Url(_)
        | SendRequestError::Connect(_)
        | SendRequestError::Send(_)
        | SendRequestError::Response(_)
        | SendRequestError::Http(_)
        | SendRequestError::H2(_)
        | SendRequestError::TunnelNotSupported
        | SendRequestError::Body(_)
        | SendRequestError::Custom(..)
        | _ => Failure::Network(error.to_string()),
    }
}

fn not_read(error: &PayloadError) -> Failure {
    match error {
        PayloadError::Overflow => Failure::TooLarge,
        PayloadError::Incomplete(_)
        | PayloadError::EncodingCorrupted
        | PayloadError::UnknownLength
        | PayloadError::Http2Payload(_)
        | PayloadError::Io(_)
        | _ => Failure::Cut,
    }
}
