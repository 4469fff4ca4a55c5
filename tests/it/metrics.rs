//! What `/metrics` says, and that the page, the alerts and the dashboard speak of nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::gateway::wait_until;
use crate::support::{Consumer, TestGateway, comment_on};

const PREFIX: &str = "the_loop_gateway_";

/// A metric as it is scraped.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

fn scrape(gateway: &TestGateway) -> String {
    let reply = gateway.call("GET", "/metrics").send();
    assert_eq!(reply.status, 200);
    let kind = reply.header("content-type");
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));
    reply.text()
}

/// The value of a series, which is there once.
#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let mut found = text
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = found.next().unwrap_or_else(|| panic!("{series} in {text}"));
    assert_eq!(found.next(), None, "{series} twice");
    value.parse().unwrap()
}

/// The metrics by name, without the parts of histograms.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, rest)) = line.split_once('{') {
            let name = base_of(name, |name| families.contains_key(name));
            let (labels, _) = rest.rsplit_once('}').unwrap();
            let family = families.get_mut(&name).unwrap();
            let labels = labels
                .split(',')
                .map(|label| label.split_once('=').unwrap().0);
            let labels = labels.filter(|label| *label != "le");
            family.labels.extend(labels.map(str::to_owned));
        }
    }
    families
}

/// The metric that a series belongs to.
fn base_of(series: &str, is_known: impl Fn(&str) -> bool) -> String {
    let of_histogram = ["_bucket", "_sum", "_count"]
        .iter()
        .filter_map(|part| series.strip_suffix(part))
        .find(|name| is_known(name));
    of_histogram.unwrap_or(series).to_owned()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// A gateway in which everything has happened that a metric could need to be there.
fn furnished() -> TestGateway {
    let gateway = TestGateway::start();
    gateway.claim("laptop", 15);
    gateway.comment(15);
    gateway
}

/// Asserts the values of some series.
#[track_caller]
fn assert_values(text: &str, expected: &[(&str, f64)]) {
    for (series, expected) in expected {
        let value = value(text, &format!("{PREFIX}{series}"));
        assert!(
            (value - expected).abs() < f64::EPSILON,
            "{series} is {value}"
        );
    }
}

#[test]
fn they_count_what_came() {
    let gateway = furnished();
    let first = gateway.comment(16);
    gateway.comment_again(16, first).send().assert(202);
    let stranger = gateway.call("POST", "/gh-webhook").body("{}");
    stranger.send().assert_error(401, "bad-signature");
    let text = scrape(&gateway);
    let github = "arrivals_total{provider=\"github\",transport=\"webhook\",result";
    assert_values(
        &text,
        &[
            (&format!("{github}=\"stored\"}}"), 2.0),
            (&format!("{github}=\"duplicate\"}}"), 1.0),
            (&format!("{github}=\"bad-signature\"}}"), 1.0),
            (
                "arrivals_total{provider=\"jira\",transport=\"poll\",result=\"stored\"}",
                0.0,
            ),
            (
                "requests_total{provider=\"github\",ended=\"accepted\"}",
                3.0,
            ),
            ("requests_total{provider=\"github\",ended=\"refused\"}", 1.0),
            (
                "secret_matches_total{provider=\"github\",secret=\"current\"}",
                3.0,
            ),
            ("append_seconds_count{transport=\"webhook\"}", 3.0),
            ("polled_first_total{provider=\"github\"}", 0.0),
            ("events", 2.0),
            ("held_events", 1.0),
            ("store_up", 1.0),
            ("store_readable", 1.0),
            ("event_log_up", 1.0),
            ("ingress_up{ingress=\"jira-webhook\"}", 1.0),
            ("ingress_up{ingress=\"jira-poll\"}", 0.0),
            (
                "ingress_state{ingress=\"jira-poll\",state=\"disabled\"}",
                1.0,
            ),
        ],
    );
    for at_least_one in [
        "store_bytes",
        "disk_free_bytes",
        "store_batch_seconds_count",
    ] {
        assert!(
            value(&text, &format!("{PREFIX}{at_least_one}")) >= 1.0,
            "{at_least_one}"
        );
    }
    let drained = format!("{PREFIX}store_batches_total{{ended_by=\"drained\"}}");
    assert!(value(&text, &drained) >= 3.0);
}

#[test]
fn they_count_what_went_and_what_became_of_it() {
    let gateway = TestGateway::with(|config| config.store.strikes_max = 2);
    gateway.clock.stop();
    gateway.claim("laptop", 15);
    gateway.comment(15);
    gateway.comment(15);
    let mut laptop = Consumer::new("laptop");
    laptop.fetch(&gateway, 1, &[]);
    laptop.fetch(&gateway, 0, &[(1, "failed")]);
    gateway.clock.advance(60_000);
    laptop.fetch(&gateway, 1, &[]);
    laptop.fetch(&gateway, 0, &[(1, "failed")]);
    laptop.fetch(&gateway, 1, &[]);
    laptop.fetch(&gateway, 0, &[(2, "released")]);
    gateway.clock.advance(60_000);
    laptop.fetch(&gateway, 1, &[]);
    laptop.fetch(&gateway, 0, &[(2, "dropped:no-target")]);
    assert_values(
        &scrape(&gateway),
        &[
            ("hand_outs_total{attempt=\"first\"}", 3.0),
            ("hand_outs_total{attempt=\"again\"}", 1.0),
            ("outcomes_total{outcome=\"failed\"}", 2.0),
            ("outcomes_total{outcome=\"released\"}", 1.0),
            ("outcomes_total{outcome=\"dropped\"}", 1.0),
            ("outcomes_total{outcome=\"delivered\"}", 0.0),
            ("redeliveries_total{after=\"failed\"}", 1.0),
            ("strikes_total", 2.0),
            ("dead_letters_total{after=\"failed\"}", 1.0),
            ("queue_backlog{instance=\"laptop\"}", 0.0),
            ("queue_dead{instance=\"laptop\"}", 1.0),
        ],
    );
}

#[test]
fn the_oldest_event_of_a_queue_grows_older_and_a_held_poll_is_seen() {
    let gateway = furnished();
    gateway.clock.stop();
    gateway.clock.advance(90_000);
    let oldest = format!("{PREFIX}queue_oldest_age_seconds{{instance=\"laptop\"}}");
    let age = value(&scrape(&gateway), &oldest);
    assert!((90.0..95.0).contains(&age), "{age}");
    gateway.claim("waiting", 99);
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| gateway.fetch("waiting", &json!({"wait": 20})));
        gateway.wait_for_held(1);
        assert_eq!(
            value(&scrape(&gateway), &format!("{PREFIX}held_polls")),
            1.0
        );
        gateway.comment(99);
        assert_eq!(
            poll.join().unwrap()["deliveries"].as_array().unwrap().len(),
            1
        );
    });
}

