//! Handing deliveries on, from a scripted gateway to a faithful receiver, a command, a writer.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::client::{BackOff, Client, End, Envelope, Event, GatewayUrl};
use crate::config::Secret;
use crate::devkit::fake_gateway::{FakeGateway, Seen};
use crate::devkit::fake_receiver::{FakeReceiver, Instead};
use crate::domain::{InstanceName, Provider, Role, Subject};
use crate::providers::signature::sign_github;

const ONE: &str = "loop-github-octo-repo-1";
const TWO: &str = "loop-github-octo-repo-2";
const SECRET: &str = "s3cret";

/// An envelope for tests of what becomes of it.
pub(super) fn envelope(provider: &str, kind: &str, payload: &str) -> Envelope {
    let text = format!(
        r#"{{"id":208,"subject":"{ONE}","provider":"{provider}","source":"poll","deliveryId":"d-1",
        "receivedAt":"2026-10-18T14:02:11.120Z","workItem":null,"kind":"{kind}","headers":{{}},
        "payload":{payload},"attempt":1}}"#
    );
    serde_json::from_str(&text).unwrap()
}

struct Scene {
    gateway: FakeGateway,
    directory: tempfile::TempDir,
    told: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new() -> Self {
        Self {
            gateway: FakeGateway::start().unwrap(),
            directory: tempfile::tempdir().unwrap(),
            told: Arc::default(),
        }
    }

    fn url(&self) -> GatewayUrl {
        GatewayUrl::parse(&self.gateway.url()).unwrap()
    }

    fn start(&self, sink: Sink) -> Client {
        let told = Arc::clone(&self.told);
        let builder = Client::builder(self.url(), &self.directory.path().join("peer.json"))
            .instance(laptop())
            .back_off(BackOff {
                min: Duration::from_millis(10),
                max: Duration::from_millis(40),
            })
            .stop_grace(Duration::from_millis(100))
            .claim(Subject::parse(ONE).unwrap(), Role::Driver)
            .on_event(move |event: &Event| told.lock().unwrap().push(event.to_string()));
        start(builder, sink).unwrap()
    }

    fn told(&self, word: &str) -> Vec<String> {
        let told = self.told.lock().unwrap();
        told.iter()
            .filter(|event| event.contains(word))
            .cloned()
            .collect()
    }

    fn outcome(&self, seq: i64, outcome: &str) -> Seen {
        self.gateway
            .wait_for(|seen| seen.outcome(seq) == Some(outcome))
            .unwrap()
    }
}

fn laptop() -> InstanceName {
    InstanceName::parse("laptop").unwrap()
}

fn forward_to(url: &str, secret: &str) -> Forward {
    let target = Target::new(url, Secret::new(secret)).unwrap();
    Forward::new(BTreeMap::from([(Provider::GitHub, target)]))
}

fn to(receiver: &FakeReceiver) -> Sink {
    Sink::Forward(forward_to(&receiver.url(), SECRET))
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    let work = async { tokio::time::timeout(Duration::from_secs(20), work).await };
    actix_rt::System::new()
        .block_on(work)
        .expect("it took too long")
}

#[test]
fn a_delivery_reaches_the_receiver_byte_for_byte_signed_and_in_the_form_it_understands() {
    let (scene, receiver) = (Scene::new(), FakeReceiver::start(Some(SECRET)).unwrap());
    let client = scene.start(to(&receiver));
    let payload = "{ \"exact\" : \"\\ud83d\",\n \"n\": 1.0 }";
    let seq = scene.gateway.push(ONE, payload);
    scene.outcome(seq, "delivered");
    let taken = receiver.taken();
    let request = &taken[0].request;
    assert_eq!(taken[0].status, Some(202));
    assert_eq!(request.body, payload.as_bytes());
    assert_eq!(
        request.header("x-hub-signature-256"),
        sign_github(SECRET, payload.as_bytes())
    );
    assert_eq!(request.header("x-github-event"), "issue_comment");
    assert_eq!(request.header("x-github-delivery"), "d-1");
    assert_eq!(request.header("x-the-loop-gateway-event-id"), "1");
    assert_eq!(request.header("content-length"), payload.len().to_string());
    for absent in ["expect", "transfer-encoding"] {
        assert!(!request.headers.contains_key(absent), "{absent}");
    }
    wait(client.stop());
}

