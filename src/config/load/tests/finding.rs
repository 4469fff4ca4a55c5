//! Which file is read, and what it is read through.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::config::{EnvName, ReadFault};

struct Machine {
    _root: tempfile::TempDir,
    work: PathBuf,
    home: PathBuf,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let (work, home) = (root.path().join("work"), root.path().join("home"));
        for directory in [&work, &home] {
            fs::create_dir_all(directory.join(".the-loop")).unwrap();
        }
        Self {
            work,
            home,
            _root: root,
        }
    }

    fn write(path: &Path, port: u16) {
        fs::write(path, format!("listen: {{port: {port}}}")).unwrap();
    }

    fn search(&self, explicit: Option<&str>, variables: &[(&str, &str)]) -> LoadedConfig {
        self.try_search(explicit, variables).unwrap()
    }

    fn try_search(
        &self,
        explicit: Option<&str>,
        variables: &[(&str, &str)],
    ) -> Result<LoadedConfig, ConfigError> {
        let search = Search {
            explicit: explicit.map(PathBuf::from),
            directory: self.work.clone(),
        };
        let home = [("HOME", self.home.to_str().unwrap())];
        load(
            &search,
            &Environment::given(home.into_iter().chain(variables.iter().copied())),
        )
    }
}

#[test]
fn every_path_is_tidied() {
    let places = Machine::new();
    let file = places.work.join("etc/gateway.yaml");
    fs::create_dir(places.work.join("etc")).unwrap();
    fs::write(
        &file,
        "{state: {root: ./a/..//b}, store: {path: c/./d/../e.db}, env: {file: ../x//y.env}}",
    )
    .unwrap();
    let loaded = places.search(Some("./etc/../etc//gateway.yaml"), &[]);
    let below = |path: &str| places.work.join(path).into_os_string();
    let GatewayConfig {
        path,
        state_root,
        store_path,
        env_file,
        ..
    } = loaded.config;
    // Compared as texts: to a path `a/./b` is the same as `a/b`.
    for (found, tidy) in [
        (path.unwrap(), "etc/gateway.yaml"),
        (state_root, "etc/b"),
        (store_path, "etc/b/c/e.db"),
        (env_file.unwrap(), "x/y.env"),
    ] {
        assert_eq!(found.into_os_string(), below(tidy));
    }
}

#[test]
fn the_first_of_the_four_places_is_read() {
    let places = Machine::new();
    let port = |explicit: Option<&str>, variable: &str| {
        let loaded = places.search(explicit, &[("THE_LOOP_GATEWAY_CONFIG", variable)]);
        loaded.config.listen.address.port
    };
    assert_eq!(port(None, ""), 8790);
    Machine::write(&places.home.join(FILE_NAME), 4);
    assert_eq!(port(None, ""), 4);
    Machine::write(&places.work.join(FILE_NAME), 3);
    assert_eq!(port(None, ""), 3);
    Machine::write(&places.home.join("named.yaml"), 2);
    assert_eq!(port(None, "~/named.yaml"), 2);
    Machine::write(&places.work.join("explicit.yaml"), 1);
    assert_eq!(port(Some("explicit.yaml"), "~/named.yaml"), 1);
}

#[test]
fn without_a_file_the_defaults_hold_and_it_is_said() {
    let places = Machine::new();
    let loaded = places.search(None, &[]);
    assert_eq!(loaded.config.path, None);
    assert_eq!(
        loaded.config.state_root,
        places.home.join(".the-loop/gateway")
    );
    let [warning] = loaded.warnings.as_slice() else {
        panic!("{:?}", loaded.warnings)
    };
    let text = warning.to_string();
    assert!(
        text.contains("no gateway config found") && text.contains(FILE_NAME),
        "{text}"
    );
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let places = Machine::new();
    let variable = [("THE_LOOP_GATEWAY_CONFIG", "missing.yaml")];
    for (explicit, variables) in [(Some("missing.yaml"), &[][..]), (None, &variable[..])] {
        let error = places.try_search(explicit, variables).unwrap_err();
        assert!(matches!(
            &error,
            ConfigError::Unreadable {
                fault: ReadFault::Io(_),
                ..
            }
        ));
        assert!(error.to_string().contains("work/missing.yaml"), "{error}");
    }
}

#[test]
fn what_is_no_text_file_of_bounded_size_is_refused() {
    let places = Machine::new();
    let at = |name: &str| places.work.join(name);
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("bytes"), b"\xff").unwrap();
    fs::write(at("large"), vec![b'#'; 1024 * 1024 + 1]).unwrap();
    symlink("nowhere", at(FILE_NAME)).unwrap();
    for (explicit, expected) in [
        (Some("directory"), "not a regular file"),
        (Some("bytes"), "not UTF-8"),
        (Some("large"), "larger than 1048576 bytes"),
        (None, "No such file"),
    ] {
        let error = places.try_search(explicit, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    fs::write(at("largest"), vec![b'#'; 1024 * 1024]).unwrap();
    places.search(Some("largest"), &[]);
}

#[test]
fn relative_paths_start_beside_the_link_and_not_beside_its_target() {
    let places = Machine::new();
    fs::create_dir(places.work.join("data")).unwrap();
    fs::write(
        places.work.join("data/real.yaml"),
        "env: {file: the-loop.env}",
    )
    .unwrap();
    fs::write(places.work.join("the-loop.env"), "A=1").unwrap();
    symlink("data/real.yaml", places.work.join("linked.yaml")).unwrap();
    let loaded = places.search(Some("linked.yaml"), &[]);
    assert_eq!(loaded.config.path, Some(places.work.join("linked.yaml")));
    assert_eq!(
        loaded.config.env_file,
        Some(places.work.join("the-loop.env"))
    );
    let name = EnvName::parse("A").unwrap();
    assert_eq!(loaded.environment.secret(&name).expose(), Some("1"));
}

#[test]
fn an_env_file_that_is_not_there_is_a_warning() {
    let places = Machine::new();
    fs::write(places.work.join("c.yaml"), "env: {file: ~/missing.env}").unwrap();
    let warnings = places.search(Some("c.yaml"), &[]).warnings;
    let expected = places.home.join("missing.env");
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].to_string().contains(expected.to_str().unwrap()),
        "{}",
        warnings[0]
    );
}

#[test]
fn the_store_stays_below_the_state_root_through_every_link() {
    let places = Machine::new();
    let root = places.work.join("state");
    fs::create_dir_all(root.join("inside")).unwrap();
    symlink(&places.home, root.join("outside")).unwrap();
    symlink(&root, places.work.join("root-link")).unwrap();
    for (state_root, store_path, is_valid) in [
        ("state", "inside/gateway.db", true),
        ("state", "inside/../gateway.db", true),
        ("root-link", "gateway.db", true),
        ("root-link", root.join("gateway.db").to_str().unwrap(), true),
        ("state", "outside/gateway.db", false),
        ("state", "inside/../../gateway.db", false),
        ("state", "../state-two/gateway.db", false),
    ] {
        let text = format!("{{state: {{root: {state_root}}}, store: {{path: {store_path}}}}}");
        fs::write(places.work.join("c.yaml"), text).unwrap();
        let result = places.try_search(Some("c.yaml"), &[]);
        assert_eq!(result.is_ok(), is_valid, "{state_root} {store_path}");
    }
}
