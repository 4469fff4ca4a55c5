//! What people and dashboards read. Each view runs on a thread that may wait, over a connection
//! that only reads.

use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::{ApiError, FieldProblem};
use super::fields::Fields;
use super::operator::{period, subject_filter};
use super::state::HttpState;
use crate::domain::{EventId, InstanceName, ParseError};
use crate::store::views::{
    self, EventFilter, EventState, NewerEvents, Page, PageRequest, ViewError,
};
use crate::store::{ReadConnection, StoreError};

const LIMIT_DEFAULT: i64 = 100;
const LIMIT_MAX: i64 = 1_000;
/// As long as the longest key is.
const EVENT_NAME_BYTES_MAX: usize = 512;

pub(super) async fn subjects(
    request: HttpRequest,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let page = page_of(Fields::of_query(request.query_string()))?;
    let now = state.parts.clock.now();
    let found = look(&state, move |connection| {
        Ok(views::subjects(connection, now, &page)?)
    });
    list("subjects", found.await?)
}

pub(super) async fn queues(
    request: HttpRequest,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let page = page_of(Fields::of_query(request.query_string()))?;
    let now = state.parts.clock.now();
    let found = look(&state, move |connection| {
        Ok(views::queues(connection, now, &page)?)
    });
    list("queues", found.await?)
}

pub(super) async fn instances(
    request: HttpRequest,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let page = page_of(Fields::of_query(request.query_string()))?;
    let now = state.parts.clock.now();
    let found = look(&state, move |connection| {
        Ok(views::instances(connection, now, &page)?)
    });
    list("instances", found.await?)
}

pub(super) async fn dead(
    request: HttpRequest,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let page = page_of(Fields::of_query(request.query_string()))?;
    let found = look(&state, move |connection| views::dead(connection, &page));
    list("dead", found.await?)
}

pub(super) async fn events(
    request: HttpRequest,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let mut fields = Fields::of_query(request.query_string());
    let filter = EventFilter {
        subject: subject_filter(&mut fields),
        kind: fields.parsed("kind", not_empty),
        state: fields.parsed("state", |word| {
            EventState::from_word(word).ok_or(ParseError("must be held, grace, routed or expired"))
        }),
        instance: fields.parsed("instance", InstanceName::parse),
        named: fields.parsed("named", event_name),
        received: period(&mut fields),
    };
    let newer_than = fields.parsed("newerThan", event_number);
    if newer_than.is_some() && fields.has("after") {
        fields.complain("after", "must not be given with newerThan");
    }
    let page = page_of(fields)?;
    if let Some(than) = newer_than {
        return newer_events(&state, filter, than, page.limit).await;
    }
    let found = look(&state, move |connection| {
        views::events(connection, &filter, &page)
    });
    list("events", found.await?)
}

/// What follows an event, oldest first, and up to where was looked.
async fn newer_events(
    state: &HttpState,
    filter: EventFilter,
    than: EventId,
    limit: u32,
) -> Result<HttpResponse, ApiError> {
    let found = look(state, move |connection| {
        Ok(views::newer(connection, &filter, than, limit)?)
    });
    let NewerEvents { rows, up_to } = found.await?;
    Ok(HttpResponse::Ok().json(json!({ "events": rows, "upTo": up_to })))
}

pub(super) async fn event(
    id: Path<String>,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let id = event_id(&id)?;
    let now = state.parts.clock.now();
    let story = look(&state, move |connection| {
        Ok(views::story(connection, now, id)?)
    });
    let story = story.await?.ok_or(ApiError::NotFound)?;
    Ok(HttpResponse::Ok().json(story))
}

pub(super) async fn payload(
    id: Path<String>,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let id = event_id(&id)?;
    let text = look(&state, move |connection| {
        let payload = views::payload(connection, id)?;
        let text = payload.map(|payload| payload.text()).transpose();
        Ok(text.map_err(StoreError::from)?)
    });
    let text = text.await?.ok_or(ApiError::NotFound)?;
    Ok(HttpResponse::Ok()
        .content_type("application/json")
        .body(text))
}

/// What is not the number of an event is no event.
fn event_id(text: &str) -> Result<EventId, ApiError> {
    text.parse()
        .map(EventId)
        .map_err(|_no_number| ApiError::NotFound)
}

/// From 0: before the first one.
fn event_number(text: &str) -> Result<EventId, ParseError> {
    let number = text.parse().ok().filter(|number| *number >= 0);
    number
        .map(EventId)
        .ok_or(ParseError("must be a whole number of at least 0"))
}

fn event_name(text: &str) -> Result<String, ParseError> {
    if text.is_empty() || text.len() > EVENT_NAME_BYTES_MAX {
        return Err(ParseError("must have 1 to 512 bytes"));
    }
    Ok(text.to_owned())
}

fn not_empty(text: &str) -> Result<String, ParseError> {
    if text.is_empty() {
        return Err(ParseError("must not be empty"));
    }
    Ok(text.to_owned())
}

/// Which page is asked for; the last thing that is read of a query.
fn page_of(mut fields: Fields) -> Result<PageRequest, ApiError> {
    let limit = fields.parsed("limit", |text| {
        let limit = text
            .parse()
            .ok()
            .filter(|limit| (1..=LIMIT_MAX).contains(limit));
        limit.ok_or(ParseError("must be a number from 1 to 1000"))
    });
    let after = fields.parsed("after", not_empty);
    fields.finish(Some(PageRequest {
        limit: u32::try_from(limit.unwrap_or(LIMIT_DEFAULT)).unwrap_or(u32::MAX),
        after,
    }))
}

/// Runs a view.
async fn look<T: Send + 'static>(
    state: &HttpState,
    view: impl FnOnce(&ReadConnection) -> Result<T, ViewError> + Send + 'static,
) -> Result<T, ApiError> {
    let readers = state.parts.readers.clone();
    let seen = actix_web::web::block(move || match readers.get() {
        Ok(connection) => view(&connection).map_err(ApiError::from),
        Err(error) => {
            tracing::warn!(%error, "no reader of the store is free");
            Err(ApiError::Overloaded("No reader of the store is free."))
        }
    });
    seen.await.map_err(|error| {
        tracing::error!(%error, "no thread runs a view");
        ApiError::Overloaded("No thread is free to read the store.")
    })?
}

impl From<ViewError> for ApiError {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::UnknownPosition => Self::InvalidFields(vec![FieldProblem {
                field: "after".to_owned(),
                message: error.to_string(),
            }]),
            ViewError::Store(error) => error.into(),
        }
    }
}

/// One page as it is answered: the rows under their name, and `next` unless it is the last.
fn list<T: Serialize>(name: &str, page: Page<T>) -> Result<HttpResponse, ApiError> {
    let rows = serde_json::to_value(page.rows).map_err(|error| {
        tracing::error!(%error, "a view has no JSON");
        ApiError::StoreUnavailable
    })?;
    let mut body = Map::new();
    body.insert(name.to_owned(), rows);
    if let Some(next) = page.next {
        body.insert("next".to_owned(), Value::String(next));
    }
    Ok(HttpResponse::Ok().json(body))
}
