//! What every test of the whole gateway uses.

#![allow(
    dead_code,
    reason = "each test file uses its part of it, and the linter sees one at a time"
)]

pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod consumer;
pub(crate) mod gateway;
pub(crate) mod live;
pub(crate) mod openapi;
pub(crate) mod store;

pub(crate) use client::{Call, Reply};
pub(crate) use consumer::Consumer;
pub(crate) use gateway::{TestGateway, comment_on};