#[test]
fn the_age_of_an_event_is_known_when_its_payload_tells() {
    let gateway = TestGateway::start();
    let mut body: Value = serde_json::from_str(&comment_on(15, 900, "a")).unwrap();
    let before = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(600);
    body["comment"]["updated_at"] = json!(before.to_string());
    let call = gateway.github("issue_comment", "guid", &body.to_string());
    call.send().assert(202);
    gateway.comment(15);
    let text = scrape(&gateway);
    let bucket = |le| {
        let labels = format!("provider=\"github\",transport=\"webhook\",le=\"{le}\"");
        value(
            &text,
            &format!("{PREFIX}event_age_seconds_bucket{{{labels}}}"),
        )
    };
    assert_eq!(
        (bucket("300"), bucket("900"), bucket("+Inf")),
        (0.0, 1.0, 1.0)
    );
    let records = gateway.wait_for_records("gateway.received", 2);
    let age = records[0]["age_ms"].as_u64().unwrap();
    assert!((600_000..660_000).contains(&age), "{age}");
    assert_eq!(records[1].get("age_ms"), None);
}

#[test]
fn refused_instances_are_counted_by_code() {
    let gateway = furnished();
    gateway.fetch("laptop", &json!({"max": 0}));
    let rival = Consumer::new("laptop").rival();
    let call = rival.fetch_call(&gateway, &json!({}));
    call.send().assert_error(409, "duplicate-instance");
    let series = "refusals_total{code=\"duplicate-instance\"}";
    assert_values(&scrape(&gateway), &[(series, 1.0)]);
}

