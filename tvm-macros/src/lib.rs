//! The surface language of tvm as procedural macros: parse, check, emit the shadow (the body as plain Rust), builder
//! calls and typed wrappers.
//!
//! A macro never panics, performs no I/O and depends on no other crate of tvm: every path that an expansion names is in
//! `paths`. The shadow comes first in an expansion and holds the user's tokens once, so that completion works in it.
//!
//! The documentation of the macros is in `docs/`; its examples are tests of the crate `tvm`, which has what they use.

#![forbid(unsafe_code)]

mod bounds;
mod dims;
mod error;
mod graph;
mod kernel;
mod operators;
mod options;
mod paths;
mod rounding;
mod schedule;
#[cfg(test)]
mod tests;

use proc_macro::{TokenStream, TokenTree};

/// Stack of one expansion, in bytes: enough for 2,000 nested levels, or a sum of 20,000 terms.
const STACK: usize = 1 << 28;

/// Maximum nesting depth of token groups.
const MAX_DEPTH: usize = 2_000;

/// Runs an expansion of `inputs` with enough stack.
fn expansion(inputs: &[&TokenStream], expand: impl FnOnce() -> proc_macro2::TokenStream) -> TokenStream {
    for input in inputs {
        if let Some(token) = too_deep(input) {
            let message = format!(
                "this is nested more than {MAX_DEPTH} levels deep\nhelp: name parts of it with `let`"
            );
            return syn::Error::new(token.span().into(), message).into_compile_error().into();
        }
    }
    stacker::grow(STACK, || expand().into())
}

/// A group that is nested more than [`MAX_DEPTH`] levels deep, if there is one.
fn too_deep(input: &TokenStream) -> Option<TokenTree> {
    let mut open = vec![input.clone().into_iter()];
    while let Some(tokens) = open.last_mut() {
        match tokens.next() {
            Some(TokenTree::Group(group)) => {
                open.push(group.stream().into_iter());
                if open.len() > MAX_DEPTH {
                    return Some(TokenTree::Group(group));
                }
            }
            Some(TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_)) => {}
            None => drop(open.pop()),
        }
    }
    None
}

/// A tensor program: `#[prim_func] fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) { .. }`.
///
#[doc = include_str!("../docs/prim_func.md")]
#[proc_macro_attribute]
pub fn prim_func(attr: TokenStream, item: TokenStream) -> TokenStream {
    expansion(&[&attr, &item], || kernel::prim_func::expand(attr.clone().into(), item.clone().into()))
}

/// An inline helper of kernels: `#[prim_helper] fn relu(x: f32) -> f32 { if x > 0.0 { x } else { 0.0 } }`.
///
#[doc = include_str!("../docs/prim_helper.md")]
#[proc_macro_attribute]
pub fn prim_helper(attr: TokenStream, item: TokenStream) -> TokenStream {
    expansion(&[&attr, &item], || kernel::prim_helper::expand(&attr.clone().into(), item.clone().into()))
}

/// A schedule of a kernel: `#[schedule(scale)] fn tiled(s: &mut Schedule) -> Result<(), ScheduleError> { .. }`.
///
#[doc = include_str!("../docs/schedule.md")]
#[proc_macro_attribute]
pub fn schedule(attr: TokenStream, item: TokenStream) -> TokenStream {
    expansion(&[&attr, &item], || schedule::expand(attr.clone().into(), item.clone().into()))
}

/// A graph function: `#[relax::func] fn mlp(x: Tensor<f32, n, 784>, ..) -> Tensor<f32, n, 10> { .. }`.
///
#[doc = include_str!("../docs/relax_func.md")]
#[proc_macro_attribute]
pub fn relax_func(attr: TokenStream, item: TokenStream) -> TokenStream {
    expansion(&[&attr, &item], || {
        graph::attribute(graph::Surface::Relax, attr.clone().into(), item.clone().into())
    })
}

/// A graph function in the functional surface: recursion, closures, algebraic data types.
///
#[doc = include_str!("../docs/relay_func.md")]
#[proc_macro_attribute]
pub fn relay_func(attr: TokenStream, item: TokenStream) -> TokenStream {
    expansion(&[&attr, &item], || {
        graph::attribute(graph::Surface::Relay, attr.clone().into(), item.clone().into())
    })
}

/// A graph function written in place: `relax!(|x: Tensor<f32, n>| -> Tensor<f32, n> { relu(x) })`.
///
#[doc = include_str!("../docs/relax.md")]
#[proc_macro]
pub fn relax(input: TokenStream) -> TokenStream {
    expansion(&[&input], || graph::inline(graph::Surface::Relax, input.clone().into()))
}

/// A graph function in the functional surface, written in place.
///
#[doc = include_str!("../docs/relay.md")]
#[proc_macro]
pub fn relay(input: TokenStream) -> TokenStream {
    expansion(&[&input], || graph::inline(graph::Surface::Relay, input.clone().into()))
}

/// An algebraic data type: `#[relay::adt] enum List { Nil, Cons(Tensor<f32>, Box<List>) }`.
///
#[doc = include_str!("../docs/relay_adt.md")]
#[proc_macro_attribute]
pub fn relay_adt(_attr: TokenStream, item: TokenStream) -> TokenStream {
    expansion(&[&item], || graph::adt(item.clone().into()))
}

/// One module of all kernels, graph functions and types in a Rust module.
///
#[doc = include_str!("../docs/ir_module.md")]
#[proc_macro_attribute]
pub fn ir_module(attr: TokenStream, item: TokenStream) -> TokenStream {
    expansion(&[&attr, &item], || graph::ir_module(attr.clone().into(), item.clone().into()))
}
