//! The instruction that checks tensors of indices, so that no invalid index silently selects another element.
//!
//! TVM counterpart: none; its kernels clip, wrap or read out of bounds.

use super::instruction::Reg;
use super::interp::Run;
use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::tensor::Tensor;

impl Run<'_> {
    /// Checks the indices in `src`: the index at position `k` of the last axis is checked against extent number `k`
    /// modulo `len`, where `len` is the number of extents in `extents`.
    pub(super) fn check_indices(&self, src: Reg, extents: Reg, op: &str) -> Result<(), RuntimeError> {
        let (indices, extents) = (self.get(src)?.try_tensor(op)?, self.get(extents)?.try_shape(op)?);
        for (column, &extent) in extents.iter().enumerate() {
            if let Some(index) = outside(indices, column, extents.len(), extent)? {
                return Err(RuntimeError::IndexOutOfRange { op: op.into(), index, extent });
            }
        }
        Ok(())
    }
}

/// Of every `step`-th index from `start` on, the first that is outside an axis of extent `extent`.
fn outside(indices: &Tensor, start: usize, step: usize, extent: i64) -> Result<Option<i64>, RuntimeError> {
    macro_rules! by_type {
        ($($ty:ident)*) => {
            match indices.dtype() {
                $(dtype if dtype == <$ty as Element>::DTYPE => {
                    let indices = indices.as_slice::<$ty>()?.get(start..).unwrap_or_default();
                    Ok(first_outside(indices, step, extent, |it| i128::from(it)))
                })*
                _ => Err(RuntimeError::BadData("indices that are not integers")),
            }
        };
    }
    by_type!(i64 i32 i16 i8 u64 u32 u16 u8)
}

fn first_outside<T: Copy + Ord>(
    indices: &[T],
    step: usize,
    extent: i64,
    number: impl Fn(T) -> i128,
) -> Option<i64> {
    let extent = i128::from(extent);
    let bad = |it: T| !(-extent..extent).contains(&number(it));
    // All indices are inside if the smallest and the largest are; this keeps branches out of the loop.
    let all_inside = |indices: &[T]| {
        let ends = (indices.iter().copied().min(), indices.iter().copied().max());
        !ends.0.is_some_and(bad) && !ends.1.is_some_and(bad)
    };
    if step == 1 && all_inside(indices) {
        return None;
    }
    let first = indices.iter().step_by(step).copied().find(|it| bad(*it))?;
    Some(i64::try_from(number(first)).unwrap_or(i64::MAX))
}
