//! A stand-in for a gateway, for trying out and testing what consumes from one.
//!
//! It hands out what was pushed, takes outcomes and registrations, and holds a fetch that finds
//! nothing. Failed and released deliveries are due again at once. Any answer can be scripted:
//! refusals, malformed bodies, silence, and an outage. It keeps one queue in memory and knows no
//! leases and no strikes; the promises of a real gateway are not its business.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::wire::{Received, Reply, Server, answer_bytes};

const DEADLINE: Duration = Duration::from_secs(20);
const PREFIX: &str = "/api/v1/gateway/";

/// An answer in place of the usual one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scripted {
    /// This status with this body.
    Answer(u16, String),
    /// This status with this body and a `Retry-After` of so many seconds.
    RetryAfter(u16, String, u32),
    /// The connection ends without an answer.
    Close,
    /// The usual answer, whose connection breaks before the last byte.
    CutOff,
    /// No answer at all, for as long as the client waits.
    Silence,
}

/// A request that the gateway got.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The method and the route: `POST fetch`, `PUT actors`.
    pub call: String,
    /// The body; null when it is no JSON.
    pub body: Value,
}

/// What the gateway has seen so far.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// All requests, in order.
    pub asked: Vec<Asked>,
    /// The last outcome of each delivery and its detail.
    pub outcomes: BTreeMap<i64, (String, Option<String>)>,
    /// The outcomes in the order in which they came.
    pub outcome_log: Vec<(i64, String)>,
}

impl Seen {
    /// How often something was asked.
    #[must_use]
    pub fn count(&self, call: &str) -> usize {
        self.asked.iter().filter(|asked| asked.call == call).count()
    }

    /// The outcome of a delivery.
    #[must_use]
    pub fn outcome(&self, seq: i64) -> Option<&str> {
        self.outcomes.get(&seq).map(|(outcome, _)| outcome.as_str())
    }
}

/// A running stand-in.
#[derive(Debug)]
pub struct FakeGateway {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    woken: Notify,
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    scripted: BTreeMap<String, VecDeque<Scripted>>,
    ready: VecDeque<Pushed>,
    handed: BTreeMap<i64, (i64, Pushed)>,
    numbers: i64,
    fetches: u64,
    poll_after: f64,
}

#[derive(Debug, Clone)]
struct Pushed {
    seq: i64,
    attempt: u32,
    subject: String,
    kind: String,
    payload: String,
}

impl FakeGateway {
    /// Starts one.
    ///
    /// # Errors
    /// When no port can be had.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let answering = Arc::clone(&shared);
        let server = Server::start(Arc::new(move |request| {
            let shared = Arc::clone(&answering);
            Box::pin(async move { shared.answer(&request).await })
        }))?;
        Ok(Self { server, shared })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Puts an event on the queue and returns its delivery's number; `payload` is a JSON object.
    pub fn push(&self, subject: &str, payload: &str) -> i64 {
        let mut state = self.shared.state();
        state.numbers = state.numbers.saturating_add(1);
        let seq = state.numbers;
        state.ready.push_back(Pushed {
            seq,
            attempt: 1,
            subject: subject.to_owned(),
            kind: "issue_comment".to_owned(),
            payload: payload.to_owned(),
        });
        drop(state);
        self.shared.woken.notify_waiters();
        seq
    }

    /// Answers the next call of this kind (`POST fetch`) so.
    pub fn script(&self, call: &str, answer: Scripted) {
        let mut state = self.shared.state();
        let scripted = state.scripted.entry(call.to_owned()).or_default();
        scripted.push_back(answer);
    }

    /// The `pollAfter` of empty answers to fetches without a wait.
    pub fn set_poll_after(&self, seconds: f64) {
        self.shared.state().poll_after = seconds;
    }

    /// Nothing listens any more; held fetches end. What is queued stays.
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

