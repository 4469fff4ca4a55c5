//! From the place of the file to the configuration: find, read, check, build.
//!
//! Invariant: the text of an error comes from here or from `build`, never from the YAML or the
//! schema library: theirs repeat what the file holds.

use std::path::{Path, PathBuf};

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::build::{Places, build};
use super::document::{Document, Unread};
use super::fingerprint::{ConfigFingerprint, FileState, read_bounded};
use super::problem::{ConfigError, KeyPath, Problems, Step};
use super::raw::RawConfig;
use super::{ConfigWarning, Environment, GatewayConfig, env_file, tidied, warning};

/// The JSON Schema of the file.
pub const SCHEMA: &str = include_str!("../../schemas/gateway-config.schema.json");

pub(super) const CONFIG_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Brackets of a config that may be open at once.
const BRACKETS_OPEN_MAX: usize = 500;

const FILE_NAME: &str = ".the-loop/gateway-config.yaml";

/// Where to look for the file.
#[derive(Debug, Clone)]
pub struct Search {
    /// The file that `--config` names; it must be there.
    pub explicit: Option<PathBuf>,
    /// The working directory.
    pub directory: PathBuf,
}

/// A configuration and what came with it.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: GatewayConfig,
    /// Where its secrets are looked up: the process, and behind it its env file.
    pub environment: Environment,
    /// What its files held.
    pub fingerprint: ConfigFingerprint,
    /// What the operator should hear.
    pub warnings: Vec<ConfigWarning>,
}

/// Finds and loads the configuration; without a file the built-in defaults hold, with a warning.
///
/// # Errors
/// When a file is there (or is named) and cannot be used.
pub fn load(search: &Search, environment: &Environment) -> Result<LoadedConfig, ConfigError> {
    match search.find(environment) {
        Ok(path) => load_file(&path, environment),
        Err(looked) => Ok(search.without_file(looked, environment)),
    }
}

impl LoadedConfig {
    /// The same without its warnings, which are told once.
    #[must_use]
    pub fn told(&self) -> Self {
        Self {
            config: self.config.clone(),
            environment: self.environment.clone(),
            fingerprint: self.fingerprint,
            warnings: Vec::new(),
        }
    }
}

impl Search {
    /// The file to read: named, or the first that is there; else the places that were looked at.
    fn find(&self, environment: &Environment) -> Result<PathBuf, Vec<PathBuf>> {
        let home = environment.home();
        if let Some(named) = self.explicit.clone().or_else(|| environment.config_path()) {
            let below_home = named.strip_prefix("~").ok().zip(home.as_ref());
            let named = below_home
                .map(|(rest, home)| home.join(rest))
                .unwrap_or(named);
            return Ok(tidied(&self.directory.join(named)));
        }
        let mut looked = vec![self.directory.join(FILE_NAME)];
        looked.extend(home.map(|home| home.join(FILE_NAME)));
        let there = looked
            .iter()
            .find(|path| path.symlink_metadata().is_ok())
            .cloned();
        there.ok_or(looked)
    }

    fn without_file(&self, looked: Vec<PathBuf>, environment: &Environment) -> LoadedConfig {
        let home = environment.home();
        LoadedConfig {
            config: GatewayConfig::below_home(home.as_deref().unwrap_or(&self.directory)),
            environment: environment.clone(),
            fingerprint: ConfigFingerprint::look(None, None),
            warnings: vec![ConfigWarning::NoFile { looked }],
        }
    }
}

/// Loads one file; `path` is absolute.
pub(super) fn load_file(
    path: &Path,
    environment: &Environment,
) -> Result<LoadedConfig, ConfigError> {
    let read = read_bounded(path, CONFIG_FILE_BYTES_MAX);
    let config_state = FileState::of(&read);
    let text = read
        .and_then(|read| read.text())
        .map_err(|fault| ConfigError::Unreadable {
            path: path.to_owned(),
            fault,
        })?;
    let config = parse(&text, &Places::of(path, environment.home()))?;
    let mut warnings = warning::of_config(&config);
    let mut environment = environment.with_file(env_file::EnvFile::default());
    let mut env_file_state = FileState::Absent;
    if let Some(env_path) = &config.env_file {
        let read = env_file::read(env_path);
        environment = environment.with_file(read.file);
        env_file_state = read.state;
        warnings.extend(read.warnings.into_iter().map(ConfigWarning::from));
    }
    let fingerprint = ConfigFingerprint {
        config: config_state,
        env_file: env_file_state,
    };
    Ok(LoadedConfig {
        config,
        environment,
        fingerprint,
        warnings,
    })
}

