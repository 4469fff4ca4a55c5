//! A place for one request at a time.

use std::future::{Future, pending};

use futures_util::future::LocalBoxFuture;

/// At most one thing that is going on.
pub(super) struct Slot<T>(Option<LocalBoxFuture<'static, T>>);

impl<T> Slot<T> {
    pub(super) const fn idle() -> Self {
        Self(None)
    }

    pub(super) const fn is_idle(&self) -> bool {
        self.0.is_none()
    }

    /// Begins something, in place of what was going on.
    pub(super) fn begin(&mut self, work: impl Future<Output = T> + 'static) {
        self.0 = Some(Box::pin(work));
    }

    /// Gives up what is going on.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// The end of what is going on; never, while nothing is. May be dropped and awaited again.
    pub(super) async fn end(&mut self) -> T {
        match &mut self.0 {
            Some(work) => {
                let end = work.await;
                self.0 = None;
                end
            }
            None => pending().await,
        }
    }
}
