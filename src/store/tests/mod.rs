//! Tests of the store on real files: no actor, no server, a clock that only moves when told.

mod support;

mod append;
mod late_routing;
mod lease;
mod registrations;
mod retention;
