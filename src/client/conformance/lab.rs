//! What checks are made with: instances of their own, signed events, and calls that are sent as
//! they are.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use awc::http::Method;
use awc::http::header::RETRY_AFTER;
use serde_json::{Value, json};

use super::Options;
use super::player::Player;
use crate::outbound::{self, Limits, NoTls};
use crate::providers::signature::sign_github;

const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long an answer may take beyond the wait that was asked for.
const PATIENCE: Duration = Duration::from_secs(15);
/// Issue numbers of the checks begin beyond those of any real repository.
const FIRST_ISSUE: u64 = 1_000_000_000;
const ISSUES_A_CHECK: u64 = 100;

/// Why a check did not pass.
#[derive(Debug)]
pub(super) enum Stop {
    /// The promise is broken.
    Broken(String),
    /// It cannot be told.
    Skipped(String),
}

/// What a step of a check comes to.
pub(super) type Checked<T = ()> = Result<T, Stop>;

/// Goes on only when something holds.
pub(super) fn require(holds: bool, otherwise: impl Into<String>) -> Checked {
    if holds {
        Ok(())
    } else {
        Err(Stop::Broken(otherwise.into()))
    }
}

/// Goes on only when two things are the same.
#[expect(
    clippy::needless_pass_by_value,
    reason = "the checks read as sentences"
)]
pub(super) fn same<T: PartialEq<U> + Debug, U: Debug>(what: &str, is: T, should: U) -> Checked {
    let holds = is == should;
    require(holds, format!("{what}: {is:?}, and should be {should:?}"))
}

/// An answer, whatever its status.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<u64>,
    pub(super) text: Vec<u8>,
    /// The body; null when it is no JSON.
    pub(super) json: Value,
}

impl Answer {
    /// The body of a success.
    pub(super) fn success(self, what: &str) -> Checked<Value> {
        let code = self.json.get("error").cloned().unwrap_or_default();
        let holds = (200..300).contains(&self.status);
        require(holds, format!("{what} is answered {} {code}", self.status))?;
        Ok(self.json)
    }

    /// The body of a refusal with this status and code.
    pub(super) fn refusal(self, what: &str, status: u16, code: &str) -> Checked<Value> {
        let is = self
            .json
            .get("error")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let holds = self.status == status && is == code;
        let otherwise = format!(
            "{what} is answered {} {is}, and should be {status} {code}",
            self.status
        );
        require(holds, otherwise)?;
        Ok(self.json)
    }

    /// A 422 that names this field.
    pub(super) fn names_field(self, what: &str, field: &str) -> Checked {
        let body = self.refusal(what, 422, "invalid-field")?;
        let fields = body.get("fields").and_then(Value::as_array);
        let names = |named: &Value| named.get("field").is_some_and(|name| name == field);
        let holds = fields.into_iter().flatten().any(names);
        require(
            holds,
            format!("{what} is refused, but {field} is not named: {body}"),
        )
    }
}

/// What all checks of one run share.
pub(super) struct Server {
    options: Options,
    client: awc::Client,
    tag: String,
    checks: Cell<u64>,
}

impl Server {
    pub(super) fn new(options: Options) -> Result<Rc<Self>, NoTls> {
        let client = outbound::client(Limits::default())?;
        Ok(Rc::new(Self {
            options,
            client,
            tag: format!("{:08x}", fastrand::u32(..)),
            checks: Cell::new(0),
        }))
    }

    /// A place for one check.
    pub(super) fn lab(self: &Rc<Self>) -> Lab {
        let number = self.checks.get();
        self.checks.set(number.saturating_add(1));
        let spread = u64::from(fastrand::u32(..));
        Lab(Rc::new(Place {
            server: Rc::clone(self),
            name: format!("conformance-{}-{number}", self.tag),
            first_issue: FIRST_ISSUE.saturating_add(spread.saturating_mul(ISSUES_A_CHECK)),
            first_comment: u64::from(fastrand::u32(..)).saturating_mul(1_000_000),
            events: Cell::new(0),
            claims: RefCell::default(),
            seqs: RefCell::default(),
        }))
    }

