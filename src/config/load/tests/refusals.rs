//! Every rule, and what its breach is called.

use super::*;

#[test]
fn each_breach_of_the_schema_is_named_by_its_path() {
    for (text, problem) in BREACHES_OF_THE_SCHEMA {
        assert_eq!(problems_of(text), [*problem], "{text}");
    }
}

const BREACHES_OF_THE_SCHEMA: &[(&str, &str)] = &[
    ("[]", "(root): expected object, got array"),
    ("port: 1", "port: unknown key"),
    ("listen: {prot: 1}", "listen.prot: unknown key"),
    (
        "listen: {port: '1'}",
        "listen.port: expected integer, got string",
    ),
    (
        "listen: {port: 1.5}",
        "listen.port: expected integer, got number",
    ),
    (
        "listen: {port: true}",
        "listen.port: expected integer, got boolean",
    ),
    (
        "listen: {port: 70000}",
        "listen.port: is above the maximum 65535",
    ),
    (
        "store: {retentionDays: 0}",
        "store.retentionDays: is below the minimum 1",
    ),
    ("listen:", "listen: expected object, got null"),
    ("version: 1", "version: expected string, got integer"),
    ("version: '2'", "version: is not \"1\""),
    (
        "listen: {ingress: {}}",
        "listen.ingress: missing required key 'port'",
    ),
    (
        "slack: {rooms: [{channel: C1}]}",
        "slack.rooms[0]: missing required key 'ref'",
    ),
    (
        "repositories: [a/b, a/b]",
        "repositories: entries must be unique",
    ),
    (
        "github: {poll: {labels: []}}",
        "github.poll.labels: needs at least 1 item(s)",
    ),
    (
        "github: {poll: {labels: ['']}}",
        "github.poll.labels[0]: needs at least 1 character(s)",
    ),
    (
        "jira: {deployment: server}",
        "jira.deployment: is not one of \"cloud\", \"cloud-scoped\", \"data-center\"",
    ),
    (
        "slack: {rooms: [{channel: general, ref: 'standing:ops'}]}",
        "slack.rooms[0].channel: does not match ^[CDG][A-Z0-9]{1,30}$",
    ),
    (
        "github: {poll: {tokenEnv: gh-token}}",
        "github.poll.tokenEnv: does not match ^[A-Z][A-Z0-9_]*$ \
             (name the environment variable, never the value itself)",
    ),
    (
        "github: {webhook: {secretEnv: ''}}",
        "github.webhook.secretEnv: does not match ^[A-Z][A-Z0-9_]*$ \
             (name the environment variable, never the value itself)",
    ),
    (
        "jira: {deployment: cloud-scoped}",
        "jira: missing required key 'cloudId'",
    ),
    (
        "jira: {webhook: {enabled: true}}",
        "jira: missing required key 'site'",
    ),
];

#[test]
fn each_breach_that_no_schema_sees_is_named_by_its_path() {
    for (text, problem) in BREACHES_THAT_NO_SCHEMA_SEES {
        assert_eq!(problems_of(text), [*problem], "{text}");
    }
}

