//! A gateway in this process: started, asked where it listens, and stopped.

use actix_rt::task::JoinHandle;

use super::api::BaseUrl;
use super::context::reached_at;
use super::failure::Failure;
use crate::app::{Gateway, Parts, StopHandle, Stopped};
use crate::config::{Address, LoadedConfig};

/// A gateway that runs on the system of the caller until it is stopped.
#[derive(Debug)]
pub(super) struct Serving {
    api: BaseUrl,
    ingress: Option<BaseUrl>,
    stop: StopHandle,
    ended: JoinHandle<Stopped>,
}

impl Serving {
    /// Starts it; SIGINT and SIGTERM stop it.
    ///
    /// # Errors
    /// [`Failure::Start`], and then nothing of it is left running.
    pub(super) fn start(loaded: &LoadedConfig, parts: &Parts) -> Result<Self, Failure> {
        let gateway = Gateway::build(loaded, parts)?;
        gateway.stop_on_signals()?;
        let listen = &loaded.config.listen;
        let ingress = listen.ingress.as_ref().zip(gateway.ingress_port());
        let at = |address: &Address, port| {
            reached_at(&Address {
                host: address.host.clone(),
                port,
            })
        };
        Ok(Self {
            api: at(&listen.address, gateway.port())?,
            ingress: ingress
                .map(|(address, port)| at(address, port))
                .transpose()?,
            stop: gateway.stop_handle(),
            ended: actix_rt::spawn(gateway.run_until_stopped()),
        })
    }

    /// Where the API answers.
    pub(super) const fn api(&self) -> &BaseUrl {
        &self.api
    }

    /// Where the webhooks answer, when that is elsewhere.
    pub(super) const fn ingress(&self) -> Option<&BaseUrl> {
        self.ingress.as_ref()
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// [`Failure::Died`] when it could not go on.
    pub(super) async fn until_stopped(self) -> Result<(), Failure> {
        match self.ended.await {
            Ok(Stopped::InOrder | Stopped::Cut) => Ok(()),
            Ok(Stopped::Died(part)) => Err(Failure::Died(part)),
            Err(error) => Err(Failure::Internal(error.to_string())),
        }
    }

    /// Stops it.
    ///
    /// # Errors
    /// As [`Serving::until_stopped`].
    pub(super) async fn stop(self, reason: &'static str) -> Result<(), Failure> {
        self.stop.stop(reason);
        self.until_stopped().await
    }
}
