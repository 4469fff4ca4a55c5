//! Slack: a signature with a moment in it, and answers that a user may see.

use actix_web::HttpResponse;
use actix_web::web::Payload;
use serde_json::json;

use super::super::body;
use super::super::error::ApiError;
use super::super::settings::Ingress;
use super::{Delivery, Judged};
use crate::providers::signature::{SlackProof, WhichSecret, verify_slack};
use crate::providers::slack::{self, SlackVerdict};
use crate::providers::{Headers, Rejection};
use crate::telemetry::GatewayEvent;

pub(super) async fn receive(
    delivery: &Delivery<'_>,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let request = delivery.request;
    let limit = body::limit_of_provider(request);
    let body = body::read(request, payload, delivery.state, limit).await?;
    let headers = delivery.headers();
    if slack::is_ssl_check(headers.text("content-type"), &body.bytes) {
        return Ok(HttpResponse::Ok().finish());
    }
    let verdict = delivery.judge(body.bytes.clone(), judge).await?;
    let answer = answer(delivery, verdict).await;
    drop(body);
    answer
}

/// An empty body, but where Slack asks for one: anything else would be shown to the user.
async fn answer(delivery: &Delivery<'_>, verdict: SlackVerdict) -> Result<HttpResponse, ApiError> {
    let mut response = HttpResponse::Ok();
    match verdict {
        SlackVerdict::Challenge(challenge) => {
            return Ok(response.json(json!({"challenge": challenge})));
        }
        SlackVerdict::Options => return Ok(response.json(json!({"options": []}))),
        SlackVerdict::Append(arrival) => {
            let wait = delivery.state.parts.patience.slack;
            delivery.append(arrival, wait).await?;
        }
        SlackVerdict::Drop(dropped) => delivery.record_drop(dropped),
        SlackVerdict::SslCheck => {}
        SlackVerdict::Heartbeat { channel, ts, nonce } => {
            delivery.state.parts.log.record(GatewayEvent::Heartbeat {
                channel_id: channel,
                ts,
                nonce,
            });
        }
    }
    Ok(response.finish())
}

fn judge(judged: &Judged<'_>) -> Result<(SlackVerdict, WhichSecret), Rejection> {
    let secrets = judged.secrets(Ingress::SlackEvents)?;
    let proof = SlackProof {
        signature: judged.headers.bytes("x-slack-signature"),
        timestamp: judged.headers.bytes("x-slack-request-timestamp"),
    };
    let (verified, which) = verify_slack(secrets, proof, &judged.body, judged.now)?;
    let declared = &judged.settings.declared;
    let verdict = slack::parse(judged.headers, verified.as_bytes(), declared, judged.now)?;
    Ok((verdict, which))
}
