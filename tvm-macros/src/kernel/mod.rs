//! Kernels: `#[prim_func]` and `#[prim_helper]`. Parse the function to a tree of its own (`ast`), check it, and generate the
//! shadow (the body as plain Rust), the builder calls and the typed wrapper.

mod ast;
pub(crate) mod check;
pub(crate) mod fallback;
mod generate;
mod intrinsics;
pub(crate) mod parse;
pub(crate) mod prim_func;
pub(crate) mod prim_helper;
mod shadow;