    async fn send(
        &self,
        (method, url): (Method, String),
        headers: &[(&str, String)],
        body: Vec<u8>,
        wait: Duration,
    ) -> Checked<Answer> {
        let limit = wait.saturating_add(PATIENCE);
        let mut request = self.client.request(method, &url).timeout(limit);
        for (name, value) in headers {
            request = request.insert_header((*name, value.as_str()));
        }
        let broken = |why: String| Stop::Broken(format!("no answer from {url}: {why}"));
        let exchange = async {
            // Each on a connection of its own: a kept one may be closed by the server.
            let mut response = request
                .force_close()
                .send_body(body)
                .await
                .map_err(|error| error.to_string())?;
            let retry_after = response.headers().get(RETRY_AFTER).cloned();
            let text = response
                .body()
                .limit(ANSWER_BYTES_MAX)
                .await
                .map_err(|error| error.to_string())?;
            Ok(Answer {
                status: response.status().as_u16(),
                retry_after: retry_after.and_then(|value| value.to_str().ok()?.parse().ok()),
                json: serde_json::from_slice(&text).unwrap_or_default(),
                text: text.to_vec(),
            })
        };
        let answered = tokio::time::timeout(limit, exchange).await;
        answered
            .unwrap_or_else(|_elapsed| Err("it took too long".to_owned()))
            .map_err(broken)
    }
}

/// The place of one check: names and work items that no other check uses.
#[derive(Clone)]
pub(super) struct Lab(Rc<Place>);

struct Place {
    server: Rc<Server>,
    name: String,
    first_issue: u64,
    first_comment: u64,
    events: Cell<u64>,
    claims: RefCell<Vec<Value>>,
    seqs: RefCell<Vec<(Player, i64)>>,
}

