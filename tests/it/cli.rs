//! The command line, as a person or a script uses it.

mod backups;
mod doctor;
mod draining;
mod drill;
mod interventions;
mod lifecycle;
mod packaging;
pub(crate) mod program;
mod rows;
mod scene;
mod stories;
mod supervised;

use serde_json::Value;

use self::program::{Ended, Home, Running, mode_of};

const CONFIG: &str = ".the-loop/gateway-config.yaml";
const ENV_FILE: &str = ".the-loop/the-loop.env";

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}: {}", ended.out))
}

/// A gateway with one repository and the GitHub webhook, on a free port; and its URL.
fn started(home: &Home) -> (Running, String) {
    home.write(
        CONFIG,
        "version: '1'\n\
         env: {file: the-loop.env}\n\
         listen: {port: 0}\n\
         repositories: [octo/repo]\n\
         github: {webhook: {enabled: true}}\n",
    );
    home.write(ENV_FILE, "THE_LOOP_GH_WEBHOOK_SECRET=not a secret\n");
    let running = home.start(&["run"]);
    let line = running.line_with("listening on ");
    let url = line.split_whitespace().nth(2).unwrap().to_owned();
    (running, url)
}

#[test]
fn what_init_writes_is_valid_and_belongs_to_its_owner_alone() {
    let home = Home::new();
    let init = home.run(&["init", "--repository", "octo/repo"]);
    assert_eq!(init.code, Some(0), "{}", init.err);
    assert!(init.out.contains("the-loop-gateway check"), "{}", init.out);
    for file in [CONFIG, ENV_FILE] {
        assert_eq!(mode_of(&home.path(file)), 0o600);
        assert!(init.out.contains(file));
    }
    let check = home.run(&["check"]);
    assert_eq!(check.code, Some(0), "{}", check.err);
    assert!(
        check.out.contains("THE_LOOP_GH_WEBHOOK_SECRET  set"),
        "{}",
        check.out
    );
    let secret = std::fs::read_to_string(home.path(ENV_FILE)).unwrap();
    let secret = secret
        .lines()
        .find_map(|line| line.strip_prefix("THE_LOOP_GH_WEBHOOK_SECRET="));
    assert!(!check.out.contains(secret.unwrap()));
}

#[test]
fn init_never_overwrites_and_names_the_file_that_is_there() {
    let home = Home::new();
    for present in [CONFIG, ENV_FILE] {
        let home = Home::new();
        home.write(present, "mine");
        let init = home.run(&["init"]);
        assert_eq!(init.code, Some(1));
        assert!(init.err.contains(present), "{}", init.err);
        assert_eq!(std::fs::read_to_string(home.path(present)).unwrap(), "mine");
        let other = if present == CONFIG { ENV_FILE } else { CONFIG };
        assert!(!home.path(other).try_exists().unwrap());
    }
    assert_eq!(home.run(&["init", "elsewhere"]).code, Some(0));
    let before = std::fs::read(home.path("elsewhere/the-loop.env")).unwrap();
    assert_eq!(home.run(&["init", "elsewhere"]).code, Some(1));
    assert_eq!(
        std::fs::read(home.path("elsewhere/the-loop.env")).unwrap(),
        before
    );
}

#[test]
fn init_says_the_next_commands_for_the_place_that_was_chosen() {
    let home = Home::new();
    let named = home.path("conf/gateway.yaml").display().to_string();
    let init = home.run(&["--config", &named, "init"]);
    assert_eq!(init.code, Some(0), "{}", init.err);
    assert!(
        init.out
            .contains(&format!("the-loop-gateway --config {named} run")),
        "{}",
        init.out
    );
    assert_eq!(home.run(&["--config", &named, "check"]).code, Some(0));
    assert_eq!(
        home.run(&["--config", &named, "init", "conf"]).code,
        Some(2)
    );
}

