//! How the ingresses stand: what adapters say, summed up to one word an ingress, told once.

use std::collections::BTreeMap;

use super::super::ingress_board::IngressStatus;
use super::super::messages::{IngressChanged, IngressState};
use super::plan::{Fixed, INGRESSES, Plan, ingress_of};
use crate::domain::Timestamp;
use crate::telemetry::GatewayEvent;

/// What is known of adapters, and what was told of ingresses.
#[derive(Debug, Default)]
pub(super) struct Standings {
    adapters: BTreeMap<String, IngressStatus>,
    told: BTreeMap<&'static str, IngressStatus>,
}

/// An ingress that stands otherwise than it was told last.
#[derive(Debug)]
pub(super) struct News {
    pub(super) ingress: &'static str,
    pub(super) status: IngressStatus,
    /// The record of it; absent when only something was told in more detail.
    pub(super) record: Option<GatewayEvent>,
}

impl Standings {
    /// An adapter was started, and has said nothing yet.
    pub(super) fn started(&mut self, adapter: &str, now: Timestamp) {
        let status = IngressStatus::plain(IngressState::Connecting, now);
        self.adapters.insert(adapter.to_owned(), status);
    }

    /// Nothing is left of an adapter.
    pub(super) fn forget(&mut self, adapter: &str) {
        self.adapters.remove(adapter);
    }

    /// An adapter says how it stands. The last error stays until it is up.
    pub(super) fn heard(&mut self, change: IngressChanged) {
        let Some(status) = self.adapters.get_mut(&change.name) else {
            return;
        };
        if status.state != change.state {
            status.since = change.since;
        }
        status.state = change.state;
        status.variable = change.variable;
        status.connections = change.connections;
        if change.error.is_some() || change.state == IngressState::Up {
            status.error = change.error;
        }
    }

    /// What has to be told now.
    pub(super) fn news(&mut self, plan: &Plan, now: Timestamp) -> Vec<News> {
        let mut news = Vec::new();
        for ingress in INGRESSES {
            let before = self.told.get(ingress);
            let Some(mut status) = self.summary(ingress, plan, now) else {
                continue;
            };
            if let Some(before) = before {
                keep_since(&mut status, before);
            }
            if before == Some(&status) {
                continue;
            }
            let record = is_change(before, &status).then(|| record_of(ingress, &status));
            self.told.insert(ingress, status.clone());
            news.push(News {
                ingress,
                status,
                record,
            });
        }
        news
    }

    /// How an ingress stands; none while adapters that are still to come have not been started.
    fn summary(&self, ingress: &str, plan: &Plan, now: Timestamp) -> Option<IngressStatus> {
        let withheld = plan.withheld.iter();
        let withheld: Vec<_> = withheld
            .map(|(name, fixed)| (name, status_of(fixed, now)))
            .collect();
        let all = self.adapters.iter();
        let all = all.chain(withheld.iter().map(|(name, status)| (*name, status)));
        let parts = all.filter_map(|(name, status)| match ingress_of(name) {
            (of, source) if of == ingress => Some((source, status)),
            _ => None,
        });
        let parts: Vec<_> = parts.collect();
        let Some((source, worst)) = parts.iter().max_by_key(|(_, status)| rank(status.state))
        else {
            let fixed = plan.fixed.get(ingress);
            return fixed.map(|fixed| status_of(fixed, now));
        };
        let error = worst.error.as_ref().map(|error| match source {
            Some(source) => format!("{source}: {error}"),
            None => error.clone(),
        });
        let sources = parts.iter().filter_map(|(source, status)| {
            source.map(|source| (source.to_owned(), (*status).clone()))
        });
        Some(IngressStatus {
            state: worst.state,
            since: worst.since,
            error,
            variable: worst.variable.clone(),
            connections: worst.connections,
            sources: sources.collect(),
        })
    }
}

fn status_of(fixed: &Fixed, now: Timestamp) -> IngressStatus {
    IngressStatus {
        state: fixed.state,
        since: now,
        error: fixed.error.clone(),
        variable: fixed.variable.clone(),
        connections: None,
        sources: BTreeMap::new(),
    }
}

/// What stands as it stood does so since then.
fn keep_since(status: &mut IngressStatus, before: &IngressStatus) {
    if status.state == before.state {
        status.since = before.since;
    }
    for (source, status) in &mut status.sources {
        if let Some(before) = before.sources.get(source) {
            keep_since(status, before);
        }
    }
}

