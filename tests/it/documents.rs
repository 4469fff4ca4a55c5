//! The documents' console blocks, run as they stand: what they say is printed is printed.
//!
//! In a block, `$ ` begins a command and what follows is its output; `…` stands for anything.

mod live_check;
mod proofs;

use std::path::Path;
use std::process::{Command, Stdio};

use crate::cli::program::Home;

/// One command of a page and what the page says that it prints.
#[derive(Debug)]
struct Shown {
    command: String,
    output: String,
}

/// The commands of all console blocks of a text, in order.
fn shown_in(text: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            is_inside = line == "```console";
        } else if is_inside && let Some(command) = line.strip_prefix("$ ") {
            let command = command.to_owned();
            let output = String::new();
            all.push(Shown { command, output });
        } else if is_inside && let Some(last) = all.last_mut() {
            last.output.push_str(line);
            last.output.push('\n');
        }
    }
    all
}

/// What a page says under a heading, to its next heading of the same rank.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// A text without what only arranges it.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True when a text is what was shown, where `…` stands for anything.
fn is_as_shown(text: &str, shown: &str) -> bool {
    let (text, shown) = (words(text), words(shown));
    let mut pieces = shown.split('…').map(str::trim).peekable();
    let Some(mut rest) = text.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.split_once(piece) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.is_empty()
}

/// Runs a line of a shell in a home, with the program on its path; returns what it wrote.
fn shell(home: &Home, line: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_the-loop-gateway"));
    let directory = program.parent().unwrap().display();
    let output = Command::new("bash")
        .args(["-c", line])
        .env_clear()
        .env("HOME", home.path(""))
        .env("PATH", format!("{directory}:/usr/local/bin:/usr/bin:/bin"))
        .env("LC_ALL", "C.UTF-8")
        .current_dir(home.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    out + &err
}

/// Whether the tools that the pages use beside the program are there; says so when one is not.
fn has_tools(home: &Home) -> bool {
    let missing = shell(
        home,
        "for it in curl jq; do command -v $it >/dev/null || echo $it; done",
    );
    if !missing.is_empty() {
        eprintln!("SKIPPED: not installed: {missing}");
    }
    missing.is_empty()
}

#[test]
fn an_ellipsis_stands_for_anything_and_everything_else_for_itself() {
    for (text, shown) in [
        ("a b\nc\n", "a   b c"),
        ("sent 12 bytes to x", "sent … bytes to x"),
        ("{\"ts\":\"12\",\"a\":1}", "{\"ts\":\"…\",\"a\":1}"),
        ("took 5 ms", "took …"),
        ("5 ms", "… ms"),
    ] {
        assert!(is_as_shown(text, shown), "{text}: {shown}");
    }
    for (text, shown) in [
        ("a b c", "a b"),
        ("a b", "a b c"),
        ("sent 12 bytes", "sent … bytes to x"),
        ("202", "401"),
    ] {
        assert!(!is_as_shown(text, shown), "{text}: {shown}");
    }
}