#[test]
fn they_are_for_our_own_hosts_and_can_be_switched_off() {
    let gateway = TestGateway::start();
    let foreign = gateway
        .call("GET", "/metrics")
        .header("Host", "evil.example");
    foreign.send().assert_error(403, "forbidden-origin");
    let off = TestGateway::with(|config| config.observability.metrics_enabled = false);
    let call = off.call("GET", "/metrics");
    call.send().assert_error(404, "not-found");
}

#[test]
fn samples_of_the_queues_are_taken_and_kept() {
    let gateway = TestGateway::built(
        |_| {},
        |parts| parts.intervals.sample = std::time::Duration::from_millis(10),
    );
    gateway.claim("laptop", 15);
    gateway.comment(15);
    let mut samples = Value::Null;
    wait_until("two samples of a backlog", || {
        samples = gateway.get("/samples").assert(200);
        let backlog = samples["queues"][0]["backlog"].as_array();
        backlog.is_some_and(|backlog| backlog.iter().filter(|one| **one == json!(1)).count() >= 2)
    });
    let queue = &samples["queues"][0];
    assert_eq!(queue["instance"], "laptop");
    let times = samples["times"].as_array().unwrap();
    for column in ["backlog", "oldestAgeSeconds"] {
        assert_eq!(
            queue[column].as_array().unwrap().len(),
            times.len(),
            "{column}"
        );
    }
    wait_until("as many samples as are kept", || {
        let samples = gateway.get("/samples").assert(200);
        samples["times"].as_array().unwrap().len() == 120
    });
}

// The documents.

/// A row of the page: a metric with its kind and its labels.
fn documented(page: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let kinds = ["counter", "gauge", "histogram"];
    cells
        .filter(|cells| kinds.contains(&cells[2]))
        .map(|cells| {
            let name = format!("{PREFIX}{}", cells[1].trim_matches('`'));
            let labels = cells[3].split(", ").filter(|label| *label != "–");
            let labels = labels.map(|label| label.trim_matches('`').to_owned());
            (name, (cells[2].to_owned(), labels.collect()))
        })
        .collect()
}

#[test]
fn the_page_names_every_metric_with_its_kind_and_its_labels_and_no_other() {
    let gateway = furnished();
    let families = families(&scrape(&gateway));
    let real: BTreeMap<_, _> = families
        .iter()
        .map(|(name, family)| (name.clone(), (family.kind.clone(), family.labels.clone())))
        .collect();
    assert!(real.len() > 40, "{}", real.len());
    assert_eq!(documented(&file("docs/METRICS.md")), real);
    for (name, family) in &families {
        assert!(!family.help.is_empty(), "{name} says nothing");
        assert!(name.starts_with(PREFIX), "{name}");
    }
}

/// The metrics of a query, each with the labels that are matched on it.
fn metrics_of(query: &str) -> Vec<(String, Vec<String>)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    query
        .match_indices(PREFIX)
        .map(|(at, _)| {
            let rest = &query[at..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            let matchers = after
                .strip_prefix('{')
                .and_then(|after| after.split_once('}'));
            let matchers = matchers.map_or("", |(matchers, _)| matchers).split(',');
            let labels = matchers
                .filter(|matcher| !matcher.is_empty())
                .map(|matcher| {
                    let end = matcher.find(|c| !is_name(c)).unwrap();
                    matcher[..end].to_owned()
                });
            (name.to_owned(), labels.collect())
        })
        .collect()
}

/// The labels that a query keeps: those of `by (…)`, if there are any.
fn grouped(query: &str) -> Vec<String> {
    let groups = query.split("by (").skip(1);
    let inside = groups.map(|group| group.split_once(')').unwrap().0);
    let labels = inside.flat_map(|labels| labels.split(','));
    labels.map(|label| label.trim().to_owned()).collect()
}

