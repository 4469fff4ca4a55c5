//! Runs a command for each delivery, with the envelope on its standard input.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::verdict::of_exit;
use crate::client::{Delivery, Handled, Handler};
use crate::domain::InstanceName;

/// A command line for `sh -c`.
///
/// It gets the envelope as one JSON object on its standard input, and in its environment
/// `THE_LOOP_GATEWAY_INSTANCE`, `_SEQ`, `_ATTEMPT`, `_EVENT_ID`, `_SUBJECT`, `_WORK_ITEM`,
/// `_PROVIDER`, `_KIND` and `_DELIVERY_ID`. Exit 0: delivered. 65: dropped. 126 and 127: the
/// command cannot be run, and the delivery waits. Any other exit, and a signal: failed.
#[derive(Debug)]
pub struct Exec {
    command: String,
    instance: InstanceName,
}

impl Exec {
    /// Runs this for deliveries of this instance.
    #[must_use]
    pub const fn new(command: String, instance: InstanceName) -> Self {
        Self { command, instance }
    }

    fn spawn(&self, delivery: &Delivery) -> io::Result<Child> {
        let event = &delivery.event;
        let ids = [
            ("INSTANCE", self.instance.to_string()),
            ("SEQ", delivery.seq.to_string()),
            ("ATTEMPT", delivery.attempt.to_string()),
            ("EVENT_ID", event.id.to_string()),
            ("SUBJECT", event.subject.clone()),
            ("WORK_ITEM", event.work_item.clone().unwrap_or_default()),
            ("PROVIDER", event.provider.to_string()),
            ("KIND", event.kind.clone()),
            ("DELIVERY_ID", event.delivery_id.clone()),
        ];
        let ids = ids.map(|(name, id)| (format!("THE_LOOP_GATEWAY_{name}"), id.replace('\0', "")));
        Command::new("/bin/sh")
            .arg("-c")
            .arg(&self.command)
            .envs(ids)
            .stdin(Stdio::piped())
            // A Ctrl-C at the terminal is for us: we release what is not finished.
            .process_group(0)
            .spawn()
    }
}

impl Handler for Exec {
    async fn handle(&self, delivery: Arc<Delivery>) -> Handled {
        let text = match serde_json::to_vec(&delivery.event) {
            Ok(text) => text,
            Err(error) => return Handled::failed(&error.to_string()),
        };
        let mut child = match self.spawn(&delivery) {
            Ok(child) => child,
            Err(error) => {
                return Handled::TargetDown {
                    target: self.command.clone(),
                    advice: format!("no shell could be started: {error}"),
                };
            }
        };
        let mut group = Group::of(&child);
        let stdin = child.stdin.take();
        let exit = tokio::select! {
            biased;
            exit = child.wait() => exit,
            never = feed(stdin, &text) => match never {},
        };
        group.has_ended();
        match exit {
            Ok(exit) => of_exit(exit.code(), &self.command),
            Err(error) => Handled::failed(&format!("its exit is not known: {error}")),
        }
    }
}

/// Writes the envelope; a command need not read it.
async fn feed(stdin: Option<ChildStdin>, text: &[u8]) -> Infallible {
    if let Some(mut stdin) = stdin {
        if let Err(error) = stdin.write_all(text).await {
            tracing::debug!(%error, "the command did not read all of the envelope");
        }
        drop(stdin);
    }
    pending().await
}

/// The processes of a command; ended with it when it is given up.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    const fn has_ended(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, Signal::TERM)
        {
            tracing::debug!(%error, "the command had ended already");
        }
    }
}
