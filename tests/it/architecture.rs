//! The rooms of the source depend in one direction, and what is known in one place is known there
//! alone: read from the source itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each room and those that it may use. `broken` and `digest` use nobody and may be used by all.
const ROOMS: [(&str, &[&str]); 13] = [
    ("main", &["cli"]),
    (
        "cli",
        &[
            "app",
            "client",
            "config",
            "devkit",
            "domain",
            "outbound",
            "providers",
            "store",
            "telemetry",
        ],
    ),
    (
        "app",
        &["actors", "config", "domain", "http", "store", "telemetry"],
    ),
    (
        "http",
        &[
            "actors",
            "config",
            "domain",
            "providers",
            "store",
            "telemetry",
        ],
    ),
    (
        "actors",
        &[
            "config",
            "domain",
            "outbound",
            "providers",
            "store",
            "telemetry",
        ],
    ),
    ("client", &["config", "domain", "outbound", "providers"]),
    ("config", &["domain", "providers"]),
    ("store", &["domain", "telemetry"]),
    ("telemetry", &["domain"]),
    ("providers", &["domain"]),
    ("devkit", &["domain", "providers"]),
    ("outbound", &[]),
    ("domain", &[]),
];
const FOR_ALL: [&str; 2] = ["broken", "digest"];

/// A crate, and the places that know it.
const KNOWN_IN: [(&str, &[&str]); 2] = [
    ("rusqlite", &["store/"]),
    (
        "actix_web",
        &[
            "http/",
            "app.rs",
            "app/",
            "client/consume/status_page.rs",
            "devkit/",
            // The WebSocket's frames are the server crate's types.
            "actors/slack_socket/",
        ],
    ),
];

/// A shipped source file: its path below `src` and its code, without tests and comments.
struct Source {
    path: String,
    code: String,
}

impl Source {
    fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap();
        first.strip_suffix(".rs").unwrap_or(first)
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut folders, mut files) = (vec![root.clone()], Vec::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    let sources: Vec<_> = files
        .into_iter()
        .map(|file| Source {
            path: file.strip_prefix(&root).unwrap().display().to_string(),
            code: shipped(&std::fs::read_to_string(file).unwrap()),
        })
        .filter(|source| !is_test(&source.path))
        .collect();
    assert!(sources.len() > 200, "{} files", sources.len());
    sources
}

fn is_test(path: &str) -> bool {
    path.split(['/', '.']).any(|part| {
        part == "tests" || part == "testing" || part.ends_with("_tests") || part == "test_support"
    })
}

fn shipped(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// The rooms that a text names after `crate::`, or in `main` after the crate's own name.
fn used(code: &str) -> BTreeSet<String> {
    ["crate::", "the_loop_gateway::"]
        .iter()
        .flat_map(|root| code.split(root).skip(1))
        .map(|rest| {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            rest[..end.unwrap_or(rest.len())].to_owned()
        })
        .filter(|name| {
            ROOMS.iter().any(|(room, _)| room == name) || FOR_ALL.contains(&name.as_str())
        })
        .collect()
}

#[test]
fn rooms_use_each_other_in_one_direction() {
    let mut wrong = Vec::new();
    for source in sources() {
        let room = source.room();
        if room == "lib" {
            continue;
        }
        let Some(allowed) = may_use(room) else {
            wrong.push(format!(
                "{}: a room that this test does not know",
                source.path
            ));
            continue;
        };
        for name in used(&source.code) {
            let is_fine = name == room
                || FOR_ALL.contains(&name.as_str())
                || allowed.contains(&name.as_str());
            if !is_fine {
                wrong.push(format!("{} uses {name}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn may_use(room: &str) -> Option<&'static [&'static str]> {
    if FOR_ALL.contains(&room) {
        return Some(&[]);
    }
    let known = ROOMS.iter().find(|(name, _)| *name == room);
    known.map(|(_, allowed)| *allowed)
}

#[test]
fn the_table_of_rooms_has_no_circle() {
    let mut left: Vec<_> = ROOMS.to_vec();
    while !left.is_empty() {
        let names: Vec<_> = left.iter().map(|(room, _)| *room).collect();
        let before = left.len();
        left.retain(|(_, uses)| uses.iter().any(|name| names.contains(name)));
        assert!(left.len() < before, "a circle among {names:?}");
    }
}

#[test]
fn what_is_known_in_one_place_is_known_there_alone() {
    let mut wrong = Vec::new();
    for source in sources() {
        for (library, places) in KNOWN_IN {
            let is_used = source.code.contains(&format!("{library}::"));
            if is_used && !places.iter().any(|place| source.path.starts_with(place)) {
                wrong.push(format!("{} knows {library}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn no_source_file_is_longer_than_a_file_may_be() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for source in sources() {
        let lines = std::fs::read_to_string(root.join(&source.path))
            .unwrap()
            .lines()
            .count();
        if lines > 500 {
            wrong.push(format!("{}: {lines} lines", source.path));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