/// What can be read of a configuration that cannot be used, to find the gateway that runs on an
/// earlier content of it; none when that does not tell its state root.
pub fn salvage(search: &Search, environment: &Environment) -> Option<GatewayConfig> {
    let path = search.find(environment).ok()?;
    let text = read_bounded(&path, CONFIG_FILE_BYTES_MAX).and_then(|read| read.text());
    let read = read(&text.ok()?, &Places::of(&path, environment.home()));
    let is_known = !read.problems.spoil_any_of(&["state.root"]);
    is_known.then_some(read.config)
}

/// A file as far as it can be read, and what is wrong with it.
struct Read {
    document: Document,
    config: GatewayConfig,
    problems: Problems,
    exposures: Problems,
}

/// Checks and builds the text of a file that stands at these places.
fn parse(text: &str, places: &Places) -> Result<GatewayConfig, ConfigError> {
    let Read {
        document,
        config,
        mut problems,
        exposures,
    } = read(text, places);
    let exposed_only = problems.is_empty();
    problems.append(exposures);
    if problems.is_empty() {
        return Ok(config);
    }
    let path = places.file.clone();
    let problems = problems.into_sorted(|at| document.position(at), |at| document.show(at));
    if exposed_only {
        Err(ConfigError::Exposed { path, problems })
    } else {
        Err(ConfigError::Invalid { path, problems })
    }
}

fn read(text: &str, places: &Places) -> Read {
    let mut problems = Problems::default();
    let document = read_document(text).unwrap_or_else(|message| {
        problems.spoil(KeyPath::default(), message);
        Document::empty()
    });
    let (mut value, unseen_by_schema) = document.to_value();
    problems.append(unseen_by_schema);
    problems.append(check_schema(&value, &problems));
    prune(&mut value, &problems);
    let raw: RawConfig = serde_json::from_value(value).unwrap_or_else(|_| {
        problems.spoil(
            KeyPath::default(),
            "does not have the shape of a gateway config",
        );
        RawConfig::default()
    });
    let (config, exposures) = build(raw, places, &mut problems);
    Read {
        document,
        config,
        problems,
        exposures,
    }
}

/// The YAML library takes longer with the square of the brackets that are open. A bracket within a
/// quoted text counts too: no config has so many of either.
fn is_nested_too_deeply(text: &str) -> bool {
    let mut open = 0_usize;
    text.bytes().any(|byte| {
        match byte {
            b'[' | b'{' => open = open.saturating_add(1),
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        open > BRACKETS_OPEN_MAX
    })
}

/// The only call of the YAML library; its message is not used, only the place.
fn read_document(text: &str) -> Result<Document, String> {
    if is_nested_too_deeply(text) {
        return Err(format!(
            "has more than {BRACKETS_OPEN_MAX} brackets open at once"
        ));
    }
    Document::read(serde_yaml::Deserializer::from_str(text)).map_err(|unread| match unread {
        Unread::TooLarge => "is too large once its aliases are followed".to_owned(),
        Unread::Broken(error) => match error.location() {
            Some(at) => {
                let (line, column) = (at.line(), at.column());
                format!("is not one well-formed YAML document (line {line}, column {column})")
            }
            None => "is not one well-formed YAML document".to_owned(),
        },
    })
}

/// What the schema finds, except at places that are known to be wrong.
fn check_schema(value: &Value, known: &Problems) -> Problems {
    let mut found = Problems::default();
    let schema = serde_json::from_str(SCHEMA).unwrap_or(Value::Bool(false));
    let Ok(validator) = jsonschema::validator_for(&schema) else {
        found.add(
            KeyPath::default(),
            "cannot be checked: the built-in schema is broken",
        );
        return found;
    };
    let errors: Vec<ValidationError<'_>> = validator.iter_errors(value).collect();
    let mistyped: Vec<KeyPath> = errors
        .iter()
        .filter(|error| matches!(error.kind(), ValidationErrorKind::Type { .. }))
        .map(path_of)
        .collect();
    for error in &errors {
        let path = path_of(error);
        let is_type = matches!(error.kind(), ValidationErrorKind::Type { .. });
        if !is_type && mistyped.contains(&path) || known.spoiled().any(|at| *at == path) {
            continue;
        }
        if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
            for key in unexpected {
                found.add(path.join(key.as_str()), "unknown key");
            }
            continue;
        }
        let message = describe(error.kind(), error.instance());
        if is_about_the_whole(error.kind()) {
            found.add(path, message);
        } else {
            found.spoil(path, message);
        }
    }
    found
}

