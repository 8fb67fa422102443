//! `storage_align`: the stride of one axis of a buffer that the program allocates becomes congruent to an offset modulo a
//! factor.
//!
//! The block that writes the buffer gets the annotation [`BUFFER_DIM_ALIGN`]; lowering pads the strides, after it has shrunk
//! the buffer to what is used (`AlignStorage`). Accesses do not change.
//!
//! TVM counterpart: `storage_align`.

use crate::ir::BlockId;
use crate::tir::schedule::{BufferArg, ScheduleError, ScheduleState, StmtSRef, rewrite};
use crate::tir::transform::{BUFFER_DIM_ALIGN, DimAlign, LARGEST_FACTOR};

const NAME: &str = "storage_align";

/// Aligns the axis of the buffer `which`, one of those that block `id` writes; a negative axis counts from the end.
pub(in crate::tir::schedule) fn storage_align(
    state: &mut ScheduleState,
    id: BlockId,
    which: &BufferArg,
    [axis, factor, offset]: [i64; 3],
) -> Result<(), ScheduleError> {
    let block = &state.get_block(id)?.block;
    let buffer = which.find(NAME, (&block.name, "writes"), &block.writes)?.buffer.clone();
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &[StmtSRef::Block(id)]));
    let (name, ndim) = (&buffer.name, buffer.ndim());
    let from_start = if axis < 0 { axis.saturating_add(ndim as i64) } else { axis };
    if usize::try_from(from_start).map_or(true, |axis| axis >= ndim) {
        return Err(ScheduleError::argument(NAME, format!("`{name}` has {ndim} axes, and no axis {axis}")));
    }
    let Some(align) = DimAlign::new(from_start, factor, offset, ndim) else {
        let message = format!(
            "expected a factor from 1 to {LARGEST_FACTOR} and an offset below it, got {factor} and {offset}"
        );
        return Err(ScheduleError::argument(NAME, message));
    };
    if !rewrite::is_intermediate(state, &buffer) {
        return refuse(format!("the program does not allocate `{name}`"));
    }
    rewrite::check_plain_layout(NAME, state, id, &buffer)?;
    let Some(at) = block.writes.iter().position(|it| it.buffer == buffer) else {
        return refuse(format!("block `{}` does not write `{name}`", block.name));
    };
    let known = block.annotations.ints(BUFFER_DIM_ALIGN).unwrap_or_default();
    let other = |group: &&[i64]| group[..2] != [at as i64, from_start];
    let new = [at as i64, from_start, align.factor, align.offset];
    let groups: Vec<i64> = known.chunks_exact(4).filter(other).flatten().copied().chain(new).collect();
    state.change_annotations(StmtSRef::Block(id), |annotations| annotations.set(BUFFER_DIM_ALIGN, groups))
}
