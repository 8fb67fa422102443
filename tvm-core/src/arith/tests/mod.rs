//! Random expressions, their values, and what everything here claims about them.

mod claims;
mod iter_map;
mod known;
mod rules;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use super::Analyzer;
use crate::ir::{Var, VarId};
use crate::tir::{BinaryOp, PrimExpr, Range, binary, eval_int, wrap_int};
use tvm_testing::Rng;

/// Values of variables.
pub(super) type Values = FxHashMap<VarId, i64>;

/// The value of an integer or bool expression; `None` where it divides by zero.
pub(super) fn eval(expr: &PrimExpr, values: &Values) -> Option<i64> {
    Some(match expr {
        PrimExpr::IntImm(it) => it.value,
        PrimExpr::Var(var) => values[&var.id()],
        PrimExpr::Cast(it) => {
            let value = eval(&it.value, values)?;
            let unsigned = it.value.dtype() == DataType::U64;
            wrap_int(if unsigned { i128::from(value as u64) } else { i128::from(value) }, it.dtype)
        }
        PrimExpr::Not(it) => 1 - eval(&it.value, values)?,
        PrimExpr::Binary(it) => {
            let dtype = it.a.dtype();
            eval_int(it.op, eval(&it.a, values)?, eval(&it.b, values)?, dtype)?
        }
        PrimExpr::Select(it) => {
            let (c, a, b) =
                (eval(&it.condition, values)?, eval(&it.true_value, values)?, eval(&it.false_value, values)?);
            if c != 0 { a } else { b }
        }
        other => panic!("not generated: {other:?}"),
    })
}

/// Variables, what an analyzer knows of them, and values that fit.
pub(super) struct World {
    pub(super) analyzer: Analyzer,
    pub(super) vars: Vec<Var>,
    pub(super) bools: Vec<Var>,
    bounds: Vec<(i64, i64)>,
}

impl World {
    /// Four variables of type `dtype` with random ranges.
    pub(super) fn new(rng: &mut Rng, dtype: DataType) -> World {
        let mut analyzer = Analyzer::new();
        let vars: Vec<Var> = ["a", "b", "c", "d"].map(|name| Var::prim(name, dtype)).into();
        let bools: Vec<Var> = ["p", "q", "r", "s"].map(|name| Var::prim(name, DataType::BOOL)).into();
        let mut bounds = Vec::new();
        for var in &vars {
            let (low, high) = match dtype.int_range() {
                _ if dtype == DataType::I64 => {
                    let low = rng.range(-12, 12);
                    (low, low + rng.range(1, 24))
                }
                Some((low, high)) => (low.max(-1 << 40) as i64, high.min(1 << 40) as i64),
                None => (0, 0),
            };
            if dtype == DataType::I64 && rng.range(0, 3) > 0 {
                analyzer.bind_range(var, &Range { min: low.into(), extent: (high - low + 1).into() });
            }
            bounds.push((low, high));
        }
        World { analyzer, vars, bools, bounds }
    }

    pub(super) fn values(&self, rng: &mut Rng) -> Values {
        let ints =
            self.vars.iter().zip(&self.bounds).map(|(var, &(low, high))| (var.id(), rng.range(low, high)));
        let mut values: Values = ints.collect();
        values.extend(self.bools.iter().map(|var| (var.id(), rng.range(0, 1))));
        values
    }

    fn dtype(&self) -> DataType {
        self.vars[0].dtype()
    }

    fn constant(&self, rng: &mut Rng) -> PrimExpr {
        let small = rng.range(-9, 16);
        let value = if rng.range(0, 3) == 0 { *rng.pick(&[0, 1, 2, 4, 8, 16, 32, 64]) } else { small };
        PrimExpr::int(wrap_int(value.into(), self.dtype()), self.dtype())
    }

    /// A random number.
    pub(super) fn int(&self, rng: &mut Rng, depth: u32) -> PrimExpr {
        if depth == 0 || rng.range(0, 7) == 0 {
            return if rng.range(0, 2) == 0 {
                self.constant(rng)
            } else {
                PrimExpr::from(rng.pick(&self.vars))
            };
        }
        let op = *rng.pick(&[
            BinaryOp::Add,
            BinaryOp::Add,
            BinaryOp::Sub,
            BinaryOp::Mul,
            BinaryOp::FloorDiv,
            BinaryOp::FloorMod,
            BinaryOp::Div,
            BinaryOp::Mod,
            BinaryOp::Min,
            BinaryOp::Max,
        ]);
        if rng.range(0, 9) == 0 {
            let (a, b) = (self.int(rng, depth - 1), self.int(rng, depth - 1));
            return self.bool(rng, depth - 1).select(a, b);
        }
        let by_const = !matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Min | BinaryOp::Max);
        let a = self.int(rng, depth - 1);
        let b = if by_const && rng.range(0, 5) > 0 { self.constant(rng) } else { self.int(rng, depth - 1) };
        binary(op, a, b)
    }

    /// A random truth.
    pub(super) fn bool(&self, rng: &mut Rng, depth: u32) -> PrimExpr {
        if depth == 0 {
            return PrimExpr::from(rng.pick(&self.bools));
        }
        match rng.range(0, 5) {
            0 => self.bool(rng, depth - 1).and(self.bool(rng, depth - 1)),
            1 => self.bool(rng, depth - 1).or(self.bool(rng, depth - 1)),
            2 => !self.bool(rng, depth - 1),
            _ => {
                let op = *rng.pick(&[
                    BinaryOp::Eq,
                    BinaryOp::Ne,
                    BinaryOp::Lt,
                    BinaryOp::Le,
                    BinaryOp::Gt,
                    BinaryOp::Ge,
                ]);
                binary(op, self.int(rng, depth - 1), self.int(rng, depth - 1))
            }
        }
    }
}
