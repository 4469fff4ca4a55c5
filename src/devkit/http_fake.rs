//! What the fakes of REST APIs share: a server on the loopback address, a log of requests, and
//! everything that can go wrong with an answer.

use std::collections::VecDeque;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, IF_NONE_MATCH};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use serde_json::Value;
use tokio::sync::watch;

use crate::digest;

/// A request that never is answered is given up after this.
const HANG: Duration = Duration::from_secs(600);
/// Between the last bytes of a cut answer and its end.
const LINGER: Duration = Duration::from_millis(20);
const ETAG_CHARS: usize = 16;

/// A request as it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The path.
    pub path: String,
    /// The query.
    pub query: String,
    /// The status of the answer; 0 for one that was never given or was cut.
    pub status: u16,
    /// True when it named an ETag.
    pub is_conditional: bool,
}

/// What goes wrong with an answer.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// This status with this `message`.
    Status(u16, &'static str),
    /// This status with these headers and this `message`.
    Headers(u16, Vec<(&'static str, String)>, &'static str),
    /// This body, with success.
    Body(&'static str),
    /// No answer at all.
    Hang,
    /// The connection is cut in the middle of the body, whose length was told.
    Cut,
    /// The connection is cut in the middle of the body, whose length was not told.
    CutChunked,
    /// A redirect.
    Redirect(u16, String),
    /// The right answer, late.
    Slow(Duration),
}

/// Trouble for the requests whose path and query contain a text.
struct Planned {
    part: String,
    /// How often still; `None`: always.
    left: Option<usize>,
    trouble: Trouble,
}

/// Something that happens right after a request was answered.
struct Then {
    part: String,
    what: Box<dyn FnOnce() + Send>,
}

/// An answer that a fake makes.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

impl Reply {
    pub(super) fn json(body: &Value) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: body.to_string(),
        }
    }

    pub(super) fn error(status: u16, message: &str) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: serde_json::json!({"message": message}).to_string(),
        }
    }

    pub(super) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds an ETag of everything that the answer says.
    pub(super) fn with_etag(self) -> Self {
        let told = format!("{}\n{:?}", self.body, self.headers);
        let mut digest = digest::sha256_hex(told.as_bytes());
        digest.truncate(ETAG_CHARS);
        self.with("etag", format!("W/\"{digest}\""))
    }
}

/// A request, as far as a fake looks at it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) authorization: String,
    pub(super) user_agent: String,
    /// `scheme://host:port` of the fake.
    pub(super) origin: String,
}

impl Request {
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What a fake knows; it makes the answers.
pub(super) trait Model: Send + 'static {
    fn answer(&mut self, request: &Request) -> Reply;
    /// Headers of every answer.
    fn headers(&self) -> Vec<(&'static str, String)>;
}

/// The state of a fake, and how it is changed.
pub(super) struct Shared<M> {
    model: Mutex<M>,
    control: Mutex<Control>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Control {
    planned: VecDeque<Planned>,
    thens: Vec<Then>,
    log: Vec<Asked>,
}

impl<M: Model> Shared<M> {
    fn new(model: M) -> Self {
        Self {
            model: Mutex::new(model),
            control: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    pub(super) fn model(&self) -> MutexGuard<'_, M> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trouble_for(&self, target: &str) -> Option<Trouble> {
        let mut control = self.control();
        let at = control
            .planned
            .iter()
            .position(|planned| target.contains(&planned.part))?;
        let planned = control.planned.get_mut(at)?;
        let trouble = planned.trouble.clone();
        if let Some(left) = &mut planned.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                control.planned.remove(at);
            }
        }
        Some(trouble)
    }

    fn note(&self, asked: Asked) {
        let target = format!("{}?{}", asked.path, asked.query);
        let then = {
            let mut control = self.control();
            control.log.push(asked);
            let due = |then: &Then| target.contains(&then.part);
            let at = control.thens.iter().position(due);
            at.map(|at| control.thens.remove(at))
        };
        if let Some(then) = then {
            (then.what)();
        }
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// A running fake.
pub(super) struct HttpFake<M> {
    pub(super) shared: Arc<Shared<M>>,
    server: ServerHandle,
    address: SocketAddr,
}

impl<M> Clone for HttpFake<M> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            server: self.server.clone(),
            address: self.address,
        }
    }
}

impl<M> fmt::Debug for HttpFake<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpFake")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl<M: Model> HttpFake<M> {
    /// Starts a server on a free port, in the current System.
    pub(super) fn start(model: M) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(model));
        let data = web::Data::from(Arc::clone(&shared));
        let server = HttpServer::new(move || {
            App::new()
                .app_data(data.clone())
                .default_service(web::to(serve::<M>))
        });
        let server = server
            .workers(1)
            .disable_signals()
            .shutdown_timeout(0)
            .bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = server.addrs().first().copied();
        let address = address.ok_or(std::io::ErrorKind::AddrNotAvailable)?;
        let server = server.run();
        let handle = server.handle();
        actix_rt::spawn(server);
        Ok(Self {
            shared,
            server: handle,
            address,
        })
    }

    pub(super) async fn stop(&self) {
        self.server.stop(false).await;
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn trouble(&self, part: &str, left: Option<usize>, trouble: Trouble) {
        self.shared.control().planned.push_back(Planned {
            part: part.to_owned(),
            left,
            trouble,
        });
    }

    pub(super) fn end_trouble(&self) {
        self.shared.control().planned.clear();
    }

    pub(super) fn then(&self, part: &str, what: impl FnOnce() + Send + 'static) {
        self.shared.control().thens.push(Then {
            part: part.to_owned(),
            what: Box::new(what),
        });
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.shared.control().log.clone()
    }

    pub(super) fn forget_asked(&self) {
        self.shared.control().log.clear();
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }
}

