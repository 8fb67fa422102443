//! Expressions of tensor programs: scalars and vectors.
//!
//! TVM counterpart: `PrimExpr` and its nodes (`tir/expr.h`). There is no `PartialEq`: use [`PrimExpr::ptr_eq`],
//! `structural_equal` or `can_prove_equal`.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::{BinaryOp, Buffer, Intrinsic};
use crate::ir::{Span, Type, Var};
use crate::support::{to_bf16, to_f16};

/// A scalar or vector expression.
#[derive(Clone, Debug)]
pub enum PrimExpr {
    /// An integer or bool constant.
    IntImm(IntImm),
    /// A float constant.
    FloatImm(FloatImm),
    /// A string constant (only as an argument of intrinsics and extern calls).
    StringImm(Arc<str>),
    /// A variable.
    Var(Var),
    /// Conversion to another type.
    Cast(Arc<Cast>),
    /// Logical negation.
    Not(Arc<Not>),
    /// A binary operation.
    Binary(Arc<Binary>),
    /// Both arms are evaluated, one is taken; lane-wise when the condition is a vector.
    Select(Arc<Select>),
    /// Reads an element (or a vector, when the last index is one).
    BufferLoad(Arc<BufferLoad>),
    /// The vector `base, base + stride, …`.
    Ramp(Arc<Ramp>),
    /// A vector of equal lanes.
    Broadcast(Arc<Broadcast>),
    /// Lanes picked from the concatenation of vectors.
    Shuffle(Arc<Shuffle>),
    /// An expression in which a variable is bound to a value.
    Let(Arc<Let>),
    /// An intrinsic or extern function.
    Call(Arc<PrimCall>),
}

/// An integer constant; `value` fits `dtype` (for `u64` it is the bit pattern).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IntImm {
    /// The value.
    pub value: i64,
    /// A scalar integer or bool type.
    pub dtype: DataType,
}

/// A float constant, rounded to `dtype`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatImm {
    /// The value.
    pub value: f64,
    /// A scalar float type.
    pub dtype: DataType,
}

/// Conversion: float to integer truncates and saturates (NaN gives 0), integers wrap, as Rust's `as`.
#[derive(Clone, Debug)]
pub struct Cast {
    /// Target type; same lanes as `value`.
    pub dtype: DataType,
    /// The value to convert.
    pub value: PrimExpr,
}

/// Logical negation of a bool.
#[derive(Clone, Debug)]
pub struct Not {
    /// The value to negate.
    pub value: PrimExpr,
}

/// A binary operation on two values of one type.
#[derive(Clone, Debug)]
pub struct Binary {
    /// The operation.
    pub op: BinaryOp,
    /// Left operand.
    pub a: PrimExpr,
    /// Right operand.
    pub b: PrimExpr,
}

/// `condition ? true_value : false_value` with both arms evaluated.
#[derive(Clone, Debug)]
pub struct Select {
    /// Bool, scalar or with the lanes of the arms.
    pub condition: PrimExpr,
    /// Taken where the condition holds.
    pub true_value: PrimExpr,
    /// Taken where it does not hold.
    pub false_value: PrimExpr,
}

/// Reads `buffer[indices]`.
#[derive(Clone, Debug)]
pub struct BufferLoad {
    /// The buffer.
    pub buffer: Buffer,
    /// One `i64` index per dimension; the last may be a vector.
    pub indices: Arc<[PrimExpr]>,
    /// A vector of bools, for a vector at one index per lane: lanes in which it is false are zero, and no access. Only
    /// lowered programs have it.
    pub predicate: Option<PrimExpr>,
    /// Where it was written.
    pub span: Span,
}

/// The vector `base + stride * (0, 1, …, lanes - 1)`.
#[derive(Clone, Debug)]
pub struct Ramp {
    /// Lane 0.
    pub base: PrimExpr,
    /// Difference between lanes.
    pub stride: PrimExpr,
    /// Number of lanes.
    pub lanes: u16,
}

/// A vector whose lanes all hold `value`.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// A scalar.
    pub value: PrimExpr,
    /// Number of lanes.
    pub lanes: u16,
}

/// Lanes `indices` of the concatenation of `vectors`.
#[derive(Clone, Debug)]
pub struct Shuffle {
    /// Vectors or scalars of one element type.
    pub vectors: Arc<[PrimExpr]>,
    /// Lane numbers in the concatenation.
    pub indices: Arc<[u16]>,
}

