//! The file of `env.file`: one `NAME=value` a line, read as the-loop reads it.
//!
//! A line that has another shape is skipped and reported by its number, never by its text.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::EnvName;
use super::fingerprint::{FileState, read_bounded};
use super::problem::ReadFault;

pub(super) const ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;
const OTHERS_MODE: u32 = 0o077;
const PERMISSION_BITS: u32 = 0o7777;

/// The variables of one file.
#[derive(Default)]
pub struct EnvFile {
    values: BTreeMap<String, String>,
    malformed_lines: Vec<usize>,
    spaced_lines: Vec<EnvFileLine>,
}

/// A line, as a warning names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvFileLine {
    /// Its number, from 1.
    number: usize,
    /// The name, when it is one that the configuration could name; anything else may be a secret.
    name: Option<EnvName>,
}

impl fmt::Display for EnvFileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.number)?;
        match &self.name {
            Some(name) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

/// What is odd about the file; the variables that could be read hold all the same.
#[derive(Debug, thiserror::Error)]
pub enum EnvFileWarning {
    /// Nothing was read.
    #[error("env file {} cannot be read ({fault}); nothing loaded", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        fault: ReadFault,
    },
    /// Others may read it, or write it.
    #[error("env file {} is open to others (mode {mode:04o}); it holds secrets: chmod 600", path.display())]
    OpenToOthers {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Some lines were skipped.
    #[error("env file {}: skipped malformed {}", path.display(), Listed(lines))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The lines.
        lines: Vec<EnvFileLine>,
    },
    /// Some lines are read here, and mean something else to a shell or to systemd.
    #[error(
        "env file {}: a space beside the = in {}; it is left out here, and other readers of the \
         file may not: write NAME=value",
        path.display(),
        Listed(lines)
    )]
    Spaced {
        /// The file.
        path: PathBuf,
        /// The lines.
        lines: Vec<EnvFileLine>,
    },
}

struct Listed<'a>(&'a [EnvFileLine]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.iter().enumerate() {
            write!(f, "{}{line}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl EnvFile {
    /// Parses the text of a file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut file = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index.saturating_add(1);
            match parse_line(line) {
                Some(Assignment {
                    name,
                    value,
                    is_spaced,
                }) => {
                    if is_spaced {
                        let name = EnvName::parse(name).ok();
                        file.spaced_lines.push(EnvFileLine { number, name });
                    }
                    file.values.insert(name.to_owned(), value);
                }
                None => file.malformed_lines.push(number),
            }
        }
        file
    }

    /// The value of a variable.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The numbers of the lines that were skipped, from 1.
    #[must_use]
    pub fn malformed_lines(&self) -> &[usize] {
        &self.malformed_lines
    }
}

/// How many variables, neither their names nor their values: a stray line can make a name of a
/// secret.
impl fmt::Debug for EnvFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvFile")
            .field("variables", &self.values.len())
            .finish_non_exhaustive()
    }
}

/// A file as it was read, and what is odd about it.
pub(super) struct EnvFileRead {
    pub(super) file: EnvFile,
    pub(super) state: FileState,
    pub(super) warnings: Vec<EnvFileWarning>,
}

/// Reads a file; one that cannot be read is a warning and holds no variables.
pub(super) fn read(path: &Path) -> EnvFileRead {
    let read = read_bounded(path, ENV_FILE_BYTES_MAX);
    let state = FileState::of(&read);
    let text = read.and_then(|read| {
        let mode = read.mode;
        Ok((read.text()?, mode))
    });
    let mut warnings = Vec::new();
    let file = match text {
        Ok((text, mode)) => {
            let file = EnvFile::parse(&text);
            warnings.extend(oddities(path, mode, &file));
            file
        }
        Err(fault) => {
            warnings.push(EnvFileWarning::Unreadable {
                path: path.to_owned(),
                fault,
            });
            EnvFile::default()
        }
    };
    EnvFileRead {
        file,
        state,
        warnings,
    }
}

fn oddities(path: &Path, mode: u32, file: &EnvFile) -> impl Iterator<Item = EnvFileWarning> {
    let open = (mode & OTHERS_MODE != 0).then(|| EnvFileWarning::OpenToOthers {
        path: path.to_owned(),
        mode: mode & PERMISSION_BITS,
    });
    let numbers = file.malformed_lines().iter();
    let lines: Vec<EnvFileLine> = numbers
        .map(|number| EnvFileLine {
            number: *number,
            name: None,
        })
        .collect();
    let malformed = (!lines.is_empty()).then(|| EnvFileWarning::Malformed {
        path: path.to_owned(),
        lines,
    });
    let spaced = (!file.spaced_lines.is_empty()).then(|| EnvFileWarning::Spaced {
        path: path.to_owned(),
        lines: file.spaced_lines.clone(),
    });
    open.into_iter().chain(malformed).chain(spaced)
}

/// What a line says.
struct Assignment<'a> {
    name: &'a str,
    value: String,
    is_spaced: bool,
}

