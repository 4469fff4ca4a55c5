//! `run`: the gateway in the foreground, until it is told to stop.

use clap::{Args, ValueEnum};

use super::context::Context;
use super::failure::Failure;
use super::lifecycle;
use super::serving::Serving;
use crate::app::{Notify, Parts};
use crate::config::{ConfigWarning, EnvName, Environment, LoadedConfig, Secret};
use crate::telemetry::{ConsoleFormat, start_console};

const EXAMPLES: &str = "\
Examples:
  the-loop-gateway run
  the-loop-gateway --config /etc/gateway.yaml run --log-format json
  the-loop-gateway run --port 0                  on a free port, which it prints
  RUST_LOG=the_loop_gateway=debug the-loop-gateway run

Without a config file the built-in defaults hold: it listens on loopback, and no transport is
enabled. SIGTERM or Ctrl-C ends it, within ten seconds: held requests are answered, what is being
stored is stored. A changed config or env file is taken up within five seconds, at once on SIGHUP.
systemd is told when it is ready, when it stops, and that it lives (NOTIFY_SOCKET, WATCHDOG_USEC).
`start` runs it in the background.";

const DEFAULT_FILTER: &str = "info,actix_server=warn,actix_http=warn";

/// Start the gateway in the foreground
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Run {
    /// Listen on this port of the API's host, whatever the config says; 0 takes a free one
    #[arg(long)]
    port: Option<u16>,
    /// How the console log on standard error is written
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
    /// Leave the session of whoever started it: what `start` asks for
    #[arg(long, hide = true)]
    detached: bool,
}

/// How the console log is written.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(super) enum LogFormat {
    #[default]
    Text,
    Json,
}

/// What to do when there is no config file.
const NEXT_STEPS: &str = "next: `the-loop-gateway init` writes a config to start from, \
$THE_LOOP_GATEWAY_CONFIG names one that lies elsewhere, and `the-loop-gateway try` shows what the \
gateway does";

impl Run {
    pub(super) fn perform(&self, context: &Context) -> Result<(), Failure> {
        if self.detached {
            lifecycle::leave_session()?;
        }
        let loaded = context.load()?;
        self.start_console(&loaded.environment, context)?;
        for warning in &loaded.warnings {
            context.output.note(&warning.to_string());
            if matches!(warning, ConfigWarning::NoFile { .. }) {
                context.output.note(NEXT_STEPS);
            }
        }
        let parts = Parts {
            port: self.port,
            notify: Notify::of(&loaded.environment),
            ..Parts::default()
        };
        Context::wait_for(self.serve(&loaded, &parts, context))
    }

    fn start_console(&self, environment: &Environment, context: &Context) -> Result<(), Failure> {
        let format = match self.log_format {
            LogFormat::Text => ConsoleFormat::Pretty {
                colors: context.output.notes_are_styled(),
            },
            LogFormat::Json => ConsoleFormat::Json,
        };
        let named = EnvName::parse("RUST_LOG").map(|name| environment.secret(&name));
        let filter = named
            .as_ref()
            .ok()
            .and_then(Secret::expose)
            .unwrap_or(DEFAULT_FILTER);
        start_console(format, filter).map_err(|error| Failure::Internal(error.to_string()))
    }

    async fn serve(
        &self,
        loaded: &LoadedConfig,
        parts: &Parts,
        context: &Context,
    ) -> Result<(), Failure> {
        let serving = Serving::start(loaded, parts)?;
        let root = &loaded.config.state_root;
        let place = root.display().to_string();
        context.output.say(&greeting(&serving, &place));
        if self.detached {
            lifecycle::keep_log_bounded(root);
        }
        serving.until_stopped().await?;
        context.output.say("stopped");
        Ok(())
    }
}

fn greeting(serving: &Serving, place: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut lines = vec![format!("the-loop-gateway {version}, state in {place}")];
    match serving.ingress() {
        Some(ingress) => {
            lines.push(format!(
                "listening on {} for instances and people",
                serving.api()
            ));
            lines.push(format!("listening on {ingress} for webhooks"));
        }
        None => lines.push(format!("listening on {}", serving.api())),
    }
    lines.join("\n")
}