impl Shuffle {
    /// True if as many lanes are picked from two vectors as each of them has, all of which exist: one instruction on most
    /// CPUs.
    pub fn of_two(&self) -> bool {
        let lanes = self.indices.len();
        let [a, b] = &*self.vectors else { return false };
        lanes > 1
            && [a, b].iter().all(|it| usize::from(it.dtype().lanes()) == lanes)
            && self.indices.iter().all(|&lane| usize::from(lane) < 2 * lanes)
    }
}

/// `let var = value; body`.
#[derive(Clone, Debug)]
pub struct Let {
    /// Bound in `body`.
    pub var: Var,
    /// Value of the variable.
    pub value: PrimExpr,
    /// The result.
    pub body: PrimExpr,
}

/// What a [`PrimCall`] calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimCallee {
    /// A built-in function.
    Intrinsic(Intrinsic),
    /// A C function of scalars. It has no side effect, and its result depends on its arguments alone.
    PureExtern(Arc<str>),
}

/// Types of the parameters and of the result of a C function: those that C passes as they are. It widens narrower ones in ways
/// that depend on the platform.
pub(crate) const C_TYPES: [DataType; 6] =
    [DataType::I32, DataType::I64, DataType::U32, DataType::U64, DataType::F32, DataType::F64];

/// A function call.
#[derive(Clone, Debug)]
pub struct PrimCall {
    /// What is called.
    pub callee: PrimCallee,
    /// Arguments.
    pub args: Arc<[PrimExpr]>,
    /// Result type.
    pub dtype: DataType,
    /// Where it was written.
    pub span: Span,
}

impl PrimCall {
    /// The same call with other arguments.
    #[must_use]
    pub fn with_args(&self, args: impl Into<Arc<[PrimExpr]>>) -> PrimCall {
        let PrimCall { callee, dtype, span, .. } = self;
        PrimCall { callee: callee.clone(), args: args.into(), dtype: *dtype, span: span.clone() }
    }
}

impl BufferLoad {
    /// The same access at other indices.
    #[must_use]
    pub fn with_indices(&self, indices: impl Into<Arc<[PrimExpr]>>) -> BufferLoad {
        BufferLoad {
            buffer: self.buffer.clone(),
            indices: indices.into(),
            predicate: self.predicate.clone(),
            span: self.span.clone(),
        }
    }
}

impl PrimExpr {
    /// An integer (or bool) constant of type `dtype`.
    pub const fn int(value: i64, dtype: DataType) -> PrimExpr {
        PrimExpr::IntImm(IntImm { value, dtype })
    }

    /// An `i64` constant.
    pub const fn index(value: i64) -> PrimExpr {
        PrimExpr::int(value, DataType::I64)
    }

    /// A bool constant.
    pub const fn bool(value: bool) -> PrimExpr {
        PrimExpr::int(value as i64, DataType::BOOL)
    }

    /// A float constant, rounded to `dtype`.
    pub fn float(value: f64, dtype: DataType) -> PrimExpr {
        let value = match dtype {
            DataType::F32 => f64::from(value as f32),
            DataType::F16 => to_f16(value).to_f64(),
            DataType::BF16 => to_bf16(value).to_f64(),
            _ => value,
        };
        PrimExpr::FloatImm(FloatImm { value, dtype })
    }

    /// The constant `value` of type `dtype`, which may be any scalar type except a handle.
    pub fn constant(value: f64, dtype: DataType) -> PrimExpr {
        if dtype.is_float() { PrimExpr::float(value, dtype) } else { PrimExpr::int(value as i64, dtype) }
    }

    /// Type of the value.
    pub fn dtype(&self) -> DataType {
        // Descend to a node that stores its type, in turns along the left and the right side of operations: expressions
        // may be thousands of operations deep, mostly on one side.
        let (mut here, mut there) = (Descent::of(self), Descent::of(self));
        loop {
            if let Some(dtype) = here.step(|it| &it.a).or_else(|| there.step(|it| &it.b)) {
                return dtype;
            }
        }
    }

