//! Head commits: by which a CI event finds its pull request.

use rusqlite::params;

use super::super::error::StoreError;
use super::super::late_routing::{self, Routed, Scope};
use super::super::writer::{Tx, Write};
use super::super::{routing, stored_event};
use crate::domain::{LearnedCommit, Timestamp};

/// Remembers which commits head which pull requests. Sent by the poller; a webhook's commits come
/// with their [`Append`](crate::store::Append).
#[derive(Debug, Clone)]
pub struct LearnCommits {
    /// What was seen.
    pub commits: Vec<LearnedCommit>,
}

impl Write for LearnCommits {
    type Reply = Routed;

    fn apply(self, tx: &mut Tx<'_>) -> Result<Routed, StoreError> {
        learn(tx, &self.commits)
    }
}

/// Remembers head commits, and resolves the events that waited for them.
pub(in crate::store) fn learn(
    tx: &mut Tx<'_>,
    commits: &[LearnedCommit],
) -> Result<Routed, StoreError> {
    let mut scopes = Vec::new();
    for commit in commits {
        if insert(tx, commit)? {
            let key = stored_event::commit_key(&commit.repository, &commit.sha);
            scopes.push(Scope::Commit(key));
        }
    }
    late_routing::cover(tx, &scopes)
}

/// True when it was not known yet; a commit that is seen again counts as used.
fn insert(tx: &Tx<'_>, commit: &LearnedCommit) -> Result<bool, StoreError> {
    let key = commit.pull_request.key();
    let used_at = tx.first(
        "SELECT used_at_ms FROM commits
         WHERE repository = ?1 AND sha = ?2 AND work_item_key = ?3",
        params![commit.repository, commit.sha, key],
        |row| row.get(0).map(Timestamp),
        "read a commit",
    )?;
    if used_at.is_some_and(|used_at| !routing::is_use_due(tx.now, used_at)) {
        return Ok(false);
    }
    tx.execute(
        "INSERT INTO commits (repository, sha, work_item_key, work_item, used_at_ms)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (repository, sha, work_item_key) DO UPDATE SET
             used_at_ms = excluded.used_at_ms",
        params![
            commit.repository,
            commit.sha,
            key,
            commit.pull_request.to_string(),
            tx.now.0
        ],
        "learn a commit",
    )?;
    Ok(used_at.is_none())
}
