//! Which requests a round makes, and what it tells.

use actix::Addr;

use super::support::*;
use crate::actors::messages::IngressState;
use crate::actors::poller::PollerActor;
use crate::domain::DropReason;

/// The requests of the rounds from now on, without those that repeat an earlier one.
async fn settled(rig: &Rig) {
    rig.github.advance(10);
    rig.until("every list is unchanged", |rig| {
        let asked = rig.github.asked();
        let last = asked.len().saturating_sub(8);
        asked.len() > 8 && asked[last..].iter().all(|asked| asked.status == 304)
    })
    .await;
}

#[actix::test]
async fn the_first_sight_of_a_repository_tells_nothing_but_presence() {
    let rig = Rig::new();
    let armed = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let plain = rig.github.open_issue(REPO, "octocat", &["bug"]);
    let closed = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    rig.github.close(REPO, closed, "octocat");
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[LABEL], &"a".repeat(40));
    for number in [armed, plain, closed, pull] {
        rig.github.comment(REPO, number, "octocat", "old");
    }
    rig.github.review(REPO, pull, "octocat", "APPROVED");
    rig.github.review_comment(REPO, pull, "octocat");
    rig.github.advance(5);
    let poller = rig.polling().await;
    rig.rounds(3).await;
    let kinds = rig.kinds();
    assert_eq!(kinds, ["issues", "pull_request"]);
    let ids = rig.events();
    assert!(ids[0].starts_with(&format!("issues poll-presence-github:{REPO}#{armed}-")));
    assert_eq!(rig.number("SELECT count(*) FROM commits"), 1);
    stop(poller).await;
}

#[actix::test]
async fn an_unchanged_repository_costs_one_request_a_list_and_each_is_a_304() {
    let rig = Rig::new();
    rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let poller = rig.polling().await;
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    rig.github.comment(REPO, number, "octocat", "hello");
    settled(&rig).await;
    rig.github.forget_asked();
    rig.rounds(5).await;
    let asked = rig.github.asked();
    assert!(asked.iter().all(|asked| asked.status == 304), "{asked:#?}");
    let rounds = rig.list_requests(REPO).len();
    let whole = &asked[..(rounds - 1) * 3];
    let paths: std::collections::BTreeSet<_> = whole.iter().map(|own| &own.path).collect();
    assert_eq!(paths.len(), 3);
    let urls: std::collections::BTreeSet<_> = whole.iter().map(|own| &own.query).collect();
    assert_eq!(urls.len(), 3, "the URLs stay as they are");
    stop(poller).await;
}

#[actix::test]
async fn an_unchanged_round_writes_nothing() {
    let rig = Rig::new();
    let poller = rig.polling().await;
    settled(&rig).await;
    let saved = "SELECT max(saved_at_ms) FROM poll_lists";
    let before = rig.number(saved);
    rig.rounds(5).await;
    assert_eq!(rig.number(saved), before);
    stop(poller).await;
}

#[actix::test]
async fn comments_reviews_and_closures_are_told_in_the_order_in_which_they_happened() {
    let rig = Rig::new();
    let issue = rig.github.open_issue(REPO, "octocat", &[]);
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[], &"a".repeat(40));
    let poller = rig.polling().await;
    rig.github.advance(60);
    rig.github.trouble(
        "/repos",
        Some(1),
        crate::devkit::fake_github::Trouble::Status(502, ""),
    );
    let first = rig.github.comment(REPO, issue, "ann", "first");
    let line = rig.github.review_comment(REPO, pull, "bob");
    let review = rig.github.review(REPO, pull, "bob", "APPROVED");
    rig.github.merge(REPO, pull, "cid");
    let last = rig.github.comment(REPO, pull, "dan", "last");
    rig.github.close(REPO, issue, "eve");
    rig.until("everything is told", |rig| rig.kinds().len() >= 7)
        .await;
    rig.rounds(3).await;
    let ids = rig.events();
    let implied = line - 1;
    let expected = [
        format!("issue_comment poll-comment-IC_{first}"),
        format!("pull_request_review poll-comment-PRR_{implied}"),
        format!("pull_request_review_comment poll-comment-PRRC_{line}"),
        format!("pull_request_review poll-comment-PRR_{review}"),
        format!("pull_request poll-close-github:{REPO}#{pull}-merged"),
        format!("issue_comment poll-comment-IC_{last}"),
        format!("issues poll-close-github:{REPO}#{issue}-closed"),
    ];
    let sorted = |ids: &[String]| {
        let mut ids = ids.to_vec();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&ids), sorted(&expected));
    let position = |id: &str| ids.iter().position(|own| own.contains(id)).unwrap();
    assert!(position(&format!("PRR_{review}")) < position("-merged"));
    assert!(position(&format!("IC_{first}")) < position("-closed"));
    stop(poller).await;
}

