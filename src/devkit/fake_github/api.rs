//! The REST API of the fake GitHub.

use serde_json::{Value, json};

use super::model::{GitHub, Repo};
use crate::devkit::http_fake::{Model, Reply, Request};

const PER_PAGE_DEFAULT: usize = 30;
const LIMIT: u64 = 5_000;

impl Model for GitHub {
    fn answer(&mut self, request: &Request) -> Reply {
        if request.user_agent.is_empty() {
            return Reply::error(403, "Request forbidden by administrative rules");
        }
        let token = request.authorization.strip_prefix("Bearer ");
        let is_known = self.token.as_deref().is_none_or(|own| Some(own) == token);
        if token.is_none() || !is_known {
            return Reply::error(401, "Bad credentials");
        }
        if request.path == "/rate_limit" {
            return self.budget();
        }
        if self.limits.is_some_and(|limits| limits.remaining == 0) {
            return Reply::error(403, "API rate limit exceeded");
        }
        let page_max = self.page_max;
        let reply = self.routed(request, page_max);
        if let Some(limits) = &mut self.limits {
            limits.remaining = limits.remaining.saturating_sub(1);
        }
        reply
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let moment = jiff::Timestamp::from_second(self.now).unwrap_or_default();
        let date = moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let mut headers = vec![("date", date)];
        if let Some(limits) = self.limits {
            headers.push(("x-ratelimit-remaining", limits.remaining.to_string()));
            headers.push(("x-ratelimit-reset", limits.reset.to_string()));
        }
        headers
    }
}

impl GitHub {
    /// What is left of the hour's requests; asking is not one of them.
    fn budget(&self) -> Reply {
        match self.limits {
            Some(limits) => {
                let core = json!({"limit": LIMIT, "remaining": limits.remaining,
                    "reset": limits.reset});
                Reply::json(&json!({"resources": {"core": core}, "rate": core}))
            }
            None => Reply::error(404, "Rate limiting is not enabled."),
        }
    }

    fn routed(&mut self, request: &Request, page_max: usize) -> Reply {
        let missing = || Reply::error(404, "Not Found");
        let path: Vec<&str> = request.path.split('/').skip(1).collect();
        let (repo, rest) = match path.as_slice() {
            ["repos", owner, name, rest @ ..] => {
                let name = format!("{owner}/{name}");
                if let Some(id) = self.moved_id(&name) {
                    return moved(request, id, rest);
                }
                (self.repo(&name), rest)
            }
            ["repositories", id, rest @ ..] => {
                let id = id.parse().unwrap_or_default();
                (self.repo_by_id(id), rest)
            }
            _ => return missing(),
        };
        let Some(repo) = repo else {
            return missing();
        };
        let found = match rest {
            [] => Some(repo.repository()),
            ["issues", "comments"] => {
                return listed(changed(repo.comments.clone(), request), request, page_max);
            }
            ["pulls", "comments"] => {
                let visible = repo.review_comments.iter().filter(|own| is_visible(own));
                return listed(
                    changed(visible.cloned().collect(), request),
                    request,
                    page_max,
                );
            }
            ["issues", ..] if repo.issues_are_off => {
                return Reply::error(410, "Issues are disabled for this repo");
            }
            ["issues"] => return listed(repo.issues(request), request, page_max),
            ["pulls"] => return listed(repo.pull_requests(request), request, page_max),
            ["issues", number] => number.parse().ok().map(|number| repo.issue_object(number)),
            ["pulls", number] => {
                let number = number.parse().ok();
                number.map(|number| repo.pull_request_object(number))
            }
            ["pulls", number, "reviews"] => {
                let number = number.parse().unwrap_or_default();
                let reviews = repo.reviews.get(&number).cloned().unwrap_or_default();
                return listed(reviews, request, page_max);
            }
            ["pulls", _, "reviews", id] => id.parse().ok().map(|id| repo.object(id)),
            ["commits", sha, "check-runs"] => {
                let runs = repo.check_runs.get(*sha).cloned().unwrap_or_default();
                Some(json!({"total_count": runs.len(), "check_runs": runs}))
            }
            ["commits", sha, "status"] => {
                let statuses = repo.statuses.get(*sha).cloned().unwrap_or_default();
                Some(json!({"state": "pending", "sha": sha, "statuses": statuses}))
            }
            _ => None,
        };
        match found.filter(|found| !found.is_null()) {
            Some(found) => Reply::json(&found).with_etag(),
            None => missing(),
        }
    }
}

