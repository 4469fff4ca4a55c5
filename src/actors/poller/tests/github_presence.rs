//! Presence of open items that carry the labels: stated once, until somebody answers.

use super::support::*;
use crate::domain::{DropReason, Seq};

#[actix::test]
async fn presence_is_not_a_flood() {
    let rig = Rig::new();
    let numbers: Vec<u64> = (0..5)
        .map(|_| rig.github.open_issue(REPO, "octocat", &[LABEL]))
        .collect();
    let poller = rig.polling().await;
    for (round, number) in numbers.iter().cycle().take(100).enumerate() {
        match round % 4 {
            0 => rig.github.retitle(REPO, *number, &format!("title {round}")),
            1 => {
                rig.github.comment(REPO, *number, "ann", "again");
            }
            2 => rig.github.label(REPO, *number, &format!("label {round}")),
            _ => {}
        }
        rig.rounds(1).await;
        let presences = "SELECT count(*) FROM events WHERE delivery_id LIKE 'poll-presence-%'";
        assert!(rig.number(presences) <= 5, "{round}");
    }
    stop(poller).await;
}

#[actix::test]
async fn presence_comes_again_only_while_the_start_is_awaited() {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    rig.claim("alpha", number).await;
    let poller = rig.polling().await;
    let mut outcomes: Vec<(Seq, &str)> = Vec::new();
    for times in 1..=4 {
        rig.until("the presence is told", |rig| rig.kinds().len() == times)
            .await;
        let handed = rig.fetch("alpha", &outcomes).await;
        assert_eq!(handed.len(), 1);
        rig.rounds(2).await;
        assert_eq!(rig.kinds().len(), times, "in hand is outstanding");
        outcomes = vec![(handed[0].seq, "dropped:awaiting-start")];
        rig.fetch("alpha", &outcomes).await;
        outcomes.clear();
    }
    rig.until("the presence is told", |rig| rig.kinds().len() == 5)
        .await;
    let handed = rig.fetch("alpha", &[]).await;
    rig.fetch("alpha", &[(handed[0].seq, "spawned")]).await;
    rig.rounds(4).await;
    assert_eq!(rig.kinds().len(), 5);
    let ids: std::collections::BTreeSet<String> = rig.events().into_iter().collect();
    assert_eq!(ids.len(), 5, "each has an id of its own");
    stop(poller).await;
}

#[actix::test]
async fn a_started_item_is_presented_again_when_it_is_reopened_or_changed() {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    rig.claim("alpha", number).await;
    let poller = rig.polling().await;
    let settled = async |count: usize| {
        rig.until("it is told", |rig| rig.kinds().len() >= count)
            .await;
        for delivery in rig.fetch("alpha", &[]).await {
            rig.fetch("alpha", &[(delivery.seq, "spawned")]).await;
        }
    };
    settled(1).await;
    rig.github
        .comment(REPO, number, "agent", "what an agent says wakes no agent");
    settled(2).await;
    rig.rounds(2).await;
    assert_eq!(rig.kinds(), ["issues", "issue_comment"]);
    rig.github.retitle(REPO, number, "another title");
    settled(3).await;
    rig.github.unlabel(REPO, number, LABEL);
    rig.rounds(2).await;
    rig.github.label(REPO, number, LABEL);
    settled(4).await;
    rig.github.close(REPO, number, "ann");
    settled(5).await;
    rig.github.reopen(REPO, number);
    settled(6).await;
    rig.rounds(2).await;
    let presences: Vec<String> = rig
        .events()
        .into_iter()
        .filter(|id| id.contains("poll-presence"))
        .collect();
    assert_eq!(presences.len(), 4, "{:?}", rig.events());
    stop(poller).await;
}

#[actix::test]
async fn a_dead_letter_is_not_revived_by_a_poll() {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    rig.claim("alpha", number).await;
    let poller = rig.polling().await;
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    let comment = rig.github.comment(REPO, number, "ann", "poison");
    rig.until("the comment is told", |rig| rig.kinds().len() == 2)
        .await;
    stop(poller).await;
    let dead = "UPDATE deliveries SET state = 3, outcome = ''";
    rig.alter(dead).await;
    // The list is read again from its beginning, as after a restored backup.
    rig.alter("UPDATE poll_lists SET handled = '', etag = '', url = ''")
        .await;
    rig.github.retitle(REPO, number, "changed");
    let poller = rig.poll(REPO);
    rig.until("the comment is seen again", |rig| {
        rig.drops(DropReason::Duplicate) >= 1
    })
    .await;
    rig.rounds(3).await;
    assert_eq!(rig.kinds().len(), 2, "{:?} {comment}", rig.events());
    assert_eq!(rig.number("SELECT count(*) FROM deliveries"), 2);
    stop(poller).await;
}

#[actix::test]
async fn an_item_that_is_gone_without_a_word_is_found_by_the_next_listing() {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[LABEL], &"a".repeat(40));
    let kept = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let poller = rig.polling().await;
    rig.until("all are told", |rig| rig.kinds().len() == 3)
        .await;
    rig.github.advance(10);
    rig.rounds(3).await;
    rig.github.delete(REPO, number);
    rig.github.delete(REPO, pull);
    rig.rounds(3).await;
    let known = "SELECT work_item FROM poll_items WHERE forgotten = 0 ORDER BY work_item";
    assert_eq!(rig.texts(known).len(), 3);
    rig.alter("UPDATE poll_lists SET watermark_ms = 0 WHERE list = 'sweep'")
        .await;
    rig.until("they are forgotten", |rig| {
        rig.texts(known) == [item(kept).to_string()]
    })
    .await;
    stop(poller).await;
}

#[actix::test]
async fn other_labels_in_the_configuration_count_from_the_next_start_on() {
    let mut rig = Rig::new();
    rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let other = rig.github.open_issue(REPO, "octocat", &["ready", "now"]);
    rig.github.open_issue(REPO, "octocat", &["ready"]);
    let poller = rig.polling().await;
    rig.until("one is told", |rig| rig.kinds().len() == 1).await;
    stop(poller).await;
    rig.labels = vec!["Ready".to_owned(), "now".to_owned()];
    let poller = rig.poll(REPO);
    rig.until("the other is told", |rig| rig.kinds().len() == 2)
        .await;
    rig.rounds(3).await;
    let armed = "SELECT work_item FROM poll_items WHERE version <> ''";
    assert_eq!(rig.texts(armed), [item(other).to_string()]);
    stop(poller).await;
}

#[actix::test]
async fn a_presence_is_shaped_as_a_label_that_was_set() {
    let rig = Rig::new();
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &["bug", LABEL], &"a".repeat(40));
    let poller = rig.polling().await;
    rig.until("it is told", |rig| rig.kinds().len() == 1).await;
    let id = rig.texts("SELECT delivery_id FROM events").remove(0);
    let told = rig.payload(&id);
    assert_eq!(told["action"], "labeled");
    assert_eq!(told["label"]["name"], LABEL);
    assert_eq!(
        told["pull_request"],
        rig.github.pull_request_object(REPO, pull)
    );
    assert_eq!(told["sender"]["login"], "octocat");
    assert_eq!(told["repository"]["full_name"], REPO);
    stop(poller).await;
}
