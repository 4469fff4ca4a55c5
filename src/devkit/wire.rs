//! A tiny HTTP server under full control: one request a connection, any bytes as the answer, or
//! none, and a listener that can go away and come back on the same port.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const HEAD_BYTES_MAX: usize = 64 * 1024;
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;
const CONTROLS_MAX: usize = 16;

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The target of the request line: the path and, if any, the query.
    pub target: String,
    /// The version of the request line, `HTTP/1.1`.
    pub version: String,
    /// The headers, names in lower case; of a repeated one the last.
    pub headers: BTreeMap<String, Vec<u8>>,
    /// The body, as long as `Content-Length` says; empty without one.
    pub body: Vec<u8>,
}

impl Received {
    /// A header as text; empty when it is absent or no UTF-8.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(Vec::as_slice);
        std::str::from_utf8(value.unwrap_or_default()).unwrap_or_default()
    }
}

/// What is done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// These bytes are sent, and the connection ends.
    Bytes(Vec<u8>),
    /// The connection ends without an answer.
    Close,
}

/// Answers requests.
pub type Answerer =
    Arc<dyn Fn(Received) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// A server on a loopback port of its own.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    controls: mpsc::Sender<Control>,
}

#[derive(Debug)]
struct Control {
    is_up: bool,
    done: std::sync::mpsc::SyncSender<io::Result<()>>,
}

impl Server {
    /// Starts to listen.
    ///
    /// # Errors
    /// When there is no port or no thread.
    pub fn start(answerer: Answerer) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let (controls, controlled) = mpsc::channel(CONTROLS_MAX);
        std::thread::Builder::new()
            .name("devkit-server".to_owned())
            .spawn(move || runtime.block_on(live(listener, address, controlled, answerer)))?;
        Ok(Self { address, controls })
    }

    /// Where it listens, or will again.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes away, with all open connections, or comes back; returns when that is done.
    ///
    /// # Errors
    /// When its thread has ended, or somebody else took the port.
    pub fn set_up(&self, is_up: bool) -> io::Result<()> {
        let (done, is_done) = std::sync::mpsc::sync_channel(1);
        let gone = || io::Error::other("the server has ended");
        (self.controls)
            .try_send(Control { is_up, done })
            .or(Err(gone()))?;
        is_done.recv().unwrap_or_else(|_| Err(gone()))
    }
}

async fn live(
    listener: TcpListener,
    address: SocketAddr,
    mut controls: mpsc::Receiver<Control>,
    answerer: Answerer,
) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            control = controls.recv() => match control {
                None => return,
                Some(Control { is_up: true, done }) => {
                    let bound = TcpListener::bind(address).await;
                    drop(done.send(bound.map(|bound| listener = Some(bound))));
                }
                Some(Control { is_up: false, done }) => {
                    listener = None;
                    connections.shutdown().await;
                    drop(done.send(Ok(())));
                }
            },
            Some(stream) = accept(listener.as_ref()) => {
                let answerer = Arc::clone(&answerer);
                connections.spawn(async move { answer(stream, &answerer).await });
            }
            Some(ended) = connections.join_next() => drop(ended),
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    let accepted = match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    };
    accepted.ok().map(|(stream, _)| stream)
}

/// Reads one request and answers it; a client that hangs up ends it.
async fn answer(mut stream: TcpStream, answerer: &Answerer) -> io::Result<()> {
    let Some(received) = receive(&mut stream).await? else {
        return Ok(());
    };
    let mut byte = [0; 1];
    let reply = tokio::select! {
        biased;
        reply = answerer(received) => reply,
        _ = stream.read(&mut byte) => return Ok(()),
    };
    if let Reply::Bytes(bytes) = reply {
        stream.write_all(&bytes).await?;
    }
    stream.shutdown().await
}

/// `None` when the connection ended before a whole request came, or it is none.
async fn receive(stream: &mut TcpStream) -> io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(end) = find(&bytes, b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    };
    let body = bytes.split_off(head_end.saturating_add(4));
    let Some(mut received) = parse_head(&bytes) else {
        return Ok(None);
    };
    received.body = body;
    let length: usize = received.header("content-length").parse().unwrap_or(0);
    while received.body.len() < length.min(BODY_BYTES_MAX) {
        if stream.read_buf(&mut received.body).await? == 0 {
            return Ok(None);
        }
    }
    received.body.truncate(length);
    Ok(Some(received))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn parse_head(head: &[u8]) -> Option<Received> {
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .filter(|line| !line.is_empty());
    let mut words = std::str::from_utf8(lines.next()?).ok()?.split(' ');
    let mut word = || words.next().map(str::to_owned);
    let (method, target, version) = (word()?, word()?, word()?);
    let headers = lines.filter_map(|line| {
        let colon = find(line, b":")?;
        let (name, value) = line.split_at_checked(colon)?;
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        Some((
            name,
            value
                .trim_ascii_start()
                .strip_prefix(b":")?
                .trim_ascii()
                .to_vec(),
        ))
    });
    Some(Received {
        method,
        target,
        version,
        headers: headers.collect(),
        body: Vec::new(),
    })
}

/// An answer in full.
#[must_use]
pub fn answer_bytes(version: &str, status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{version} {status} {}\r\n", phrase(status));
    for (name, value) in headers {
        bytes.push_str(&format!("{name}: {value}\r\n"));
    }
    bytes.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let mut bytes = bytes.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn phrase(status: u16) -> &'static str {
    awc::http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_head_is_read_into_its_parts() {
        let head = b"POST /a?b HTTP/1.1\r\nX-One: 1\r\nx-one: two: 2\r\nOdd:\xff\r\n\r\n";
        let received = parse_head(head).unwrap();
        assert_eq!(
            (received.method.as_str(), received.target.as_str()),
            ("POST", "/a?b")
        );
        assert_eq!(received.header("x-one"), "two: 2");
        assert_eq!(received.headers["odd"], b"\xff");
        assert!(parse_head(b"\r\n").is_none());
    }
}
