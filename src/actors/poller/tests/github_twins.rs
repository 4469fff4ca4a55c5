//! What a webhook and the poller both bring is stored once, whichever comes first.

use serde_json::{Value, json};

use super::support::*;
use crate::domain::DropReason;
use crate::store::Appended;

const SHA: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Something that happened, as a webhook tells it.
struct Twin {
    kind: &'static str,
    body: Value,
}

fn body(rig: &Rig, action: &str, fields: &[(&str, Value)]) -> Value {
    let mut body = json!({
        "action": action, "repository": rig.github.repository(REPO), "sender": {"login": "ann"},
    });
    for (name, value) in fields {
        body[*name] = value.clone();
    }
    body
}

fn issue(rig: &Rig, number: u64) -> (&'static str, Value) {
    ("issue", rig.github.issue_object(REPO, number))
}

fn pull_request(rig: &Rig, number: u64) -> (&'static str, Value) {
    ("pull_request", rig.github.pull_request_object(REPO, number))
}

/// Everything of which there are two copies, one after the other, done by somebody.
fn happen(rig: &Rig, number: u64, pull: u64, what: usize) -> Twin {
    let github = &rig.github;
    let twin = |kind, body| Twin { kind, body };
    match what {
        0 => {
            let comment = (
                "comment",
                github.object(REPO, github.comment(REPO, number, "ann", "")),
            );
            let fields = [issue(rig, number), comment];
            twin("issue_comment", body(rig, "created", &fields))
        }
        1 => {
            let review = github.review(REPO, pull, "ann", "APPROVED");
            let mut review = github.object(REPO, review);
            review["state"] = json!("approved");
            let fields = [pull_request(rig, pull), ("review", review)];
            twin("pull_request_review", body(rig, "submitted", &fields))
        }
        2 => {
            github.close(REPO, number, "ann");
            twin("issues", body(rig, "closed", &[issue(rig, number)]))
        }
        3 => {
            let run = github.check_run(REPO, SHA, "build 🚀", Some("failure"));
            let run = ("check_run", github.object(REPO, run));
            twin("check_run", body(rig, "completed", &[run]))
        }
        4 => {
            let status = github.status(REPO, SHA, "ci/lint", "success");
            let mut body = github.object(REPO, status);
            body["sha"] = json!(SHA);
            body["repository"] = github.repository(REPO);
            twin("status", body)
        }
        _ => {
            github.merge(REPO, pull, "ann");
            twin(
                "pull_request",
                body(rig, "closed", &[pull_request(rig, pull)]),
            )
        }
    }
}

const TWINS: usize = 6;

async fn rig_with_a_claimed_pull_request() -> (Rig, u64, u64) {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    let pull = rig.github.open_pull_request(REPO, "octocat", &[], SHA);
    rig.claim("alpha", pull).await;
    (rig, number, pull)
}

#[actix::test]
async fn after_the_webhook_the_poll_is_a_duplicate() {
    let (rig, number, pull) = rig_with_a_claimed_pull_request().await;
    let poller = rig.polling().await;
    for what in 0..TWINS {
        // The webhook first: the poller is away while it happens.
        rig.github.trouble(
            "/repos",
            None,
            crate::devkit::fake_github::Trouble::Status(500, ""),
        );
        let twin = happen(&rig, number, pull, what);
        let appended = rig.webhook(twin.kind, &twin.body).await;
        assert!(matches!(appended, Appended::Stored { .. }), "{appended:?}");
        rig.github.end_trouble();
        let duplicates = || rig.drops(DropReason::Duplicate);
        rig.until("the poll is a duplicate", |_| duplicates() > what)
            .await;
        rig.rounds(2).await;
        assert_eq!(rig.kinds().len(), what + 1, "{:?}", rig.events());
    }
    stop(poller).await;
}

