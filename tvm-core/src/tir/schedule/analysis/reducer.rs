//! What a reduction computes: an operation, its identity, where it starts, and what it adds in each iteration.
//!
//! TVM counterpart: `CommReducer`.

use tvm_runtime::DataType;

use crate::arith::same;
use crate::tir::analysis::update;
use crate::tir::{BinaryOp, Block, BufferStore, PrimExpr};

/// What a reduction computes: `init` once, then `store` with `op` and `term` in each iteration.
pub(in crate::tir) struct Reducer<'a> {
    pub(in crate::tir) store: &'a BufferStore,
    pub(in crate::tir) op: BinaryOp,
    pub(in crate::tir) term: &'a PrimExpr,
    /// The value from which a part of the terms starts.
    pub(in crate::tir) identity: PrimExpr,
    /// The value from which the reduction starts.
    pub(in crate::tir) init: &'a PrimExpr,
}

impl Reducer<'_> {
    /// The reduction of `block`: an init and one update of the same element, in any order of the terms.
    ///
    /// # Errors
    /// What `block` does instead, as the predicate of a sentence.
    pub(in crate::tir) fn of(block: &Block) -> Result<Reducer<'_>, String> {
        let Some((store, (op, term))) =
            super::single_store(block).and_then(|store| Some((store, update(store)?)))
        else {
            return Err("is more than one update like `c = c + x`".into());
        };
        let same_place = |init: &BufferStore| {
            init.buffer == store.buffer
                && init.indices.iter().zip(store.indices.iter()).all(|(a, b)| same(a, b))
        };
        let init = block.init.as_ref().and_then(|init| init.as_buffer_store()).map(|init| &**init);
        let Some(init) = init.filter(|init| same_place(init)) else {
            return Err("has an init that is not one store to the element of its update".into());
        };
        let buffer = &store.buffer;
        if !block.alloc_buffers.is_empty() {
            return Err(format!("allocates a buffer, or `{}` has a second name", buffer.name));
        }
        match identity(op, buffer.dtype, &init.value) {
            Some(identity) => Ok(Reducer { store, op, term, identity, init: &init.value }),
            None => Err(format!("combines by {}, whose identity is not known", op.name())),
        }
    }
}

/// The value that `op` combines with any other value to that value. For sums of floats it is -0, or 0 if the reduction
/// starts at 0: then no result is -0.
fn identity(op: BinaryOp, dtype: DataType, init: &PrimExpr) -> Option<PrimExpr> {
    match op {
        _ if dtype.lanes() != 1 => None,
        BinaryOp::Add if dtype.is_bool() => None,
        BinaryOp::Add if dtype.is_float() => match init {
            PrimExpr::FloatImm(it) if it.value.to_bits() == 0 => Some(init.clone()),
            _ => Some(PrimExpr::float(-0.0, dtype)),
        },
        BinaryOp::Add => Some(PrimExpr::int(0, dtype)),
        BinaryOp::Mul => Some(PrimExpr::constant(1.0, dtype)),
        BinaryOp::Min => Some(limit(dtype, true)),
        BinaryOp::Max => Some(limit(dtype, false)),
        BinaryOp::And => Some(PrimExpr::bool(true)),
        BinaryOp::Or => Some(PrimExpr::bool(false)),
        BinaryOp::BitAnd if dtype.is_int() => Some(PrimExpr::int(-1, dtype)),
        BinaryOp::BitAnd if !dtype.is_float() => Some(limit(dtype, true)),
        BinaryOp::BitOr | BinaryOp::BitXor if !dtype.is_float() => Some(PrimExpr::int(0, dtype)),
        BinaryOp::Sub
        | BinaryOp::Div
        | BinaryOp::Mod
        | BinaryOp::FloorDiv
        | BinaryOp::FloorMod
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => None,
    }
}

/// The largest or the smallest value of `dtype`; infinities of floats.
fn limit(dtype: DataType, largest: bool) -> PrimExpr {
    let unused = 64 - u32::from(dtype.bits());
    match (dtype.is_float(), dtype.is_int(), largest) {
        (true, _, _) => PrimExpr::float(if largest { f64::INFINITY } else { f64::NEG_INFINITY }, dtype),
        (_, true, _) => PrimExpr::int((if largest { i64::MAX } else { i64::MIN }) >> unused, dtype),
        (_, _, false) => PrimExpr::int(0, dtype),
        _ if dtype.is_bool() => PrimExpr::bool(true),
        // The bit pattern of all ones.
        _ => PrimExpr::int((u64::MAX >> unused) as i64, dtype),
    }
}
