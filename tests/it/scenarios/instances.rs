//! Several instances, and a gateway beside one.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use serde_json::{Value, json};
use the_loop_gateway::config::GatewayConfig;

use super::{comment_by, each_event};
use crate::support::consumer::{NONE, seqs};
use crate::support::gateway::wait_until;
use crate::support::{Call, Consumer, TestGateway, comment_on};

/// A gateway on which the ticket `octo/repo#15` has a driver and its pull request `octo/repo#20`
/// a reviewer.
fn driver_and_reviewer() -> (TestGateway, Consumer, Consumer) {
    let gateway = TestGateway::start();
    let (driver, reviewer) = (Consumer::new("driver"), Consumer::new("reviewer"));
    gateway.claim("driver", 15);
    let claim = json!({"subject": "loop-github-octo-repo-20", "role": "reviewer"});
    reviewer.put(&gateway, "/claims", &claim).assert(200);
    let binding = driver.body(&json!({
        "ref": "github:octo/repo#15",
        "provider": "github",
        "key": "octo/repo#20",
    }));
    gateway.api("POST", "/bindings", &binding).assert(200);
    (gateway, driver, reviewer)
}

fn review_comment(id: u64) -> String {
    json!({
        "action": "created",
        "pull_request": {"number": 20},
        "comment": {"id": id, "body": "why?", "user": {"login": "grace"}},
        "repository": {"id": 77, "full_name": "octo/repo", "html_url": "https://github.com/octo/repo"},
        "sender": {"login": "grace"},
    })
    .to_string()
}

/// Scenario: a driver and a reviewer on two instances each receive their own queue
///
/// R12.8: two instances hold a driver claim on a ticket and a reviewer claim on its pull request;
/// a review comment on the pull request reaches both queues, and a comment on the ticket the
/// driver's only.
#[test]
fn a_driver_and_a_reviewer_each_receive_their_own_queue() {
    let (gateway, mut driver, mut reviewer) = driver_and_reviewer();
    let review = gateway.github("pull_request_review_comment", "guid-r", &review_comment(1));
    review.send().assert(202);
    let ticket = gateway.github("issue_comment", "guid-t", &comment_on(15, 2, "go on"));
    ticket.send().assert(202);

    let of_driver = driver.fetch(&gateway, 9, &[]);
    assert_eq!(each_event(&of_driver, "/deliveryId"), ["guid-r", "guid-t"]);
    let of_reviewer = reviewer.fetch(&gateway, 9, &[]);
    assert_eq!(each_event(&of_reviewer, "/deliveryId"), ["guid-r"]);
    // The envelope is the same for both: it names the pull request.
    for answer in [&of_driver, &of_reviewer] {
        assert_eq!(
            answer["deliveries"][0]["event"]["workItem"],
            "github:octo/repo#20"
        );
    }
    // What one of them says is about its own queue.
    let (one, other) = (seqs(&of_driver)[0], seqs(&of_reviewer)[0]);
    driver.commit(&gateway, &[(one, "delivered")]).assert(200);
    let foreign = driver.commit(&gateway, &[(other, "delivered")]);
    foreign.assert_error(409, "commit-undelivered");
    let answer = reviewer.commit(&gateway, &[(other, "dropped:seen")]);
    answer.assert(200);
}

/// R12.8, the other way round: a reviewer starts on the pull request of a ticket that somebody
/// drives already.
#[test]
fn a_reviewer_who_comes_later_gets_what_follows() {
    let gateway = TestGateway::start();
    gateway.claim("driver", 15);
    let (mut driver, mut reviewer) = (Consumer::new("driver"), Consumer::new("reviewer"));
    let actors = json!({"actors": {"github": ["grace"]}});
    reviewer.put(&gateway, "/actors", &actors).assert(200);
    let binding = driver.body(&json!({
        "ref": "github:octo/repo#15",
        "provider": "github",
        "key": "octo/repo#20",
    }));
    gateway.api("POST", "/bindings", &binding).assert(200);
    // The reviewer's owner writes on the pull request: it has no claimant of its own, so it goes
    // to the owner's instance, and to the ticket's driver.
    let call = gateway.github("pull_request_review_comment", "guid-1", &review_comment(1));
    call.send().assert(202);
    for who in [&mut driver, &mut reviewer] {
        assert_eq!(
            each_event(&who.fetch(&gateway, 9, &[]), "/deliveryId"),
            ["guid-1"]
        );
    }
}

