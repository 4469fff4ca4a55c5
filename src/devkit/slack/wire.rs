//! The bytes of a connection on their way out, where they can be cut off or withheld.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::Error;
use actix_web::web::Bytes;
use futures_util::Stream;

/// What a connection does to its own wire.
#[derive(Debug, Default)]
pub(super) struct Tap {
    frozen: Cell<bool>,
    last_words: RefCell<Option<Bytes>>,
}

impl Tap {
    /// Nothing goes in or out any more.
    pub(super) fn freeze(&self) {
        self.frozen.set(true);
    }

    /// These bytes go out, then the connection breaks.
    pub(super) fn cut_after(&self, last_words: Bytes) {
        self.last_words.replace(Some(last_words));
    }
}

/// A stream of bytes under the control of a [`Tap`].
pub(super) struct Tapped<S> {
    inner: Pin<Box<S>>,
    tap: Rc<Tap>,
    ending: Ending,
}

/// How far the breaking of the connection is.
enum Ending {
    NotYet,
    LastWordsQueued,
    LastWordsFlushed,
}

impl<S> Tapped<S> {
    pub(super) fn new(inner: S, tap: Rc<Tap>) -> Self {
        Self {
            inner: Box::pin(inner),
            tap,
            ending: Ending::NotYet,
        }
    }
}

impl<S: Stream<Item = Result<Bytes, Error>>> Stream for Tapped<S> {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.tap.frozen.get() {
            return Poll::Pending;
        }
        match self.ending {
            Ending::NotYet => {}
            Ending::LastWordsQueued => {
                // The server writes out what it has when the body has nothing more to give.
                self.ending = Ending::LastWordsFlushed;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Ending::LastWordsFlushed => {
                let cut = actix_web::error::ErrorInternalServerError("cut on purpose");
                return Poll::Ready(Some(Err(cut)));
            }
        }
        let polled = self.inner.as_mut().poll_next(cx);
        let last_words = self.tap.last_words.take();
        match (polled, last_words) {
            (Poll::Pending, Some(last_words)) => {
                self.ending = Ending::LastWordsQueued;
                Poll::Ready(Some(Ok(last_words)))
            }
            (polled, last_words) => {
                self.tap.last_words.replace(last_words);
                polled
            }
        }
    }
}

/// The first half of the frame that a text would be sent in.
pub(super) fn half_a_frame(text: &str) -> Bytes {
    const FINAL_TEXT: u8 = 0x81;
    const LENGTH_IN_8_BYTES: u8 = 127;
    let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let mut frame = vec![FINAL_TEXT, LENGTH_IN_8_BYTES];
    frame.extend(length.to_be_bytes());
    frame.extend(text.bytes().take(text.len().div_ceil(2)));
    frame.into()
}
