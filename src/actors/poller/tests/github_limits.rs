//! What can go wrong with a request: what the poller says of it, and that nothing is lost by it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::support::*;
use crate::actors::messages::IngressState;
use crate::config::Environment;
use crate::devkit::fake_github::Trouble;

/// The list of comments, which fails in most of these tests.
const COMMENTS: &str = "issues/comments";

/// Meets trouble, says so, and when it is over brings what happened meanwhile.
async fn survives(trouble: Trouble, state: IngressState, error: &str) {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    let poller = rig.polling().await;
    rig.github.trouble(COMMENTS, Some(2), trouble.clone());
    rig.github.comment(REPO, number, "ann", "hello");
    let name = format!("github-poll:{REPO}");
    rig.until("it is said", |rig| {
        let states = rig.states.lock().unwrap();
        states.iter().any(|own| {
            own.name == name
                && own.state == state
                && own.error.as_deref().is_some_and(|own| own.contains(error))
        })
    })
    .await;
    rig.until("the comment is told", |rig| rig.kinds().len() == 1)
        .await;
    let up = |rig: &Rig| {
        rig.state()
            .is_some_and(|(state, _)| state == IngressState::Up)
    };
    rig.until("it is up again", up).await;
    let states = format!("{:?}", rig.states.lock().unwrap());
    assert!(!states.contains(TOKEN), "{trouble:?}");
    stop(poller).await;
}

#[actix::test]
async fn a_server_that_fails_is_asked_again() {
    for status in [500, 502, 503] {
        let error = format!("the server answered {status}");
        survives(
            Trouble::Status(status, "oops"),
            IngressState::BackingOff,
            &error,
        )
        .await;
    }
}

#[actix::test]
async fn an_answer_that_does_not_come_is_asked_for_again() {
    survives(Trouble::Hang, IngressState::BackingOff, "no answer in time").await;
}

#[actix::test]
async fn an_answer_that_comes_late_is_taken() {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    let poller = rig.polling().await;
    let slow = Trouble::Slow(Duration::from_millis(50));
    rig.github.trouble(COMMENTS, Some(3), slow);
    rig.github.comment(REPO, number, "ann", "hello");
    rig.until("the comment is told", |rig| rig.kinds().len() == 1)
        .await;
    assert_eq!(rig.states(), [IngressState::Connecting, IngressState::Up]);
    stop(poller).await;
}

#[actix::test]
async fn an_answer_that_is_cut_off_is_asked_for_again() {
    for (trouble, error) in [
        (Trouble::Cut, "cut off"),
        (Trouble::CutChunked, "not what it should be"),
        (Trouble::Body("[{\"id\": 1"), "not what it should be"),
        (Trouble::Body("{}"), "not what it should be"),
    ] {
        survives(trouble, IngressState::BackingOff, error).await;
    }
}

#[actix::test]
async fn what_is_refused_for_want_of_permission_stops_nothing_else() {
    for (trouble, error) in [
        (
            Trouble::Status(403, "Resource not accessible by personal access token"),
            "403: Resource not accessible",
        ),
        (Trouble::Status(404, "Not Found"), "404"),
        (Trouble::Status(410, "gone"), "410"),
        (Trouble::Status(422, "no"), "422: no"),
        (
            Trouble::Redirect(301, "ftp://evil.example/x".to_owned()),
            "another server",
        ),
        (Trouble::Redirect(302, "?page=1".to_owned()), "redirects"),
    ] {
        let rig = Rig::new();
        let number = rig.github.open_issue(REPO, "octocat", &[]);
        let poller = rig.polling().await;
        rig.github.trouble("pulls/comments", None, trouble);
        rig.github.comment(REPO, number, "ann", "hello");
        rig.until("the comment is told", |rig| rig.kinds().len() == 1)
            .await;
        let failed = |rig: &Rig| {
            let state = rig.state();
            state.is_some_and(|(state, own)| state == IngressState::Failed && own.contains(error))
        };
        rig.until("it is said", failed).await;
        rig.rounds(3).await;
        rig.github.end_trouble();
        rig.until("it is up again", |rig| {
            rig.state()
                .is_some_and(|(state, _)| state == IngressState::Up)
        })
        .await;
        stop(poller).await;
    }
}

#[actix::test]
async fn a_refused_list_is_asked_less_and_less() {
    let rig = Rig::new();
    let poller = rig.polling().await;
    rig.github
        .trouble("pulls/comments", None, Trouble::Status(403, "no"));
    rig.github.forget_asked();
    rig.rounds(20).await;
    let asked = rig.github.asked();
    let refused = asked
        .iter()
        .filter(|asked| asked.path.ends_with("pulls/comments"));
    let refused = refused.count();
    assert!((3..=7).contains(&refused), "{refused}");
    stop(poller).await;
}

#[actix::test]
async fn a_refused_token_is_said_and_tried_again() {
    let rig = Rig::new();
    rig.github.require_token("another");
    let poller = rig.poll(REPO);
    let failed = |rig: &Rig| {
        let state = rig.state();
        state.is_some_and(|(state, own)| state == IngressState::Failed && own.contains("401"))
    };
    rig.until("it is said", failed).await;
    rig.github.require_token(TOKEN);
    rig.rounds(1).await;
    assert_eq!(rig.state().unwrap().0, IngressState::Up);
    stop(poller).await;
}

#[actix::test]
async fn a_token_that_is_not_set_is_said_with_the_name_of_its_variable() {
    let mut rig = Rig::new();
    rig.environment = Environment::given([("GITHUB_TOKEN", " ")]);
    let poller = rig.poll(REPO);
    rig.until("it is said", |rig| {
        rig.states().contains(&IngressState::MissingSecret)
    })
    .await;
    let states = rig.states.lock().unwrap().clone();
    assert_eq!(
        states.last().unwrap().variable.as_deref(),
        Some("GITHUB_TOKEN")
    );
    assert!(rig.github.asked().is_empty(), "nothing is asked without it");
    stop(poller).await;
}

