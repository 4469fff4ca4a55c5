//! The catalogue of the event log: every record that the gateway can write, as a type.
//!
//! Invariant: a record that states a fact about the store is written after the COMMIT that made
//! it a fact. Secrets and payload text have no field here. No field is called `source`: readers
//! of the log would take it for the writer's name; the transport's kind is `transport`.
//! `docs/EVENTS.md` is checked against [`CATALOGUE`].

use serde::Serialize;

use crate::domain::{
    DropReason, EventId, InstanceName, Provider, Role, Seq, Source, Subject, Timestamp,
};

/// How much a record matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The course of things.
    Info,
    /// Somebody should look.
    Warning,
    /// Something failed.
    Error,
}

/// What the documentation says of one kind of record.
#[derive(Debug, Clone, Copy)]
pub struct CatalogueEntry {
    /// The value of `event`.
    pub name: &'static str,
    /// The value of `level`.
    pub level: Level,
    /// What it states.
    pub doc: &'static str,
    /// Its fields, in the order they are written, each with its meaning.
    pub fields: &'static [(&'static str, &'static str)],
}

/// Whether a field is left out of a record.
pub trait Absent {
    /// True when the field is not written.
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}
impl<T> Absent for Vec<T> {}
impl Absent for String {}
impl Absent for &'static str {}
impl Absent for bool {}
impl Absent for i64 {}
impl Absent for u64 {}
impl Absent for u32 {}
impl Absent for usize {}
impl Absent for Provider {}
impl Absent for Source {}
impl Absent for DropReason {}
impl Absent for Role {}

