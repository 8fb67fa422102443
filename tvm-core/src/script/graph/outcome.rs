//! Calls by a name that an operator has: a function of the user's hides the operator.
//!
//! A macro does not see what else is in scope, so rustc decides. `softmax(x)` expands to a method call on a
//! [`NamedCall`], whose own method `softmax(&self)` is the operator; a function of the user's called `softmax` comes with
//! a trait whose method takes the call by value, which Rust prefers where the trait is in scope. The type of the result
//! tells which it was.

use super::{Args, IntoItem, Item, Value};

/// The arguments of a call by name.
pub struct NamedCall(pub Args);

impl NamedCall {
    pub(super) fn args(&self) -> Args {
        self.0.clone()
    }
}

/// The result of an operator.
pub struct Operator(Value);

impl Operator {
    pub(super) fn new(value: Value) -> Operator {
        Operator(value)
    }
}

/// What the call of a kernel by its name gives: nothing that a graph function can use.
pub struct KernelCall;

/// What a function gives that a graph function calls.
#[diagnostic::on_unimplemented(
    message = "a kernel is not called by its name alone",
    label = "the name of a kernel in scope",
    note = "call the kernel with `call_tir(kernel, (x, y))`; an operator of the same name with `x.name(y)`"
)]
pub trait Outcome: IntoItem {
    /// A type of the user's functions when this is one, else `Rest`.
    type Or<Rest: Outcome>: Outcome;
}

impl Outcome for Value {
    type Or<Rest: Outcome> = Value;
}

impl Outcome for Operator {
    type Or<Rest: Outcome> = Rest;
}

impl IntoItem for Operator {
    fn into_item(self) -> Item {
        Item::Value(self.0)
    }
}

/// The value that a call of a function or operator gives.
pub fn result(of: impl Outcome) -> Value {
    super::value::to_value(of)
}
