//! Issues and pull requests that this round has seen, or else asks for.

use std::collections::BTreeMap;

use super::item::Said;
use super::{GitHubPoller, Pass};
use crate::actors::poller::failure::Failure;
use crate::domain::Timestamp;

/// What this round has seen, by number; nothing for what is gone.
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

    /// An issue object that was seen.
    pub(super) fn issue(&self, number: u64) -> Option<&str> {
        self.issues.get(&number)?.as_deref()
    }

    /// A pull request object that was seen.
    pub(super) fn pull_request(&self, number: u64) -> Option<&str> {
        self.pull_requests.get(&number)?.as_deref()
    }
}

impl GitHubPoller {
    /// Makes sure that an issue object was seen, if there is one.
    pub(super) async fn find_issue(&self, pass: &mut Pass, number: u64) -> Result<(), Failure> {
        if pass.objects.issue(number).is_none() {
            let found = self.object(&pass.path(&format!("issues/{number}"))).await?;
            pass.objects.issues.insert(number, found);
        }
        Ok(())
    }

    /// Makes sure that a pull request object was seen, if there is one.
    pub(super) async fn find_pull_request(
        &self,
        pass: &mut Pass,
        number: u64,
    ) -> Result<(), Failure> {
        if pass.objects.pull_request(number).is_none() {
            let found = self.object(&pass.path(&format!("pulls/{number}"))).await?;
            pass.objects.pull_requests.insert(number, found);
        }
        Ok(())
    }

    /// When a review was submitted; `None` when it is gone or was not.
    pub(super) async fn submitted(
        &self,
        pass: &mut Pass,
        number: u64,
        review: u64,
    ) -> Result<Option<Timestamp>, Failure> {
        if let Some(known) = pass.objects.reviews.get(&review) {
            return Ok(*known);
        }
        let path = pass.path(&format!("pulls/{number}/reviews/{review}"));
        let found = self.object(&path).await?;
        let submitted = found.as_deref().and_then(Said::review);
        let submitted = submitted.map(|review| review.at);
        pass.objects.reviews.insert(review, submitted);
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
