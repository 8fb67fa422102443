//! Passes over graph functions, one per file.

mod renew_defs;

pub use renew_defs::{renew_body, renew_defs};