const BREACHES_THAT_NO_SCHEMA_SEES: &[(&str, &str)] = &[
    ("{listen: {}, listen: {}}", "listen: duplicate key"),
    ("listen: {port: 1, port: 2}", "listen.port: duplicate key"),
    ("1: x", "(root): every key must be text"),
    ("listen: {[a]: x}", "listen: every key must be text"),
    (
        "listen: {port: !port 1}",
        "listen.port: a YAML tag has no meaning here",
    ),
    (
        "listen: {port: .inf}",
        "listen.port: is not a finite number",
    ),
    (
        "listen: {port: 99999999999999999999}",
        "listen.port: is a number out of every range",
    ),
    (
        "{listen: {port: 1}",
        "(root): is not one well-formed YAML document (line 2, column 1)",
    ),
    (
        "listen: {}\n---\nstore: {}",
        "(root): is not one well-formed YAML document",
    ),
    (
        "listen: *nowhere",
        "(root): is not one well-formed YAML document (line 1, column 9)",
    ),
    (
        "listen: {host: 'a:b:c'}",
        "listen.host: must be an IP address or a host name, without a port",
    ),
    (
        "listen: {ingress: {port: 8790}}",
        "listen.ingress.port: must differ from listen.port",
    ),
    (
        "store: {path: ../gateway.db}",
        "store.path: must lie below state.root",
    ),
    (
        "store: {path: /tmp/gateway.db}",
        "store.path: must lie below state.root",
    ),
    ("store: {path: .}", "store.path: must lie below state.root"),
    (
        "state: {root: ~ada/state}",
        "state.root: only ~ and ~/ stand for a home",
    ),
    (
        "store: {retryBackoffSeconds: {min: 901}}",
        "store.retryBackoffSeconds.min: is above max",
    ),
    (
        "store: {retryBackoffSeconds: {max: 29}}",
        "store.retryBackoffSeconds.max: is below min",
    ),
    (
        "consume: {leaseSeconds: {min: 9, max: 8}}",
        "consume.leaseSeconds.min: is above max",
    ),
    (
        "repositories: [a/b, ghe/a/b]",
        "repositories[1]: must be owner/repo, owner/* or host/owner/repo",
    ),
    (
        "{repositories: [a/b], github: {poll: {sources: [{repositories: [a/c]}]}}}",
        "github.poll.sources[0].repositories[0]: is not declared in repositories",
    ),
    (
        "{repositories: [a/b], github: {poll: {sources: [{repositories: [a/b, A/B]}]}}}",
        "github.poll.sources[0].repositories[1]: is polled already",
    ),
    ("github: {webhook: {path: /api/v1/x}}", ROUTE_IS_TAKEN),
    ("github: {webhook: {path: /api}}", ROUTE_IS_TAKEN),
    ("github: {webhook: {path: /metrics/}}", ROUTE_IS_TAKEN),
    ("github: {webhook: {path: /slack/events}}", ROUTE_IS_TAKEN),
    ("github: {webhook: {path: //}}", ROUTE_IS_MALFORMED),
    ("github: {webhook: {path: /a//b}}", ROUTE_IS_MALFORMED),
    ("github: {webhook: {path: /a/../b}}", ROUTE_IS_MALFORMED),
    (
        "github: {webhook: {path: /jira-webhook}}",
        "github.webhook.path: is the route of jira.webhook",
    ),
    (
        "jira: {webhook: {path: /gh-webhook/}}",
        "jira.webhook.path: is the route of github.webhook",
    ),
    (
        "jira: {site: acme}",
        "jira.site: must be a host name with a dot, or a host and its port",
    ),
    (
        "slack: {rooms: [{channel: C1, ref: 'octo/repo#1'}]}",
        "slack.rooms[0].ref: must be github:[host/]owner/repo#N, jira:site/KEY-N or standing:<name>",
    ),
    (
        "slack: {rooms: [{channel: C1, ref: 'standing:a'}, {channel: C1, ref: 'standing:b'}]}",
        "slack.rooms[1].channel: is the room of another work item already",
    ),
    (
        "github: {poll: {apiBase: 'http://ghe.example/api/v3'}}",
        "github.poll.apiBase: must be https, for its host is not loopback",
    ),
];

const ROUTE_IS_TAKEN: &str = "github.webhook.path: is a route of the API, of /metrics or of Slack";
const ROUTE_IS_MALFORMED: &str =
    "github.webhook.path: must be / and segments that are not empty, . or ..";

#[test]
fn polling_jira_needs_what_its_deployment_authenticates_with() {
    let poll = |deployment: &str, rest: &str| {
        format!("jira: {{site: a.example, deployment: {deployment}, cloudId: x, {rest}}}")
    };
    let missing = |key: &str| format!("jira.poll: missing required key '{key}'");
    for (text, expected) in [
        (
            poll("cloud", "poll: {enabled: true}"),
            vec![missing("tokenEnv"), missing("emailEnv")],
        ),
        (
            poll("cloud-scoped", "poll: {enabled: true, tokenEnv: T}"),
            vec![missing("emailEnv")],
        ),
        (
            poll("data-center", "poll: {enabled: true}"),
            vec![missing("tokenEnv")],
        ),
        (
            poll("data-center", "poll: {enabled: true, tokenEnv: T}"),
            vec![],
        ),
        (poll("cloud", "poll: {enabled: false}"), vec![]),
    ] {
        assert_eq!(problems_of(&text), expected, "{text}");
    }
}

