//! The webhook receiver of a the-loop instance (v11.2), as it answers.
//!
//! Faithful to what was recorded of the real one: HTTP/1.0 and one request a connection; the
//! signature before the parsing, lower-case hexadecimal only, and none asked for without a
//! secret; no chunked bodies, no `100 Continue`; 202 says that it was taken, never what became of
//! it; and some requests end its thread, so that the connection closes without an answer. On
//! command it is down, slow, closes, or answers another status.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::de::IgnoredAny;

use super::wire::{Received, Reply, Server, answer_bytes};
use crate::providers::signature::sign_github;

const PATH: &str = "/gh-webhook";
const DEADLINE: Duration = Duration::from_secs(20);

/// What is done with a request instead of what the receiver would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instead {
    /// What the receiver does.
    Nothing,
    /// This status.
    Status(u16),
    /// The connection ends without an answer.
    Close,
    /// What the receiver does, but this much later.
    Slow(Duration),
}

/// A request that the receiver got, and what it answered.
#[derive(Debug, Clone)]
pub struct Taken {
    /// The request.
    pub request: Received,
    /// The status; `None` when the connection ended without an answer.
    pub status: Option<u16>,
}

/// A running receiver.
#[derive(Debug)]
pub struct FakeReceiver {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    secret: Option<String>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    taken: Vec<Taken>,
    scripted: VecDeque<Instead>,
    standing: Instead,
}

impl FakeReceiver {
    /// Starts one; without a secret it takes what is not signed.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start(secret: Option<&str>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            secret: secret.map(str::to_owned),
            state: Mutex::new(State {
                taken: Vec::new(),
                scripted: VecDeque::new(),
                standing: Instead::Nothing,
            }),
            changed: Condvar::new(),
        });
        let answering = Arc::clone(&shared);
        let server = Server::start(Arc::new(move |request| {
            let shared = Arc::clone(&answering);
            Box::pin(async move { shared.answer(request).await })
        }))?;
        Ok(Self { server, shared })
    }

    /// The URL of its webhook.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.server.address())
    }

    /// Nothing listens any more; open connections end.
    ///
    /// # Errors
    /// When its thread has ended.
    pub fn go_down(&self) -> io::Result<()> {
        self.server.set_up(false)
    }

    /// It listens again, on the same port.
    ///
    /// # Errors
    /// When somebody else took the port.
    pub fn come_back(&self) -> io::Result<()> {
        self.server.set_up(true)
    }

    /// Does this with the next request that nothing else was asked for.
    pub fn next(&self, instead: Instead) {
        self.shared.state().scripted.push_back(instead);
    }

    /// Does this with every request that nothing else was asked for.
    pub fn always(&self, instead: Instead) {
        self.shared.state().standing = instead;
    }

    /// All requests so far.
    #[must_use]
    pub fn taken(&self) -> Vec<Taken> {
        self.shared.state().taken.clone()
    }

    /// Waits until the requests so far are as described, and returns them.
    ///
    /// # Errors
    /// When they are not within 20 s.
    pub fn wait_for(&self, condition: impl Fn(&[Taken]) -> bool) -> io::Result<Vec<Taken>> {
        let waited =
            self.shared
                .changed
                .wait_timeout_while(self.shared.state(), DEADLINE, |state| {
                    !condition(&state.taken)
                });
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{} requests, not those expected", state.taken.len()),
            ));
        }
        Ok(state.taken.clone())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn instead(&self) -> Instead {
        let mut state = self.state();
        state.scripted.pop_front().unwrap_or(state.standing)
    }

    async fn answer(&self, request: Received) -> Reply {
        let status = match self.instead() {
            Instead::Nothing => self.status_for(&request),
            Instead::Status(status) => Some(status),
            Instead::Close => None,
            Instead::Slow(wait) => {
                tokio::time::sleep(wait).await;
                self.status_for(&request)
            }
        };
        self.state().taken.push(Taken { request, status });
        self.changed.notify_all();
        status.map_or(Reply::Close, answer_of)
    }

    /// What the receiver answers; `None` when its thread dies over the request.
    fn status_for(&self, request: &Received) -> Option<u16> {
        let path = request.target.trim_end_matches('/');
        match request.method.as_str() {
            "GET" if matches!(path, "/health" | "/healthz") => Some(200),
            "GET" => Some(404),
            "POST" if path != PATH => Some(404),
            "POST" => self.status_of_delivery(request),
            _ => Some(501),
        }
    }

    fn status_of_delivery(&self, request: &Received) -> Option<u16> {
        let length = request.header("content-length");
        if !length.is_empty() && length.parse::<u64>().is_err() {
            return None;
        }
        let signature = request.headers.get("x-hub-signature-256");
        if let Some(secret) = &self.secret {
            let signature = signature.map(Vec::as_slice).unwrap_or_default();
            if !signature.is_ascii() {
                return None;
            }
            if signature != sign_github(secret, &request.body).as_bytes() {
                return Some(401);
            }
        }
        if request.body.is_empty() {
            return Some(202);
        }
        let text = std::str::from_utf8(&request.body).ok()?;
        match serde_json::from_str::<IgnoredAny>(text) {
            Err(_) => Some(400),
            Ok(IgnoredAny) if text.trim_start().starts_with('{') => Some(202),
            Ok(IgnoredAny) => None,
        }
    }
}

