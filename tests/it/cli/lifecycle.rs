//! The gateway as a process in the background: started, stopped, started again, looked at.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::program::{Ended, Home, only_for_its_owner};
use super::{CONFIG, ENV_FILE};
use crate::support::Call;
use crate::support::gateway::wait_until;

const PID_FILE: &str = ".the-loop/gateway/gateway.pid";

/// A home whose gateway does not outlive the test.
struct Machine(Home);

impl Machine {
    /// One repository and the GitHub webhook, on free ports.
    fn new() -> Self {
        let machine = Self(Home::new());
        machine.configure("listen: {port: 0, ingress: {host: 127.0.0.1, port: 0}}");
        let variable = "THE_LOOP_GH_WEBHOOK_SECRET=not a secret\n";
        let path = machine.0.write(ENV_FILE, variable);
        only_for_its_owner(&path);
        machine
    }

    fn configure(&self, more: &str) {
        let config = format!(
            "version: '1'\n\
             env: {{file: the-loop.env}}\n\
             repositories: [octo/repo]\n\
             github: {{webhook: {{enabled: true}}}}\n\
             {more}\n"
        );
        self.0.write(CONFIG, &config);
    }

    /// Runs a verb, which must end with this code.
    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> Ended {
        let ended = self.0.run(arguments);
        let text = format!("{arguments:?}: {}{}", ended.out, ended.err);
        assert_eq!(ended.code, Some(code), "{text}");
        ended
    }

