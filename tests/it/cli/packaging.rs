//! The files of `packaging/`, held against what the program really does.

use std::path::Path;
use std::process::Command;

use super::program::Home;

fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The values of a key of the unit.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines
        .filter_map(|(own, value)| (own == key).then_some(value))
        .collect()
}

/// Runs a packaged command line over a config that is not there: far enough to see that it is
/// understood, and that it ends with the code that a wrong config has.
fn assert_understood(arguments: &[&str]) {
    let ended = Home::new().run(arguments);
    assert_eq!(ended.code, Some(2), "{}", ended.err);
    let is_config = ended
        .err
        .contains("/etc/the-loop-gateway/gateway-config.yaml");
    assert!(is_config, "{}", ended.err);
}

#[test]
fn the_unit_runs_the_program_as_it_wants_to_be_run() {
    let unit = packaged("the-loop-gateway.service");
    let command = values(&unit, "ExecStart")[0];
    let arguments: Vec<&str> = command.split(' ').skip(1).collect();
    assert_understood(&arguments);
    assert_eq!(values(&unit, "Type"), ["notify"]);
    // A wrong config is not mended by starting again.
    assert_eq!(values(&unit, "RestartPreventExitStatus"), ["2"]);
    // Longer than any stop in order.
    let stop: u64 = values(&unit, "TimeoutStopSec")[0].parse().unwrap();
    assert!(stop > 10);
}

#[test]
fn systemd_accepts_the_unit() {
    let has_systemd = Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok();
    if !has_systemd {
        println!("SKIPPED: no systemd-analyze");
        return;
    }
    let home = Home::new();
    let unit = packaged("the-loop-gateway.service");
    // Where this machine has the program; nothing is installed for a test.
    let unit = unit.replace(
        "/usr/local/bin/the-loop-gateway",
        env!("CARGO_BIN_EXE_the-loop-gateway"),
    );
    let path = home.write("the-loop-gateway.service", &unit);
    let verified = Command::new("systemd-analyze")
        .args(["--man=no", "--generators=no", "verify"])
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{said}");
    let about_ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("the-loop-gateway.service"))
        .collect();
    assert_eq!(about_ours, Vec::<&str>::new());
}

#[test]
fn the_image_runs_the_program_as_it_wants_to_be_run() {
    let file = packaged("Dockerfile");
    let line = |word: &str| {
        let line = file.lines().find_map(|line| line.strip_prefix(word));
        line.unwrap_or_else(|| panic!("no {word}"))
            .trim()
            .to_owned()
    };
    let entry: Vec<String> = serde_json::from_str(&line("ENTRYPOINT")).unwrap();
    assert_eq!(entry, ["the-loop-gateway"]);
    let arguments: Vec<String> = serde_json::from_str(&line("CMD")).unwrap();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert_understood(&arguments);
    assert_eq!(line("STOPSIGNAL"), "SIGTERM");
    assert_eq!(line("EXPOSE"), "8790 8791");
    // The toolchain of the image is the one of the repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pinned = std::fs::read_to_string(root.join("rust-toolchain.toml")).unwrap();
    let image = line("FROM");
    let version = image
        .strip_prefix("rust:")
        .unwrap()
        .split('-')
        .next()
        .unwrap();
    assert!(
        pinned.contains(&format!("\"{version}")),
        "{image}: {pinned}"
    );
}
