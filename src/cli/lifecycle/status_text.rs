//! `status` for people.

use super::status::{Details, Ingress, Live, Shown};
use crate::cli::instances::left;
use crate::cli::output::Output;
use crate::cli::shown::{NONE, Times, count, plain};
use crate::cli::size::size;
use crate::cli::table::{Column, TableRow, render};

const TITLE_WIDTH: usize = 12;
/// Instances that are named; of the others the number is told.
const NAMED_MAX: usize = 20;

/// All that is known, in lines.
pub(super) fn lines(shown: &Shown, times: Times, output: Output) -> String {
    let mut lines: Vec<String> = facts(shown, times)
        .into_iter()
        .map(|(title, text)| format!("{title:<TITLE_WIDTH$}{text}"))
        .collect();
    if !shown.ingresses.is_empty() {
        lines.push(String::new());
        lines.push(ingresses(&shown.ingresses, times, output));
    }
    if !shown.secrets.is_empty() {
        let columns = ["secret", "is", "for"].map(Column::Text);
        let rows: Vec<TableRow> = shown.secrets.iter().map(|secret| secret.row()).collect();
        lines.push(String::new());
        lines.push(render(&columns, &rows, output));
    }
    lines.join("\n")
}

fn facts(shown: &Shown, times: Times) -> Vec<(&'static str, String)> {
    let mut facts = vec![("gateway", process(shown, times))];
    if let Some(url) = &shown.url {
        let webhooks = shown.webhooks_url.as_ref();
        let webhooks = webhooks.map(|url| format!(", webhooks on {url}"));
        facts.push(("listens", format!("{url}{}", webhooks.unwrap_or_default())));
    }
    if shown.running {
        let ready = if shown.ready { "yes" } else { "no" };
        facts.push(("ready", ready.to_owned()));
    }
    facts.push(("store", store(shown)));
    if let Some(socket) = &shown.socket {
        facts.push(("socket", self::socket(socket, shown)));
    }
    facts.push(("instances", instances(&shown.instances)));
    let config = shown.config.as_deref();
    facts.push(("config", config.unwrap_or("built-in defaults").to_owned()));
    facts.push(("event log", shown.event_log.clone()));
    if let Some(log) = &shown.logfile {
        facts.push(("console log", log.clone()));
    }
    facts.push(("pid file", shown.pidfile.clone()));
    if !shown.unattended.is_empty() {
        let text = format!(
            "{}: nobody who claims it fetched for an hour",
            plain(&shown.unattended.join(", "))
        );
        facts.push(("unattended", text));
    }
    if !shown.restart_required.is_empty() {
        let settings = shown.restart_required.join(", ");
        facts.push(("restart", format!("restart required: {settings} changed")));
    }
    facts.extend(
        shown
            .problems
            .iter()
            .map(|problem| ("problem", plain(problem))),
    );
    facts
}

fn process(shown: &Shown, times: Times) -> String {
    if !shown.running {
        return "not running".to_owned();
    }
    let since = shown.started_at.as_deref();
    let since = since.map(|since| format!(", started {}", times.past(Some(since))));
    let version = shown
        .version
        .as_ref()
        .map(|version| format!(", version {version}"));
    let keeper = if shown.supervised {
        ", kept by a supervisor"
    } else {
        ""
    };
    format!(
        "running, process {}{}{}{keeper}",
        shown.pid,
        since.unwrap_or_default(),
        version.unwrap_or_default()
    )
}

fn store(shown: &Shown) -> String {
    let store = &shown.store;
    let Some(bytes) = store.bytes else {
        return format!("{}, not there yet", store.path);
    };
    let wal = size(store.wal_bytes.unwrap_or_default());
    let counted = store.events.zip(store.held).map(|(events, held)| {
        let events = count(events, "event", "events");
        format!("; {events}, {held} held")
    });
    format!(
        "{}, {}, WAL {wal}{}",
        store.path,
        size(bytes),
        counted.unwrap_or_default()
    )
}

fn socket(word: &str, shown: &Shown) -> String {
    let slack = shown
        .ingresses
        .iter()
        .find(|one| one.name == "slack-socket");
    let connections = slack.and_then(|one| one.details.connections);
    match connections {
        Some(connections) => {
            let counted = count(connections, "connection", "connections");
            format!("{word}; Slack counts {counted} of its app")
        }
        None => word.to_owned(),
    }
}

