//! The verbs of the instance's side, as a person or a script uses them.

use std::fs;

use serde_json::Value;
use the_loop_gateway::devkit::fake_receiver::FakeReceiver;

use super::{FIFTEEN, wait_for_outcome};
use crate::cli::program::{Home, Running};
use crate::support::TestGateway;
use crate::support::gateway::GITHUB_SECRET;

fn url(gateway: &TestGateway) -> String {
    format!("http://127.0.0.1:{}", gateway.port)
}

/// `consume --print` for `octo/repo#15`.
fn printing(home: &Home, gateway: &TestGateway) -> Running {
    let claim = format!("{FIFTEEN}=driver");
    home.start(&[
        "consume",
        "--url",
        &url(gateway),
        "--instance",
        "laptop",
        "--claim",
        &claim,
        "--print",
    ])
}

#[test]
fn consume_prints_each_delivery_as_a_line_and_stops_on_a_signal() {
    let (gateway, home) = (TestGateway::start(), Home::new());
    let printing = printing(&home, &gateway);
    gateway.comment(15);
    let line = printing.line_with("issue_comment");
    let delivery: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(delivery["event"]["workItem"], "github:octo/repo#15");
    assert_eq!(delivery["event"]["payload"]["issue"]["number"], 15);
    wait_for_outcome(&gateway, 1, "delivered");
    let ended = printing.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(ended.out, "");
    for said in [
        "consuming as laptop",
        "connected",
        "everything is committed",
        "outcomes: 1 delivered",
    ] {
        assert!(ended.err.contains(said), "{}", ended.err);
    }
}

#[test]
fn a_second_consume_with_the_same_peer_file_exits_1_and_names_the_first() {
    let (gateway, home) = (TestGateway::start(), Home::new());
    let first = printing(&home, &gateway);
    gateway.comment(15);
    first.line_with("issue_comment");
    let second = printing(&home, &gateway).end();
    assert_eq!(second.code, Some(1));
    assert!(
        second.err.contains(&first.process().to_string()),
        "{}",
        second.err
    );
    let peer_file = home.path(".the-loop/consume/laptop/gateway-peer.json");
    assert!(fs::read_to_string(peer_file).unwrap().contains("\"peer\""));
    // The first one goes on.
    gateway.comment(15);
    first.line_with("issue_comment");
    assert_eq!(first.terminate().code, Some(0));
}

#[test]
fn consume_forwards_to_a_receiver_and_says_what_has_no_target() {
    let (gateway, home) = (TestGateway::start(), Home::new());
    let receiver = FakeReceiver::start(Some("secret of the instance")).unwrap();
    home.write("the.env", "INSTANCE_SECRET=secret of the instance\n");
    let config = "version: '1'\nenv: {file: ../the.env}\n";
    home.write(".the-loop/gateway-config.yaml", config);
    let consume = home.start(&[
        "consume",
        "--url",
        &url(&gateway),
        "--actor",
        "github=octocat",
        "--forward-github",
        &receiver.url(),
        "--forward-github-secret-env",
        "INSTANCE_SECRET",
    ]);
    gateway.comment(15);
    let taken = receiver.wait_for(|taken| taken.len() == 1).unwrap();
    assert_eq!(taken[0].status, Some(202));
    wait_for_outcome(&gateway, 1, "delivered");
    let ended = consume.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("no --forward-jira"), "{}", ended.err);
    assert!(ended.err.contains("no --forward-slack"), "{}", ended.err);
}

#[test]
fn what_consume_cannot_work_with_is_said_and_exits_1_or_2() {
    let home = Home::new();
    let nowhere = "http://127.0.0.1:1/gh-webhook";
    for (arguments, code, said) in [
        (&["consume"][..], 2, "--forward-github"),
        (
            &["consume", "--print", "--exec", "true"],
            2,
            "cannot be used with",
        ),
        (
            &["consume", "--print", "--actor", "octocat"],
            2,
            "github=NAME",
        ),
        (&["consume", "--print", "--claim", "x=driver"], 2, "--claim"),
        (&["consume", "--print", "--url", "ftp://x"], 1, "ftp://x"),
        (
            &[
                "consume",
                "--forward-github",
                nowhere,
                "--forward-github-secret-env",
                "ABSENT",
            ],
            1,
            "ABSENT is not set",
        ),
        (&["consume", "--forward-jira", "nowhere"], 1, "nowhere"),
    ] {
        let ended = home.run(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?} {}", ended.err);
        assert!(ended.err.contains(said), "{arguments:?} {}", ended.err);
    }
}

#[test]
fn conformance_tells_each_promise_and_exits_0_when_none_is_broken() {
    let (gateway, home) = (TestGateway::start(), Home::new());
    home.write("the.env", &format!("HOOK_SECRET={GITHUB_SECRET}\n"));
    let config = "version: '1'\nenv: {file: ../the.env}\n";
    home.write(".the-loop/gateway-config.yaml", config);
    let url = url(&gateway);
    let check = |more: &[&str]| {
        let common = [
            "conformance",
            "--url",
            &url,
            "--secret-env",
            "HOOK_SECRET",
            "--patience",
            "5",
        ];
        home.run(&[&common, more].concat())
    };
    let table = check(&[]);
    assert_eq!(table.code, Some(0), "{}\n{}", table.out, table.err);
    assert!(
        table
            .out
            .contains("  pass     A new run of the same peer takes over at once."),
        "{}",
        table.out
    );
    assert!(table.out.contains("would have to wait"), "{}", table.out);
    assert!(table.out.contains(" 0 broken"), "{}", table.out);
    // Seen by who cannot make events: with a wrong secret.
    home.write("the.env", "HOOK_SECRET=wrong\n");
    let json = check(&["--format", "json"]);
    assert_eq!(json.code, Some(1));
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["findings"][0]["verdict"], "fail");
    assert!(!json.err.contains("wrong") && !json.out.contains("wrong\n"));
}
