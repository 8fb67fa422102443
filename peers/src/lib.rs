//! Our kernels and models beside other libraries: each program runs in a process of its own, and all take turns, so that
//! a change of the machine's speed meets them alike. `tvmc bench` and `cargo xtask bench` are its two front ends.
//!
//! [`Home`] installs the other libraries, [`Pool`] measures a [`Row`], [`Comparison`] shows what was measured.

mod home;
mod measure;
pub mod models;
mod quiet;
mod report;
mod row;
mod stats;
mod verdict;
mod work;
mod worker;

pub use home::{ENGINES, Engine, Home, engine};
pub use measure::{Captured, Effort, Entry, HostCost, Measured, Pool, Times};
pub use report::{Comparison, Limits, contestants, line, summary};
pub use row::{Contestant, Given, Goal, Group, Limit, Measure, ROUNDED, Row, Side};
pub use verdict::Verdict;
pub use work::Work;
