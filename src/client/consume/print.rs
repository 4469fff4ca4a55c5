//! Writes each delivery as a line of JSON.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use tokio::sync::watch;

use crate::client::{Delivery, Handled, Handler};

/// Writes to a stream; what is written counts as delivered.
///
/// A line is the delivery as the gateway sends it, except that line breaks between the tokens of
/// a payload become spaces.
pub struct Print {
    out: RefCell<Box<dyn Write + Send>>,
    is_gone: watch::Sender<bool>,
}

impl fmt::Debug for Print {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Print").finish_non_exhaustive()
    }
}

impl Print {
    /// Writes there. The receiver turns true when nobody reads any more.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>) -> (Self, watch::Receiver<bool>) {
        let (is_gone, gone) = watch::channel(false);
        let out = RefCell::new(out);
        (Self { out, is_gone }, gone)
    }

    fn write(&self, delivery: &Delivery) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(delivery)?;
        for byte in &mut line {
            // Within a text they would be escaped.
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        let mut out = self.out.borrow_mut();
        out.write_all(&line)?;
        out.flush()
    }
}

impl Handler for Print {
    async fn handle(&self, delivery: Arc<Delivery>) -> Handled {
        match self.write(&delivery) {
            Ok(()) => Handled::delivered(),
            Err(error) => {
                self.is_gone.send_replace(true);
                Handled::TargetDown {
                    target: "standard output".to_owned(),
                    advice: format!("nobody reads it any more: {error}"),
                }
            }
        }
    }
}