async fn serve<M: Model>(request: HttpRequest, shared: web::Data<Shared<M>>) -> HttpResponse {
    let target = format!("{}?{}", request.path(), request.query_string());
    let header = |name| {
        let value = request.headers().get(name).map(|value| value.to_str());
        value.and_then(Result::ok).unwrap_or_default().to_owned()
    };
    let if_none_match = header(IF_NONE_MATCH);
    let mut asked = Asked {
        path: request.path().to_owned(),
        query: request.query_string().to_owned(),
        status: 0,
        is_conditional: !if_none_match.is_empty(),
    };
    let read = Request {
        path: asked.path.clone(),
        query: form_urlencoded::parse(asked.query.as_bytes())
            .into_owned()
            .collect(),
        authorization: header(AUTHORIZATION),
        user_agent: header(actix_web::http::header::USER_AGENT),
        origin: format!("http://{}", request.connection_info().host()),
    };
    let trouble = shared.trouble_for(&target);
    match &trouble {
        Some(Trouble::Hang) => {
            shared.note(asked);
            tokio::time::sleep(HANG).await;
            return HttpResponse::new(StatusCode::GATEWAY_TIMEOUT);
        }
        Some(Trouble::Slow(wait)) => tokio::time::sleep(*wait).await,
        _ => {}
    }
    let mut reply = shared.model().answer(&read);
    let etag = reply.headers.iter().find(|(name, _)| *name == "etag");
    let is_cut = matches!(trouble, Some(Trouble::Cut | Trouble::CutChunked));
    if !is_cut && !if_none_match.is_empty() && etag.is_some_and(|(_, etag)| *etag == if_none_match)
    {
        (reply.status, reply.body) = (304, String::new());
    }
    reply.headers.extend(shared.model().headers());
    let response = spoiled(reply, trouble);
    asked.status = if is_cut {
        0
    } else {
        response.status().as_u16()
    };
    shared.note(asked);
    response
}

/// The answer with its trouble.
fn spoiled(reply: Reply, trouble: Option<Trouble>) -> HttpResponse {
    let message = |text: &str| serde_json::json!({"message": text}).to_string();
    match trouble {
        None | Some(Trouble::Slow(_) | Trouble::Hang) => response(reply),
        Some(Trouble::Status(status, text)) => response(Reply {
            status,
            body: message(text),
            ..reply
        }),
        Some(Trouble::Headers(status, headers, text)) => {
            let is_new = |(name, _): &(&str, String)| headers.iter().all(|(own, _)| own != name);
            let kept: Vec<_> = reply.headers.into_iter().filter(is_new).collect();
            response(Reply {
                status,
                body: message(text),
                headers: kept.into_iter().chain(headers.clone()).collect(),
            })
        }
        Some(Trouble::Body(body)) => response(Reply {
            body: body.to_owned(),
            headers: Vec::new(),
            status: 200,
        }),
        Some(Trouble::Redirect(status, to)) => {
            let reply = Reply {
                status,
                body: String::new(),
                ..reply
            };
            response(reply.with("location", to))
        }
        Some(Trouble::Cut) => cut(&reply, true),
        Some(Trouble::CutChunked) => cut(&reply, false),
    }
}

fn response(reply: Reply) -> HttpResponse {
    let status = StatusCode::from_u16(reply.status);
    let mut response = HttpResponse::build(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    response.insert_header(("content-type", "application/json; charset=utf-8"));
    for (name, value) in reply.headers {
        response.insert_header((name, value));
    }
    response.body(reply.body)
}

fn cut(reply: &Reply, is_length_told: bool) -> HttpResponse {
    let half = reply.body.len() / 2;
    let body = reply.body.as_bytes().get(..half).unwrap_or_default();
    let chunk = web::Bytes::copy_from_slice(body);
    let stream = futures_util::stream::unfold(Some(chunk), |chunk| async move {
        match chunk {
            Some(chunk) => Some((Ok(chunk), None)),
            None => {
                // What was written has to leave before the connection goes.
                tokio::time::sleep(LINGER).await;
                let gone = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                Some((Err(gone), None))
            }
        }
    });
    let mut response = HttpResponse::Ok();
    if is_length_told {
        response.no_chunking(u64::try_from(reply.body.len()).unwrap_or(u64::MAX));
    }
    response.streaming(stream)
}
