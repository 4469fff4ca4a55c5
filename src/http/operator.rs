//! Interventions of a person: dead deliveries again, stored events again, what an instance holds.

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::api_request::{admit, read, record_refusal};
use super::error::{ApiError, FieldProblem};
use super::fields::{Fields, whole_number};
use super::state::HttpState;
use crate::actors::Submit;
use crate::domain::{
    EventId, Identity, InstanceName, ParseError, Seq, Subject, Timestamp, nearest,
};
use crate::store::{
    DeadSelection, EventSelection, NewDelivery, NoSuchInstance, OperatorRelease, Period, Position,
    Redrive, Redriven, Replay, SubjectFilter, Write,
};

/// Deliveries or events that one request may name.
const NAMED_MAX: usize = 500;
/// Known names that are told where an unknown one was given.
const NEAREST_MAX: usize = 5;
/// Pieces without anything to redrive that one request skips over.
const PIECES_MAX: u32 = 100;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppendedBody {
    dry_run: bool,
    appended: usize,
    skipped: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unknown: Vec<i64>,
    deliveries: Vec<AppendedDelivery>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AppendedDelivery {
    seq: Option<i64>,
    instance: String,
    event_id: i64,
    redrive_of: Option<i64>,
}

impl AppendedBody {
    fn new(dry_run: bool, done: &Redriven) -> Self {
        let more = done.next.is_some();
        Self {
            dry_run,
            appended: done.deliveries.len(),
            // What waits for a consumer now was not sent.
            skipped: done.skipped.saturating_add(done.held),
            unknown: done.unknown.clone(),
            deliveries: done.deliveries.iter().map(shown).collect(),
            more,
        }
    }
}

fn shown(delivery: &NewDelivery) -> AppendedDelivery {
    AppendedDelivery {
        seq: delivery.seq.map(|seq| seq.0),
        instance: delivery.instance.to_string(),
        event_id: delivery.event.0,
        redrive_of: delivery.redrive_of.map(|seq| seq.0),
    }
}

pub(super) async fn redrive(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let dry_run = dry_run(&request)?;
    let mut fields = read(&request, payload, &state).await?;
    let selection = dead_selection(&mut fields);
    let selection = fields.finish(Some(selection))?;
    let mut done = Redriven::default();
    let mut after = Position::START;
    for _ in 0..PIECES_MAX {
        let piece = Redrive {
            selection: selection.clone(),
            after,
            dry_run,
        };
        let piece = submit(&state, piece).await?;
        done.skipped = done.skipped.saturating_add(piece.skipped);
        done.held = done.held.saturating_add(piece.held);
        done.unknown.extend(piece.unknown);
        done.deliveries = piece.deliveries;
        done.next = piece.next;
        match done.next {
            // A piece that sends nothing would be met again by the next request.
            Some(next) if done.deliveries.is_empty() => after = next,
            Some(_) | None => break,
        }
    }
    Ok(HttpResponse::Ok().json(AppendedBody::new(dry_run, &done)))
}

fn dead_selection(fields: &mut Fields) -> DeadSelection {
    let is_all = fields.flag("all");
    let is_given = ["seqs", "instance", "subject", "since", "until"]
        .iter()
        .any(|field| fields.has(field));
    if !is_all && !is_given {
        fields.complain(
            "all",
            "must be true unless seqs, instance, subject, since or until is given",
        );
    }
    DeadSelection {
        seqs: numbers(fields, "seqs").into_iter().map(Seq).collect(),
        instance: fields.parsed("instance", InstanceName::parse),
        subject: subject_filter(fields),
        died: period(fields),
    }
}

pub(super) async fn replay(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let dry_run = dry_run(&request)?;
    let mut fields = read(&request, payload, &state).await?;
    let instance = fields.required("instance", InstanceName::parse);
    let selection = event_selection(&mut fields);
    let (selection, instance) = fields.finish(instance.map(|instance| (selection, instance)))?;
    let identity = Identity {
        instance: instance.clone(),
        peer: None,
        run: None,
    };
    admit(&state, &identity).map_err(|error| record_refusal(&state, &identity, error))?;
    // Whoever the configuration names may be replayed to before the first fetch.
    let is_listed = !state.settings().instances.0.is_empty();
    let piece = |after, dry_run| Replay {
        selection: selection.clone(),
        instance: instance.clone(),
        is_listed,
        after,
        dry_run,
    };
    let replay = async |after, dry_run| {
        let done = submit(&state, piece(after, dry_run)).await?;
        done.map_err(|unknown| no_such_instance(&instance, &unknown))
    };
    // One piece is what a request may select; look before anything is sent.
    let first = replay(Position::START, true).await?;
    if let Some(next) = first.next
        && is_any(&replay(next, true).await?)
    {
        return Err(too_many());
    }
    let mut done = if dry_run {
        first
    } else {
        replay(Position::START, false).await?
    };
    done.next = None;
    Ok(HttpResponse::Ok().json(AppendedBody::new(dry_run, &done)))
}

fn is_any(piece: &Redriven) -> bool {
    !piece.deliveries.is_empty() || piece.skipped > 0 || piece.held > 0 || piece.next.is_some()
}

fn no_such_instance(instance: &InstanceName, unknown: &NoSuchInstance) -> ApiError {
    let near = nearest(instance.as_str(), &unknown.known, NEAREST_MAX).join(", ");
    let known = match unknown.known.len() {
        0 => "none is yet".to_owned(),
        found if found <= NEAREST_MAX => format!("known are {near}"),
        _ => format!("the nearest are {near}"),
    };
    ApiError::InvalidFields(vec![FieldProblem {
        field: "instance".to_owned(),
        message: format!("must be known, and {instance} is not: {known}"),
    }])
}

fn too_many() -> ApiError {
    ApiError::InvalidFields(vec![FieldProblem {
        field: "events".to_owned(),
        message: format!("must select at most {NAMED_MAX}: narrow it"),
    }])
}

fn event_selection(fields: &mut Fields) -> EventSelection {
    let is_given = ["events", "subject", "since"]
        .iter()
        .any(|field| fields.has(field));
    if !is_given {
        fields.complain("events", "is required unless subject or since is given");
    }
    EventSelection {
        events: numbers(fields, "events").into_iter().map(EventId).collect(),
        subject: subject_filter(fields),
        received: period(fields),
    }
}

/// At least one number and at most so many, when the field is there.
fn numbers(fields: &mut Fields, field: &str) -> Vec<i64> {
    let Some(list) = fields.list(field, NAMED_MAX) else {
        return Vec::new();
    };
    if list.is_empty() {
        fields.complain(field, "must not be empty");
    }
    let mut found = Vec::with_capacity(list.len());
    for (position, value) in list.iter().enumerate() {
        match whole_number(value).filter(|number| *number > 0) {
            Some(number) => found.push(number),
            None => fields.complain(&format!("{field}[{position}]"), "must be a number from 1"),
        }
    }
    found
}

/// One subject, or what has none.
pub(super) fn subject_filter(fields: &mut Fields) -> SubjectFilter {
    let filter = fields.parsed("subject", |text| {
        if text == Subject::UNASSIGNED {
            Ok(SubjectFilter::Unassigned)
        } else {
            Subject::parse(text).map(SubjectFilter::Is)
        }
    });
    filter.unwrap_or_default()
}

/// From `since` on, before `until`.
pub(super) fn period(fields: &mut Fields) -> Period {
    let all = Period::default();
    Period {
        since: fields.parsed("since", moment).unwrap_or(all.since),
        until: fields.parsed("until", moment).unwrap_or(all.until),
    }
}

fn moment(text: &str) -> Result<Timestamp, ParseError> {
    text.parse::<jiff::Timestamp>()
        .map(|moment| Timestamp(moment.as_millisecond()))
        .map_err(|_not_a_time| ParseError("must be a time as RFC 3339 writes it"))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReleaseBody {
    dry_run: bool,
    known: bool,
    lease: bool,
    claims: u64,
    actors: u64,
}

pub(super) async fn release(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let dry_run = dry_run(&request)?;
    let mut fields = read(&request, payload, &state).await?;
    let instance = fields.required("instance", InstanceName::parse);
    let is_given = fields.expect("what");
    let what = fields.texts("what", What::ALL.len(), What::parse);
    if is_given && what.is_empty() && !fields.is_bad("what") {
        fields.complain("what", "must not be empty");
    }
    let subject = fields.parsed("subject", Subject::parse);
    let release = instance.map(|instance| OperatorRelease {
        instance,
        lease: what.contains(&What::Lease),
        claims: what.contains(&What::Claims),
        actors: what.contains(&What::Actors),
        subject,
        dry_run,
    });
    let released = submit(&state, fields.finish(release)?).await?;
    Ok(HttpResponse::Ok().json(ReleaseBody {
        dry_run,
        known: released.known,
        lease: released.lease,
        claims: released.claims,
        actors: released.actors,
    }))
}

/// What an instance can be made to let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Lease,
    Claims,
    Actors,
}

impl What {
    const ALL: [(&'static str, Self); 3] = [
        ("lease", Self::Lease),
        ("claims", Self::Claims),
        ("actors", Self::Actors),
    ];

    fn parse(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|(word, _)| *word == text)
            .map(|(_, what)| what)
            .ok_or(ParseError("must be lease, claims or actors"))
    }
}

fn dry_run(request: &HttpRequest) -> Result<bool, ApiError> {
    let mut fields = Fields::of_query(request.query_string());
    let dry_run = fields.flag("dryRun");
    fields.finish(Some(dry_run))
}

async fn submit<W: Write>(state: &HttpState, write: W) -> Result<W::Reply, ApiError> {
    Ok(state.parts.store.send(Submit(write)).await??)
}
