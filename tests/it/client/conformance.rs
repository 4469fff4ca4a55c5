//! The conformance check passes against our own gateway.

use std::time::Duration;

use the_loop_gateway::client::GatewayUrl;
use the_loop_gateway::client::conformance::{Finding, Ingress, Options, Verdict, run};

use super::wait;
use crate::support::TestGateway;
use crate::support::gateway::GITHUB_SECRET;

fn findings(gateway: &TestGateway, secret: Option<&str>, patience: u64) -> Vec<Finding> {
    let base = format!("http://127.0.0.1:{}", gateway.port);
    let options = Options {
        ingress: secret.map(|secret| Ingress {
            url: GatewayUrl::parse(&format!("{base}/gh-webhook")).unwrap(),
            secret: secret.to_owned(),
        }),
        url: GatewayUrl::parse(&base).unwrap(),
        repository: "octo/repo".to_owned(),
        patience: Duration::from_secs(patience),
        only: String::new(),
    };
    wait(run(options, |_| {})).unwrap()
}

fn not_passed(findings: &[Finding]) -> Vec<&Finding> {
    let passed = |finding: &&Finding| finding.verdict != Verdict::Pass;
    findings.iter().filter(passed).collect()
}

#[test]
fn our_own_gateway_keeps_every_promise() {
    let gateway = TestGateway::with(|config| {
        config.consume.lease_min_ms = 1_000;
        config.store.retry_backoff_min_ms = 1_000;
    });
    let findings = findings(&gateway, Some(GITHUB_SECRET), 60);
    assert!(findings.len() > 50, "{}", findings.len());
    let broken = not_passed(&findings);
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn without_the_secret_what_needs_events_is_skipped_and_says_so() {
    let gateway = TestGateway::start();
    let findings = findings(&gateway, None, 0);
    let others = not_passed(&findings);
    assert!(others.len() < findings.len());
    for finding in others {
        assert!(
            matches!(finding.verdict, Verdict::Skipped(_)),
            "{finding:#?}"
        );
    }
}

#[test]
fn with_a_wrong_secret_what_needs_events_fails_and_says_why() {
    let gateway = TestGateway::start();
    let findings = findings(&gateway, Some("wrong"), 0);
    let first = &findings[0];
    assert_eq!(
        first.verdict,
        Verdict::Fail("a signed event is answered 401 \"bad-signature\"".to_owned())
    );
}
