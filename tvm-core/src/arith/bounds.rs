//! Constant bounds of expressions.
//!
//! A value that may overflow is bounded by its type alone. Sums and products of index variables do not overflow, see
//! [`ConstIntBound`].
//!
//! TVM counterpart: `ConstIntBoundAnalyzer`.

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::{Analyzer, ConstIntBound};
use crate::ir::VarId;
use crate::ir::tensor_program::{
    Binary, BinaryOp, Intrinsic, PrimCall, PrimCallee, PrimExpr, comparison, logical, wide_int,
};
use crate::support::with_stack;

/// One query. The bounds of a node are cached until the analyzer learns something.
pub(super) struct Bounds<'a> {
    analyzer: &'a Analyzer,
    lets: FxHashMap<VarId, ConstIntBound>,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(analyzer: &'a Analyzer) -> Bounds<'a> {
        Bounds { analyzer, lets: FxHashMap::default() }
    }

    /// Bounds of `expr`; of a vector, bounds of every lane.
    pub(super) fn of(&mut self, expr: &PrimExpr) -> ConstIntBound {
        let known = self.analyzer.cache().bounds.get(expr);
        known.unwrap_or_else(|| {
            let bound = with_stack(|| self.node(expr));
            self.analyzer.cache().bounds.insert(expr, bound);
            bound
        })
    }

    /// Bounds of the result of `it` before it wraps, as computed by [`operation`].
    pub(super) fn unwrapped(&mut self, it: &Binary) -> Option<ConstIntBound> {
        let (a, b) = (self.of(&it.a), self.of(&it.b));
        operation(it.op, a, b, it.a.dtype())
    }

    fn node(&mut self, expr: &PrimExpr) -> ConstIntBound {
        let dtype = expr.dtype();
        if !dtype.is_integer() && !dtype.is_bool() {
            return ConstIntBound::EVERYTHING;
        }
        let range = ConstIntBound::of_dtype(dtype);
        let bound = match expr {
            PrimExpr::IntImm(it) => return ConstIntBound::point(wide_int(it.value, dtype)),
            PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) => range,
            PrimExpr::Var(var) => {
                let local = self.lets.get(&var.id()).copied();
                local.unwrap_or_else(|| self.analyzer.var_bound(var))
            }
            PrimExpr::Cast(it) => {
                let from = it.value.dtype();
                if !from.is_integer() && !from.is_bool() {
                    return range;
                }
                let value = self.of(&it.value).to_finite();
                if dtype.is_bool() && !value.contains(0) { ConstIntBound::point(1) } else { value }
            }
            PrimExpr::Not(_) => range,
            PrimExpr::Binary(it) => self.unwrapped(it).unwrap_or(range),
            PrimExpr::Select(it) => self.of(&it.true_value).union(self.of(&it.false_value)),
            PrimExpr::BufferLoad(_) => range,
            PrimExpr::Ramp(it) => {
                let step = self.of(&it.stride).mul(ConstIntBound::new(0, i128::from(it.lanes) - 1));
                self.of(&it.base).add(step)
            }
            PrimExpr::Broadcast(it) => self.of(&it.value),
            PrimExpr::Shuffle(it) => {
                it.vectors.iter().map(|it| self.of(it)).reduce(ConstIntBound::union).unwrap_or(range)
            }
            PrimExpr::Let(it) => {
                let value = self.of(&it.value);
                self.lets.insert(it.var.id(), value);
                self.of(&it.body)
            }
            PrimExpr::Call(it) => self.call(it, range),
        };
        self.analyzer.fact_bound(expr, if bound.fits(dtype) { bound } else { range })
    }

    fn call(&mut self, it: &PrimCall, range: ConstIntBound) -> ConstIntBound {
        let PrimCallee::Intrinsic(intrinsic) = it.callee else { return range };
        let bits = || it.args.first().map_or(64, |arg| i128::from(arg.dtype().bits()));
        match intrinsic {
            Intrinsic::IfThenElse => self.of(&it.args[1]).union(self.of(&it.args[2])),
            Intrinsic::Likely => self.of(&it.args[0]),
            Intrinsic::PopCount | Intrinsic::Clz => ConstIntBound::new(0, bits()),
            Intrinsic::ArgNdim | Intrinsic::ArgShape => ConstIntBound::new(0, ConstIntBound::POS_INF),
            _ => range,
        }
    }
}

/// Bounds of the result of `a op b` before it wraps, for operands of type `dtype`; `None` where nothing is known about
/// the result.
pub(super) fn operation(
    op: BinaryOp,
    a: ConstIntBound,
    b: ConstIntBound,
    dtype: DataType,
) -> Option<ConstIntBound> {
    let natural = a.min >= 0 && b.min >= 0;
    let amount = 0..i128::from(dtype.bits());
    Some(match op {
        BinaryOp::Add => a.add(b),
        BinaryOp::Sub => a.add(b.neg()),
        BinaryOp::Mul => a.mul(b),
        BinaryOp::Div => a.div(b),
        BinaryOp::Mod => a.rem(b),
        BinaryOp::FloorDiv => a.floordiv(b),
        BinaryOp::FloorMod => a.floormod(b),
        BinaryOp::Min => a.lesser(b),
        BinaryOp::Max => a.larger(b),
        comparison!() | logical!() => ConstIntBound::new(0, 1),
        BinaryOp::BitAnd if natural => ConstIntBound::new(0, a.lesser(b).max),
        BinaryOp::BitAnd if a.min >= 0 => ConstIntBound::new(0, a.max),
        BinaryOp::BitAnd if b.min >= 0 => ConstIntBound::new(0, b.max),
        BinaryOp::BitOr | BinaryOp::BitXor if natural && a.is_finite() && b.is_finite() => {
            let most = a.max.max(b.max).unsigned_abs();
            ConstIntBound::new(0, (most + 1).next_power_of_two() as i128 - 1)
        }
        BinaryOp::Shl => {
            let bits = b.as_point().filter(|bits| amount.contains(bits))?;
            a.mul(ConstIntBound::point(1 << bits))
        }
        BinaryOp::Shr if amount.contains(&b.min) && amount.contains(&b.max) => {
            a.floordiv(ConstIntBound::new(1 << b.min, 1 << b.max))
        }
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shr => return None,
    })
}
