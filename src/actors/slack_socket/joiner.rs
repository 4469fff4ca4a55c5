//! Messages that came in several frames, put together.

use actix_http::ws::Item;
use actix_web::web::{Bytes, BytesMut};

/// What a piece makes of the message that it belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Joined {
    /// More is to come, or it was no text.
    Nothing,
    /// The whole text.
    Text(Bytes),
    /// More than a message may have.
    TooLarge,
}

/// The pieces so far.
#[derive(Debug)]
pub(super) struct Joiner {
    bytes_max: usize,
    is_text: bool,
    pieces: BytesMut,
}

impl Joiner {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            is_text: false,
            pieces: BytesMut::new(),
        }
    }

    /// Adds a piece; their order is the codec's to check.
    pub(super) fn push(&mut self, piece: Item) -> Joined {
        let (bytes, is_last) = match piece {
            Item::FirstText(bytes) => {
                self.begin(true);
                (bytes, false)
            }
            Item::FirstBinary(bytes) => {
                self.begin(false);
                (bytes, false)
            }
            Item::Continue(bytes) => (bytes, false),
            Item::Last(bytes) => (bytes, true),
        };
        if self.pieces.len().saturating_add(bytes.len()) > self.bytes_max {
            return Joined::TooLarge;
        }
        self.pieces.extend_from_slice(&bytes);
        if is_last && self.is_text {
            Joined::Text(self.pieces.split().freeze())
        } else {
            Joined::Nothing
        }
    }

    fn begin(&mut self, is_text: bool) {
        self.is_text = is_text;
        self.pieces.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn pieces_become_one_text() {
        let mut joiner = Joiner::new(10);
        assert_eq!(joiner.push(Item::FirstText(bytes("ab"))), Joined::Nothing);
        assert_eq!(joiner.push(Item::Continue(bytes("cd"))), Joined::Nothing);
        assert_eq!(
            joiner.push(Item::Last(bytes("e"))),
            Joined::Text(bytes("abcde"))
        );
        assert_eq!(joiner.push(Item::FirstText(bytes("x"))), Joined::Nothing);
        assert_eq!(
            joiner.push(Item::Last(bytes("y"))),
            Joined::Text(bytes("xy"))
        );
    }

    #[test]
    fn pieces_that_are_no_text_are_nothing() {
        let mut joiner = Joiner::new(10);
        assert_eq!(joiner.push(Item::FirstBinary(bytes("ab"))), Joined::Nothing);
        assert_eq!(joiner.push(Item::Last(bytes("cd"))), Joined::Nothing);
    }

    #[test]
    fn a_message_has_a_largest_size() {
        let mut joiner = Joiner::new(3);
        assert_eq!(joiner.push(Item::FirstText(bytes("ab"))), Joined::Nothing);
        assert_eq!(joiner.push(Item::Last(bytes("cd"))), Joined::TooLarge);
    }
}
