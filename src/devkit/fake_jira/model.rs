//! What the fake Jira knows, and how it answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::jql::Query;
use crate::devkit::http_fake::{Model, Reply, Request};

/// 2026-11-30T10:00:00Z.
const START_MS: i64 = 1_796_032_800_000;
const MINUTE_MS: i64 = 60_000;
const PAGE_MAX: usize = 100;

/// Everything there is.
#[derive(Debug)]
pub(crate) struct Jira {
    is_cloud: bool,
    pub(super) now_ms: i64,
    pub(super) authorization: Option<String>,
    pub(super) is_browsable: bool,
    pub(super) page_max: usize,
    last_id: u64,
    issues: BTreeMap<String, Issue>,
    /// What a search finds while the index lags.
    index: Option<BTreeMap<String, Issue>>,
}

/// One issue.
#[derive(Debug, Clone)]
pub(super) struct Issue {
    number: u64,
    created_ms: i64,
    updated_ms: i64,
    object: Value,
    comments: Vec<Value>,
}

fn date(ms: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%dT%H:%M:%S.%3f+0000").to_string()
}

fn set(value: &mut Value, name: &str, to: Value) {
    if let Some(object) = value.as_object_mut() {
        object.insert(name.to_owned(), to);
    }
}

impl Issue {
    fn fields(&mut self) -> Option<&mut Value> {
        self.object.get_mut("fields")
    }

    fn set_field(&mut self, name: &str, to: Value) {
        if let Some(fields) = self.fields() {
            set(fields, name, to);
        }
    }

    fn field(&self, name: &str) -> Option<&Value> {
        self.object.get("fields")?.get(name)
    }

    pub(super) fn label(&mut self, labels: &[&str]) {
        self.set_field("labels", json!(labels));
    }

    pub(super) fn retitle(&mut self, summary: &str) {
        self.set_field("summary", json!(summary));
    }

    pub(super) fn set_done(&mut self, is_done: bool, date: Option<&str>) {
        let key = if is_done { "done" } else { "indeterminate" };
        self.set_field(
            "status",
            json!({"name": key, "statusCategory": {"key": key}}),
        );
        let resolved = date.filter(|_| is_done);
        self.set_field("resolutiondate", json!(resolved));
        self.set_field("statuscategorychangedate", json!(date));
    }

    fn is_done(&self) -> bool {
        let category = self
            .field("status")
            .and_then(|status| status.get("statusCategory"));
        category.and_then(|category| category.get("key")) == Some(&json!("done"))
    }

    fn is_found(&self, query: &Query, now_ms: i64) -> bool {
        let none = json!([]);
        let own = self.field("labels").unwrap_or(&none);
        let has = |label: &String| {
            let own = own.as_array().map(Vec::as_slice).unwrap_or_default();
            own.contains(&json!(label))
        };
        let since = query.minutes.map(|minutes| {
            let span = minutes.saturating_mul(MINUTE_MS);
            now_ms.saturating_sub(span)
        });
        query.labels.iter().all(has)
            && !(query.is_open && self.is_done())
            && since.is_none_or(|since| self.updated_ms >= since)
    }
}

impl Jira {
    pub(super) fn new(is_cloud: bool) -> Self {
        Self {
            is_cloud,
            now_ms: START_MS,
            authorization: None,
            is_browsable: false,
            page_max: PAGE_MAX,
            last_id: 10_000,
            issues: BTreeMap::new(),
            index: None,
        }
    }

    pub(super) fn lag(&mut self) {
        self.index = Some(self.issues.clone());
    }

    pub(super) fn catch_up(&mut self) {
        self.index = None;
    }

    fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    fn user(&self, name: &str) -> Value {
        if self.is_cloud {
            json!({"accountId": name, "displayName": name, "accountType": "atlassian"})
        } else {
            json!({"name": name, "key": name, "displayName": name})
        }
    }

    pub(super) fn create(&mut self, project: &str, author: &str, labels: &[&str]) -> String {
        let count = self
            .issues
            .values()
            .filter(|own| own.object_project() == project);
        let number = u64::try_from(count.count())
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        let (id, key) = (self.next_id().to_string(), format!("{project}-{number}"));
        let object = json!({
            "id": id, "key": key, "self": format!("https://acme.atlassian.net/rest/api/3/issue/{id}"),
            "fields": {"summary": format!("summary {number}"), "labels": labels,
                       "project": {"key": project}, "creator": self.user(author),
                       "reporter": self.user(author)},
        });
        let mut issue = Issue {
            number,
            created_ms: self.now_ms,
            updated_ms: self.now_ms,
            object,
            comments: Vec::new(),
        };
        issue.set_done(false, Some(&date(self.now_ms)));
        issue.set_field("created", json!(date(self.now_ms)));
        issue.set_field("updated", json!(date(self.now_ms)));
        self.issues.insert(key.clone(), issue);
        key
    }

    pub(super) fn touch(&mut self, key: &str, what: impl FnOnce(&mut Issue, &str)) {
        let (now_ms, date) = (self.now_ms, date(self.now_ms));
        if let Some(issue) = self.issues.get_mut(key) {
            what(issue, &date);
            issue.updated_ms = now_ms;
            issue.set_field("updated", json!(date));
        }
    }

