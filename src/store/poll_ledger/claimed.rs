//! Which pull requests of a repository somebody works on.

use rusqlite::params;

use super::super::error::StoreError;
use super::super::routing;
use super::super::writer::{Tx, Write};
use crate::domain::WorkItemRef;

/// Finds the known open pull requests of a source that have a claimant: of their own, or of a
/// ticket that a binding links them to. Sent by the poller before it reads checks.
#[derive(Debug, Clone)]
pub struct ClaimedPullRequests {
    /// The repository.
    pub source: String,
    /// How many at most, those after `after`.
    pub limit: u32,
    /// The key behind which to go on; empty at first.
    pub after: String,
}

/// A pull request that somebody works on.
#[derive(Debug, Clone)]
pub struct ClaimedPullRequest {
    /// The pull request.
    pub work_item: WorkItemRef,
    /// Its head commit; empty when it is not known.
    pub head: String,
}

impl Write for ClaimedPullRequests {
    type Reply = Vec<ClaimedPullRequest>;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Self::Reply, StoreError> {
        let rows = tx.all(
            "SELECT i.work_item, i.head FROM poll_items i
             WHERE i.source = ?1 AND i.work_item_key > ?2 AND i.kind = 'pull-request'
                 AND i.forgotten = 0 AND (
                     EXISTS (SELECT 1 FROM claims c WHERE c.subject_key = i.subject_key)
                     OR EXISTS (SELECT 1 FROM bindings b
                             JOIN claims c ON c.subject_key = b.subject_key
                             WHERE b.provider = 'github' AND b.key = i.work_item_key))
             ORDER BY i.work_item_key LIMIT ?3",
            params![self.source, self.after, self.limit],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
            "look for claimed pull requests",
        )?;
        rows.into_iter()
            .map(|(work_item, head)| {
                let work_item = routing::parse_stored(&work_item)?;
                Ok(ClaimedPullRequest { work_item, head })
            })
            .collect()
    }
}