/// True when the parts of the value are worth a look all the same.
const fn is_about_the_whole(kind: &ValidationErrorKind) -> bool {
    matches!(
        kind,
        ValidationErrorKind::Required { .. }
            | ValidationErrorKind::UniqueItems
            | ValidationErrorKind::MinItems { .. }
            | ValidationErrorKind::MaxItems { .. }
    )
}

fn path_of(error: &ValidationError<'_>) -> KeyPath {
    use jsonschema::paths::LocationSegment;
    let steps = error
        .instance_path()
        .segments()
        .map(|segment| match segment {
            LocationSegment::Property(key) => Step::Key(key.into_owned()),
            LocationSegment::Index(index) => Step::Index(index),
        });
    KeyPath(steps.collect())
}

const ENV_NAME_PATTERN: &str = "^[A-Z][A-Z0-9_]*$";

/// What is wrong, in words that hold nothing of the value but its kind.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the library may add keywords; ours are named"
)]
fn describe(kind: &ValidationErrorKind, value: &Value) -> String {
    match kind {
        ValidationErrorKind::Type { kind } => {
            let (expected, found) = (expected_types(kind), type_name(value));
            format!("expected {expected}, got {found}")
        }
        ValidationErrorKind::Required { property } => {
            let key = property.as_str().unwrap_or_default();
            format!("missing required key '{key}'")
        }
        ValidationErrorKind::Constant { expected_value } => format!("is not {expected_value}"),
        ValidationErrorKind::Enum { options } => format!("is not one of {}", joined(options)),
        ValidationErrorKind::Pattern { pattern } if pattern == ENV_NAME_PATTERN => format!(
            "does not match {pattern} (name the environment variable, never the value itself)"
        ),
        ValidationErrorKind::Pattern { pattern } => format!("does not match {pattern}"),
        ValidationErrorKind::Minimum { limit } => format!("is below the minimum {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("is above the maximum {limit}"),
        ValidationErrorKind::MinLength { limit } => format!("needs at least {limit} character(s)"),
        ValidationErrorKind::MaxLength { limit } => format!("may have {limit} characters at most"),
        ValidationErrorKind::MinItems { limit } => format!("needs at least {limit} item(s)"),
        ValidationErrorKind::MaxItems { limit } => format!("may have {limit} items at most"),
        ValidationErrorKind::UniqueItems => "entries must be unique".to_owned(),
        other => format!("breaks the rule {}", other.keyword()),
    }
}

fn expected_types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(several) => several
            .iter()
            .map(|one| one.to_string())
            .collect::<Vec<_>>()
            .join(" or "),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn joined(options: &Value) -> String {
    let options = options.as_array().into_iter().flatten();
    options
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Takes out what is wrong, so that the rest can be built and checked in the same pass.
///
/// An element of a list becomes null, which keeps the others at their place.
fn prune(value: &mut Value, problems: &Problems) {
    for path in problems.spoiled() {
        let Some((last, parents)) = path.0.split_last() else {
            if !value.is_object() {
                *value = Value::Object(serde_json::Map::new());
            }
            continue;
        };
        let parent = parents
            .iter()
            .try_fold(&mut *value, |node, step| match step {
                Step::Key(key) => node.get_mut(key),
                Step::Index(index) => node.get_mut(index),
            });
        match (parent, last) {
            (Some(Value::Object(entries)), Step::Key(key)) => {
                entries.remove(key);
            }
            (Some(Value::Array(items)), Step::Index(index)) => {
                if let Some(item) = items.get_mut(*index) {
                    *item = Value::Null;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
