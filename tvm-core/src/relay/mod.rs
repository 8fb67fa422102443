//! The functional surface over the graph IR: its prelude of data types and functions.
//!
//! Conversion to A-normal form needs no pass: graph functions are built in it.
//!
//! TVM counterpart: Relay.

mod prelude;

pub use prelude::{add_prelude, prelude_types};
