//! What actors say to each other. One struct a message; the reply's type stands with it.

use actix::Message;

use crate::store::{StoreError, Write};

/// A write for the `StoreActor`; answered after the COMMIT that holds it.
///
/// Sent by everything that changes the store; refused as [`StoreError`] says. A batch holds
/// whatever arrived while the last COMMIT waited for the disk.
#[derive(Debug)]
pub struct Submit<W>(pub W);

impl<W: Write> Message for Submit<W> {
    type Result = Result<W::Reply, StoreError>;
}
