//! Where a verb that reads gets its answer: from a running gateway, else from its file.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::api::{Api, ApiError, BaseUrl};
use super::context::{Context, api_of};
use super::failure::Failure;
use super::file;
use super::selecting::{ends, shown_subject};
use crate::domain::{Clock, EventId, SystemClock};
use crate::store::ReadConnection;
use crate::store::views::{self, EventFilter, EventState, Page, PageRequest, ViewError};

const ROWS_A_PAGE: u32 = 1_000;
const HEALTH: &str = "/api/v1/gateway/health";

/// Where the answer comes from.
pub(super) enum Source {
    /// A gateway that runs.
    Running(Api),
    /// The file of one that is down, read only.
    File(Box<ReadConnection>, PathBuf),
}

impl Source {
    /// The gateway that a URL names; else that of the config, or its file when it is down, which
    /// is said.
    ///
    /// # Errors
    /// When there is neither.
    pub(super) async fn find(url: Option<&str>, context: &Context) -> Result<Self, Failure> {
        if let Some(url) = url {
            return Self::running(url);
        }
        let loaded = context.load_with_warnings()?;
        let absent = match api_of(&loaded.config) {
            Ok(base) => {
                let api = Api::new(base)?;
                match api.get(HEALTH).await.map_err(Failure::from) {
                    Ok(_) => return Ok(Self::Running(api)),
                    Err(Failure::Down(error)) => error.to_string(),
                    Err(failure) => return Err(failure),
                }
            }
            Err(failure @ Failure::PortUnknown) => failure.to_string(),
            Err(failure) => return Err(failure),
        };
        let path = &loaded.config.store_path;
        let connection = file::open(path)?;
        context
            .output
            .note(&format!("{absent}; this is what {} holds", path.display()));
        Ok(Self::File(Box::new(connection), path.clone()))
    }

    fn running(url: &str) -> Result<Self, Failure> {
        let (base, _) = BaseUrl::parse(url).ok_or_else(|| Failure::Url(url.to_owned()))?;
        Ok(Self::Running(Api::new(base)?))
    }

    /// The newest events that a filter lets through, newest first, at most so many; and whether
    /// there are more.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) async fn events(
        &self,
        filter: &EventFilter,
        limit: usize,
    ) -> Result<(Vec<Value>, bool), Failure> {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let wanted = limit.saturating_sub(rows.len()).max(1);
            let request = PageRequest {
                limit: u32::try_from(wanted)
                    .unwrap_or(ROWS_A_PAGE)
                    .min(ROWS_A_PAGE),
                after,
            };
            let page = match self {
                Self::Running(api) => {
                    page_of(api, &events_path(filter, &request), "events").await?
                }
                Self::File(connection, path) => {
                    shown(path, views::events(connection, filter, &request))?
                }
            };
            rows.extend(page.rows);
            after = page.next;
            if after.is_none() || rows.len() >= limit {
                return Ok((rows, after.is_some()));
            }
        }
    }

    /// The story of an event.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) async fn story(&self, id: i64) -> Result<Option<Value>, Failure> {
        match self {
            Self::Running(api) => match api.get(&format!("/api/v1/gateway/events/{id}")).await {
                Ok(story) => Ok(Some(story)),
                Err(ApiError::Refused { status: 404, .. }) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::File(connection, path) => {
                let story = views::story(connection, SystemClock.now(), EventId(id));
                let story = story.map_err(|error| file::unreadable(path, &error))?;
                story.map(|story| value(&story)).transpose()
            }
        }
    }

    /// All dead deliveries, newest first.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(super) async fn dead(&self) -> Result<Vec<Value>, Failure> {
        let mut rows = Vec::new();
        let mut after = None;
        loop {
            let request = PageRequest {
                limit: ROWS_A_PAGE,
                after,
            };
            let page = match self {
                Self::Running(api) => {
                    let mut query = query_of(&request);
                    let path = format!("/api/v1/gateway/dead?{}", query.finish());
                    page_of(api, &path, "dead").await?
                }
                Self::File(connection, path) => shown(path, views::dead(connection, &request))?,
            };
            rows.extend(page.rows);
            after = page.next;
            if after.is_none() {
                return Ok(rows);
            }
        }
    }
}

/// The path of a page of events, with its query.
pub(super) fn events_path(filter: &EventFilter, request: &PageRequest) -> String {
    let mut query = query_of(request);
    add_filter(&mut query, filter);
    format!("/api/v1/gateway/events?{}", query.finish())
}

/// The path of the events behind a number, with its query.
pub(super) fn newer_path(filter: &EventFilter, than: i64) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("newerThan", &than.to_string());
    query.append_pair("limit", &ROWS_A_PAGE.to_string());
    add_filter(&mut query, filter);
    format!("/api/v1/gateway/events?{}", query.finish())
}

fn query_of(request: &PageRequest) -> form_urlencoded::Serializer<'static, String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &request.limit.to_string());
    if let Some(after) = &request.after {
        query.append_pair("after", after);
    }
    query
}

fn add_filter(query: &mut form_urlencoded::Serializer<'static, String>, filter: &EventFilter) {
    let EventFilter {
        subject,
        kind,
        state,
        instance,
        named,
        received,
    } = filter;
    let (since, until) = ends(*received);
    let pairs = [
        ("subject", shown_subject(subject)),
        ("kind", kind.clone()),
        (
            "state",
            state.map(|state| EventState::as_str(state).to_owned()),
        ),
        ("instance", instance.as_ref().map(ToString::to_string)),
        ("named", named.clone()),
        ("since", since),
        ("until", until),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, &value);
        }
    }
}

async fn page_of(api: &Api, path: &str, key: &str) -> Result<Page<Value>, Failure> {
    let mut page = api.get(path).await?;
    let Some(Value::Array(rows)) = page.get_mut(key).map(Value::take) else {
        return Err(api.not_ours().into());
    };
    let next = page.get("next").and_then(Value::as_str);
    Ok(Page {
        rows,
        next: next.map(str::to_owned),
    })
}

fn shown<T: Serialize>(
    path: &Path,
    page: Result<Page<T>, ViewError>,
) -> Result<Page<Value>, Failure> {
    let page = page.map_err(|error| file::unreadable(path, &error))?;
    let rows = page.rows.iter().map(value).collect::<Result<_, _>>()?;
    Ok(Page {
        rows,
        next: page.next,
    })
}

fn value<T: Serialize>(row: &T) -> Result<Value, Failure> {
    serde_json::to_value(row).map_err(Failure::Rows)
}