impl Lab {
    /// The name of an instance of this check.
    pub(super) fn instance(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.0.name)
    }

    /// A call of the API.
    pub(super) async fn call(
        &self,
        method: Method,
        route: &str,
        body: &Value,
        wait: Duration,
    ) -> Checked<Answer> {
        let server = &self.0.server;
        let url = server.options.url.at(&format!("/api/v1/gateway/{route}"));
        let json = ("content-type", "application/json".to_owned());
        let text = body.to_string().into_bytes();
        let (headers, text) = match body {
            Value::Null => (Vec::new(), Vec::new()),
            Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => (vec![json], text),
        };
        server.send((method, url), &headers, text, wait).await
    }

    /// Posts something.
    pub(super) async fn post(&self, route: &str, body: &Value) -> Checked<Answer> {
        self.call(Method::POST, route, body, Duration::ZERO).await
    }

    /// Reads a view.
    pub(super) async fn view(&self, route: &str) -> Checked<Value> {
        let answer = self.call(Method::GET, route, &Value::Null, Duration::ZERO);
        answer.await?.success(&format!("GET {route}"))
    }

    /// An instance that has claimed these work items, numbered from 1.
    pub(super) async fn claimant(&self, items: &[u64]) -> Checked<Player> {
        let player = Player::new(self, "");
        for item in items {
            player.claim(*item).await?;
        }
        Ok(player)
    }

    /// An instance that has claimed the work items of these events, which follow.
    pub(super) async fn with_events(&self, items: &[u64]) -> Checked<Player> {
        let mut distinct = items.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        self.has_events()?;
        let player = self.claimant(&distinct).await?;
        for item in items {
            self.event(*item).await?;
        }
        Ok(player)
    }

    /// Events can be made only with the secret of the GitHub webhook.
    fn has_events(&self) -> Checked<&super::Ingress> {
        let ingress = self.0.server.options.ingress.as_ref();
        ingress.ok_or_else(|| {
            Stop::Skipped("needs events: name the secret of the GitHub webhook".to_owned())
        })
    }

    /// A comment on a work item arrives. Events are numbered from 1.
    pub(super) async fn event(&self, item: u64) -> Checked<u64> {
        let number = self.0.events.get().saturating_add(1);
        self.0.events.set(number);
        self.deliver(number, &self.comment(item, number)).await?;
        Ok(number)
    }

    /// The JSON of an event on a work item.
    pub(super) fn comment(&self, item: u64, number: u64) -> String {
        let repository = self.0.server.options.repository.as_str();
        let (owner, name) = repository.split_once('/').unwrap_or((repository, ""));
        json!({
            "action": "created",
            "issue": {"number": self.issue(item), "title": "conformance"},
            "comment": {"id": self.0.first_comment.saturating_add(number), "body": "conformance",
                "user": {"login": "conformance"}},
            "repository": {"id": 1, "name": name, "full_name": repository, "owner": {"login": owner},
                "html_url": format!("https://github.com/{repository}")},
            "sender": {"login": "conformance"},
        })
        .to_string()
    }

    /// Posts an event as GitHub does; with a number that was there before, once more.
    pub(super) async fn deliver(&self, number: u64, payload: &str) -> Checked {
        let ingress = self.has_events()?;
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("x-github-event", "issue_comment".to_owned()),
            (
                "x-github-delivery",
                format!("{}-event-{number}", self.0.name),
            ),
            (
                "x-hub-signature-256",
                sign_github(&ingress.secret, payload.as_bytes()),
            ),
        ];
        let (url, body) = (ingress.url.at(""), payload.as_bytes().to_vec());
        let answer = self
            .0
            .server
            .send((Method::POST, url), &headers, body, Duration::ZERO);
        answer.await?.success("a signed event").map(drop)
    }

    fn issue(&self, item: u64) -> u64 {
        self.0.first_issue.saturating_add(item)
    }

    /// The subject of a work item.
    pub(super) fn subject(&self, item: u64) -> String {
        let repository = &self.0.server.options.repository;
        let slug = repository.replace('/', "-").replace('.', "_");
        format!("loop-github-{slug}-{}", self.issue(item))
    }

    /// The number of the event in a delivery; 0 for one that this check did not make.
    pub(super) fn number_of(&self, delivery_id: &str) -> u64 {
        let prefix = format!("{}-event-", self.0.name);
        let number = delivery_id.strip_prefix(&prefix);
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Waits, unless that is longer than one is willing to.
    pub(super) async fn pass(&self, wait: Duration) -> Checked {
        self.may_wait(wait)?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Skips what takes longer than one is willing to wait.
    pub(super) fn may_wait(&self, wait: Duration) -> Checked {
        if wait <= self.0.server.options.patience {
            return Ok(());
        }
        let seconds = wait.as_secs();
        Err(Stop::Skipped(format!(
            "would have to wait {seconds} s; allow it with --patience"
        )))
    }

    /// The longest that one is willing to wait.
    pub(super) fn patience(&self) -> Duration {
        self.0.server.options.patience
    }

    pub(super) fn note_claim(&self, claim: Value) {
        self.0.claims.borrow_mut().push(claim);
    }

    pub(super) fn note_delivery(&self, player: &Player, seq: i64) {
        self.0.seqs.borrow_mut().push((player.clone(), seq));
    }

    /// Leaves nothing behind that would be handed out; best effort.
    pub(super) async fn tidy(&self) {
        let seqs = std::mem::take(&mut *self.0.seqs.borrow_mut());
        for (player, seq) in seqs {
            drop(player.commit(&[(seq, "dropped:conformance")]).await);
        }
        let claims = std::mem::take(&mut *self.0.claims.borrow_mut());
        for claim in claims {
            drop(
                self.call(Method::DELETE, "claims", &claim, Duration::ZERO)
                    .await,
            );
        }
    }
}

/// Runs something while something else goes on, and returns what both came to; a failure of one
/// ends both.
pub(super) async fn beside<A, B>(
    long: impl Future<Output = Checked<A>>,
    meanwhile: impl Future<Output = Checked<B>>,
) -> Checked<(A, B)> {
    futures_util::future::try_join(long, meanwhile).await
}
