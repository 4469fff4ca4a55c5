//! Real payloads, each with one field removed, null or of another type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use fastrand::Rng;
use serde_json::{Value, json};
use the_loop_gateway::domain::{Arrival, Timestamp};
use the_loop_gateway::providers::slack::SlackVerdict;
use the_loop_gateway::providers::{
    Declared, Dropped, Rejection, RepositoryPattern, Verdict, Verified, github, jira, slack,
};

use crate::corpus::payloads;
use crate::naming::{self, Naming};
use crate::support::TestGateway;
use crate::{number_of, seed};

/// Copies of a payload that the short form tries.
const COPIES_OF_A_PAYLOAD: usize = 12;
/// Copies that the short form posts.
const POSTED: usize = 300;

/// Whose payload one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    GitHub,
    Jira,
    Slack,
}

#[derive(Debug)]
struct Sample {
    from: From,
    file: String,
    whole: Value,
}

/// What a payload became, as far as it decides who gets it.
#[derive(Debug, PartialEq, Eq)]
struct Routing {
    work: String,
    actor: String,
}

/// One step from an object or list to what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(String),
    Item(usize),
}

/// The objects among the shared payloads; none where they are absent.
fn samples() -> Vec<Sample> {
    let folders = [
        (From::GitHub, "github"),
        (From::Jira, "jira"),
        (From::Slack, "slack_http"),
    ];
    let mut samples = Vec::new();
    for (from, folder) in folders {
        for (file, bytes) in payloads(folder) {
            // Forms hold the same JSON as other files.
            if let Ok(whole) = serde_json::from_slice(&bytes) {
                samples.push(Sample { from, file, whole });
            }
        }
    }
    samples
}

/// The repositories that the table of expectations declares.
fn repositories() -> Vec<RepositoryPattern> {
    let table = include_str!("../it/expectations/github.tsv");
    let first = table.lines().next().unwrap();
    let list = first.strip_prefix("# repositories: ").unwrap();
    list.split(' ')
        .map(|text| RepositoryPattern::parse(text).unwrap())
        .collect()
}

impl Sample {
    /// A configuration that declares what this payload is about.
    fn declared(&self, repositories: &[RepositoryPattern]) -> Declared {
        let site = self.whole["issue"]["self"].as_str().unwrap_or_default();
        let site = site.split('/').nth(2).map(str::to_ascii_lowercase);
        let key = self.whole["issue"]["key"].as_str().unwrap_or_default();
        let project = key.split('-').next().unwrap().to_owned();
        Declared {
            repositories: repositories.to_vec(),
            jira_site: site,
            jira_projects: BTreeSet::from([project]),
            rooms: BTreeMap::new(),
        }
    }

    fn headers(&self) -> BTreeMap<String, String> {
        let event = self.file.split('.').next().unwrap();
        let pairs = [
            ("content-type", "application/json"),
            ("x-github-event", event),
            ("x-github-delivery", "guid"),
            ("x-atlassian-webhook-identifier", "id"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        pairs.map(owned).into()
    }

    /// Reads a copy of it.
    fn read(&self, copy: &Value, declared: &Declared) -> Routing {
        let text = copy.to_string();
        let (body, headers) = (Verified::by_connection(text.as_bytes()), self.headers());
        let verdict = match self.from {
            From::GitHub => github::parse(&headers, body, declared, Timestamp(0)),
            From::Jira => jira::parse(&headers, body, declared, Timestamp(0)),
            From::Slack => {
                let verdict = slack::parse(&headers, body, declared, Timestamp(0));
                return match verdict {
                    Ok(SlackVerdict::Append(arrival)) => Routing::of(&arrival, &text),
                    Ok(SlackVerdict::Drop(dropped)) => Routing::dropped(&dropped),
                    Ok(
                        SlackVerdict::Challenge(_)
                        | SlackVerdict::Options
                        | SlackVerdict::SslCheck
                        | SlackVerdict::Heartbeat { .. },
                    ) => Routing::answered(),
                    // A test of the URL that says nothing to be said back.
                    Err(rejection) => {
                        assert_eq!(rejection, Rejection::InvalidPayload);
                        assert_eq!(copy["type"], "url_verification");
                        Routing::answered()
                    }
                };
            }
        };
        match verdict.unwrap() {
            Verdict::Append(arrival) => Routing::of(&arrival, &text),
            Verdict::Drop(dropped) => Routing::dropped(&dropped),
        }
    }

    const fn naming(&self) -> &'static Naming {
        match self.from {
            From::GitHub => &naming::GITHUB,
            From::Jira => &naming::JIRA,
            From::Slack => &naming::SLACK,
        }
    }
}

impl Routing {
    fn of(arrival: &Arrival, text: &str) -> Self {
        assert_eq!(arrival.payload.text().unwrap(), text.as_bytes());
        assert!(!arrival.dedup_keys.is_empty());
        let (keys, also) = (&arrival.keys, &arrival.also);
        Self {
            work: format!("{keys:?} {also:?} {:?}", arrival.on_unresolved),
            actor: format!("{:?}", arrival.actor),
        }
    }

    fn dropped(dropped: &Dropped) -> Self {
        Self {
            work: format!("dropped: {}", dropped.reason),
            actor: String::new(),
        }
    }

    fn answered() -> Self {
        Self {
            work: "answered".to_owned(),
            actor: String::new(),
        }
    }
}

/// Every place below a value.
fn places(value: &Value, here: &mut Vec<Step>, found: &mut Vec<Vec<Step>>) {
    let inner: Vec<(Step, &Value)> = match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (Step::Field(name.clone()), value))
            .collect(),
        Value::Array(items) => (items.iter().enumerate())
            .map(|(index, value)| (Step::Item(index), value))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (step, value) in inner {
        here.push(step);
        found.push(here.clone());
        places(value, here, found);
        here.pop();
    }
}