#[test]
fn everything_is_named_at_once_in_the_order_of_the_file() {
    let text = "
slack:
  rooms:
    - {channel: C1, ref: nonsense}
    - {channel: bad, ref: 'standing:a'}
    - {channel: C1}
store: {retentionDays: x, path: /elsewhere, maxAttempts: 0}
repositories: [5, a/b, c]
listen: {host: 0.0.0.0, nonsense: 1}
consume: {maxWaitSeconds: 1, maxWaitSeconds: 2}
";
    let paths: Vec<String> = problems_of(text)
        .iter()
        .map(|problem| problem.split(": ").next().unwrap().to_owned())
        .collect();
    let expected = [
        "slack.rooms[0].ref",
        "slack.rooms[1].channel",
        "slack.rooms[2]",
        "store.retentionDays",
        "store.path",
        "store.maxAttempts",
        "repositories[0]",
        "repositories[2]",
        "listen.host",
        "listen.nonsense",
        "consume.maxWaitSeconds",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn a_part_that_is_wrong_does_not_accuse_the_parts_that_lean_on_it() {
    for text in [
        "listen: {port: x, ingress: {port: 8790}}",
        "store: {retryBackoffSeconds: {min: x, max: 1}}",
        "{repositories: [5], github: {poll: {sources: [{repositories: [a/b]}]}}}",
        "state: {root: 5}\nstore: {path: /elsewhere/gateway.db}",
        "state: {root: ~ada}\nstore: {path: /elsewhere/gateway.db}",
    ] {
        assert_eq!(
            problems_of(text).len(),
            1,
            "{text}: {:?}",
            problems_of(text)
        );
    }
}

#[test]
fn an_address_beyond_loopback_needs_to_be_meant() {
    for (text, keys) in [
        ("listen: {host: 0.0.0.0}", vec!["listen.host"]),
        ("listen: {host: '::'}", vec!["listen.host"]),
        ("listen: {host: gw.example}", vec!["listen.host"]),
        (
            "listen: {ingress: {host: 10.0.0.1, port: 1}}",
            vec!["listen.ingress.host"],
        ),
        (
            "listen: {ingress: {port: 1, host: 0.0.0.0}, host: 0.0.0.0}",
            vec!["listen.ingress.host", "listen.host"],
        ),
    ] {
        let Err(ConfigError::Exposed { problems, .. }) = parse_text(text) else {
            panic!("{text}");
        };
        assert_eq!(
            problems
                .iter()
                .map(|it| it.path.as_str())
                .collect::<Vec<_>>(),
            keys
        );
    }
    for text in [
        "listen: {host: 127.8.9.10}",
        "listen: {host: '::1'}",
        "listen: {host: LocalHost}",
        "listen: {host: 0.0.0.0, exposed: true}",
        "listen: {exposed: true, ingress: {host: 0.0.0.0, port: 1}}",
    ] {
        assert!(problems_of(text).is_empty(), "{text}");
    }
}

#[test]
fn a_flood_of_problems_is_cut_off_and_it_is_said() {
    let keys: Vec<String> = (0..2000).map(|_| "5".to_owned()).collect();
    let problems = problems_of(&format!("repositories: [{}]", keys.join(", ")));
    assert_eq!(problems.len(), 1001);
    assert_eq!(
        problems[1000],
        "(root): only the first 1000 problems are listed"
    );
}

#[test]
fn aliases_work_within_bounds() {
    let config = loaded("repositories: [&name octo/repo]\ninstances: [&x a]\nlisten: &l {port: 1}");
    assert_eq!(config.config.listen.address.port, 1);
    let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, of) in [
        ("b", "a"),
        ("c", "b"),
        ("d", "c"),
        ("e", "d"),
        ("f", "e"),
        ("g", "f"),
    ] {
        let ten = vec![format!("*{of}"); 10].join(", ");
        bomb.push_str(&format!("{name}: &{name} [{ten}]\n"));
    }
    assert_eq!(
        problems_of(&bomb),
        ["(root): is not one well-formed YAML document"]
    );
    let wide = format!(
        "a: &a {}\nb: [{}]",
        "x".repeat(100_000),
        vec!["*a"; 100].join(", ")
    );
    assert_eq!(
        problems_of(&wide),
        ["(root): is too large once its aliases are followed"]
    );
    // Each would keep the YAML library busy for minutes.
    for open in ["[", "{", "[{a: ", "{a: ["] {
        assert_eq!(
            problems_of(&format!("a: {}", open.repeat(1_000_000 / open.len()))),
            ["(root): has more than 500 brackets open at once"]
        );
    }
    let many = vec!["[a]"; 1_000].join(", ");
    assert_eq!(problems_of(&format!("a: [{many}]")), ["a: unknown key"]);
    assert_eq!(problems_of("a: &a [*a]").len(), 1);
}
