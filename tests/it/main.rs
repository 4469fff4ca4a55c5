//! The gateway as a whole, over HTTP and real files. One executable: linking it many times would
//! take longer than all its tests.

mod abuse;
mod http_edges;
mod support;
mod walk;
