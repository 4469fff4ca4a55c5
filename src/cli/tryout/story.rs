//! The sentences of the story, and how long each step took.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{ACTOR, Comment, Delivery, INSTANCE, NUMBER, OWNER, REPO};
use crate::cli::api::BaseUrl;
use crate::cli::context::Context;
use crate::cli::samples::github::ISSUE_COMMENT;
use crate::cli::shown::plain;
use crate::domain::Clock;

/// Tells steps; each ends where the next begins.
pub(super) struct Story<'a> {
    context: &'a Context,
    began: Instant,
    step_began: Instant,
}

impl<'a> Story<'a> {
    pub(super) fn begin(context: &'a Context, about: &str, scratch: &Path) -> Self {
        let now = context.clock.instant();
        let place = scratch.display();
        context
            .output
            .say(&format!("{about} to the commit; all state is in {place}"));
        Self {
            context,
            began: now,
            step_began: now,
        }
    }

    pub(super) fn started(&mut self, base: &BaseUrl) {
        self.step(&format!(
            "started    a gateway on {base} that takes events of {OWNER}/{REPO}"
        ));
    }

    pub(super) fn registered(&mut self) {
        self.step(&format!(
            "registered instance {INSTANCE}: it works for the GitHub user {ACTOR}"
        ));
    }

    pub(super) fn claimed(&mut self, subject: &str) {
        self.step(&format!(
            "claimed    {subject} for {INSTANCE}, as its driver"
        ));
    }

    pub(super) fn held(&mut self) {
        self.step("fetching   nothing is due, so the gateway holds the request");
    }

    pub(super) fn sent(&mut self, comment: &Comment, status: u16) {
        let Comment {
            text,
            delivery_id,
            body,
            ..
        } = comment;
        let (kind, size) = (ISSUE_COMMENT.name, body.len());
        self.step(&format!(
            "commented  {text:?} on {OWNER}/{REPO}#{NUMBER}: {kind} {delivery_id}, {size} bytes, \
             signed; answered {status} once it was on disk"
        ));
    }

    /// The one step whose time is not since the step before: the fetch was there already.
    pub(super) fn woken(&mut self, delivery: &Delivery, after: Duration) {
        let Delivery {
            seq,
            attempt,
            event,
        } = delivery;
        let (id, kind) = (event.id, plain(&event.kind));
        let (text, work_item) = (&event.payload.comment.body, plain(&event.work_item));
        self.tell(
            after,
            &format!(
                "woken      (since the sending) the held request got delivery {seq}: event {id}, {kind} {text:?} on \
                 {work_item}, attempt {attempt}"
            ),
        );
    }

    pub(super) fn committed(&mut self, seq: u64, answer: &Value) {
        let committed = answer.get("committed").unwrap_or(&Value::Null);
        self.step(&format!(
            "committed  delivery {seq} as delivered: everything up to {committed} is settled"
        ));
    }

    pub(super) fn end(&mut self) {
        let now = self.context.clock.instant();
        let all = now.saturating_duration_since(self.began);
        self.tell(all, "altogether");
    }

    /// A step that took since the one before.
    pub(super) fn step(&mut self, sentence: &str) {
        let now = self.context.clock.instant();
        self.tell(now.saturating_duration_since(self.step_began), sentence);
    }

    /// A step that took otherwise.
    pub(super) fn tell(&mut self, took: Duration, sentence: &str) {
        let took = format!("{:.1} ms", took.as_secs_f64() * 1000.0);
        self.context.output.say(&format!("{took:>10}  {sentence}"));
        self.step_began = self.context.clock.instant();
    }
}
