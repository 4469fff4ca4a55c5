//! Whether to send traffic here.

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde_json::json;

use super::error::ApiError;
use super::state::{HttpState, Phase};

pub(super) async fn ready(state: Data<HttpState>) -> Result<HttpResponse, ApiError> {
    match state.phase() {
        Phase::Starting => Err(ApiError::NotReady("The gateway is starting.")),
        Phase::Draining => Err(ApiError::NotReady("The gateway is draining.")),
        Phase::Serving if !state.parts.health.is_ok() => {
            Err(ApiError::NotReady("The store refuses writes."))
        }
        Phase::Serving => Ok(HttpResponse::Ok().json(json!({"ready": true}))),
    }
}
