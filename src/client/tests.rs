//! The client against a gateway that does what it is told, one sentence a test.

mod course;
mod faults;

mod stopping;

use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::*;
use crate::devkit::fake_gateway::{Asked, FakeGateway};

const DEADLINE: Duration = Duration::from_secs(20);
/// Fast enough for a test, slow enough to be told from "at once".
const FAST: BackOff = BackOff {
    min: Duration::from_millis(10),
    max: Duration::from_millis(40),
};
const ONE: &str = "loop-github-octo-repo-1";
const TWO: &str = "loop-github-octo-repo-2";

/// A fake gateway, a directory for the peer file, and what the client told.
struct Scene {
    gateway: FakeGateway,
    directory: tempfile::TempDir,
    events: Told,
}

impl Scene {
    fn new() -> Self {
        Self {
            gateway: FakeGateway::start().unwrap(),
            directory: tempfile::tempdir().unwrap(),
            events: Told::default(),
        }
    }

    fn peer_file(&self) -> PathBuf {
        self.directory.path().join("gateway-peer.json")
    }

    fn builder(&self) -> ClientBuilder {
        let events = self.events.clone();
        let url = GatewayUrl::parse(&self.gateway.url()).unwrap();
        Client::builder(url, &self.peer_file())
            .back_off(FAST)
            .patience(Duration::from_secs(5))
            .long_poll(Duration::from_secs(10))
            .poll_interval(Duration::from_millis(10))
            .on_event(move |event| events.push(event.clone()))
    }

    fn start(&self) -> (Client, Desk) {
        let desk = Desk::default();
        let client = self.builder().start(desk.handler()).unwrap();
        (client, desk)
    }
}

/// What happened, to be waited for from the test's thread.
#[derive(Clone, Default)]
struct Told(Arc<(Mutex<Vec<Event>>, Condvar)>);

impl Told {
    fn push(&self, event: Event) {
        self.0.0.lock().unwrap().push(event);
        self.0.1.notify_all();
    }

    fn names(&self) -> Vec<&'static str> {
        self.0.0.lock().unwrap().iter().map(Event::name).collect()
    }

    /// Waits for an event of this name, and returns its sentence.
    fn text_of(&self, name: &str) -> String {
        let (events, changed) = &*self.0;
        let events = events.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |events: &[Event]| {
            let event = events.iter().find(|event| event.name() == name);
            event.map(ToString::to_string)
        };
        let (events, timeout) = changed
            .wait_timeout_while(events, DEADLINE, |events| find(events).is_none())
            .unwrap();
        assert!(!timeout.timed_out(), "not told: {events:?}");
        find(&events).unwrap()
    }

    fn await_name(&self, name: &str) {
        self.text_of(name);
    }
}

/// Handlers that wait until the test says what became of their delivery.
#[derive(Clone, Default)]
struct Desk(Arc<(Mutex<Work>, Condvar)>);

#[derive(Default)]
struct Work {
    begun: Vec<(i64, u32)>,
    open: Vec<(i64, tokio::sync::oneshot::Sender<Handled>)>,
    standing: Option<Handled>,
    scripted: VecDeque<Handled>,
}

impl Desk {
    /// Every delivery has this outcome at once.
    fn always(handled: Handled) -> Self {
        let desk = Self::default();
        desk.0.0.lock().unwrap().standing = Some(handled);
        desk
    }

    fn handler(&self) -> impl Handler + Send {
        let desk = self.clone();
        move |delivery: Arc<Delivery>| {
            let desk = desk.clone();
            async move { desk.work(&delivery).await }
        }
    }

    async fn work(&self, delivery: &Delivery) -> Handled {
        let waiting = {
            let mut work = self.0.0.lock().unwrap();
            work.begun.push((delivery.seq.0, delivery.attempt));
            match work.scripted.pop_front().or_else(|| work.standing.clone()) {
                Some(handled) => Err(handled),
                None => {
                    let (say, said) = tokio::sync::oneshot::channel();
                    work.open.push((delivery.seq.0, say));
                    Ok(said)
                }
            }
        };
        self.0.1.notify_all();
        match waiting {
            Ok(said) => said.await.unwrap(),
            Err(handled) => handled,
        }
    }

    /// Waits until handlers began so many deliveries, and names them with their attempts.
    fn begun(&self, count: usize) -> Vec<(i64, u32)> {
        let (work, changed) = &*self.0;
        let (work, timeout) = changed
            .wait_timeout_while(work.lock().unwrap(), DEADLINE, |work| {
                work.begun.len() < count
            })
            .unwrap();
        assert!(!timeout.timed_out(), "begun: {:?}", work.begun);
        work.begun.clone()
    }

    /// Says what became of a delivery that a handler began.
    fn finish(&self, seq: i64, handled: Handled) {
        let mut work = self.0.0.lock().unwrap();
        let open = work.open.iter().position(|(open, _)| *open == seq);
        let (_, say) = work.open.remove(open.expect("not begun"));
        say.send(handled).expect("the handler is gone");
    }

    fn open(&self) -> Vec<i64> {
        let work = self.0.0.lock().unwrap();
        work.open.iter().map(|(seq, _)| *seq).collect()
    }
}

/// Waits on the test's thread, with a deadline.
fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime
        .block_on(async { tokio::time::timeout(DEADLINE, work).await })
        .expect("it took too long")
}

fn connected(client: &Client) -> Status {
    wait(client.wait_for(|status| status.state == State::Connected))
}
