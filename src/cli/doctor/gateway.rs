//! The running gateway: whether it answers, and how it says that it is.

use super::Patient;
use super::findings::{Findings, Verdict};
use crate::cli::api::Api;
use crate::cli::failure::Failure;
use crate::cli::file::{self, Rows};
use crate::cli::lifecycle::{Health, health, unattended};
use crate::cli::shown::count;
use crate::domain::Clock;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Subjects that are named.
const NAMED_MAX: usize = 5;

/// Asks the gateway; its health, if it answers.
pub(super) async fn examine(
    patient: &Patient<'_>,
    findings: &mut Findings,
) -> Result<Option<Health>, Failure> {
    let Some(api) = &patient.api else {
        let text = match &patient.process {
            Some(process) => format!("process {} does not listen yet; look again", process.pid),
            None => "it does not run: `the-loop-gateway start` starts it".to_owned(),
        };
        findings.wrong("gateway", text)?;
        of_file(patient, findings)?;
        return Ok(None);
    };
    let told = match health(api).await {
        Ok(told) => told,
        Err(failure) => {
            findings.wrong("gateway", failure.to_string())?;
            return Ok(None);
        }
    };
    of_version(&told, api, findings)?;
    of_readiness(api, findings).await?;
    let problems = told.problems();
    for problem in problems.into_iter().filter(|it| !it.contains(" is ")) {
        findings.wrong("gateway", format!("{problem}: is its disk full?"))?;
    }
    if !told.restart_required.is_empty() {
        let settings = told.restart_required.join(", ");
        let text = format!("restart required: {settings} changed; `restart` takes it up");
        findings.wrong("gateway", text)?;
    }
    of_ingresses(&told, findings)?;
    of_socket(&told, findings)?;
    let subjects = api.get_all("/api/v1/gateway/subjects", "subjects").await;
    if let Ok(subjects) = subjects {
        of_subjects(&unattended(subjects), findings)?;
    }
    Ok(Some(told))
}

fn of_version(health: &Health, api: &Api, findings: &mut Findings) -> Result<(), Failure> {
    let (base, theirs) = (api.base(), &health.version);
    if theirs == VERSION {
        findings.ok("gateway", format!("answers at {base}, version {theirs}"))
    } else {
        let text = format!(
            "answers at {base}, version {theirs}; this program is {VERSION}: `restart` changes that"
        );
        findings.unsure("gateway", text)
    }
}

async fn of_readiness(api: &Api, findings: &mut Findings) -> Result<(), Failure> {
    match api.get("/api/v1/gateway/ready").await {
        Ok(_) => findings.ok("gateway", "takes traffic".to_owned()),
        Err(error) => findings.wrong("gateway", format!("takes no traffic: {error}")),
    }
}

fn of_ingresses(health: &Health, findings: &mut Findings) -> Result<(), Failure> {
    for (name, state) in &health.ingresses {
        let mark = match state.as_str() {
            "disabled" => continue,
            "up" => Verdict::Ok,
            "missing-secret" | "failed" => Verdict::Wrong,
            // On its way, or trying again by itself.
            _ => Verdict::Unsure,
        };
        let error = health.error_of(name);
        let error = error.map(|error| format!(": {error}")).unwrap_or_default();
        findings.add("ingress", mark, format!("{name} is {state}{error}"))?;
    }
    Ok(())
}

/// Slack spreads events over all connections of an app: another listener takes some of them. The
/// count is a hint, for it has ghosts in it.
fn of_socket(health: &Health, findings: &mut Findings) -> Result<(), Failure> {
    let Some(connections) = health.socket_connections() else {
        return Ok(());
    };
    let counted = count(connections, "connection", "connections");
    if connections > 1 {
        let text = format!(
            "Slack counted {counted} of this app when ours came up: another listener takes some of \
             its events, or it counts one that is gone, as it does for hours; docs/slack.md says \
             how to tell"
        );
        findings.unsure("socket", text)
    } else {
        findings.ok(
            "socket",
            format!("Slack counted {counted} of this app, ours"),
        )
    }
}

/// What the file of a gateway that is down tells.
fn of_file(patient: &Patient<'_>, findings: &mut Findings) -> Result<(), Failure> {
    let (path, now) = (&patient.config().store_path, patient.context.clock.now());
    match file::rows(Rows::Subjects, path, now) {
        Ok(rows) => of_subjects(&unattended(rows), findings),
        // What is wrong with the file was told before.
        Err(_) => Ok(()),
    }
}

fn of_subjects(unattended: &[String], findings: &mut Findings) -> Result<(), Failure> {
    if unattended.is_empty() {
        return findings.ok("subjects", "none is unattended".to_owned());
    }
    let named = unattended.iter().take(NAMED_MAX).cloned();
    let named = named.collect::<Vec<_>>().join(", ");
    let more = if unattended.len() > NAMED_MAX {
        ", …"
    } else {
        ""
    };
    let number = u64::try_from(unattended.len()).unwrap_or(u64::MAX);
    let counted = count(number, "subject waits", "subjects wait");
    let text = format!(
        "{counted} for instances that have not fetched for an hour ({named}{more}): start one of \
         them, or let another one claim"
    );
    findings.wrong("subjects", text)
}
