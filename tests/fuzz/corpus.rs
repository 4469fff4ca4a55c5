//! What inputs are made of: seeds of our own, and the shared payloads where they are.

use std::path::{Path, PathBuf};

use the_loop_gateway::providers::signature::{sign_github, sign_slack};

use crate::support::comment_on;
use crate::targets::{CANARY, CURRENT, NOW_S};

const FORM: &str = "application/x-www-form-urlencoded";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The files of a folder by name; none where it is absent.
pub(crate) fn files_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// The shared payloads of a folder, or none, and says so.
pub(crate) fn payloads(folder: &str) -> Vec<(String, Vec<u8>)> {
    let path = root().join("../shared/payloads").join(folder);
    let files = files_of(&path);
    if files.is_empty() {
        eprintln!("SKIPPED: no payloads at {}", path.display());
    }
    files
}

/// Inputs that broke a target once.
pub(crate) fn regressions(name: &str) -> Vec<Vec<u8>> {
    let files = files_of(&root().join("fuzz/regressions").join(name));
    files.into_iter().map(|(_, bytes)| bytes).collect()
}

fn with_head(head: &str, body: &[u8]) -> Vec<u8> {
    [head.as_bytes(), b"\n", body].concat()
}

fn is_form(file: &str) -> bool {
    file.ends_with(".txt")
}

/// The inputs that a target starts from.
pub(crate) fn seeds(name: &str) -> Vec<Vec<u8>> {
    match name {
        "github" => github(),
        "jira" => jira(),
        "slack" => slack(),
        "slack_frame" => frames(),
        "signatures" => signatures(),
        "config" => configs(),
        "consume_bodies" => bodies(),
        other => panic!("no target {other}"),
    }
}

fn github() -> Vec<Vec<u8>> {
    let comment = comment_on(7, 42, "please \u{e9}\u{1f600} look");
    let form: String = form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", &comment)
        .finish();
    let mut seeds = vec![
        with_head("issue_comment|guid-1|application/json", comment.as_bytes()),
        with_head(&format!("issue_comment|guid-1|{FORM}"), form.as_bytes()),
        with_head(
            "issue_comment|guid-1|application/json|ghe.example.com",
            comment.as_bytes(),
        ),
    ];
    for (file, bytes) in payloads("github") {
        let event = file.split('.').next().unwrap();
        let kind = if is_form(&file) {
            FORM
        } else {
            "application/json"
        };
        seeds.push(with_head(&format!("{event}|guid|{kind}"), &bytes));
    }
    seeds
}

fn jira() -> Vec<Vec<u8>> {
    let comment = r#"{"webhookEvent":"comment_created","timestamp":1,"issue":{"id":"1","key":
        "PROJ-1","self":"https://acme.atlassian.net/rest/api/2/issue/1","fields":{}},"comment":
        {"id":"5","author":{"accountId":"a"},"created":"2026-01-02T03:04:05.000+0100"}}"#;
    let mut seeds = vec![with_head("id-1|", comment.as_bytes())];
    let files = payloads("jira");
    seeds.extend(files.iter().map(|(_, bytes)| with_head("id-2|1", bytes)));
    seeds
}

fn slack() -> Vec<Vec<u8>> {
    let event = r#"{"type":"event_callback","team_id":"T1","api_app_id":"A1","event_id":"Ev1",
        "event":{"type":"message","channel":"C1","user":"U1","ts":"1.2","text":"go"}}"#;
    let message = r#"{"type":"message","user":"U1","ts":"1.2","thread_ts":"1.1","text":"go"}"#;
    let heartbeat = r#"{"type":"event_callback","team_id":"T1","event":{"type":"message","channel":
        "C1","bot_id":"B1","ts":"1.2","text":"the-loop doctor heartbeat deadbeef"}}"#;
    let command = "command=%2Floop&channel_id=C1&user_id=U1&team_id=T1&trigger_id=1.2&text=a+b";
    let mut seeds = vec![
        with_head("application/json|", event.as_bytes()),
        with_head("application/json|1", message.as_bytes()),
        with_head("application/json|", heartbeat.as_bytes()),
        with_head(&format!("{FORM}|"), command.as_bytes()),
        with_head(&format!("{FORM}|"), b"ssl_check=1&token=x"),
    ];
    for (file, bytes) in payloads("slack_http") {
        let kind = if is_form(&file) {
            FORM
        } else {
            "application/json"
        };
        seeds.push(with_head(&format!("{kind}|"), &bytes));
    }
    seeds
}

