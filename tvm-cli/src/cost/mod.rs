//! What a run of a model costs: its nodes with their operations, the memory traffic of its kernels, and its peak of memory.
//!
//! TVM counterpart: none; relay's `get_total_mac_number` counts multiplications of some operators.

mod graph;
mod memory;
mod poly;
mod program;

pub(crate) use graph::{Graph, Node, Port, Source};
pub(crate) use memory::Plan;
pub(crate) use poly::{Extents, Poly};
pub(crate) use program::{Actual, cost_of_call};
