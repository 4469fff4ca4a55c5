//! A GitHub on the loopback address: as much of the REST API as the poller reads, with every way
//! in which the real one is known to refuse.
//!
//! Time stands still until somebody does something, which takes a second, or moves it.

mod api;
mod model;

use serde_json::{Value, json};
use tokio::sync::watch;

use self::model::{GitHub, Limits, Repo};
use super::http_fake::HttpFake;
pub use super::http_fake::{Asked, Trouble};

/// The running server, and what its people do. Usable from any thread.
#[derive(Debug, Clone)]
pub struct FakeGitHub(HttpFake<GitHub>);

impl FakeGitHub {
    /// Starts a server on a free port, in the current System.
    ///
    /// # Errors
    /// When the loopback address has no free port.
    pub fn start() -> std::io::Result<Self> {
        HttpFake::start(GitHub::default()).map(Self)
    }

    /// Closes every connection and the port.
    pub async fn stop(&self) {
        self.0.stop().await;
    }

    /// What `github.poll.apiBase` has to be.
    #[must_use]
    pub fn api_base(&self) -> String {
        self.0.url()
    }

    // What comes next.

    /// The next requests whose path and query contain `part` meet trouble; `None`: all of them.
    pub fn trouble(&self, part: &str, times: Option<usize>, trouble: Trouble) {
        self.0.trouble(part, times, trouble);
    }

    /// Ends all trouble.
    pub fn end_trouble(&self) {
        self.0.end_trouble();
    }

    /// Does something right after the next answer to a request that contains `part`.
    pub fn then(&self, part: &str, what: impl FnOnce(&Self) + Send + 'static) {
        let own = self.clone();
        self.0.then(part, move || what(&own));
    }

    /// Takes only this token from now on.
    pub fn require_token(&self, token: &str) {
        self.0.shared.model().token = Some(token.to_owned());
    }

    /// So many requests are left of this hour, of which so many seconds are left; a 304 costs none.
    pub fn limit(&self, remaining: u64, reset_in: i64) {
        let mut model = self.0.shared.model();
        let reset = model.now.saturating_add(reset_in);
        model.limits = Some(Limits { remaining, reset });
    }

    /// Items on a page, at most.
    pub fn page_size(&self, items: usize) {
        self.0.shared.model().page_max = items.max(1);
    }

    /// Moves the time.
    pub fn advance(&self, seconds: i64) {
        let mut model = self.0.shared.model();
        model.now = model.now.saturating_add(seconds);
    }

    // What people do. Each takes a second.

    /// Makes a repository.
    pub fn create(&self, name: &str) {
        self.change(|model| model.create(name));
    }

    /// Gives a repository another name; the old one redirects.
    pub fn rename(&self, name: &str, to: &str) {
        self.change(|model| model.rename(name, to));
    }

    /// Switches issues off.
    pub fn switch_issues_off(&self, name: &str) {
        self.in_repo(name, |repo, _| repo.issues_are_off = true);
    }

    /// Opens an issue; returns its number.
    pub fn open_issue(&self, name: &str, author: &str, labels: &[&str]) -> u64 {
        self.in_repo(name, |repo, now| repo.open(now, author, labels, None))
    }

    /// Opens a pull request; returns its number.
    pub fn open_pull_request(&self, name: &str, author: &str, labels: &[&str], sha: &str) -> u64 {
        self.in_repo(name, |repo, now| repo.open(now, author, labels, Some(sha)))
    }

    /// Sets a label.
    pub fn label(&self, name: &str, number: u64, label: &str) {
        self.in_repo(name, |repo, now| repo.label(now, number, label, true));
    }

    /// Takes a label off.
    pub fn unlabel(&self, name: &str, number: u64, label: &str) {
        self.in_repo(name, |repo, now| repo.label(now, number, label, false));
    }

    /// Gives an item another title.
    pub fn retitle(&self, name: &str, number: u64, title: &str) {
        let title = json!(title);
        self.in_repo(name, |repo, now| repo.set(now, number, [("title", title)]));
    }

    /// Closes an item.
    pub fn close(&self, name: &str, number: u64, by: &str) {
        self.in_repo(name, |repo, now| repo.close(now, number, by, false));
    }

    /// Merges a pull request.
    pub fn merge(&self, name: &str, number: u64, by: &str) {
        self.in_repo(name, |repo, now| repo.close(now, number, by, true));
    }

    /// Opens an item again.
    pub fn reopen(&self, name: &str, number: u64) {
        self.in_repo(name, |repo, now| repo.reopen(now, number));
    }

