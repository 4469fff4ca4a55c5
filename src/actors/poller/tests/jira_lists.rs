//! Lists of changed issues that are longer than a page, than a round, and that shift.

use super::support::*;
use crate::actors::poller::PollerActor;
use crate::config::JiraDeployment;
use crate::devkit::fake_jira::FakeJira;

/// The usual label as Jira can hold it.
const SAFE: &str = "the-loop:auto-execute";
const SEARCH: &str = "/search";

/// A rig with some labelled issues that were presented, and the poller away again.
async fn rig_with(deployment: &JiraDeployment, issues: usize) -> (Rig, Vec<String>) {
    let mut rig = Rig::new();
    if *deployment == JiraDeployment::DataCenter {
        rig.jira = FakeJira::start_data_center().unwrap();
    }
    let keys = (0..issues).map(|_| rig.jira.create(PROJECT, "ann", &[SAFE]));
    let keys = keys.collect();
    let poller = rig.poll_jira(deployment.clone());
    rig.until("all are present", |rig| rig.kinds().len() == issues)
        .await;
    rig.jira_rounds(1).await;
    stop(poller).await;
    (rig, keys)
}

/// Polls until so many comments are told; each is told once.
async fn read_all(rig: &Rig, deployment: JiraDeployment, comments: &[String]) {
    let poller: actix::Addr<PollerActor> = rig.poll_jira(deployment);
    let told = |rig: &Rig| {
        let ids = rig.events().into_iter();
        ids.filter(|id| id.contains("jira-comment-")).count()
    };
    rig.until("the comments are told", |rig| told(rig) >= comments.len())
        .await;
    rig.jira_rounds(2).await;
    assert_eq!(told(rig), comments.len());
    let ids = rig.events();
    for comment in comments {
        let expected = format!("comment_created jira-comment-{SITE}-{comment}");
        assert!(ids.contains(&expected), "{comment}: {ids:?}");
    }
    stop(poller).await;
}

const SITES: [JiraDeployment; 2] = [JiraDeployment::Cloud, JiraDeployment::DataCenter];

#[actix::test]
async fn more_changes_than_a_round_reads_are_read_to_their_end() {
    for deployment in SITES {
        let (rig, keys) = rig_with(&deployment, 50).await;
        rig.jira.page_size(2);
        let commented = keys.iter().map(|key| {
            rig.jira.advance(200);
            rig.jira.comment(key, "bob", "while nobody polled")
        });
        let comments: Vec<String> = commented.collect();
        read_all(&rig, deployment, &comments).await;
    }
}

#[actix::test]
async fn more_changes_in_a_moment_than_a_round_reads_are_read_to_their_end() {
    for deployment in SITES {
        let (rig, keys) = rig_with(&deployment, 50).await;
        rig.jira.advance(3_600);
        rig.jira.page_size(1);
        let commented = keys
            .iter()
            .map(|key| rig.jira.comment(key, "bob", "at once"));
        let comments: Vec<String> = commented.collect();
        rig.jira.advance(3_600);
        read_all(&rig, deployment, &comments).await;
    }
}

#[actix::test]
async fn issues_that_change_while_their_list_is_read_hide_no_others() {
    for deployment in SITES {
        let (rig, keys) = rig_with(&deployment, 24).await;
        rig.jira.page_size(3);
        let commented = keys.iter().map(|key| {
            rig.jira.advance(1_800);
            rig.jira.comment(key, "bob", "while nobody polled")
        });
        let comments: Vec<String> = commented.collect();
        // After each page an issue before it moves to the end of the list.
        for key in keys.iter().take(6) {
            let key = key.clone();
            let change = move |jira: &FakeJira| jira.retitle(&key, "another title");
            rig.jira.then(SEARCH, change);
        }
        read_all(&rig, deployment, &comments).await;
    }
}

#[actix::test]
async fn an_issue_that_changes_twice_while_a_long_list_is_read_keeps_its_old_comments() {
    for deployment in SITES {
        let (rig, keys) = rig_with(&deployment, 50).await;
        rig.jira.page_size(2);
        let fresh = rig.jira.create(PROJECT, "ann", &["bug"]);
        let mut comments = vec![rig.jira.comment(&fresh, "bob", "the first of all")];
        for key in &keys {
            rig.jira.advance(600);
            comments.push(rig.jira.comment(key, "bob", "while nobody polled"));
        }
        // It is found at the very end, hours behind its comment.
        rig.jira.label(&fresh, &[SAFE]);
        read_all(&rig, deployment, &comments).await;
    }
}

#[actix::test]
async fn what_does_not_carry_the_labels_costs_no_request_of_its_own() {
    let (rig, keys) = rig_with(&JiraDeployment::Cloud, 1).await;
    for _ in 0..150 {
        rig.jira.create(PROJECT, "ann", &["bug"]);
    }
    let comment = rig.jira.comment(&keys[0], "bob", "hello");
    rig.jira.forget_asked();
    read_all(&rig, JiraDeployment::Cloud, &[comment]).await;
    let asked = rig.jira.asked();
    let of_issues = asked.iter().filter(|one| one.path.contains("/issue/"));
    assert_eq!(of_issues.count(), 1, "{asked:#?}");
}
