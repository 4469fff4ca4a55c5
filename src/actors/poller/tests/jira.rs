//! A Jira project: Cloud and Data Center, with an index that lags.

use serde_json::json;

use super::support::*;
use crate::actors::messages::IngressState;
use crate::config::JiraDeployment;
use crate::devkit::fake_jira::{FakeJira, Trouble};
use crate::domain::{DropReason, WorkItemRef};
use crate::store::Appended;

/// The usual label as Jira can hold it.
const SAFE: &str = "the-loop:auto-execute";

fn data_center() -> Rig {
    let mut rig = Rig::new();
    rig.jira = FakeJira::start_data_center().unwrap();
    rig
}

fn reference(key: &str) -> WorkItemRef {
    WorkItemRef::parse(&format!("jira:{SITE}/{key}")).unwrap()
}

/// Every kind of site, with a fresh rig.
fn sites() -> [(Rig, JiraDeployment); 3] {
    let scoped = JiraDeployment::CloudScoped {
        cloud_id: "1".to_owned(),
    };
    [
        (Rig::new(), JiraDeployment::Cloud),
        (Rig::new(), scoped),
        (data_center(), JiraDeployment::DataCenter),
    ]
}

#[actix::test]
async fn labelled_issues_are_told_their_comments_and_their_closure() {
    for (rig, deployment) in sites() {
        let old = rig.jira.create(PROJECT, "ann", &[SAFE]);
        rig.jira.comment(&old, "ann", "before the baseline");
        let plain = rig.jira.create(PROJECT, "ann", &["bug"]);
        rig.jira.advance(600);
        let poller = rig.poll_jira(deployment);
        rig.until("the presence is told", |rig| rig.kinds().len() == 1)
            .await;
        let comment = rig.jira.comment(&old, "bob", "hello");
        rig.jira.comment(&plain, "bob", "not labelled");
        rig.jira.close(&plain);
        rig.until("the comment is told", |rig| rig.kinds().len() == 2)
            .await;
        rig.jira.close(&old);
        rig.until("the closure is told", |rig| rig.kinds().len() == 3)
            .await;
        rig.jira_rounds(3).await;
        let ids = rig.events();
        assert_eq!(ids.len(), 3, "{ids:?}");
        let item = reference(&old);
        assert!(ids[0].starts_with(&format!("jira:issue_updated jira-presence-{item}-")));
        let expected = format!("comment_created jira-comment-{SITE}-{comment}");
        assert_eq!(ids[1], expected);
        assert_eq!(
            ids[2],
            format!("jira:issue_updated poll-close-{item}-closed")
        );
        let items = rig.texts("SELECT DISTINCT work_item FROM events");
        assert_eq!(items, [item.to_string()]);
        let actors = rig.texts("SELECT actor FROM events ORDER BY id");
        assert_eq!(actors, ["ann", "bob", ""]);
        stop(poller).await;
    }
}

#[actix::test]
async fn a_payload_has_the_shape_of_a_webhook() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    let id = rig.jira.comment(&key, "bob", "hello");
    rig.until("the comment is told", |rig| rig.kinds().len() == 2)
        .await;
    let told = rig.payload(&format!("jira-comment-{SITE}-{id}"));
    assert_eq!(told["webhookEvent"], "comment_created");
    assert_eq!(told["comment"], rig.jira.comment_object(&key, &id));
    assert_eq!(told["issue"], rig.jira.issue_object(&key));
    assert_eq!(told["user"]["accountId"], "bob");
    assert!(told["timestamp"].is_i64());
    stop(poller).await;
}

#[actix::test]
async fn what_a_webhook_and_a_poll_bring_is_stored_once_in_both_orders() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    let comment = |rig: &Rig, id: &str| {
        json!({"webhookEvent": "comment_created", "comment": rig.jira.comment_object(&key, id),
               "issue": rig.jira.issue_object(&key)})
    };
    // The poll first.
    let id = rig.jira.comment(&key, "bob", "one");
    rig.until("the comment is told", |rig| rig.kinds().len() == 2)
        .await;
    let appended = rig.jira_webhook(&comment(&rig, &id)).await;
    assert!(
        matches!(appended, Appended::Duplicate { .. }),
        "{appended:?}"
    );
    // The webhook first.
    rig.jira.trouble("/rest", None, Trouble::Status(500, ""));
    let id = rig.jira.comment(&key, "bob", "two");
    let appended = rig.jira_webhook(&comment(&rig, &id)).await;
    assert!(matches!(appended, Appended::Stored { .. }), "{appended:?}");
    rig.jira.close(&key);
    let issue = rig.jira.issue_object(&key);
    let at = issue["fields"]["resolutiondate"].as_str().unwrap();
    let at = crate::actors::poller::moment::parse(at).unwrap();
    let closure = json!({
        "webhookEvent": "jira:issue_updated", "timestamp": at.0, "issue": issue,
        "changelog": {"id": "7", "items": [
            {"field": "resolution", "fieldId": "resolution", "from": null, "to": "1"},
            {"field": "status", "fieldId": "status", "from": "3", "to": "4"}]},
    });
    let appended = rig.jira_webhook(&closure).await;
    assert!(matches!(appended, Appended::Stored { .. }), "{appended:?}");
    let before = rig.drops(DropReason::Duplicate);
    rig.jira.end_trouble();
    rig.until("the poll is a duplicate", |rig| {
        rig.drops(DropReason::Duplicate) == before + 2
    })
    .await;
    assert_eq!(rig.kinds().len(), 4, "{:?}", rig.events());
    stop(poller).await;
}