fn frames() -> Vec<Vec<u8>> {
    let own = [
        r#"{"type":"hello","num_connections":1,"connection_info":{"app_id":"A1"}}"#,
        r#"{"type":"disconnect","reason":"refresh_requested"}"#,
        r#"{"type":"events_api","envelope_id":"e-1","retry_attempt":1,"retry_reason":"timeout",
            "payload":{"team_id":"T1","event":{"type":"message","channel":"C1","ts":"1.2"}}}"#,
        r#"{"type":"slash_commands","envelope_id":"e-2","payload":{"command":"/loop",
            "channel_id":"C1","user_id":"U1"}}"#,
    ];
    let mut seeds: Vec<Vec<u8>> = own.map(|text| text.as_bytes().to_vec()).into();
    seeds.extend(payloads("slack_socket").into_iter().map(|(_, bytes)| bytes));
    seeds
}

fn signatures() -> Vec<Vec<u8>> {
    let body = b"{\"a\":1}";
    let hub = sign_github(CURRENT, body);
    let previous = sign_github("previous-secret", body);
    let slack = sign_slack(CURRENT, NOW_S, body);
    let old = sign_slack(CURRENT, NOW_S - 301, body);
    let heads = [
        hub.clone(),
        previous,
        hub.to_uppercase(),
        hub.replace("sha256", "sha1"),
        format!("{slack}|{NOW_S}"),
        format!("{old}|{}", NOW_S - 301),
        format!("{slack}|0{NOW_S}"),
        format!("{slack}|{NOW_S}.5"),
    ];
    heads.map(|head| with_head(&head, body)).into()
}

fn configs() -> Vec<Vec<u8>> {
    let minimal = "version: '1'\nrepositories: [octo/repo]\n".to_owned();
    let misplaced = format!(
        "version: '1'\ngithub:\n  webhook: {{enabled: true, secretEnv: {CANARY}}}\n\
         jira: {{poll: {{tokenEnv: \"{CANARY}\"}}}}\nslack: {{socket: {{enabled: {CANARY}}}}}\n"
    );
    let with_env = format!(
        "version: '1'\nenv: {{file: the-loop.env}}\ninstances: [{CANARY}]\n\0\
         # comment\nGITHUB_TOKEN='a b'\nexport X={CANARY}\nno line {CANARY}\n"
    );
    let aliases = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n".to_owned();
    let mut seeds: Vec<Vec<u8>> = [minimal, misplaced, with_env, aliases]
        .map(String::into_bytes)
        .into();
    // What the documentation shows, block by block.
    let documented = std::fs::read_to_string(root().join("docs/CONFIGURATION.md")).unwrap();
    let blocks = documented.split("```yaml\n").skip(1);
    seeds.extend(blocks.map(|block| block.split("```").next().unwrap().as_bytes().to_vec()));
    seeds
}

fn bodies() -> Vec<Vec<u8>> {
    let own = [
        r#"{"instance":"laptop","peer":"p","run":"r","cursor":5,"max":64,"wait":1.5,"lease":60,
            "commit":[{"seq":1,"outcome":"delivered"},{"seq":2,"outcome":"dropped:not-ours",
            "detail":"why"},{"seq":3,"outcome":"failed"}]}"#,
        r#"{"peer":"p"}"#,
        r#"{"peer":"p","cursor":null,"max":1e3,"wait":-1,"commit":[{"seq":1.0,"outcome":"spawned"}]}"#,
        r#"{"instance":"laptop","commit":[]}"#,
        r#"{"instance":7,"peer":"","commit":{"seq":1}}"#,
    ];
    own.map(|text| text.as_bytes().to_vec()).into()
}
