//! The compiler of tvm: IR, passes, arithmetic, schedules, operators, interpreter, lowering to the virtual machine.
//!
//! This crate links neither LLVM nor CUDA and performs no I/O.
#![forbid(unsafe_code)]

pub mod arith;
pub mod dlight;
pub mod ir;
pub mod pass;
pub mod pipeline;
pub mod printer;
pub mod relax;
pub mod relay;
pub mod script;
pub mod support;
pub mod target;
pub mod te;
pub mod tir;
pub mod topi;
