use std::path::Path;

use super::*;
use crate::domain::SystemClock;

fn open(directory: &Path) -> (EventLog, std::path::PathBuf) {
    let path = directory.join("logs/events.jsonl");
    let place = LogPlace {
        path: path.clone(),
        bytes_max: 1024 * 1024,
        kept: 1,
    };
    (EventLog::open(place, Arc::new(SystemClock)).unwrap(), path)
}

fn stopped() -> GatewayEvent {
    GatewayEvent::Stopped { reason: "test" }
}

fn read(path: &Path) -> Vec<serde_json::Value> {
    std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_record_is_one_compact_line() {
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = open(directory.path());
    log.record(stopped());
    log.flush();
    let text = std::fs::read_to_string(&path).unwrap();
    let pid = std::process::id();
    assert!(text.starts_with(r#"{"ts":"20"#), "{text}");
    let rest = format!(
        r#"Z","source":"gateway","event":"gateway.stopped","level":"info","pid":{pid},"reason":"test"}}{}"#,
        "\n"
    );
    assert!(text.ends_with(&rest), "{text}");
}

#[test]
fn the_order_of_records_is_kept_over_many_chunks() {
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = open(directory.path());
    let count = i64::try_from(CHUNK).unwrap() * 3;
    let record = |number| GatewayEvent::Committed {
        subject: "s".into(),
        instance: "i".into(),
        seq: number,
        outcome: "delivered".into(),
        gateway_event_id: 1,
        delivery_id: "d".into(),
    };
    log.record_all((0..count).map(record).collect());
    log.flush();
    let lines = [path.clone(), path.with_extension("jsonl.1")]
        .iter()
        .filter(|path| path.try_exists().unwrap())
        .rev()
        .flat_map(|path| read(path))
        .map(|line| line["seq"].as_i64().unwrap())
        .collect::<Vec<_>>();
    assert!(lines.is_sorted());
    assert_eq!(lines.last(), Some(&(count - 1)));
}

#[test]
fn what_the_last_handle_recorded_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = open(directory.path());
    let other = log.clone();
    drop(log);
    other.record(stopped());
    other.flush();
    assert_eq!(read(&path).len(), 1);
}

#[test]
fn a_disk_that_refuses_is_told_and_survived() {
    let directory = tempfile::tempdir().unwrap();
    // A file where the directory should be.
    let blocked = directory.path().join("logs");
    std::fs::write(&blocked, "").unwrap();
    let (log, path) = open(directory.path());
    log.record(stopped());
    log.flush();
    assert!(!log.is_healthy());
    log.record(stopped());
    std::fs::remove_file(&blocked).unwrap();
    log.flush();
    assert!(log.is_healthy());
    assert_eq!(read(&path).len(), 2);
}

#[test]
fn records_beyond_the_bound_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let blocked = directory.path().join("logs");
    std::fs::write(&blocked, "").unwrap();
    let (log, path) = open(directory.path());
    log.record_all((0..WAITING_MAX).map(|_| stopped()).collect());
    log.flush();
    log.record_all((0..10).map(|_| stopped()).collect());
    std::fs::remove_file(&blocked).unwrap();
    let confession = (0..20).find_map(|_| {
        // A slow machine needs more than one flush for so many.
        log.flush();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find(|line| line.contains("gateway.error"))?;
        Some(serde_json::from_str::<serde_json::Value>(line).unwrap())
    });
    assert_eq!(confession.unwrap()["error"], "10 records are missing");
}

#[test]
fn strangers_are_recorded_ten_times_and_then_counted() {
    let directory = tempfile::tempdir().unwrap();
    let (log, path) = open(directory.path());
    for _ in 0..25 {
        log.refuse(Provider::GitHub, DropReason::BadSignature, "issues", "");
    }
    log.flush();
    let lines = read(&path);
    assert_eq!(lines.len(), 11);
    assert_eq!(lines[0]["kind"], "issues");
    assert!(lines[0].get("delivery_id").is_none());
    assert_eq!(lines[10]["suppressed"], 15);
    assert_eq!(lines[10]["transport"], "webhook");
}
