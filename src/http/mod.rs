//! The HTTP side: one route a line, each a few calls into what a test can call.
//!
//! Nothing here decides about events: it reads requests, asks an actor or a view, and writes the
//! answer. Must not know an actor's inside, only the messages that it takes.

mod admission;
mod api_request;
mod body;
mod consume;
mod counters_seen;
mod dashboard;
mod envelope;
mod error;
mod fields;
mod guard;
mod health;
mod ingress;
mod limits;
mod metrics;
mod operator;
mod readiness;
mod registrations;
mod samples;
mod server;
mod settings;
mod state;
pub mod trial;
mod views;

use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use actix_web::{HttpResponse, Resource};

use self::error::ApiError;

pub use self::server::{Listener, Patience, Timeouts, serve};
pub use self::settings::HttpSettings;
pub use self::state::{HttpParts, HttpState, Phase};

/// Which routes a listener answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routes {
    /// All of them.
    All,
    /// The API and the pages.
    Api,
    /// What providers post.
    Ingress,
}

/// The route table of a listener. What it does not name is a provider's path or not found.
fn configure(config: &mut ServiceConfig, routes: Routes) {
    match routes {
        Routes::All => {
            config.configure(api);
            config.default_service(web::to(ingress::receive));
        }
        Routes::Api => {
            config.configure(api);
            config.default_service(web::to(not_found));
        }
        Routes::Ingress => {
            config.default_service(web::to(ingress::receive));
        }
    }
}

fn api(config: &mut ServiceConfig) {
    let scope = web::scope("/api/v1/gateway")
        .wrap(from_fn(guard::admit_own))
        .default_service(web::to(not_found))
        .service(at("/fetch", "POST").route(web::post().to(consume::fetch)))
        .service(at("/commit", "POST").route(web::post().to(consume::commit)))
        .service(
            at("/claims", "PUT, DELETE")
                .route(web::put().to(registrations::put_claim))
                .route(web::delete().to(registrations::delete_claim)),
        )
        .service(at("/actors", "PUT").route(web::put().to(registrations::put_actors)))
        .service(
            at("/bindings", "POST, DELETE")
                .route(web::post().to(registrations::add_binding))
                .route(web::delete().to(registrations::delete_binding)),
        )
        .service(at("/rooms", "PUT").route(web::put().to(registrations::put_rooms)))
        .service(at("/operator/redrive", "POST").route(web::post().to(operator::redrive)))
        .service(at("/operator/replay", "POST").route(web::post().to(operator::replay)))
        .service(at("/operator/release", "POST").route(web::post().to(operator::release)))
        .service(at("/ready", "GET").route(web::get().to(readiness::ready)))
        .service(at("/health", "GET").route(web::get().to(health::health)))
        .service(at("/subjects", "GET").route(web::get().to(views::subjects)))
        .service(at("/queues", "GET").route(web::get().to(views::queues)))
        .service(at("/samples", "GET").route(web::get().to(samples::samples)))
        .service(at("/instances", "GET").route(web::get().to(views::instances)))
        .service(at("/events", "GET").route(web::get().to(views::events)))
        .service(at("/events/{id}", "GET").route(web::get().to(views::event)))
        .service(at("/events/{id}/payload", "GET").route(web::get().to(views::payload)))
        .service(at("/dead", "GET").route(web::get().to(views::dead)));
    config.service(scope);
    let metrics = at("/metrics", "GET").route(web::get().to(metrics::metrics));
    config.service(metrics.wrap(from_fn(guard::admit_own)));
    let page = at("/", "GET").route(web::get().to(dashboard::page));
    config.service(page.wrap(from_fn(guard::admit_own)));
}

/// A path with its methods; any other method is told which ones there are.
fn at(path: &str, allow: &'static str) -> Resource {
    let refused = move || async move { wrong_method(allow) };
    web::resource(path).default_service(web::to(refused))
}

const fn wrong_method(allow: &'static str) -> Result<HttpResponse, ApiError> {
    Err(ApiError::MethodNotAllowed { allow })
}

async fn not_found() -> Result<HttpResponse, ApiError> {
    Err(ApiError::NotFound)
}