#[actix::test]
async fn close_reopen_close_is_two_closures() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    rig.claim_item("alpha", &reference(&key)).await;
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    let closures = |rig: &Rig| {
        let ids = rig.events();
        ids.iter().filter(|id| id.contains("poll-close-")).count()
    };
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    for times in 1..=2 {
        rig.jira.close(&key);
        rig.until("the closure is told", |rig| closures(rig) == times)
            .await;
        rig.jira.reopen(&key);
        rig.jira_rounds(2).await;
    }
    stop(poller).await;
}

#[actix::test]
async fn a_closure_without_a_date_is_told_once() {
    let rig = data_center();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    let poller = rig.poll_jira(JiraDeployment::DataCenter);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.jira.close_undated(&key);
    rig.until("the closure is told", |rig| rig.kinds().len() == 2)
        .await;
    rig.jira.comment(&key, "bob", "after the end");
    rig.until("the comment is told", |rig| rig.kinds().len() == 3)
        .await;
    rig.jira_rounds(3).await;
    assert_eq!(rig.kinds().len(), 3);
    stop(poller).await;
}

#[actix::test]
async fn an_index_that_lags_loses_nothing() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.jira_rounds(2).await;
    rig.jira.lag();
    for _ in 0..3 {
        rig.jira.comment(&key, "bob", "hello");
    }
    rig.jira.advance(120);
    rig.jira_rounds(5).await;
    assert_eq!(rig.kinds().len(), 1);
    rig.jira.catch_up();
    rig.until("all are told", |rig| rig.kinds().len() == 4)
        .await;
    rig.jira_rounds(2).await;
    assert_eq!(rig.kinds().len(), 4);
    stop(poller).await;
}

#[actix::test]
async fn a_restart_repeats_nothing_and_brings_what_happened_meanwhile() {
    for (rig, deployment) in sites() {
        let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
        let mut poller = rig.poll_jira(deployment.clone());
        rig.until("the presence is told", |rig| rig.kinds().len() == 1)
            .await;
        for times in 2..=4 {
            stop(poller).await;
            rig.jira.comment(&key, "bob", "meanwhile");
            poller = rig.poll_jira(deployment.clone());
            rig.until("it is told", |rig| rig.kinds().len() == times)
                .await;
        }
        rig.jira_rounds(3).await;
        assert_eq!(rig.kinds().len(), 4);
        assert_eq!(rig.drops(DropReason::Duplicate), 0);
        stop(poller).await;
    }
}

#[actix::test]
async fn pages_of_issues_and_comments_are_read_to_their_end() {
    for (rig, deployment) in sites() {
        rig.jira.page_size(3);
        let keys: Vec<String> = (0..8)
            .map(|_| rig.jira.create(PROJECT, "ann", &[SAFE]))
            .collect();
        let poller = rig.poll_jira(deployment);
        rig.until("all are present", |rig| rig.kinds().len() == 8)
            .await;
        rig.jira.advance(1);
        rig.jira.lag();
        for key in &keys {
            rig.jira.comment(key, "bob", "hello");
        }
        for _ in 0..7 {
            rig.jira.comment(&keys[0], "bob", "many");
        }
        rig.jira.catch_up();
        rig.until("all comments are told", |rig| rig.kinds().len() == 8 + 15)
            .await;
        stop(poller).await;
    }
}

#[actix::test]
async fn a_label_that_is_taken_off_ends_the_presence() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    rig.claim_item("alpha", &reference(&key)).await;
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.jira.label(&key, &["other"]);
    rig.jira_rounds(2).await;
    let handed = rig.fetch("alpha", &[]).await;
    rig.fetch("alpha", &[(handed[0].seq, "dropped:awaiting-start")])
        .await;
    rig.jira_rounds(3).await;
    assert_eq!(rig.kinds().len(), 1);
    rig.jira.label(&key, &["other", SAFE]);
    rig.until("it is told again", |rig| rig.kinds().len() == 2)
        .await;
    stop(poller).await;
}

