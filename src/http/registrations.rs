//! What instances publish: claims, actors, bindings, rooms.

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;

use super::api_request::{admit, read, read_body_or_query, record_refusal};
use super::error::ApiError;
use super::fields::Fields;
use super::state::HttpState;
use crate::actors::Submit;
use crate::domain::{
    ActorSet, Binding, EventActor, Identity, ParseError, Provider, Role, Room, Subject, WorkItemRef,
};
use crate::store::{
    DeleteBinding, PutActors, PutBinding, PutClaim, PutRooms, ReleaseClaim, Routed, Write,
};

const ACTORS_MAX: usize = 1_000;
const ROOMS_MAX: usize = 1_000;
const TEXT_BYTES_MAX: usize = 512;

#[derive(Serialize)]
struct RoutedBody {
    routed: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

pub(super) async fn put_claim(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let mut fields = read(&request, payload, &state).await?;
    let identity = fields.identity();
    let claim = claim_of(&mut fields);
    let (subject, role) = fields.finish(claim)?;
    let write = PutClaim {
        identity: identity.clone(),
        subject,
        role,
    };
    submit(&state, &identity, write).await.map(routed)
}

pub(super) async fn delete_claim(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let mut fields = read_body_or_query(&request, payload, &state).await?;
    let identity = fields.identity();
    let claim = claim_of(&mut fields);
    let (subject, role) = fields.finish(claim)?;
    let write = ReleaseClaim {
        identity: identity.clone(),
        subject,
        role: Some(role),
    };
    submit(&state, &identity, write).await.map(withdrawn)
}

fn claim_of(fields: &mut Fields) -> Option<(Subject, Role)> {
    let subject = fields.required("subject", Subject::parse);
    let role = fields.required("role", Role::parse);
    Some((subject?, role?))
}

pub(super) async fn put_actors(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let mut fields = read(&request, payload, &state).await?;
    let identity = fields.identity();
    let actors = fields.expect("actors").then(|| actors_of(&mut fields));
    let actors = fields.finish(actors.flatten())?;
    let write = PutActors {
        identity: identity.clone(),
        actors,
    };
    submit(&state, &identity, write).await.map(routed)
}

fn actors_of(fields: &mut Fields) -> Option<ActorSet> {
    let actors = fields.object("actors", |by_provider| {
        let mut actors = Vec::new();
        for provider in Provider::ALL {
            let names = by_provider.texts(provider.as_str(), ACTORS_MAX, actor_name);
            let of_provider = |name| EventActor { provider, name };
            actors.extend(names.into_iter().map(of_provider));
        }
        actors
    })?;
    if actors.len() > ACTORS_MAX {
        fields.complain("actors", "must hold at most 1000");
    }
    Some(ActorSet(actors))
}

fn actor_name(text: &str) -> Result<String, ParseError> {
    bounded(text.trim())
}

fn bounded(text: &str) -> Result<String, ParseError> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return Err(ParseError("must be 1 to 512 bytes"));
    }
    Ok(text.to_owned())
}

pub(super) async fn add_binding(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let mut fields = read(&request, payload, &state).await?;
    let identity = fields.identity();
    let binding = binding_of(&mut fields, &state);
    let write = PutBinding {
        identity: identity.clone(),
        binding: fields.finish(binding)?,
    };
    submit(&state, &identity, write).await.map(routed)
}

pub(super) async fn delete_binding(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let mut fields = read_body_or_query(&request, payload, &state).await?;
    let identity = fields.identity();
    let binding = binding_of(&mut fields, &state);
    let write = DeleteBinding {
        identity: identity.clone(),
        binding: fields.finish(binding)?,
    };
    submit(&state, &identity, write).await.map(withdrawn)
}

fn binding_of(fields: &mut Fields, state: &HttpState) -> Option<Binding> {
    let work_item = fields.required("ref", WorkItemRef::parse);
    let provider = fields.required("provider", |text| {
        Provider::from_word(text).ok_or(ParseError("must be github, jira or slack"))
    });
    let key = fields.required("key", bounded);
    let (work_item, provider, key) = (work_item?, provider?, key?);
    if work_item.provider().is_none() && provider != Provider::Slack {
        fields.complain("ref", "can be standing:<name> only with the provider slack");
    }
    let site = state.settings().declared.jira_site.clone();
    match binding_key(provider, &key, site.as_deref()) {
        Ok(key) => Some(Binding {
            provider,
            key,
            work_item,
        }),
        Err(error) => {
            fields.complain("key", error);
            None
        }
    }
}

