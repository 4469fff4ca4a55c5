//! GitHub: webhooks and polls of the same things, restarts, and repositories that fail.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use the_loop_gateway::devkit::fake_github::Trouble;

use super::{events, wait_for_duplicates, wait_for_events};
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, LiveGateway, env, secret};

const REPO: &str = "octo/repo";
const BOTH: [&str; 2] = ["github-poll", "github-webhook"];

/// What GitHub tells of something that happened.
struct Told {
    kind: &'static str,
    body: Value,
}

/// An issue and a pull request.
struct Items {
    issue: u64,
    pull: u64,
    /// The head of the pull request.
    sha: String,
}

impl Items {
    fn open(fakes: &Fakes) -> Self {
        let issue = fakes.github.open_issue(REPO, "octocat", &[]);
        let sha = format!("{issue:040x}");
        let pull = fakes.github.open_pull_request(REPO, "octocat", &[], &sha);
        Self { issue, pull, sha }
    }

    fn of_issue(&self, fakes: &Fakes) -> (&'static str, Value) {
        ("issue", fakes.github.issue_object(REPO, self.issue))
    }

    fn of_pull(&self, fakes: &Fakes) -> (&'static str, Value) {
        let pull = fakes.github.pull_request_object(REPO, self.pull);
        ("pull_request", pull)
    }

    /// People talk, and a check fails.
    fn talk(&self, fakes: &Fakes) -> Vec<Told> {
        let Self { issue, pull, sha } = self;
        let github = &fakes.github;
        let object = |id: u64| github.object(REPO, id);
        let comment = object(github.comment(REPO, *issue, "ann", "one"));
        let answer = object(github.comment(REPO, *pull, "ann", "two"));
        // A webhook says in lower case what the API says in capitals.
        let review = |id: u64, state: &str| {
            let mut review = object(id);
            review["state"] = json!(state);
            ("review", review)
        };
        let approval = review(github.review(REPO, *pull, "ann", "APPROVED"), "approved");
        // A remark outside a review is one that has a review of its own around it.
        let remark = object(github.review_comment(REPO, *pull, "ann"));
        let around = remark["pull_request_review_id"].as_u64().unwrap();
        let around = review(around, "commented");
        let check = object(github.check_run(REPO, sha, "build", Some("failure")));
        let (of_issue, of_pull) = (self.of_issue(fakes), self.of_pull(fakes));
        let of_pull_as_issue = ("issue", github.issue_object(REPO, *pull));
        let told = |kind, action, fields: [(&str, Value); 2]| told(fakes, kind, action, &fields);
        let submitted = |review| {
            let fields = [of_pull.clone(), review];
            told("pull_request_review", "submitted", fields)
        };
        let created = |of, comment| told("issue_comment", "created", [of, ("comment", comment)]);
        let remark = [of_pull.clone(), ("comment", remark)];
        let check = ("check_run", check);
        vec![
            created(of_issue, comment),
            created(of_pull_as_issue, answer),
            submitted(approval),
            submitted(around),
            told("pull_request_review_comment", "created", remark),
            self::told(fakes, "check_run", "completed", &[check]),
        ]
    }

    /// Both come to an end.
    fn end(&self, fakes: &Fakes) -> Vec<Told> {
        fakes.github.close(REPO, self.issue, "ann");
        fakes.github.merge(REPO, self.pull, "ann");
        vec![
            told(fakes, "issues", "closed", &[self.of_issue(fakes)]),
            told(fakes, "pull_request", "closed", &[self.of_pull(fakes)]),
        ]
    }
}

fn told(fakes: &Fakes, kind: &'static str, action: &str, fields: &[(&str, Value)]) -> Told {
    let mut body = json!({
        "action": action, "repository": fakes.github.repository(REPO), "sender": {"login": "ann"},
    });
    for (name, value) in fields {
        body[*name] = value.clone();
    }
    Told { kind, body }
}

