//! A closed loop of connections, each sending its next request when the last is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Samples;

/// What a load saw.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Answers a second.
    pub(crate) rate: f64,
    /// From the first byte sent to the last byte of the answer.
    pub(crate) latency: Samples,
    /// Processor time of a request, both sides, in microseconds.
    pub(crate) cpu_us: f64,
}

/// Sends every request once over `connections` connections, on a thread of its own.
///
/// # Panics
/// When an answer is not `2xx`: a benchmark of failures measures nothing.
pub(crate) fn run(address: SocketAddr, requests: Vec<Vec<u8>>, connections: usize) -> Outcome {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .expect("a runtime")
            .block_on(drive(address, requests, connections))
    });
    thread.join().expect("the load to finish")
}

async fn drive(address: SocketAddr, requests: Vec<Vec<u8>>, connections: usize) -> Outcome {
    let requests = Arc::new(requests);
    let next = Arc::new(AtomicUsize::new(0));
    let (began, cpu) = (Instant::now(), super::cpu_seconds());
    let tasks: Vec<_> = (0..connections)
        .map(|_| tokio::spawn(connection(address, requests.clone(), next.clone())))
        .collect();
    let mut samples = Vec::with_capacity(requests.len());
    for task in tasks {
        samples.extend(task.await.expect("a connection to finish"));
    }
    let count = samples.len() as f64;
    let rate = count / began.elapsed().as_secs_f64();
    Outcome {
        rate,
        cpu_us: (super::cpu_seconds() - cpu) * 1e6 / count,
        latency: Samples::new(samples),
    }
}

async fn connection(
    address: SocketAddr,
    requests: Arc<Vec<Vec<u8>>>,
    next: Arc<AtomicUsize>,
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.expect("a listener");
    stream.set_nodelay(true).expect("a socket");
    let mut samples = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
        let began = Instant::now();
        stream.write_all(request).await.expect("to send");
        read_answer(&mut stream, &mut buffer).await;
        samples.push(began.elapsed());
    }
    samples
}

/// One kept-alive connection for a request now and then.
pub(crate) struct Lone {
    runtime: tokio::runtime::Runtime,
    stream: TcpStream,
}

impl Lone {
    pub(crate) fn new(address: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let stream = runtime
            .block_on(TcpStream::connect(address))
            .expect("a listener");
        stream.set_nodelay(true).expect("a socket");
        Self { runtime, stream }
    }

    /// Sends a request and reads its answer.
    pub(crate) fn send(&mut self, request: &[u8]) {
        let stream = &mut self.stream;
        self.runtime.block_on(async {
            stream.write_all(request).await.expect("to send");
            read_answer(stream, &mut vec![0; 16 * 1024]).await;
        });
    }
}

/// Reads one answer with a `Content-Length`.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let read = stream.read(&mut buffer[filled..]).await.expect("an answer");
        assert!(read > 0, "the server hung up");
        filled += read;
        let text = &buffer[..filled];
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 2"), "{head}");
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"))
                .map_or(0, |length| {
                    length.trim().parse::<usize>().expect("a length")
                });
            if filled >= end + 4 + length {
                return;
            }
        }
    }
}