#[actix::test]
async fn payloads_have_the_shape_of_a_webhook() {
    let rig = Rig::new();
    let issue = rig.github.open_issue(REPO, "octocat", &[]);
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[], &"a".repeat(40));
    let poller = rig.polling().await;
    let comment = rig.github.comment(REPO, issue, "ann", "hi");
    let review = rig.github.review(REPO, pull, "bob", "CHANGES_REQUESTED");
    rig.github.close(REPO, pull, "cid");
    rig.until("all is told", |rig| rig.kinds().len() == 3).await;
    let told = rig.payload(&format!("poll-comment-IC_{comment}"));
    assert_eq!(told["action"], "created");
    assert_eq!(told["comment"], rig.github.object(REPO, comment));
    assert_eq!(told["issue"]["number"], issue);
    assert_eq!(told["sender"]["login"], "ann");
    assert_eq!(told["repository"]["full_name"], REPO);
    assert_eq!(
        told["repository"]["html_url"],
        "https://github.com/octo/repo"
    );
    assert_eq!(told["repository"]["id"], rig.github.repository(REPO)["id"]);
    let told = rig.payload(&format!("poll-comment-PRR_{review}"));
    assert_eq!(told["action"], "submitted");
    assert_eq!(told["review"]["state"], "changes_requested");
    assert_eq!(told["pull_request"]["head"]["sha"], "a".repeat(40));
    let told = rig.payload(&format!("poll-close-github:{REPO}#{pull}-closed"));
    assert_eq!(told["action"], "closed");
    assert_eq!(told["sender"]["login"], "cid");
    assert_eq!(told["pull_request"]["merged"], false);
    let headers = rig.texts("SELECT headers FROM events ORDER BY id LIMIT 1");
    assert!(headers[0].contains("\"x-github-event\":\"issue_comment\""));
    let actors = rig.texts("SELECT actor FROM events ORDER BY id");
    assert_eq!(actors, ["ann", "bob", "cid"]);
    stop(poller).await;
}

#[actix::test]
async fn edits_and_deletions_are_not_told() {
    let rig = Rig::new();
    let issue = rig.github.open_issue(REPO, "octocat", &[]);
    let old = rig
        .github
        .comment(REPO, issue, "ann", "before the baseline");
    rig.github.advance(3600);
    let poller = rig.polling().await;
    let told = rig.github.comment(REPO, issue, "ann", "told");
    rig.until("it is told", |rig| rig.kinds().len() == 1).await;
    rig.github.advance(3600);
    rig.github.edit_comment(REPO, old, "edited");
    rig.github.edit_comment(REPO, told, "edited");
    rig.rounds(4).await;
    rig.github.delete_comment(REPO, told);
    rig.rounds(2).await;
    assert_eq!(rig.kinds().len(), 1);
    assert_eq!(rig.drops(DropReason::Duplicate), 0);
    stop(poller).await;
}