fn moved(request: &Request, id: u64, rest: &[&str]) -> Reply {
    let mut path = format!("/repositories/{id}");
    for part in rest {
        path.push('/');
        path.push_str(part);
    }
    let query = query_of(&request.query);
    let to = format!("{}{path}{query}", request.origin);
    Reply::error(301, "Moved Permanently").with("location", to)
}

fn is_visible(comment: &Value) -> bool {
    comment.get("is_draft") != Some(&json!(true))
}

impl Repo {
    fn issues(&self, request: &Request) -> Vec<Value> {
        let labels: Vec<&str> = request
            .given("labels")
            .map(|labels| labels.split(',').collect())
            .unwrap_or_default();
        let numbers = self.numbers();
        let items = numbers.into_iter().map(|number| self.issue_object(number));
        let items = items.filter(|item| has_state(item, request));
        let items = items.filter(|item| labels.iter().all(|label| carries(item, label)));
        changed(items.collect(), request)
    }

    fn pull_requests(&self, request: &Request) -> Vec<Value> {
        let numbers = self.numbers();
        let items = numbers
            .into_iter()
            .map(|number| self.pull_request_object(number));
        let items = items.filter(|item| !item.is_null() && has_state(item, request));
        changed(items.collect(), request)
    }
}

fn has_state(item: &Value, request: &Request) -> bool {
    let state = request.given("state").unwrap_or("open");
    state == "all" || item.get("state") == Some(&json!(state))
}

fn carries(item: &Value, label: &str) -> bool {
    let labels = item.get("labels").and_then(Value::as_array);
    let name_of = |own: &Value| own.get("name").and_then(Value::as_str).map(str::to_owned);
    labels.is_some_and(|labels| {
        let mut names = labels.iter().filter_map(name_of);
        names.any(|name| name.eq_ignore_ascii_case(label))
    })
}

/// Sorted and cut off as the request asks.
fn changed(mut items: Vec<Value>, request: &Request) -> Vec<Value> {
    let field = if request.given("sort") == Some("updated") {
        "updated_at"
    } else {
        "created_at"
    };
    let key = |item: &Value, field: &str| {
        let text = item.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    if let Some(since) = request.given("since") {
        items.retain(|item| key(item, "updated_at").as_str() >= since);
    }
    items.sort_by_key(|item| key(item, field));
    if request.given("direction").unwrap_or("desc") == "desc" {
        items.reverse();
    }
    items
}

/// One page of a list.
fn listed(items: Vec<Value>, request: &Request, page_max: usize) -> Reply {
    let number = |name: &str| {
        request
            .given(name)
            .and_then(|text| text.parse::<usize>().ok())
    };
    let page = number("page").unwrap_or(1).max(1);
    let per_page = number("per_page").unwrap_or(PER_PAGE_DEFAULT);
    let per_page = per_page.clamp(1, page_max);
    let before = page.saturating_sub(1).saturating_mul(per_page);
    let is_last = items.len() <= before.saturating_add(per_page);
    let shown: Vec<Value> = items.into_iter().skip(before).take(per_page).collect();
    let reply = Reply::json(&json!(shown));
    let reply = if is_last {
        reply
    } else {
        let mut query = request.query.clone();
        query.retain(|(name, _)| name != "page");
        query.push(("page".to_owned(), page.saturating_add(1).to_string()));
        let url = format!("{}{}{}", request.origin, request.path, query_of(&query));
        reply.with(
            "link",
            format!("<{url}>; rel=\"next\", <{url}>; rel=\"last\""),
        )
    };
    reply.with_etag()
}

fn query_of(pairs: &[(String, String)]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut query = form_urlencoded::Serializer::for_suffix("?".to_owned(), 1);
    query.extend_pairs(pairs);
    query.finish()
}