/// A gateway that polls checks, too.
fn gateway(fakes: &Fakes, on: &[&str]) -> LiveGateway {
    // What happens in the second of the first look counts as news.
    fakes.github.advance(10);
    let config = fakes.config(on, "");
    let with_checks = "ci: {enabled: true, intervalSeconds: 1}";
    let config = config.replace("ci: {enabled: false}", with_checks);
    let gateway = LiveGateway::start(&config, &env(&[]));
    gateway.wait_for_exactly(on);
    gateway
}

fn claim(gateway: &LiveGateway, number: u64) {
    let claim = json!({
        "instance": "laptop",
        "subject": format!("loop-github-octo-repo-{number}"),
        "role": "driver",
    });
    gateway.api("PUT", "/claims", &claim).assert(200);
}

fn deliver(gateway: &LiveGateway, told: &[Told]) {
    for Told { kind, body } in told {
        let key = secret("THE_LOOP_GH_WEBHOOK_SECRET");
        let guid = format!("guid-{}", fastrand::u64(..));
        let call = gateway.github(key, &guid, &body.to_string());
        call.header("X-GitHub-Event", kind).send().assert(202);
    }
}

/// Scenario: comments, a review, a remark in a review, a check and two closures, each by webhook
/// and by poll, in both orders.
#[test]
fn what_a_webhook_and_a_poll_bring_is_stored_once_in_both_orders() {
    let fakes = Fakes::start();
    let (webhook_first, poll_first) = (Items::open(&fakes), Items::open(&fakes));
    let gateway = gateway(&fakes, &BOTH);
    for items in [&webhook_first, &poll_first] {
        claim(&gateway, items.pull);
    }
    // The poller reaches nobody while the webhooks come.
    let away = Trouble::Status(502, "");
    fakes.github.trouble("/repos", None, away.clone());
    let talk = webhook_first.talk(&fakes);
    deliver(&gateway, &talk);
    wait_for_events(&gateway, talk.len());
    fakes.github.end_trouble();
    wait_for_duplicates(&gateway, "poll", talk.len());
    fakes.github.trouble("/repos", None, away);
    let end = webhook_first.end(&fakes);
    deliver(&gateway, &end);
    let half = talk.len() + end.len();
    wait_for_events(&gateway, half);
    fakes.github.end_trouble();
    wait_for_duplicates(&gateway, "poll", half);
    // Now the poller first.
    let talk = poll_first.talk(&fakes);
    wait_for_events(&gateway, half + talk.len());
    let end = poll_first.end(&fakes);
    let both = 2 * half;
    wait_for_events(&gateway, both);
    deliver(&gateway, &talk);
    deliver(&gateway, &end);
    wait_for_duplicates(&gateway, "webhook", half);
    let events = events(&gateway);
    assert_eq!(events.len(), both, "{events:?}");
    for (transport, items) in [("webhook", &webhook_first), ("poll", &poll_first)] {
        let of = |kind: &str, number: u64| format!("{transport} {kind} github:octo/repo#{number}");
        for (expected, times) in [
            (of("issue_comment", items.issue), 1),
            (of("issue_comment", items.pull), 1),
            (of("pull_request_review", items.pull), 2),
            (of("pull_request_review_comment", items.pull), 1),
            (of("check_run", items.pull), 1),
            (of("issues", items.issue), 1),
            (of("pull_request", items.pull), 1),
        ] {
            let count = events.iter().filter(|event| **event == expected).count();
            assert_eq!(count, times, "{expected}: {events:?}");
        }
    }
}

/// Scenario: the gateway is stopped and started over and over while people go on.
#[test]
fn a_restart_repeats_nothing_and_misses_nothing() {
    let fakes = Fakes::start();
    let number = fakes.github.open_issue(REPO, "octocat", &[]);
    fakes
        .github
        .comment(REPO, number, "ann", "before the first look");
    let mut gateway = gateway(&fakes, &["github-poll"]);
    let mut said = 0;
    for round in 0..3 {
        for text in ["while it ran", "and again"] {
            fakes.github.comment(REPO, number, "ann", text);
            said += 1;
        }
        wait_for_events(&gateway, said);
        gateway.stop();
        for _ in 0..=round {
            fakes
                .github
                .comment(REPO, number, "ann", "while it was down");
            said += 1;
        }
        fakes.github.close(REPO, number, "ann");
        fakes.github.reopen(REPO, number);
        gateway.run();
        gateway.wait_for_exactly(&["github-poll"]);
        wait_for_events(&gateway, said);
    }
    let before = fakes.github.asked().len();
    wait_until("some more rounds", || {
        fakes.github.asked().len() > before + 9
    });
    wait_for_events(&gateway, said);
}

