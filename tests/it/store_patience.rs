//! A store that is busy for longer than a provider waits.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;
use the_loop_gateway::app::Parts;
use the_loop_gateway::domain::{Clock, SystemClock};
use the_loop_gateway::http::Patience;

use crate::support::gateway::store_path;
use crate::support::{Call, TestGateway, comment_on};

const WEBHOOKS: Duration = Duration::from_millis(400);
const SLACK: Duration = Duration::from_millis(100);

/// Keeps the gateway's writer from beginning a transaction.
struct Blocked(Connection);

impl Blocked {
    #[expect(clippy::disallowed_methods, reason = "the test is somebody else")]
    fn store_of(gateway: &TestGateway) -> Self {
        let connection = Connection::open(store_path(gateway)).unwrap();
        connection.busy_timeout(Duration::from_secs(5)).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        Self(connection)
    }

    fn let_go(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

fn impatient() -> TestGateway {
    TestGateway::built(
        |_| {},
        |parts| {
            parts.patience = Patience {
                webhooks: WEBHOOKS,
                slack: SLACK,
            };
        },
    )
}

fn jira(gateway: &TestGateway, id: u64) -> Call {
    let body = json!({
        "webhookEvent": "comment_created", "timestamp": 1,
        "comment": {"id": id.to_string(), "author": {"accountId": "ann"}, "body": "hello"},
        "issue": {"id": "1", "key": "PROJ-1",
                  "self": "https://acme.atlassian.net/rest/api/2/issue/1"},
    });
    gateway.jira(&format!("jira-{id}"), &body.to_string())
}

fn slack(gateway: &TestGateway, id: u64) -> Call {
    let body = json!({
        "type": "event_callback", "team_id": "T1", "api_app_id": "A1", "event_id": format!("Ev{id}"),
        "event": {"type": "message", "channel": "C1", "user": "U1", "text": "hello",
                  "ts": format!("1700000000.{id:06}")},
    });
    gateway.slack("events", "application/json", &body.to_string())
}

/// Sends it; tells how long its answer, a 503, took.
#[track_caller]
fn waited_in_vain(call: &Call) -> Duration {
    let began: Instant = SystemClock.instant();
    let reply = call.send();
    let waited = began.elapsed();
    reply.assert_error(503, "overloaded");
    let after = reply.header("retry-after").map(str::to_owned);
    assert!(after.is_some_and(|after| after.parse::<u64>().unwrap() >= 1));
    waited
}

#[test]
fn a_store_that_stays_busy_is_a_503_in_time_for_each_provider() {
    let gateway = impatient();
    let blocked = Blocked::store_of(&gateway);
    let github = gateway.github("issue_comment", "guid-1", &comment_on(1, 1, "hello"));
    assert!(waited_in_vain(&github) >= WEBHOOKS);
    assert!(waited_in_vain(&jira(&gateway, 1)) >= WEBHOOKS);
    assert!(waited_in_vain(&slack(&gateway, 1)) >= SLACK);
    blocked.let_go();
    for call in [github, jira(&gateway, 1)] {
        call.send().assert(202);
    }
    slack(&gateway, 1).send().assert(200);
    assert_eq!(gateway.stored(), 3, "each once, whoever began first");
}

#[test]
fn a_store_that_is_busy_for_a_moment_is_waited_for() {
    let gateway = TestGateway::start();
    let blocked = Blocked::store_of(&gateway);
    std::thread::scope(|scope| {
        let calls = [
            gateway.github("issue_comment", "guid-1", &comment_on(1, 1, "hello")),
            jira(&gateway, 1),
            slack(&gateway, 1),
        ];
        let answers = calls.map(|call| scope.spawn(move || call.send().status));
        gateway.wait_for_open(3);
        blocked.let_go();
        assert_eq!(
            answers.map(|answer| answer.join().unwrap()),
            [202, 202, 200]
        );
    });
    assert_eq!(gateway.stored(), 3);
}

/// What has not begun when its caller gives up is not stored behind the caller's back: the answer
/// said that it was not taken.
#[test]
fn what_was_given_up_before_it_began_is_not_stored() {
    let gateway = impatient();
    let blocked = Blocked::store_of(&gateway);
    let send = |id: u64| {
        let body = comment_on(1, id, "hello");
        gateway.github("issue_comment", &format!("guid-{id}"), &body)
    };
    // The first one may have begun: it is the writer's turn that the lock holds up.
    for id in 1..=3 {
        waited_in_vain(&send(id));
    }
    blocked.let_go();
    send(4).send().assert(202);
    let stored = gateway.texts("SELECT delivery_id FROM events ORDER BY id");
    assert!(!stored.contains(&"guid-2".to_owned()), "{stored:?}");
    assert!(!stored.contains(&"guid-3".to_owned()), "{stored:?}");
    assert_eq!(stored.last().unwrap(), "guid-4");
}

#[test]
fn providers_are_kept_waiting_for_less_than_they_are_willing_to() {
    let Parts { patience, .. } = Parts::default();
    assert_eq!(patience.webhooks, Duration::from_secs(8), "GitHub: 10 s");
    assert_eq!(patience.slack, Duration::from_millis(2_500), "Slack: 3 s");
}
