//! The instance's side.
mod api;
mod backoff;
mod board;
mod builder;
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
