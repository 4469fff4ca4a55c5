//! Plays clients against a server of the consumer API and says which promises it keeps.
//!
//! Each check has an instance and work items of its own, so checks disturb neither one another
//! nor the instances that the server serves. What they leave behind are stored events of issues
//! that do not exist, a few dead deliveries, and names that are forgotten in time.

mod cursors;
mod lab;
mod leases;
mod order;
mod outcomes;
mod player;
mod replacing;
mod requests;
mod taking_back;
mod waiting;

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;

use self::lab::{Checked, Lab, Server, Stop};
use super::GatewayUrl;
use crate::outbound::NoTls;

/// Checks that run at once.
const AT_ONCE: usize = 8;

/// What to check, and with what.
#[derive(Debug, Clone)]
pub struct Options {
    /// The server.
    pub url: GatewayUrl,
    /// Where events can be made; without it, what needs them is skipped.
    pub ingress: Option<Ingress>,
    /// A repository that the server takes events of, `owner/repo`.
    pub repository: String,
    /// How long one check may wait for something to be due.
    pub patience: Duration,
    /// Only the promises that hold this text; all of them when it is empty.
    pub only: String,
}

/// The server's route for GitHub webhooks.
#[derive(Clone)]
pub struct Ingress {
    /// Its whole URL.
    pub url: GatewayUrl,
    /// The secret that its events are signed with.
    pub secret: String,
}

impl fmt::Debug for Ingress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ingress")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The promise was kept.
    Pass,
    /// It was broken, in this way.
    Fail(String),
    /// It could not be told, for this reason.
    Skipped(String),
}

/// A promise, and what became of it.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The part of the contract that it belongs to.
    pub chapter: &'static str,
    /// The promise.
    pub promise: &'static str,
    /// What was found.
    pub verdict: Verdict,
}

type Run = fn(Lab) -> LocalBoxFuture<'static, Checked>;

/// One promise and how it is checked.
struct Check {
    promise: &'static str,
    run: Run,
}

/// A chapter's checks.
struct Chapter {
    name: &'static str,
    checks: &'static [Check],
}

const CHAPTERS: [Chapter; 8] = [
    requests::CHAPTER,
    leases::CHAPTER,
    cursors::CHAPTER,
    outcomes::CHAPTER,
    taking_back::CHAPTER,
    order::CHAPTER,
    waiting::CHAPTER,
    replacing::CHAPTER,
];

/// Makes a check of an async function.
macro_rules! check {
    ($promise:literal, $run:ident) => {
        $crate::client::conformance::Check {
            promise: $promise,
            run: |lab| Box::pin($run(lab)),
        }
    };
}
use check;

/// All promises, in the order of the contract.
#[must_use]
pub fn promises() -> Vec<&'static str> {
    let checks = CHAPTERS.iter().flat_map(|chapter| chapter.checks);
    checks.map(|check| check.promise).collect()
}

/// Makes all checks and returns what they found, in the order of the contract. Needs a running
/// actix system. `progress` hears of each finding as it is made.
///
/// # Errors
/// When no client can be made.
pub async fn run(options: Options, progress: impl Fn(&Finding)) -> Result<Vec<Finding>, NoTls> {
    let only = options.only.clone();
    let server = Server::new(options)?;
    let checks = CHAPTERS.iter().flat_map(|chapter| {
        let checks = chapter.checks.iter();
        checks.map(|check| (chapter.name, check))
    });
    let checks = checks.filter(|(_, check)| check.promise.contains(&only));
    let made = checks.enumerate().map(|(position, (chapter, check))| {
        let (server, progress) = (Rc::clone(&server), &progress);
        async move {
            let finding = make(&server, chapter, check).await;
            progress(&finding);
            (position, finding)
        }
    });
    let mut findings: Vec<(usize, Finding)> = futures_util::stream::iter(made)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    findings.sort_by_key(|(position, _)| *position);
    Ok(findings.into_iter().map(|(_, finding)| finding).collect())
}

async fn make(server: &Rc<Server>, chapter: &'static str, check: &'static Check) -> Finding {
    let lab = server.lab();
    let checked = (check.run)(lab.clone()).await;
    lab.tidy().await;
    Finding {
        chapter,
        promise: check.promise,
        verdict: match checked {
            Ok(()) => Verdict::Pass,
            Err(Stop::Broken(how)) => Verdict::Fail(how),
            Err(Stop::Skipped(why)) => Verdict::Skipped(why),
        },
    }
}
