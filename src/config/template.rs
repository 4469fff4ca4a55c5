//! The two files that `init` writes, and the writing itself.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::Secret;
use crate::providers::RepositoryPattern;

const CONFIG: &str = include_str!("templates/gateway-config.yaml");
const ENV: &str = include_str!("templates/the-loop.env");
const SECRET_BYTES: usize = 32;
const OWNER_ONLY: u32 = 0o600;

/// What `init` was told.
#[derive(Debug, Clone)]
pub struct InitChoices {
    /// The repositories to declare.
    pub repositories: Vec<RepositoryPattern>,
    /// The env file, as the config file names it.
    pub env_file: String,
    /// The port of the API and the dashboard.
    pub port: u16,
    /// The port that a tunnel for webhooks leads to.
    pub ingress_port: u16,
}

impl Default for InitChoices {
    fn default() -> Self {
        Self {
            repositories: Vec::new(),
            env_file: "the-loop.env".to_owned(),
            port: 8790,
            ingress_port: 8791,
        }
    }
}

/// The commented config file.
#[must_use]
pub fn render_config(choices: &InitChoices) -> String {
    let repositories: Vec<String> = choices.repositories.iter().map(repository).collect();
    CONFIG
        .replace("@repositories@", &quoted(&repositories))
        .replace("@env_file@", &quoted(&choices.env_file))
        .replace("@port@", &choices.port.to_string())
        .replace("@ingress_port@", &choices.ingress_port.to_string())
}

/// The commented env file, with the secret for GitHub's webhook in it.
#[must_use]
pub fn render_env(secret: &Secret) -> String {
    ENV.replace(
        "@github_webhook_secret@",
        secret.expose().unwrap_or_default(),
    )
}

/// A random secret of 32 bytes in hexadecimal.
///
/// # Errors
/// When the system has no random bytes to give.
pub fn new_secret() -> Result<Secret, getrandom::Error> {
    let mut bytes = [0; SECRET_BYTES];
    getrandom::fill(&mut bytes)?;
    Ok(Secret::new(&hex::encode(bytes)))
}

/// Writes a file that only its owner may read; one that exists, even as a dangling link, stays.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`], or why it could not be written; then no part of it stays.
pub fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        fs::remove_file(path)?;
    }
    written
}

fn repository(pattern: &RepositoryPattern) -> String {
    let RepositoryPattern { host, owner, repo } = pattern;
    let name = format!("{owner}/{}", repo.as_deref().unwrap_or("*"));
    if host == "github.com" {
        name
    } else {
        format!("{host}/{name}")
    }
}

/// A value as JSON, which is YAML too, so that no text of the caller is read as more than text.
fn quoted<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::config::load::tests::loaded;
    use crate::config::{Address, EnvFile, EnvName};

    #[test]
    fn the_config_that_init_writes_is_valid_and_loads_as_chosen() {
        let repositories = ["octo/repo", "acme/*", "ghe.corp.example:8443/octo/other"];
        let choices = InitChoices {
            repositories: repositories
                .map(|text| RepositoryPattern::parse(text).unwrap())
                .into(),
            ..InitChoices::default()
        };
        let config = loaded(&render_config(&choices)).config;
        assert_eq!(config.declared.repositories, choices.repositories);
        assert_eq!(
            config.env_file.unwrap().file_name().unwrap(),
            "the-loop.env"
        );
        assert_eq!(config.listen.address.port, 8790);
        let ingress = Address {
            host: "127.0.0.1".to_owned(),
            port: 8791,
        };
        assert_eq!(config.listen.ingress, Some(ingress));
        assert!(config.github.webhook.enabled);
    }

    #[test]
    fn every_commented_key_of_the_template_is_valid_when_it_is_switched_on() {
        let uncommented: String = render_config(&InitChoices::default())
            .lines()
            .map(|line| line.replacen("#~ ", "", 1) + "\n")
            .collect();
        assert!(uncommented.contains("\nslack:\n"));
        loaded(&uncommented);
    }

    #[test]
    fn the_env_file_that_init_writes_holds_the_secret_alone() {
        let secret = new_secret().unwrap();
        let file = EnvFile::parse(&render_env(&secret));
        assert!(file.malformed_lines().is_empty());
        let value = file.value(EnvName::GITHUB_WEBHOOK.as_str()).unwrap();
        assert_eq!(value.len(), 2 * SECRET_BYTES);
        assert_eq!(Some(value), secret.expose());
        assert_ne!(new_secret().unwrap().expose(), Some(value));
    }

    #[test]
    fn a_new_file_belongs_to_its_owner_and_an_old_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        write_new(&path, b"one").unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let refused = write_new(&path, b"two").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let link = directory.path().join("link");
        symlink(directory.path().join("nowhere"), &link).unwrap();
        assert!(write_new(&link, b"three").is_err());
        assert!(!directory.path().join("nowhere").try_exists().unwrap());
    }
}
