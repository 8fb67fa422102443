//! Values of a graph function under construction, and their operators.

use std::ops;
use std::panic::Location;
use std::rc::Rc;

use tvm_runtime::DataType;

use super::frame::{fail, span_of, type_of};
use super::{Args, IntoItem, Item, item};
use crate::ir::{IrError, Span, Type};
use crate::relax::Arg;
use crate::script::literal::Literal;

/// A value of a graph function.
#[derive(Clone)]
pub struct GraphValue(Inner);

#[derive(Clone)]
enum Inner {
    Arg(Arg),
    /// A closure literal: it becomes a function where the types of its parameters are known.
    Closure(Rc<Closure>),
    /// The value of an ill-typed expression.
    Poison,
}

/// The body of a closure: computes the result from the arguments.
pub(super) type ClosureBody = dyn Fn(&[GraphValue]) -> GraphValue;

/// A closure literal of the user.
pub(super) struct Closure {
    pub(super) arity: usize,
    pub(super) body: Box<ClosureBody>,
    pub(super) location: &'static Location<'static>,
}

impl GraphValue {
    pub(super) fn from_arg(arg: Arg) -> GraphValue {
        GraphValue(Inner::Arg(arg))
    }

    /// The value of an expression that was reported already.
    pub fn poison() -> GraphValue {
        GraphValue(Inner::Poison)
    }

    /// True when an error was reported for it.
    pub(super) fn is_poison(&self) -> bool {
        matches!(self.0, Inner::Poison)
    }

    /// The argument, unless it is a closure or poisoned.
    pub fn arg(&self) -> Option<&Arg> {
        if let Inner::Arg(arg) = &self.0 { Some(arg) } else { None }
    }

    /// True for a scalar, false for a tensor and everything else.
    pub(super) fn is_scalar(&self) -> bool {
        match self.arg() {
            Some(Arg::Prim(_)) => true,
            Some(Arg::Var(var)) => matches!(var.ty(), Type::Prim(_)),
            _ => false,
        }
    }

    /// The value as an argument for a parameter of type `expected`: a closure literal becomes a local function.
    pub(super) fn arg_of_type(&self, expected: Option<&Type>) -> Option<Arg> {
        match &self.0 {
            Inner::Arg(arg) => Some(arg.clone()),
            Inner::Closure(closure) => super::function::close(closure, expected),
            Inner::Poison => None,
        }
    }

    /// Calls a closure or function parameter.
    #[track_caller]
    pub fn call(self, args: Args) -> GraphValue {
        let span = span_of(Location::caller());
        match &self.0 {
            Inner::Poison => GraphValue::poison(),
            Inner::Closure(closure) if closure.arity == args.items.len() => {
                let values: Vec<GraphValue> = args.items.into_iter().map(to_value).collect();
                (closure.body)(&values)
            }
            Inner::Closure(closure) => {
                let message =
                    format!("the closure takes {} arguments, got {}", closure.arity, args.items.len());
                fail(IrError::new(message, &span), &span)
            }
            Inner::Arg(Arg::Var(var)) => match var.ty() {
                Type::Func(ty) => {
                    super::function::emit_call(crate::relax::Callee::Var(var.clone()), Some(ty), args, &span)
                }
                _ => fail(IrError::new(format!("`{}` is not a function", var.name()), &span), &span),
            },
            Inner::Arg(_) => fail(IrError::new("only a function can be called", &span), &span),
        }
    }

    /// A field of a tuple.
    #[track_caller]
    pub fn field(self, index: usize) -> GraphValue {
        let span = span_of(Location::caller());
        match self.arg() {
            Some(Arg::Tuple(fields)) if index < fields.len() => GraphValue::from_arg(fields[index].clone()),
            Some(arg) => super::frame::emit(crate::relax::Expr::TupleGetItem(arg.clone(), index), &span),
            None => GraphValue::poison(),
        }
    }
}

/// A closure literal.
#[track_caller]
pub fn closure(arity: usize, body: impl Fn(&[GraphValue]) -> GraphValue + 'static) -> GraphValue {
    GraphValue(Inner::Closure(Rc::new(Closure { arity, body: Box::new(body), location: Location::caller() })))
}

/// A tuple.
pub fn tuple(fields: Vec<Item>) -> GraphValue {
    let fields: Vec<GraphValue> = fields.into_iter().map(to_value).collect();
    let args: Option<Vec<Arg>> = fields.iter().map(|field| field.arg().cloned()).collect();
    args.map_or_else(GraphValue::poison, |args| GraphValue::from_arg(Arg::Tuple(args.into())))
}

