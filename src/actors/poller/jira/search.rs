//! Finding issues: Jira Cloud and Data Center page through their answers differently.

use super::JiraPoller;
use super::issue::FIELDS;
use crate::actors::poller::failure::Failure;
use crate::actors::poller::json::items_of;
use crate::config::JiraDeployment;
use crate::providers::lenient::{self, Want};

/// Issues on a page.
const PAGE: u64 = 100;
/// Pages of one search; the window stays open for what is beyond.
const PAGES_MAX: u64 = 20;

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
