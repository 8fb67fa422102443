//! `atomic`: a block that updates an element, `y[i] = y[i] + x`, does so atomically, and its loops may be bound to threads
//! whichever elements the iterations update.
//!
//! Legal where the result does not depend on the order of the updates: sums and products of integers, which wrap, and their
//! extremes. The order of sums and products of floats changes the rounding of the result, and that of minima and maxima
//! which zero or which NaN it is; the caller may allow this.
//!
//! TVM counterpart: none; there kernels call `atomic_add` themselves. Halide: `atomic`, whose
//! `override_associativity_test` is `any_order`.

use crate::ir::BlockId;
use crate::tir::analysis::{loads_buffer, loads_element, update};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis, rewrite};
use crate::tir::{BinaryOp, Block, BufferStore, Intrinsic, PrimExpr, Scope};

const NAME: &str = "atomic";

/// Makes the update of block `id` atomic; that of a float only if its order is free (`any_order`).
pub(in crate::tir::schedule) fn atomic(
    state: &mut ScheduleState,
    id: BlockId,
    any_order: bool,
) -> Result<(), ScheduleError> {
    let realize = state.get_block(id)?;
    if analysis::is_atomic_update(realize) {
        return Ok(());
    }
    let block = &realize.block;
    match updated(block, any_order) {
        Ok(store) => {
            let body = rewrite::with_block(&state.func().body, id, |block| Block {
                body: store.into(),
                ..block.clone()
            });
            state.replace_body(body)
        }
        Err(why) => {
            let message = format!("the update of block `{}` cannot be atomic: {why}", block.name);
            let err = ScheduleError::illegal(NAME, message);
            let err = match updated(block, true) {
                Ok(_) => err.help("allow any order (`any_order`) if results may differ from run to run"),
                Err(_) => err,
            };
            Err(err.show(state, &[StmtSRef::Block(id)]))
        }
    }
}

/// The store of `block` as an atomic update, or why there is none.
fn updated(block: &Block, any_order: bool) -> Result<BufferStore, String> {
    let Some(store) = analysis::single_store(block) else { return Err("its body is not one store".into()) };
    let (buffer, dtype) = (&store.buffer, store.buffer.dtype);
    let Some((op, term)) = commutative(store) else {
        return Err(format!(
            "the new element of `{}` is not the old one plus, minus, times, or the minimum or maximum with a term that does not depend on `{}`",
            buffer.name, buffer.name
        ));
    };
    if block.init.is_some() {
        return Err("it has an `init`; separate it (`decompose_reduction`)".into());
    }
    if !block.match_buffers.is_empty() || store.predicate.is_some() {
        return Err("it gives a buffer another name, or masks its store".into());
    }
    if store.indices.iter().any(|index| loads_buffer(index, buffer)) {
        return Err(format!("the place in `{}` depends on `{}`", buffer.name, buffer.name));
    }
    if buffer.scope != Scope::Global {
        return Err(format!("`{}` is in {} memory, not in global memory", buffer.name, buffer.scope.name()));
    }
    let Some(intrinsic) = Intrinsic::atomic(op, dtype) else {
        return Err(format!("elements of {dtype} have no atomic updates, only numbers of 32 and 64 bits do"));
    };
    if dtype.is_float() && !any_order {
        let what = match op {
            BinaryOp::Min | BinaryOp::Max => "which zero or NaN it is",
            _ => "its rounding",
        };
        return Err(format!("the result of {dtype} depends on the order of the updates ({what})"));
    }
    let old = buffer.load(store.indices.to_vec());
    let value = PrimExpr::call(intrinsic, [old, term], dtype);
    Ok(BufferStore { value, ..store.clone() })
}

/// Operation and term of an update whose operation is commutative; `y - x` is `y + (0 - x)`.
fn commutative(store: &BufferStore) -> Option<(BinaryOp, PrimExpr)> {
    let (op, term) = update(store)?;
    match op {
        BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max => Some((op, term.clone())),
        BinaryOp::Sub => {
            let PrimExpr::Binary(value) = &store.value else { return None };
            let dtype = store.buffer.dtype;
            let zero = if dtype.is_float() { PrimExpr::float(0.0, dtype) } else { PrimExpr::int(0, dtype) };
            loads_element(&value.a, store).then(|| (BinaryOp::Add, zero - term.clone()))
        }
        _ => None,
    }
}