/// Any item as a value; numbers become constants.
pub(super) fn to_value(it: impl IntoItem) -> GraphValue {
    match item(it) {
        Item::Value(value) => value,
        Item::Int(value) => GraphValue::from_arg(Arg::Const(tvm_runtime::Tensor::scalar(value))),
        Item::Float(value) => GraphValue::from_arg(Arg::Const(tvm_runtime::Tensor::scalar(value as f32))),
        Item::Bool(value) => GraphValue::from_arg(Arg::Const(tvm_runtime::Tensor::scalar(value))),
        Item::Dim(value) => GraphValue::from_arg(Arg::Prim(value)),
        Item::Str(text) => GraphValue::from_arg(Arg::Str(text.into())),
        Item::DType(dtype) => GraphValue::from_arg(Arg::DType(dtype)),
        Item::List(items) => tuple(items),
    }
}

fn literal(value: Literal, dtype: DataType, span: &Span) -> GraphValue {
    super::item::scalar(value, dtype).unwrap_or_else(|err| fail(err, span))
}

/// `a op b`, where one side may be a number, which takes the element type of the other side.
#[track_caller]
fn operator(name: &str, a: Item, b: Item) -> GraphValue {
    let span = span_of(Location::caller());
    let dtype = [&a, &b].into_iter().find_map(|it| match it {
        Item::Value(value) => type_of(value.arg()?).as_tensor()?.dtype,
        _ => None,
    });
    let side = |it: Item| match (it, dtype) {
        (Item::Int(value), Some(dtype)) => literal(Literal::Int(value), dtype, &span),
        (Item::Float(value), Some(dtype)) => literal(Literal::Float(value), dtype, &span),
        (other, _) => to_value(other),
    };
    let (a, b) = (side(a), side(b));
    super::ops::emit_op(name, Args { items: vec![Item::Value(a), Item::Value(b)], named: Vec::new() }, &span)
}

macro_rules! operators {
    ($($tr:ident :: $f:ident = $name:literal;)*) => {
        $(
            impl<R: IntoItem> ops::$tr<R> for GraphValue {
                type Output = GraphValue;
                #[track_caller]
                fn $f(self, other: R) -> GraphValue {
                    operator($name, Item::Value(self), item(other))
                }
            }

            impl ops::$tr<GraphValue> for f64 {
                type Output = GraphValue;
                #[track_caller]
                fn $f(self, other: GraphValue) -> GraphValue {
                    operator($name, Item::Float(self), Item::Value(other))
                }
            }

            impl ops::$tr<GraphValue> for i64 {
                type Output = GraphValue;
                #[track_caller]
                fn $f(self, other: GraphValue) -> GraphValue {
                    operator($name, Item::Int(self), Item::Value(other))
                }
            }
        )*
    };
}

operators! {
    Add::add = "add";
    Sub::sub = "subtract";
    Mul::mul = "multiply";
    Div::div = "divide";
    Rem::rem = "mod";
    BitAnd::bitand = "logical_and";
    BitOr::bitor = "logical_or";
    BitXor::bitxor = "logical_xor";
}

macro_rules! comparisons {
    ($($(#[$doc:meta])* $f:ident = $name:literal;)*) => {
        $($(#[$doc])*
        #[track_caller]
        pub fn $f(a: impl IntoItem, b: impl IntoItem) -> GraphValue {
            operator($name, item(a), item(b))
        })*
    };
}

/// Comparisons that return a value; Rust's operators can return only a `bool`.
pub mod compare {
    use super::{GraphValue, IntoItem, item, operator};

    comparisons! {
        /// `a == b`
        eq = "equal";
        /// `a != b`
        ne = "not_equal";
        /// `a < b`
        lt = "less";
        /// `a <= b`
        le = "less_equal";
        /// `a > b`
        gt = "greater";
        /// `a >= b`
        ge = "greater_equal";
    }
}

impl ops::Neg for GraphValue {
    type Output = GraphValue;

    #[track_caller]
    fn neg(self) -> GraphValue {
        super::ops::emit_op("negative", Args::of(vec![Item::Value(self)]), &span_of(Location::caller()))
    }
}

impl ops::Not for GraphValue {
    type Output = GraphValue;

    #[track_caller]
    fn not(self) -> GraphValue {
        super::ops::emit_op("logical_not", Args::of(vec![Item::Value(self)]), &span_of(Location::caller()))
    }
}