fn answer_of(status: u16) -> Reply {
    let text = match status {
        200 => "ok",
        202 => "accepted",
        400 => "invalid payload",
        401 => "invalid signature",
        404 => "not found",
        _ => "another answer",
    };
    let body = format!("{{\"status\": \"{text}\"}}");
    let headers = [
        ("Server", "the-loop-gh-webhook/0.0.0+unknown Python/3.11.7"),
        ("Content-Type", "application/json"),
    ];
    Reply::Bytes(answer_bytes("HTTP/1.0", status, &headers, body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    const SECRET: &str = "s3cret";

    fn exchange(receiver: &FakeReceiver, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(receiver.server.address()).unwrap();
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        // A reset connection is one without an answer, too.
        drop(stream.read_to_string(&mut answer));
        answer.lines().next().unwrap_or_default().to_owned()
    }

    fn post(receiver: &FakeReceiver, target: &str, headers: &str, body: &[u8]) -> String {
        let head = format!(
            "POST {target} HTTP/1.1\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        exchange(receiver, &[head.as_bytes(), body].concat())
    }

    fn signed(body: &[u8]) -> String {
        format!("x-hub-signature-256: {}\r\n", sign_github(SECRET, body))
    }

    #[test]
    fn it_answers_each_delivery_as_the_receiver_was_seen_to() {
        let receiver = FakeReceiver::start(Some(SECRET)).unwrap();
        let good = b"{\"a\":1}";
        for (target, signature, body, answer) in [
            (
                "/gh-webhook",
                signed(good),
                &good[..],
                "HTTP/1.0 202 Accepted",
            ),
            ("/gh-webhook/", signed(good), good, "HTTP/1.0 202 Accepted"),
            (
                "/gh-webhook?a",
                signed(good),
                good,
                "HTTP/1.0 404 Not Found",
            ),
            (
                "/jira-webhook",
                signed(good),
                good,
                "HTTP/1.0 404 Not Found",
            ),
            (
                "/gh-webhook",
                String::new(),
                good,
                "HTTP/1.0 401 Unauthorized",
            ),
            (
                "/gh-webhook",
                signed(b"other"),
                good,
                "HTTP/1.0 401 Unauthorized",
            ),
            (
                "/gh-webhook",
                signed(good).to_uppercase(),
                good,
                "HTTP/1.0 401 Unauthorized",
            ),
            (
                "/gh-webhook",
                signed(b"a=1"),
                b"a=1",
                "HTTP/1.0 400 Bad Request",
            ),
            (
                "/gh-webhook",
                signed(b"\xef\xbb\xbf{}"),
                b"\xef\xbb\xbf{}",
                "HTTP/1.0 400 Bad Request",
            ),
            ("/gh-webhook", signed(b"[]"), b"[]", ""),
            ("/gh-webhook", signed(b"\xff"), b"\xff", ""),
        ] {
            assert_eq!(
                post(&receiver, target, &signature, body),
                answer,
                "{target} {signature}"
            );
        }
    }

    #[test]
    fn it_knows_its_health_and_no_other_path_or_method() {
        let receiver = FakeReceiver::start(Some(SECRET)).unwrap();
        for (request, answer) in [
            ("GET /health HTTP/1.1\r\n\r\n", "HTTP/1.0 200 OK"),
            ("GET /healthz/ HTTP/1.1\r\n\r\n", "HTTP/1.0 200 OK"),
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.0 404 Not Found"),
            (
                "PUT /gh-webhook HTTP/1.1\r\n\r\n",
                "HTTP/1.0 501 Not Implemented",
            ),
            ("POST /gh-webhook HTTP/1.1\r\ncontent-length: x\r\n\r\n", ""),
        ] {
            assert_eq!(exchange(&receiver, request.as_bytes()), answer, "{request}");
        }
    }

    #[test]
    fn without_a_secret_it_takes_what_is_not_signed() {
        let receiver = FakeReceiver::start(None).unwrap();
        assert_eq!(
            post(&receiver, "/gh-webhook", "", b"{}"),
            "HTTP/1.0 202 Accepted"
        );
    }

    #[test]
    fn it_goes_down_comes_back_on_its_port_and_does_what_it_is_told() {
        let receiver = FakeReceiver::start(None).unwrap();
        receiver.go_down().unwrap();
        assert!(TcpStream::connect(receiver.server.address()).is_err());
        receiver.come_back().unwrap();
        receiver.next(Instead::Close);
        receiver.next(Instead::Status(503));
        assert_eq!(post(&receiver, "/gh-webhook", "", b"{}"), "");
        assert_eq!(
            post(&receiver, "/gh-webhook", "", b"{}"),
            "HTTP/1.0 503 Service Unavailable"
        );
        assert_eq!(
            post(&receiver, "/gh-webhook", "", b"{}"),
            "HTTP/1.0 202 Accepted"
        );
        let taken = receiver.wait_for(|taken| taken.len() == 3).unwrap();
        let statuses: Vec<Option<u16>> = taken.iter().map(|taken| taken.status).collect();
        assert_eq!(statuses, [None, Some(503), Some(202)]);
    }
}