#[actix::test]
async fn after_the_poll_the_webhook_is_a_duplicate() {
    let (rig, number, pull) = rig_with_a_claimed_pull_request().await;
    let poller = rig.polling().await;
    for what in 0..TWINS {
        let twin = happen(&rig, number, pull, what);
        rig.until("the poll brought it", |rig| rig.kinds().len() == what + 1)
            .await;
        assert_eq!(rig.kinds().last().unwrap(), twin.kind);
        let appended = rig.webhook(twin.kind, &twin.body).await;
        assert!(
            matches!(appended, Appended::Duplicate { .. }),
            "{appended:?}"
        );
    }
    stop(poller).await;
}

#[actix::test]
async fn close_reopen_close_is_two_closures() {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    let pull = rig.github.open_pull_request(REPO, "octocat", &[], SHA);
    let poller = rig.polling().await;
    for closures in [2, 4] {
        rig.github.close(REPO, number, "ann");
        rig.github.close(REPO, pull, "ann");
        rig.until("both are told", |rig| rig.kinds().len() == closures)
            .await;
        rig.github.reopen(REPO, number);
        rig.github.reopen(REPO, pull);
        rig.rounds(2).await;
    }
    assert_eq!(rig.kinds().len(), 4, "a reopening is not told");
    let closure = format!("issues poll-close-github:{REPO}#{number}-closed");
    let told = rig.events().iter().filter(|id| **id == closure).count();
    assert_eq!(told, 2);
    stop(poller).await;
}

#[actix::test]
async fn checks_are_told_of_claimed_pull_requests_only_with_exact_ids() {
    let rig = Rig::new();
    let claimed = rig.github.open_pull_request(REPO, "octocat", &[], SHA);
    let other_sha = "b".repeat(40);
    rig.github
        .open_pull_request(REPO, "octocat", &[], &other_sha);
    let poller = rig.polling().await;
    for sha in [SHA, &other_sha] {
        rig.github.check_run(REPO, sha, "build ✅", None);
        rig.github.check_run(REPO, sha, "test", Some("success"));
        rig.github.status(REPO, sha, "ci/lint", "pending");
        rig.github.status(REPO, sha, "ci/doc", "failure");
    }
    rig.rounds(3).await;
    assert!(rig.kinds().is_empty());
    rig.claim("alpha", claimed).await;
    rig.until("its results are told", |rig| rig.kinds().len() == 2)
        .await;
    rig.github.check_run(REPO, SHA, "build ✅", Some("failure"));
    rig.github.status(REPO, SHA, "ci/lint", "success");
    rig.until("the new results are told", |rig| rig.kinds().len() == 4)
        .await;
    let mut told = rig.events();
    told.sort();
    let reference = item(claimed);
    assert_eq!(
        told,
        [
            format!("check_run poll-ci-{reference}-check-run:build ✅-{SHA}:failure"),
            format!("check_run poll-ci-{reference}-check-run:test-{SHA}:success"),
            format!("status poll-ci-{reference}-status:ci/doc-{SHA}:failure"),
            format!("status poll-ci-{reference}-status:ci/lint-{SHA}:success"),
        ]
    );
    let items = rig.texts("SELECT DISTINCT work_item FROM events");
    assert_eq!(items, [reference.to_string()]);
    stop(poller).await;
}

#[actix::test]
async fn a_new_head_is_learned_and_its_checks_are_read() {
    let rig = Rig::new();
    let pull = rig.github.open_pull_request(REPO, "octocat", &[], SHA);
    rig.claim("alpha", pull).await;
    let poller = rig.polling().await;
    let pushed = "c".repeat(40);
    rig.github.push(REPO, pull, &pushed);
    rig.github
        .check_run(REPO, &pushed, "build", Some("success"));
    rig.until("the check is told", |rig| rig.kinds().len() == 1)
        .await;
    assert_eq!(rig.number("SELECT count(*) FROM commits"), 2);
    // A status of that commit names no pull request: the commit does.
    let status = rig.github.status(REPO, &pushed, "ci", "success");
    let mut body = rig.github.object(REPO, status);
    body["sha"] = json!(pushed);
    body["repository"] = rig.github.repository(REPO);
    rig.webhook("status", &body).await;
    let items = rig.texts("SELECT DISTINCT work_item FROM events");
    assert_eq!(items, [item(pull).to_string()]);
    stop(poller).await;
}

