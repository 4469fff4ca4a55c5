//! The HTTP half: the methods of the Web API, and the door to the WebSocket.

use std::collections::BTreeMap;
use std::rc::Rc;

use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, RETRY_AFTER};
use actix_web::{Error, HttpRequest, HttpResponse, web};
use actix_web_actors::ws::{WebsocketContext, handshake};
use serde_json::{Value, json};

use super::connection::FakeConnection;
use super::conversations::{Page, Range};
use super::envelope::{TEAM, USER};
use super::state::{OpenAnswer, Refused, Shared};
use super::wire::{Tap, Tapped};

const LIMIT_DEFAULT: usize = 100;

type Arguments = BTreeMap<String, String>;

pub(super) fn routes(app: &mut web::ServiceConfig) {
    app.route("/api/apps.connections.open", web::post().to(open))
        .route("/api/{method}", web::get().to(call))
        .route("/api/{method}", web::post().to(call))
        .route("/link/", web::get().to(link));
}

/// The two kinds of token, told apart by how they begin.
fn has_token(request: &HttpRequest, prefix: &str) -> bool {
    let header = request.headers().get(AUTHORIZATION);
    let token = header.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    token.is_some_and(|token| token.starts_with(prefix))
}

fn refused(refused: &Refused) -> HttpResponse {
    match refused {
        Refused::Code(code) => HttpResponse::Ok().json(json!({"ok": false, "error": code})),
        Refused::RateLimited(seconds) => {
            let mut answer = HttpResponse::TooManyRequests();
            if let Some(seconds) = seconds {
                answer.insert_header((RETRY_AFTER, seconds.to_string()));
            }
            answer.json(json!({"ok": false, "error": "ratelimited"}))
        }
        Refused::Status(status) => {
            let status = StatusCode::from_u16(*status);
            HttpResponse::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        }
    }
}

async fn open(request: HttpRequest, shared: web::Data<Shared>) -> HttpResponse {
    shared.change(|state| {
        state.called("apps.connections.open", Arguments::new());
        if !has_token(&request, "xapp-") {
            return refused(&Refused::Code("not_authed"));
        }
        let url = match state.open_answers.pop_front() {
            Some(OpenAnswer::Refused(answer)) => return refused(&answer),
            Some(OpenAnswer::Url(url)) => url,
            None => state.new_url(),
        };
        HttpResponse::Ok().json(json!({"ok": true, "url": url}))
    })
}

async fn call(
    request: HttpRequest,
    method: web::Path<String>,
    form: web::Bytes,
    shared: web::Data<Shared>,
) -> HttpResponse {
    let mut arguments: Arguments = form_urlencoded::parse(request.query_string().as_bytes())
        .into_owned()
        .collect();
    arguments.extend(form_urlencoded::parse(&form).into_owned());
    shared.change(|state| {
        state.called(&method, arguments.clone());
        if !has_token(&request, "xoxb-") {
            return refused(&Refused::Code("not_authed"));
        }
        if let Some(answer) = state.call_answers.pop_front() {
            return refused(&answer);
        }
        let given = |name: &str| arguments.get(name).map_or("", String::as_str);
        let limit = given("limit").parse().unwrap_or(LIMIT_DEFAULT);
        let range = Range {
            oldest: given("oldest"),
            limit: limit.min(state.page_max),
            cursor: given("cursor"),
        };
        let channel = given("channel");
        match method.as_str() {
            "auth.test" => HttpResponse::Ok().json(identity()),
            "conversations.history" => {
                let page = state.conversations.history(channel, &range);
                paged(page, "channel_not_found")
            }
            "conversations.replies" => {
                let page = state.conversations.replies(channel, given("ts"), &range);
                paged(page, "thread_not_found")
            }
            _ => refused(&Refused::Code("unknown_method")),
        }
    })
}

fn identity() -> Value {
    json!({"ok": true, "url": "https://fake.slack.com/", "team": "fake", "user": "bot",
           "team_id": TEAM, "user_id": USER, "bot_id": "B0FAKE"})
}

fn paged(page: Option<Page>, missing: &'static str) -> HttpResponse {
    let Some(page) = page else {
        return refused(&Refused::Code(missing));
    };
    HttpResponse::Ok().json(json!({
        "ok": true,
        "messages": page.messages,
        "has_more": page.next_cursor.is_some(),
        "response_metadata": {"next_cursor": page.next_cursor.unwrap_or_default()},
    }))
}

async fn link(
    request: HttpRequest,
    body: web::Payload,
    shared: web::Data<Shared>,
) -> Result<HttpResponse, Error> {
    let query: Arguments = form_urlencoded::parse(request.query_string().as_bytes())
        .into_owned()
        .collect();
    let refusal = shared.change(|state| {
        let ticket = query.get("ticket").map_or("", String::as_str);
        let is_good = state.redeem(ticket);
        state
            .refuse_handshakes
            .or_else(|| (!is_good).then_some(404))
    });
    if let Some(status) = refusal {
        return Ok(refused(&Refused::Status(status)));
    }
    let mut answer = handshake(&request)?;
    let tap = Rc::new(Tap::default());
    let connection = FakeConnection::new(shared, Rc::clone(&tap));
    let bytes = WebsocketContext::create(connection, body);
    Ok(answer.streaming(Tapped::new(bytes, tap)))
}
