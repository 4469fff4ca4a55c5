//! What the event log of this machine says of a delivery that the store does not know: mostly
//! why it was dropped.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cli::shown::{Times, plain};

/// Records that are shown; of more, the newest.
const RECORDS_MAX: usize = 20;
/// Fields that every record has, or that the answer says elsewhere.
const LEFT_OUT: [&str; 7] = [
    "ts",
    "source",
    "event",
    "level",
    "pid",
    "delivery_id",
    "gateway_event_id",
];

/// The records about a delivery, oldest first: those of the log and of its rotated files. A file
/// that is not there is no fault; a line that cannot be read is passed over.
///
/// # Errors
/// When a file that is there cannot be read.
pub(super) fn records(log: &Path, kept: u32, delivery_id: &str) -> io::Result<Vec<Value>> {
    let mut found = Vec::new();
    let rotated = (1..=kept).rev().map(|number| rotated(log, number));
    for path in rotated.chain([log.to_owned()]) {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for line in BufReader::new(file).split(b'\n') {
            let line = line?;
            if let Some(record) = record_about(&line, delivery_id) {
                found.push(record);
                if found.len() > RECORDS_MAX {
                    found.remove(0);
                }
            }
        }
    }
    Ok(found)
}

fn rotated(log: &Path, number: u32) -> PathBuf {
    let mut path = log.as_os_str().to_owned();
    path.push(format!(".{number}"));
    path.into()
}

fn record_about(line: &[u8], delivery_id: &str) -> Option<Value> {
    let text = std::str::from_utf8(line).ok()?;
    // Most lines are about something else: look before parsing.
    if !text.contains("\"delivery_id\"") {
        return None;
    }
    let record: Value = serde_json::from_str(text).ok()?;
    let is_about = record.get("delivery_id")?.as_str()? == delivery_id;
    is_about.then_some(record)
}

/// A record as one line.
pub(super) fn shown(record: &Value, times: Times) -> String {
    let text = |field: &str| record.get(field).and_then(Value::as_str);
    let fields = record.as_object().into_iter().flatten();
    let fields = fields
        .filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {value}"),
        });
    let fields: Vec<String> = fields.collect();
    plain(&format!(
        "{:16}  {}  {}",
        times.past(text("ts")),
        text("event").unwrap_or_default(),
        fields.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    #[test]
    fn the_records_of_one_delivery_are_found_in_all_files_oldest_first() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("events.jsonl");
        let record = |ts: &str, id: &str| {
            format!(
                "{{\"ts\":\"{ts}\",\"source\":\"gateway\",\"event\":\"gateway.dropped\",\
                 \"level\":\"warning\",\"pid\":1,\"delivery_id\":\"{id}\",\
                 \"reason\":\"unbound\"}}\n"
            )
        };
        let first = "1970-01-01T00:00:01.000Z";
        let second = "1970-01-01T00:00:02.000Z";
        std::fs::write(rotated(&log, 2), record(first, "g1")).unwrap();
        let torn = format!("{}{{\"delivery_id\":\"g1", record(second, "g2"));
        std::fs::write(rotated(&log, 1), torn).unwrap();
        std::fs::write(&log, record(second, "g1")).unwrap();
        let found = records(&log, 5, "g1").unwrap();
        let times: Vec<_> = found.iter().map(|record| record["ts"].as_str()).collect();
        assert_eq!(times, [Some(first), Some(second)]);
        assert_eq!(
            shown(&found[0], Times::RelativeTo(Timestamp(3_000))),
            "2 s ago           gateway.dropped  reason unbound"
        );
        let none = records(&directory.path().join("absent"), 5, "g1").unwrap();
        assert!(none.is_empty());
    }
}
