//! *Prove it*: the last block of each provider's page.

use std::net::TcpListener;

use super::{Shown, has_tools, is_as_shown, section, shell, shown_in};
use crate::cli::program::{Home, Running};
use crate::support::gateway::wait_until;
use crate::support::live::{Fakes, env};

const CONFIG: &str = ".the-loop/gateway-config.yaml";
const ENV_FILE: &str = ".the-loop/the-loop.env";

/// Two ports that nobody listens on at the moment.
fn free_ports() -> [u16; 2] {
    let sockets = [(); 2].map(|()| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

/// The config that `init` writes, on other ports.
fn initialised(home: &Home, [api, ingress]: [u16; 2]) {
    let arguments = format!("--port {api} --ingress-port {ingress}");
    let init = format!("the-loop-gateway init --repository octo/repo {arguments}");
    let wrote = shell(home, &init);
    assert!(wrote.contains(CONFIG), "{wrote}");
}

fn started(home: &Home) -> Running {
    let running = home.start(&["run"]);
    running.line_with("for webhooks");
    running
}

/// Runs what a page shows, with the ports of this gateway in place of the usual ones, until it
/// prints what the page says.
fn prove(home: &Home, page: &str, [api, ingress]: [u16; 2]) {
    let proofs = shown_in(section(page, "## Prove it"));
    assert!(!proofs.is_empty());
    for Shown { command, output } in proofs {
        let here = |text: &str| {
            let text = text.replace("8790", &api.to_string());
            text.replace("8791", &ingress.to_string())
        };
        let mut printed = String::new();
        wait_until(&format!("{command} to print {output}"), || {
            printed = shell(home, &here(&command));
            is_as_shown(&printed, &here(&output))
        });
    }
}

#[test]
fn the_page_of_github_proves_what_it_says() {
    let (home, fakes, ports) = (Home::new(), Fakes::start(), free_ports());
    if !has_tools(&home) {
        return;
    }
    initialised(&home, ports);
    let config = std::fs::read_to_string(home.path(CONFIG)).unwrap();
    let poll = format!(
        "  poll: {{enabled: true, intervalSeconds: 1, apiBase: '{}'}}\n",
        fakes.github.api_base()
    );
    let (before, rest) = config.split_once("#~   poll:").unwrap();
    home.write(CONFIG, &format!("{before}{poll}#~   poll:{rest}"));
    let secrets = std::fs::read_to_string(home.path(ENV_FILE)).unwrap();
    home.write(ENV_FILE, &format!("{secrets}\nGITHUB_TOKEN=ghp-poll\n"));
    let _running = started(&home);
    prove(&home, include_str!("../../../docs/github.md"), ports);
    let subjects = shell(&home, "the-loop-gateway subjects");
    assert!(subjects.contains("github:octo/repo#"), "{subjects}");
}

#[test]
fn the_page_of_jira_proves_what_it_says() {
    let (home, fakes, ports) = (Home::new(), Fakes::start(), free_ports());
    if !has_tools(&home) {
        return;
    }
    initialised(&home, ports);
    let config = std::fs::read_to_string(home.path(CONFIG)).unwrap();
    let jira = format!(
        "jira:\n  site: acme.atlassian.net\n  projects: [PROJ]\n  webhook: {{enabled: true}}\n  \
         poll: {{enabled: true, intervalSeconds: 1, apiBase: '{}', emailEnv: JIRA_EMAIL, \
         tokenEnv: JIRA_TOKEN}}\n",
        fakes.jira.api_base()
    );
    home.write(CONFIG, &(config + &jira));
    home.write(ENV_FILE, &env(&[]));
    let _running = started(&home);
    prove(&home, include_str!("../../../docs/jira.md"), ports);
    let subjects = shell(&home, "the-loop-gateway subjects");
    assert!(
        subjects.contains("jira:acme.atlassian.net/PROJ-"),
        "{subjects}"
    );
}