macro_rules! catalogue {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $name:literal $level:ident {
            $( $(#[doc = $field_doc:literal])+ $field:ident: $type:ty, )*
        }
    )*) => {
        /// One record of the event log.
        #[derive(Debug, Clone, Serialize)]
        #[serde(untagged)]
        pub enum GatewayEvent {
            $(
                $(#[doc = $doc])+
                $variant {
                    $(
                        $(#[doc = $field_doc])+
                        #[serde(skip_serializing_if = "Absent::is_absent")]
                        $field: $type,
                    )*
                },
            )*
        }

        impl GatewayEvent {
            /// The value of `event`.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $( Self::$variant { .. } => $name, )* }
            }

            /// The value of `level`.
            #[must_use]
            pub const fn level(&self) -> Level {
                match self { $( Self::$variant { .. } => Level::$level, )* }
            }
        }

        /// Every kind of record, in the order of the documentation.
        pub const CATALOGUE: &[CatalogueEntry] = &[
            $( CatalogueEntry {
                name: $name,
                level: Level::$level,
                doc: concat!($($doc),+),
                fields: &[ $( (stringify!($field), concat!($($field_doc),+)), )* ],
            }, )*
        ];
    };
}

catalogue! {
    /// The gateway accepts requests.
    Started = "gateway.started" Info {
        /// The version of the program.
        version: &'static str,
        /// Where the API listens.
        listen: String,
        /// Where the provider routes listen, when that is elsewhere.
        ingress: Option<String>,
    }
    /// The gateway has stopped; everything acknowledged is on disk.
    Stopped = "gateway.stopped" Info {
        /// What made it stop.
        reason: &'static str,
    }
    /// An event arrived and is stored.
    Received = "gateway.received" Info {
        /// Whose event.
        provider: Provider,
        /// How it came: webhook, socket or poll.
        transport: Source,
        /// The provider's name for its kind.
        kind: String,
        /// The provider's id of the delivery.
        delivery_id: String,
        /// The event's number.
        gateway_event_id: i64,
        /// Length of the payload in bytes.
        payload_bytes: u64,
        /// Milliseconds from the event at its provider to its arrival, when the payload tells.
        age_ms: Option<u64>,
    }
    /// Something arrived and is not stored.
    Dropped = "gateway.dropped" Info {
        /// Whose delivery.
        provider: Provider,
        /// How it came.
        transport: Source,
        /// Why: one of the closed list of reasons.
        reason: DropReason,
        /// The provider's name for its kind.
        kind: Option<String>,
        /// The provider's id of the delivery, cut to 200 characters.
        delivery_id: Option<String>,
        /// The repository, project or channel that it names.
        about: Option<String>,
        /// The event that it repeats, or that expired.
        gateway_event_id: Option<i64>,
        /// How many further refusals of this reason went unrecorded in the last minute.
        suppressed: Option<u64>,
    }
    /// A request of the consumer API was refused.
    Refused = "gateway.refused" Warning {
        /// The code of the answer.
        reason: &'static str,
        /// The instance that asked.
        instance: String,
        /// The instance that holds what was asked for.
        holder: Option<String>,
        /// The actors that are held by others.
        actors: Option<Vec<String>>,
        /// The outcomes that name no delivery of the queue.
        seqs: Option<Vec<i64>>,
    }
    /// An instance claimed a subject.
    Claimed = "gateway.claimed" Info {
        /// The instance.
        instance: String,
        /// The subject.
        subject: String,
        /// driver or reviewer.
        role: Role,
        /// Deliveries made from held events so far.
        routed: u64,
    }
    /// A claim ended.
    Released = "gateway.released" Info {
        /// The instance.
        instance: String,
        /// The subject.
        subject: String,
        /// driver or reviewer.
        role: Role,
    }
    /// An instance replaced the set of actors that it works for.
    Registered = "gateway.registered" Info {
        /// The instance.
        instance: String,
        /// The actors, `provider:name`.
        actors: Vec<String>,
        /// Actors that it took from instances whose lease had ended, `provider:name@instance`.
        taken: Option<Vec<String>>,
        /// Deliveries made from held events so far.
        routed: u64,
    }
    /// A secondary object now belongs to a work item.
    Bound = "gateway.bound" Info {
        /// The instance that published it.
        instance: String,
        /// The provider of the key.
        provider: Provider,
        /// The key.
        key: String,
        /// The work item.
        work_item: String,
        /// The work item that the key named before, when this one replaced it.
        replaced: Option<String>,
        /// Deliveries made from held events so far.
        routed: u64,
    }
    /// A binding was withdrawn.
    Unbound = "gateway.unbound" Info {
        /// The instance that withdrew it.
        instance: String,
        /// The provider of the key.
        provider: Provider,
        /// The key.
        key: String,
        /// The work item.
        work_item: String,
    }
    /// An instance replaced the set of rooms that it publishes.
    Roomed = "gateway.roomed" Info {
        /// The instance.
        instance: String,
        /// The rooms, `channel=work item`.
        rooms: Vec<String>,
        /// Rooms that another instance had published, `channel@instance`.
        taken: Option<Vec<String>>,
        /// Deliveries made from held events so far.
        routed: u64,
    }
    /// Something failed that nobody asked for by a request.
    Fault = "gateway.error" Error {
        /// What was being done.
        doing: &'static str,
        /// What went wrong, without values of secrets or payloads.
        error: String,
    }
    /// The store takes writes again after it refused them.
    Recovered = "gateway.recovered" Info {
        /// Batches that failed meanwhile.
        failed: u64,
    }
    /// An operator's verb changed something.
    Operator = "gateway.operator" Warning {
        /// redrive, replay or release.
        verb: &'static str,
        /// What it was applied to.
        target: String,
        /// How many deliveries or claims it changed.
        changed: u64,
    }
    /// A stored event has its place in a subject's stream.
    Appended = "subject.appended" Info {
        /// The subject, or `unassigned`.
        subject: String,
        /// The work item.
        work_item: Option<String>,
        /// What named it: direct, binding, commit, room, declared-room or actor.
        resolved_by: Option<String>,
        /// The event's number.
        gateway_event_id: i64,
        /// The provider's id of the delivery.
        delivery_id: String,
    }
    /// An event was put on the queues of its consumers, or held for want of one.
    Routed = "subject.routed" Info {
        /// The subject, or `unassigned`.
        subject: String,
        /// The instances; `unassigned` alone when nobody consumes it yet.
        to: Vec<String>,
        /// The event's number.
        gateway_event_id: i64,
        /// The provider's id of the delivery.
        delivery_id: String,
        /// True when it had been held before.
        late: Option<bool>,
    }
    /// An instance settled a delivery.
    Committed = "subject.committed" Info {
        /// The subject, or `unassigned`.
        subject: String,
        /// The instance.
        instance: String,
        /// The delivery's number.
        seq: i64,
        /// What the instance said.
        outcome: String,
        /// The event's number.
        gateway_event_id: i64,
        /// The provider's id of the delivery.
        delivery_id: String,
    }
    /// A delivery goes out again, as a new attempt.
    Redelivered = "subject.redelivered" Warning {
        /// The subject, or `unassigned`.
        subject: String,
        /// The instance.
        instance: String,
        /// The delivery's number.
        seq: i64,
        /// The attempt that comes next.
        attempt: u32,
        /// How the last one ended: failed, vanished, lost or overdue.
        after: &'static str,
        /// The event's number.
        gateway_event_id: i64,
        /// The provider's id of the delivery.
        delivery_id: String,
    }
    /// A delivery met its last strike and is kept for inspection.
    DeadLettered = "subject.dead-lettered" Error {
        /// The subject, or `unassigned`.
        subject: String,
        /// The instance.
        instance: String,
        /// The delivery's number.
        seq: i64,
        /// How many strikes it has.
        strikes: u32,
        /// How the last one ended.
        after: &'static str,
        /// The event's number.
        gateway_event_id: i64,
        /// The provider's id of the delivery.
        delivery_id: String,
    }
    /// Retention dropped what nobody consumed in time.
    Expired = "subject.expired" Warning {
        /// The subject, or `unassigned`.
        subject: String,
        /// The instance whose delivery it was; absent for a held event.
        instance: Option<String>,
        /// The delivery's number; absent for a held event.
        seq: Option<i64>,
        /// age or space.
        reason: &'static str,
        /// The event's number.
        gateway_event_id: i64,
        /// The provider's id of the delivery.
        delivery_id: String,
    }
    /// An event that nobody handled came again on request and is on the queues once more.
    Revived = "subject.revived" Info {
        /// The subject, or `unassigned`.
        subject: String,
        /// The instances; `unassigned` alone when nobody consumes it yet.
        to: Vec<String>,
        /// The event's number.
        gateway_event_id: i64,
        /// The provider's id of the delivery.
        delivery_id: String,
    }
    /// A claimed subject has a backlog and none of its instances has fetched for an hour.
    Unattended = "subject.unattended" Warning {
        /// The subject.
        subject: String,
        /// The instances that claim it.
        instances: Vec<String>,
        /// Deliveries that wait.
        backlog: u64,
    }
    /// A changed configuration is in force.
    ConfigReloaded = "config.reloaded" Info {
        /// What changed, in words.
        detail: String,
        /// Settings that apply only after a restart.
        restart_required: Option<Vec<String>>,
    }
    /// A changed configuration was refused; the old one stays in force.
    ConfigReloadFailed = "config.reload-failed" Error {
        /// Each problem, by path, without values.
        error: String,
    }
    /// A declared repository now has another name.
    RepositoryMoved = "config.repository-moved" Warning {
        /// The declared name.
        from: String,
        /// The new name.
        to: String,
    }
    /// An ingress has another state.
    IngressChanged = "ingress.changed" Info {
        /// The ingress.
        ingress: String,
        /// up, connecting, backing-off, missing-secret, disabled or failed.
        state: &'static str,
        /// What went wrong last, without values of secrets.
        error: Option<String>,
        /// The variable that is not set.
        variable: Option<String>,
    }
    /// A heartbeat message of `doctor slack` came in over the socket.
    Heartbeat = "channel.heartbeat" Info {
        /// The channel's id.
        channel_id: String,
        /// The message's time stamp.
        ts: String,
        /// The nonce that was posted.
        nonce: String,
    }
    /// Another listener may take messages of this Slack app.
    SplitSuspected = "channel.split_suspected" Warning {
        /// What points to it: connections or missed-messages.
        reason: &'static str,
        /// Connections that Slack counted, or messages that only the catch-up brought.
        count: u64,
    }
    /// Nothing points to another listener any more.
    SplitCleared = "channel.split_cleared" Info {
        /// Clean catch-up rounds in a row.
        rounds: u64,
    }
}

impl GatewayEvent {
    /// The record of a routing decision; `to` empty means that the event is held.
    #[must_use]
    pub fn routed(event: &EventFacts, to: &[InstanceName], late: bool) -> Self {
        Self::Routed {
            subject: event.subject.clone(),
            to: shown(to),
            gateway_event_id: event.id.0,
            delivery_id: event.delivery_id.clone(),
            late: late.then_some(true),
        }
    }
}

/// The instances of a routing record.
pub(crate) fn shown(to: &[InstanceName]) -> Vec<String> {
    if to.is_empty() {
        vec![Subject::UNASSIGNED.to_owned()]
    } else {
        to.iter().map(ToString::to_string).collect()
    }
}

/// What every record about a stored event carries.
#[derive(Debug, Clone)]
pub struct EventFacts {
    /// The event's number.
    pub id: EventId,
    /// The subject, or `unassigned`.
    pub subject: String,
    /// The provider's id of the delivery.
    pub delivery_id: String,
}

impl EventFacts {
    /// The record of a settled delivery.
    #[must_use]
    pub fn committed(&self, instance: &InstanceName, seq: Seq, outcome: String) -> GatewayEvent {
        GatewayEvent::Committed {
            subject: self.subject.clone(),
            instance: instance.to_string(),
            seq: seq.0,
            outcome,
            gateway_event_id: self.id.0,
            delivery_id: self.delivery_id.clone(),
        }
    }
}

/// A record with the moment it is about.
#[derive(Debug, Clone)]
pub struct Stamped {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: GatewayEvent,
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
