//! A real store behind a small actor, a fake provider, and pollers that ask every few
//! milliseconds. Nothing sleeps: everything waits for a condition, with a deadline.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler};
use tokio::sync::watch;

use crate::actors::messages::{IngressChanged, IngressState, StopIngress, Submit};
use crate::actors::poller::*;
use crate::config::{EnvName, Environment, GitHubSource, JiraDeployment, Monitor};
use crate::devkit::fake_github::{Asked, FakeGitHub};
use crate::devkit::fake_jira::FakeJira;
use crate::domain::*;
use crate::providers::{Declared, RepositoryPattern, Verdict, Verified, github, jira};
use crate::store::*;
use crate::telemetry::GatewayEvent;

pub(super) const REPO: &str = "octo/repo";
pub(super) const LABEL: &str = "the-loop: auto-execute";
pub(super) const TOKEN: &str = "ghp_never-shown";
pub(super) const SITE: &str = "acme.atlassian.net";
pub(super) const PROJECT: &str = "KEY";
const INTERVAL: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(30);

/// What the actor of the store and the tests share.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) records: Arc<Mutex<Vec<GatewayEvent>>>,
    /// Appends are refused while it is set.
    pub(super) refuses: Arc<AtomicBool>,
    changes: Arc<watch::Sender<u64>>,
}

/// A store that commits each write on its own.
struct OneByOne {
    writer: Writer,
    kept: Kept,
}

impl Actor for OneByOne {
    type Context = Context<Self>;
}

impl<W: Write> Handler<Submit<W>> for OneByOne {
    type Result = Result<W::Reply, StoreError>;

    fn handle(&mut self, Submit(write): Submit<W>, _: &mut Self::Context) -> Self::Result {
        let is_append = [TypeId::of::<Append>(), TypeId::of::<AppendPresence>()];
        if is_append.contains(&TypeId::of::<W>()) && self.kept.refuses.load(Ordering::SeqCst) {
            self.kept.changes.send_modify(|count| *count += 1);
            return Err(StoreError::Aborted("the disk is full".to_owned()));
        }
        let (reply, report) = self.writer.commit_one(write);
        let records = report.effects.events;
        self.kept.records.lock().unwrap().extend(records);
        self.kept.changes.send_modify(|count| *count += 1);
        reply
    }
}

/// Collects states.
struct States {
    states: Arc<Mutex<Vec<IngressChanged>>>,
    kept: Kept,
}

impl Actor for States {
    type Context = Context<Self>;
}

impl Handler<IngressChanged> for States {
    type Result = ();

    fn handle(&mut self, changed: IngressChanged, _: &mut Self::Context) {
        self.states.lock().unwrap().push(changed);
        self.kept.changes.send_modify(|count| *count += 1);
    }
}

/// Everything around a poller.
pub(super) struct Rig {
    pub(super) github: FakeGitHub,
    pub(super) jira: FakeJira,
    pub(super) kept: Kept,
    pub(super) clock: Arc<SystemClock>,
    pub(super) states: Arc<Mutex<Vec<IngressChanged>>>,
    pub(super) declared: Arc<Declared>,
    pub(super) environment: Environment,
    pub(super) checks_every: Option<Duration>,
    pub(super) labels: Vec<String>,
    pub(super) monitor: Monitor,
    pub(super) gate: Arc<Gate>,
    status: Addr<States>,
    store: Addr<OneByOne>,
    reader: ReadPool,
    _dir: tempfile::TempDir,
}

