//! What the gateway shows of itself, for those who show it on.

use std::time::Duration;

use serde_json::Value;

use super::GatewayUrl;
use crate::outbound::{self, Limits};

const PATIENCE: Duration = Duration::from_secs(2);
const VIEW_BYTES_MAX: usize = 8 * 1024 * 1024;
const PAGES_MAX: usize = 100;

/// Reads views, on the thread that it was made on. Nothing is insisted on: what cannot be had
/// within two seconds is `None`.
pub(super) struct Views {
    client: Option<awc::Client>,
    url: GatewayUrl,
}

impl Views {
    pub(super) fn new(url: GatewayUrl) -> Self {
        let limits = Limits {
            connect: PATIENCE,
            answer: PATIENCE,
            ..Limits::default()
        };
        let client = outbound::client(limits);
        if let Err(error) = &client {
            tracing::warn!(%error, "the gateway's views cannot be read");
        }
        Self {
            client: client.ok(),
            url,
        }
    }

    /// The gateway's health.
    pub(super) async fn health(&self) -> Option<Value> {
        within(self.get("health")).await
    }

    /// The gateway's row of a queue.
    pub(super) async fn queue(&self, instance: &str) -> Option<Value> {
        within(self.find_queue(instance)).await
    }

    async fn find_queue(&self, instance: &str) -> Option<Value> {
        let mut route = "queues?limit=1000".to_owned();
        for _ in 0..PAGES_MAX {
            let mut page = self.get(&route).await?;
            let rows = page.get_mut("queues")?.as_array_mut()?;
            let is_ours =
                |row: &&mut Value| row.get("instance").is_some_and(|name| name == instance);
            if let Some(row) = rows.iter_mut().find(is_ours) {
                return Some(row.take());
            }
            let next = page.get("next")?.as_str()?;
            let mut query = form_urlencoded::Serializer::new(String::new());
            query
                .append_pair("limit", "1000")
                .append_pair("after", next);
            route = format!("queues?{}", query.finish());
        }
        None
    }

    async fn get(&self, route: &str) -> Option<Value> {
        let url = self.url.at(&format!("/api/v1/gateway/{route}"));
        let mut response = self.client.as_ref()?.get(url).send().await.ok()?;
        let body = response.body().limit(VIEW_BYTES_MAX).await.ok()?;
        serde_json::from_slice(&body).ok()
    }
}

async fn within<T>(work: impl Future<Output = Option<T>>) -> Option<T> {
    tokio::time::timeout(PATIENCE, work).await.ok().flatten()
}