fn parse_line(line: &str) -> Option<Assignment<'_>> {
    let assignment = match line.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
        Some(_) | None => line,
    };
    let (left, right) = assignment.split_once('=')?;
    let name = left.trim();
    is_variable_name(name).then_some(())?;
    Some(Assignment {
        name,
        value: parse_value(right.trim())?,
        is_spaced: left.ends_with(char::is_whitespace) || right.starts_with(char::is_whitespace),
    })
}

fn is_variable_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The value after `=`; `None` when a quote is never closed.
fn parse_value(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix('"') {
        return unescape_to_quote(rest);
    }
    if let Some(rest) = text.strip_prefix('\'') {
        return rest.split_once('\'').map(|(literal, _)| literal.to_owned());
    }
    let value = text.split_once(" #").map_or(text, |(before, _)| before);
    Some(value.trim().to_owned())
}

fn unescape_to_quote(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(value),
            '\\' => match chars.next()? {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'r' => value.push('\r'),
                plain @ ('\\' | '"') => value.push(plain),
                other => value.extend(['\\', other]),
            },
            plain => value.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_line_is_read_as_the_loop_reads_it() {
        for (line, value) in [
            ("A=b", Some("b")),
            ("  A = b  ", Some("b")),
            ("export A=b", Some("b")),
            ("export\tA=b", Some("b")),
            ("A=", Some("")),
            ("A=b=c==", Some("b=c==")),
            ("A=b # comment", Some("b")),
            ("A=b#c", Some("b#c")),
            ("A=$HOME/${B}", Some("$HOME/${B}")),
            (r#"A="b c" # comment"#, Some("b c")),
            (r#"A="b"junk"#, Some("b")),
            (r#"A="\n\t\r\\\"\x""#, Some("\n\t\r\\\"\\x")),
            (r"A='b\n # c' d", Some(r"b\n # c")),
            ("A=\r", Some("")),
            (r#"A="never closed"#, None),
            (r#"A="ends in a backslash\"#, None),
            ("A='never closed", None),
            ("exportA=b", None),
            ("A", None),
        ] {
            assert_eq!(EnvFile::parse(line).value("A"), value, "{line}");
        }
    }

    #[test]
    fn a_malformed_line_is_skipped_and_known_by_its_number() {
        let text = "\n# comment\nA=1\nno assignment\n1B=2\nC-D=3\nE=\"open\nA=4\n";
        let file = EnvFile::parse(text);
        assert_eq!(file.malformed_lines(), [4, 5, 6, 7]);
        assert_eq!(file.value("A"), Some("4"), "the later one wins");
    }

    #[test]
    fn neither_names_nor_values_are_shown() {
        let file = EnvFile::parse("A=xoxb-pasted\nghp_pasted==\n");
        assert!(!format!("{file:?}").contains("pasted"));
    }

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("the-loop.env");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    fn warnings(path: &Path) -> Vec<String> {
        read(path)
            .warnings
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_private_file_raises_no_warning() {
        let (_directory, path) = written("A=1\n", 0o600);
        assert!(warnings(&path).is_empty());
        assert_eq!(read(&path).file.value("A"), Some("1"));
    }

    #[test]
    fn a_file_that_is_open_to_others_and_malformed_is_loaded_with_warnings() {
        let (_directory, path) = written("A=1\nB\nxoxb-pasted\n", 0o640);
        let warnings = warnings(&path);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("0640"), "{}", warnings[0]);
        assert!(
            warnings[1].ends_with("skipped malformed line 2, line 3"),
            "{}",
            warnings[1]
        );
        assert_eq!(read(&path).file.value("A"), Some("1"));
    }

    #[test]
    fn a_space_beside_the_equals_sign_is_named_by_its_line_and_name_and_never_by_its_value() {
        let text = "A=1\nGITHUB_TOKEN = ghp-pasted\nexport B =pasted\nC= \"pasted\"\n\
                    xoxb_pasted = 1\nD=\"a = b\"\nE=x = y\n";
        let (_directory, path) = written(text, 0o600);
        let warnings = warnings(&path);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("in line 2 (GITHUB_TOKEN), line 3 (B), line 4 (C), line 5; "),
            "{}",
            warnings[0]
        );
        assert!(!warnings[0].contains("pasted"), "{}", warnings[0]);
        assert_eq!(read(&path).file.value("GITHUB_TOKEN"), Some("ghp-pasted"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_warning_that_names_it() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing.env");
        let not_text = directory.path().join("bytes.env");
        fs::write(&not_text, b"A=\xff").unwrap();
        fs::set_permissions(&not_text, Permissions::from_mode(0o600)).unwrap();
        for path in [missing.as_path(), directory.path(), not_text.as_path()] {
            let warnings = warnings(path);
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].contains(path.to_str().unwrap()));
            assert!(warnings[0].ends_with("nothing loaded"));
        }
    }
}