/// The labels that a text shows: `{{instance}}` or `{{ $labels.instance }}`.
fn shown(text: &str) -> Vec<String> {
    let places = text.split("{{").skip(1);
    let inside = places.map(|place| place.split_once("}}").unwrap().0.trim());
    inside
        .map(|label| label.trim_start_matches("$labels.").to_owned())
        .collect()
}

/// Asserts that a query asks for what there is, and that texts show what it keeps.
#[track_caller]
fn assert_answerable(families: &BTreeMap<String, Family>, query: &str, texts: &[&str]) {
    let mut there: BTreeSet<String> = BTreeSet::from(["le".to_owned()]);
    let asked = metrics_of(query);
    for (series, matched) in &asked {
        let name = base_of(series, |name| families.contains_key(name));
        let family = families.get(&name);
        let family = family.unwrap_or_else(|| panic!("there is no {series}: {query}"));
        let is_part = name != *series;
        assert_eq!(is_part, family.kind == "histogram", "{series}: {query}");
        for label in matched {
            assert!(
                family.labels.contains(label),
                "{series} has no {label}: {query}"
            );
        }
        there.extend(family.labels.iter().cloned());
    }
    let kept = grouped(query);
    for label in &kept {
        assert!(there.contains(label), "nothing has {label}: {query}");
    }
    let is_summed = query.contains("sum");
    for label in texts.iter().flat_map(|text| shown(text)) {
        let is_kept = if is_summed {
            kept.contains(&label)
        } else {
            there.contains(&label)
        };
        assert!(is_kept, "{label} is not kept: {query}");
    }
}

#[test]
fn every_alert_asks_for_what_there_is_and_is_on_the_page() {
    let gateway = furnished();
    let families = families(&scrape(&gateway));
    let page = file("docs/METRICS.md");
    let rules: Value = serde_yaml::from_str(&file("packaging/alerts.yaml")).unwrap();
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() > 10);
    let mut asked = 0;
    for rule in rules {
        let text = |member: &Value| member.as_str().unwrap().to_owned();
        let (name, query) = (text(&rule["alert"]), text(&rule["expr"]));
        let summary = text(&rule["annotations"]["summary"]);
        let description = text(&rule["annotations"]["description"]);
        assert_answerable(&families, &query, &[&summary, &description]);
        asked += metrics_of(&query).len();
        let severity = text(&rule["labels"]["severity"]);
        let row = format!("| `{name}` | {severity} | {} |", text(&rule["for"]));
        assert!(page.contains(&row), "{row} is not on the page");
    }
    let on_page = page
        .lines()
        .filter(|line| line.starts_with("| `Gateway"))
        .count();
    assert_eq!(on_page, rules.len());
    assert!(
        asked >= rules.len() - 1,
        "all but the first ask for metrics of ours"
    );
}

#[test]
fn every_panel_asks_for_what_there_is() {
    let gateway = furnished();
    let families = families(&scrape(&gateway));
    let dashboard: Value = serde_json::from_str(&file("packaging/grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id twice");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().unwrap();
            let legend = target["legendFormat"].as_str().unwrap();
            assert_answerable(&families, query, &[legend]);
            let names = metrics_of(query).into_iter();
            asked.extend(
                names.map(|(series, _)| base_of(&series, |name| families.contains_key(name))),
            );
        }
    }
    assert!(asked.len() > 25, "{asked:?}");
}

#[test]
fn a_query_for_what_there_is_not_is_noticed() {
    let gateway = furnished();
    let families = families(&scrape(&gateway));
    let is_noticed = |query: &str, text: &str| {
        let check = || assert_answerable(&families, query, &[text]);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err()
    };
    assert!(!is_noticed(
        "the_loop_gateway_queue_backlog > 1",
        "{{instance}}"
    ));
    assert!(is_noticed("the_loop_gateway_queue_backlogs", ""));
    assert!(is_noticed(
        "the_loop_gateway_queue_backlog{queue=\"a\"}",
        ""
    ));
    assert!(is_noticed(
        "sum by (queue) (the_loop_gateway_queue_backlog)",
        ""
    ));
    assert!(is_noticed(
        "sum(the_loop_gateway_queue_backlog)",
        "{{instance}}"
    ));
    assert!(is_noticed("rate(the_loop_gateway_append_seconds[1m])", ""));
}
