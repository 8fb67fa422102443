//! Padding of tensors.

use super::transform::lazy;
use crate::te::{TensorExpr, compute};
use crate::tir::PrimExpr;

/// The values that pad a tensor.
#[derive(Clone, Debug)]
pub enum PadMode {
    /// A constant value.
    Constant(PrimExpr),
    /// The tensor mirrored at its first and last element, which are not repeated.
    Reflect,
    /// The first or last element, repeated.
    Replicate,
    /// The whole tensor, repeated.
    Circular,
}

/// `x` with `before` elements added at the start and `after` elements at the end of each axis; negative counts remove
/// elements.
pub fn pad(name: &str, x: &TensorExpr, before: &[i64], after: &[i64], mode: &PadMode) -> TensorExpr {
    let shape: Vec<PrimExpr> = (x.shape().iter().zip(before).zip(after))
        .map(|((extent, before), after)| crate::arith::dims::simplify_dim(&(extent + (before + after))))
        .collect();
    compute(name, shape, &[x], |i| {
        let mut at = i.to_vec();
        let mut inside = PrimExpr::bool(true);
        for (axis, index) in at.iter_mut().enumerate() {
            if (before[axis], after[axis]) == (0, 0) {
                continue;
            }
            let (extent, shifted) = (&x.shape()[axis], &*index - before[axis]);
            *index = match mode {
                PadMode::Constant(_) => {
                    if before[axis] > 0 {
                        inside = inside.and(shifted.clone().greater_equal(0));
                    }
                    if after[axis] > 0 {
                        inside = inside.and(shifted.clone().less(extent));
                    }
                    shifted
                }
                PadMode::Replicate => shifted.max(0).min(extent - 1i64),
                PadMode::Circular => shifted.floormod(extent),
                PadMode::Reflect => {
                    // One period is the tensor forwards, then backwards without its first and last element.
                    let period = (extent * 2i64 - 2i64).max(1);
                    let phase = shifted.floormod(&period);
                    phase.clone().min(period - phase)
                }
            };
        }
        match mode {
            PadMode::Constant(value) => lazy(inside, x.at(at), value.clone()),
            PadMode::Reflect | PadMode::Replicate | PadMode::Circular => x.at(at),
        }
    })
}
