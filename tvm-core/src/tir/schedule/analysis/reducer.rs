//! What a reduction computes: an operation, its identity, where it starts, and what it adds in each iteration.
//!
//! TVM counterpart: `CommReducer`.

use tvm_runtime::DataType;

use crate::arith::same;
use crate::ir::{Span, Var};
use crate::tir::analysis::{PairOp, limit, pair_update, update};
use crate::tir::{BinaryOp, Bind, Block, Buffer, BufferStore, PrimExpr, Stmt, binary};

/// What a reduction computes: the `init` of each part once, then the stores, with the combination of elements and terms, in each
/// iteration.
pub(in crate::tir) struct Reducer<'a> {
    /// One for each buffer; at least one.
    pub(in crate::tir) parts: Vec<Part<'a>>,
    op: Op,
}

/// One of the values that a reduction computes together.
pub(in crate::tir) struct Part<'a> {
    pub(in crate::tir) store: &'a BufferStore,
    pub(in crate::tir) term: PrimExpr,
    /// The value from which a part of the terms starts.
    pub(in crate::tir) identity: PrimExpr,
    /// The value from which the reduction starts.
    pub(in crate::tir) init: &'a PrimExpr,
}

#[derive(Clone, Copy)]
enum Op {
    Single(BinaryOp),
    Pair(PairOp),
}

impl Reducer<'_> {
    /// The reduction of `block`: an init and one update of the same elements, in any order of the terms.
    ///
    /// # Errors
    /// What `block` does instead, as the predicate of a sentence.
    pub(in crate::tir) fn of(block: &Block) -> Result<Reducer<'_>, String> {
        let (op, updates): (Op, Vec<(&BufferStore, PrimExpr)>) = if let Some(store) =
            super::single_store(block)
            && let Some((op, term)) = update(store)
        {
            (Op::Single(op), vec![(store, term.clone())])
        } else if let Some(pair) = pair_update(&block.body) {
            (Op::Pair(pair.op), pair.stores.into_iter().zip(pair.terms).collect())
        } else {
            return Err(
                "is more than one update like `c = c + x`, or than one of a position and a value".into()
            );
        };
        let inits: &[Stmt] = match &block.init {
            Some(Stmt::SeqStmt(steps)) => steps,
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        let inits: Vec<&BufferStore> =
            inits.iter().filter_map(|init| init.as_buffer_store().map(|init| &**init)).collect();
        let same_place = |init: &BufferStore, store: &BufferStore| {
            init.buffer == store.buffer
                && init.indices.iter().zip(store.indices.iter()).all(|(a, b)| same(a, b))
        };
        if inits.len() != updates.len()
            || !inits.iter().zip(&updates).all(|(init, (store, _))| same_place(init, store))
        {
            return Err("has an init that is not one store to each element of its update".into());
        }
        if !block.alloc_buffers.is_empty() {
            let names: Vec<&str> = updates.iter().map(|(store, _)| &*store.buffer.name).collect();
            return Err(format!("allocates a buffer, or `{}` has a second name", names.join("`, `")));
        }
        let mut parts = Vec::new();
        // An extreme of several parts that all start where the whole one does is the same.
        let is_constant = |it: &PrimExpr| matches!(it, PrimExpr::IntImm(_) | PrimExpr::FloatImm(_));
        let starts_anywhere = matches!(op, Op::Pair(PairOp::ArgExtreme { .. }));
        let from_init = starts_anywhere && inits.iter().all(|init| is_constant(&init.value));
        for (at, ((store, term), init)) in updates.into_iter().zip(inits).enumerate() {
            let dtype = store.buffer.dtype;
            let found = match op {
                Op::Single(op) => identity(op, dtype, &init.value),
                Op::Pair(_) if from_init && dtype.lanes() == 1 => Some(init.value.clone()),
                Op::Pair(op) => of_pair(op, at, dtype),
            };
            let Some(identity) = found else {
                return Err(format!("combines by {}, whose identity is not known", op.name()));
            };
            parts.push(Part { store, term, identity, init: &init.value });
        }
        Ok(Reducer { parts, op })
    }

    /// The combination of two values of each part.
    pub(in crate::tir) fn combine(&self, a: &[PrimExpr], b: &[PrimExpr]) -> Vec<PrimExpr> {
        match (self.op, a, b) {
            (Op::Single(op), [a, ..], [b, ..]) => vec![binary(op, a.clone(), b.clone())],
            (Op::Pair(op), [a0, a1], [b0, b1]) => op.combine([a0, a1], [b0, b1]).into(),
            _ => Vec::new(),
        }
    }

    /// True if each part starts from its identity.
    pub(in crate::tir) fn starts_at_identity(&self) -> bool {
        self.parts.iter().all(|part| same(part.init, &part.identity))
    }
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Op::Single(op) => op.name(),
            Op::Pair(PairOp::ArgExtreme { .. }) => "position and value",
            Op::Pair(PairOp::ScaledSum) => "maximum and sum",
        }
    }
}

/// What is at each of `places`.
pub(in crate::tir) fn load_all(places: &[(Buffer, Vec<PrimExpr>)]) -> Vec<PrimExpr> {
    places.iter().map(|(buffer, indices)| buffer.load(indices.clone())).collect()
}

/// Stores `values`, each at its place. All of several values are computed before one is stored.
pub(in crate::tir) fn store_all(
    places: &[(Buffer, Vec<PrimExpr>)],
    values: Vec<PrimExpr>,
    span: &Span,
) -> Vec<Stmt> {
    let store = |(buffer, indices): &(Buffer, Vec<PrimExpr>), value: PrimExpr| -> Stmt {
        let (buffer, indices, span) = (buffer.clone(), indices.clone().into(), span.clone());
        BufferStore { buffer, indices, value, predicate: None, span }.into()
    };
    if let ([place], [value]) = (places, &values[..]) {
        return vec![store(place, value.clone())];
    }
    let named = places.iter().zip(&values);
    let named: Vec<Var> =
        named.map(|((buffer, _), value)| Var::prim(format!("v_{}", buffer.name), value.dtype())).collect();
    let binds = named.iter().zip(values).map(|(var, value)| Bind { var: var.clone(), value }.into());
    let stores = places.iter().zip(&named).map(|(place, var)| store(place, PrimExpr::from(var)));
    binds.chain(stores).collect()
}

/// The value at place `at` of the pair that `op` combines with any other one to that one.
fn of_pair(op: PairOp, at: usize, dtype: DataType) -> Option<PrimExpr> {
    match (op, at) {
        _ if dtype.lanes() != 1 => None,
        (PairOp::ArgExtreme { last, .. }, 0) if dtype.is_int() => Some(limit(dtype, !last)),
        (PairOp::ArgExtreme { .. }, 0) => None,
        (PairOp::ArgExtreme { largest, .. }, _) => Some(limit(dtype, !largest)),
        (PairOp::ScaledSum, 0) if dtype.is_float() => Some(limit(dtype, false)),
        (PairOp::ScaledSum, _) if dtype.is_float() => Some(PrimExpr::float(0.0, dtype)),
        (PairOp::ScaledSum, _) => None,
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
