//! Straight-line computations on f32, scalar or in lanes: what the expansions are written in.

use std::sync::Arc;

use tvm_runtime::DataType;

use crate::ir::Var;
use crate::tir::{BinaryOp, IntoOperand, Intrinsic, Let, PrimExpr, binary};

/// What the code generators compile for.
#[derive(Clone, Copy)]
pub(super) struct Cpu {
    /// How products are added: fused where the CPU is known to have the instruction, because a code generator fuses
    /// [`Intrinsic::FMulAdd`] only where it finds this faster.
    pub(super) mul_add: Intrinsic,
    /// Lanes of the vectors for which the CPU has an instruction for [`Intrinsic::Ldexp`]; 0 if there are none.
    pub(super) ldexp_lanes: u16,
}

/// A computation in steps. A step has a name and is evaluated once.
pub(super) struct Steps {
    dtype: DataType,
    cpu: Cpu,
    lets: Vec<(Var, PrimExpr)>,
}

impl Steps {
    /// `function` of `x`, for `cpu`.
    pub(super) fn expand(
        x: &PrimExpr,
        cpu: Cpu,
        function: impl FnOnce(&mut Steps, &PrimExpr) -> PrimExpr,
    ) -> PrimExpr {
        let mut steps = Steps { dtype: x.dtype(), cpu, lets: Vec::new() };
        let x = steps.step("x", x.clone());
        let result = function(&mut steps, &x);
        steps
            .lets
            .into_iter()
            .rev()
            .fold(result, |body, (var, value)| PrimExpr::Let(Arc::new(Let { var, value, body })))
    }

    /// A name for `value`.
    pub(super) fn step(&mut self, name: &str, value: PrimExpr) -> PrimExpr {
        let var = Var::prim(name, value.dtype());
        let name = PrimExpr::from(&var);
        self.lets.push((var, value));
        name
    }

    /// `value` in all lanes.
    pub(super) fn number(&self, value: f32) -> PrimExpr {
        PrimExpr::float(f64::from(value), DataType::F32).broadcast(self.dtype.lanes())
    }

    /// The integer `value` in all lanes.
    pub(super) fn int(&self, value: i32) -> PrimExpr {
        i64::from(value).into_operand(self.ints())
    }

    fn ints(&self) -> DataType {
        DataType::I32.with_lanes(self.dtype.lanes())
    }

    /// `a * b + c`
    pub(super) fn mul_add(&self, a: &PrimExpr, b: &PrimExpr, c: PrimExpr) -> PrimExpr {
        PrimExpr::call(self.cpu.mul_add, [a.clone(), b.clone(), c], self.dtype)
    }

    /// The polynomial with these coefficients, from the highest power, at `x`.
    pub(super) fn polynomial(&self, coefficients: &[f32], x: &PrimExpr) -> PrimExpr {
        let sum = coefficients.iter().map(|&term| self.number(term));
        sum.reduce(|sum, term| self.mul_add(&sum, x, term)).unwrap_or_else(|| self.number(0.0))
    }

    /// The bits of `x`, as integers.
    pub(super) fn bits(&self, x: &PrimExpr) -> PrimExpr {
        PrimExpr::call(Intrinsic::Reinterpret, [x.clone()], self.ints())
    }

    /// The floats that have these bits.
    pub(super) fn float(&self, bits: PrimExpr) -> PrimExpr {
        PrimExpr::call(Intrinsic::Reinterpret, [bits], self.dtype)
    }

    /// `2^n`, for the integer `n` from -126 to 127.
    pub(super) fn power_of_two(&mut self, n: PrimExpr) -> PrimExpr {
        let bits = binary(BinaryOp::Shl, n + self.int(127), self.int(23));
        self.step("p", self.float(bits))
    }

    /// `x * 2^n`, rounded once, for `x` from 0.5 to 2 or NaN and the integer `n` from -252 to 254.
    pub(super) fn scale(&mut self, x: PrimExpr, n: PrimExpr) -> PrimExpr {
        if self.dtype.lanes() == self.cpu.ldexp_lanes {
            return PrimExpr::call(Intrinsic::Ldexp, [x, n], self.dtype);
        }
        // The product with the first power is exact. Both together may be subnormal or beyond the range of floats.
        let half = binary(BinaryOp::Shr, n.clone(), self.int(1));
        let half = self.step("h", half);
        let first = self.power_of_two(half.clone());
        let second = self.power_of_two(n - half);
        x * first * second
    }

    /// The smaller of `x` and `limit`; NaN stays NaN.
    pub(super) fn at_most(&mut self, x: PrimExpr, limit: f32) -> PrimExpr {
        let limit = self.number(limit);
        let value = x.clone().greater(limit.clone()).select(limit, x);
        self.step("c", value)
    }

    /// The greater of `x` and `limit`; NaN stays NaN.
    pub(super) fn at_least(&mut self, x: PrimExpr, limit: f32) -> PrimExpr {
        let limit = self.number(limit);
        let value = x.clone().less(limit.clone()).select(limit, x);
        self.step("c", value)
    }

    /// `|x|`
    pub(super) fn magnitude(&mut self, x: &PrimExpr) -> PrimExpr {
        let bits = binary(BinaryOp::BitAnd, self.bits(x), self.int(i32::MAX));
        self.step("a", self.float(bits))
    }

    /// `-|x|`
    pub(super) fn negative(&mut self, x: &PrimExpr) -> PrimExpr {
        let bits = binary(BinaryOp::BitOr, self.bits(x), self.int(i32::MIN));
        self.step("a", self.float(bits))
    }

    /// The magnitude of `x` with the sign of `sign`.
    pub(super) fn copy_sign(&self, x: &PrimExpr, sign: &PrimExpr) -> PrimExpr {
        let magnitude = binary(BinaryOp::BitAnd, self.bits(x), self.int(i32::MAX));
        let sign = binary(BinaryOp::BitAnd, self.bits(sign), self.int(i32::MIN));
        self.float(binary(BinaryOp::BitOr, magnitude, sign))
    }
}
