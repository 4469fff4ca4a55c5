//! Paths that are given on the command line.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use crate::config::tidied;

/// A path, tidied before it is used or shown.
pub(super) fn tidy_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| tidy(&path))
}

/// As [`tidied`]; a separator at the end stays, for it says that a directory is meant.
fn tidy(path: &Path) -> PathBuf {
    let is_directory = path.as_os_str().as_encoded_bytes().last() == Some(&SEPARATOR);
    let tidy = tidied(path);
    if is_directory { tidy.join("") } else { tidy }
}

const SEPARATOR: u8 = b'/';

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_stays_one() {
        let tidy = |path: &str| tidy(Path::new(path)).into_os_string();
        assert_eq!(tidy("/a/../b//c"), "/b/c");
        assert_eq!(tidy("/a/../b//c//"), "/b/c/");
        assert_eq!(tidy("/"), "/");
    }
}
