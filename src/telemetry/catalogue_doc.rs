//! `docs/EVENTS.md` is what [`CATALOGUE`](super::events::CATALOGUE) says; a test holds them equal.

use std::fmt::Write;
use std::path::Path;

use super::events::{CATALOGUE, Level};

/// Set to rewrite the document instead of comparing it.
const REWRITE: &str = "REWRITE_DOCS";

const HEAD: &str = "\
# The event log

`<state.root>/logs/events.jsonl`: one compact JSON object a line. Every record starts with `ts`
(UTC, milliseconds), `source` (always `gateway`), `event`, `level` (`info`, `warning` or `error`)
and `pid`; the fields below follow, and a field that has no value is left out. A record about a
stored event is written after the COMMIT that holds the event. Secrets and payload text never
appear. At `observability.eventLog.maxBytes` the file is renamed to `events.jsonl.1` and begun
again under its name.

This file is made from the catalogue in `src/telemetry/events.rs`; a test compares the two, and
`REWRITE_DOCS=1 cargo test --lib the_document_is_the_catalogue` writes it anew.
";

fn render() -> String {
    let mut text = HEAD.to_owned();
    for entry in CATALOGUE {
        let level = match entry.level {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        };
        write!(
            text,
            "\n## `{}` ({level})\n\n{}\n",
            entry.name,
            entry.doc.trim()
        )
        .unwrap();
        if !entry.fields.is_empty() {
            text.push_str("\n| field | meaning |\n|---|---|\n");
        }
        for (field, doc) in entry.fields {
            let doc = doc.trim().replace('|', "\\|");
            writeln!(text, "| `{field}` | {doc} |").unwrap();
        }
    }
    text
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a switch of the test itself, not of the gateway"
)]
fn the_document_is_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/EVENTS.md");
    if std::env::var(REWRITE).is_ok() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, render()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == render(),
        "docs/EVENTS.md is not what the catalogue says: \
         run REWRITE_DOCS=1 cargo test --lib the_document_is_the_catalogue"
    );
}
