//! Jira, Cloud and Data Center: webhooks and polls of the same things, an index that lags, and
//! restarts.

use serde_json::{Value, json};
use the_loop_gateway::devkit::fake_jira::{FakeJira, Trouble};

use super::{events, wait_for_duplicates, wait_for_events};
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, LiveGateway, env};

const LABEL: &str = "the-loop:auto-execute";
const BOTH: [&str; 2] = ["jira-poll", "jira-webhook"];

/// A site and the gateway before it.
struct Site {
    jira: FakeJira,
    is_cloud: bool,
    gateway: LiveGateway,
}

impl Site {
    /// One of each kind. Pages hold two issues or comments, so that each list has several.
    fn each(fakes: &Fakes, on: &[&str]) -> [Self; 2] {
        let cloud = fakes.config(on, "");
        let data_center = cloud
            .replace(
                "projects: [PROJ]",
                "projects: [PROJ]\n  deployment: data-center",
            )
            .replace(&fakes.jira.api_base(), &fakes.data_center.api_base());
        let sites = [
            (&fakes.jira, true, cloud),
            (&fakes.data_center, false, data_center),
        ];
        sites.map(|(jira, is_cloud, config)| {
            jira.page_size(2);
            jira.create("OTHER", "ann", &[LABEL]);
            let gateway = LiveGateway::start(&config, &env(&[]));
            Self {
                jira: jira.clone(),
                is_cloud,
                gateway,
            }
        })
    }

    /// What the webhook tells of a comment: on Data Center twice, once without the issue.
    fn comment_told(&self, key: &str, id: &str) -> Vec<Value> {
        let (comment, issue) = (
            self.jira.comment_object(key, id),
            self.jira.issue_object(key),
        );
        if self.is_cloud {
            let told = json!({
                "webhookEvent": "comment_created", "timestamp": 1, "comment": comment, "issue": issue,
            });
            return vec![told];
        }
        vec![
            json!({"webhookEvent": "comment_created", "timestamp": 1, "comment": comment}),
            json!({
                "webhookEvent": "jira:issue_updated", "timestamp": 1, "comment": comment,
                "issue_event_type_name": "issue_commented", "issue": issue,
                "user": {"name": "bob", "key": "bob", "accountId": "bob"},
            }),
        ]
    }

    fn closure_told(&self, key: &str) -> Value {
        let issue = self.jira.issue_object(key);
        json!({
            "webhookEvent": "jira:issue_updated", "timestamp": 1, "issue": issue,
            "user": {"accountId": "ann", "name": "ann"},
            "changelog": {"id": format!("{}", fastrand::u32(..)), "items": [
                {"field": "resolution", "fieldId": "resolution", "from": null, "to": "1"},
                {"field": "status", "fieldId": "status", "from": "3", "to": "4"}]},
        })
    }

    fn deliver(&self, told: &Value) {
        let id = format!("jira-{}", fastrand::u64(..));
        self.gateway.jira(&id, &told.to_string()).send().assert(202);
    }

    /// A labelled issue whose presence is stored; `count` events are then.
    fn presented(&self, count: usize) -> String {
        let key = self.jira.create("PROJ", "ann", &[LABEL]);
        wait_for_events(&self.gateway, count);
        key
    }
}