#[test]
fn while_the_receiver_is_down_nothing_is_settled_and_then_everything_arrives_in_order() {
    let (scene, receiver) = (Scene::new(), FakeReceiver::start(Some(SECRET)).unwrap());
    receiver.go_down().unwrap();
    let client = scene.start(to(&receiver));
    let seqs: Vec<i64> = (0..3).map(|_| scene.gateway.push(ONE, "{}")).collect();
    wait(client.wait_for(|status| !status.targets_down.is_empty()));
    assert!(scene.gateway.seen().outcome_log.is_empty());
    receiver.come_back().unwrap();
    let seen = scene.outcome(seqs[2], "delivered");
    let log: Vec<i64> = seen.outcome_log.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(log, seqs);
    let ids: Vec<String> = (receiver.taken().iter())
        .map(|taken| taken.request.header("x-github-delivery").to_owned())
        .collect();
    assert_eq!(ids, ["d-1", "d-2", "d-3"]);
    wait(client.stop());
    let warnings = scene.told("is down");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("start the receiver, or correct --forward-github"));
    assert_eq!(scene.told("fetching goes on").len(), 1);
}

#[test]
fn a_receiver_that_refuses_everything_is_told_with_what_to_mend_and_a_stop_releases() {
    for (sink_secret, instead, advice) in [
        ("wrong", Instead::Nothing, "--forward-github-secret-env"),
        (SECRET, Instead::Status(302), "redirects"),
        (SECRET, Instead::Status(403), "forbids"),
        (SECRET, Instead::Status(404), "no such path"),
        (SECRET, Instead::Status(405), "no POST"),
    ] {
        let (scene, receiver) = (Scene::new(), FakeReceiver::start(Some(SECRET)).unwrap());
        receiver.always(instead);
        let client = scene.start(Sink::Forward(forward_to(&receiver.url(), sink_secret)));
        let seq = scene.gateway.push(ONE, "{}");
        // It is tried again and again, and told once.
        receiver.wait_for(|taken| taken.len() >= 3).unwrap();
        assert_eq!(scene.gateway.seen().outcome(seq), None);
        wait(client.stop());
        scene.outcome(seq, "released");
        let warnings = scene.told("is down");
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains(advice), "{warnings:?}");
    }
}

#[test]
fn a_receiver_that_breaks_over_a_delivery_makes_it_failed_and_gets_it_again() {
    for instead in [
        Instead::Close,
        Instead::Status(408),
        Instead::Status(429),
        Instead::Status(500),
        Instead::Status(503),
    ] {
        let (scene, receiver) = (Scene::new(), FakeReceiver::start(Some(SECRET)).unwrap());
        receiver.next(instead);
        let client = scene.start(to(&receiver));
        let seq = scene.gateway.push(ONE, "{}");
        let seen = scene.outcome(seq, "delivered");
        let log: Vec<&str> = (seen.outcome_log.iter())
            .map(|(_, outcome)| outcome.as_str())
            .collect();
        assert_eq!(log, ["failed", "delivered"], "{instead:?}");
        wait(client.stop());
        assert!(scene.told("is down").is_empty());
    }
}

#[test]
fn a_receiver_that_does_not_answer_in_time_makes_it_failed() {
    let (scene, receiver) = (Scene::new(), FakeReceiver::start(Some(SECRET)).unwrap());
    receiver.next(Instead::Slow(Duration::from_secs(60)));
    let forward = forward_to(&receiver.url(), SECRET).answer_max(Duration::from_millis(100));
    let client = scene.start(Sink::Forward(forward));
    let seq = scene.gateway.push(ONE, "{}");
    let seen = scene.outcome(seq, "delivered");
    assert_eq!(seen.outcome_log[0].1, "failed");
    wait(client.stop());
}