    #[track_caller]
    fn json(&self, verb: &str, code: i32) -> Value {
        let ended = self.run(&[verb, "--format", "json"], code);
        serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.out))
    }

    fn pid(&self) -> Option<i32> {
        let text = std::fs::read_to_string(self.0.path(PID_FILE)).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    }

    fn kill(&self) {
        if let Some(pid) = self.pid().and_then(Pid::from_raw) {
            // An error means that it has ended, which is what is wanted.
            kill_process(pid, Signal::KILL).unwrap_or_default();
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

fn port_of(url: &Value) -> u16 {
    let (_, port) = url.as_str().unwrap().rsplit_once(':').unwrap();
    port.parse().unwrap()
}

#[test]
fn it_starts_in_the_background_and_each_verb_can_be_repeated() {
    let machine = Machine::new();
    assert_eq!(machine.json("stop", 0)["outcome"], "not-running");
    let status = machine.json("status", 1);
    assert_eq!(
        (&status["running"], &status["pid"]),
        (&json!(false), &json!(0))
    );
    let started = machine.json("start", 0);
    assert_eq!(started["outcome"], "started");
    let pid = machine.pid().unwrap();
    assert_eq!(started["pid"], pid);
    Call::new(port_of(&started["url"]), "GET", "/api/v1/gateway/ready")
        .send()
        .assert(200);
    #[cfg(target_os = "linux")]
    {
        // After the name in brackets: state, parent, process group, session.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        assert_eq!(rest.split(' ').nth(3), Some(pid.to_string().as_str()));
    }
    let again = machine.json("start", 0);
    assert_eq!(again["outcome"], "already-running");
    assert_eq!(
        (&again["pid"], &again["url"]),
        (&started["pid"], &started["url"])
    );
    let log = std::fs::read_to_string(started["logfile"].as_str().unwrap()).unwrap();
    assert!(log.contains("listening on http://127.0.0.1:"), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
    let stopped = machine.run(&["stop"], 0).out;
    assert!(
        stopped.starts_with(&format!("gateway  stopped          process {pid}, after ")),
        "{stopped}"
    );
    assert_eq!(machine.pid(), None);
    assert!(!machine.0.path(".the-loop/gateway/gateway.json").is_file());
    assert_eq!(machine.json("stop", 0)["outcome"], "not-running");
}

#[test]
fn of_two_who_start_it_at_once_both_find_it_running() {
    let machine = Machine::new();
    let start = || machine.0.start(&["start", "--format", "json"]);
    let both = [start(), start()].map(super::program::Running::end);
    let reports = both.map(|ended| {
        assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
        serde_json::from_str::<Value>(&ended.out).unwrap()
    });
    let pid = machine.pid().unwrap();
    assert!(
        reports.iter().all(|report| report["pid"] == pid),
        "{reports:?}"
    );
    let started = reports
        .iter()
        .filter(|report| report["outcome"] == "started");
    assert_eq!(started.count(), 1, "{reports:?}");
    machine.run(&["stop"], 0);
}

#[test]
fn a_start_that_fails_says_why_and_leaves_nothing_running() {
    let machine = Machine::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    machine.configure(&format!("listen: {{port: {port}}}"));
    let failed = machine.run(&["start"], 1);
    let why =
        format!("did not start: the gateway does not start: cannot listen on 127.0.0.1:{port}");
    assert!(failed.err.contains(&why), "{}", failed.err);
    assert!(failed.err.contains("gateway.log"), "{}", failed.err);
    let report = machine.json("start", 1);
    assert_eq!(
        (&report["outcome"], &report["pid"]),
        (&json!("failed"), &json!(0))
    );
    assert_eq!(machine.pid(), None);
    machine.configure("listen: {port: high}");
    // The last two look for what runs, which is nothing.
    for (verb, code) in [("start", 2), ("restart", 2), ("stop", 0), ("status", 1)] {
        let refused = machine.run(&[verb], code);
        assert!(refused.err.contains("listen.port"), "{}", refused.err);
    }
    assert_eq!(machine.json("start", 2)["outcome"], "misconfigured");
}

#[test]
fn a_restart_is_a_new_process_over_the_same_store() {
    let machine = Machine::new();
    assert_eq!(machine.json("restart", 0)["outcome"], "started");
    let first = machine.pid().unwrap();
    // Nobody has to say which port it took.
    machine.run(&["send", "github", "issue_comment"], 0);
    // A config that cannot be used stops nothing.
    machine.configure("listen: {port: high}");
    machine.run(&["restart"], 2);
    assert_eq!(machine.pid(), Some(first));
    machine.configure("listen: {port: 0, ingress: {host: 127.0.0.1, port: 0}}");
    let restarted = machine.json("restart", 0);
    assert_eq!(restarted["outcome"], "restarted");
    assert_ne!(restarted["pid"], first);
    let status = machine.json("status", 0);
    assert_eq!(status["pid"], restarted["pid"]);
    assert_eq!(status["store"]["events"], 1);
    let subjects = machine.run(&["subjects"], 0);
    assert!(
        subjects.out.contains("github:octo/repo#1"),
        "{}",
        subjects.out
    );
    assert_eq!(subjects.err, "");
    machine.run(&["stop"], 0);
}

#[test]
fn what_a_killed_gateway_left_is_read_as_not_running_and_is_no_obstacle() {
    let machine = Machine::new();
    machine.run(&["start"], 0);
    let first = machine.pid().unwrap();
    machine.kill();
    wait_until("the end of the process", || {
        machine.0.run(&["status"]).out.contains("not running")
    });
    assert_eq!(machine.pid(), Some(first));
    assert_eq!(machine.json("stop", 0)["outcome"], "not-running");
    let again = machine.json("start", 0);
    assert_eq!(again["outcome"], "started");
    assert_ne!(again["pid"], first);
    machine.run(&["stop"], 0);
}

#[test]
fn the_lock_is_the_one_of_util_linux() {
    let has_flock = Command::new("flock").arg("--version").output().is_ok();
    if !has_flock {
        println!("SKIPPED: no flock of util-linux");
        return;
    }
    let machine = Machine::new();
    machine.run(&["start"], 0);
    let path = machine.0.path(PID_FILE);
    let take = |path: &std::path::Path| {
        let mut command = Command::new("flock");
        command.arg("--nonblock").arg(path).arg("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut refused = take(&path);
    assert_eq!(refused.wait().unwrap().code(), Some(1));
    machine.run(&["stop"], 0);
    let mut holder = take(&path);
    // It says something only once it has the lock.
    use std::io::{Read, Write};
    holder.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    holder
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    for verb in [["run"].as_slice(), &["start"], &["stop"], &["status"]] {
        let ended = machine.run(verb, 1);
        let is_told = ended.err.contains("another gateway") || ended.err.contains("no gateway");
        assert!(is_told, "{verb:?}: {}", ended.err);
    }
    drop(holder.stdin.take());
    holder.wait().unwrap();
    machine.run(&["start"], 0);
    machine.run(&["stop"], 0);
}

#[test]
fn the_status_names_what_runs_what_it_holds_and_what_is_missing() {
    let machine = Machine::new();
    machine.configure(
        "listen: {port: 0, ingress: {host: 127.0.0.1, port: 0}}\n\
         slack: {http: {enabled: true}}",
    );
    let started = machine.json("start", 0);
    let fetch = json!({"instance": "laptop", "peer": "p", "run": "r", "cursor": 0});
    Call::new(port_of(&started["url"]), "POST", "/api/v1/gateway/fetch")
        .json(&fetch)
        .send()
        .assert(200);
    let status = machine.json("status", 1);
    for (field, expected) in [
        ("ok", json!(false)),
        ("running", json!(true)),
        ("ready", json!(true)),
        ("pid", started["pid"].clone()),
        ("url", started["url"].clone()),
        ("supervised", json!(false)),
        ("socket", json!("off")),
        ("restartRequired", json!([])),
        ("problems", json!(["slack-http is missing-secret"])),
    ] {
        assert_eq!(status[field], expected, "{field}");
    }
    assert_eq!(status["instances"][0]["instance"], "laptop");
    assert!(status["instances"][0]["expiresIn"].as_f64().unwrap() > 30.0);
    assert!(status["store"]["bytes"].as_u64().unwrap() > 0);
    assert!(status["store"]["walBytes"].is_u64(), "{status}");
    let state = |name: &str| {
        let rows = status["ingresses"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["state"].clone()
    };
    assert_eq!(state("github-webhook"), "up");
    assert_eq!(state("slack-http"), "missing-secret");
    assert_eq!(state("jira-poll"), "disabled");
    let text = machine.run(&["status"], 1);
    let pid = started["pid"].to_string();
    for part in [
        &format!("running, process {pid}, started "),
        "instances   1 within its lease: laptop (",
        "slack-http      missing-secret  ",
        "SLACK_SIGNING_SECRET is not set",
        "THE_LOOP_GH_WEBHOOK_SECRET  set    github.webhook.secretEnv",
        "SLACK_SIGNING_SECRET        unset  slack.http.signingSecretEnv",
    ] {
        assert!(text.out.contains(part), "{part}\n{}", text.out);
    }
    assert!(!text.out.contains("not a secret"), "{}", text.out);
    assert!(text.err.contains("not well"), "{}", text.err);
    // The port that is wanted now is not the one that it has.
    machine.configure("listen: {port: 1, ingress: {host: 127.0.0.1, port: 0}}");
    let pid = Pid::from_raw(machine.pid().unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    wait_until("a required restart", || {
        let status = machine.0.run(&["status"]);
        let is_told = "restart required: listen.host and listen.port changed";
        status.code == Some(0) && status.out.contains(is_told)
    });
    machine.run(&["stop"], 0);
}

#[test]
fn what_runs_is_stopped_and_looked_at_although_its_config_was_broken_meanwhile() {
    let machine = Machine::new();
    machine.json("start", 0);
    machine.configure("listen: {port: high}\nunheard: 1");
    let status = machine.json("status", 1);
    assert_eq!(
        (&status["ok"], &status["running"]),
        (&json!(false), &json!(true))
    );
    let problem = status["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("its config cannot be used"), "{status}");
    let stopped = machine.run(&["stop"], 0);
    assert!(stopped.out.contains("stopped"), "{}", stopped.out);
    assert!(stopped.err.contains("listen.port: "), "{}", stopped.err);
    assert_eq!(machine.pid(), None);
    machine.run(&["start"], 2);
}

#[test]
fn a_config_that_says_nothing_of_its_state_root_is_made_up_for_by_naming_it() {
    let machine = Machine::new();
    machine.json("start", 0);
    for broken in ["{", "state: {root: [here]}", "- a list"] {
        machine.0.write(CONFIG, broken);
        for verb in ["stop", "status"] {
            let refused = machine.run(&[verb], 2);
            assert!(refused.err.contains("--state-root DIR"), "{}", refused.err);
        }
    }
    let root = machine.0.path(".the-loop/gateway").display().to_string();
    let status = machine.run(&["status", "--state-root", &root], 0);
    assert!(status.out.contains("process "), "{}", status.out);
    machine.run(&["stop", "--state-root", &root], 0);
    assert_eq!(machine.pid(), None);
}

#[test]
fn a_broken_config_never_stops_the_gateway_of_another_one() {
    let machine = Machine::new();
    machine.json("start", 0);
    let other = machine.0.write("other.yaml", "stat: {root: /elsewhere}\n");
    let other = other.display().to_string();
    let refused = machine.run(&["--config", &other, "stop"], 2);
    assert!(refused.err.contains("stat: unknown key"), "{}", refused.err);
    assert!(refused.err.contains("--state-root DIR"), "{}", refused.err);
    assert!(machine.json("status", 0)["running"].as_bool().unwrap());
}