    pub(super) fn comment(&mut self, key: &str, author: &str, body: &str) -> String {
        let id = self.next_id().to_string();
        let author = self.user(author);
        let link = format!("https://acme.atlassian.net/rest/api/2/issue/1/comment/{id}");
        let own = id.clone();
        self.touch(key, |issue, date| {
            issue.comments.push(json!({
                "id": own, "self": link, "author": author, "body": body,
                "created": date, "updated": date,
            }));
        });
        id
    }

    pub(super) fn edit_comment(&mut self, key: &str, id: &str, body: &str) {
        self.touch(key, |issue, date| {
            for comment in &mut issue.comments {
                if comment.get("id") == Some(&json!(id)) {
                    set(comment, "body", json!(body));
                    set(comment, "updated", json!(date));
                }
            }
        });
    }

    pub(super) fn delete(&mut self, key: &str) {
        self.issues.remove(key);
    }

    pub(super) fn issue_object(&self, key: &str) -> Value {
        let issue = self.issues.get(key);
        issue.map(|issue| issue.object.clone()).unwrap_or_default()
    }

    pub(super) fn comment_object(&self, key: &str, id: &str) -> Value {
        let comments = self.issues.get(key).map(|issue| &issue.comments);
        let mut comments = comments.into_iter().flatten();
        let found = comments.find(|own| own.get("id") == Some(&json!(id)));
        found.cloned().unwrap_or_default()
    }

    fn found(&self, jql: &str) -> Option<Vec<Value>> {
        let query = Query::parse(jql)?;
        let index = self.index.as_ref().unwrap_or(&self.issues);
        let mut found: Vec<&Issue> = index
            .values()
            .filter(|issue| issue.object_project() == query.project)
            .filter(|issue| issue.is_found(&query, self.now_ms))
            .collect();
        found.sort_by_key(|issue| {
            let moment = if query.by_update {
                issue.updated_ms
            } else {
                issue.created_ms
            };
            (moment, issue.number)
        });
        Some(
            found
                .into_iter()
                .map(|issue| issue.object.clone())
                .collect(),
        )
    }

    /// Cloud pages by a token, which is the number of issues before the page.
    fn search(&self, request: &Request, begin: &str) -> Reply {
        let Some(found) = self.found(request.given("jql").unwrap_or_default()) else {
            return Reply::error(400, "The JQL query is not understood");
        };
        let begin: usize = request
            .given(begin)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let asked = request
            .given("maxResults")
            .and_then(|text| text.parse().ok());
        let max = asked.unwrap_or(50).min(self.page_max);
        let end = begin.saturating_add(max);
        let total = found.len();
        let issues: Vec<Value> = found.into_iter().skip(begin).take(max).collect();
        let page = if self.is_cloud {
            let mut page = json!({"issues": issues, "isLast": end >= total});
            if end < total {
                set(&mut page, "nextPageToken", json!(end.to_string()));
            }
            page
        } else {
            json!({"issues": issues, "startAt": begin, "maxResults": max, "total": total})
        };
        Reply::json(&page)
    }

    /// Data Center sorts comments its own way: oldest first.
    fn comments(&self, request: &Request, key: &str) -> Reply {
        let Some(issue) = self.issues.get(key) else {
            return Reply::error(404, "Issue does not exist");
        };
        let number = |name: &str| {
            request
                .given(name)
                .and_then(|text| text.parse::<usize>().ok())
        };
        let (begin, max) = (
            number("startAt").unwrap_or(0),
            number("maxResults").unwrap_or(50),
        );
        let max = max.min(self.page_max);
        let mut comments = issue.comments.clone();
        if self.is_cloud && request.given("orderBy") == Some("-created") {
            comments.reverse();
        }
        let total = comments.len();
        let comments: Vec<Value> = comments.into_iter().skip(begin).take(max).collect();
        Reply::json(&json!({"comments": comments, "startAt": begin, "total": total}))
    }
}

impl Issue {
    fn object_project(&self) -> &str {
        let key = self
            .object
            .get("key")
            .and_then(Value::as_str)
            .unwrap_or_default();
        key.rsplit_once('-').map_or("", |(project, _)| project)
    }
}

impl Model for Jira {
    fn answer(&mut self, request: &Request) -> Reply {
        let own = self.authorization.as_deref();
        let is_known = own.is_none_or(|own| own == request.authorization);
        let path: Vec<&str> = request.path.split('/').skip(1).collect();
        let is_search = path.contains(&"search");
        if !is_known {
            if !(self.is_browsable && is_search) {
                return Reply::error(401, "Client must be authenticated");
            }
            let nothing = json!({"issues": [], "isLast": true, "total": 0});
            return Reply::json(&nothing).with("x-ausername", "anonymous".to_owned());
        }
        match path.as_slice() {
            ["rest", "api", "3", "search", "jql"] if self.is_cloud => {
                self.search(request, "nextPageToken")
            }
            ["rest", "api", _, "search"] if self.is_cloud => {
                Reply::error(410, "The requested API has been removed")
            }
            ["rest", "api", "2", "search"] => self.search(request, "startAt"),
            ["rest", "api", "2" | "3", "myself"] => Reply::json(&self.user("gateway")),
            ["rest", "api", "2", "issue", key, "comment"] => self.comments(request, key),
            ["rest", "api", "2", "issue", key] => match self.issues.get(*key) {
                Some(issue) => Reply::json(&issue.object),
                None => Reply::error(404, "Issue does not exist"),
            },
            _ => Reply::error(404, "not found"),
        }
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let moment = jiff::Timestamp::from_millisecond(self.now_ms).unwrap_or_default();
        let date = moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        vec![("date", date)]
    }
}
