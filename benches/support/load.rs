//! A closed loop of connections, each sending its next request when the last is answered.

use std::io::{Read, Write};
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

/// A request that was sent at the moment at which it was due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) due: Instant,
    /// From then until its answer was there.
    pub(crate) took: Duration,
    pub(crate) is_acknowledged: bool,
}

/// Connections that take turns in sending at fixed moments: so many that a request finds a free
/// one even while answers take long.
const SENDERS: u32 = 128;

/// Sends so many requests a second, whatever the answers take, until it is over; that is asked
/// with the time since the start at which the next request is due.
pub(crate) fn at_fixed_moments(
    address: SocketAddr,
    rate: f64,
    is_over: &(dyn Fn(Duration) -> bool + Sync),
    request: &(dyn Fn() -> Vec<u8> + Sync),
) -> Vec<Sent> {
    let every = Duration::from_secs_f64(f64::from(SENDERS) / rate);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let mut after = every * sender / SENDERS;
                scope.spawn(move || {
                    let mut stream = std::net::TcpStream::connect(address).expect("a listener");
                    stream.set_nodelay(true).expect("a socket");
                    let mut sent = Vec::new();
                    while !is_over(after) {
                        sent.push(send_at(&mut stream, began + after, &request()));
                        after += every;
                    }
                    sent
                })
            })
            .collect();
        senders
            .into_iter()
            .flat_map(|sender| sender.join().expect("a sender"))
            .collect()
    })
}

fn send_at(stream: &mut std::net::TcpStream, due: Instant, request: &[u8]) -> Sent {
    while let Some(left) = due
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
    {
        std::thread::park_timeout(left);
    }
    stream.write_all(request).expect("to send");
    let is_acknowledged = is_acknowledged(stream);
    Sent {
        due,
        took: due.elapsed(),
        is_acknowledged,
    }
}

/// Reads one short answer; true when it is one of success.
fn is_acknowledged(stream: &mut std::net::TcpStream) -> bool {
    let (mut filled, mut buffer) = (0, [0; 4096]);
    loop {
        let read = stream.read(&mut buffer[filled..]).expect("an answer");
        assert!(read > 0, "the gateway hung up");
        filled += read;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        if text.ends_with('}') && text.contains("\r\n\r\n") {
            return text.starts_with("HTTP/1.1 202");
        }
    }
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