#[test]
fn a_wrong_config_ends_with_2_and_names_every_place() {
    let home = Home::new();
    home.write(
        CONFIG,
        "version: '1'\nlisten: {port: high}\nrepositories: [octo]\nunheard: 1\n",
    );
    for verb in [
        &["check"][..],
        &["run"],
        &["queues"],
        &["send", "github", "issues"],
    ] {
        let ended = home.run(verb);
        assert_eq!(ended.code, Some(2), "{verb:?}");
        for place in ["listen.port: ", "repositories[0]: ", "unheard: "] {
            assert!(ended.err.contains(place), "{verb:?}: {}", ended.err);
        }
    }
    let check = home.run(&["check", "--format", "json"]);
    assert_eq!(check.code, Some(2));
    let report = json(&check);
    let places: Vec<&str> = report["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|problem| problem["path"].as_str())
        .collect();
    assert_eq!(places, ["listen.port", "repositories[0]", "unheard"]);
    assert_eq!(report["ok"], false);
}

#[test]
fn a_secret_that_is_not_set_is_named_and_is_no_error() {
    let home = Home::new();
    home.write(
        CONFIG,
        "version: '1'\ngithub: {webhook: {enabled: true, secretEnv: MY_SECRET}}\n",
    );
    let check = home.run(&["check"]);
    assert_eq!(check.code, Some(0), "{}", check.err);
    assert!(check.out.contains("MY_SECRET  unset"), "{}", check.out);
    let report = json(&home.run(&["check", "--format", "json"]));
    assert_eq!(report["secrets"][0]["name"], "MY_SECRET");
    assert_eq!(report["secrets"][0]["set"], false);
}

/// Fails unless a command writes, word for word, what a page shows below it; `…` is anything.
#[track_caller]
fn assert_reads_as(told: &str, page: &str, command: &str) {
    let (_, shown) = page.split_once(&format!("{command}\n")).unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let shown: Vec<&str> = shown.lines().collect();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), shown.len(), "{told}");
    for (line, shown) in lines.iter().zip(shown) {
        let mut rest = line.trim();
        for (index, piece) in shown.trim().split('…').enumerate() {
            let found = rest.find(piece).filter(|at| index > 0 || *at == 0);
            let at = found.unwrap_or_else(|| panic!("{line}\nis shown as\n{shown}"));
            rest = &rest[at + piece.len()..];
        }
        let is_read_to_its_end = rest.is_empty() || shown.ends_with('…');
        assert!(is_read_to_its_end, "{line}\nis shown as\n{shown}");
    }
}

