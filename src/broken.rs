//! Promises that a test build breaks on purpose, so that what checks them is seen to fail.
//!
//! A check that never fails proves nothing. With the cargo feature `broken-promises` one promise
//! can be chosen when the process starts, and the place that keeps it asks [`Break::is_on`].
//! Without the feature the answer is a constant and the compiler leaves the place as it was:
//! the feature must not be part of a build that is shipped.
//!
//! Must not hold behaviour: what a broken promise does stands where the promise is kept.

#[cfg(feature = "broken-promises")]
pub use chosen::{UnknownBreak, choose, choose_from_environment};

/// The variable that names the promise to break, in a build with the feature.
pub const BREAK_VARIABLE: &str = "THE_LOOP_GATEWAY_BREAK";

macro_rules! breaks {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// One way in which a promise is broken.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Break {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Break {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word that chooses it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

breaks! {
    /// A COMMIT does not wait for the disk, so that a power cut loses it.
    SynchronousNormal = "synchronous-normal",
    /// Callers are answered before the COMMIT.
    AckBeforeCommit = "ack-before-commit",
    /// A response that never arrived is held against its deliveries.
    LostIsAStrike = "lost-is-a-strike",
    /// What waits for its retry lets the later deliveries of its subject pass.
    OrderIgnoredOnRedelivery = "order-ignored-on-redelivery",
}

impl Break {
    /// The one with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }

    /// True when this process was told to break the promise.
    #[cfg(feature = "broken-promises")]
    #[must_use]
    pub fn is_on(self) -> bool {
        chosen::is(self)
    }

    /// False: this build keeps its promises.
    #[cfg(not(feature = "broken-promises"))]
    #[must_use]
    pub const fn is_on(self) -> bool {
        false
    }
}

#[cfg(feature = "broken-promises")]
mod chosen {
    use std::sync::{PoisonError, RwLock};

    use super::{BREAK_VARIABLE, Break};

    static CHOSEN: RwLock<Option<Break>> = RwLock::new(None);

    /// The environment names something that is no break.
    #[derive(Debug, thiserror::Error)]
    #[error("{BREAK_VARIABLE}: there is no break {0:?}")]
    pub struct UnknownBreak(String);

    pub(super) fn is(one: Break) -> bool {
        *CHOSEN.read().unwrap_or_else(PoisonError::into_inner) == Some(one)
    }

    /// Chooses what the process breaks from now on; `None` keeps every promise.
    pub fn choose(one: Option<Break>) {
        *CHOSEN.write().unwrap_or_else(PoisonError::into_inner) = one;
    }

    /// Chooses what the environment names, when the process starts.
    ///
    /// # Errors
    /// When it names no break: a test of a misspelt one would pass for the wrong reason.
    pub fn choose_from_environment() -> Result<Option<Break>, UnknownBreak> {
        #[expect(
            clippy::disallowed_methods,
            reason = "no configuration: only a test build reads it"
        )]
        let Ok(name) = std::env::var(BREAK_VARIABLE) else {
            return Ok(None);
        };
        let one = Break::parse(&name).ok_or(UnknownBreak(name))?;
        choose(Some(one));
        Ok(Some(one))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_break_is_found_by_its_name_and_by_no_other() {
        let names: BTreeSet<_> = Break::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), Break::ALL.len());
        for one in Break::ALL {
            assert_eq!(Break::parse(one.name()), Some(*one));
        }
        assert_eq!(Break::parse("nothing"), None);
    }

    #[cfg(not(feature = "broken-promises"))]
    #[test]
    fn a_build_without_the_feature_keeps_every_promise() {
        assert!(Break::ALL.iter().all(|one| !one.is_on()));
    }
}
