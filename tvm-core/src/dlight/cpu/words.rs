//! Copies of narrow operands whose words are contiguous in the operand. Compilers turn the loads of the parts of a word into one, so
//! a product that loads single words needs no copy. Else threads run along the outer axes, and the inner loop stays as it is.

use std::sync::Arc;

use super::{parallel, skinny};
use crate::dlight::Rule;
use crate::dlight::analysis::{BlockInfo, Stride, multiplies_words, stride};
use crate::target::Machine;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::{BlockRealize, Intrinsic, PrimCallee, PrimExpr, any_expr};

pub(super) const RULE: Rule = Rule { name: "words", why: "products take narrow elements in words", apply };

fn apply(s: &mut Schedule, info: &BlockInfo, _: &Machine) -> Result<Option<String>, ScheduleError> {
    let Some(inner) = info.contiguous_axis().filter(|&axis| axis + 1 == info.axes.len()) else {
        return Ok(None);
    };
    let var = &info.axes[inner].var;
    let bytes = |bits: u8| info.loads.iter().all(|load| load.buffer.dtype.bits() == bits);
    let strided = info.loads.iter().all(|load| stride(&load.indices, var) == Stride::Few);
    let whole = bytes(8) && info.loads.len() >= 4 || bytes(16) && info.loads.len() >= 2;
    if info.reduces || !whole || !strided {
        return Ok(None);
    }
    if inlined(s, info, inner)? {
        return Ok(Some("neighbours to a word, where they are used".into()));
    }
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    parallel(s, info, &loops[..inner])?;
    Ok(Some("neighbours to a word".into()))
}

/// Computes the words inside of the product, if it is their only reader and each word has all of its parts. Few rows are copied in any
/// case, to where their terms are contiguous.
fn inlined(s: &mut Schedule, info: &BlockInfo, inner: usize) -> Result<bool, ScheduleError> {
    let is_guard = PrimCallee::Intrinsic(Intrinsic::IfThenElse);
    let guarded = |it: &PrimExpr| matches!(it, PrimExpr::Call(call) if call.callee == is_guard);
    let Some(store) = &info.store else { return Ok(false) };
    let rows = info.axes[..inner].iter().try_fold(1i64, |rows, axis| rows.checked_mul(info.most(axis)?));
    let few = rows.is_some_and(|rows| rows <= skinny::MAX_ROWS);
    if few || any_expr(&store.value, &mut |it| guarded(it)) {
        return Ok(false);
    }
    let reads = |it: &&Arc<BlockRealize>| it.block.reads.iter().any(|read| read.buffer == store.buffer);
    let mut readers = s.state().leaf_blocks().iter().filter(reads);
    let (Some(reader), None) = (readers.next(), readers.next()) else { return Ok(false) };
    let product = reader.block.body.as_buffer_store().is_some_and(|it| multiplies_words(&it.value));
    if product {
        let block = s.block(&info.name)?;
        s.compute_inline(block)?;
    }
    Ok(product)
}
