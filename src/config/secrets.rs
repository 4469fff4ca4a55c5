//! Secrets: found by the name of an environment variable, held, never shown.
//!
//! This is the only reader of the environment of the process. Where the file of `env.file` and the
//! process name the same variable, the process wins, even with an empty value.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::EnvFile;
use crate::domain::ParseError;

/// The name of an environment variable: `^[A-Z][A-Z0-9_]*$`, at most 128 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvName(Cow<'static, str>);

const ENV_NAME_BYTES_MAX: usize = 128;

impl EnvName {
    pub(super) const GITHUB_WEBHOOK: Self = Self(Cow::Borrowed("THE_LOOP_GH_WEBHOOK_SECRET"));
    pub(super) const GITHUB_TOKEN: Self = Self(Cow::Borrowed("GITHUB_TOKEN"));
    pub(super) const JIRA_WEBHOOK: Self = Self(Cow::Borrowed("THE_LOOP_JIRA_WEBHOOK_SECRET"));
    pub(super) const SLACK_APP_TOKEN: Self = Self(Cow::Borrowed("THE_LOOP_SLACK_APP_TOKEN"));
    pub(super) const SLACK_BOT_TOKEN: Self = Self(Cow::Borrowed("THE_LOOP_SLACK_BOT_TOKEN"));
    pub(super) const SLACK_SIGNING_SECRET: Self = Self(Cow::Borrowed("SLACK_SIGNING_SECRET"));

    /// Parses a name.
    ///
    /// # Errors
    /// When the text is no such name; the error does not repeat it, for it may be a secret.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let well_formed = text.starts_with(|c: char| c.is_ascii_uppercase())
            && text
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            && text.len() <= ENV_NAME_BYTES_MAX;
        if well_formed {
            Ok(Self(Cow::Owned(text.to_owned())))
        } else {
            Err(ParseError("must match ^[A-Z][A-Z0-9_]*$"))
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of a secret variable, or the knowledge that it has none.
///
/// Not `Clone`: whoever needs it again asks the [`Environment`] again. Shown as `set` or `unset`.
pub struct Secret(Option<Box<str>>);

impl Secret {
    /// A secret with this value; a blank one is unset.
    ///
    /// Line breaks at its end are cut off: no provider issues such a secret, and one that is
    /// mounted from a file often has them.
    #[must_use]
    pub fn new(value: &str) -> Self {
        let value = value.trim_end_matches(['\r', '\n']);
        Self((!value.trim().is_empty()).then(|| value.into()))
    }

    /// True when there is a value that is not blank.
    #[must_use]
    pub const fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// The value, for a signature or a header.
    #[must_use]
    pub fn expose(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "set" } else { "unset" })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({self})")
    }
}

/// Where variables are looked up: the process, and behind it the file of `env.file`.
#[derive(Clone)]
pub struct Environment {
    process: Process,
    file: Arc<EnvFile>,
}

#[derive(Clone)]
enum Process {
    Real,
    Given(Arc<BTreeMap<String, String>>),
}

impl Environment {
    /// The variables of this process.
    #[must_use]
    pub fn process() -> Self {
        Self {
            process: Process::Real,
            file: Arc::default(),
        }
    }

