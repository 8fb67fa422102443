//! Resolution of calls by a name that an operator has: a user's function takes precedence over the operator.
//!
//! A macro does not see what else is in scope, so rustc's method resolution decides. `softmax(x)` expands to a method call
//! on a [`NamedCall`]. A user's function `softmax` in the same scope comes with a trait whose method takes the call by
//! value, which Rust prefers. Otherwise the inherent method `softmax(&self)` runs the second field of the call, which looks
//! for a type of that name in the module, including imports: the type of a function, or one of [`names`](super::names).
//! The type of the result shows which one was called.

use std::marker::PhantomData;
use std::panic::Location;

use super::frame::{fail, span_of};
use super::function::{CallOf, call_def_at};
use super::ops::emit_op;
use super::{Args, FuncDef, GraphValue, IntoItem, Item};
use crate::ir::IrError;
use crate::script::PrimFuncDef;

/// Where a call was written.
pub type At = &'static Location<'static>;

/// The arguments of a call by name, and the closure that makes the call unless a function in scope takes it.
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

/// Names of users' functions. `(&Named::<T>::new()).call(..)` resolves to the first of these three traits that applies.
pub trait CallsFunction {
    /// Result of the call.
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

/// Names of kernels: a call is an error, except that the name of a schedule does not hide the operator.
pub trait CallsKernel {
    /// Reports the error, or calls the operator `name` if `Self` names a schedule.
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
pub struct Operator(GraphValue);

/// The result of calling a kernel by its name, which a graph function cannot use.
pub struct KernelCall;

/// The result type of a call by name, which shows what the name stands for.
pub trait CallResult {
    /// Whether the name is that of a user's function or kernel.
    const IS_USERS: bool;
    /// Number of parameters of the function, if it is known.
    const ARITY: Option<usize> = None;
}

impl<D: FuncDef> CallResult for CallOf<D> {
    const IS_USERS: bool = true;
    const ARITY: Option<usize> = Some(D::ARITY);
}

impl CallResult for GraphValue {
    const IS_USERS: bool = true;
}

impl CallResult for KernelCall {
    const IS_USERS: bool = true;
}

impl CallResult for Operator {
    const IS_USERS: bool = false;
}

/// The result of a function that a graph function can call.
#[diagnostic::on_unimplemented(
    message = "a kernel is not called by its name alone",
    label = "the name of a kernel in scope",
    note = "call the kernel with `call_tir(kernel, (x, y))`; an operator of the same name with `x.name(y)`"
)]
pub trait Outcome: CallResult + IntoItem {}

impl<D: FuncDef> Outcome for CallOf<D> {}
impl Outcome for GraphValue {}
impl Outcome for Operator {}

impl IntoItem for Operator {
    fn into_item(self) -> Item {
        Item::Value(self.0)
    }
}

/// True when the closure calls a user's function or kernel.
pub const fn is_users<R: CallResult>(_: &impl Fn(Args) -> R) -> bool {
    R::IS_USERS
}

/// The value of a call of a function or operator.
pub fn result(of: impl Outcome) -> GraphValue {
    super::value::to_value(of)
}
