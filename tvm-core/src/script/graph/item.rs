//! Arguments in graph functions: values, numbers, dimensions, types, lists of these.

use tvm_runtime::{DataType, Tensor};

use super::GraphValue;
use crate::ir::{AttrValue, IrError, Span, Var};
use crate::relax::Arg;
use crate::script::literal::{Literal, misfit};
use crate::tir::PrimExpr;

/// An argument as written.
#[derive(Clone)]
pub enum Item {
    /// A value.
    Value(GraphValue),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A flag.
    Bool(bool),
    /// A symbolic dimension or an expression of them.
    Dim(PrimExpr),
    /// A string.
    Str(String),
    /// An element type.
    DType(DataType),
    /// A list.
    List(Vec<Item>),
}

/// The arguments of a call.
#[derive(Clone)]
pub struct Args {
    /// By position.
    pub items: Vec<Item>,
    /// By name: `axis = 1`.
    pub named: Vec<(&'static str, Item)>,
}

impl Args {
    /// Arguments by position.
    pub fn of(items: Vec<Item>) -> Args {
        Args { items, named: Vec::new() }
    }
}

/// Something that can stand as an argument in a graph function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be used in a graph function",
    note = "values, numbers, strings, data types, dimensions, constant tensors and arrays of these can"
)]
pub trait IntoItem {
    /// The argument.
    fn into_item(self) -> Item;
}

/// `it` as an argument.
pub fn item(it: impl IntoItem) -> Item {
    it.into_item()
}

/// A literal as a constant of rank 0.
pub(super) fn scalar(literal: Literal, dtype: DataType) -> Result<GraphValue, IrError> {
    check(literal, dtype)?;
    let tensor = match (literal, dtype) {
        (Literal::Int(value), DataType::I64) => Ok(Tensor::scalar(value)),
        (Literal::Int(value), DataType::U64) => Ok(Tensor::scalar(value as u64)),
        (Literal::Int(value), _) => Tensor::from_f64s(&[value as f64], &[], dtype),
        (Literal::Float(value), _) => Tensor::from_f64s(&[value], &[], dtype),
    };
    let tensor = tensor.map_err(|err| IrError::new(err.to_string(), &Span::none()))?;
    Ok(GraphValue::from_arg(Arg::Const(tensor)))
}

/// A literal as a scalar.
pub(super) fn prim(literal: Literal, dtype: DataType) -> Result<GraphValue, IrError> {
    check(literal, dtype)?;
    Ok(GraphValue::from_arg(Arg::Prim(match literal {
        Literal::Int(value) if dtype.is_integer() => PrimExpr::int(value, dtype),
        Literal::Int(value) => PrimExpr::float(value as f64, dtype),
        Literal::Float(value) => PrimExpr::float(value, dtype),
    })))
}

/// Checks that a literal can take the type `dtype`: a float literal cannot be an integer, and the type must have its value.
fn check(literal: Literal, dtype: DataType) -> Result<(), IrError> {
    let message = match literal {
        Literal::Float(value) if dtype.is_integer() => Some(format!("the literal {value:?} is no {dtype}")),
        _ => misfit(literal, dtype),
    };
    let Some(message) = message else { return Ok(()) };
    Err(IrError::new(message, &Span::none())
        .help("write a literal of the type, or convert with astype(x, f32)"))
}

macro_rules! items {
    ($($ty:ty => |$it:ident| $value:expr;)*) => {
        $(impl IntoItem for $ty {
            fn into_item(self) -> Item {
                let $it = self;
                $value
            }
        })*
    };
}

items! {
    Item => |it| it;
    GraphValue => |it| Item::Value(it);
    &GraphValue => |it| Item::Value(it.clone());
    i32 => |it| Item::Int(it.into());
    i64 => |it| Item::Int(it);
    usize => |it| Item::Int(it as i64);
    f32 => |it| Item::Float(it.into());
    f64 => |it| Item::Float(it);
    bool => |it| Item::Bool(it);
    &str => |it| Item::Str(it.to_string());
    String => |it| Item::Str(it);
    DataType => |it| Item::DType(it);
    PrimExpr => |it| it.as_int().map_or_else(|| Item::Dim(it.clone()), Item::Int);
    Var => |it| Item::Dim(it.into());
    Tensor => |it| Item::Value(GraphValue::from_arg(Arg::Const(it)));
    &Tensor => |it| Item::Value(GraphValue::from_arg(Arg::Const(it.clone())));
    () => |_it| Item::List(Vec::new());
}

impl<T: IntoItem> IntoItem for Vec<T> {
    fn into_item(self) -> Item {
        Item::List(self.into_iter().map(item).collect())
    }
}

impl<T: IntoItem, const N: usize> IntoItem for [T; N] {
    fn into_item(self) -> Item {
        Item::List(self.into_iter().map(item).collect())
    }
}

impl Item {
    /// As a value: numbers become constants, a list becomes a tuple.
    pub fn into_value(self) -> GraphValue {
        super::value::to_value(self)
    }

    /// As a dimension.
    pub(super) fn to_dim(&self) -> Option<PrimExpr> {
        match self {
            Item::Int(value) => Some(PrimExpr::index(*value)),
            Item::Dim(value) => Some(value.clone()),
            Item::Value(_)
            | Item::Float(_)
            | Item::Bool(_)
            | Item::Str(_)
            | Item::DType(_)
            | Item::List(_) => None,
        }
    }

    /// As an attribute.
    pub(super) fn to_attr(&self) -> Option<AttrValue> {
        Some(match self {
            Item::Int(value) => AttrValue::Int(*value),
            Item::Float(value) => AttrValue::Float(*value),
            Item::Bool(value) => AttrValue::Bool(*value),
            Item::Str(text) => AttrValue::Str(text.as_str().into()),
            Item::DType(dtype) => AttrValue::DType(*dtype),
            Item::List(items) => {
                AttrValue::List(items.iter().map(Item::to_attr).collect::<Option<Vec<_>>>()?.into())
            }
            Item::Value(_) | Item::Dim(_) => return None,
        })
    }

    /// The kind of argument, for messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Item::Value(_) => "a tensor",
            Item::Int(_) => "an integer",
            Item::Float(_) => "a float",
            Item::Bool(_) => "a bool",
            Item::Dim(_) => "a dimension",
            Item::Str(_) => "a string",
            Item::DType(_) => "a data type",
            Item::List(_) => "a list",
        }
    }
}
