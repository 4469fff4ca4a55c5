//! Each transport alone, the transports of each provider side by side, and all at once: what is
//! enabled brings its events, and nothing else is there.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use the_loop_gateway::devkit::slack::{Envelope, Post};

use crate::support::comment_on;
use crate::support::gateway::wait_until;
use crate::support::live::{ALL, Fakes, LiveGateway, env, secret};

const REPO: &str = "octo/repo";
const CHANNEL: &str = "C0ROOM";
const LABEL: &str = "the-loop:auto-execute";

/// A gateway with some transports, and what there is for all of them to bring.
struct World {
    fakes: Fakes,
    gateway: LiveGateway,
    issue: u64,
}

impl World {
    fn with(on: &[&str]) -> Self {
        let fakes = Fakes::start();
        let issue = fakes.github.open_issue(REPO, "somebody", &[]);
        // What happens in the second of the first look counts as news.
        fakes.github.advance(10);
        let room = format!("  rooms: [{{channel: {CHANNEL}, ref: 'github:{REPO}#7'}}]");
        let gateway = LiveGateway::start(&fakes.config(on, &room), &env(&[]));
        gateway.wait_for_exactly(on);
        let actors = json!({
            "instance": "laptop", "peer": "p",
            "actors": {"github": ["octocat"], "slack": ["U0FAKE"], "jira": ["ann"]},
        });
        gateway.api("PUT", "/actors", &actors).assert(200);
        Self {
            fakes,
            gateway,
            issue,
        }
    }

    /// Something happens on every side, whether a transport is there to bring it or not. What is
    /// posted to a route that is off is answered 404.
    fn happen(&self, on: &[&str]) {
        let Self {
            fakes,
            gateway,
            issue,
        } = self;
        let accepted =
            |transport: &str, status: u16| if on.contains(&transport) { status } else { 404 };
        fakes.github.comment(REPO, *issue, "octocat", "polled");
        fakes.jira.create("PROJ", "ann", &[LABEL]);
        let ts = fakes.slack.post(Post::top(CHANNEL, "said"));
        let message = json!({"type": "message", "user": "U0FAKE", "text": "said", "ts": ts});
        let is_pushed = fakes.slack.push(&Envelope::message(CHANNEL, &message));
        assert_eq!(is_pushed, on.contains(&"slack-socket"));
        let key = secret("THE_LOOP_GH_WEBHOOK_SECRET");
        let hook = gateway
            .github(key, "guid-1", &comment_on(99, 990_001, "hello"))
            .send();
        assert_eq!(hook.status, accepted("github-webhook", 202));
        let told = json!({
            "webhookEvent": "comment_created", "timestamp": 1,
            "comment": {"id": "990002", "author": {"accountId": "ann"}, "body": "hello"},
            "issue": {"id": "1", "key": "PROJ-99",
                      "self": "https://acme.atlassian.net/rest/api/2/issue/1"},
        });
        let hook = gateway.jira("jira-1", &told.to_string()).send();
        assert_eq!(hook.status, accepted("jira-webhook", 202));
        let posted = json!({"type": "message", "user": "U0FAKE", "text": "posted",
                            "ts": "1700000000.990003"});
        let posted = Envelope::message(CHANNEL, &posted).payload;
        assert_eq!(
            gateway.slack(&posted).send().status,
            accepted("slack-http", 200)
        );
    }

    /// The transports whose events an instance is handed.
    fn handed(&self, count: usize) -> BTreeSet<String> {
        wait_until(&format!("{count} events"), || {
            self.gateway.stored().len() >= count
        });
        let fetch = json!({"instance": "laptop", "peer": "p", "cursor": 0});
        let fetched = self.gateway.api("POST", "/fetch", &fetch).assert(200);
        let deliveries = fetched["deliveries"].as_array().unwrap();
        assert_eq!(deliveries.len(), count, "{fetched:#}");
        let name = |delivery: &Value| {
            let event = &delivery["event"];
            let (provider, source) = (&event["provider"], &event["source"]);
            match (provider.as_str().unwrap(), source.as_str().unwrap()) {
                ("slack", "webhook") => "slack-http".to_owned(),
                (provider, source) => format!("{provider}-{source}"),
            }
        };
        deliveries.iter().map(name).collect()
    }

    /// Nobody was asked on behalf of a transport that is off.
    fn assert_quiet(&self, on: &[&str]) {
        let Self { fakes, .. } = self;
        let is_off = |transport: &str| !on.contains(&transport);
        if is_off("github-poll") {
            assert!(fakes.github.asked().is_empty());
        }
        if is_off("jira-poll") {
            assert!(fakes.jira.asked().is_empty());
        }
        let seen = fakes.assert_never_two();
        assert_eq!(seen.opened == 0, is_off("slack-socket"));
        if is_off("slack-socket") {
            assert!(seen.calls.is_empty(), "{:?}", seen.calls);
        }
    }
}

#[track_caller]
fn bring(on: &[&str]) {
    let world = World::with(on);
    world.happen(on);
    let expected: BTreeSet<String> = on.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(world.handed(on.len()), expected);
    world.assert_quiet(on);
}

#[test]
fn each_transport_works_alone() {
    for transport in ALL {
        bring(&[transport]);
    }
}

#[test]
fn the_transports_of_a_provider_work_side_by_side() {
    for pair in [
        ["github-poll", "github-webhook"],
        ["jira-poll", "jira-webhook"],
        ["slack-http", "slack-socket"],
    ] {
        bring(&pair);
    }
}

#[test]
fn what_needs_a_public_name_works_without_the_rest_and_the_rest_without_it() {
    bring(&["github-webhook", "jira-webhook", "slack-http"]);
    bring(&["github-poll", "jira-poll", "slack-socket"]);
}

#[test]
fn one_transport_of_each_provider_in_any_mixture() {
    for github in ["github-poll", "github-webhook"] {
        for jira in ["jira-poll", "jira-webhook"] {
            for slack in ["slack-http", "slack-socket"] {
                bring(&[github, jira, slack]);
            }
        }
    }
}

#[test]
fn all_of_them_work_together_and_nothing_is_there_without_them() {
    bring(&ALL);
    bring(&[]);
}
