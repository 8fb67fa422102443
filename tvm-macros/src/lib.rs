//! The surface language of tvm as procedural macros: parse, check, emit the shadow (the body as plain Rust), builder
//! calls and typed wrappers.
//!
//! A macro never panics, performs no I/O and depends on no other crate of tvm: every path that an expansion names is in
//! `paths`. The shadow comes first in an expansion and holds the user's tokens once, so that completion works in it.

#![forbid(unsafe_code)]

mod ast;
mod check;
mod dims;
mod error;
mod fallback;
mod generate;
mod intrinsics;
mod parse;
mod paths;
mod prim_func;
mod shadow;

use proc_macro::TokenStream;

/// A tensor program: `#[prim_func] fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) { … }`.
///
/// Defines a type of the function's name with `prim_func()` (the program), `module()`, `compile(&target)` and
/// `reference(..)`, and a function of that name, which runs the body as plain Rust.
#[proc_macro_attribute]
pub fn prim_func(attr: TokenStream, item: TokenStream) -> TokenStream {
    prim_func::expand(attr.into(), item.into()).into()
}
