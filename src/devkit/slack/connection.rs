//! One WebSocket connection, seen from Slack's side.

use std::rc::Rc;

use actix::{Actor, ActorContext, AsyncContext, StreamHandler};
use actix_http::ws::Item;
use actix_web::web;
use actix_web_actors::ws::{Message, ProtocolError, WebsocketContext};
use serde::Deserialize;
use tokio::sync::mpsc;

use super::state::{Ack, Shared};
use super::wire::{Tap, half_a_frame};
use crate::domain::{Clock, SystemClock};

/// What a connection is told to do.
#[derive(Debug)]
pub(super) enum Command {
    /// Send these text frames in one write.
    Texts(Vec<String>),
    /// Send a text in continuation frames.
    Pieces { text: String, piece_bytes: usize },
    /// Send `hello`.
    Hello,
    /// Send a close frame.
    Close,
    /// Send half a frame and break the connection.
    Cut(String),
    /// Neither read nor write any more.
    Freeze,
}

/// The actor behind one connection.
pub(super) struct FakeConnection {
    number: u64,
    shared: web::Data<Shared>,
    commands: Option<mpsc::UnboundedReceiver<Command>>,
    tap: Rc<Tap>,
}

impl FakeConnection {
    pub(super) fn new(shared: web::Data<Shared>, tap: Rc<Tap>) -> Self {
        let (number, commands) = shared.change(super::state::State::connected);
        Self {
            number,
            shared,
            commands: Some(commands),
            tap,
        }
    }

    fn greet(&self, ctx: &mut WebsocketContext<Self>) {
        ctx.text(self.shared.change_nothing(super::state::State::hello_text));
    }

    fn heard(&self, text: &str) {
        #[derive(Deserialize)]
        struct AckText {
            envelope_id: String,
            payload: Option<serde_json::Value>,
        }
        let number = self.number;
        self.shared
            .change(|state| match serde_json::from_str::<AckText>(text) {
                Ok(ack) => state.seen.acks.push(Ack {
                    envelope_id: ack.envelope_id,
                    payload: ack.payload,
                    connection: number,
                    at: SystemClock.instant(),
                }),
                Err(_) => state.seen.strange_frames = state.seen.strange_frames.saturating_add(1),
            });
    }
}

impl Actor for FakeConnection {
    type Context = WebsocketContext<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(mut commands) = self.commands.take() {
            ctx.add_stream(futures_util::stream::poll_fn(move |cx| {
                commands.poll_recv(cx)
            }));
        }
        if self.shared.change_nothing(|state| state.hello.at_once) {
            self.greet(ctx);
        }
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.shared.change(|state| state.gone(self.number));
    }
}

impl StreamHandler<Command> for FakeConnection {
    fn handle(&mut self, command: Command, ctx: &mut Self::Context) {
        match command {
            Command::Texts(texts) => texts.into_iter().for_each(|text| ctx.text(text)),
            Command::Pieces { text, piece_bytes } => send_in_pieces(&text, piece_bytes, ctx),
            Command::Hello => self.greet(ctx),
            Command::Close => ctx.close(None),
            Command::Cut(text) => self.tap.cut_after(half_a_frame(&text)),
            Command::Freeze => {
                self.tap.freeze();
                self.shared.change(|state| state.gone(self.number));
            }
        }
    }
}

impl StreamHandler<Result<Message, ProtocolError>> for FakeConnection {
    fn handle(&mut self, message: Result<Message, ProtocolError>, ctx: &mut Self::Context) {
        match message {
            Ok(Message::Text(text)) => self.heard(&text),
            Ok(Message::Ping(payload)) => {
                ctx.pong(&payload);
                self.shared.change(|state| {
                    state.seen.pings = state.seen.pings.saturating_add(1);
                });
            }
            Ok(Message::Close(reason)) => {
                self.shared.change(|state| {
                    state.seen.closed_well = state.seen.closed_well.saturating_add(1);
                });
                ctx.close(reason);
                ctx.stop();
            }
            Ok(Message::Pong(_) | Message::Binary(_) | Message::Continuation(_) | Message::Nop) => {
            }
            Err(_) => ctx.stop(),
        }
    }
}

fn send_in_pieces(text: &str, piece_bytes: usize, ctx: &mut WebsocketContext<FakeConnection>) {
    let mut pieces = text.as_bytes().chunks(piece_bytes.max(1)).peekable();
    let mut is_first = true;
    while let Some(piece) = pieces.next() {
        let bytes = web::Bytes::copy_from_slice(piece);
        let item = match (is_first, pieces.peek().is_some()) {
            (true, _) => Item::FirstText(bytes),
            (false, true) => Item::Continue(bytes),
            (false, false) => Item::Last(bytes),
        };
        ctx.write_raw(Message::Continuation(item));
        // A control frame may come between the pieces of a message.
        ctx.ping(b"");
        is_first = false;
    }
}
