//! Updates of two elements at once, in any order of the terms: position and value of an extreme, maximum and scaled sum.
//!
//! The body of such a block computes both values before it stores one:
//!
//! ```text
//! let v_i = select(value[r] > x[r, k] | .., index[r], k)
//! let v_v = select(value[r] > x[r, k] | .., value[r], x[r, k])
//! index[r] = v_i
//! value[r] = v_v
//! ```
//!
//! TVM counterpart: `CommReducer` with several values.

use rustc_hash::FxHashMap;

use super::update::loads_buffer;
use crate::arith::{Analyzer, same};
use crate::ir::VarId;
use crate::tir::{BinaryOp, BufferStore, Intrinsic, PrimExpr, Stmt, any_expr, substitute_expr};

/// An operation on pairs that is associative and commutative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairOp {
    /// Position and value of the largest or smallest element. NaN wins over numbers; among equals the first position wins, or
    /// the last one.
    ArgExtreme { largest: bool, last: bool },
    /// The maximum `m` of elements, and the sum of `exp(x - m)` over them, which count 1 each. Where `m` is not finite, the sum
    /// has no meaning.
    ScaledSum,
}

impl PairOp {
    const ALL: [PairOp; 5] = [
        PairOp::ArgExtreme { largest: true, last: false },
        PairOp::ArgExtreme { largest: true, last: true },
        PairOp::ArgExtreme { largest: false, last: false },
        PairOp::ArgExtreme { largest: false, last: true },
        PairOp::ScaledSum,
    ];

    /// The combination of two pairs.
    pub(crate) fn combine(self, a: [&PrimExpr; 2], b: [&PrimExpr; 2]) -> [PrimExpr; 2] {
        let ([a0, a1], [b0, b1]) = (a.map(PrimExpr::clone), b.map(PrimExpr::clone));
        match self {
            PairOp::ArgExtreme { largest, last } => {
                let is_float = a1.dtype().is_float();
                let better =
                    if largest { a1.clone().greater(b1.clone()) } else { a1.clone().less(b1.clone()) };
                let before = if last { a0.clone().greater(&b0) } else { a0.clone().less(&b0) };
                let nan = |v: &PrimExpr| v.clone().not_equal(v);
                let (mut keep, mut tie) = (better, a1.clone().equal(&b1));
                if is_float {
                    tie = tie.or(nan(&a1).and(nan(&b1)));
                    keep = keep.or(nan(&a1).and(!nan(&b1)));
                }
                let keep = keep.or(tie.and(before));
                [keep.clone().select(a0, b0), keep.select(a1, b1)]
            }
            PairOp::ScaledSum => {
                let one = PrimExpr::float(1.0, a0.dtype());
                let distance = (a0.clone() - b0.clone()).unary(Intrinsic::Abs);
                // Of two infinities the distance is NaN.
                let equal = a0.clone().equal(&b0);
                let scale = equal.select(one, (-distance).unary(Intrinsic::Exp));
                let grows = b0.clone().greater(&a0);
                let smaller = grows.clone().select(a1.clone(), b1.clone());
                [a0.max(b0), smaller * scale + grows.select(b1, a1)]
            }
        }
    }

    /// The pair that `b` must be if `values` are `a` combined with `b`.
    fn other(self, a: [&PrimExpr; 2], values: &[PrimExpr; 2]) -> Option<[PrimExpr; 2]> {
        let chosen = |value: &PrimExpr, own: &PrimExpr| match value {
            PrimExpr::Select(it) if same(&it.true_value, own) => Some(it.false_value.clone()),
            _ => None,
        };
        match self {
            PairOp::ArgExtreme { .. } => Some([chosen(&values[0], a[0])?, chosen(&values[1], a[1])?]),
            PairOp::ScaledSum => {
                let (BinaryOp::Max, first, second) = operands(&values[0])? else { return None };
                let value = if same(first, a[0]) { second } else { first };
                let (BinaryOp::Add, scaled, _) = operands(&values[1])? else { return None };
                let (BinaryOp::Mul, smaller, _) = operands(scaled)? else { return None };
                Some([value.clone(), chosen(smaller, a[1])?])
            }
        }
    }
}

fn operands(expr: &PrimExpr) -> Option<(BinaryOp, &PrimExpr, &PrimExpr)> {
    match expr {
        PrimExpr::Binary(it) => Some((it.op, &it.a, &it.b)),
        _ => None,
    }
}

/// A block body that combines a pair of elements with a pair of terms.
pub(crate) struct PairUpdate<'a> {
    pub(crate) op: PairOp,
    pub(crate) stores: [&'a BufferStore; 2],
    pub(crate) terms: [PrimExpr; 2],
}

/// The update of a pair that `body` is, whose terms read neither buffer.
pub(crate) fn pair_update(body: &Stmt) -> Option<PairUpdate<'_>> {
    let Stmt::SeqStmt(steps) = body else { return None };
    let mut bound: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
    let mut stores: Vec<&BufferStore> = Vec::new();
    for step in steps.iter() {
        match step {
            Stmt::Bind(it) if stores.is_empty() => {
                bound.insert(it.var.id(), substitute_expr(&it.value, &bound));
            }
            Stmt::BufferStore(store) if store.predicate.is_none() => stores.push(store),
            _ => return None,
        }
    }
    let [first, second] = stores[..] else { return None };
    if first.buffer == second.buffer || uses_bound(first, &bound) || uses_bound(second, &bound) {
        return None;
    }
    // What is stored is named before: the first store changes none of it.
    let value = |store: &BufferStore| bound.get(&store.value.as_var()?.id()).cloned();
    let values = [value(first)?, value(second)?];
    let elements = [first, second].map(|it| it.buffer.load(it.indices.clone()));
    let of_pair = |expr: &PrimExpr| loads_buffer(expr, &first.buffer) || loads_buffer(expr, &second.buffer);
    let at = elements.each_ref();
    let analyzer = Analyzer::new();
    let equal = |a: &PrimExpr, b: &PrimExpr| same(a, b) || same(&analyzer.simplify(a), &analyzer.simplify(b));
    PairOp::ALL.into_iter().find_map(|op| {
        let terms = op.other(at, &values)?;
        let want = op.combine(at, terms.each_ref());
        let fits = values.iter().zip(&want).all(|(a, b)| equal(a, b)) && !terms.iter().any(of_pair);
        fits.then(|| PairUpdate { op, stores: [first, second], terms })
    })
}

/// True if an index of `store` is computed from what the body names.
fn uses_bound(store: &BufferStore, bound: &FxHashMap<VarId, PrimExpr>) -> bool {
    let named = |it: &PrimExpr| it.as_var().is_some_and(|var| bound.contains_key(&var.id()));
    store.indices.iter().any(|index| any_expr(index, &mut |it| named(it)))
}