    /// Exactly these variables, in place of those of the process.
    #[must_use]
    pub fn given<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let variables = variables.into_iter().map(owned).collect();
        Self {
            process: Process::Given(Arc::new(variables)),
            file: Arc::default(),
        }
    }

    /// The same process with this file behind it, in place of any other file.
    #[must_use]
    pub fn with_file(&self, file: EnvFile) -> Self {
        Self {
            process: self.process.clone(),
            file: Arc::new(file),
        }
    }

    /// The value of a variable.
    #[must_use]
    pub fn secret(&self, name: &EnvName) -> Secret {
        match self.variable(name.as_str()) {
            Some(value) => Secret::new(value.to_str().unwrap_or_default()),
            None => Secret::new(self.file.value(name.as_str()).unwrap_or_default()),
        }
    }

    /// The current secret and, when it is set, the previous one; without a current one, none.
    pub(super) fn current_and_previous(
        &self,
        current: &EnvName,
        previous: Option<&EnvName>,
    ) -> Vec<Secret> {
        let current = self.secret(current);
        if !current.is_set() {
            return Vec::new();
        }
        let previous = previous
            .map(|name| self.secret(name))
            .filter(Secret::is_set);
        [current].into_iter().chain(previous).collect()
    }

    /// The home directory, when it is known.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        let named = self
            .variable("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        match self.process {
            Process::Real => named.or_else(std::env::home_dir),
            Process::Given(_) => named,
        }
    }

    /// The path that `$THE_LOOP_GATEWAY_CONFIG` names, unless it is empty.
    pub(super) fn config_path(&self) -> Option<PathBuf> {
        let path = self.variable("THE_LOOP_GATEWAY_CONFIG")?;
        (!path.is_empty()).then(|| PathBuf::from(path))
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        match &self.process {
            Process::Real => std::env::var_os(name),
            Process::Given(variables) => variables.get(name).map(OsString::from),
        }
    }
}

/// Says where it looks, never what is there.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "xoxb-not-a-real-token";

    fn name(text: &str) -> EnvName {
        EnvName::parse(text).unwrap()
    }

    #[test]
    fn a_secret_is_shown_as_set_or_unset() {
        let secret = Secret::new(TOKEN);
        assert_eq!(format!("{secret} {secret:?}"), "set Secret(set)");
        let blank = Secret::new("  ");
        assert_eq!(format!("{blank} {blank:?}"), "unset Secret(unset)");
        assert!(blank.expose().is_none());
    }

    #[test]
    fn only_the_line_break_at_the_end_of_a_secret_is_cut_off() {
        assert_eq!(Secret::new(" a b \r\n").expose(), Some(" a b "));
    }

    #[test]
    fn the_process_wins_over_the_file_even_when_empty() {
        let file = EnvFile::parse("A=file\nB=file\nC=file\n");
        let environment = Environment::given([("A", "process"), ("B", "")]).with_file(file);
        assert_eq!(environment.secret(&name("A")).expose(), Some("process"));
        assert!(!environment.secret(&name("B")).is_set());
        assert_eq!(environment.secret(&name("C")).expose(), Some("file"));
        assert!(!environment.secret(&name("D")).is_set());
    }

    #[test]
    fn a_previous_secret_counts_only_beside_a_current_one() {
        let exposed = |environment: &Environment| -> Vec<String> {
            let secrets = environment.current_and_previous(&name("NEW"), Some(&name("OLD")));
            let values = secrets.iter().filter_map(Secret::expose);
            values.map(str::to_owned).collect()
        };
        let both = Environment::given([("NEW", "n"), ("OLD", "o")]);
        assert_eq!(exposed(&both), ["n", "o"]);
        assert_eq!(
            exposed(&Environment::given([("NEW", "n"), ("OLD", " ")])),
            ["n"]
        );
        assert!(exposed(&Environment::given([("OLD", "o")])).is_empty());
    }

    #[test]
    fn an_environment_does_not_show_its_values() {
        let file = EnvFile::parse(&format!("A={TOKEN}"));
        let environment = Environment::given([("B", TOKEN)]).with_file(file);
        assert!(!format!("{environment:?}").contains("xoxb"));
    }

    #[test]
    fn the_name_of_a_variable_is_upper_case_and_its_error_repeats_nothing() {
        for good in ["A", "GITHUB_TOKEN", "A1_"] {
            assert_eq!(name(good).as_str(), good);
        }
        let long = "A".repeat(129);
        for bad in ["", "a", "1A", "_A", "A-B", "A B", TOKEN, &long] {
            let error = EnvName::parse(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("xoxb"), "{bad}");
        }
    }

    #[test]
    fn the_real_environment_can_be_read() {
        assert!(
            !Environment::process()
                .secret(&name("THE_LOOP_NO_SUCH_VARIABLE"))
                .is_set()
        );
    }
}
