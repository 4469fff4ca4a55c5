//! What every verb works with: the configuration, the output, the clock, and a system to wait in.

use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::api::BaseUrl;
use super::failure::Failure;
use super::output::Output;
use crate::app::{RunNote, Standing, look};
use crate::config::{Address, Environment, GatewayConfig, LoadedConfig, Search, load, salvage};
use crate::domain::SystemClock;

/// What a verb works with.
#[derive(Debug)]
pub(super) struct Context {
    /// Where to write.
    pub(super) output: Output,
    /// What time it is.
    pub(super) clock: SystemClock,
    environment: Environment,
    config: Option<PathBuf>,
}

impl Context {
    /// The context of this process; `config` is what `--config` names.
    pub(super) fn of_process(config: Option<PathBuf>) -> Self {
        let environment = Environment::process();
        Self {
            output: Output::of_process(&environment),
            clock: SystemClock,
            environment,
            config,
        }
    }

    /// What `--config` names.
    pub(super) fn named_config(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The home directory, when it is known.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.environment.home()
    }

    /// Finds and loads the configuration.
    ///
    /// # Errors
    /// [`Failure::Config`] when there is one that cannot be used.
    pub(super) fn load(&self) -> Result<LoadedConfig, Failure> {
        Ok(load(&self.search()?, &self.environment)?)
    }

    /// What can be read of a configuration that cannot be used.
    ///
    /// # Errors
    /// As [`Context::load`], of the working directory.
    pub(super) fn salvage(&self) -> Result<Option<GatewayConfig>, Failure> {
        Ok(salvage(&self.search()?, &self.environment))
    }

    fn search(&self) -> Result<Search, Failure> {
        Ok(Search {
            explicit: self.config.clone(),
            directory: std::env::current_dir().map_err(Failure::Directory)?,
        })
    }

    /// The configuration, with its warnings told.
    ///
    /// # Errors
    /// As [`Context::load`].
    pub(super) fn load_with_warnings(&self) -> Result<LoadedConfig, Failure> {
        let loaded = self.load()?;
        for warning in &loaded.warnings {
            self.output.note(&warning.to_string());
        }
        Ok(loaded)
    }

    /// Runs something that waits, on an actix system of its own.
    pub(super) fn wait_for<T>(work: impl Future<Output = T>) -> T {
        actix_rt::System::new().block_on(work)
    }
}

/// Where the API of this configuration's gateway is reached: where the one that runs says that it
/// listens, else where the configuration says.
///
/// # Errors
/// [`Failure::PortUnknown`] when none runs and the system is to choose the port.
pub(super) fn api_of(config: &GatewayConfig) -> Result<BaseUrl, Failure> {
    match note_of(config) {
        Some(note) => reached_at(&note.api),
        None => reached_at(&config.listen.address),
    }
}

/// Where the providers' routes of this configuration's gateway are reached, likewise.
///
/// # Errors
/// As [`api_of`].
pub(super) fn webhooks_of(config: &GatewayConfig) -> Result<BaseUrl, Failure> {
    match note_of(config) {
        Some(note) => reached_at(note.ingress.as_ref().unwrap_or(&note.api)),
        None => {
            let listen = &config.listen;
            reached_at(listen.ingress.as_ref().unwrap_or(&listen.address))
        }
    }
}

/// What the running gateway says of itself.
fn note_of(config: &GatewayConfig) -> Option<RunNote> {
    match look(&config.state_root) {
        Ok(Standing::Up { note, .. }) => note.map(|note| *note),
        Ok(Standing::Down) | Err(_) => None,
    }
}

/// Where a listener of the configuration is reached from this machine.
///
/// # Errors
/// [`Failure::PortUnknown`] when the system chose the port.
pub(super) fn reached_at(address: &Address) -> Result<BaseUrl, Failure> {
    if address.port == 0 {
        return Err(Failure::PortUnknown);
    }
    let host = match address.host.parse() {
        // An address that stands for all of the machine's is no address to go to.
        Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "127.0.0.1".to_owned(),
        Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "::1".to_owned(),
        Ok(_) | Err(_) => address.host.clone(),
    };
    Ok(BaseUrl::of_listener(&Address {
        host,
        port: address.port,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_on_loopback() {
        for (host, base) in [
            ("127.0.0.1", "http://127.0.0.1:8790"),
            ("0.0.0.0", "http://127.0.0.1:8790"),
            ("::", "http://[::1]:8790"),
            ("gateway.lan", "http://gateway.lan:8790"),
        ] {
            let address = Address {
                host: host.to_owned(),
                port: 8790,
            };
            assert_eq!(reached_at(&address).unwrap().to_string(), base);
        }
        let chosen = Address {
            host: "127.0.0.1".to_owned(),
            port: 0,
        };
        assert!(matches!(reached_at(&chosen), Err(Failure::PortUnknown)));
    }
}