#[test]
fn what_the_receiver_will_never_take_is_dropped_by_its_status() {
    let (scene, receiver) = (Scene::new(), FakeReceiver::start(Some(SECRET)).unwrap());
    receiver.next(Instead::Status(422));
    let client = scene.start(to(&receiver));
    let seq = scene.gateway.push(ONE, "{}");
    scene.outcome(seq, "dropped:http-422");
    wait(client.stop());
}

#[test]
fn a_provider_without_a_target_is_dropped_and_counted() {
    let scene = Scene::new();
    let forward = Forward::new(BTreeMap::new());
    assert_eq!(forward.without_target(), Provider::ALL);
    let client = scene.start(Sink::Forward(forward));
    scene.gateway.push(ONE, "{}");
    // Its number depends on whether the first was handed out by then.
    let second = scene.gateway.push(ONE, "{}");
    scene.outcome(second, "dropped:no-target");
    assert_eq!(client.status().outcomes["dropped:no-target"], 2);
    wait(client.stop());
}

fn exec(command: &str) -> Sink {
    Sink::Exec(Exec::new(command.to_owned(), laptop()))
}

#[test]
fn a_command_gets_the_envelope_on_its_input_and_the_ids_in_its_environment() {
    let scene = Scene::new();
    let out = scene.directory.path().join("out");
    let client = scene.start(exec(&format!(
        "cat > {0}.json; env | grep ^THE_LOOP_GATEWAY_ | sort > {0}.env",
        out.display()
    )));
    let payload = "{ \"exact\" : 1.0 }";
    let seq = scene.gateway.push(ONE, payload);
    scene.outcome(seq, "delivered");
    let text = std::fs::read_to_string(out.with_extension("json")).unwrap();
    assert!(text.contains(payload), "{text}");
    let envelope: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(envelope.as_object().unwrap().len(), 11);
    assert_eq!(
        std::fs::read_to_string(out.with_extension("env")).unwrap(),
        "THE_LOOP_GATEWAY_ATTEMPT=1\n\
         THE_LOOP_GATEWAY_DELIVERY_ID=d-1\n\
         THE_LOOP_GATEWAY_EVENT_ID=1\n\
         THE_LOOP_GATEWAY_INSTANCE=laptop\n\
         THE_LOOP_GATEWAY_KIND=issue_comment\n\
         THE_LOOP_GATEWAY_PROVIDER=github\n\
         THE_LOOP_GATEWAY_SEQ=1\n\
         THE_LOOP_GATEWAY_SUBJECT=loop-github-octo-repo-1\n\
         THE_LOOP_GATEWAY_WORK_ITEM=github:octo/repo#1\n"
    );
    wait(client.stop());
}

#[test]
fn the_exit_of_a_command_is_the_outcome() {
    for (command, outcome) in [
        ("exit 0", "delivered"),
        ("exit 65", "dropped:exit-65"),
        ("exit 3", "failed"),
        ("kill -9 $$", "failed"),
    ] {
        let scene = Scene::new();
        let client = scene.start(exec(command));
        // Larger than a pipe holds, and never read.
        let payload = format!("{{\"a\":\"{}\"}}", "x".repeat(200_000));
        let seq = scene.gateway.push(ONE, &payload);
        let seen = scene
            .gateway
            .wait_for(|seen| seen.outcome(seq).is_some())
            .unwrap();
        assert_eq!(seen.outcome_log[0].1, outcome, "{command}");
        wait(client.stop());
    }
}

#[test]
fn a_command_that_cannot_be_run_is_a_target_that_is_down() {
    for command in ["/nonexistent/command", "/etc/passwd"] {
        let scene = Scene::new();
        let client = scene.start(exec(command));
        let seq = scene.gateway.push(ONE, "{}");
        wait(client.wait_for(|status| !status.targets_down.is_empty()));
        wait(client.stop());
        scene.outcome(seq, "released");
        assert!(scene.told("is down")[0].contains("correct --exec"));
    }
}

