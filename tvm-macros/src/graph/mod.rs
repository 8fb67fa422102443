//! Graph functions: `relax!`, `relay!`, `#[relax::func]`, `#[relay::func]`, `#[relay::adt]`, `#[ir_module]`.
//!
//! The expansion is the user's body as Rust over `script::graph::GraphValue`; running it builds the function. So the body is
//! both shadow and builder, and the user's tokens occur in the expansion once. What Rust cannot overload is rewritten:
//! branches and matches, calls (their arguments become one `Args`), comparisons, closures, uses of local values (cloned).

mod adt;
mod body;
mod check;
mod check_call;
mod constant;
mod function;
mod local;
mod module;
mod pattern;
mod scalar;
mod special;
#[cfg(test)]
mod tests;
mod ty;

pub(crate) use adt::adt;
pub(crate) use function::{attribute, inline};
pub(crate) use module::ir_module;

/// The surface in which a function is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    /// `relax`: dataflow graphs over tensors.
    Relax,
    /// `relay`: functional, with algebraic data types and recursion.
    Relay,
}

impl Surface {
    fn name(self) -> &'static str {
        match self {
            Surface::Relax => "relax",
            Surface::Relay => "relay",
        }
    }
}
