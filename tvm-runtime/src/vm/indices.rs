//! The instruction that checks tensors of indices, so that no invalid index silently selects another element.
//!
//! TVM counterpart: none; its kernels clip, wrap or read out of bounds.

use super::capture::uncapturable;
use super::instruction::Reg;
use super::interp::{PLAIN, Run};
use crate::device::{Device, unrecorded};
use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::tensor::{Shape, Tensor};

impl Run<'_> {
    /// Checks the indices in `src`: the index at position `k` of the last axis is checked against extent number `k`
    /// modulo `len`, where `len` is the number of extents in `extents`.
    pub(super) fn check_indices(&mut self, src: Reg, extents: Reg, op: &str) -> Result<(), RuntimeError> {
        let indices = self.get(src)?.try_tensor(op)?.clone();
        let extents = Shape::from(self.get(extents)?.try_shape(op)?);
        let on_host = indices.device() == Device::cpu();
        let vm = self.vm();
        if let Some((log, place)) = self.capture().filter(|_| !on_host) {
            if !log.checks(&indices, &extents, op, place) && !vm.is_constant(&indices) {
                return Err(uncapturable(format!(
                    "the host checks indices that the program computes\n  help: {PLAIN}"
                )));
            }
            return check(&unrecorded(|| indices.to_device(Device::cpu()))?, &extents, op);
        }
        check(&self.moved(indices, Device::cpu())?, &extents, op)
    }
}

/// Checks indices on the host against `extents`, for the operator `op`.
pub(super) fn check(indices: &Tensor, extents: &[i64], op: &str) -> Result<(), RuntimeError> {
    for (column, &extent) in extents.iter().enumerate() {
        if let Some(index) = outside(indices, column, extents.len(), extent)? {
            return Err(RuntimeError::IndexOutOfRange { op: op.into(), index, extent });
        }
    }
    Ok(())
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

/// Of every `step`-th index, the first that is not in `-extent..extent`.
fn first_outside<T: Copy>(
    indices: &[T],
    step: usize,
    extent: i64,
    number: impl Fn(T) -> i128,
) -> Option<i64> {
    let numbers = indices.iter().map(|it| number(*it));
    // The usual case is that all are in `0..extent`: then no number and no distance to the last one is negative. The
    // loop keeps their signs, without a branch; it is vectorised if `step` is 1.
    let last = extent.max(0) - 1;
    let signs = |signs: i64, it: i128| signs | (it as i64) | last.wrapping_sub(it as i64);
    let signs =
        if step == 1 { numbers.clone().fold(0, signs) } else { numbers.clone().step_by(step).fold(0, signs) };
    if signs >= 0 {
        return None;
    }
    let first = numbers.step_by(step).find(|it| !(-i128::from(extent)..i128::from(extent)).contains(it))?;
    Some(i64::try_from(first).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_index_outside_is_found() {
        let first = |indices: &[i64], step, extent| first_outside(indices, step, extent, i128::from);
        let cases: &[(&[i64], usize, i64, Option<i64>)] = &[
            (&[], 1, 0, None),
            (&[0, 2, 1], 1, 3, None),
            (&[-3, 2, -1], 1, 3, None),
            (&[0, 3, 4], 1, 3, Some(3)),
            (&[0, -4, 4], 1, 3, Some(-4)),
            (&[0], 1, 0, Some(0)),
            (&[i64::MAX, 0], 1, 3, Some(i64::MAX)),
            (&[i64::MIN], 1, i64::MAX, Some(i64::MIN)),
            (&[i64::MAX - 1, -i64::MAX], 1, i64::MAX, None),
            (&[0, 9, 2, 9], 2, 3, None),
            (&[0, 9, 3, 9], 2, 3, Some(3)),
        ];
        for (indices, step, extent, want) in cases {
            assert_eq!(first(indices, *step, *extent), *want, "{indices:?} by {step} in {extent}");
        }
        let large = |index: u64| first_outside(&[index], 1, 3, i128::from);
        assert_eq!((large(u64::MAX), large(1 << 63), large(2)), (Some(i64::MAX), Some(i64::MAX), None));
    }
}
