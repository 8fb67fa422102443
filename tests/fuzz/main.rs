//! Fuzz tests that need the code generators in addition to the compiler: random schedules and random graphs, compared
//! before and after transformation on every executor.

mod case;
mod check;
mod default_schedules;
#[path = "../cuda/gpu.rs"]
mod gpu;
mod gpu_schedules;
mod graphs;
mod kernels;
mod native;
mod roundtrip;
mod schedules;
mod short;
mod steps;
