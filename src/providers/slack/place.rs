//! Where in Slack something happened, and which work items that can mean.

use std::borrow::Cow;

use crate::domain::{Provider, Reference};
use crate::providers::Declared;

/// The whereabouts of an event, an interaction or a command.
#[derive(Debug, Default)]
pub(super) struct Place<'a> {
    /// The workspaces by which bindings may name it, best first.
    pub(super) teams: Vec<Cow<'a, str>>,
    pub(super) channel: Option<Cow<'a, str>>,
    /// The `ts` of the thread's first message, or of the message itself.
    pub(super) thread: Option<Cow<'a, str>>,
}

impl Place<'_> {
    /// The team as it stands in dedup keys.
    pub(super) fn team(&self) -> &str {
        self.teams.first().map_or("-", AsRef::as_ref)
    }

    /// The ways to name a work item by it, most specific first. A `ts` is unique only within a
    /// channel, so without a channel there are none.
    pub(super) fn references(&self, declared: &Declared) -> Vec<Reference> {
        let Some(channel) = self.channel.as_deref() else {
            return Vec::new();
        };
        let thread = self.thread.as_deref();
        let with_team = thread.into_iter().flat_map(|ts| {
            let key = move |team: &Cow<'_, str>| format!("{team}/{channel}/{ts}");
            self.teams.iter().map(key)
        });
        let without = thread
            .into_iter()
            .flat_map(|ts| [format!("{channel}/{ts}"), ts.to_owned()]);
        let bound = with_team.chain(without).map(|key| Reference::Bound {
            provider: Provider::Slack,
            key,
        });
        let room = Reference::Room {
            channel: channel.to_owned(),
        };
        let declared_room = declared
            .rooms
            .get(channel)
            .cloned()
            .map(Reference::DeclaredRoom);
        bound.chain([room]).chain(declared_room).collect()
    }
}
