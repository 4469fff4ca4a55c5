//! A client that sends exactly what a test says: no pool, no retries, no corrections.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use super::openapi::openapi;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A request in the making.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) port: u16,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Call {
    pub(crate) fn new(port: u16, method: &str, target: &str) -> Self {
        Self {
            port,
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Sets a header; one of this name that is there already is replaced.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a test writes a number or a text, whichever it has"
    )]
    pub(crate) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// Takes a header away.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// The same request to another target.
    pub(crate) fn retarget(&mut self, target: &str) {
        target.clone_into(&mut self.target);
    }

    /// The body that [`Call::send`] sends.
    pub(crate) fn sent_body(&self) -> &[u8] {
        &self.body
    }

    fn has(&self, name: &str) -> bool {
        let is_it = |(known, _): &(String, String)| known.eq_ignore_ascii_case(name);
        self.headers.iter().any(is_it)
    }

    /// The head as it goes over the wire.
    pub(crate) fn head(&self) -> String {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.has("Host") {
            head.push_str(&format!("Host: 127.0.0.1:{}\r\n", self.port));
        }
        if !self.has("Connection") {
            head.push_str("Connection: close\r\n");
        }
        if !self.has("Content-Length") && !self.has("Transfer-Encoding") {
            head.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        head + "\r\n"
    }

    /// Opens a connection of its own, and sends the head.
    pub(crate) fn open(&self) -> TcpStream {
        let mut stream = connect(self.port);
        stream.write_all(self.head().as_bytes()).unwrap();
        stream
    }

    /// Sends it and waits for the answer, which must be one that the contract describes.
    #[track_caller]
    pub(crate) fn send(&self) -> Reply {
        let mut stream = self.open();
        // A gateway that answers early may close before it has read everything.
        drop(stream.write_all(&self.body));
        let reply = Reply::read(&mut stream);
        openapi().check(&self.method, &self.target, &reply);
        reply
    }

    /// Sends it, unless nobody listens or the one who does goes away.
    pub(crate) fn try_send(&self) -> Option<Reply> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(self.head().as_bytes()).ok()?;
        stream.write_all(&self.body).ok()?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).ok()?;
        Reply::parse(&bytes, true)
    }

    /// Sends it from a thread of its own.
    pub(crate) fn spawn(&self) -> std::thread::JoinHandle<Reply> {
        let call = self.clone();
        std::thread::spawn(move || call.send())
    }
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

impl Reply {
    /// Reads an answer to the end of the connection, or of its declared length.
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        loop {
            if let Some(reply) = Self::parse(&bytes, false) {
                return reply;
            }
            match stream.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
                // The machine was stopped for a moment.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer: {error}; so far {:?}", text(&bytes)),
            }
        }
        Self::parse(&bytes, true).unwrap_or_else(|| panic!("half an answer: {:?}", text(&bytes)))
    }

    fn parse(bytes: &[u8], is_all: bool) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = text(&bytes[..end]);
        let body = &bytes[end.saturating_add(4)..];
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut reply = Self {
            status,
            headers,
            body: body.to_vec(),
        };
        if status == 100 {
            return Self::parse(body, is_all);
        }
        let length: Option<usize> = reply
            .header("content-length")
            .and_then(|length| length.parse().ok());
        match length {
            Some(length) if body.len() >= length => {
                reply.body.truncate(length);
                Some(reply)
            }
            Some(_) => None,
            None => is_all.then_some(reply),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let is_it = |(known, _): &&(String, String)| known == name;
        self.headers
            .iter()
            .find(is_it)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", text(&self.body)))
    }

    pub(crate) fn text(&self) -> String {
        text(&self.body)
    }

    /// The answer's code, or nothing when it is no error.
    pub(crate) fn error(&self) -> String {
        let json: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        json["error"].as_str().unwrap_or_default().to_owned()
    }

    /// Fails unless the answer is this error, with a sentence for people.
    #[track_caller]
    pub(crate) fn assert_error(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status, self.error().as_str()),
            (status, code),
            "{}",
            self.text()
        );
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert!(self.json()["message"].as_str().unwrap().ends_with('.'));
    }

    /// Fails unless the answer has this status; the body.
    #[track_caller]
    pub(crate) fn assert(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
