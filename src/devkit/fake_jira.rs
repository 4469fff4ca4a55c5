//! A Jira on the loopback address: Cloud or Data Center, as much of the REST API as the poller
//! reads. Its index can lag, as the real one's does.
//!
//! Time stands still until somebody does something, which takes a second, or moves it.

mod jql;
mod model;

use serde_json::Value;
use tokio::sync::watch;

use self::model::{Issue, Jira};
use super::http_fake::HttpFake;
pub use super::http_fake::{Asked, Trouble};

/// The running server, and what its people do. Usable from any thread.
#[derive(Debug, Clone)]
pub struct FakeJira(HttpFake<Jira>);

impl FakeJira {
    /// Starts a Cloud site on a free port, in the current System.
    ///
    /// # Errors
    /// When the loopback address has no free port.
    pub fn start_cloud() -> std::io::Result<Self> {
        HttpFake::start(Jira::new(true)).map(Self)
    }

    /// Starts a Data Center on a free port, in the current System.
    ///
    /// # Errors
    /// When the loopback address has no free port.
    pub fn start_data_center() -> std::io::Result<Self> {
        HttpFake::start(Jira::new(false)).map(Self)
    }

    /// Closes every connection and the port.
    pub async fn stop(&self) {
        self.0.stop().await;
    }

    /// What `jira.poll.apiBase` has to be.
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

    /// Takes only this `Authorization` from now on. A site that strangers may browse answers a
    /// search nevertheless, with nothing.
    pub fn require_authorization(&self, value: &str, is_browsable: bool) {
        let mut model = self.0.shared.model();
        model.authorization = Some(value.to_owned());
        model.is_browsable = is_browsable;
    }

    /// Issues and comments on a page, at most.
    pub fn page_size(&self, items: usize) {
        self.0.shared.model().page_max = items.max(1);
    }

    /// Moves the time.
    pub fn advance(&self, seconds: i64) {
        let mut model = self.0.shared.model();
        model.now_ms = model.now_ms.saturating_add(seconds.saturating_mul(1000));
    }

    /// Stops the index: what happens from now on is found only after [`FakeJira::catch_up`].
    pub fn lag(&self) {
        self.0.shared.model().lag();
    }

    /// Brings the index up to date.
    pub fn catch_up(&self) {
        self.0.shared.model().catch_up();
    }

    // What people do. Each takes a second.

    /// Creates an issue; returns its key.
    pub fn create(&self, project: &str, author: &str, labels: &[&str]) -> String {
        self.change(|jira| jira.create(project, author, labels))
    }

    /// Comments on an issue; returns the comment's id.
    pub fn comment(&self, key: &str, author: &str, body: &str) -> String {
        self.change(|jira| jira.comment(key, author, body))
    }

    /// Edits a comment.
    pub fn edit_comment(&self, key: &str, id: &str, body: &str) {
        self.change(|jira| jira.edit_comment(key, id, body));
    }

    /// Sets the labels.
    pub fn label(&self, key: &str, labels: &[&str]) {
        self.in_issue(key, |issue, _| issue.label(labels));
    }

    /// Gives an issue another summary.
    pub fn retitle(&self, key: &str, summary: &str) {
        self.in_issue(key, |issue, _| issue.retitle(summary));
    }

    /// Moves an issue to *done*, with the dates that Jira notes of it.
    pub fn close(&self, key: &str) {
        self.in_issue(key, |issue, date| issue.set_done(true, Some(date)));
    }

    /// Moves an issue to *done* by a workflow that notes no date.
    pub fn close_undated(&self, key: &str) {
        self.in_issue(key, |issue, _| issue.set_done(true, None));
    }

    /// Moves an issue out of *done*.
    pub fn reopen(&self, key: &str) {
        self.in_issue(key, |issue, date| issue.set_done(false, Some(date)));
    }

    /// Deletes an issue.
    pub fn delete(&self, key: &str) {
        self.change(|jira| jira.delete(key));
    }

    // What there is.

    /// An issue as a search shows it.
    #[must_use]
    pub fn issue_object(&self, key: &str) -> Value {
        self.0.shared.model().issue_object(key)
    }

    /// A comment.
    #[must_use]
    pub fn comment_object(&self, key: &str, id: &str) -> Value {
        self.0.shared.model().comment_object(key, id)
    }

    /// The requests since the last [`FakeJira::forget_asked`].
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

    fn change<T>(&self, what: impl FnOnce(&mut Jira) -> T) -> T {
        let mut model = self.0.shared.model();
        model.now_ms = model.now_ms.saturating_add(1000);
        what(&mut model)
    }

    fn in_issue(&self, key: &str, what: impl FnOnce(&mut Issue, &str)) {
        self.change(|jira| jira.touch(key, what));
    }
}