/// The normalised key, as [`Binding`] says.
fn binding_key(provider: Provider, key: &str, site: Option<&str>) -> Result<String, ParseError> {
    const GITHUB: ParseError = ParseError("must be owner/repo#N or github:[host/]owner/repo#N");
    const JIRA: ParseError =
        ParseError("must be KEY-N, when jira.site is configured, site/KEY-N or jira:site/KEY-N");
    const SLACK: ParseError =
        ParseError("must be thread_ts, channel/thread_ts or team/channel/thread_ts");
    match provider {
        Provider::GitHub => {
            let full = with_scheme(key, "github:");
            let parsed = WorkItemRef::parse(&full).ok().ok_or(GITHUB)?;
            Ok(parsed.key())
        }
        Provider::Jira => {
            let full = match (key.contains(['/', ':']), site) {
                (true, _) => with_scheme(key, "jira:"),
                (false, Some(site)) => format!("jira:{site}/{key}"),
                (false, None) => return Err(JIRA),
            };
            let parsed = WorkItemRef::parse(&full).ok().ok_or(JIRA)?;
            Ok(parsed.key())
        }
        Provider::Slack => {
            let parts: Vec<&str> = key.split('/').collect();
            let is_key = parts.len() <= 3 && parts.iter().all(|part| is_slack_part(part));
            is_key.then(|| key.to_owned()).ok_or(SLACK)
        }
    }
}

fn with_scheme(key: &str, scheme: &str) -> String {
    if key.starts_with(scheme) {
        key.to_owned()
    } else {
        format!("{scheme}{key}")
    }
}

fn is_slack_part(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic())
}

pub(super) async fn put_rooms(
    request: HttpRequest,
    payload: Payload,
    state: Data<HttpState>,
) -> Result<HttpResponse, ApiError> {
    let mut fields = read(&request, payload, &state).await?;
    let identity = fields.identity();
    let rooms = fields.expect("rooms").then(|| {
        fields.objects("rooms", ROOMS_MAX, |room| {
            let channel = room.required("channel", bounded);
            let work_item = room.required("ref", WorkItemRef::parse);
            Some(Room {
                channel: channel?,
                work_item: work_item?,
            })
        })
    });
    let write = PutRooms {
        identity: identity.clone(),
        rooms: fields.finish(rooms.flatten())?,
    };
    submit(&state, &identity, write).await.map(routed)
}

async fn submit<W: Write>(
    state: &HttpState,
    identity: &Identity,
    write: W,
) -> Result<W::Reply, ApiError> {
    let result = match admit(state, identity) {
        Ok(()) => {
            let answer = state.parts.store.send(Submit(write)).await?;
            answer.map_err(ApiError::from)
        }
        Err(error) => Err(error),
    };
    result.map_err(|error| record_refusal(state, identity, error))
}

fn routed(routed: Routed) -> HttpResponse {
    HttpResponse::Ok().json(RoutedBody {
        routed: routed.deliveries,
        more: routed.more,
    })
}

/// Withdrawing routes nothing.
fn withdrawn<T>(_: T) -> HttpResponse {
    routed(Routed::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_key_is_the_full_reference_in_lower_case() {
        for (provider, key, normal) in [
            (Provider::GitHub, "Octo/Repo#20", "github:octo/repo#20"),
            (
                Provider::GitHub,
                "github:octo/repo#20",
                "github:octo/repo#20",
            ),
            (
                Provider::GitHub,
                "ghe.corp.example/octo/repo#1",
                "github:ghe.corp.example/octo/repo#1",
            ),
            (Provider::Jira, "PROJ-1", "jira:acme.atlassian.net/proj-1"),
            (
                Provider::Jira,
                "other.atlassian.net/PROJ-1",
                "jira:other.atlassian.net/proj-1",
            ),
            (
                Provider::Jira,
                "jira:other.atlassian.net/PROJ-1",
                "jira:other.atlassian.net/proj-1",
            ),
            (Provider::Slack, "1792332000.000100", "1792332000.000100"),
            (Provider::Slack, "C0123/1792.1", "C0123/1792.1"),
            (Provider::Slack, "T0/C0/1792.1", "T0/C0/1792.1"),
        ] {
            let found = binding_key(provider, key, Some("acme.atlassian.net"));
            assert_eq!(found.as_deref(), Ok(normal));
        }
    }

    #[test]
    fn what_is_no_binding_key_is_refused() {
        for (provider, key) in [
            (Provider::GitHub, "octo/repo"),
            (Provider::GitHub, "jira:acme.atlassian.net/PROJ-1"),
            (Provider::GitHub, "standing:ops"),
            (Provider::Jira, "PROJ-1"),
            (Provider::Jira, "proj"),
            (Provider::Jira, "github:octo/repo#1"),
            (Provider::Slack, "a/b/c/d"),
            (Provider::Slack, "a//b"),
            (Provider::Slack, "/"),
            (Provider::Slack, "a b"),
        ] {
            assert!(binding_key(provider, key, None).is_err(), "{key}");
        }
    }
}