#[test]
fn the_story_is_told_to_its_end_and_leaves_nothing_behind() {
    let home = Home::new();
    let told = home.run(&["try", "--once"]);
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    assert_reads_as(&told.out, include_str!("../../README.md"), "try --once");
    assert_eq!(told.err, "");
    let left: Vec<_> = std::fs::read_dir(home.path("")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_story_of_a_slack_reply_is_the_one_that_the_documentation_shows() {
    let home = Home::new();
    let told = home.run(&["try", "--slack", "--once"]);
    assert_eq!(told.code, Some(0), "{}{}", told.out, told.err);
    assert_reads_as(
        &told.out,
        include_str!("../../docs/slack.md"),
        "try --slack --once",
    );
    let left: Vec<_> = std::fs::read_dir(home.path("")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn after_the_story_the_printed_signature_is_the_one_of_the_second_comment() {
    let home = Home::new();
    let trying = home.start(&["try"]);
    let send = trying.line_with("/gh-webhook");
    let field = |name: &str| {
        let (_, rest) = send.split_once(name).unwrap();
        rest.split_once('\'').unwrap().0.to_owned()
    };
    let file = field("--data-binary '@");
    let body = std::fs::read(&file).unwrap();
    assert!(String::from_utf8_lossy(&body).contains("and one more thing"));
    let url = send
        .split_whitespace()
        .find(|word| word.starts_with("http"))
        .unwrap();
    let status = post(
        url,
        &[
            ("content-type", "application/json"),
            ("x-github-event", &field("x-github-event: ")),
            ("x-github-delivery", &field("x-github-delivery: ")),
            ("x-hub-signature-256", &field("x-hub-signature-256: ")),
        ],
        body,
    );
    assert_eq!(status, 202);
    let base = url.strip_suffix("/gh-webhook").unwrap();
    let queues = json(&home.run(&["queues", "--url", base, "--format", "json"]));
    assert_eq!(queues["queues"][0]["backlog"], 1);
    let ended = trying.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(!std::path::Path::new(&file).try_exists().unwrap());
}

fn post(url: &str, headers: &[(&str, &str)], body: Vec<u8>) -> u16 {
    let limits = the_loop_gateway::outbound::Limits::default();
    actix_rt::System::new().block_on(async {
        let mut request = the_loop_gateway::outbound::client(limits)
            .unwrap()
            .post(url);
        for header in headers {
            request = request.insert_header(*header);
        }
        request.send_body(body).await.unwrap().status().as_u16()
    })
}

#[test]
fn without_a_config_it_runs_on_loopback_says_what_to_do_next_and_stops_when_told() {
    let home = Home::new();
    let running = home.start(&["run", "--port", "0"]);
    let line = running.line_with("listening on ");
    assert!(line.contains("http://127.0.0.1:"), "{line}");
    let ended = running.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    for next in [
        "no gateway config found",
        "the-loop-gateway init",
        "$THE_LOOP_GATEWAY_CONFIG",
    ] {
        assert!(ended.err.contains(next), "{}", ended.err);
    }
    assert!(ended.out.ends_with("stopped\n"), "{}", ended.out);
}

#[test]
fn a_second_gateway_on_the_same_state_is_refused_and_names_the_first() {
    let home = Home::new();
    let (running, _url) = started(&home);
    let second = home.run(&["run"]);
    assert_eq!(second.code, Some(1));
    let process = format!("(process {})", running.process());
    assert!(second.err.contains(&process), "{}", second.err);
}

#[test]
fn a_sample_is_stored_and_seen_in_the_lists_of_the_running_and_of_the_stopped_gateway() {
    let home = Home::new();
    let (running, url) = started(&home);
    let empty = home.run(&["queues", "--url", &url]);
    assert!(
        empty.out.contains("no queue yet"),
        "{}{}",
        empty.out,
        empty.err
    );
    let sent = home.run(&[
        "send",
        "github",
        "issue_comment",
        "--url",
        &url,
        "--number",
        "15",
    ]);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    assert!(
        sent.out.contains("answered  202 {\"status\":\"accepted\"}"),
        "{}",
        sent.out
    );
    let subjects = home.run(&["subjects", "--url", &url]);
    assert_eq!(subjects.code, Some(0), "{}", subjects.err);
    assert!(
        subjects.out.contains("github:octo/repo#15"),
        "{}",
        subjects.out
    );
    assert!(subjects.out.contains("1 event held"), "{}", subjects.out);
    for name in ["subjects", "queues", "instances"] {
        let listed = json(&home.run(&[name, "--url", &url, "--format", "json"]));
        assert!(listed[name].is_array(), "{listed}");
    }
    let rows = |ended: &Ended, name: &str| json(ended)[name][0].clone();
    let live = rows(
        &home.run(&["subjects", "--url", &url, "--format", "json"]),
        "subjects",
    );
    assert_eq!(running.terminate().code, Some(0));
    let down = home.run(&["subjects", "--url", &url]);
    assert_eq!(down.code, Some(1));
    assert!(down.err.contains("no gateway answers"), "{}", down.err);
    let filed = home.run(&["subjects", "--format", "json"]);
    assert_eq!(filed.code, Some(0), "{}", filed.err);
    assert!(filed.err.contains("gateway.db holds"), "{}", filed.err);
    assert_eq!(rows(&filed, "subjects"), live);
    for name in ["queues", "instances"] {
        let filed = home.run(&[name]);
        assert_eq!(filed.code, Some(0), "{}", filed.err);
        assert!(filed.out.starts_with("no "), "{}", filed.out);
    }
}

#[test]
fn without_a_gateway_and_without_a_file_a_list_says_what_to_start() {
    let home = Home::new();
    home.write(CONFIG, "version: '1'\nlisten: {port: 0}\n");
    let listed = home.run(&["queues"]);
    assert_eq!(listed.code, Some(1));
    assert!(listed.err.contains("gateway.db"), "{}", listed.err);
    assert!(
        listed.err.contains("the-loop-gateway run"),
        "{}",
        listed.err
    );
    home.write(
        ".the-loop/gateway/gateway.db",
        "this is no database, but a text of some length",
    );
    let listed = home.run(&["queues"]);
    assert_eq!(listed.code, Some(1));
    assert!(listed.err.contains("cannot be read"), "{}", listed.err);
}

#[test]
fn sending_with_a_wrong_secret_fails_and_says_so() {
    let home = Home::new();
    let (_running, url) = started(&home);
    home.write(
        ENV_FILE,
        "THE_LOOP_GH_WEBHOOK_SECRET=not a secret\nOTHER=other\n",
    );
    let arguments = ["send", "github", "ping", "--url", &url];
    let sent = home.run(&[&arguments[..], &["--secret-env", "OTHER"]].concat());
    assert_eq!(sent.code, Some(1));
    assert!(sent.out.contains("401"), "{}", sent.out);
    assert!(sent.err.contains("--secret-env"), "{}", sent.err);
    let missing = home.run(&[&arguments[..], &["--secret-env", "ABSENT"]].concat());
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("ABSENT is not set"), "{}", missing.err);
    let sent = json(&home.run(&[&arguments[..], &["--format", "json"]].concat()));
    assert_eq!(
        (&sent["status"], &sent["answer"]["status"]),
        (&202.into(), &"accepted".into())
    );
}

#[test]
fn jira_and_slack_samples_are_taken_where_their_webhooks_are_enabled() {
    let home = Home::new();
    home.write(
        CONFIG,
        "version: '1'\n\
         env: {file: the-loop.env}\n\
         listen: {port: 0}\n\
         jira: {site: acme.atlassian.net, projects: [PROJ], webhook: {enabled: true}}\n\
         slack: {http: {enabled: true}, rooms: [{channel: C0123, ref: 'standing:ops'}]}\n",
    );
    home.write(
        ENV_FILE,
        "THE_LOOP_JIRA_WEBHOOK_SECRET=one\nSLACK_SIGNING_SECRET=two\n",
    );
    let running = home.start(&["run"]);
    let url = running.line_with("listening on ");
    let url = url.split_whitespace().nth(2).unwrap();
    for sample in [
        ["jira", "comment_created"],
        ["slack", "message"],
        ["slack", "block_actions"],
        ["slack", "slash_command"],
        ["slack", "url_verification"],
    ] {
        let sent = home.run(&["send", sample[0], sample[1], "--url", url]);
        assert_eq!(sent.code, Some(0), "{sample:?}: {}{}", sent.out, sent.err);
    }
    let subjects = home.run(&["subjects", "--url", url]).out;
    for subject in ["loop-jira-acme_atlassian_net-PROJ-1", "loop-standing-ops"] {
        assert!(subjects.contains(subject), "{subjects}");
    }
}

#[test]
fn a_file_is_sent_byte_for_byte() {
    let home = Home::new();
    let (_running, url) = started(&home);
    home.write("a.json", "{ \"zen\" : \"a\" }\n");
    let sent = home.run(&["send", "github", "ping", "--file", "a.json", "--url", &url]);
    assert_eq!(sent.code, Some(0), "{}", sent.err);
    assert!(sent.out.contains("(16 bytes, signed)"), "{}", sent.out);
    let missing = home.run(&["send", "github", "ping", "--file", "b.json", "--url", &url]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains("b.json"), "{}", missing.err);
}

#[test]
fn completions_name_the_verbs() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]);
        assert_eq!(script.code, Some(0));
        assert!(script.out.contains("subjects"), "{shell}");
    }
}
