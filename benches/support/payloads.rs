//! Signed GitHub comment deliveries with ids of their own, as bytes ready to be sent.

use the_loop_gateway::providers::signature::sign_github;

/// The secret that the deliveries are signed with.
pub(crate) const SECRET: &str = "a secret for measuring";

/// Text that compresses about as comments do: words, not one letter.
pub(crate) fn prose(bytes: usize, seed: u64) -> String {
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

/// What GitHub links to from a user and from a repository: most of a payload's bytes.
const USER_LINKS: [&str; 12] = [
    "html_url",
    "followers_url",
    "following_url",
    "gists_url",
    "starred_url",
    "subscriptions_url",
    "organizations_url",
    "repos_url",
    "events_url",
    "received_events_url",
    "avatar_url",
    "url",
];
const REPOSITORY_LINKS: [&str; 24] = [
    "forks_url",
    "keys_url",
    "collaborators_url",
    "teams_url",
    "hooks_url",
    "issue_events_url",
    "events_url",
    "assignees_url",
    "branches_url",
    "tags_url",
    "blobs_url",
    "git_tags_url",
    "git_refs_url",
    "trees_url",
    "statuses_url",
    "languages_url",
    "stargazers_url",
    "contributors_url",
    "subscribers_url",
    "commits_url",
    "git_commits_url",
    "comments_url",
    "issue_comment_url",
    "contents_url",
];

fn links(base: &str, names: &[&str]) -> String {
    names
        .iter()
        .map(|name| format!(r#""{name}":"{base}/{}","#, name.trim_end_matches("_url")))
        .collect()
}

fn user(login: &str, id: u64) -> String {
    let links = links(
        &format!("https://api.github.com/users/{login}"),
        &USER_LINKS,
    );
    format!(r#"{{"login":"{login}","id":{id},{links}"type":"User","site_admin":false}}"#)
}

/// A repository, with the one that it was forked from while there is room for more bytes.
fn repository(full_name: &str, id: u64, bytes: usize) -> String {
    let links = links(
        &format!("https://api.github.com/repos/{full_name}"),
        &REPOSITORY_LINKS,
    );
    let owner = user("octo-org", id + 1);
    let parent = if bytes > 2 * (links.len() + owner.len()) {
        let parent = repository(full_name, id + 2, bytes - links.len() - owner.len());
        format!(r#""parent":{parent},"#)
    } else {
        String::new()
    };
    format!(
        r#"{{"id":{id},"name":"repo","full_name":"{full_name}",{links}{parent}"owner":{owner},"html_url":"https://github.com/{full_name}"}}"#
    )
}

/// The body of a comment on `octo/repo#<number>` of about `bytes` bytes, in the proportions of
/// GitHub's: a sixth is what somebody wrote, the rest links.
pub(crate) fn comment(id: u64, number: u64, bytes: usize) -> Vec<u8> {
    let full_name = "octo/repo";
    let user = user(&format!("octocat-{}", id % 50), id % 50);
    let head = format!(
        r#"{{"action":"created","issue":{{"url":"https://api.github.com/repos/{full_name}/issues/{number}","number":{number},"title":"A title","user":{user},"labels":[],"state":"open"}},"comment":{{"id":{id},"node_id":"IC_{id}","user":{user},"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z","body":""#
    );
    let written = bytes / 6;
    let room = bytes.saturating_sub(head.len() + user.len() + written);
    let repository = repository(full_name, 7, room);
    let tail = format!(r#""}},"repository":{repository},"sender":{user}}}"#);
    let body = prose(bytes.saturating_sub(head.len() + tail.len()), id);
    format!("{head}{body}{tail}").into_bytes()
}

/// A whole HTTP request that delivers the comment.
pub(crate) fn request(host: &str, id: u64, number: u64, bytes: usize) -> Vec<u8> {
    signed("issue_comment", host, id, &comment(id, number, bytes))
}

/// The same bytes but for a name: nothing in it is a work item, so it is read and not stored.
pub(crate) fn unstored_request(host: &str, id: u64, number: u64, bytes: usize) -> Vec<u8> {
    let comment = String::from_utf8(comment(id, number, bytes)).expect("text");
    let body = comment.replacen(r#""issue":"#, r#""other":"#, 1);
    signed("watch", host, id, body.as_bytes())
}

/// A whole HTTP request that delivers a body.
pub(crate) fn signed(kind: &str, host: &str, id: u64, body: &[u8]) -> Vec<u8> {
    let signature = sign_github(SECRET, body);
    let mut request = format!(
        "POST /gh-webhook HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
         X-GitHub-Event: {kind}\r\nX-GitHub-Delivery: bench-{id}\r\n\
         X-Hub-Signature-256: {signature}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend(body);
    request
}