    /// What it has seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.state().seen.clone()
    }

    /// Waits until what it has seen is as described, and returns it.
    ///
    /// # Errors
    /// When it is not within 20 s.
    pub fn wait_for(&self, condition: impl Fn(&Seen) -> bool) -> io::Result<Seen> {
        let waited =
            self.shared
                .changed
                .wait_timeout_while(self.shared.state(), DEADLINE, |state| {
                    !condition(&state.seen)
                });
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            let seen = format!("not seen in time: {:#?}", state.seen);
            return Err(io::Error::new(io::ErrorKind::TimedOut, seen));
        }
        Ok(state.seen.clone())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: &Received) -> Reply {
        let route = request.target.strip_prefix(PREFIX).unwrap_or_default();
        let call = format!("{} {route}", request.method);
        let body = serde_json::from_slice(&request.body).unwrap_or_default();
        let scripted = self.note(&call, &body);
        match scripted {
            None => ok(&self.usual(&call, &body).await),
            Some(Scripted::Answer(status, text)) => with_status(status, &text, None),
            Some(Scripted::RetryAfter(status, text, seconds)) => {
                with_status(status, &text, Some(seconds))
            }
            Some(Scripted::Close) => Reply::Close,
            Some(Scripted::CutOff) => cut_off(ok(&self.usual(&call, &body).await)),
            Some(Scripted::Silence) => std::future::pending().await,
        }
    }

    fn note(&self, call: &str, body: &Value) -> Option<Scripted> {
        let mut state = self.state();
        state.seen.asked.push(Asked {
            call: call.to_owned(),
            body: body.clone(),
        });
        let scripted = state.scripted.get_mut(call);
        let scripted = scripted.and_then(VecDeque::pop_front);
        drop(state);
        self.changed.notify_all();
        scripted
    }

    async fn usual(&self, call: &str, body: &Value) -> String {
        match call {
            "POST fetch" => self.fetch(body).await,
            "POST commit" => {
                self.commit(body);
                let committed = self.state().committed();
                json!({"committed": committed, "lease": {"expiresIn": 60}}).to_string()
            }
            "GET health" => json!({"ok": true}).to_string(),
            "GET queues" => json!({"queues": []}).to_string(),
            _ => json!({"routed": 0}).to_string(),
        }
    }

    fn commit(&self, body: &Value) {
        let mut state = self.state();
        for item in body["commit"].as_array().into_iter().flatten() {
            let seq = item["seq"].as_i64().unwrap_or_default();
            let outcome = item["outcome"].as_str().unwrap_or_default();
            let detail = item["detail"].as_str().map(str::to_owned);
            state.take_outcome(seq, outcome, detail);
        }
        drop(state);
        self.changed.notify_all();
        self.woken.notify_waiters();
    }

    async fn fetch(&self, body: &Value) -> String {
        self.commit(body);
        let wait = body["wait"].as_f64().unwrap_or_default().clamp(0.0, 60.0);
        let until = tokio::time::Instant::now().checked_add(Duration::from_secs_f64(wait));
        let max = body["max"].as_u64().unwrap_or(64);
        let cursor = body["cursor"].as_i64().unwrap_or_default();
        let mine = {
            let mut state = self.state();
            state.fetches = state.fetches.saturating_add(u64::from(max > 0));
            state.take_back(cursor);
            state.fetches
        };
        // Ends the fetch that is held, in favour of this one.
        self.woken.notify_waiters();
        let asking = Asking {
            mine,
            max,
            cursor,
            is_held: wait > 0.0,
        };
        loop {
            let woken = self.woken.notified();
            let now = tokio::time::Instant::now();
            let until = until.filter(|until| *until > now);
            if let Some(answer) = self.state().answer_to(&asking, until.is_none()) {
                return answer;
            }
            let rest = tokio::time::sleep_until(until.unwrap_or(now));
            tokio::select! {
                () = woken => {}
                () = rest => {}
            }
        }
    }
}

/// A fetch that waits for something to hand out.
struct Asking {
    /// Its number; a higher one took its place.
    mine: u64,
    max: u64,
    cursor: i64,
    is_held: bool,
}

impl State {
    fn take_outcome(&mut self, seq: i64, outcome: &str, detail: Option<String>) {
        (self.seen.outcomes).insert(seq, (outcome.to_owned(), detail));
        self.seen.outcome_log.push((seq, outcome.to_owned()));
        let Some((_, mut pushed)) = self.handed.remove(&seq) else {
            return;
        };
        if matches!(outcome, "failed" | "released") {
            pushed.attempt = pushed
                .attempt
                .saturating_add(u32::from(outcome == "failed"));
            let subject = pushed.subject.clone();
            self.ready.push_back(pushed);
            let behind = self
                .handed
                .values()
                .filter(|(_, other)| other.subject == subject);
            let behind: Vec<i64> = behind.map(|(_, other)| other.seq).collect();
            for seq in behind {
                self.ready
                    .extend(self.handed.remove(&seq).map(|(_, other)| other));
            }
            self.ready
                .make_contiguous()
                .sort_by_key(|pushed| pushed.seq);
        }
    }

