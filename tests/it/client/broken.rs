//! Each promise of the conformance check, broken on purpose: by a server that is our gateway with
//! one fault, put between it and the checks. The check of that promise must find it.

#![allow(
    clippy::disallowed_methods,
    clippy::too_many_lines,
    clippy::type_complexity,
    reason = "tables of faults, one row a promise; the proxy in between has no clock to be given"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Map, Value, json};
use the_loop_gateway::client::GatewayUrl;
use the_loop_gateway::client::conformance::{Ingress, Options, Verdict, promises, run};
use the_loop_gateway::devkit::wire::{Received, Reply, Server, answer_bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::wait;
use crate::support::TestGateway;
use crate::support::gateway::GITHUB_SECRET;

/// What a broken server remembers.
#[derive(Default)]
struct Memory {
    first_peer: BTreeMap<String, Value>,
    first_run: BTreeMap<String, Value>,
    cursors: BTreeMap<String, Value>,
    fetched_at: BTreeMap<String, Instant>,
    handed: BTreeMap<i64, u64>,
    deliveries: BTreeMap<String, Value>,
    seen: BTreeSet<String>,
    count: i64,
}

/// A request on its way to the gateway.
struct Request {
    /// `POST fetch`, `GET dead`, `POST /gh-webhook`.
    call: String,
    target: String,
    body: Value,
}

/// The gateway's answer on its way back; `text` is what is sent when it is not empty.
#[derive(Default)]
struct Answer {
    status: u16,
    retry_after: String,
    body: Value,
    text: String,
}

enum Fault {
    /// Changes what the gateway gets; an answer keeps the request from it.
    Before(fn(&mut Memory, &mut Request) -> Option<Answer>),
    /// Changes what the client gets.
    After(fn(&mut Memory, &Request, &mut Answer)),
}

use Fault::{After, Before};

impl Request {
    fn is(&self, call: &str) -> bool {
        self.call == call
    }

    fn fields(&mut self) -> &mut Map<String, Value> {
        self.body.as_object_mut().unwrap()
    }

    fn instance(&self) -> String {
        self.body["instance"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.fields().insert(field.to_owned(), value.into());
    }

    fn outcomes(&mut self) -> Option<&mut Vec<Value>> {
        self.body.get_mut("commit")?.as_array_mut()
    }

    fn replace_outcome(&mut self, from: &str, to: &str) {
        for item in self.outcomes().into_iter().flatten() {
            if item["outcome"] == from {
                item["outcome"] = json!(to);
            }
        }
    }
}

fn says(body: Value) -> Option<Answer> {
    Some(Answer {
        status: 200,
        body,
        ..Answer::default()
    })
}

fn duplicate_instance(reason: Option<&str>) -> Option<Answer> {
    let mut body = json!({"error": "duplicate-instance", "message": "m", "holder": "h",
        "since": "2026-10-18T13:57:59.310Z", "fingerprint": "9f86d081884c7d65", "retryAfter": 1});
    if let Some(reason) = reason {
        body["reason"] = json!(reason);
    }
    Some(Answer {
        status: 409,
        retry_after: "1".to_owned(),
        body,
        ..Answer::default()
    })
}

// Faults that break several promises.

fn believes_no_cursor(_: &mut Memory, request: &mut Request) -> Option<Answer> {
    if request.body.get("cursor").is_some() {
        request.set("cursor", 0);
    }
    None
}

fn believes_any_cursor(memory: &mut Memory, request: &mut Request) -> Option<Answer> {
    let last = memory.cursors.get(&request.instance()).cloned();
    if request.is("POST fetch") {
        request.set("cursor", last.unwrap_or(json!(0)));
    }
    None
}

fn knows_no_runs(_: &mut Memory, request: &mut Request) -> Option<Answer> {
    if request.body.get("run").is_some() {
        request.set("run", "run-1");
    }
    None
}

fn takes_no_outcomes(_: &mut Memory, request: &mut Request) -> Option<Answer> {
    if request.outcomes().is_some() {
        request.set("commit", json!([]));
    }
    None
}

fn holds_nothing(_: &mut Memory, request: &mut Request) -> Option<Answer> {
    if request.is("POST fetch") {
        request.set("wait", 0);
    }
    None
}

fn refuses_nobody(_: &mut Memory, _: &Request, answer: &mut Answer) {
    if answer.status == 409 {
        answer.status = 200;
        answer.body = json!({"deliveries": [], "cursor": 0, "committed": 0, "routed": 0,
            "lease": {"expiresIn": 60}, "pollAfter": 1});
    }
}

fn counts_hand_outs(memory: &mut Memory, _: &Request, answer: &mut Answer) {
    for delivery in deliveries(answer) {
        let count = memory
            .handed
            .entry(delivery["seq"].as_i64().unwrap())
            .or_default();
        *count += 1;
        delivery["attempt"] = json!(*count);
        delivery["event"]["attempt"] = json!(*count);
    }
}

fn goes_backwards(_: &mut Memory, _: &Request, answer: &mut Answer) {
    if let Some(deliveries) = answer
        .body
        .get_mut("deliveries")
        .and_then(Value::as_array_mut)
    {
        deliveries.reverse();
    }
}

fn takes_failed_for_released(_: &mut Memory, request: &mut Request) -> Option<Answer> {
    request.replace_outcome("failed", "released");
    None
}

fn takes_released_for_failed(_: &mut Memory, request: &mut Request) -> Option<Answer> {
    request.replace_outcome("released", "failed");
    None
}

fn deliveries(answer: &mut Answer) -> impl Iterator<Item = &mut Value> {
    let deliveries = answer
        .body
        .get_mut("deliveries")
        .and_then(Value::as_array_mut);
    deliveries.into_iter().flatten()
}

fn negative(value: &Value) -> bool {
    value.as_f64().is_none_or(|number| number < 0.0)
}

fn faults() -> Vec<(&'static str, Fault)> {
    [
        requests(),
        leases(),
        cursors(),
        outcomes(),
        queue(),
        replacing(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn requests() -> Vec<(&'static str, Fault)> {
    vec![
        (
            "An event reaches",
            After(|_, _, answer| {
                if answer.body.get("deliveries").is_some() {
                    answer.body["deliveries"] = json!([]);
                }
            }),
        ),
        (
            "An envelope has",
            After(|_, _, answer| {
                answer.text = answer.text.replace("\"exact\" : ", "\"exact\":");
            }),
        ),
        (
            "A fetch needs a peer",
            Before(|_, request| {
                if request.is("POST fetch") && request.body.get("peer").is_none() {
                    request.set("peer", "anybody");
                }
                None
            }),
        ),
        (
            "A number that is negative",
            Before(|_, request| {
                for field in ["wait", "lease", "max", "cursor"] {
                    if request.body.get(field).is_some_and(negative) {
                        request.fields().remove(field);
                    }
                }
                None
            }),
        ),
        (
            "What is out of range",
            After(|_, request, answer| {
                if let Some(lease) = request.body.get("lease") {
                    answer.body["lease"]["expiresIn"] = lease.clone();
                }
            }),
        ),
        (
            "Unknown fields",
            Before(|_, request| {
                let body = json!({"error": "invalid-field", "message": "m"});
                let later = request.body.get("later")?;
                later.is_object().then(|| Answer {
                    status: 422,
                    body,
                    ..Answer::default()
                })
            }),
        ),
        (
            "A fetch with max 0",
            Before(|_, request| {
                if request.body["max"] == 0 {
                    request.set("max", 1);
                }
                None
            }),
        ),
        (
            "An empty answer without a wait",
            After(|_, _, answer| {
                if answer.body.get("pollAfter").is_some() {
                    answer.body["pollAfter"] = json!(0);
                }
            }),
        ),
        (
            "A malformed outcome",
            Before(|_, request| {
                for item in request.outcomes().into_iter().flatten() {
                    item["outcome"] = json!("failed");
                }
                None
            }),
        ),
        (
            "A body that is no JSON object",
            Before(|_, request| {
                if request.body.is_array() {
                    request.body = json!({"peer": "anybody"});
                }
                None
            }),
        ),
    ]
}

fn leases() -> Vec<(&'static str, Fault)> {
    vec![
        (
            "Another peer is refused",
            After(|_, _, answer| answer.retry_after.clear()),
        ),
        (
            "The holder's peer id",
            After(|memory, request, answer| {
                if answer.status == 409 {
                    answer.body["fingerprint"] = memory.first_peer[&request.instance()].clone();
                }
            }),
        ),
        (
            "While a lease lives",
            Before(|memory, request| {
                let peer = memory.first_peer.get(&request.instance()).cloned();
                if request.is("POST commit") && request.body.get("peer").is_none() {
                    request.set("peer", peer.unwrap());
                }
                None
            }),
        ),
        (
            "Commits and registrations",
            Before(|memory, request| {
                if request.is("PUT rooms") {
                    let peer = memory.first_peer[&request.instance()].clone();
                    request.set("peer", peer);
                }
                None
            }),
        ),
        (
            "After the lease has lapsed",
            Before(|memory, request| {
                let first = memory.first_peer.get(&request.instance())?;
                let is_first = request.body.get("peer") == Some(first);
                if is_first {
                    None
                } else {
                    duplicate_instance(None)
                }
            }),
        ),
        (
            "A lapsed lease alone",
            Before(|memory, request| {
                let now = Instant::now();
                if request.is("POST fetch") {
                    let before = memory.fetched_at.insert(request.instance(), now);
                    if before.is_some_and(|before| now - before > Duration::from_secs(1)) {
                        request.set("run", "another");
                        request.set("cursor", 0);
                    }
                }
                None
            }),
        ),
        ("While a poll is held", After(refuses_nobody)),
        (
            "A new run of the same peer",
            Before(|memory, request| {
                let is_first = request.body.get("run") == memory.first_run.get(&request.instance());
                if is_first {
                    None
                } else {
                    duplicate_instance(Some("superseded"))
                }
            }),
        ),
        (
            "The run that was taken over",
            After(|_, _, answer| {
                if answer.status == 409 {
                    answer.body.as_object_mut().unwrap().remove("reason");
                }
            }),
        ),
        ("What a superseded run", Before(takes_no_outcomes)),
        (
            "Registering actors with a new run",
            Before(|_, request| {
                if request.is("PUT actors") {
                    request.fields().remove("run");
                }
                None
            }),
        ),
        (
            "A commit renews",
            Before(|_, request| {
                let committed = json!({"committed": 0, "lease": {"expiresIn": 60}});
                if request.is("POST commit") {
                    says(committed)
                } else {
                    None
                }
            }),
        ),
    ]
}

fn cursors() -> Vec<(&'static str, Fault)> {
    vec![
        (
            "Every answer with deliveries",
            After(|_, _, answer| {
                if answer.body.get("cursor").is_some() {
                    answer.body["cursor"] = json!(1);
                }
            }),
        ),
        (
            "An empty answer returns",
            After(|_, _, answer| {
                if answer.body["deliveries"]
                    .as_array()
                    .is_some_and(Vec::is_empty)
                {
                    answer.body["cursor"] = json!(999_999);
                }
            }),
        ),
        ("What an echoed cursor", Before(believes_no_cursor)),
        ("What was in an answer that never", After(counts_hand_outs)),
        ("A cursor that was never given", Before(believes_any_cursor)),
        ("A client whose cursor is always 0", After(counts_hand_outs)),
        ("A client that keeps its run id", After(counts_hand_outs)),
        (
            "A client without a run gets back",
            Before(|_, request| {
                if request.body.get("run").is_none() && request.is("POST fetch") {
                    request.set("run", "run-1");
                }
                None
            }),
        ),
        (
            "A client without a run that echoes",
            Before(|_, request| {
                if request.body.get("run").is_none() && request.is("POST fetch") {
                    request.fields().remove("cursor");
                }
                None
            }),
        ),
    ]
}

fn outcomes() -> Vec<(&'static str, Fault)> {
    vec![
        (
            "delivered, spawned and dropped",
            Before(|_, request| {
                request.replace_outcome("spawned", "released");
                None
            }),
        ),
        (
            "committed is one below",
            After(|_, _, answer| {
                if answer.body.get("committed").is_some() {
                    answer.body["committed"] = json!(999_999);
                }
            }),
        ),
        (
            "An outcome for what was never",
            Before(|_, request| {
                if let Some(outcomes) = request.outcomes() {
                    outcomes.retain(|item| item["seq"].as_i64().unwrap() < 1_000_000);
                }
                None
            }),
        ),
        (
            "So does one for a delivery of another",
            After(refuses_nobody),
        ),
        (
            "Of two outcomes",
            Before(|_, request| {
                if let Some(outcomes) = request.outcomes() {
                    outcomes.reverse();
                }
                None
            }),
        ),
        (
            "The first outcome that ends",
            After(|_, request, answer| {
                if request.call.starts_with("GET events/") {
                    answer.body["deliveries"][0]["outcome"] = json!("dropped:later");
                }
            }),
        ),
        (
            "The same outcomes sent again",
            After(|memory, request, answer| {
                if request.is("POST commit") {
                    memory.count += 1;
                    answer.body["committed"] = json!(memory.count);
                }
            }),
        ),
        (
            "An outcome that ends a delivery counts",
            Before(|memory, request| {
                let mut kept = Vec::new();
                for item in request.outcomes()?.drain(..) {
                    let seq = item["seq"].to_string();
                    if item["outcome"] == "failed" {
                        memory.seen.insert(seq);
                        kept.push(item);
                    } else if !memory.seen.contains(&seq) {
                        kept.push(item);
                    }
                }
                request.set("commit", kept);
                None
            }),
        ),
        (
            "failed is not due at once",
            Before(takes_failed_for_released),
        ),
        (
            "failed for a hand-out",
            Before(|_, request| {
                if request.is("POST commit") {
                    request.fields().remove("cursor");
                }
                None
            }),
        ),
        ("released is due again", Before(takes_released_for_failed)),
        ("What is in hand behind", After(goes_backwards)),
        (
            "A detail is kept",
            After(|_, request, answer| {
                if request.call.starts_with("GET events/") {
                    answer.body["deliveries"][0]["detail"] = Value::Null;
                }
            }),
        ),
    ]
}

/// Taking back, order and waiting.
fn queue() -> Vec<(&'static str, Fault)> {
    vec![
        ("What a vanished run", Before(knows_no_runs)),
        ("What vanished in company goes", Before(knows_no_runs)),
        ("What vanished in company and is", Before(knows_no_runs)),
        ("A delivery that kills", Before(knows_no_runs)),
        ("What was lost three times", After(counts_hand_outs_twice)),
        ("A clean stop costs", Before(takes_no_outcomes)),
        ("Deliveries go out oldest", After(goes_backwards)),
        (
            "An answer holds no more",
            Before(|_, request| {
                if request.is("POST fetch") {
                    request.set("max", 64);
                }
                None
            }),
        ),
        (
            "Nothing of a subject goes out while something",
            Before(believes_no_cursor),
        ),
        (
            "Nothing of a subject goes out while an earlier",
            Before(|_, request| {
                request.replace_outcome("failed", "delivered");
                None
            }),
        ),
        (
            "A claim routes",
            Before(|_, request| {
                if request.is("PUT claims") {
                    says(json!({"routed": 0}))
                } else {
                    None
                }
            }),
        ),
        ("A held fetch is answered", Before(holds_nothing)),
        ("A held fetch that finds", Before(holds_nothing)),
        (
            "A newer fetch takes",
            Before(|_, request| {
                if request.is("POST fetch") && request.body.get("wait").is_none() {
                    request.set("max", 0);
                }
                None
            }),
        ),
        ("An outcome that sets", Before(takes_no_outcomes)),
        ("A delivery that becomes due", Before(takes_no_outcomes)),
        (
            "A caller that hung up",
            After(|_, _, answer| {
                for delivery in deliveries(answer) {
                    delivery["attempt"] = json!(2);
                    delivery["event"]["attempt"] = json!(2);
                }
            }),
        ),
    ]
}

/// After three losses everything still goes out together.
fn counts_hand_outs_twice(memory: &mut Memory, request: &Request, answer: &mut Answer) {
    if !request.is("POST fetch") {
        return;
    }
    let instance = request.instance();
    let now = answer.body["deliveries"].clone();
    let before = memory.deliveries.entry(instance).or_insert(now);
    answer.body["deliveries"] = before.clone();
}

fn replacing() -> Vec<(&'static str, Fault)> {
    vec![
        (
            "A redrive appends",
            After(|_, _, answer| {
                for delivery in deliveries(answer) {
                    delivery.as_object_mut().unwrap().remove("redriveOf");
                }
            }),
        ),
        (
            "What was replaced",
            After(|_, request, answer| {
                if request.is("POST operator/redrive") {
                    answer.body["appended"] = json!(1);
                }
            }),
        ),
        ("An outcome for the old delivery", Before(takes_no_outcomes)),
        (
            "A dry run",
            Before(|_, request| {
                request.target = request.target.replace("?dryRun=true", "");
                None
            }),
        ),
        (
            "A replay goes",
            Before(|_, request| {
                if request.is("POST operator/replay") {
                    let first = request.instance().replace("-other", "");
                    request.set("instance", first);
                }
                None
            }),
        ),
        (
            "A webhook that is redelivered after its delivery",
            Before(|memory, request| {
                let is_new = memory.seen.insert(request.body.to_string());
                let is_again = request.is("POST /gh-webhook") && !is_new;
                if is_again {
                    says(json!({"status": "accepted"}))
                } else {
                    None
                }
            }),
        ),
        (
            "A webhook that is redelivered after its event",
            After(|memory, request, answer| {
                let instance = request.instance();
                if !request.is("POST fetch") {
                    return;
                }
                if answer.body["deliveries"][0].is_null() {
                    answer.body["deliveries"] = json!([memory.deliveries[&instance]]);
                } else {
                    memory
                        .deliveries
                        .insert(instance, answer.body["deliveries"][0].clone());
                }
            }),
        ),
    ]
}

/// The gateway with one fault.
fn broken(port: u16, fault: Fault) -> Server {
    let state = Arc::new((Mutex::new(Memory::default()), fault));
    let server = Server::start(Arc::new(move |received| {
        let state = Arc::clone(&state);
        Box::pin(async move {
            let answer = pass(port, received, &state.0, &state.1).await;
            let mut headers = vec![("content-type", "application/json")];
            if !answer.retry_after.is_empty() {
                headers.push(("retry-after", answer.retry_after.as_str()));
            }
            Reply::Bytes(answer_bytes(
                "HTTP/1.0",
                answer.status,
                &headers,
                answer.text.as_bytes(),
            ))
        })
    }));
    server.unwrap()
}

async fn pass(port: u16, received: Received, memory: &Mutex<Memory>, fault: &Fault) -> Answer {
    let path = received.target.split('?').next().unwrap();
    let call = path.strip_prefix("/api/v1/gateway/").unwrap_or(path);
    let mut request = Request {
        call: format!("{} {call}", received.method),
        body: serde_json::from_slice(&received.body).unwrap_or_default(),
        target: received.target.clone(),
    };
    let body = request.body.clone();
    let mut answered = None;
    {
        let mut memory = memory.lock().unwrap();
        let instance = request.instance();
        if request.body.get("peer").is_some() {
            let peer = request.body["peer"].clone();
            memory.first_peer.entry(instance.clone()).or_insert(peer);
            let run = request.body.get("run").cloned().unwrap_or_default();
            memory.first_run.entry(instance).or_insert(run);
        }
        if let Before(change) = fault {
            answered = change(&mut memory, &mut request);
        }
    }
    let mut answer = match answered {
        Some(answer) => answer,
        None => {
            let is_changed = request.body != body;
            let text = if is_changed {
                request.body.to_string().into_bytes()
            } else {
                received.body.clone()
            };
            forward(port, &received, &request.target, &text).await
        }
    };
    let mut memory = memory.lock().unwrap();
    if request.is("POST fetch") && answer.body.get("cursor").is_some() {
        memory
            .cursors
            .insert(request.instance(), answer.body["cursor"].clone());
    }
    let before = answer.body.clone();
    if let After(change) = fault {
        change(&mut memory, &request, &mut answer);
    }
    if answer.text.is_empty() || answer.body != before {
        answer.text = answer.body.to_string();
    }
    answer
}

/// Sends a request on; gives it up when the client does.
async fn forward(port: u16, received: &Received, target: &str, body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut head = format!(
        "{} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n",
        received.method
    );
    for (name, value) in &received.headers {
        if !matches!(name.as_str(), "host" | "connection" | "content-length") {
            head += &format!("{name}: {}\r\n", String::from_utf8_lossy(value));
        }
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut text = Vec::new();
    stream.read_to_end(&mut text).await.unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let retry_after = head
        .lines()
        .find_map(|line| line.strip_prefix("retry-after: "));
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        retry_after: retry_after.unwrap_or_default().to_owned(),
        body: serde_json::from_str(body).unwrap_or_default(),
        text: body.to_owned(),
    }
}

async fn verdict(port: u16, promise: &'static str, fault: Fault) -> (&'static str, Verdict) {
    let server = broken(port, fault);
    let base = format!("http://{}", server.address());
    let options = Options {
        ingress: Some(Ingress {
            url: GatewayUrl::parse(&format!("{base}/gh-webhook")).unwrap(),
            secret: GITHUB_SECRET.to_owned(),
        }),
        url: GatewayUrl::parse(&base).unwrap(),
        repository: "octo/repo".to_owned(),
        patience: Duration::from_secs(30),
        only: promise.to_owned(),
    };
    let findings = run(options, |_| {}).await.unwrap();
    assert_eq!(findings.len(), 1, "{promise}: {findings:?}");
    (promise, findings[0].verdict.clone())
}

#[test]
fn each_promise_broken_on_purpose_is_found_by_its_check() {
    let gateway = TestGateway::with(|config| {
        config.consume.lease_min_ms = 1_000;
        config.store.retry_backoff_min_ms = 1_000;
    });
    let made = faults()
        .into_iter()
        .map(|(promise, fault)| verdict(gateway.port, promise, fault));
    let verdicts: Vec<_> = wait(
        futures_util::stream::iter(made)
            .buffer_unordered(8)
            .collect(),
    );
    let missed: Vec<_> = (verdicts.iter())
        .filter(|(_, verdict)| !matches!(verdict, Verdict::Fail(_)))
        .collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn every_promise_is_broken_once() {
    let faults = faults();
    for promise in promises() {
        let of_it = faults
            .iter()
            .filter(|(prefix, _)| promise.starts_with(prefix))
            .count();
        assert_eq!(of_it, 1, "{promise}");
    }
    assert_eq!(faults.len(), promises().len());
}