    /// Deletes an item, or transfers it away.
    pub fn delete(&self, name: &str, number: u64) {
        self.in_repo(name, |repo, _| repo.delete(number));
    }

    /// Pushes a commit to a pull request.
    pub fn push(&self, name: &str, number: u64, sha: &str) {
        let head = json!({"sha": sha, "ref": "topic"});
        self.in_repo(name, |repo, now| repo.set(now, number, [("head", head)]));
    }

    /// Comments on an item; returns the comment's id.
    pub fn comment(&self, name: &str, number: u64, author: &str, body: &str) -> u64 {
        self.in_repo(name, |repo, now| repo.comment(now, number, author, body))
    }

    /// Edits a comment.
    pub fn edit_comment(&self, name: &str, id: u64, body: &str) {
        self.in_repo(name, |repo, now| repo.edit_comment(now, id, body));
    }

    /// Deletes a comment.
    pub fn delete_comment(&self, name: &str, id: u64) {
        self.in_repo(name, |repo, _| repo.delete_comment(id));
    }

    /// Submits a review; returns its id.
    pub fn review(&self, name: &str, number: u64, author: &str, state: &str) -> u64 {
        self.in_repo(name, |repo, now| repo.review(now, number, author, state))
    }

    /// Begins a review that nobody else sees yet, with a comment on a line; returns the ids of
    /// both.
    pub fn draft_review(&self, name: &str, number: u64, author: &str) -> (u64, u64) {
        self.in_repo(name, |repo, now| repo.draft_review(now, number, author))
    }

    /// Submits a review that was begun.
    pub fn submit_review(&self, name: &str, number: u64, review: u64) {
        self.in_repo(name, |repo, now| repo.submit_review(now, number, review));
    }

    /// Comments on a line of a pull request; returns the comment's id.
    pub fn review_comment(&self, name: &str, number: u64, author: &str) -> u64 {
        self.in_repo(name, |repo, now| {
            let review = repo.review(now, number, author, "COMMENTED");
            repo.review_comment(now, (number, author), review, true)
        })
    }

    /// Edits a comment on a line.
    pub fn edit_review_comment(&self, name: &str, id: u64) {
        self.in_repo(name, |repo, now| repo.edit_review_comment(now, id));
    }

    /// Starts a check of a commit, or ends it with a conclusion; returns its id.
    pub fn check_run(&self, name: &str, sha: &str, check: &str, conclusion: Option<&str>) -> u64 {
        self.in_repo(name, |repo, now| {
            repo.check_run(now, sha, check, conclusion)
        })
    }

    /// Posts a status of a commit; returns its id.
    pub fn status(&self, name: &str, sha: &str, context: &str, state: &str) -> u64 {
        self.in_repo(name, |repo, now| repo.status(now, sha, context, state))
    }

    // What there is.

    /// An issue object, which a pull request has too.
    #[must_use]
    pub fn issue_object(&self, name: &str, number: u64) -> Value {
        self.look(name, |repo| repo.issue_object(number))
    }

    /// A pull request object.
    #[must_use]
    pub fn pull_request_object(&self, name: &str, number: u64) -> Value {
        self.look(name, |repo| repo.pull_request_object(number))
    }

    /// A comment, a review, a comment on a line, a check run or a status.
    #[must_use]
    pub fn object(&self, name: &str, id: u64) -> Value {
        self.look(name, |repo| repo.object(id))
    }

    /// A repository.
    #[must_use]
    pub fn repository(&self, name: &str) -> Value {
        self.look(name, Repo::repository)
    }

    /// The requests since the last [`FakeGitHub::forget_asked`].
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.0.asked()
    }

    /// Forgets the requests.
    pub fn forget_asked(&self) {
        self.0.forget_asked();
    }

    /// Tells whenever a request was answered.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes()
    }

    fn change<T>(&self, what: impl FnOnce(&mut GitHub) -> T) -> T {
        let mut model = self.0.shared.model();
        model.now = model.now.saturating_add(1);
        what(&mut model)
    }

    fn in_repo<T: Default>(&self, name: &str, what: impl FnOnce(&mut Repo, i64) -> T) -> T {
        self.change(|model| {
            let now = model.now;
            model
                .repo(name)
                .map(|repo| what(repo, now))
                .unwrap_or_default()
        })
    }

    fn look(&self, name: &str, what: impl FnOnce(&Repo) -> Value) -> Value {
        let mut model = self.0.shared.model();
        model.repo(name).map_or(Value::Null, |repo| what(repo))
    }
}
