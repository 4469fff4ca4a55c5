//! What the fake GitHub knows, and what its people change.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// 2026-11-30T10:00:00Z.
const START: i64 = 1_796_032_800;
const PAGE_MAX: usize = 100;

/// Everything there is.
#[derive(Debug)]
pub(crate) struct GitHub {
    /// Seconds since the epoch.
    pub(super) now: i64,
    pub(super) token: Option<String>,
    pub(super) limits: Option<Limits>,
    pub(super) page_max: usize,
    /// By name in lower case.
    repos: BTreeMap<String, Repo>,
    /// Old names in lower case, and new ones.
    moved: BTreeMap<String, String>,
}

/// What is left of an hour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) remaining: u64,
    pub(super) reset: i64,
}

/// One repository.
#[derive(Debug, Default)]
pub(super) struct Repo {
    pub(super) id: u64,
    name: String,
    pub(super) issues_are_off: bool,
    last_number: u64,
    last_id: u64,
    items: BTreeMap<u64, Map<String, Value>>,
    pub(super) comments: Vec<Value>,
    pub(super) review_comments: Vec<Value>,
    /// By pull request.
    pub(super) reviews: BTreeMap<u64, Vec<Value>>,
    /// By commit.
    pub(super) check_runs: BTreeMap<String, Vec<Value>>,
    /// By commit.
    pub(super) statuses: BTreeMap<String, Vec<Value>>,
}

impl Default for GitHub {
    fn default() -> Self {
        Self {
            now: START,
            token: None,
            limits: None,
            page_max: PAGE_MAX,
            repos: BTreeMap::new(),
            moved: BTreeMap::new(),
        }
    }
}

/// `2026-11-30T10:00:00Z`.
fn date(now: i64) -> Value {
    let moment = jiff::Timestamp::from_second(now).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    json!(format!("{moment:.0}"))
}

fn user(login: &str) -> Value {
    json!({"login": login, "id": login.len(), "type": "User"})
}

fn set(value: &mut Value, name: &str, to: Value) {
    if let Some(object) = value.as_object_mut() {
        object.insert(name.to_owned(), to);
    }
}

fn id_of(value: &Value) -> u64 {
    value.get("id").and_then(Value::as_u64).unwrap_or_default()
}

impl GitHub {
    pub(super) fn create(&mut self, name: &str) {
        let id = u64::try_from(self.repos.len()).unwrap_or(u64::MAX);
        let repo = Repo {
            id: id.saturating_add(1000),
            name: name.to_owned(),
            last_id: id.saturating_mul(1_000_000),
            ..Repo::default()
        };
        self.repos.insert(name.to_ascii_lowercase(), repo);
    }

    pub(super) fn rename(&mut self, name: &str, to: &str) {
        let old = name.to_ascii_lowercase();
        if let Some(mut repo) = self.repos.remove(&old) {
            repo.name = to.to_owned();
            self.repos.insert(to.to_ascii_lowercase(), repo);
            self.moved.insert(old, to.to_ascii_lowercase());
        }
    }

    /// A repository by its present or an old name.
    pub(super) fn repo(&mut self, name: &str) -> Option<&mut Repo> {
        let name = name.to_ascii_lowercase();
        let name = self.moved.get(&name).cloned().unwrap_or(name);
        self.repos.get_mut(&name)
    }

    /// The id of a repository that has another name now.
    pub(super) fn moved_id(&mut self, name: &str) -> Option<u64> {
        let is_old = self.moved.contains_key(&name.to_ascii_lowercase());
        is_old.then(|| self.repo(name).map(|repo| repo.id))?
    }

    pub(super) fn repo_by_id(&mut self, id: u64) -> Option<&mut Repo> {
        self.repos.values_mut().find(|repo| repo.id == id)
    }
}

impl Repo {
    fn next_id(&mut self) -> u64 {
        self.last_id = self.last_id.saturating_add(1);
        self.last_id
    }

    fn url(&self, path: &str) -> String {
        format!("https://api.github.com/repos/{}/{path}", self.name)
    }

    fn html_url(&self, path: &str) -> String {
        format!("https://github.com/{}/{path}", self.name)
    }

    pub(super) fn repository(&self) -> Value {
        json!({"id": self.id, "node_id": format!("R_{}", self.id), "full_name": self.name,
               "html_url": format!("https://github.com/{}", self.name), "private": true})
    }

    pub(super) fn open(
        &mut self,
        now: i64,
        author: &str,
        labels: &[&str],
        sha: Option<&str>,
    ) -> u64 {
        self.last_number = self.last_number.saturating_add(1);
        let number = self.last_number;
        let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
        let item = json!({
            "id": self.next_id(), "number": number, "title": format!("title {number}"),
            "state": "open", "labels": labels, "user": user(author), "body": "text",
            "created_at": date(now), "updated_at": date(now), "closed_at": null,
        });
        let mut item = item.as_object().cloned().unwrap_or_default();
        if let Some(sha) = sha {
            item.insert("head".to_owned(), json!({"sha": sha, "ref": "topic"}));
            item.insert("merged_at".to_owned(), Value::Null);
        }
        self.items.insert(number, item);
        number
    }