#[actix::test]
async fn unchanged_checks_cost_a_304_and_those_of_unclaimed_ones_nothing() {
    let rig = Rig::new();
    let pull = rig.github.open_pull_request(REPO, "octocat", &[], SHA);
    rig.claim("alpha", pull).await;
    rig.github.check_run(REPO, SHA, "build", Some("success"));
    let poller = rig.polling().await;
    rig.until("the check is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.rounds(2).await;
    rig.github.forget_asked();
    rig.rounds(3).await;
    let of_checks = |rig: &Rig| {
        let mut asked = rig.github.asked();
        asked.retain(|asked| asked.path.contains("/commits/"));
        asked
    };
    let asked = of_checks(&rig);
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|asked| asked.status == 304), "{asked:?}");
    rig.submit(crate::store::ReleaseClaim {
        identity: identity("alpha"),
        subject: item(pull).subject(),
        role: None,
    })
    .await;
    rig.rounds(2).await;
    rig.github.forget_asked();
    rig.rounds(3).await;
    assert!(of_checks(&rig).is_empty());
    let left = "SELECT count(*) FROM poll_lists WHERE list LIKE 'check-runs:%'";
    assert_eq!(rig.number(left), 0);
    stop(poller).await;
}

#[actix::test]
async fn what_the_webhook_missed_the_poll_brings_to_the_claimant() {
    let (rig, number, pull) = rig_with_a_claimed_pull_request().await;
    let poller = rig.polling().await;
    for what in 0..TWINS {
        let twin = happen(&rig, number, pull, what);
        if what % 2 == 0 {
            rig.webhook(twin.kind, &twin.body).await;
        }
    }
    rig.until("all are stored", |rig| rig.kinds().len() == TWINS)
        .await;
    let handed = rig.fetch("alpha", &[]).await;
    let kinds: Vec<&str> = handed.iter().map(|own| own.event.kind.as_str()).collect();
    assert!(kinds.contains(&"pull_request_review") && kinds.contains(&"check_run"));
    rig.rounds(3).await;
    assert_eq!(rig.kinds().len(), TWINS);
    stop(poller).await;
}

#[actix::test]
async fn a_repository_of_an_enterprise_server_is_named_with_its_host() {
    const HOST: &str = "ghe.corp.example:8443";
    let mut rig = Rig::new();
    rig.declared = std::sync::Arc::new(declared(&[&format!("{HOST}/{REPO}")]));
    let number = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let poller = rig.poll_at(HOST, REPO);
    rig.until("its presence is told", |rig| rig.kinds().len() == 1)
        .await;
    let id = rig.github.comment(REPO, number, "ann", "hello");
    rig.until("the comment is told", |rig| rig.kinds().len() == 2)
        .await;
    let items = rig.texts("SELECT DISTINCT work_item FROM events");
    assert_eq!(items, [format!("github:{HOST}/{REPO}#{number}")]);
    let told = rig.payload(&format!("poll-comment-IC_{id}"));
    let url = format!("https://{HOST}/{REPO}");
    assert_eq!(told["repository"]["html_url"], url);
    let mut twin = body(
        &rig,
        "created",
        &[
            issue(&rig, number),
            ("comment", rig.github.object(REPO, id)),
        ],
    );
    twin["repository"]["html_url"] = json!(url);
    let appended = rig.webhook("issue_comment", &twin).await;
    assert!(
        matches!(appended, Appended::Duplicate { .. }),
        "{appended:?}"
    );
    stop(poller).await;
}
