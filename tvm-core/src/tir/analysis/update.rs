//! Stores that update an element: `c[i] = c[i] + term`, also as an atomic operation.

use tvm_runtime::DataType;

use crate::arith::same;
use crate::tir::{Binary, BinaryOp, Buffer, BufferStore, PrimCallee, PrimExpr, any_expr};

/// Operator and term of a store `element = element op term` or `element = term op element`, whose term does not read the
/// buffer.
pub(crate) fn update(store: &BufferStore) -> Option<(BinaryOp, &PrimExpr)> {
    let PrimExpr::Binary(value) = &store.value else { return None };
    let Binary { op, a, b } = &**value;
    let term = if loads_element(a, store) {
        b
    } else if loads_element(b, store) {
        a
    } else {
        return None;
    };
    (!loads_buffer(term, &store.buffer)).then_some((*op, term))
}

/// Operator and term of a store `element = atomic_op(element, term)`. That the element is the one that is stored,
/// [`verify_source`](crate::tir::transform::verify_source) checks.
pub fn atomic_update(store: &BufferStore) -> Option<(BinaryOp, &PrimExpr)> {
    let PrimExpr::Call(call) = &store.value else { return None };
    let PrimCallee::Intrinsic(intrinsic) = call.callee else { return None };
    match (intrinsic.atomic_op()?, &*call.args) {
        (op, [PrimExpr::BufferLoad(load), term]) if load.buffer == store.buffer => Some((op, term)),
        _ => None,
    }
}

/// True if `store` is an atomic update of the element that it writes.
pub(in crate::tir) fn is_own_update(store: &BufferStore) -> bool {
    let element = match &store.value {
        PrimExpr::Call(call) if atomic_update(store).is_some() => call.args.first(),
        _ => None,
    };
    store.predicate.is_none() && element.is_some_and(|it| loads_element(it, store))
}

/// True if `expr` is the element that `store` writes.
pub(in crate::tir) fn loads_element(expr: &PrimExpr, store: &BufferStore) -> bool {
    match expr {
        PrimExpr::BufferLoad(load) => {
            load.buffer == store.buffer && same_indices(&load.indices, &store.indices)
        }
        _ => false,
    }
}

/// True if two accesses of one buffer are at the same place.
pub(crate) fn same_indices(a: &[PrimExpr], b: &[PrimExpr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// True if `expr` reads an element of `buffer`.
pub(in crate::tir) fn loads_buffer(expr: &PrimExpr, buffer: &Buffer) -> bool {
    any_expr(expr, &mut |it| matches!(it, PrimExpr::BufferLoad(load) if load.buffer == *buffer))
}

/// The largest or the smallest value of `dtype`; infinities of floats.
pub(crate) fn limit(dtype: DataType, largest: bool) -> PrimExpr {
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