    pub(super) fn set<const N: usize>(
        &mut self,
        now: i64,
        number: u64,
        fields: [(&str, Value); N],
    ) {
        if let Some(item) = self.items.get_mut(&number) {
            for (name, value) in fields {
                item.insert(name.to_owned(), value);
            }
            item.insert("updated_at".to_owned(), date(now));
        }
    }

    pub(super) fn label(&mut self, now: i64, number: u64, label: &str, is_set: bool) {
        let labels = self.items.get(&number).and_then(|item| item.get("labels"));
        let mut labels = labels
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        labels.retain(|own| own.get("name") != Some(&json!(label)));
        if is_set {
            labels.push(json!({"name": label}));
        }
        self.set(now, number, [("labels", json!(labels))]);
    }

    pub(super) fn close(&mut self, now: i64, number: u64, by: &str, is_merged: bool) {
        let merged_at = if is_merged { date(now) } else { Value::Null };
        let merged_by = if is_merged { user(by) } else { Value::Null };
        self.set(
            now,
            number,
            [
                ("state", json!("closed")),
                ("closed_at", date(now)),
                ("closed_by", user(by)),
                ("merged_at", merged_at),
                ("merged_by", merged_by),
            ],
        );
    }

    pub(super) fn reopen(&mut self, now: i64, number: u64) {
        self.set(
            now,
            number,
            [
                ("state", json!("open")),
                ("closed_at", Value::Null),
                ("closed_by", Value::Null),
            ],
        );
    }

    pub(super) fn delete(&mut self, number: u64) {
        self.items.remove(&number);
        let is_of_it = |comment: &Value| number_of(comment) == Some(number);
        self.comments.retain(|comment| !is_of_it(comment));
        self.review_comments.retain(|comment| !is_of_it(comment));
    }

    fn is_pull_request(&self, number: u64) -> bool {
        let item = self.items.get(&number);
        item.is_some_and(|item| item.contains_key("head"))
    }

    pub(super) fn comment(&mut self, now: i64, number: u64, author: &str, body: &str) -> u64 {
        let id = self.next_id();
        let place = if self.is_pull_request(number) {
            "pull"
        } else {
            "issues"
        };
        self.comments.push(json!({
            "id": id, "node_id": format!("IC_{id}"), "body": body, "user": user(author),
            "issue_url": self.url(&format!("issues/{number}")),
            "html_url": self.html_url(&format!("{place}/{number}#issuecomment-{id}")),
            "created_at": date(now), "updated_at": date(now),
        }));
        self.set(now, number, []);
        id
    }

    pub(super) fn edit_comment(&mut self, now: i64, id: u64, body: &str) {
        if let Some(comment) = self.comments.iter_mut().find(|own| id_of(own) == id) {
            set(comment, "body", json!(body));
            set(comment, "updated_at", date(now));
            if let Some(number) = number_of(comment) {
                self.set(now, number, []);
            }
        }
    }

    pub(super) fn delete_comment(&mut self, id: u64) {
        self.comments.retain(|comment| id_of(comment) != id);
    }

    pub(super) fn review(&mut self, now: i64, number: u64, author: &str, state: &str) -> u64 {
        let id = self.next_id();
        let review = json!({
            "id": id, "node_id": format!("PRR_{id}"), "state": state, "body": "",
            "user": user(author), "submitted_at": date(now), "commit_id": "",
            "html_url": self.html_url(&format!("pull/{number}#pullrequestreview-{id}")),
        });
        self.reviews.entry(number).or_default().push(review);
        self.set(now, number, []);
        id
    }

    pub(super) fn draft_review(&mut self, now: i64, number: u64, author: &str) -> (u64, u64) {
        let updated = self
            .items
            .get(&number)
            .and_then(|item| item.get("updated_at"));
        let updated = updated.cloned().unwrap_or_default();
        let review = self.review(now, number, author, "PENDING");
        for own in self.reviews.entry(number).or_default() {
            if id_of(own) == review {
                set(own, "submitted_at", Value::Null);
            }
        }
        let comment = self.review_comment(now, (number, author), review, false);
        if let Some(item) = self.items.get_mut(&number) {
            item.insert("updated_at".to_owned(), updated);
        }
        (review, comment)
    }

    pub(super) fn submit_review(&mut self, now: i64, number: u64, review: u64) {
        for own in self.reviews.entry(number).or_default() {
            if id_of(own) == review {
                set(own, "state", json!("COMMENTED"));
                set(own, "submitted_at", date(now));
            }
        }
        for comment in &mut self.review_comments {
            if comment.get("pull_request_review_id") == Some(&json!(review)) {
                set(comment, "updated_at", date(now));
                set(comment, "is_draft", json!(false));
            }
        }
        self.set(now, number, []);
    }

