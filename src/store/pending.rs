//! A write and who waits for it, from the mailbox to the answer after the COMMIT.

use super::error::StoreError;
use super::writer::{Tx, Write};
use crate::domain::CallerToken;

/// A write with its caller, of whatever kind.
pub trait PendingWrite: Send {
    /// Applies it within the open savepoint and keeps the result for [`PendingWrite::settle`].
    ///
    /// # Errors
    /// As [`Write::apply`]; the error itself is kept for the caller, this tells its kind.
    fn apply(&mut self, tx: &mut Tx<'_>) -> Applied;

    /// True when it can be applied again after a roll-back.
    fn is_repeatable(&self) -> bool;

    /// Tells the caller: its own result when `committed`, else why the batch failed.
    fn settle(self: Box<Self>, committed: Result<(), &str>);

    /// As [`Write::payload_bytes`].
    fn payload_bytes(&self) -> usize;
}

/// How the application of a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Made: release its savepoint.
    Made,
    /// Not begun, as its caller is gone: there is nothing to roll back.
    Skipped,
    /// Not made: roll its savepoint back.
    Undone,
}

/// Pairs a write with the one who is told its result.
pub fn pending<W, F>(write: W, answer: F) -> Box<dyn PendingWrite>
where
    W: Write,
    F: FnOnce(Result<W::Reply, StoreError>) + Send + 'static,
{
    let (bytes, caller) = (write.payload_bytes(), write.caller());
    Box::new(Pending {
        write: Some(write),
        result: None,
        answer,
        bytes,
        caller,
    })
}

struct Pending<W: Write, F> {
    write: Option<W>,
    result: Option<Result<W::Reply, StoreError>>,
    answer: F,
    bytes: usize,
    caller: CallerToken,
}

impl<W, F> PendingWrite for Pending<W, F>
where
    W: Write,
    F: FnOnce(Result<W::Reply, StoreError>) + Send + 'static,
{
    fn apply(&mut self, tx: &mut Tx<'_>) -> Applied {
        if self.caller.is_gone() {
            self.result = Some(Err(StoreError::CallerGone));
            return Applied::Skipped;
        }
        let repeatably = self
            .write
            .as_ref()
            .and_then(|write| write.apply_repeatably(tx));
        let result = match repeatably {
            Some(result) => result,
            None => match self.write.take() {
                Some(write) => write.apply(tx),
                None => Err(StoreError::Aborted("applied twice".to_owned())),
            },
        };
        let applied = if result.is_ok() {
            Applied::Made
        } else {
            Applied::Undone
        };
        self.result = Some(result);
        applied
    }

    fn is_repeatable(&self) -> bool {
        self.write.as_ref().is_some_and(Write::is_repeatable)
    }

    fn settle(self: Box<Self>, committed: Result<(), &str>) {
        let answer = match (committed, self.result) {
            // A refusal stands whatever becomes of the batch: it changed nothing.
            (_, Some(Err(error))) => Err(error),
            (Ok(()), Some(Ok(reply))) => Ok(reply),
            (Err(why), _) => Err(StoreError::Aborted(why.to_owned())),
            (Ok(()), None) => Err(StoreError::Aborted("not applied".to_owned())),
        };
        (self.answer)(answer);
    }

    fn payload_bytes(&self) -> usize {
        self.bytes
    }
}
