//! Comments on issues and pull requests, and on lines of pull requests.
//!
//! A comment comes again when it is edited. It is told when it was made after the floor, for what
//! was made before that was told then, or is history. A review comment is made when it is drafted
//! but seen when its review is submitted: an old one is told if its review is new.

use super::changes::Changes;
use super::item::Said;
use super::{COMMENTS, GitHubPoller, Pass};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::round::Happening;
use crate::domain::Timestamp;

impl GitHubPoller {
    /// Tells the comments that are new on one of the two lists.
    pub(super) async fn read_comments(
        &mut self,
        pass: &mut Pass,
        name: &'static str,
    ) -> Result<(), Failure> {
        let path = if name == COMMENTS {
            "issues/comments?sort=updated&direction=asc"
        } else if self.source.monitor.pull_requests {
            "pulls/comments?sort=updated&direction=asc"
        } else {
            return Ok(());
        };
        let Some(changes) = self.changes(pass, name, path).await? else {
            return Ok(());
        };
        match self.tell_comments(pass, name, &changes).await {
            Ok(happenings) => {
                pass.round.happenings.extend(happenings);
                pass.note_list(name, changes.list);
                Ok(())
            }
            Err(failure) => {
                // Nothing of this list was told, so it stays where it was.
                pass.round.more = false;
                pass.round.tolerate(failure)
            }
        }
    }

    async fn tell_comments(
        &self,
        pass: &mut Pass,
        name: &'static str,
        changes: &Changes,
    ) -> Result<Vec<Happening>, Failure> {
        let mut happenings = Vec::new();
        for raw in &changes.entries {
            let Some(comment) = Said::comment(raw) else {
                continue;
            };
            let happening = if name == COMMENTS {
                self.comment(pass, &comment, changes.floor).await?
            } else {
                self.review_comment(pass, &comment, changes.floor).await?
            };
            happenings.extend(happening);
        }
        Ok(happenings)
    }

    async fn comment(
        &self,
        pass: &mut Pass,
        comment: &Said<'_>,
        floor: Timestamp,
    ) -> Result<Option<Happening>, Failure> {
        let Some(number) = comment.number().filter(|_| comment.at >= floor) else {
            return Ok(None);
        };
        if !self.monitors(comment.kind()) {
            return Ok(None);
        }
        self.find_issue(pass, number).await?;
        let issue = pass.objects.issue(number);
        Ok(issue.and_then(|issue| pass.teller.comment(comment, issue)))
    }

    async fn review_comment(
        &self,
        pass: &mut Pass,
        comment: &Said<'_>,
        floor: Timestamp,
    ) -> Result<Option<Happening>, Failure> {
        let Some(number) = comment.number() else {
            return Ok(None);
        };
        let mut at = comment.at;
        if at < floor {
            let Some(review) = comment.review_id() else {
                return Ok(None);
            };
            let submitted = self.submitted(pass, number, review).await?;
            match submitted.filter(|submitted| *submitted >= floor) {
                Some(submitted) => at = submitted,
                None => return Ok(None),
            }
        }
        self.find_pull_request(pass, number).await?;
        let pull_request = pass.objects.pull_request(number);
        Ok(pull_request
            .and_then(|pull_request| pass.teller.review_comment(comment, pull_request, at)))
    }
}