    pub(super) fn review_comment(
        &mut self,
        now: i64,
        (number, author): (u64, &str),
        review: u64,
        is_visible: bool,
    ) -> u64 {
        let id = self.next_id();
        self.review_comments.push(json!({
            "id": id, "node_id": format!("PRRC_{id}"), "body": "line", "user": user(author),
            "pull_request_review_id": review, "path": "a.rs", "is_draft": !is_visible,
            "pull_request_url": self.url(&format!("pulls/{number}")),
            "html_url": self.html_url(&format!("pull/{number}#discussion_r{id}")),
            "created_at": date(now), "updated_at": date(now),
        }));
        id
    }

    pub(super) fn edit_review_comment(&mut self, now: i64, id: u64) {
        for comment in &mut self.review_comments {
            if id_of(comment) == id {
                set(comment, "updated_at", date(now));
            }
        }
    }

    pub(super) fn check_run(
        &mut self,
        now: i64,
        sha: &str,
        check: &str,
        conclusion: Option<&str>,
    ) -> u64 {
        let id = self.next_id();
        let numbers = self.items.iter().filter(|(_, item)| {
            item.get("head").and_then(|head| head.get("sha")) == Some(&json!(sha))
        });
        let numbers: Vec<Value> = numbers
            .map(|(number, _)| json!({"number": number}))
            .collect();
        let runs = self.check_runs.entry(sha.to_owned()).or_default();
        let known = runs
            .iter()
            .position(|own| own.get("name") == Some(&json!(check)));
        let known = known.map(|at| runs.remove(at));
        let is_running = |run: &Value| run.get("status") == Some(&json!("in_progress"));
        let id = known.filter(is_running).map_or(id, |run| id_of(&run));
        runs.push(json!({
            "id": id, "name": check, "head_sha": sha, "pull_requests": numbers,
            "status": if conclusion.is_some() { "completed" } else { "in_progress" },
            "conclusion": conclusion, "started_at": date(now),
            "completed_at": if conclusion.is_some() { date(now) } else { Value::Null },
        }));
        id
    }

    pub(super) fn status(&mut self, now: i64, sha: &str, context: &str, state: &str) -> u64 {
        let id = self.next_id();
        let statuses = self.statuses.entry(sha.to_owned()).or_default();
        statuses.retain(|own| own.get("context") != Some(&json!(context)));
        statuses.push(json!({
            "id": id, "node_id": format!("SC_{id}"), "state": state, "context": context,
            "description": null, "target_url": null,
            "created_at": date(now), "updated_at": date(now),
        }));
        id
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.items.keys().copied().collect()
    }

    pub(super) fn issue_object(&self, number: u64) -> Value {
        let Some(mut item) = self.items.get(&number).cloned() else {
            return Value::Null;
        };
        let merged_at = item.remove("merged_at");
        item.remove("merged_by");
        let place = if item.remove("head").is_some() {
            let link = json!({"url": self.url(&format!("pulls/{number}")), "merged_at": merged_at});
            item.insert("pull_request".to_owned(), link);
            "pull"
        } else {
            "issues"
        };
        item.insert(
            "html_url".to_owned(),
            json!(self.html_url(&format!("{place}/{number}"))),
        );
        Value::Object(item)
    }

    pub(super) fn pull_request_object(&self, number: u64) -> Value {
        let item = self
            .items
            .get(&number)
            .filter(|item| item.contains_key("head"));
        let Some(mut item) = item.cloned() else {
            return Value::Null;
        };
        item.remove("closed_by");
        let is_merged = item.get("merged_at").is_some_and(Value::is_string);
        item.insert("merged".to_owned(), json!(is_merged));
        let id = id_of(&Value::Object(item.clone())).saturating_add(500_000);
        item.insert("id".to_owned(), json!(id));
        item.insert(
            "html_url".to_owned(),
            json!(self.html_url(&format!("pull/{number}"))),
        );
        Value::Object(item)
    }

    pub(super) fn object(&self, id: u64) -> Value {
        let all = self.comments.iter().chain(&self.review_comments);
        let all = all.chain(self.reviews.values().flatten());
        let all = all.chain(self.check_runs.values().flatten());
        let mut all = all.chain(self.statuses.values().flatten());
        all.find(|own| id_of(own) == id)
            .cloned()
            .unwrap_or_default()
    }
}

/// The item that a comment is on.
fn number_of(comment: &Value) -> Option<u64> {
    let url = comment
        .get("issue_url")
        .or_else(|| comment.get("pull_request_url"))?;
    url.as_str()?.rsplit('/').next()?.parse().ok()
}