/// Scenario: a closed, reopened and closed issue, and one that the webhook told of already.
#[test]
fn close_reopen_close_is_two_closures_whoever_tells_of_them() {
    let fakes = Fakes::start();
    let items = Items::open(&fakes);
    let gateway = gateway(&fakes, &BOTH);
    for closures in 1..=2 {
        fakes.github.close(REPO, items.issue, "ann");
        let told = told(&fakes, "issues", "closed", &[items.of_issue(&fakes)]);
        wait_for_events(&gateway, closures);
        deliver(&gateway, &[told]);
        wait_for_duplicates(&gateway, "webhook", closures);
        fakes.github.reopen(REPO, items.issue);
    }
    wait_for_events(&gateway, 2);
}

/// Scenario: one of three repositories hangs, another is gone; the third goes on as if alone.
#[test]
fn a_failing_repository_does_not_slow_the_others() {
    let fakes = Fakes::start();
    fakes.github.create("octo/hangs");
    let config = fakes
        .config(&["github-poll"], "")
        .replace("[octo/repo]", "[octo/repo, octo/hangs, octo/gone]");
    let number = fakes.github.open_issue(REPO, "octocat", &[]);
    fakes.github.advance(10);
    fakes.github.trouble("octo/hangs", None, Trouble::Hang);
    let gateway = LiveGateway::start(&config, &env(&[]));
    // Those that are up are not listed.
    let sources = || gateway.health()["ingressDetails"]["github-poll"]["sources"].clone();
    wait_until("what is gone, and what works", || {
        let sources = sources();
        sources["octo/gone"]["state"] == "failed" && sources[REPO].is_null()
    });
    for said in 1..=3 {
        fakes.github.comment(REPO, number, "ann", "hello");
        wait_for_events(&gateway, said);
    }
    let sources = sources();
    assert_eq!(sources["octo/hangs"]["state"], "connecting", "{sources}");
    let error = sources["octo/gone"]["error"].as_str().unwrap();
    assert!(error.starts_with("404"), "{error}");
    assert_eq!(gateway.state_of("github-poll"), "failed", "the worst one");
}

/// Scenario: nothing happens in a repository.
#[test]
fn an_unchanged_repository_costs_one_request_a_list_and_each_is_a_304() {
    let fakes = Fakes::start();
    let number = fakes.github.open_issue(REPO, "octocat", &[]);
    fakes.github.comment(REPO, number, "ann", "hello");
    let gateway = gateway(&fakes, &["github-poll"]);
    let rounds = || {
        let asked = fakes.github.asked().into_iter();
        let changes = asked.filter(|one| one.path == "/repos/octo/repo/issues");
        changes
            .filter(|one| one.query.contains("state=all"))
            .count()
    };
    wait_until("a round of 304", || {
        let asked = fakes.github.asked();
        asked.iter().rev().take(3).all(|one| one.status == 304)
    });
    fakes.github.forget_asked();
    wait_until("some rounds", || rounds() >= 4);
    let mut requests: BTreeMap<String, usize> = BTreeMap::new();
    let asked = fakes.github.asked();
    for one in &asked {
        assert_eq!(one.status, 304, "{one:?}");
        assert!(one.is_conditional, "{one:?}");
        let list = format!("{}?{}", one.path, one.query);
        *requests.entry(list).or_default() += 1;
    }
    // The lists are fewer than the rounds have requests, and none is asked more often than another.
    let (fewest, most) = (requests.values().min(), requests.values().max());
    assert!(most.unwrap() - fewest.unwrap() <= 1, "{requests:?}");
    assert!(gateway.stored().is_empty());
}
