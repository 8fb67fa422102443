//! Fuzz tests that need the code generators beside the compiler: random schedules and random graphs, before and after, on
//! every executor.

mod case;
mod check;
mod graphs;
mod kernels;
mod native;
mod roundtrip;
mod schedules;
mod steps;
