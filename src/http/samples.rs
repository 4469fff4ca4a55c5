//! The plots of the dashboard, as numbers.

use actix_web::HttpResponse;
use actix_web::web::Data;
use serde::Serialize;

use super::state::HttpState;
use crate::actors::QueueSample;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SamplesBody {
    times: Vec<String>,
    queues: Vec<SampledQueue>,
}

/// A queue as columns: as many entries as there are times, null while it was not there.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SampledQueue {
    instance: String,
    backlog: Vec<Option<i64>>,
    oldest_age_seconds: Vec<Option<f64>>,
}

pub(super) async fn samples(state: Data<HttpState>) -> HttpResponse {
    let series = state.parts.samples.all();
    let queues = series.queues.into_iter().map(|(instance, samples)| {
        let column = |sample: &Option<QueueSample>| sample.map(|sample| sample.backlog);
        let age = |sample: &Option<QueueSample>| sample.map(|sample| sample.oldest_age_seconds);
        SampledQueue {
            instance,
            backlog: samples.iter().map(column).collect(),
            oldest_age_seconds: samples.iter().map(age).collect(),
        }
    });
    HttpResponse::Ok().json(SamplesBody {
        times: series.times.iter().map(ToString::to_string).collect(),
        queues: queues.collect(),
    })
}