/// The higher the worse: the worst of several sources speaks for them.
const fn rank(state: IngressState) -> u8 {
    match state {
        IngressState::Disabled => 0,
        IngressState::Up => 1,
        IngressState::Connecting => 2,
        IngressState::BackingOff => 3,
        IngressState::MissingSecret => 4,
        IngressState::Failed => 5,
    }
}

/// What was never told counts as disabled.
fn is_change(before: Option<&IngressStatus>, now: &IngressStatus) -> bool {
    match before {
        None => now.state != IngressState::Disabled,
        Some(before) => {
            (before.state, &before.error, &before.variable)
                != (now.state, &now.error, &now.variable)
        }
    }
}

fn record_of(ingress: &str, status: &IngressStatus) -> GatewayEvent {
    GatewayEvent::IngressChanged {
        ingress: ingress.to_owned(),
        state: status.state.as_str(),
        error: status.error.clone(),
        variable: status.variable.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn said(name: &str, state: IngressState, error: Option<&str>) -> IngressChanged {
        IngressChanged {
            name: name.to_owned(),
            state,
            since: NOW.plus(5),
            error: error.map(str::to_owned),
            variable: None,
            connections: None,
        }
    }

    fn words(news: &[News]) -> Vec<(&str, IngressState, Option<&str>)> {
        news.iter()
            .map(|news| {
                let status = &news.status;
                (news.ingress, status.state, status.error.as_deref())
            })
            .collect()
    }

    #[test]
    fn the_worst_source_speaks_for_its_ingress_and_is_named() {
        let (mut standings, plan) = (Standings::default(), Plan::default());
        for name in ["github-poll:a/one", "github-poll:a/two"] {
            standings.started(name, NOW);
        }
        let news = standings.news(&plan, NOW);
        assert_eq!(
            words(&news),
            [("github-poll", IngressState::Connecting, None)]
        );
        standings.heard(said("github-poll:a/one", IngressState::Up, None));
        assert!(
            standings
                .news(&plan, NOW)
                .iter()
                .all(|news| news.record.is_none())
        );
        standings.heard(said("github-poll:a/two", IngressState::Failed, Some("404")));
        let news = standings.news(&plan, NOW);
        let expected = ("github-poll", IngressState::Failed, Some("a/two: 404"));
        assert_eq!(words(&news), [expected]);
        assert!(news[0].record.is_some());
        assert_eq!(news[0].status.sources.len(), 2);
        standings.forget("github-poll:a/two");
        let news = standings.news(&plan, NOW);
        assert_eq!(words(&news), [("github-poll", IngressState::Up, None)]);
    }

    #[test]
    fn an_error_stays_until_the_ingress_is_up_and_nothing_is_told_twice() {
        let (mut standings, plan) = (Standings::default(), Plan::default());
        standings.started("slack-socket", NOW);
        standings.heard(said(
            "slack-socket",
            IngressState::BackingOff,
            Some("no hello"),
        ));
        assert_eq!(standings.news(&plan, NOW).len(), 1);
        standings.heard(said("slack-socket", IngressState::Connecting, None));
        let news = standings.news(&plan, NOW);
        let expected = ("slack-socket", IngressState::Connecting, Some("no hello"));
        assert_eq!(words(&news), [expected]);
        standings.heard(said("slack-socket", IngressState::Up, None));
        let news = standings.news(&plan, NOW);
        assert_eq!(words(&news), [("slack-socket", IngressState::Up, None)]);
        assert!(standings.news(&plan, NOW.plus(1)).is_empty());
    }

    #[test]
    fn what_a_gone_adapter_says_is_not_heard() {
        let (mut standings, mut plan) = (Standings::default(), Plan::default());
        standings.started("slack-socket", NOW);
        standings.news(&plan, NOW);
        standings.forget("slack-socket");
        standings.heard(said("slack-socket", IngressState::Up, None));
        let off = Fixed {
            state: IngressState::Disabled,
            error: None,
            variable: None,
        };
        plan.fixed.insert("slack-socket", off);
        let news = standings.news(&plan, NOW);
        assert_eq!(
            words(&news),
            [("slack-socket", IngressState::Disabled, None)]
        );
        assert!(news[0].record.is_some());
    }
}