/// Scenario: comments and closures, each by webhook and by poll, in both orders, at both kinds of
/// site.
#[test]
fn what_a_webhook_and_a_poll_bring_is_stored_once_in_both_orders() {
    let fakes = Fakes::start();
    for site in Site::each(&fakes, &BOTH) {
        let gateway = &site.gateway;
        gateway.wait_for_exactly(&BOTH);
        let (polled, told) = (site.presented(1), site.presented(2));
        // The poll first.
        let comment = site.jira.comment(&polled, "bob", "one");
        wait_for_events(gateway, 3);
        site.jira.close(&polled);
        wait_for_events(gateway, 4);
        for told in site.comment_told(&polled, &comment) {
            site.deliver(&told);
        }
        site.deliver(&site.closure_told(&polled));
        wait_for_duplicates(gateway, "webhook", 2);
        // The webhook first: the poller reaches nobody meanwhile.
        site.jira.trouble("/rest", None, Trouble::Status(503, ""));
        let comment = site.jira.comment(&told, "bob", "two");
        for told in site.comment_told(&told, &comment) {
            site.deliver(&told);
        }
        wait_for_events(gateway, 5);
        site.jira.close(&told);
        site.deliver(&site.closure_told(&told));
        wait_for_events(gateway, 6);
        site.jira.end_trouble();
        wait_for_duplicates(gateway, "poll", 2);
        let events = events(gateway);
        assert_eq!(events.len(), 6, "{events:?}");
        let items = |key: &str| {
            let item = format!("jira:acme.atlassian.net/{key}");
            events.iter().filter(|event| event.ends_with(&item)).count()
        };
        assert_eq!((items(&polled), items(&told)), (3, 3), "{events:?}");
        let keyless = gateway.records("gateway.dropped");
        let keyless = keyless
            .iter()
            .filter(|record| record["reason"] == "keyless");
        assert_eq!(keyless.count(), if site.is_cloud { 0 } else { 2 });
    }
}

/// Scenario: the search of Cloud does not find what happened yet; later it does.
#[test]
fn an_index_that_lags_behind_loses_nothing() {
    let fakes = Fakes::start();
    for site in Site::each(&fakes, &["jira-poll"]) {
        let gateway = &site.gateway;
        gateway.wait_for_exactly(&["jira-poll"]);
        let key = site.presented(1);
        site.jira.lag();
        for _ in 0..5 {
            site.jira.comment(&key, "bob", "hello");
        }
        let other = site.jira.create("PROJ", "ann", &[LABEL]);
        // Rounds that find nothing must not move the beginning of the next one past it.
        site.jira.forget_asked();
        wait_until("some rounds", || site.jira.asked().len() >= 6);
        assert_eq!(gateway.stored().len(), 1);
        site.jira.catch_up();
        wait_for_events(gateway, 7);
        let of_other = gateway.stored();
        let of_other = of_other.iter().filter(|id| id.contains(&other));
        assert_eq!(of_other.count(), 1);
    }
}

/// Scenario: the gateway is stopped and started over and over while people go on.
#[test]
fn a_restart_repeats_nothing_and_misses_nothing() {
    let fakes = Fakes::start();
    for mut site in Site::each(&fakes, &["jira-poll"]) {
        site.gateway.wait_for_exactly(&["jira-poll"]);
        let key = site.presented(1);
        let mut said = 1;
        for _ in 0..2 {
            site.jira.comment(&key, "bob", "while it ran");
            wait_for_events(&site.gateway, said + 1);
            site.gateway.stop();
            for _ in 0..3 {
                site.jira.comment(&key, "bob", "while it was down");
            }
            site.gateway.run();
            said += 4;
            wait_for_events(&site.gateway, said);
        }
        let before = site.jira.asked().len();
        wait_until("some rounds", || site.jira.asked().len() > before + 4);
        wait_for_events(&site.gateway, said);
    }
}

/// Scenario: each kind of site is asked by its own search, with its own proof of who asks.
#[test]
fn each_site_is_asked_by_its_own_search() {
    let fakes = Fakes::start();
    // A name and a token are a basic credential at Cloud; a token alone is a bearer's.
    let basic = "Basic cm9ib3QtNTVhYTEwQGFjbWUuZXhhbXBsZTpqaXJhLXBvbGwtMGY2ZTIx";
    fakes.jira.require_authorization(basic, false);
    let bearer = "Bearer jira-poll-0f6e21";
    fakes.data_center.require_authorization(bearer, false);
    for site in Site::each(&fakes, &["jira-poll"]) {
        site.gateway.wait_for_exactly(&["jira-poll"]);
        for number in 1..=5 {
            site.presented(number);
        }
        let asked = site.jira.asked();
        let searches: Vec<_> = asked
            .iter()
            .filter(|one| one.path.contains("/search"))
            .collect();
        let (path, next) = if site.is_cloud {
            ("/rest/api/3/search/jql", "nextPageToken=")
        } else {
            ("/rest/api/2/search", "startAt=2")
        };
        assert!(searches.iter().all(|one| one.path == path), "{searches:?}");
        assert!(searches.iter().any(|one| one.query.contains(next)));
    }
}
