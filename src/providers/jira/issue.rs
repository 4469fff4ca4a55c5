//! Which issue of ours a body is about, if any.

use super::body::Body;
use crate::domain::{DropReason, WorkItemRef};
use crate::providers::{Declared, Dropped, clipped};

/// An issue of the declared site.
#[derive(Debug)]
pub(super) struct Issue {
    /// `host[:port]` in lower case.
    pub(super) site: String,
    pub(super) reference: WorkItemRef,
    /// False when its project is not declared: then only a binding makes it ours.
    pub(super) is_declared: bool,
}

/// Why a body is about no issue of ours.
#[derive(Debug)]
pub(super) struct Foreign {
    reason: DropReason,
    about: String,
}

impl Foreign {
    pub(super) fn dropped(self, body: &Body<'_>, delivery_id: &str) -> Dropped {
        Dropped {
            reason: self.reason,
            kind: clipped(&body.kind()),
            delivery_id: delivery_id.to_owned(),
            about: clipped(&self.about),
            moved: None,
        }
    }
}

/// The issue that a body of `site` is about.
///
/// Data Center reports a comment twice, once without the issue's key; that copy must not count
/// as seen, or the good one would be swallowed.
pub(super) fn issue_of(
    body: &Body<'_>,
    site: Option<&str>,
    declared: &Declared,
) -> Result<Issue, Foreign> {
    let site = site.unwrap_or_default();
    let Some(key) = body.issue_key() else {
        let reason = if body.kind().starts_with("comment_") {
            DropReason::Keyless
        } else {
            DropReason::NoWorkItem
        };
        let about = site.to_owned();
        return Err(Foreign { reason, about });
    };
    let about = format!("{site}/{key}");
    let own_site = declared.jira_site.as_deref();
    if !own_site.is_some_and(|own| own.eq_ignore_ascii_case(site)) {
        let reason = DropReason::UndeclaredProject;
        return Err(Foreign { reason, about });
    }
    let Some(WorkItemRef::Jira {
        site,
        project,
        number,
    }) = WorkItemRef::jira(site, &key)
    else {
        let reason = DropReason::NoWorkItem;
        return Err(Foreign { reason, about });
    };
    Ok(Issue {
        is_declared: declared.has_project(&site, &project),
        site: site.clone(),
        reference: WorkItemRef::Jira {
            site,
            project,
            number,
        },
    })
}
