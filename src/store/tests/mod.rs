//! Tests of the store on real files: no actor, no server, a clock that only moves when told.

mod pages;
mod support;

mod append;
mod backup;
mod event_stories;
mod event_views;
mod forgetting;
mod late_routing;
mod lease;
mod operator;
mod plans;
mod registrations;
mod retention;
mod verify;
mod views;
