//! Signed GitHub comment deliveries with ids of their own, as bytes ready to be sent.

use the_loop_gateway::providers::signature::sign_github;

/// The secret that the deliveries are signed with.
pub(crate) const SECRET: &str = "a secret for measuring";

/// Text that compresses about as comments do: words, not one letter.
fn prose(bytes: usize, seed: u64) -> String {
    const WORDS: [&str; 16] = [
        "the", "gateway", "stores", "each", "event", "before", "it", "answers", "review", "queue",
        "instance", "commit", "please", "look", "branch", "again",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(WORDS[(state % 16) as usize]);
        text.push(if state.is_multiple_of(97) { '.' } else { ' ' });
    }
    text
}

/// The body of a comment on `octo/repo#<number>` of about `bytes` bytes.
pub(crate) fn comment(id: u64, number: u64, bytes: usize) -> Vec<u8> {
    let user = r#"{"login":"octocat","id":1,"type":"User","site_admin":false,"url":"https://api.github.com/users/octocat"}"#;
    let head = format!(
        r#"{{"action":"created","issue":{{"url":"https://api.github.com/repos/octo/repo/issues/{number}","number":{number},"title":"A title","user":{user},"labels":[],"state":"open"}},"comment":{{"id":{id},"node_id":"IC_{id}","user":{user},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","body":""#
    );
    let tail = format!(
        r#""}},"repository":{{"id":7,"name":"repo","full_name":"octo/repo","owner":{user},"html_url":"https://github.com/octo/repo"}},"sender":{user}}}"#
    );
    let body = prose(bytes.saturating_sub(head.len() + tail.len()), id);
    format!("{head}{body}{tail}").into_bytes()
}

/// A whole HTTP request that delivers the comment.
pub(crate) fn request(host: &str, id: u64, number: u64, bytes: usize) -> Vec<u8> {
    let body = comment(id, number, bytes);
    let signature = sign_github(SECRET, &body);
    let mut request = format!(
        "POST /gh-webhook HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         X-GitHub-Event: issue_comment\r\nX-GitHub-Delivery: bench-{id}\r\n\
         X-Hub-Signature-256: {signature}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend(body);
    request
}