#[actix::test]
async fn presence_of_an_issue_is_not_a_flood() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    for round in 0..30 {
        rig.jira.retitle(&key, &format!("summary {round}"));
        rig.jira_rounds(1).await;
    }
    assert_eq!(rig.kinds().len(), 1);
    stop(poller).await;
}

#[actix::test]
async fn an_issue_that_is_deleted_is_forgotten() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.jira.delete(&key);
    rig.alter("UPDATE poll_lists SET watermark_ms = 0 WHERE list = 'sweep'")
        .await;
    rig.until("it is forgotten", |rig| {
        rig.number("SELECT count(*) FROM poll_items WHERE forgotten = 0") == 0
    })
    .await;
    stop(poller).await;
}

#[actix::test]
async fn a_token_that_jira_does_not_know_is_said_even_if_a_search_says_nothing() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    rig.jira.require_authorization("Basic another", true);
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    let failed = |rig: &Rig| {
        let state = rig.jira_state();
        state.is_some_and(|(state, own)| state == IngressState::Failed && own.contains("401"))
    };
    rig.until("it is said", failed).await;
    assert!(rig.kinds().is_empty());
    // Exactly what `Basic` makes of the address and the token.
    rig.jira.require_authorization(
        "Basic Z2F0ZXdheUBleGFtcGxlLmNvbTpnaHBfbmV2ZXItc2hvd24=",
        true,
    );
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.jira.require_authorization("Basic another", true);
    rig.until("it is said again", failed).await;
    rig.jira.comment(&key, "bob", "while nobody could see it");
    rig.jira.require_authorization(
        "Basic Z2F0ZXdheUBleGFtcGxlLmNvbTpnaHBfbmV2ZXItc2hvd24=",
        true,
    );
    rig.until("the comment is told", |rig| rig.kinds().len() == 2)
        .await;
    let states = format!("{:?}", rig.states.lock().unwrap());
    assert!(!states.contains(TOKEN) && !states.contains("gateway@example.com"));
    stop(poller).await;
}

#[actix::test]
async fn data_center_is_asked_with_a_bearer_token() {
    let rig = data_center();
    rig.jira
        .require_authorization(&format!("Bearer {TOKEN}"), false);
    rig.jira.create(PROJECT, "ann", &[SAFE]);
    let poller = rig.poll_jira(JiraDeployment::DataCenter);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    stop(poller).await;
}

#[actix::test]
async fn the_old_search_of_cloud_is_gone_and_that_is_said() {
    let rig = Rig::new();
    let poller = rig.poll_jira(JiraDeployment::DataCenter);
    rig.until("it is said", |rig| {
        let state = rig.jira_state();
        state.is_some_and(|(state, own)| state == IngressState::Failed && own.contains("410"))
    })
    .await;
    stop(poller).await;
}

#[actix::test]
async fn limits_and_failures_are_waited_for_and_nothing_is_lost() {
    for (trouble, error) in [
        (
            Trouble::Headers(429, vec![("retry-after", "1".to_owned())], "slow down"),
            "rate limit",
        ),
        (
            Trouble::Headers(503, vec![("retry-after", "0".to_owned())], "busy"),
            "503",
        ),
        (Trouble::Status(500, ""), "500"),
        (Trouble::Cut, "cut off"),
        (Trouble::Body("{}"), "not what it should be"),
    ] {
        let rig = Rig::new();
        let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
        let poller = rig.poll_jira(JiraDeployment::Cloud);
        rig.until("the presence is told", |rig| rig.kinds().len() == 1)
            .await;
        rig.jira.trouble("/search", Some(2), trouble);
        rig.jira.comment(&key, "bob", "meanwhile");
        rig.until("it is said", |rig| {
            let states = rig.states.lock().unwrap();
            let errors = states.iter().filter_map(|changed| changed.error.as_deref());
            errors.into_iter().any(|own| own.contains(error))
        })
        .await;
        rig.until("the comment is told", |rig| rig.kinds().len() == 2)
            .await;
        rig.until("it is up again", |rig| {
            rig.jira_state()
                .is_some_and(|(state, _)| state == IngressState::Up)
        })
        .await;
        stop(poller).await;
    }
}

#[actix::test]
async fn edited_comments_are_not_told() {
    let rig = Rig::new();
    let key = rig.jira.create(PROJECT, "ann", &[SAFE]);
    let old = rig.jira.comment(&key, "bob", "old");
    rig.jira.advance(600);
    let poller = rig.poll_jira(JiraDeployment::Cloud);
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    let told = rig.jira.comment(&key, "bob", "told");
    rig.until("it is told", |rig| rig.kinds().len() == 2).await;
    rig.jira.edit_comment(&key, &old, "edited");
    rig.jira.edit_comment(&key, &told, "edited");
    rig.jira_rounds(3).await;
    assert_eq!(rig.kinds().len(), 2);
    stop(poller).await;
}
