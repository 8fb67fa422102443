//! Calls by a name that an operator has: a function of the user's comes before the operator.
//!
//! A macro does not see what else is in scope, so rustc decides. `softmax(x)` expands to a method call on a
//! [`NamedCall`]. A function of the user's called `softmax` that is defined in the same scope comes with a trait whose
//! method takes the call by value, which Rust prefers. Else the own method `softmax(&self)` runs the second part of the call,
//! which looks for a type of that name in the module, where imports count: it is a function's, or one of [`names`](super::names).
//! The type of the result tells which it was.

use std::marker::PhantomData;
use std::panic::Location;

use super::frame::{fail, span_of};
use super::function::{CallOf, call_def_at};
use super::ops::emit_op;
use super::{Args, FuncDef, IntoItem, Item, Value};
use crate::ir::IrError;
use crate::script::PrimFuncDef;

/// Where a call was written.
pub type At = &'static Location<'static>;

/// The arguments of a call by name, and what it calls unless a function in scope takes it.
pub struct NamedCall<F>(pub Args, pub F);

impl<F: Fn(Args, At) -> R, R: Outcome> NamedCall<F> {
    pub(super) fn call(&self, at: At) -> R {
        (self.1)(self.0.clone(), at)
    }
}

/// The type that a name stands for in a module.
pub struct Named<T>(PhantomData<T>);

impl<T> Clone for Named<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Named<T> {}

impl<T> Named<T> {
    /// The type `T`.
    #[expect(clippy::new_without_default, reason = "named like what it makes")]
    pub const fn new() -> Named<T> {
        Named(PhantomData)
    }
}

/// Names of functions of the user's. `(&Named::<T>::new()).call(..)` takes the first of these three traits that fits.
pub trait CallsFunction {
    /// What the call gives.
    type Call: Outcome;
    /// Calls the function.
    fn call(&self, name: &str, args: Args, at: At) -> Self::Call;
}

impl<D: FuncDef> CallsFunction for Named<D> {
    type Call = CallOf<D>;

    fn call(&self, _: &str, args: Args, at: At) -> CallOf<D> {
        call_def_at::<D>(args, &span_of(at))
    }
}

/// Names of kernels: an error, unless it is a schedule that has the name.
pub trait CallsKernel {
    /// The error.
    fn call(&self, name: &str, args: Args, at: At) -> Operator;
}

impl<P: PrimFuncDef> CallsKernel for &Named<P> {
    fn call(&self, name: &str, args: Args, at: At) -> Operator {
        let span = span_of(at);
        if !P::IS_KERNEL {
            return Operator(emit_op(name, args, &span));
        }
        let kernel = P::SIG.name;
        let help = format!(
            "call it with `call_tir({kernel}, (x, y))`; an operator of the same name with `x.name(y)`"
        );
        Operator(fail(IrError::new(format!("`{kernel}` is a kernel"), &span).help(help), &span))
    }
}

/// Names of anything else: the operator is called.
pub trait CallsOperator {
    /// Calls the operator `name`.
    fn call(self, name: &str, args: Args, at: At) -> Operator;
}

impl<T> CallsOperator for Named<T> {
    fn call(self, name: &str, args: Args, at: At) -> Operator {
        Operator(emit_op(name, args, &span_of(at)))
    }
}

/// The result of an operator.
pub struct Operator(Value);

/// What the call of a kernel by its name gives: nothing that a graph function can use.
pub struct KernelCall;

/// What a call by a name gives: it tells what has the name.
pub trait CallResult {
    /// Whether it is a function or kernel of the user's.
    const IS_USERS: bool;
    /// How many parameters the function has, where that is known.
    const ARITY: Option<usize> = None;
}

impl<D: FuncDef> CallResult for CallOf<D> {
    const IS_USERS: bool = true;
    const ARITY: Option<usize> = Some(D::ARITY);
}

impl CallResult for Value {
    const IS_USERS: bool = true;
}

impl CallResult for KernelCall {
    const IS_USERS: bool = true;
}

impl CallResult for Operator {
    const IS_USERS: bool = false;
}

/// What a function gives that a graph function calls.
#[diagnostic::on_unimplemented(
    message = "a kernel is not called by its name alone",
    label = "the name of a kernel in scope",
    note = "call the kernel with `call_tir(kernel, (x, y))`; an operator of the same name with `x.name(y)`"
)]
pub trait Outcome: CallResult + IntoItem {}

impl<D: FuncDef> Outcome for CallOf<D> {}
impl Outcome for Value {}
impl Outcome for Operator {}

impl IntoItem for Operator {
    fn into_item(self) -> Item {
        Item::Value(self.0)
    }
}

/// True when `call` calls a function of the user's.
pub const fn is_users<R: CallResult>(_: &impl Fn(Args) -> R) -> bool {
    R::IS_USERS
}

/// The value that a call of a function or operator gives.
pub fn result(of: impl Outcome) -> Value {
    super::value::to_value(of)
}