/// R12.5: a second instance with a name and actors of its own receives only what is routed to it,
/// the first keeps receiving its own, and a second peer under the first's name is refused.
#[test]
fn a_second_instance_receives_only_what_is_routed_to_it() {
    let gateway = TestGateway::start();
    let (mut first, mut second) = (Consumer::new("first"), Consumer::new("second"));
    for (who, login) in [(&first, "ada"), (&second, "grace")] {
        let actors = json!({"actors": {"github": [login]}});
        who.put(&gateway, "/actors", &actors).assert(200);
    }
    gateway.claim("first", 15);
    for (id, login, number) in [(1, "grace", 15), (2, "grace", 16), (3, "ada", 17)] {
        let body = comment_by(login, number, id, "go on");
        let call = gateway.github("issue_comment", &format!("guid-{id}"), &body);
        call.send().assert(202);
    }
    let of_second = second.fetch(&gateway, 9, &[]);
    assert_eq!(each_event(&of_second, "/deliveryId"), ["guid-2"]);
    let refused = first.rival().ask(&gateway, 9, &[]);
    refused.assert_error(409, "duplicate-instance");
    let of_first = first.fetch(&gateway, 9, &[]);
    assert_eq!(each_event(&of_first, "/deliveryId"), ["guid-1", "guid-3"]);
    // Nor may it take the actors of an instance that is alive.
    let theft = json!({"actors": {"github": ["ada", "grace"]}});
    let refused = second.put(&gateway, "/actors", &theft);
    refused.assert_error(409, "duplicate-actor");
    let conflicts = &refused.json()["conflicts"];
    let ada = json!([{"provider": "github", "actor": "ada", "holder": "first"}]);
    assert_eq!(conflicts, &ada);
}

/// Scenario: a gateway and an instance share one machine on loopback
#[test]
fn a_gateway_and_an_instance_share_one_machine_on_loopback() {
    let defaults = GatewayConfig::rooted_at(std::path::Path::new("/nowhere"));
    // Next to the service (8765) and the receiver (8787) of an instance, without configuration.
    assert_eq!(defaults.listen.address.to_string(), "127.0.0.1:8790");
    assert!(!defaults.listen.exposed);
    let gateway = TestGateway::start();
    assert!(!gateway.config().listen.exposed);
    // All that it writes is under its own state root.
    for path in [
        &gateway.config().store_path,
        &gateway.config().observability.event_log_path,
    ] {
        assert!(path.starts_with(gateway.root()), "{}", path.display());
    }
    gateway.claim("laptop", 15);
    gateway.comment(15);
    let mut laptop = Consumer::new("laptop");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[])), [1]);
}

/// R14.5, the instance first: it starts while there is no gateway, keeps asking, and its fetches
/// succeed once the gateway is up.
#[test]
fn an_instance_that_starts_first_is_served_once_the_gateway_is_up() {
    let port = free_port();
    let is_refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let instance = scope.spawn(|| first_deliveries(port, &is_refused));
        wait_until("the instance to be refused", || {
            is_refused.load(Ordering::SeqCst)
        });
        let gateway = TestGateway::with(|config| config.listen.address.port = port);
        gateway.claim("laptop", 15);
        gateway.comment(15);
        assert_eq!(seqs(&instance.join().unwrap()), [1]);
    });
}

/// R14.5, the gateway first; then it is even restarted under an instance that is running.
#[test]
fn an_instance_that_starts_second_is_served_and_survives_a_restart_of_the_gateway() {
    let port = free_port();
    let mut gateway = TestGateway::with(|config| config.listen.address.port = port);
    gateway.claim("laptop", 15);
    let is_refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let instance = scope.spawn(|| first_deliveries(port, &is_refused));
        gateway.wait_for_held(1);
        gateway.stop();
        wait_until("the instance to be refused", || {
            is_refused.load(Ordering::SeqCst)
        });
        gateway.restart();
        gateway.comment(15);
        assert_eq!(seqs(&instance.join().unwrap()), [1]);
    });
    let mut laptop = Consumer::new("laptop");
    assert_eq!(seqs(&laptop.fetch(&gateway, 9, &[(1, "delivered")])), NONE);
}

/// An instance that asks until it gets something, whoever is not there meanwhile.
fn first_deliveries(port: u16, is_refused: &AtomicBool) -> Value {
    let fetch = Consumer::new("laptop").body(&json!({"cursor": 0, "wait": 20}));
    let call = Call::new(port, "POST", "/api/v1/gateway/fetch").json(&fetch);
    let mut found = Value::Null;
    wait_until("deliveries", || {
        let Some(reply) = call.try_send() else {
            is_refused.store(true, Ordering::SeqCst);
            return false;
        };
        found = reply.assert(200);
        found["deliveries"] != json!([])
    });
    found
}

/// A port that nobody listens on, another one each time; below those that connections are given.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
