//! One number for the lanes of a vector.
//!
//! Lanes are combined in halves, as code generators do: `lane l` with `lane l + n / 2`, until one is left.

use tvm_runtime::DataType;

use super::access::each_lane;
use super::error::InterpError;
use super::machine::{FloatFn, IntFn, Machine};
use super::ops::{Code, float_binary, int_binary};
use super::stmt::Compiler;
use crate::ir::Var;
use crate::tir::{BinaryOp, PrimExpr};

impl Compiler {
    /// Compiles the combination of the lanes of `vector` by `op`.
    pub(super) fn reduced(&mut self, op: BinaryOp, vector: &PrimExpr) -> Result<Code, InterpError> {
        let dtype = vector.dtype();
        let lanes = usize::from(dtype.lanes());
        let value: IntFn = match self.expr(vector)? {
            Code::Int(f) => f,
            Code::Float(f) => Box::new(move |m| Ok(f(m)?.to_bits() as i64)),
        };
        let slot = self.new_slot(&Var::prim("lanes", dtype));
        let mut steps: Vec<(usize, IntFn)> = Vec::new();
        let mut half = lanes / 2;
        while half > 0 {
            let step = self.step(op, dtype.scalar(), slot, half);
            let Some(step) = step else {
                return Err(self.malformed(format!("{op:?}"), "lanes have no such operation"));
            };
            steps.push((half, step));
            half /= 2;
        }
        let reduce = move |m: &mut Machine<'_>| {
            let values = each_lane(m, lanes, &value)?;
            m.slots[slot..slot + lanes].copy_from_slice(&values);
            for (half, step) in &steps {
                let values = each_lane(m, *half, step)?;
                m.slots[slot..slot + half].copy_from_slice(&values);
            }
            Ok(m.slots[slot])
        };
        Ok(match dtype.is_float() {
            true => Code::Float(Box::new(move |m| Ok(f64::from_bits(reduce(m)? as u64)))),
            false => Code::Int(Box::new(reduce)),
        })
    }

    /// The combination of a lane and the one that is `half` lanes behind it, of the vector in the slots from `slot`.
    fn step(&self, op: BinaryOp, dtype: DataType, slot: usize, half: usize) -> Option<IntFn> {
        if dtype.is_float() {
            let lane =
                |at: usize| -> FloatFn { Box::new(move |m| Ok(f64::from_bits(m.slots[at + m.lane] as u64))) };
            let Code::Float(f) = float_binary(op, dtype, lane(slot), lane(slot + half))? else { return None };
            return Some(Box::new(move |m| Ok(f(m)?.to_bits() as i64)));
        }
        let lane = |at: usize| -> IntFn { Box::new(move |m| Ok(m.slots[at + m.lane])) };
        Some(int_binary(op, dtype, lane(slot), lane(slot + half), &self.span))
    }
}
