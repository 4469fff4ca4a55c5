//! The checklist for a real Slack app, gone through against the fakes: every command of the page,
//! in its order, with what a person does in between.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use the_loop_gateway::devkit::slack::Post;

use super::{Shown, has_tools, is_as_shown, shell, shown_in};
use crate::cli::program::Home;
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, env};

const PAGE: &str = include_str!("../../../docs/slack-live-check.md");
const REPO: &str = "octo/repo";
const ME: &str = "octocat";
const COLLEAGUE: &str = "U0COLLEAGUE";
const CHANNEL: &str = "C0LIVE";
/// The thread that the page takes for an example.
const THREAD: &str = "1792332000.000100";
const REPLY: &str = "here is my reply";

/// The person who checks.
struct Person {
    fakes: Fakes,
    home: Home,
    number: u64,
    /// The variables that the page sets, as lines of a shell.
    variables: String,
    /// What has been run.
    run: Vec<String>,
}

impl Person {
    /// What is done by hand before a command.
    fn act_before(&self, command: &str) {
        let Self { fakes, number, .. } = self;
        let reply = |text: &str| {
            fakes.slack.say(Post::reply(CHANNEL, THREAD, text));
        };
        let has_run = |part: &str| self.run.iter().any(|own| own.contains(part));
        if command.ends_with("> one.json") {
            fakes.github.comment(REPO, *number, ME, "the-loop start");
        } else if command.ends_with("> two.json") {
            reply(REPLY);
        } else if command == "the-loop-gateway queues" && !has_run("> three.json") {
            // "Commit as in step 1", and then the two replies.
            let commit = json!({
                "instance": "check-one", "peer": "check-peer-one", "run": "a",
                "commit": [{"seq": 2, "outcome": "delivered"}],
            });
            let line = format!("curl -sS $API/commit -H \"$JSON\" -d '{commit}'");
            let answer = shell(&self.home, &format!("{}{line}", self.variables));
            assert!(answer.contains("\"committed\":2"), "{answer}");
            reply("A");
            reply("B");
        } else if command.contains("$I1") && command.contains("three.json), \\\"wait\\\": 30") {
            reply("for check-one");
        }
    }

    /// What the page writes where a person has to fill something in.
    fn filled_in(&self, text: &str) -> String {
        text.replace("<owner>/<repo>", REPO)
            .replace("<number>", &self.number.to_string())
            .replace("<your reply>", REPLY)
            .replace("<U… of a colleague>", COLLEAGUE)
            .replace("github <login>", &format!("github {ME}"))
            .replace("slack <user>", &format!("slack {COLLEAGUE}"))
    }

    fn perform(&mut self, shown: &Shown) {
        let command = self.filled_in(&shown.command);
        let output = self.filled_in(&shown.output);
        self.act_before(&command);
        self.run.push(command.clone());
        let is_assignment = command.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())
        });
        if is_assignment {
            self.variables.push_str(&(command + "\n"));
            return;
        }
        let line = format!("{}{command}", self.variables);
        // What only looks may look again: the log is written a moment later.
        let only_looks = command.starts_with("jq ") || command.starts_with("the-loop-gateway ");
        let mut printed = shell(&self.home, &line);
        if only_looks && !is_as_shown(&printed, &output) {
            wait_until(
                &format!("{command} to print\n{output}, not\n{printed}"),
                || {
                    printed = shell(&self.home, &line);
                    is_as_shown(&printed, &output)
                },
            );
        }
        assert!(
            is_as_shown(&printed, &output),
            "{command}\n{printed}\nnot\n{output}"
        );
    }
}

/// The variables as the page sets them, for this gateway and these people.
fn variables(port: u16, number: u64) -> String {
    let (_, block) = PAGE.split_once("```bash\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let filled = block
        .replace("8790", &port.to_string())
        .replace("<owner>/<repo>", REPO)
        .replace("<number>", &number.to_string())
        .replace("<your GitHub login>", ME)
        .replace("<C…>", CHANNEL);
    assert!(!filled.contains('<'), "{filled}");
    filled
}

#[test]
fn every_step_of_the_check_shows_what_the_page_says() {
    let (home, fakes) = (Home::new(), Fakes::start());
    if !has_tools(&home) {
        return;
    }
    let port = {
        let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        socket.local_addr().unwrap().port()
    };
    let number = fakes.github.open_issue(REPO, "somebody", &[]);
    // What happens in the second of the first look counts as news.
    fakes.github.advance(10);
    fakes.slack.post(Post {
        ts: Some(THREAD.to_owned()),
        ..Post::top(CHANNEL, "root")
    });
    let on = ["github-poll", "slack-socket"];
    let config = fakes.config(&on, &format!("listen: {{port: {port}}}"));
    let config = config.replace("root: state", "root: ~/.the-loop/gateway");
    home.write(".the-loop/gateway-config.yaml", &config);
    let secrets = home.write(".the-loop/the-loop.env", &env(&[]));
    std::fs::set_permissions(secrets, Permissions::from_mode(0o600)).unwrap();
    let checked = shell(&home, "the-loop-gateway check");
    assert!(checked.contains("is valid"), "{checked}");
    let _running = home.start(&["run"]);
    let mut person = Person {
        variables: variables(port, number),
        fakes,
        home,
        number,
        run: Vec::new(),
    };
    let health = format!("{}curl -sS $API/health", person.variables);
    wait_until("both to be up", || {
        let health = shell(&person.home, &health);
        on.iter()
            .all(|name| health.contains(&format!("\"{name}\":\"up\"")))
    });
    let steps = shown_in(PAGE);
    let before = ["init", "check", "run"];
    for (shown, verb) in steps.iter().zip(before) {
        assert!(
            shown
                .command
                .starts_with(&format!("the-loop-gateway {verb}"))
        );
    }
    for shown in steps.iter().skip(before.len()) {
        person.perform(shown);
    }
    assert!(person.run.len() > 20, "{:?}", person.run);
}
