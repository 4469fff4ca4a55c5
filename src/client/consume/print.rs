//! Writes each delivery as a line of JSON.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::client::{Delivery, Handled, Handler};

/// Writes to a stream; what is written counts as delivered. A reader who is slow holds up nothing
/// but the deliveries.
///
/// A line is the delivery as the gateway sends it, except that line breaks between the tokens of
/// a payload become spaces.
pub struct Print {
    out: Arc<Mutex<Box<dyn Write + Send>>>,
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
        let out = Arc::new(Mutex::new(out));
        (Self { out, is_gone }, gone)
    }
}

fn line(delivery: &Delivery) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(delivery)?;
    for byte in &mut line {
        // Within a text they would be escaped.
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    Ok(line)
}

impl Handler for Print {
    async fn handle(&self, delivery: Arc<Delivery>) -> Handled {
        let out = Arc::clone(&self.out);
        let written = tokio::task::spawn_blocking(move || {
            let line = line(&delivery)?;
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            out.write_all(&line)?;
            out.flush()
        });
        match written
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
        {
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