#[test]
fn a_command_that_is_cut_off_by_a_stop_is_ended_and_its_delivery_released() {
    let scene = Scene::new();
    let mark = scene.directory.path().join("mark");
    let client = scene.start(exec(&format!(
        "trap 'echo ended >> {0}; exit' TERM; echo begun > {0}; while :; do :; done",
        mark.display()
    )));
    let seq = scene.gateway.push(ONE, "{}");
    until(|| std::fs::read_to_string(&mark).is_ok_and(|text| text == "begun\n"));
    wait(client.stop());
    scene.outcome(seq, "released");
    until(|| std::fs::read_to_string(&mark).is_ok_and(|text| text.ends_with("ended\n")));
}

/// Waits for what nobody tells of: the doings of another process.
fn until(condition: impl Fn() -> bool) {
    let began = tokio::time::Instant::now();
    while !condition() {
        assert!(began.elapsed().as_secs() < 20, "it took too long");
        std::thread::yield_now();
    }
}

#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Torn;

impl Write for Torn {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_delivery_is_printed_as_one_line_of_json() {
    let (scene, paper) = (Scene::new(), Paper::default());
    let (print, _) = Print::new(Box::new(paper.clone()));
    let client = scene.start(Sink::Print(print));
    scene.gateway.push(ONE, "{\n\"a\":\r\n\"b\\nc\"}");
    scene.outcome(1, "delivered");
    wait(client.stop());
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert!(text.starts_with("{\"seq\":1,\"attempt\":1,\"event\":{\"id\":1,"));
    assert!(text.contains("\"payload\":{ \"a\":  \"b\\nc\"}"), "{text}");
}

#[test]
fn when_nobody_reads_any_more_nothing_is_settled() {
    let scene = Scene::new();
    let (print, mut gone) = Print::new(Box::new(Torn));
    let client = scene.start(Sink::Print(print));
    let seq = scene.gateway.push(ONE, "{}");
    assert!(*wait(gone.wait_for(|gone| *gone)).unwrap());
    assert_eq!(wait(client.stop()), End::Stopped { unconfirmed: 0 });
    scene.outcome(seq, "released");
}

/// A GET with a `Host`, on a thread of its own: the page is served by ours.
async fn get(address: SocketAddr, path: &'static str, host: &'static str) -> (u16, Value) {
    let exchange = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    });
    let answer = exchange.await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[test]
fn the_status_page_shows_how_the_instance_stands() {
    let scene = Scene::new();
    let client = scene.start(Sink::Forward(Forward::new(BTreeMap::new())));
    scene.gateway.push(TWO, "{}");
    scene.outcome(1, "dropped:no-target");
    wait(async {
        let shown = client.clone();
        let page = StatusPage::serve(([127, 0, 0, 1], 0).into(), shown, scene.url()).unwrap();
        client.wait_for(|status| status.unconfirmed == 0).await;
        let (status, body) = get(page.address(), "/api/v1/gateway", "localhost").await;
        assert_eq!(status, 200);
        assert_eq!(body["configured"], true);
        assert_eq!(body["url"], scene.gateway.url());
        assert_eq!(body["state"], "connected");
        assert_eq!(body["instance"], "laptop");
        assert_eq!(body["committed"], 2);
        assert_eq!(body["mode"]["longPollSeconds"], 25.0);
        assert_eq!(body["claims"][0]["subject"], ONE);
        assert_eq!(body["claims"][0]["role"], "driver");
        assert_eq!(body["health"]["ok"], true);
        assert_eq!(body["outcomes"]["dropped:no-target"], 1);
        // The fingerprint is no way to the peer id.
        let peer = scene.gateway.seen().asked[0].body["peer"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(!peer.contains(body["peer"].as_str().unwrap()));

        assert_eq!(get(page.address(), "/other", "localhost").await.0, 404);
        assert_eq!(
            get(page.address(), "/api/v1/gateway", "evil.example:80")
                .await
                .0,
            403
        );
        scene.gateway.go_down().unwrap();
        client
            .wait_for(|status| status.state.as_str() == "unreachable")
            .await;
        let (_, body) = get(page.address(), "/api/v1/gateway", "127.0.0.1:1").await;
        assert_eq!(body["state"], "unreachable");
        assert!(body["health"].is_null() && body["queue"].is_null());
        page.stop().await;
    });
    wait(client.stop());
}
