//! One connection on a wire that the test holds in its hands.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll};

use actix_web::web::Bytes;
use awc::error::WsProtocolError;
use awc::ws::{Frame, Message};
use futures_util::{Sink, StreamExt};
use tokio::sync::mpsc;

use super::super::core::Core;
use super::super::link::{End, LinkHandle, News, start};
use super::*;
use crate::devkit::slack::Envelope;

/// What the wire does with what is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Breaks,
    Jams,
}

impl Sink<Message> for Wire {
    type Error = WsProtocolError;

    fn poll_ready(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        match *self {
            Self::Breaks => Poll::Ready(Ok(())),
            Self::Jams => Poll::Pending,
        }
    }

    fn start_send(self: Pin<&mut Self>, _: Message) -> Result<(), Self::Error> {
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Err(WsProtocolError::Io(
            std::io::ErrorKind::BrokenPipe.into(),
        )))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }
}

type Incoming = mpsc::UnboundedSender<Result<Frame, WsProtocolError>>;

fn link(world: &World, wire: Wire) -> (LinkHandle, Incoming) {
    let (incoming, mut frames) = mpsc::unbounded_channel();
    let frames = futures_util::stream::poll_fn(move |cx| frames.poll_recv(cx)).boxed_local();
    let core = Rc::new(Core::new(world.parts()));
    (start(core, Box::pin(wire), frames), incoming)
}

async fn end_of(mut link: LinkHandle) -> End {
    loop {
        if let News::Ended(end) = link.next().await {
            return end;
        }
    }
}

#[actix::test]
async fn an_ack_that_cannot_be_written_ends_the_connection() {
    let world = World::with_room();
    let (link, incoming) = link(&world, Wire::Breaks);
    let envelope = live::message("m");
    incoming
        .send(Ok(Frame::Text(envelope.text().into())))
        .unwrap();
    match end_of(link).await {
        End::NotWritten(reason) => assert!(reason.as_str().contains("broken pipe"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        store::texts(&world.store).await,
        ["m"],
        "stored all the same"
    );
}

#[actix::test]
async fn an_ack_that_does_not_leave_in_time_ends_the_connection() {
    let mut world = World::with_room();
    world.settings.timing.write_max = Duration::from_millis(20);
    let (link, incoming) = link(&world, Wire::Jams);
    let suggestion = Envelope::suggestion();
    incoming
        .send(Ok(Frame::Text(suggestion.text().into())))
        .unwrap();
    assert!(matches!(end_of(link).await, End::NotWritten(_)));
}

#[actix::test]
async fn a_peer_that_pings_without_reading_cannot_fill_the_memory() {
    let world = World::new();
    let (link, incoming) = link(&world, Wire::Jams);
    for _ in 0..2_000 {
        incoming
            .send(Ok(Frame::Ping(Bytes::from_static(b"x"))))
            .unwrap();
    }
    assert!(matches!(end_of(link).await, End::NotWritten(_)));
}

#[actix::test]
async fn a_connection_that_nobody_keeps_any_more_ends() {
    let world = World::new();
    let (link, incoming) = link(&world, Wire::Jams);
    drop(link);
    incoming.closed().await;
}
