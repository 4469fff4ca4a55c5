//! GitHub and Jira: one signature over the body, one answer of success.

use actix_web::HttpResponse;
use actix_web::web::Payload;
use serde_json::json;

use super::super::body;
use super::super::error::ApiError;
use super::super::settings::Ingress;
use super::{Delivery, Judged};
use crate::providers::signature::{WhichSecret, verify_github, verify_jira};
use crate::providers::{Headers, Rejection, Verdict, github, jira};

pub(super) async fn receive(
    delivery: &Delivery<'_>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let request = delivery.request;
    let limit = body::limit_of_provider(request);
    let body = body::read(request, payload, delivery.state, limit).await?;
    let bytes = body.bytes.clone();
    let verdict = match delivery.ingress {
        Ingress::Jira => delivery.judge(bytes, judge_jira).await?,
        Ingress::GitHub
        | Ingress::SlackEvents
        | Ingress::SlackInteractions
        | Ingress::SlackCommands => delivery.judge(bytes, judge_github).await?,
    };
    match verdict {
        Verdict::Append(arrival) => {
            let wait = delivery.state.parts.patience.webhooks;
            delivery.append(arrival, wait).await?;
        }
        Verdict::Drop(dropped) => delivery.record_drop(dropped),
    }
    drop(body);
    Ok(HttpResponse::Accepted().json(json!({"status": "accepted"})))
}

fn judge_github(judged: &Judged<'_>) -> Result<(Verdict, WhichSecret), Rejection> {
    let secrets = judged.secrets(Ingress::GitHub)?;
    let signature = judged.headers.bytes("x-hub-signature-256");
    let (verified, which) = verify_github(secrets, signature, &judged.body)?;
    let declared = &judged.settings.declared;
    let verdict = github::parse(judged.headers, verified.as_bytes(), declared, judged.now)?;
    Ok((verdict, which))
}

fn judge_jira(judged: &Judged<'_>) -> Result<(Verdict, WhichSecret), Rejection> {
    let secrets = judged.secrets(Ingress::Jira)?;
    let signature = judged.headers.bytes("x-hub-signature");
    let (verified, which) = verify_jira(secrets, signature, &judged.body)?;
    let declared = &judged.settings.declared;
    let verdict = jira::parse(judged.headers, verified.as_bytes(), declared, judged.now)?;
    Ok((verdict, which))
}
