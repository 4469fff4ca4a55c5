//! Finding issues: Jira Cloud and Data Center page through their answers differently.
//!
//! What changed is sorted by change, oldest first, and not read by page numbers where that can be
//! avoided: an issue that changes meanwhile moves to the end, and what stood behind it slips to a
//! page that was read already. The next page is asked for by the minute at which the last one
//! ended.

use super::issue::{FIELDS, Issue};
use super::{JiraPoller, MINUTE_MS};
use crate::actors::poller::failure::Failure;
use crate::actors::poller::json::items_of;
use crate::config::JiraDeployment;
use crate::domain::{Millis, Timestamp};
use crate::providers::lenient::{self, Want};

/// Issues on a page.
const PAGE: u64 = 100;
/// Pages of one search; what is beyond is left to the next one.
const PAGES_MAX: u64 = 20;
/// Pages of changes when the next search could not begin behind what this one read.
const TIED_PAGES_MAX: u64 = 200;

static PAGING: Want = Want::Object(&[
    ("isLast", Want::Leaf),
    ("nextPageToken", Want::Leaf),
    ("total", Want::Leaf),
]);

/// What a search found.
#[derive(Debug)]
pub(super) struct Found {
    /// The issues, each as sent.
    pub(super) issues: Vec<String>,
    /// False when there are more than were read.
    pub(super) is_whole: bool,
}

/// What changed.
#[derive(Debug)]
pub(super) struct Changed {
    /// The issues, each as sent, oldest change first; some may be there twice.
    pub(super) issues: Vec<String>,
    /// Where the rest begins that was not read; `None`: there is none.
    pub(super) rest_from: Option<Timestamp>,
}

/// Where the next page begins.
enum Next {
    Token(String),
    Offset(u64),
}

impl JiraPoller {
    /// All issues that a query finds.
    pub(super) async fn search(&self, jql: &str) -> Result<Found, Failure> {
        let mut found = Found {
            issues: Vec::new(),
            is_whole: false,
        };
        let mut next = None;
        for _ in 0..PAGES_MAX {
            let page = self.api.get(&self.search_url(jql, next.as_ref())).await?;
            self.check(&page)?;
            let issues = items_of(&page.body, "issues")?;
            let count = u64::try_from(issues.len()).unwrap_or(u64::MAX);
            found.issues.extend(issues.into_iter().map(str::to_owned));
            next = self.after(&page.body, next.as_ref(), count)?;
            if next.is_none() {
                found.is_whole = true;
                break;
            }
        }
        Ok(found)
    }

    /// The issues that changed in the last so many minutes. If there are too many, it stops at one
    /// that changed after `reach`, so that the next search gets further.
    pub(super) async fn changes(
        &self,
        mut minutes: Millis,
        reach: Timestamp,
    ) -> Result<Changed, Failure> {
        let (mut issues, mut newest) = (Vec::new(), reach);
        let (mut pages, mut next) = (0_u64, None);
        loop {
            let jql = self.changed_within(minutes);
            let page = self.api.get(&self.search_url(&jql, next.as_ref())).await?;
            self.check(&page)?;
            let listed = items_of(&page.body, "issues")?;
            let count = u64::try_from(listed.len()).unwrap_or(u64::MAX);
            let last = listed.last().and_then(|raw| Issue::read(raw)?.updated);
            newest = newest.max(last.unwrap_or(newest));
            issues.extend(listed.into_iter().map(str::to_owned));
            let following = self.after(&page.body, next.as_ref(), count)?;
            pages = pages.saturating_add(1);
            let is_enough = pages >= PAGES_MAX && newest > reach || pages >= TIED_PAGES_MAX;
            if following.is_none() || is_enough {
                let rest_from = following.map(|_| newest);
                return Ok(Changed { issues, rest_from });
            }
            let since = self.minutes_since(last.unwrap_or(newest));
            // Where a page holds less than a minute, only its token or number leads on.
            next = following.filter(|_| since >= minutes);
            minutes = minutes.min(since);
        }
    }

    fn changed_within(&self, minutes: Millis) -> String {
        format!(
            "project = {} AND updated >= \"-{minutes}m\" ORDER BY updated ASC",
            quoted(&self.project.key)
        )
    }

    /// A number of minutes that surely reaches back to a moment.
    fn minutes_since(&self, moment: Timestamp) -> Millis {
        let span = self.now().since(moment).max(0);
        (span / MINUTE_MS).saturating_add(2)
    }

    fn search_url(&self, jql: &str, next: Option<&Next>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("jql", jql);
        query.append_pair("fields", FIELDS);
        query.append_pair("maxResults", &PAGE.to_string());
        match next {
            Some(Next::Token(token)) => {
                query.append_pair("nextPageToken", token);
            }
            Some(Next::Offset(offset)) => {
                query.append_pair("startAt", &offset.to_string());
            }
            None => {}
        }
        let path = match self.project.deployment {
            JiraDeployment::Cloud | JiraDeployment::CloudScoped { .. } => "/rest/api/3/search/jql",
            JiraDeployment::DataCenter => "/rest/api/2/search",
        };
        self.api.url(&format!("{path}?{}", query.finish()))
    }

    fn after(&self, body: &str, at: Option<&Next>, count: u64) -> Result<Option<Next>, Failure> {
        let paging = lenient::read(body.trim(), &PAGING).ok();
        let paging = paging.ok_or(Failure::Malformed("no page of issues"))?;
        Ok(match self.project.deployment {
            JiraDeployment::Cloud | JiraDeployment::CloudScoped { .. } => {
                let is_last = paging.raw("isLast") == Some("true");
                let token = paging.text("nextPageToken").filter(|_| !is_last);
                token.map(|token| Next::Token(token.into_owned()))
            }
            JiraDeployment::DataCenter => {
                let begin = match at {
                    Some(Next::Offset(offset)) => *offset,
                    Some(Next::Token(_)) | None => 0,
                };
                let end = begin.saturating_add(count);
                let total = paging.number("total").unwrap_or(end);
                (count > 0 && end < total).then_some(Next::Offset(end))
            }
        })
    }
}

/// A text within JQL.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
