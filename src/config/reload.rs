//! Taking up a changed file while the gateway runs.

use super::load::load_file;
use super::{ConfigError, ConfigFingerprint, FileChange, LoadedConfig};

/// What a look at the files of a running configuration found.
#[derive(Debug)]
pub enum Reload {
    /// They hold what they held at the last look.
    Unchanged,
    /// One of them is not there: what is loaded stays.
    Vanished,
    /// A new configuration.
    Loaded(Box<LoadedConfig>),
    /// The new content cannot be used: what is loaded stays.
    Failed {
        /// Why.
        error: ConfigError,
        /// What was seen, so that the same content is not tried again.
        seen: ConfigFingerprint,
    },
}

impl LoadedConfig {
    /// Looks at the files and loads them when they changed since `last_seen`: the fingerprint of
    /// what is loaded, or of the last failure.
    #[must_use]
    pub fn reload(&self, last_seen: &ConfigFingerprint) -> Reload {
        let Some(path) = &self.config.path else {
            return Reload::Unchanged;
        };
        let seen = ConfigFingerprint::look(Some(path), self.config.env_file.as_deref());
        match seen.change_since(last_seen) {
            FileChange::Unchanged => Reload::Unchanged,
            FileChange::Vanished => Reload::Vanished,
            FileChange::Changed => match load_file(path, &self.environment) {
                Ok(newer) if newer.lost_env_file_of(self) => Reload::Vanished,
                Ok(newer) => Reload::Loaded(Box::new(newer)),
                Err(error) => Reload::Failed { error, seen },
            },
        }
    }

    /// The parts that differ from an earlier configuration, by the keys of the file.
    #[must_use]
    pub fn changes_since(&self, earlier: &Self) -> Vec<&'static str> {
        let (old, new) = (&earlier.config, &self.config);
        let [old_files, new_files] = [&earlier.fingerprint, &self.fingerprint];
        let is_env_different =
            old.env_file != new.env_file || old_files.env_file != new_files.env_file;
        let (ours, ours_now) = (&old.declared, &new.declared);
        let jira_is_different =
            ours.jira_site != ours_now.jira_site || ours.jira_projects != ours_now.jira_projects;
        let differs = [
            ("env", is_env_different),
            ("state", old.state_root != new.state_root),
            ("listen", old.listen != new.listen),
            (
                "store",
                old.store != new.store || old.store_path != new.store_path,
            ),
            ("consume", old.consume != new.consume),
            ("repositories", ours.repositories != ours_now.repositories),
            ("github", old.github != new.github),
            ("jira", old.jira != new.jira || jira_is_different),
            (
                "slack",
                old.slack != new.slack || !ours.has_the_rooms_of(ours_now),
            ),
            ("instances", old.instances != new.instances),
            ("observability", old.observability != new.observability),
        ];
        differs
            .into_iter()
            .filter_map(|(name, differs)| differs.then_some(name))
            .collect()
    }

    fn lost_env_file_of(&self, earlier: &Self) -> bool {
        self.config.env_file == earlier.config.env_file
            && self.fingerprint.lost_env_file(&earlier.fingerprint)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::config::{EnvName, Environment, Search, load};

    struct Files {
        directory: tempfile::TempDir,
    }

    impl Files {
        fn new(config: &str) -> Self {
            let files = Self {
                directory: tempfile::tempdir().unwrap(),
            };
            files.write("gateway-config.yaml", config);
            files
        }

        fn at(&self, name: &str) -> PathBuf {
            self.directory.path().join(name)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.at(name), text).unwrap();
        }

        fn load(&self) -> LoadedConfig {
            let explicit = Some(self.at("gateway-config.yaml"));
            let search = Search {
                explicit,
                directory: PathBuf::from("/"),
            };
            load(&search, &Environment::given([("HOME", "/home/ada")])).unwrap()
        }
    }

    fn reloaded(running: &LoadedConfig) -> LoadedConfig {
        let reload = running.reload(&running.fingerprint);
        let Reload::Loaded(newer) = reload else {
            panic!("{reload:?}")
        };
        *newer
    }

    #[test]
    fn a_changed_file_is_loaded_and_an_unchanged_one_is_not() {
        let files = Files::new("listen: {port: 1}");
        let running = files.load();
        assert!(matches!(
            running.reload(&running.fingerprint),
            Reload::Unchanged
        ));
        files.write("gateway-config.yaml", "listen: {port: 2}");
        let newer = reloaded(&running);
        assert_eq!(newer.config.listen.address.port, 2);
        assert!(matches!(
            newer.reload(&newer.fingerprint),
            Reload::Unchanged
        ));
    }

    #[test]
    fn a_bad_edit_fails_once_and_its_repair_is_loaded() {
        let files = Files::new("listen: {port: 1}");
        let running = files.load();
        files.write("gateway-config.yaml", "listen: {port: x}");
        let Reload::Failed { error, seen } = running.reload(&running.fingerprint) else {
            panic!("it must fail")
        };
        assert!(error.to_string().contains("listen.port"));
        assert!(matches!(running.reload(&seen), Reload::Unchanged));
        files.write("gateway-config.yaml", "listen: {port: 1}");
        assert!(matches!(running.reload(&seen), Reload::Loaded(_)));
    }

    #[test]
    fn a_secret_that_changed_in_the_env_file_is_loaded() {
        let files = Files::new("env: {file: the-loop.env}");
        files.write("the-loop.env", "A=1");
        let running = files.load();
        files.write("the-loop.env", "A=2");
        let newer = reloaded(&running);
        let name = EnvName::parse("A").unwrap();
        assert_eq!(newer.environment.secret(&name).expose(), Some("2"));
        assert_eq!(running.environment.secret(&name).expose(), Some("1"));
    }

    #[test]
    fn a_file_that_vanished_keeps_what_is_loaded() {
        let gone = |path: &Path| fs::rename(path, path.with_extension("away")).unwrap();
        let files = Files::new("env: {file: the-loop.env}");
        files.write("the-loop.env", "A=1");
        let running = files.load();
        gone(&files.at("the-loop.env"));
        assert!(matches!(
            running.reload(&running.fingerprint),
            Reload::Vanished
        ));
        files.write(
            "gateway-config.yaml",
            "{env: {file: the-loop.env}, listen: {port: 1}}",
        );
        assert!(matches!(
            running.reload(&running.fingerprint),
            Reload::Vanished
        ));
        files.write(
            "gateway-config.yaml",
            "{env: {file: other.env}, listen: {port: 1}}",
        );
        assert!(matches!(
            running.reload(&running.fingerprint),
            Reload::Loaded(_)
        ));
        gone(&files.at("gateway-config.yaml"));
        assert!(matches!(
            running.reload(&running.fingerprint),
            Reload::Vanished
        ));
    }

    #[test]
    fn without_a_file_nothing_is_reloaded() {
        let search = Search {
            explicit: None,
            directory: PathBuf::from("/nowhere"),
        };
        let running = load(&search, &Environment::given([("HOME", "/nowhere")])).unwrap();
        assert!(matches!(
            running.reload(&running.fingerprint),
            Reload::Unchanged
        ));
    }
}
