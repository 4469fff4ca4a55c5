//! What a changed configuration changes at once.

use actix_web::web::Data;

use super::store_settings;
use crate::actors::{QueueError, ReplaceSettings, Store};
use crate::config::LoadedConfig;
use crate::http::{HttpSettings, HttpState};

/// Puts a changed configuration in force, as far as the store and HTTP go. What
/// [`RestartRequired`](crate::config::RestartRequired) names stays as it was.
#[derive(Debug, Clone)]
pub struct LiveSettings {
    pub(super) http: Data<HttpState>,
    pub(super) store: Store,
}

impl LiveSettings {
    /// Applies from the next request and the next batch on.
    ///
    /// # Errors
    /// When the store is gone.
    pub async fn apply(&self, loaded: &LoadedConfig) -> Result<(), QueueError> {
        let settings = HttpSettings::new(&loaded.config, &loaded.environment);
        self.http.replace_settings(settings);
        let bounds = store_settings(&loaded.config);
        Ok(self.store.send(ReplaceSettings(bounds)).await?)
    }
}