    /// Type of the value, from this node and the types of its operands.
    fn own_dtype(&self) -> DataType {
        match self {
            PrimExpr::IntImm(it) => it.dtype,
            PrimExpr::FloatImm(it) => it.dtype,
            PrimExpr::StringImm(_) => DataType::HANDLE,
            PrimExpr::Var(it) => it.dtype(),
            PrimExpr::Cast(it) => it.dtype,
            PrimExpr::Not(it) => it.value.dtype(),
            PrimExpr::Binary(it) => {
                let dtype = it.a.dtype();
                if it.op.is_comparison() { DataType::BOOL.with_lanes(dtype.lanes()) } else { dtype }
            }
            PrimExpr::Select(it) => it.true_value.dtype(),
            PrimExpr::BufferLoad(it) => {
                let lanes = it.indices.last().map_or(1, |index| index.dtype().lanes());
                it.buffer.dtype.with_lanes(lanes * it.buffer.dtype.lanes())
            }
            PrimExpr::Ramp(it) => it.base.dtype().with_lanes(it.lanes),
            PrimExpr::Broadcast(it) => it.value.dtype().with_lanes(it.lanes),
            PrimExpr::Shuffle(it) => {
                let dtype = it.vectors.first().map_or(DataType::HANDLE, PrimExpr::dtype);
                dtype.with_lanes(it.indices.len() as u16)
            }
            PrimExpr::Let(it) => it.body.dtype(),
            PrimExpr::Call(it) => it.dtype,
        }
    }

    /// The value of an integer or bool constant.
    pub fn as_int(&self) -> Option<i64> {
        if let PrimExpr::IntImm(it) = self { Some(it.value) } else { None }
    }

    /// The variable, if it is one.
    pub fn as_var(&self) -> Option<&Var> {
        if let PrimExpr::Var(it) = self { Some(it) } else { None }
    }

    /// True for the integer constant `value`.
    pub fn is_const(&self, value: i64) -> bool {
        self.as_int() == Some(value)
    }

    /// True for the number whose bits are all 0.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            PrimExpr::IntImm(it) => it.value == 0,
            PrimExpr::FloatImm(it) => it.value.to_bits() == 0,
            _ => false,
        }
    }

    /// True when both are the same node (constants and variables: the same value).
    pub fn ptr_eq(&self, other: &PrimExpr) -> bool {
        match (self, other) {
            (PrimExpr::IntImm(a), PrimExpr::IntImm(b)) => a == b,
            (PrimExpr::FloatImm(a), PrimExpr::FloatImm(b)) => {
                a.dtype == b.dtype && a.value.to_bits() == b.value.to_bits()
            }
            (PrimExpr::StringImm(a), PrimExpr::StringImm(b)) => a == b,
            (PrimExpr::Var(a), PrimExpr::Var(b)) => a == b,
            (PrimExpr::Cast(a), PrimExpr::Cast(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Not(a), PrimExpr::Not(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Binary(a), PrimExpr::Binary(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Select(a), PrimExpr::Select(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::BufferLoad(a), PrimExpr::BufferLoad(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Ramp(a), PrimExpr::Ramp(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Broadcast(a), PrimExpr::Broadcast(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Shuffle(a), PrimExpr::Shuffle(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Let(a), PrimExpr::Let(b)) => Arc::ptr_eq(a, b),
            (PrimExpr::Call(a), PrimExpr::Call(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The type, as a graph type.
    pub fn ty(&self) -> Type {
        Type::Prim(self.dtype())
    }
}

/// A descent to a node that stores its type.
struct Descent<'a> {
    at: &'a PrimExpr,
    /// True after passing a comparison.
    compared: bool,
}

impl<'a> Descent<'a> {
    fn of(at: &'a PrimExpr) -> Descent<'a> {
        Descent { at, compared: false }
    }

    /// The type, if the current node stores it; otherwise moves to an operand (of a binary one, as `side` picks).
    fn step(&mut self, side: impl FnOnce(&'a Binary) -> &'a PrimExpr) -> Option<DataType> {
        self.at = match self.at {
            PrimExpr::Not(it) => &it.value,
            PrimExpr::Binary(it) => {
                self.compared |= it.op.is_comparison();
                side(it)
            }
            PrimExpr::Select(it) => &it.true_value,
            PrimExpr::Let(it) => &it.body,
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Call(_) => {
                let dtype = self.at.own_dtype();
                return Some(if self.compared { DataType::BOOL.with_lanes(dtype.lanes()) } else { dtype });
            }
        };
        None
    }
}

impl From<Var> for PrimExpr {
    fn from(var: Var) -> PrimExpr {
        PrimExpr::Var(var)
    }
}

impl From<&Var> for PrimExpr {
    fn from(var: &Var) -> PrimExpr {
        PrimExpr::Var(var.clone())
    }
}

impl From<i64> for PrimExpr {
    fn from(value: i64) -> PrimExpr {
        PrimExpr::index(value)
    }
}
