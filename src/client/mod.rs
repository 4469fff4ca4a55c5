//! The instance's side of the gateway: a client that registers, fetches, lets a handler work, and
//! reports.
//!
//! A [`Client`] runs on a thread of its own, with a peer id that lasts (a locked file), a run id of
//! its process, and the cursor in memory. Before it fetches, at the start and after every outage,
//! it publishes for whom it works and what it works on. While the gateway does not answer it tries
//! again with back-off; what it was told to publish and what is to be reported waits. It stops for
//! good when a newer process with the same peer file takes over.
//!
//! Delivery is at least once: a [`Handler`] sees a delivery again when its outcome did not reach
//! the gateway, and `attempt` tells an attempt after a failure from the first.
//!
//! ```
//! use std::sync::Arc;
//!
//! use the_loop_gateway::client::{Client, Delivery, GatewayUrl, Handled};
//! use the_loop_gateway::devkit::fake_gateway::FakeGateway;
//! use the_loop_gateway::domain::{InstanceName, Role, WorkItemRef};
//!
//! async fn work_on(delivery: Arc<Delivery>) -> Handled {
//!     println!("{} {}", delivery.event.kind, delivery.event.payload);
//!     Handled::delivered()
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let gateway = FakeGateway::start()?;
//! # let directory = tempfile::tempdir()?;
//! let url = GatewayUrl::parse(&gateway.url())?;
//! let work_item = WorkItemRef::parse("github:octo/repo#15")?;
//! let client = Client::builder(url, &directory.path().join("gateway-peer.json"))
//!     .instance(InstanceName::parse("laptop")?)
//!     .claim(work_item.subject(), Role::Driver)
//!     .on_event(|event| println!("{event}"))
//!     .start(work_on)?;
//!
//! let seq = gateway.push("loop-github-octo-repo-15", r#"{"action": "created"}"#);
//! gateway.wait_for(|seen| seen.outcome(seq) == Some("delivered"))?;
//!
//! actix_rt::System::new().block_on(async {
//!     client.release(work_item.subject(), Role::Driver).await?;
//!     println!("{}", client.stop().await);
//!     Ok::<(), Box<dyn std::error::Error>>(())
//! })?;
//! assert_eq!(client.status().state.as_str(), "off");
//! # Ok(())
//! # }
//! ```
//!
//! Must not know the gateway's insides: everything goes through its HTTP API.

mod answers;
mod api;
mod backoff;
mod board;
mod builder;
pub mod conformance;
pub mod consume;
mod delivery;
mod desk;
mod handle;
mod handler;
mod link;
mod peer;
mod registrations;
mod session;
mod slot;
mod status;
mod stop;
mod url;
mod views;
mod wire;

pub use backoff::BackOff;
pub use builder::{ClientBuilder, StartError};
pub use delivery::{Delivery, Envelope};
pub use handle::{Client, Published};
pub use handler::{Handled, Handler, blocking};
pub use peer::PeerError;
pub use registrations::CallError;
pub use status::{End, Event, Holder, Refusal, State, Status};
pub use url::GatewayUrl;
pub use wire::{ActorHolder, Routed};

#[cfg(test)]
mod tests;
