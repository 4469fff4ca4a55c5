//! What is wrong with a configuration, said without repeating what it holds.
//!
//! Invariant: no type here carries a value of the file. A token pasted under a wrong key reaches
//! neither a message nor a `Debug` output; a key that looks like one is shown by its number.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file breaks the rules; every place is named at once.
    #[error("{} is not a valid gateway config:{}", path.display(), Listed(problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The places, in the order of the file.
        problems: Vec<PathProblem>,
    },
    /// The file cannot be read.
    #[error("{} cannot be read: {fault}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: ReadFault,
    },
    /// The file is valid, but it would publish the API without saying so.
    #[error("{} would expose the gateway:{}", path.display(), Listed(problems))]
    Exposed {
        /// The file.
        path: PathBuf,
        /// The addresses that are not loopback.
        problems: Vec<PathProblem>,
    },
}

/// One place of the file and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathProblem {
    /// Where: `(root)`, `a.b`, `list[0].k`.
    pub path: String,
    /// What: never a value of the file.
    pub message: String,
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

struct Listed<'a>(&'a [PathProblem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadFault {
    /// The system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// It is larger than a file of its kind may be.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// It is not text.
    #[error("not UTF-8")]
    NotUtf8,
}

/// One step from a node of the file to a child.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Into a mapping.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The steps from the root to a node.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct KeyPath(pub(super) Vec<Step>);

impl KeyPath {
    /// The path of keys that the text names, separated by dots.
    pub(super) fn of(dotted: &str) -> Self {
        Self(dotted.split('.').map(Step::from).collect())
    }

    /// The path to a child of this node.
    pub(super) fn join(&self, step: impl Into<Step>) -> Self {
        let mut steps = self.0.clone();
        steps.push(step.into());
        Self(steps)
    }

    /// True when one of the two paths is the other or an ancestor of it.
    pub(super) fn touches(&self, other: &Self) -> bool {
        self.0
            .iter()
            .zip(&other.0)
            .all(|(own, others)| own == others)
    }
}

const PROBLEMS_MAX: usize = 1000;

/// What is known to be wrong so far, up to a bound.
#[derive(Default)]
pub(super) struct Problems {
    listed: Vec<Problem>,
    has_more: bool,
}

struct Problem {
    path: KeyPath,
    message: String,
    spoils: bool,
}

impl Problems {
    /// Adds one; the value there can be read all the same.
    pub(super) fn add(&mut self, path: KeyPath, message: impl Into<String>) {
        self.push(Problem {
            path,
            message: message.into(),
            spoils: false,
        });
    }

    /// Adds one that makes the value there useless.
    pub(super) fn spoil(&mut self, path: KeyPath, message: impl Into<String>) {
        self.push(Problem {
            path,
            message: message.into(),
            spoils: true,
        });
    }

    fn push(&mut self, problem: Problem) {
        if self.listed.len() < PROBLEMS_MAX {
            self.listed.push(problem);
        } else {
            self.has_more = true;
        }
    }

    /// Adds all of another collection.
    pub(super) fn append(&mut self, other: Self) {
        self.has_more |= other.has_more;
        other
            .listed
            .into_iter()
            .for_each(|problem| self.push(problem));
    }

    /// True when nothing is wrong.
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// The places whose value is useless.
    pub(super) fn spoiled(&self) -> impl Iterator<Item = &KeyPath> {
        let spoiling = self.listed.iter().filter(|problem| problem.spoils);
        spoiling.map(|problem| &problem.path)
    }

    /// True when a value at, above or below one of these places is useless.
    pub(super) fn spoil_any_of(&self, keys: &[&str]) -> bool {
        let keys: Vec<KeyPath> = keys.iter().map(|key| KeyPath::of(key)).collect();
        self.spoiled()
            .any(|path| keys.iter().any(|key| key.touches(path)))
    }

    /// The problems sorted by the given position of their places; the same place keeps its order.
    pub(super) fn into_sorted<P: Ord>(
        self,
        position: impl Fn(&KeyPath) -> P,
        show: impl Fn(&KeyPath) -> String,
    ) -> Vec<PathProblem> {
        let place = |problem: Problem| {
            let position = position(&problem.path);
            let (path, message) = (show(&problem.path), problem.message);
            (position, PathProblem { path, message })
        };
        let mut placed: Vec<(P, PathProblem)> = self.listed.into_iter().map(place).collect();
        placed.sort_by(|one, other| one.0.cmp(&other.0));
        let mut problems: Vec<PathProblem> =
            placed.into_iter().map(|(_, problem)| problem).collect();
        problems.dedup();
        if self.has_more {
            problems.push(PathProblem {
                path: "(root)".to_owned(),
                message: format!("only the first {PROBLEMS_MAX} problems are listed"),
            });
        }
        problems
    }
}

const SHOWN_KEY_BYTES_MAX: usize = 32;
const WORDS_MAX: usize = 5;
const WORD_LENGTHS: std::ops::RangeInclusive<usize> = 2..=14;
/// `http` has four; a word with more than five consonants in a row is none.
const CONSONANTS_MAX: usize = 5;
const TOKEN_PREFIXES: [&str; 2] = ["xox", "xapp"];

/// True when a key can be repeated: a few words of letters, and unlike the start of a token.
///
/// What people mistype are words; a secret that slipped into the place of a key has digits, is
/// long, changes between capitals and small letters as no word does, or starts like one of
/// Slack's.
pub(super) fn is_shown(key: &str) -> bool {
    let is_token = TOKEN_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    if is_token || !(1..=SHOWN_KEY_BYTES_MAX).contains(&key.len()) {
        return false;
    }
    if key.len() == 1 {
        return key.bytes().all(|b| b.is_ascii_alphabetic());
    }
    let words: Vec<&str> = key.split(['_', '-']).flat_map(words_of).collect();
    words.len() <= WORDS_MAX && words.into_iter().all(is_word)
}

/// The words of a part that no `_` or `-` divides: each begins with a capital, or the part is in
/// capitals.
fn words_of(part: &str) -> Vec<&str> {
    let is_in_capitals = part.bytes().all(|b| b.is_ascii_uppercase());
    if is_in_capitals {
        return vec![part];
    }
    let mut words = Vec::new();
    let mut rest = part;
    while !rest.is_empty() {
        let next = rest.bytes().skip(1).position(|b| b.is_ascii_uppercase());
        let end = next.map_or(rest.len(), |position| position.saturating_add(1));
        // A position in the bytes may be within a character; then it is no word.
        let Some((word, after)) = rest.split_at_checked(end) else {
            return vec![part];
        };
        words.push(word);
        rest = after;
    }
    words
}

fn is_word(word: &str) -> bool {
    let is_consonant = |b: u8| !b"aeiouy".contains(&b.to_ascii_lowercase());
    let in_a_row = word
        .as_bytes()
        .split(|b| !is_consonant(*b))
        .map(<[u8]>::len)
        .max();
    WORD_LENGTHS.contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_alphabetic())
        && in_a_row.unwrap_or_default() <= CONSONANTS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_that_are_words_are_repeated() {
        for shown in [
            "retentionDay",
            "retention_days",
            "retention-days",
            "Enabled",
            "GITHUB_TOKEN",
            "zzz",
        ] {
            assert!(is_shown(shown), "{shown}");
        }
        let long = "a".repeat(33);
        for masked in [
            "",
            "xoxb-pasted",
            "xapp-pasted",
            "ghp_0a1b2c",
            "a b",
            "schlüssel",
            &long,
            // Tokens may be of letters alone.
            "qwhzkfjxtmbpvnrd",
            "aKdjfHrtQpwLmxZb",
            "AKIAIOSFODNNEXAMPLE",
            "correcthorsebatterystaple",
            "tokenAbCdEfGhIj",
            "one-two-three-four-five-six-seven",
            "AbAbAbAbAbAbAbAb",
            "_",
        ] {
            assert!(!is_shown(masked), "{masked}");
        }
    }

    #[test]
    fn every_key_of_the_schema_is_shown() {
        fn keys(schema: &serde_json::Value, found: &mut Vec<String>) {
            let properties = schema["properties"].as_object();
            found.extend(properties.into_iter().flat_map(|keys| keys.keys().cloned()));
            let members = schema
                .as_object()
                .into_iter()
                .flat_map(|node| node.values());
            let items = schema.as_array().into_iter().flatten();
            members.chain(items).for_each(|child| keys(child, found));
        }
        let schema = serde_json::from_str(super::super::SCHEMA).unwrap();
        let mut found = Vec::new();
        keys(&schema, &mut found);
        assert!(found.len() > 60, "{found:?}");
        for key in found {
            assert!(is_shown(&key), "{key}");
        }
    }

    #[test]
    fn a_path_touches_itself_its_ancestors_and_its_children() {
        let path = KeyPath::of("a.b");
        assert!(path.touches(&KeyPath::of("a")));
        assert!(path.touches(&KeyPath::of("a.b.c")));
        assert!(!path.touches(&KeyPath::of("a.c")));
    }
}