    /// What was in an answer that never arrived goes out again.
    fn take_back(&mut self, cursor: i64) {
        let lost = self
            .handed
            .iter()
            .filter(|(_, (number, _))| *number > cursor);
        let lost: Vec<i64> = lost.map(|(seq, _)| *seq).collect();
        for seq in lost {
            self.ready
                .extend(self.handed.remove(&seq).map(|(_, pushed)| pushed));
        }
        self.ready
            .make_contiguous()
            .sort_by_key(|pushed| pushed.seq);
    }

    /// The answer to a fetch, unless it is to be held on.
    fn answer_to(&mut self, asking: &Asking, is_over: bool) -> Option<String> {
        let may_take = asking.max > 0 && self.fetches == asking.mine;
        let is_to_answer = !may_take || !self.ready.is_empty() || is_over;
        let max = if may_take { asking.max } else { 0 };
        is_to_answer.then(|| self.hand_out(max, asking.cursor, asking.is_held))
    }

    fn hand_out(&mut self, max: u64, cursor: i64, was_held: bool) -> String {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        let taken: Vec<Pushed> = (0..max).map_while(|_| self.ready.pop_front()).collect();
        let is_empty = taken.is_empty();
        let cursor = if is_empty {
            cursor
        } else {
            self.numbers = self.numbers.saturating_add(1);
            self.numbers
        };
        let texts: Vec<String> = taken.iter().map(Pushed::text).collect();
        for pushed in taken {
            self.handed.insert(pushed.seq, (cursor, pushed));
        }
        let poll_after = if is_empty && !was_held {
            self.poll_after
        } else {
            0.0
        };
        format!(
            "{{\"deliveries\":[{}],\"cursor\":{cursor},\"committed\":{},\
             \"lease\":{{\"expiresIn\":60}},\"pollAfter\":{poll_after}}}",
            texts.join(","),
            self.committed()
        )
    }

    fn committed(&self) -> i64 {
        let ready = self.ready.iter().map(|pushed| pushed.seq);
        let live = ready.chain(self.handed.keys().copied());
        live.min()
            .map_or(self.numbers, |lowest| lowest.saturating_sub(1))
    }
}

impl Pushed {
    /// The delivery as JSON, the payload as it was pushed.
    fn text(&self) -> String {
        let Self {
            seq,
            attempt,
            subject,
            kind,
            payload,
        } = self;
        let work_item = if subject == "unassigned" {
            Value::Null
        } else {
            json!("github:octo/repo#1")
        };
        format!(
            "{{\"seq\":{seq},\"attempt\":{attempt},\"event\":{{\"id\":{seq},\
             \"subject\":{subject:?},\"provider\":\"github\",\"source\":\"webhook\",\
             \"deliveryId\":\"d-{seq}\",\"receivedAt\":\"2026-10-18T14:02:11.120Z\",\
             \"workItem\":{work_item},\"kind\":{kind:?},\
             \"headers\":{{\"x-github-event\":{kind:?},\"x-github-delivery\":\"d-{seq}\"}},\
             \"payload\":{payload},\"attempt\":{attempt}}}}}"
        )
    }
}

fn ok(body: &str) -> Reply {
    with_status(200, body, None)
}

fn with_status(status: u16, body: &str, retry_after: Option<u32>) -> Reply {
    let seconds = retry_after.map(|seconds| seconds.to_string());
    let mut headers = vec![
        ("Content-Type", "application/json"),
        ("Connection", "close"),
    ];
    headers.extend(seconds.as_deref().map(|seconds| ("Retry-After", seconds)));
    Reply::Bytes(answer_bytes("HTTP/1.1", status, &headers, body.as_bytes()))
}

fn cut_off(reply: Reply) -> Reply {
    match reply {
        Reply::Bytes(mut bytes) => {
            bytes.pop();
            Reply::Bytes(bytes)
        }
        Reply::Close => Reply::Close,
    }
}