/// A place as the tables of `naming` write it.
fn shown(place: &[Step]) -> String {
    let steps = place.iter().map(|step| match step {
        Step::Field(name) => name.as_str(),
        Step::Item(_) => "*",
    });
    steps.collect::<Vec<_>>().join(".")
}

/// What a field may hold instead; nothing stands for its removal.
fn substitutes(place: &[Step], value: &Value) -> Vec<Option<Value>> {
    let all = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1.5),
        json!("x"),
        json!([]),
        json!([{}]),
        json!({}),
    ];
    let kind = std::mem::discriminant::<Value>;
    let others = all.into_iter().filter(|other| kind(other) != kind(value));
    let is_field = matches!(place.last(), Some(Step::Field(_)));
    let removed = is_field.then_some(None);
    others.map(Some).chain(removed).collect()
}

/// A copy with something else in one place.
fn damaged(whole: &Value, place: &[Step], instead: Option<Value>) -> Value {
    let mut copy = whole.clone();
    let (last, steps) = place.split_last().unwrap();
    let parent = steps.iter().fold(&mut copy, |value, step| match step {
        Step::Field(name) => &mut value[name.as_str()],
        Step::Item(index) => &mut value[*index],
    });
    match (last, instead) {
        (Step::Field(name), Some(value)) => parent[name.as_str()] = value,
        (Step::Field(name), None) => drop(parent.as_object_mut().unwrap().remove(name)),
        (Step::Item(index), value) => parent[*index] = value.unwrap_or_default(),
    }
    copy
}

/// What each field may hold instead, and where.
fn damages(sample: &Sample) -> Vec<(Vec<Step>, Option<Value>)> {
    let mut found = Vec::new();
    places(&sample.whole, &mut Vec::new(), &mut found);
    let mut all = Vec::new();
    for place in found {
        let value = place.iter().fold(&sample.whole, |value, step| match step {
            Step::Field(name) => &value[name.as_str()],
            Step::Item(index) => &value[*index],
        });
        let here = substitutes(&place, value);
        all.extend(here.into_iter().map(|instead| (place.clone(), instead)));
    }
    all
}

/// Tries copies of a payload; the fields that changed what they must not.
fn try_copies(
    sample: &Sample,
    declared: &Declared,
    copies: &[(Vec<Step>, Option<Value>)],
) -> BTreeSet<String> {
    let whole = sample.read(&sample.whole, declared);
    let naming = sample.naming();
    let mut wrong = BTreeSet::new();
    for (place, instead) in copies {
        let copy = damaged(&sample.whole, place, instead.clone());
        let routing = sample.read(&copy, declared);
        let path = shown(place);
        let is_work = naming.work.contains(&path.as_str());
        let is_actor = naming.actor.contains(&path.as_str());
        if routing.work != whole.work && !is_work {
            wrong.insert(format!("{:?} work {path}", sample.from));
        }
        if routing.actor != whole.actor && !is_actor && !is_work {
            wrong.insert(format!("{:?} actor {path}", sample.from));
        }
    }
    wrong
}

/// Tries so many copies of each payload, or all; how many that were.
fn try_all(copies_of_a_payload: Option<usize>) -> usize {
    let (samples, repositories) = (samples(), repositories());
    let wrong = Mutex::new(BTreeSet::new());
    let tried = Mutex::new(0);
    std::thread::scope(|scope| {
        for (number, part) in samples.chunks(samples.len().div_ceil(2).max(1)).enumerate() {
            let (wrong, tried, repositories) = (&wrong, &tried, &repositories);
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed() ^ number as u64);
                for sample in part {
                    let mut copies = damages(sample);
                    if let Some(count) = copies_of_a_payload {
                        rng.shuffle(&mut copies);
                        copies.truncate(count);
                    }
                    let found = try_copies(sample, &sample.declared(repositories), &copies);
                    wrong.lock().unwrap().extend(found);
                    *tried.lock().unwrap() += copies.len();
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "fields that change what they do not name: {wrong:#?}"
    );
    tried.into_inner().unwrap()
}

#[test]
fn a_damaged_field_changes_the_routing_only_where_it_names_the_work_item() {
    let tried = try_all(Some(COPIES_OF_A_PAYLOAD));
    eprintln!("{tried} copies");
}

#[test]
#[ignore = "the long form: every field of every payload"]
fn no_damaged_field_of_any_payload_changes_the_routing_where_it_does_not_name_the_work_item() {
    eprintln!("{} copies", try_all(None));
}

#[test]
fn no_damaged_payload_is_answered_with_a_server_error() {
    let gateway = TestGateway::with(|config| config.declared.repositories = repositories());
    let samples = samples();
    let mut rng = Rng::with_seed(seed());
    let count = usize::try_from(number_of("FUZZ_POSTED", POSTED as u64)).unwrap();
    for number in 0..count.min(samples.len() * count) {
        let sample = &samples[rng.usize(0..samples.len())];
        let mut copies = damages(sample);
        if copies.is_empty() {
            continue;
        }
        let (place, instead) = copies.swap_remove(rng.usize(0..copies.len()));
        let body = damaged(&sample.whole, &place, instead).to_string();
        let id = format!("guid-{number}");
        let event = sample.file.split('.').next().unwrap();
        let call = match sample.from {
            From::GitHub => gateway.github(event, &id, &body),
            From::Jira => gateway.jira(&id, &body),
            From::Slack => gateway.slack("events", "application/json", &body),
        };
        let status = call.send().status;
        assert!(status < 300, "{} {}: {status}", sample.file, shown(&place));
    }
}
