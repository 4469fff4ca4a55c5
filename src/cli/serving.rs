//! A gateway in this process.

use super::api::BaseUrl;
use super::failure::Failure;
use crate::config::{Environment, GatewayConfig};

/// A gateway in this process.
#[derive(Debug)]
pub(super) struct Serving {
    api: BaseUrl,
    ingress: Option<BaseUrl>,
}

impl Serving {
    pub(super) async fn start(
        config: GatewayConfig,
        _environment: Environment,
    ) -> Result<Self, Failure> {
        drop(config);
        Err(Failure::Internal("not yet".to_owned()))
    }
    pub(super) fn api(&self) -> &BaseUrl {
        &self.api
    }
    pub(super) fn ingress(&self) -> Option<&BaseUrl> {
        self.ingress.as_ref()
    }
    pub(super) async fn until_told_to_stop(&self) -> Result<(), Failure> {
        Ok(())
    }
    pub(super) async fn stop(self) -> Result<(), Failure> {
        Ok(())
    }
}
