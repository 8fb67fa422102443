//! Copies of narrow operands whose words are contiguous in the operand. Compilers turn the loads of the parts of a word into one, so
//! a product that loads single words needs no copy. Else threads run along the outer axes, and the inner loop stays as it is.

use super::parallel;
use crate::dlight::Rule;
use crate::dlight::analysis::{BlockInfo, Stride, stride};
use crate::target::Machine;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::{Intrinsic, PrimCallee, PrimExpr, any_expr};

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
    if inlined(s, info)? {
        return Ok(Some("neighbours to a word, where they are used".into()));
    }
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    parallel(s, info, &loops[..inner])?;
    Ok(Some("neighbours to a word".into()))
}

/// Computes the words inside of the product, if it is their only reader and each word has all of its parts.
fn inlined(s: &mut Schedule, info: &BlockInfo) -> Result<bool, ScheduleError> {
    let guards = |it: &PrimExpr| matches!(it, PrimExpr::Call(call) if call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse));
    let whole = info.store.as_ref().is_some_and(|store| !any_expr(&store.value, &mut |it| guards(it)));
    if !whole || !info.only_reader(s).is_some_and(|reader| reader.multiplies_words()) {
        return Ok(false);
    }
    let block = s.block(&info.name)?;
    s.compute_inline(block)?;
    Ok(true)
}