#[actix::test]
async fn a_review_comment_that_was_drafted_long_ago_is_told_when_its_review_is_submitted() {
    let rig = Rig::new();
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[], &"a".repeat(40));
    let (review, line) = rig.github.draft_review(REPO, pull, "bob");
    rig.github.advance(86_400);
    let poller = rig.polling().await;
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    rig.github
        .comment(REPO, number, "ann", "moves the lists on");
    rig.until("that is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.github.advance(3600);
    rig.github.submit_review(REPO, pull, review);
    rig.until("both are told", |rig| rig.kinds().len() == 3)
        .await;
    let ids = rig.events();
    assert!(ids.contains(&format!("pull_request_review poll-comment-PRR_{review}")));
    assert!(ids.contains(&format!(
        "pull_request_review_comment poll-comment-PRRC_{line}"
    )));
    rig.github.advance(3600);
    rig.github.edit_review_comment(REPO, line);
    rig.rounds(4).await;
    assert_eq!(rig.kinds().len(), 3);
    stop(poller).await;
}

#[actix::test]
async fn pages_that_shift_while_they_are_read_lose_nothing() {
    let rig = Rig::new();
    rig.github.page_size(10);
    let issue = rig.github.open_issue(REPO, "octocat", &[]);
    let poller = rig.polling().await;
    stop(poller).await;
    let ids: Vec<u64> = (0..75)
        .map(|_| rig.github.comment(REPO, issue, "ann", "one of many"))
        .collect();
    for (page, id) in ids.iter().copied().take(8).enumerate() {
        // After each page comments before it and behind it move to the end of the list.
        let part = "issues/comments";
        let (deleted, unread) = (ids[20 + page], ids[60 + page]);
        rig.github.then(part, move |github| {
            github.edit_comment(REPO, id, "shifted");
            github.edit_comment(REPO, unread, "shifted before it was read");
            if page % 3 == 2 {
                github.delete_comment(REPO, deleted);
            }
        });
    }
    let poller = rig.poll(REPO);
    rig.until("all are told", |rig| rig.kinds().len() >= 73)
        .await;
    rig.rounds(3).await;
    let told = rig.events();
    for id in &ids {
        let is_told = told.contains(&format!("issue_comment poll-comment-IC_{id}"));
        let is_there = !rig.github.object(REPO, *id).is_null();
        assert!(is_told || !is_there, "{id}");
    }
    stop(poller).await;
}

#[actix::test]
async fn more_in_one_second_than_a_page_holds_is_read_by_the_link() {
    let rig = Rig::new();
    rig.github.page_size(4);
    let issue = rig.github.open_issue(REPO, "octocat", &[]);
    let poller = rig.polling().await;
    stop(poller).await;
    for _ in 0..11 {
        rig.github.comment(REPO, issue, "ann", "at once");
        rig.github.advance(-1);
    }
    let poller = rig.poll(REPO);
    rig.until("all are told", |rig| rig.kinds().len() == 11)
        .await;
    let asked = rig.github.asked();
    assert!(asked.iter().any(|asked| asked.query.contains("page=2")));
    stop(poller).await;
}

async fn restarted(rig: &Rig, poller: Addr<PollerActor>) -> Addr<PollerActor> {
    stop(poller).await;
    rig.poll(REPO)
}

#[actix::test]
async fn a_restart_repeats_nothing_and_misses_nothing() {
    let rig = Rig::new();
    let issue = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[], &"a".repeat(40));
    let mut poller = rig.polling().await;
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    for round in 1..=6_usize {
        rig.github.comment(REPO, issue, "ann", "while it runs");
        poller = restarted(&rig, poller).await;
        rig.github.review(REPO, pull, "bob", "COMMENTED");
        rig.until("all is told", |rig| rig.kinds().len() == 1 + 2 * round)
            .await;
    }
    stop(poller).await;
    rig.github.comment(REPO, issue, "ann", "while it is away");
    rig.github.advance(86_400 * 3);
    rig.github.comment(REPO, issue, "ann", "while it is away");
    let poller = rig.poll(REPO);
    rig.until("all is told", |rig| rig.kinds().len() == 15)
        .await;
    rig.rounds(3).await;
    assert_eq!(rig.kinds().len(), 15);
    stop(poller).await;
}

