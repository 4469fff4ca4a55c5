//! For tests: the tables of what must become of each payload of the shared corpus.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// One row of a table by column; `-` is `None`.
#[derive(Debug)]
pub(super) struct Row(BTreeMap<String, String>);

impl Row {
    pub(super) fn get(&self, column: &str) -> Option<&str> {
        Some(self.0[column].as_str()).filter(|cell| *cell != "-")
    }

    pub(super) fn file(&self) -> &str {
        &self.0["file"]
    }

    /// The blank-separated keys, without any order; `sha256` stands for `hash`.
    pub(super) fn keys(&self, hash: &str) -> Vec<String> {
        let cell = self.get("keys").unwrap_or_default();
        sorted(cell.split_whitespace().map(|key| match key {
            "sha256" => hash.to_owned(),
            key => key.to_owned(),
        }))
    }
}

pub(super) fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts
}

/// The rows of a table with the payloads that they name. Empty where the corpus is absent, and
/// says so.
pub(super) fn rows(table: &str) -> Vec<(Row, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let payloads = root.join("../shared/payloads").join(table);
    if !payloads.is_dir() {
        eprintln!("SKIPPED: no payloads at {}", payloads.display());
        return Vec::new();
    }
    let text = std::fs::read_to_string(
        root.join("tests/it/expectations")
            .join(table)
            .with_extension("tsv"),
    );
    let text = text.unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split('\t').collect();
    let rows: Vec<(Row, Vec<u8>)> = lines.map(|line| row(&names, line, &payloads)).collect();
    assert_eq!(
        rows.len(),
        std::fs::read_dir(&payloads).unwrap().count(),
        "{table}"
    );
    rows
}

fn row(names: &[&str], line: &str, payloads: &Path) -> (Row, Vec<u8>) {
    let cells: Vec<&str> = line.split('\t').collect();
    assert_eq!(cells.len(), names.len(), "{line}");
    let cells = names
        .iter()
        .zip(cells)
        .map(|(name, cell)| ((*name).to_owned(), cell.to_owned()));
    let row = Row(cells.collect());
    let bytes = std::fs::read(payloads.join(row.file())).unwrap();
    (row, bytes)
}

/// A JSON object with each of its fields, and each field of those, removed or of another type.
pub(super) fn damaged(text: &str) -> Vec<String> {
    let whole: Value = serde_json::from_str(text).unwrap();
    let mut texts = Vec::new();
    for (name, value) in whole.as_object().unwrap() {
        for other in others(value) {
            let mut copy = whole.clone();
            put(&mut copy, name, other);
            texts.push(copy.to_string());
        }
        for (inner_name, inner) in value.as_object().into_iter().flatten() {
            for other in others(inner) {
                let mut copy = whole.clone();
                put(&mut copy[name], inner_name, other);
                texts.push(copy.to_string());
            }
        }
    }
    texts
}

fn others(value: &Value) -> Vec<Option<Value>> {
    let all = [
        "null", "1", "-1.5", "true", "\"\"", "\" \"", "\"x\"", "[]", "[{}]", "{}",
    ];
    let parsed = all
        .into_iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap());
    parsed
        .filter(|other| other != value)
        .map(Some)
        .chain([None])
        .collect()
}

fn put(object: &mut Value, name: &str, value: Option<Value>) {
    let object = object.as_object_mut().unwrap();
    match value {
        Some(value) => drop(object.insert(name.to_owned(), value)),
        None => drop(object.remove(name)),
    }
}