impl Rig {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway.db");
        let clock = Arc::new(SystemClock);
        let connection = open_writer(&path).unwrap();
        // What a power cut would lose is none of these tests' business.
        connection
            .pragma_update(None, "synchronous", "OFF")
            .unwrap();
        let writer = Writer::new(connection, Settings::default(), clock.clone());
        let kept = Kept {
            records: Arc::default(),
            refuses: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
        };
        let states = Arc::new(Mutex::new(Vec::new()));
        let status = States {
            states: Arc::clone(&states),
            kept: kept.clone(),
        };
        let store = OneByOne {
            writer,
            kept: kept.clone(),
        };
        let github = FakeGitHub::start().unwrap();
        github.create(REPO);
        Self {
            github,
            jira: FakeJira::start_cloud().unwrap(),
            states,
            declared: Arc::new(declared(&["octo/*"])),
            environment: Environment::given([
                ("GITHUB_TOKEN", TOKEN),
                ("JIRA_EMAIL", "gateway@example.com"),
                ("JIRA_TOKEN", TOKEN),
            ]),
            checks_every: Some(Duration::from_millis(1)),
            labels: vec![LABEL.to_owned()],
            monitor: Monitor::default(),
            gate: Arc::new(Gate::new(clock.clone())),
            status: status.start(),
            store: store.start(),
            reader: open_readers(&path).unwrap(),
            clock,
            kept,
            _dir: dir,
        }
    }

    /// Starts the poller of a repository.
    pub(super) fn poll(&self, name: &str) -> Addr<PollerActor> {
        self.poll_at("github.com", name)
    }

    /// Starts the poller of a repository of some host.
    pub(super) fn poll_at(&self, host: &str, name: &str) -> Addr<PollerActor> {
        let (owner, repo) = name.split_once('/').unwrap();
        let repository = GitHubSource {
            host: host.to_owned(),
            owner: owner.to_owned(),
            repo: repo.to_owned(),
            api_base: self.github.api_base(),
            token_env: EnvName::parse("GITHUB_TOKEN").ok(),
            labels: self.labels.clone(),
            monitor: self.monitor,
        };
        let source = PollSource::GitHub {
            repository,
            checks_every: self.checks_every,
        };
        let token = EnvName::parse("GITHUB_TOKEN").unwrap();
        let credentials = Credentials::bearer(self.environment.clone(), token);
        self.start(source, credentials)
    }

    /// Starts the poller of the usual Jira project, as it is reached with this deployment.
    pub(super) fn poll_jira(&self, deployment: JiraDeployment) -> Addr<PollerActor> {
        let name = |text: &str| EnvName::parse(text).unwrap();
        let environment = self.environment.clone();
        let credentials = match deployment {
            JiraDeployment::DataCenter => Credentials::bearer(environment, name("JIRA_TOKEN")),
            JiraDeployment::Cloud | JiraDeployment::CloudScoped { .. } => {
                Credentials::basic(environment, name("JIRA_EMAIL"), name("JIRA_TOKEN"))
            }
        };
        let project = JiraProject {
            site: SITE.to_owned(),
            key: PROJECT.to_owned(),
            deployment,
            api_base: self.jira.api_base(),
            labels: self.labels.clone(),
        };
        self.start(PollSource::Jira(project), credentials)
    }

    /// Waits until so many rounds of the Jira project began and ended.
    pub(super) async fn jira_rounds(&self, count: usize) {
        let begun = || {
            let asked = self.jira.asked();
            asked
                .iter()
                .filter(|own| own.path.contains("/search"))
                .count()
        };
        let before = begun();
        self.until("some rounds", |_| begun() > before + count + 1)
            .await;
    }

    pub(super) fn jira_state(&self) -> Option<(IngressState, String)> {
        self.state_of(&format!("jira-poll:{SITE}/{PROJECT}"))
    }

    pub(super) fn start(&self, source: PollSource, credentials: Credentials) -> Addr<PollerActor> {
        let timing = HttpTiming {
            limits: outbound::Limits {
                answer: Duration::from_millis(500),
                ..outbound::Limits::default()
            },
            body: Duration::from_millis(500),
        };
        PollerActor::new(PollerParts {
            source,
            interval: INTERVAL,
            credentials,
            gate: Arc::clone(&self.gate),
            timing,
            declared: Arc::clone(&self.declared),
            clock: self.clock.clone(),
            store: PollStore::of(&self.store),
            status: self.status.clone().recipient(),
        })
        .start()
    }

    /// Starts the poller of the usual repository and waits until it knows it.
    pub(super) async fn polling(&self) -> Addr<PollerActor> {
        let poller = self.poll(REPO);
        self.rounds(1).await;
        poller
    }

    /// Changes rows by hand, as only a test may.
    pub(super) async fn alter(&self, sql: &'static str) {
        self.submit(Alter(sql)).await;
    }

    pub(super) async fn submit<W: Write>(&self, write: W) -> W::Reply {
        self.store.send(Submit(write)).await.unwrap().unwrap()
    }

    /// Waits until a condition holds.
    pub(super) async fn until(&self, wanted: &str, holds: impl Fn(&Self) -> bool) {
        let mut store = self.kept.changes.subscribe();
        let (mut github, mut jira) = (self.github.changes(), self.jira.changes());
        let waiting = async {
            loop {
                for changes in [&mut store, &mut github, &mut jira] {
                    changes.mark_unchanged();
                }
                if holds(self) {
                    return;
                }
                tokio::select! {
                    _ = store.changed() => {}
                    _ = github.changed() => {}
                    _ = jira.changed() => {}
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(
            waited.is_ok(),
            "waited in vain until {wanted}: {}",
            self.told()
        );
    }

    /// What is known, for a test that failed.
    fn told(&self) -> String {
        let states = self.states.lock().unwrap().clone();
        let mut asked: Vec<Asked> = self.github.asked();
        asked.extend(self.jira.asked());
        let last = asked.len().saturating_sub(12);
        format!("{states:?}\n{:#?}\n{:#?}", self.events(), &asked[last..])
    }

    /// Waits until so many rounds of the usual repository began and ended.
    pub(super) async fn rounds(&self, count: usize) {
        self.rounds_of(REPO, count).await;
    }

    pub(super) async fn rounds_of(&self, name: &str, count: usize) {
        let begun = || self.list_requests(name).len();
        let before = begun();
        // The first one may be the end of a round, and the last one the beginning.
        self.until("some rounds", |_| begun() > before + count + 1)
            .await;
    }

    /// The requests for the list of changes, which each round makes first.
    pub(super) fn list_requests(&self, name: &str) -> Vec<Asked> {
        let path = format!("/repos/{name}/issues");
        let mut asked = self.github.asked();
        asked.retain(|asked| asked.path == path && asked.query.contains("state=all"));
        asked
    }

    /// The kind and delivery id of each stored event, oldest first.
    pub(super) fn events(&self) -> Vec<String> {
        self.texts("SELECT kind || ' ' || delivery_id FROM events ORDER BY id")
    }

    /// The kinds of the stored events, oldest first.
    pub(super) fn kinds(&self) -> Vec<String> {
        self.texts("SELECT kind FROM events ORDER BY id")
    }

    pub(super) fn texts(&self, sql: &str) -> Vec<String> {
        let connection = self.reader.get().unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    }

    pub(super) fn number(&self, sql: &str) -> i64 {
        let connection = self.reader.get().unwrap();
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// The payload of the event with a delivery id.
    pub(super) fn payload(&self, delivery_id: &str) -> serde_json::Value {
        let connection = self.reader.get().unwrap();
        let payload = connection
            .query_row(
                "SELECT payload, payload_bytes FROM events WHERE delivery_id = ?1",
                [delivery_id],
                |row| {
                    let bytes = row.get::<_, i64>(1)?.unsigned_abs();
                    Ok(Payload::from_stored(row.get(0)?, bytes))
                },
            )
            .unwrap();
        serde_json::from_slice(&payload.text().unwrap()).unwrap()
    }

    /// How many drops of a reason were recorded.
    pub(super) fn drops(&self, reason: DropReason) -> usize {
        let records = self.kept.records.lock().unwrap();
        let is_it = |record: &&GatewayEvent| matches!(record, GatewayEvent::Dropped { reason: own, .. } if *own == reason);
        records.iter().filter(is_it).count()
    }

    /// The states that were told, without repetitions.
    pub(super) fn states(&self) -> Vec<IngressState> {
        let states = self.states.lock().unwrap();
        let mut words: Vec<IngressState> = states.iter().map(|changed| changed.state).collect();
        words.dedup();
        words
    }

    /// The state that was told last, with its error.
    pub(super) fn state_of(&self, name: &str) -> Option<(IngressState, String)> {
        let states = self.states.lock().unwrap();
        let last = states.iter().rfind(|changed| changed.name == name)?;
        Some((last.state, last.error.clone().unwrap_or_default()))
    }

    pub(super) fn state(&self) -> Option<(IngressState, String)> {
        self.state_of(&format!("github-poll:{REPO}"))
    }

    /// Delivers a webhook.
    pub(super) async fn webhook(&self, kind: &str, body: &serde_json::Value) -> Appended {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
        let guid = format!("guid-{}", NEXT.fetch_add(1, Ordering::SeqCst));
        let headers = BTreeMap::from([
            ("x-github-event".to_owned(), kind.to_owned()),
            ("x-github-delivery".to_owned(), guid),
        ]);
        let body = body.to_string();
        let body = Verified::by_connection(body.as_bytes());
        let verdict = github::parse(&headers, body, &self.declared, self.clock.now()).unwrap();
        let Verdict::Append(arrival) = verdict else {
            panic!("dropped: {verdict:?}");
        };
        let caller = CallerToken::always();
        self.submit(Append { arrival, caller }).await
    }

    /// Delivers a webhook of Jira.
    pub(super) async fn jira_webhook(&self, body: &serde_json::Value) -> Appended {
        let headers: BTreeMap<String, String> = BTreeMap::new();
        let body = body.to_string();
        let body = Verified::by_connection(body.as_bytes());
        let verdict = jira::parse(&headers, body, &self.declared, self.clock.now()).unwrap();
        let Verdict::Append(arrival) = verdict else {
            panic!("dropped: {verdict:?}");
        };
        let caller = CallerToken::always();
        self.submit(Append { arrival, caller }).await
    }

    /// Makes an instance a claimant of an item of the usual repository.
    pub(super) async fn claim(&self, instance: &str, number: u64) {
        self.claim_item(instance, &item(number)).await;
    }

    pub(super) async fn claim_item(&self, instance: &str, item: &WorkItemRef) {
        let subject = item.subject();
        let claim = PutClaim {
            identity: identity(instance),
            subject,
            role: Role::Driver,
        };
        self.submit(claim).await;
    }

    /// Fetches what is due for an instance, after these outcomes.
    pub(super) async fn fetch(&self, instance: &str, outcomes: &[(Seq, &str)]) -> Vec<Delivery> {
        let commit = outcomes.iter().map(|(seq, outcome)| CommitItem {
            seq: *seq,
            outcome: Outcome::parse(outcome).unwrap(),
            detail: None,
        });
        let request = FetchBatch {
            identity: identity(instance),
            peer: PeerId::parse("peer").unwrap(),
            cursor: None,
            limit: 64,
            lease_ms: 60_000,
            park_ms: None,
            commit: commit.collect(),
            caller: CallerToken::always(),
        };
        self.submit(request).await.deliveries
    }
}

struct Alter(&'static str);

impl Write for Alter {
    type Reply = ();

    fn apply(self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.connection.execute_batch(self.0).unwrap();
        Ok(())
    }
}

pub(super) async fn stop(poller: Addr<PollerActor>) {
    poller.send(StopIngress).await.unwrap();
}

pub(super) fn declared(repositories: &[&str]) -> Declared {
    let parse = |text: &&str| RepositoryPattern::parse(text).unwrap();
    Declared {
        repositories: repositories.iter().map(parse).collect(),
        jira_site: Some(SITE.to_owned()),
        jira_projects: [PROJECT.to_owned()].into(),
        ..Declared::default()
    }
}

/// An item of the usual repository.
pub(super) fn item(number: u64) -> WorkItemRef {
    WorkItemRef::parse(&format!("github:{REPO}#{number}")).unwrap()
}

pub(super) fn identity(instance: &str) -> Identity {
    Identity {
        instance: InstanceName::parse(instance).unwrap(),
        peer: Some(PeerId::parse("peer").unwrap()),
        run: Some(RunId::parse("run").unwrap()),
    }
}
