//! GitHub and Jira: one signature over the body, one answer of success.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::web::Payload;
use serde_json::json;

use super::super::body;
use super::super::counters::Counted;
use super::super::error::ApiError;
use super::super::settings::Ingress;
use super::{Delivery, RequestHeaders};
use crate::domain::Timestamp;
use crate::providers::signature::{verify_github, verify_jira};
use crate::providers::{Declared, Headers, Rejection, Verdict, Verified, github, jira};

/// How long a busy store is waited for: GitHub gives up after 10 s and never comes again.
const WAIT: Duration = Duration::from_secs(8);

pub(super) async fn receive(
    delivery: &Delivery<'_>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let secrets = delivery
        .settings
        .secrets(delivery.ingress)
        .ok_or(ApiError::NotFound)?;
    let request = delivery.request;
    let limit = body::limit_of_provider(request);
    let body = body::read(request, payload, delivery.state, limit).await?;
    let (headers, bytes) = (delivery.headers(), body.bytes.clone());
    let is_jira = delivery.ingress == Ingress::Jira;
    let verified = if is_jira {
        verify_jira(secrets, headers.bytes("x-hub-signature"), bytes)
    } else {
        verify_github(secrets, headers.bytes("x-hub-signature-256"), bytes)
    };
    let (verified, which) = verified.map_err(|rejection| delivery.refuse(rejection))?;
    delivery.count(Counted::Matched(which));
    let parse = if is_jira { parse_jira } else { parse_github };
    match delivery.read(verified, parse).await? {
        Verdict::Append(arrival) => {
            delivery.append(arrival, WAIT).await?;
        }
        Verdict::Drop(dropped) => delivery.record_drop(dropped),
    }
    drop(body);
    Ok(HttpResponse::Accepted().json(json!({"status": "accepted"})))
}

fn parse_github(
    headers: &RequestHeaders<'_>,
    body: Verified<&[u8]>,
    declared: &Declared,
    now: Timestamp,
) -> Result<Verdict, Rejection> {
    github::parse(headers, body, declared, now)
}

fn parse_jira(
    headers: &RequestHeaders<'_>,
    body: Verified<&[u8]>,
    declared: &Declared,
    now: Timestamp,
) -> Result<Verdict, Rejection> {
    jira::parse(headers, body, declared, now)
}
