//! The keys by which one event is recognised, whichever way it arrives.

/// What a key is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DedupKind {
    /// The provider's id of this delivery: the one key by which a requested redelivery is known.
    Delivery,
    /// The thing that happened: shared by webhook, socket and poll.
    Object,
}

/// One text under which an event counts as seen. Always carries host, site or app; never empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DedupKey {
    /// What the key is made of.
    pub kind: DedupKind,
    /// The key itself.
    pub text: String,
}

impl DedupKey {
    /// A key made of the provider's delivery id.
    #[must_use]
    pub const fn delivery(text: String) -> Self {
        Self {
            kind: DedupKind::Delivery,
            text,
        }
    }

    /// A key made of the thing that happened.
    #[must_use]
    pub const fn object(text: String) -> Self {
        Self {
            kind: DedupKind::Object,
            text,
        }
    }
}