#[actix::test]
async fn a_repository_that_does_not_exist_is_said() {
    let rig = Rig::new();
    let poller = rig.poll("octo/missing");
    rig.until("it is said", |rig| {
        let state = rig.state_of("github-poll:octo/missing");
        state.is_some_and(|(state, own)| state == IngressState::Failed && own.contains("404"))
    })
    .await;
    stop(poller).await;
}

#[actix::test]
async fn a_primary_limit_stops_every_request_of_its_token_until_it_is_over() {
    let rig = Rig::new();
    rig.github.create("octo/other");
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    let (one, other) = (rig.polling().await, rig.poll("octo/other"));
    rig.rounds_of("octo/other", 1).await;
    // What is left is spent by either of them.
    rig.github.limit(6, 1);
    let limited = |name: &str| {
        let state = rig.state_of(&format!("github-poll:{name}"));
        state.is_some_and(|(state, own)| {
            state == IngressState::BackingOff && own.contains("primary rate limit")
        })
    };
    rig.until("both say so", |_| limited(REPO) && limited("octo/other"))
        .await;
    rig.github.forget_asked();
    rig.github.comment(REPO, number, "ann", "meanwhile");
    rig.github.limit(u64::MAX, 3600);
    rig.until("it goes on", |rig| rig.kinds().len() == 1).await;
    let asked = rig.github.asked();
    assert!(asked.iter().all(|asked| asked.status != 403), "{asked:?}");
    for poller in [one, other] {
        stop(poller).await;
    }
}

#[actix::test]
async fn a_secondary_limit_is_waited_for_as_long_as_it_says() {
    for status in [403, 429] {
        let headers = vec![("retry-after", "1".to_owned())];
        let trouble = Trouble::Headers(status, headers, "secondary rate limit");
        let rig = Rig::new();
        let number = rig.github.open_issue(REPO, "octocat", &[]);
        let poller = rig.polling().await;
        rig.github.trouble(COMMENTS, Some(1), trouble);
        rig.until("it is said", |rig| {
            rig.state()
                .is_some_and(|(_, own)| own.contains("secondary rate limit"))
        })
        .await;
        rig.github.comment(REPO, number, "ann", "meanwhile");
        rig.github.forget_asked();
        rig.until("it goes on", |rig| rig.kinds().len() == 1).await;
        stop(poller).await;
    }
}

#[actix::test]
async fn a_failing_repository_does_not_slow_the_others() {
    let rig = Rig::new();
    rig.github.create("octo/broken");
    let broken = rig.poll("octo/broken");
    rig.rounds_of("octo/broken", 1).await;
    let poller = rig.polling().await;
    let number = rig.github.open_issue(REPO, "octocat", &[]);
    rig.github.trouble("octo/broken", None, Trouble::Hang);
    for times in 1..=10 {
        rig.github.comment(REPO, number, "ann", "hello");
        rig.until("it is told", |rig| rig.kinds().len() == times)
            .await;
    }
    let states = rig.states.lock().unwrap().clone();
    let name = format!("github-poll:{REPO}");
    let own = states.iter().filter(|changed| changed.name == name);
    let own: Vec<IngressState> = own.map(|changed| changed.state).collect();
    assert_eq!(own, [IngressState::Connecting, IngressState::Up]);
    for poller in [broken, poller] {
        stop(poller).await;
    }
}

#[actix::test]
async fn a_store_that_fails_leaves_the_ledger_where_it_was() {
    let rig = Rig::new();
    let number = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let pull = rig
        .github
        .open_pull_request(REPO, "octocat", &[], &"a".repeat(40));
    let poller = rig.polling().await;
    rig.until("the presence is told", |rig| rig.kinds().len() == 1)
        .await;
    rig.rounds(3).await;
    let ledger = |rig: &Rig| {
        let mut all = rig.texts("SELECT list || watermark_ms || handled FROM poll_lists");
        all.extend(rig.texts("SELECT work_item || handled || pending FROM poll_items"));
        all
    };
    let before = ledger(&rig);
    rig.kept.refuses.store(true, Ordering::SeqCst);
    rig.github.comment(REPO, number, "ann", "hello");
    rig.github.review(REPO, pull, "ann", "APPROVED");
    rig.github.close(REPO, number, "ann");
    rig.until("it is said", |rig| {
        rig.state().is_some_and(|(state, own)| {
            state == IngressState::BackingOff && own.contains("not stored")
        })
    })
    .await;
    rig.rounds(3).await;
    assert_eq!(ledger(&rig), before);
    rig.kept.refuses.store(false, Ordering::SeqCst);
    rig.until("all is told", |rig| rig.kinds().len() == 4).await;
    rig.rounds(3).await;
    assert_eq!(rig.kinds().len(), 4);
    stop(poller).await;
}

#[actix::test]
async fn nothing_that_is_shown_or_stored_holds_the_token() {
    let rig = Rig::new();
    rig.github.require_token(TOKEN);
    let number = rig.github.open_issue(REPO, "octocat", &[LABEL]);
    let poller = rig.polling().await;
    rig.github.comment(REPO, number, "ann", "hello");
    rig.until("it is told", |rig| rig.kinds().len() == 2).await;
    let texts = format!(
        "{:?} {:?}",
        rig.states,
        rig.texts("SELECT url FROM poll_lists")
    );
    assert!(!texts.contains(TOKEN));
    stop(poller).await;
}
