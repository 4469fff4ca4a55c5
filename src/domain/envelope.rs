//! What a consumer gets: an event as stored, and one delivery of it.

use super::{EventId, Payload, Provider, Seq, Source, Subject, Timestamp};

/// A stored event, with everything its envelope shows but the attempt.
#[derive(Debug, Clone)]
pub struct StoredEvent {
    /// The event's number.
    pub id: EventId,
    /// The subject's text, `unassigned` while it has none.
    pub subject: String,
    /// Whose event it is.
    pub provider: Provider,
    /// Which kind of transport brought it.
    pub source: Source,
    /// The provider's id of the delivery.
    pub delivery_id: String,
    /// When it arrived.
    pub received_at: Timestamp,
    /// The work item's reference, when it is about one.
    pub work_item: Option<String>,
    /// The provider's name for the kind of event.
    pub kind: String,
    /// The stored headers as the JSON text of an object.
    pub headers: String,
    /// The provider's JSON text.
    pub payload: Payload,
}

impl StoredEvent {
    /// The subject of an event, `unassigned` for none.
    #[must_use]
    pub fn subject_text(subject: Option<&Subject>) -> &str {
        subject.map_or(Subject::UNASSIGNED, Subject::as_str)
    }
}

/// One hand-out of one event to one instance.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The delivery's number: what an outcome names.
    pub seq: Seq,
    /// The attempt that this hand-out is, from 1.
    pub attempt: u32,
    /// The delivery that this one replaces, after a redrive, revival or replay.
    pub redrive_of: Option<Seq>,
    /// The event.
    pub event: StoredEvent,
}