#[actix::test]
async fn what_is_not_monitored_is_not_told() {
    for (issues, pull_requests, kinds) in [
        (true, false, ["issue_comment", "issues"].as_slice()),
        (
            false,
            true,
            ["issue_comment", "pull_request", "pull_request_review"].as_slice(),
        ),
    ] {
        let mut rig = Rig::new();
        rig.monitor.issues = issues;
        rig.monitor.pull_requests = pull_requests;
        let issue = rig.github.open_issue(REPO, "octocat", &[]);
        let pull = rig
            .github
            .open_pull_request(REPO, "octocat", &[], &"a".repeat(40));
        let poller = rig.polling().await;
        rig.github.comment(REPO, issue, "ann", "issue");
        rig.github.comment(REPO, pull, "ann", "pull request");
        rig.github.review(REPO, pull, "ann", "APPROVED");
        rig.github.close(REPO, issue, "ann");
        rig.github.close(REPO, pull, "ann");
        rig.until("it is told", |rig| rig.kinds().len() >= kinds.len())
            .await;
        rig.rounds(3).await;
        let mut told = rig.kinds();
        told.sort();
        assert_eq!(told, kinds);
        stop(poller).await;
    }
}

#[actix::test]
async fn a_repository_without_issues_is_polled_by_its_pull_requests() {
    let rig = Rig::new();
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[LABEL], &"a".repeat(40));
    rig.github.switch_issues_off(REPO);
    let poller = rig.poll(REPO);
    rig.until("its presence is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.github.review(REPO, pull, "bob", "APPROVED");
    rig.until("the review is told", |rig| rig.kinds().len() == 2)
        .await;
    rig.github.merge(REPO, pull, "bob");
    rig.until("the closure is told", |rig| rig.kinds().len() == 3)
        .await;
    assert_eq!(rig.state().unwrap().0, IngressState::Up);
    stop(poller).await;
}

#[actix::test]
async fn a_renamed_repository_is_followed_and_told_once() {
    let rig = Rig::new();
    let issue = rig.github.open_issue(REPO, "octocat", &[]);
    let poller = rig.polling().await;
    rig.github.rename(REPO, "octo/renamed");
    rig.github.comment(REPO, issue, "ann", "after the move");
    rig.until("the comment is told", |rig| !rig.kinds().is_empty())
        .await;
    let moved = || {
        let records = rig.kept.records.lock().unwrap();
        let mut moved = Vec::new();
        for record in records.iter() {
            if let crate::telemetry::GatewayEvent::RepositoryMoved { from, to } = record {
                moved.push((from.clone(), to.clone()));
            }
        }
        moved
    };
    let news = (REPO.to_owned(), "octo/renamed".to_owned());
    rig.until("the move is told", |_| !moved().is_empty()).await;
    let poller = restarted(&rig, poller).await;
    rig.rounds_of("octo/renamed", 3).await;
    assert_eq!(moved(), [news]);
    // The new name is declared too, so it is what events say from then on.
    rig.github.comment(REPO, issue, "ann", "under its new name");
    rig.until("it is told", |rig| rig.kinds().len() == 2).await;
    let items = rig.texts("SELECT work_item FROM events ORDER BY id");
    assert_eq!(
        items.last().unwrap(),
        &format!("github:octo/renamed#{issue}")
    );
    stop(poller).await;
}

#[actix::test]
async fn a_renamed_repository_keeps_its_declared_name_until_the_new_one_is_declared() {
    let mut rig = Rig::new();
    rig.declared = std::sync::Arc::new(declared(&[REPO]));
    let issue = rig.github.open_issue(REPO, "octocat", &[]);
    let poller = rig.polling().await;
    rig.github.rename(REPO, "acme/renamed");
    rig.rounds_of("acme/renamed", 1).await;
    rig.github.comment("acme/renamed", issue, "ann", "hi");
    rig.until("it is told", |rig| !rig.kinds().is_empty()).await;
    let items = rig.texts("SELECT work_item FROM events ORDER BY id");
    assert_eq!(items, [item(issue).to_string()]);
    stop(poller).await;
}
