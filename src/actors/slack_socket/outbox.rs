//! Frames on their way out of a connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use awc::error::WsProtocolError;
use awc::ws::Message;
use futures_util::Sink;

/// The writing half of a connection.
pub(super) type Wire = Pin<Box<dyn Sink<Message, Error = WsProtocolError>>>;

/// A queue of frames before a wire. What was pushed is never lost or sent twice, however often
/// [`Outbox::drive`] is cancelled.
pub(super) struct Outbox {
    wire: Wire,
    queue: VecDeque<Message>,
    needs_flush: bool,
}

impl Outbox {
    pub(super) fn new(wire: Wire) -> Self {
        Self {
            wire,
            queue: VecDeque::new(),
            needs_flush: false,
        }
    }

    pub(super) fn push(&mut self, message: Message) {
        self.queue.push_back(message);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// True when everything pushed has left.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.needs_flush
    }

    /// Writes until everything has left.
    pub(super) async fn drive(&mut self) -> Result<(), WsProtocolError> {
        std::future::poll_fn(|cx| self.poll_drive(cx)).await
    }

    fn poll_drive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WsProtocolError>> {
        while !self.queue.is_empty() {
            ready!(self.wire.as_mut().poll_ready(cx))?;
            if let Some(message) = self.queue.pop_front() {
                self.needs_flush = true;
                self.wire.as_mut().start_send(message)?;
            }
        }
        ready!(self.wire.as_mut().poll_flush(cx))?;
        self.needs_flush = false;
        Poll::Ready(Ok(()))
    }

    /// Tells the transport that nothing more comes.
    pub(super) async fn shut(&mut self) -> Result<(), WsProtocolError> {
        std::future::poll_fn(|cx| self.wire.as_mut().poll_close(cx)).await
    }
}