fn instances(live: &[Live]) -> String {
    if live.is_empty() {
        return "none within its lease".to_owned();
    }
    let number = u64::try_from(live.len()).unwrap_or(u64::MAX);
    let named = live.iter().take(NAMED_MAX).map(|one| {
        let left = left(one.expires_in);
        let backlog = count(one.backlog, "delivery waits", "deliveries wait");
        format!("{} ({left}, {backlog})", plain(&one.instance))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if live.len() > NAMED_MAX { ", …" } else { "" };
    let counted = count(number, "within its lease", "within their lease");
    format!("{counted}: {named}{more}")
}

fn ingresses(rows: &[Ingress], times: Times, output: Output) -> String {
    let columns = ["ingress", "state", "since", "detail"].map(Column::Text);
    let rows: Vec<TableRow> = rows
        .iter()
        .map(|row| TableRow {
            cells: vec![
                plain(&row.name),
                row.state.clone(),
                times.past(row.details.since.as_deref()),
                detail(&row.details),
            ],
            alarming: matches!(row.state.as_str(), "missing-secret" | "failed"),
        })
        .collect();
    render(&columns, &rows, output)
}

fn detail(details: &Details) -> String {
    let sources = u64::try_from(details.sources.len()).unwrap_or(u64::MAX);
    let sources = (sources > 1).then(|| format!("{sources} sources are not up"));
    let told: Vec<&str> = [details.error.as_deref(), sources.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    if told.is_empty() {
        NONE.to_owned()
    } else {
        plain(&told.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::lifecycle::status::StoreFiles;
    use crate::domain::Timestamp;

    fn down() -> Shown {
        Shown {
            ok: false,
            running: false,
            ready: false,
            pid: 0,
            started_at: None,
            version: None,
            url: None,
            webhooks_url: None,
            supervised: false,
            config: None,
            pidfile: "/state/gateway.pid".to_owned(),
            logfile: None,
            event_log: "/state/logs/events.jsonl".to_owned(),
            store: StoreFiles {
                path: "/state/gateway.db".to_owned(),
                bytes: None,
                wal_bytes: None,
                events: None,
                held: None,
            },
            socket: None,
            ingresses: Vec::new(),
            instances: Vec::new(),
            unattended: Vec::new(),
            restart_required: Vec::new(),
            secrets: Vec::new(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn one_that_is_down_is_shown_in_a_few_lines() {
        assert_eq!(
            lines(&down(), Times::Absolute, Output::PLAIN),
            "gateway     not running\n\
             store       /state/gateway.db, not there yet\n\
             instances   none within its lease\n\
             config      built-in defaults\n\
             event log   /state/logs/events.jsonl\n\
             pid file    /state/gateway.pid"
        );
    }

    #[test]
    fn one_that_runs_shows_its_ingresses_its_store_and_who_is_there() {
        let mut shown = Shown {
            running: true,
            pid: 42,
            started_at: Some("1970-01-01T00:00:00.000Z".to_owned()),
            version: Some("1.2.3".to_owned()),
            url: Some("http://127.0.0.1:1".to_owned()),
            webhooks_url: Some("http://127.0.0.1:2".to_owned()),
            supervised: true,
            socket: Some("up".to_owned()),
            restart_required: vec!["store.path".to_owned()],
            problems: vec!["github-webhook is missing-secret".to_owned()],
            ..down()
        };
        shown.store.bytes = Some(2048);
        shown.store.wal_bytes = Some(100);
        (shown.store.events, shown.store.held) = (Some(1), Some(0));
        shown.instances.push(Live {
            instance: "laptop".to_owned(),
            expires_in: 57.5,
            backlog: 1,
        });
        let ingress = |name: &str, state: &str, details| Ingress {
            name: name.to_owned(),
            state: state.to_owned(),
            details,
        };
        shown.ingresses = vec![
            ingress(
                "github-webhook",
                "missing-secret",
                Details {
                    error: Some("X is not set".to_owned()),
                    ..Details::default()
                },
            ),
            ingress(
                "slack-socket",
                "up",
                Details {
                    connections: Some(2),
                    ..Details::default()
                },
            ),
        ];
        let text = lines(&shown, Times::RelativeTo(Timestamp(60_000)), Output::PLAIN);
        for line in [
            "gateway     running, process 42, started 1 min ago, version 1.2.3, kept by a supervisor",
            "listens     http://127.0.0.1:1, webhooks on http://127.0.0.1:2",
            "ready       no",
            "store       /state/gateway.db, 2.0 KiB, WAL 100 B; 1 event, 0 held",
            "socket      up; Slack counts 2 connections of its app",
            "instances   1 within its lease: laptop (57 s left, 1 delivery waits)",
            "restart     restart required: store.path changed",
            "problem     github-webhook is missing-secret",
            "ingress         state           since  detail",
            "github-webhook  missing-secret  -      X is not set",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
    }
}
