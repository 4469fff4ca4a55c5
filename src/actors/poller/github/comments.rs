//! Comments on issues and pull requests, and on lines of pull requests.
//!
//! A comment comes again when it is edited. It is told when it was made after the floor, for what
//! was made before that was told then, or is history. A review comment is made when it is drafted
//! but seen when its review is submitted: an old one is told if its review is new.

use super::item::Said;
use super::objects::Objects;
use super::teller::Teller;
use super::{COMMENTS, GitHubPoller};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::round::{Happening, Round};
use crate::domain::Timestamp;
use crate::store::PollLists;

impl GitHubPoller {
    /// Tells the comments that are new on one of the two lists.
    pub(super) async fn read_comments(
        &mut self,
        teller: &Teller,
        (name, lists): (&'static str, &PollLists),
        objects: &mut Objects,
        round: &mut Round,
    ) -> Result<(), Failure> {
        let path = if name == COMMENTS {
            "issues/comments?sort=updated&direction=asc"
        } else if self.source.monitor.pull_requests {
            "pulls/comments?sort=updated&direction=asc"
        } else {
            return Ok(());
        };
        let Some(changes) = self.changes(teller, (name, path), lists, round).await? else {
            return Ok(());
        };
        let told = self
            .tell_comments(teller, (name, changes.floor), &changes.entries, objects)
            .await;
        match told {
            Ok(happenings) => round.happenings.extend(happenings),
            Err(failure) => {
                // Nothing of this list was told, so it stays where it was.
                round.save.lists.remove(name);
                round.more = false;
                round.tolerate(failure)?;
            }
        }
        Ok(())
    }

    async fn tell_comments(
        &self,
        teller: &Teller,
        (name, floor): (&'static str, Timestamp),
        entries: &[String],
        objects: &mut Objects,
    ) -> Result<Vec<Happening>, Failure> {
        let mut happenings = Vec::new();
        for raw in entries {
            let Some(comment) = Said::comment(raw) else {
                continue;
            };
            let Some(number) = comment.number() else {
                continue;
            };
            let happening = if name == COMMENTS {
                self.comment(teller, &comment, (number, floor), objects)
                    .await?
            } else {
                self.review_comment(teller, &comment, (number, floor), objects)
                    .await?
            };
            happenings.extend(happening);
        }
        Ok(happenings)
    }

    async fn comment(
        &self,
        teller: &Teller,
        comment: &Said<'_>,
        (number, floor): (u64, Timestamp),
        objects: &mut Objects,
    ) -> Result<Option<Happening>, Failure> {
        if comment.at < floor || !self.monitors(comment.kind()) {
            return Ok(None);
        }
        let name = &teller.repository.full_name;
        let issue = self.issue(name, number, objects).await?;
        Ok(issue.and_then(|issue| teller.comment(comment, issue)))
    }

    async fn review_comment(
        &self,
        teller: &Teller,
        comment: &Said<'_>,
        (number, floor): (u64, Timestamp),
        objects: &mut Objects,
    ) -> Result<Option<Happening>, Failure> {
        let name = &teller.repository.full_name;
        let mut at = comment.at;
        if at < floor {
            let Some(review) = comment.review_id() else {
                return Ok(None);
            };
            let submitted = self.submitted(name, (number, review), objects).await?;
            match submitted.filter(|submitted| *submitted >= floor) {
                Some(submitted) => at = submitted,
                None => return Ok(None),
            }
        }
        let pull_request = self.pull_request(name, number, objects).await?;
        Ok(pull_request.and_then(|pull_request| teller.review_comment(comment, pull_request, at)))
    }
}
