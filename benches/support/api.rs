//! The consumer API over a plain socket: just enough to claim, fetch and commit.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};

/// One kept-alive connection.
pub(crate) struct Api {
    address: SocketAddr,
    stream: TcpStream,
}

impl Api {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a listener");
        stream.set_nodelay(true).expect("a socket");
        Self { address, stream }
    }

    /// Sends one request and reads its JSON answer.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let bytes = self.send(method, path, &body.to_string());
        serde_json::from_slice(&bytes).expect("JSON")
    }

    /// Sends one request and reads the bytes of its answer.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let head = format!(
            "{method} /api/v1/gateway{path} HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        self.stream
            .write_all((head + body).as_bytes())
            .expect("to send");
        self.read()
    }

    fn read(&mut self) -> Vec<u8> {
        let (mut bytes, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let read = self.stream.read(&mut chunk).expect("an answer");
            assert!(read > 0, "the server hung up");
            bytes.extend_from_slice(&chunk[..read]);
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 200"), "{head}");
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .map_or(0, |length| length.trim().parse().expect("a length"));
            if bytes.len() >= end + 4 + length {
                return bytes.split_off(end + 4);
            }
        }
    }

    pub(crate) fn claim(&mut self, instance: &str, number: u64) {
        let subject = format!("loop-github-octo-repo-{number}");
        let body = json!({"instance": instance, "subject": subject, "role": "driver"});
        self.call("PUT", "/claims", &body);
    }

    pub(crate) fn fetch(&mut self, instance: &str, cursor: i64, more: &Value) -> Value {
        let mut body = json!({
            "instance": instance, "peer": format!("peer-{instance}"), "run": "run-1",
            "cursor": cursor, "max": 256,
        });
        for (field, value) in more.as_object().expect("an object") {
            body[field] = value.clone();
        }
        self.call("POST", "/fetch", &body)
    }
}

/// The text of an answer to GET, over a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a listener");
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("to send");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}
