//! Issues and pull requests that this round has seen, or else asks for.

use std::collections::BTreeMap;

use super::GitHubPoller;
use super::item::Said;
use crate::actors::poller::failure::Failure;
use crate::domain::Timestamp;

/// What this round has seen, by number.
#[derive(Debug, Default)]
pub(super) struct Objects {
    issues: BTreeMap<u64, Option<String>>,
    pull_requests: BTreeMap<u64, Option<String>>,
    /// When reviews were submitted.
    reviews: BTreeMap<u64, Option<Timestamp>>,
}

impl Objects {
    pub(super) fn keep_issue(&mut self, number: u64, raw: &str) {
        self.issues.insert(number, Some(raw.to_owned()));
    }

    pub(super) fn keep_review(&mut self, review: &Said<'_>) {
        self.reviews.insert(review.id, Some(review.at));
    }
}

impl GitHubPoller {
    /// The issue object of an item; `None` when it is gone.
    pub(super) async fn issue<'a>(
        &self,
        repository: &str,
        number: u64,
        objects: &'a mut Objects,
    ) -> Result<Option<&'a str>, Failure> {
        if !objects.issues.contains_key(&number) {
            let path = format!("/repos/{repository}/issues/{number}");
            let found = self.object(&path).await?;
            objects.issues.insert(number, found);
        }
        Ok(objects.issues.get(&number).and_then(Option::as_deref))
    }

    /// A pull request object; `None` when it is gone.
    pub(super) async fn pull_request<'a>(
        &self,
        repository: &str,
        number: u64,
        objects: &'a mut Objects,
    ) -> Result<Option<&'a str>, Failure> {
        if !objects.pull_requests.contains_key(&number) {
            let path = format!("/repos/{repository}/pulls/{number}");
            let found = self.object(&path).await?;
            objects.pull_requests.insert(number, found);
        }
        let found = objects.pull_requests.get(&number);
        Ok(found.and_then(Option::as_deref))
    }

    /// When a review was submitted; `None` when it is gone or was not.
    pub(super) async fn submitted(
        &self,
        repository: &str,
        (number, review): (u64, u64),
        objects: &mut Objects,
    ) -> Result<Option<Timestamp>, Failure> {
        if let Some(known) = objects.reviews.get(&review) {
            return Ok(*known);
        }
        let path = format!("/repos/{repository}/pulls/{number}/reviews/{review}");
        let found = self.object(&path).await?;
        let submitted = found.as_deref().and_then(Said::review);
        let submitted = submitted.map(|review| review.at);
        objects.reviews.insert(review, submitted);
        Ok(submitted)
    }

    /// One object as sent; `None` when it is gone, or has another address now: an issue that was
    /// transferred is one of another repository.
    pub(super) async fn object(&self, path: &str) -> Result<Option<String>, Failure> {
        match self.api.get(&self.api.url(path)).await {
            Ok(page) => Ok((!page.moved || self.has_moved).then_some(page.body)),
            Err(failure) if failure.is_absence() => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}
