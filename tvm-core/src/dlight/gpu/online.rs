//! Maximum and sum of a softmax in one sweep over its rows.
//!
//! ```text
//! for k { m[i] = max(m[i], x[i, k]) }         for k { m[i], s[i] = (m[i], s[i]) and (x[i, k], 1) }
//! for k { s[i] += exp(x[i, k] - m[i]) }
//! ```
//!
//! A pair is a maximum and the sum of the exponentials of the distances to it. When the maximum grows, the sum is scaled
//! ([`PairOp::ScaledSum`]). A row that no memory near the threads holds is then read once less. Where the maximum is not finite, the
//! readers of the sum get what the two sweeps give: NaN, and 0 for no terms.
//!
//! TVM counterpart: none (the online softmax of FlashAttention).

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::arith::same;
use crate::ir::{Var, VarId};
use crate::tir::analysis::{PairOp, same_indices, update, with_access_regions};
use crate::tir::schedule::{Schedule, StmtSRef};
use crate::tir::{
    BinaryOp, Bind, Block, BlockRealize, Buffer, BufferStore, Intrinsic, IterKind, Mutator, PrimCallee,
    PrimExpr, PrimFunc, Stmt, substitute_expr,
};

/// The program of `s` in which the blocks `largest` and `sum` are one block, with the name of `sum`; `None` if they are no such
/// pair.
pub(super) fn merged(s: &Schedule, largest: &str, sum: &str) -> Option<PrimFunc> {
    let leaves = s.state().leaf_blocks();
    let at = |name: &str| leaves.iter().position(|it| &*it.block.name == name);
    let (first, second) = (at(largest)?, at(sum)?);
    let (a, b) = (&leaves[first], &leaves[second]);
    if !same_iterations(s, a, b) {
        return None;
    }
    let pair = Pair::of(a, b)?;
    let uses = |block: &Block, buffer: &Buffer| {
        block.reads.iter().chain(block.writes.iter()).any(|it| it.buffer == *buffer)
    };
    // What is between them would read the maximum too early, and the sum must not be a result itself.
    let between = leaves.get(first + 1..second)?.iter().all(|it| !uses(&it.block, &pair.maximum.buffer));
    let others = leaves.iter().filter(|it| &*it.block.name != sum);
    let total = &pair.total.buffer;
    let only = others.clone().all(|it| it.block.writes.iter().all(|it| it.buffer != *total));
    let is_result = s.func().params.iter().any(|it| it.buffer().is_some_and(|it| it == total));
    // Readers under another name would not get NaN.
    let blocks = s.state().blocks();
    let renamed = blocks.iter().any(|it| it.block.match_buffers.iter().any(|it| it.source.buffer == *total));
    if !between || !only || is_result || renamed {
        return None;
    }
    let mut merge = Merge { pair: &pair, largest, sum };
    let body = merge.mutate_stmt(&s.func().body)?;
    Some(PrimFunc { body, ..s.func().clone() })
}

/// True if both blocks run for the same values of their axes in each iteration of the loops around both.
fn same_iterations(s: &Schedule, a: &BlockRealize, b: &BlockRealize) -> bool {
    let [over_a, over_b] = [a, b].map(|it| s.state().loops_above(StmtSRef::Block(it.block.id)));
    let mut vars = FxHashMap::default();
    let mut own = over_a.iter().zip(&over_b).filter(|(a, b)| a != b);
    let equal = own.all(|(&a, &b)| match (s.state().get_for(a), s.state().get_for(b)) {
        (Ok(a), Ok(b)) => {
            vars.insert(a.loop_var.id(), PrimExpr::from(&b.loop_var));
            a.kind == b.kind && same(&a.min, &b.min) && same(&a.extent, &b.extent)
        }
        _ => false,
    });
    let values = a.iter_values.iter().zip(b.iter_values.iter());
    over_a.len() == over_b.len()
        && equal
        && a.iter_values.len() == b.iter_values.len()
        && values.into_iter().all(|(a, b)| same(&substitute_expr(a, &vars), b))
}

/// A maximum, and the sum of exponentials relative to it.
struct Pair {
    maximum: BufferStore,
    total: BufferStore,
    /// What both reduce, over the axes of the sum.
    term: PrimExpr,
}

impl Pair {
    fn of(largest: &BlockRealize, sum: &BlockRealize) -> Option<Pair> {
        let (a, b) = (&largest.block, &sum.block);
        let (maximum, total) = (a.body.as_buffer_store()?, b.body.as_buffer_store()?);
        let (BinaryOp::Max, of_maximum) = update(maximum)? else { return None };
        let (BinaryOp::Add, of_sum) = update(total)? else { return None };
        let dtype = maximum.buffer.dtype;
        if !dtype.is_float() || dtype.bits() < 32 || total.buffer.dtype != dtype {
            return None;
        }
        // The same axes in the same loops.
        let axes = || a.iter_vars.iter().zip(b.iter_vars.iter());
        let same_axes = a.iter_vars.len() == b.iter_vars.len()
            && axes().all(|(a, b)| {
                a.kind == b.kind && same(&a.dom.min, &b.dom.min) && same(&a.dom.extent, &b.dom.extent)
            });
        let plain = |it: &BlockRealize| it.predicate.is_const(1) && it.block.match_buffers.is_empty();
        let starts = |block: &Block, value: f64| {
            let init = block.init.as_ref().and_then(|it| it.as_buffer_store());
            init.is_some_and(|it| matches!(&it.value, PrimExpr::FloatImm(it) if it.value == value))
        };
        if !same_axes || !plain(largest) || !plain(sum) || !starts(a, f64::NEG_INFINITY) || !starts(b, 0.0) {
            return None;
        }
        let vars: FxHashMap<VarId, PrimExpr> =
            axes().map(|(a, b)| (a.var.id(), PrimExpr::from(&b.var))).collect();
        let term = substitute_expr(of_maximum, &vars);
        let indices: Vec<PrimExpr> = maximum.indices.iter().map(|it| substitute_expr(it, &vars)).collect();
        let PrimExpr::Call(call) = of_sum else { return None };
        let (PrimCallee::Intrinsic(Intrinsic::Exp), [PrimExpr::Binary(distance)]) =
            (&call.callee, &call.args[..])
        else {
            return None;
        };
        let at_maximum = |it: &PrimExpr| {
            matches!(it, PrimExpr::BufferLoad(it)
            if it.buffer == maximum.buffer && same_values(&it.indices, &indices, &sum.block))
        };
        let fits = distance.op == BinaryOp::Sub && same(&distance.a, &term) && at_maximum(&distance.b);
        // Each row has its place, the same one in both.
        let fits = fits
            && same_values(&total.indices, &indices, &sum.block)
            && maximum.buffer.shape.len() == total.buffer.shape.len();
        fits.then(|| {
            let maximum = BufferStore { indices: total.indices.clone(), ..(**maximum).clone() };
            Pair { maximum, total: (**total).clone(), term }
        })
    }

    /// The block of both, from that of the sum.
    fn block(&self, sum: &Block) -> Block {
        let [maximum, total] = [&self.maximum, &self.total].map(|it| it.buffer.load(it.indices.clone()));
        let one = PrimExpr::float(1.0, self.total.buffer.dtype);
        let values = PairOp::ScaledSum.combine([&maximum, &total], [&self.term, &one]);
        let stores = [&self.maximum, &self.total];
        let named = stores.map(|it| Var::prim(format!("v_{}", it.buffer.name), it.buffer.dtype));
        let binds = named.iter().zip(values).map(|(var, value)| Bind { var: var.clone(), value }.into());
        let results = stores
            .iter()
            .zip(&named)
            .map(|(store, var)| BufferStore { value: PrimExpr::from(var), ..(*store).clone() }.into());
        let body = Stmt::seq(binds.chain(results).collect::<Vec<Stmt>>());
        let least = PrimExpr::float(f64::NEG_INFINITY, self.maximum.buffer.dtype);
        let first = Stmt::store(&self.maximum.buffer, self.maximum.indices.to_vec(), least);
        let init = Some(Stmt::seq([Some(first), sum.init.clone()].into_iter().flatten()));
        with_access_regions(Block { body, init, ..sum.clone() })
    }
}

/// True if `a` and `b` are the same, where an axis of `block` with one value is 0.
fn same_values(a: &[PrimExpr], b: &[PrimExpr], block: &Block) -> bool {
    let ones = block.iter_vars.iter().filter(|it| it.kind == IterKind::Spatial && it.dom.extent.is_const(1));
    let zero: FxHashMap<VarId, PrimExpr> = ones.map(|it| (it.var.id(), it.dom.min.clone())).collect();
    let values = |it: &[PrimExpr]| it.iter().map(|it| substitute_expr(it, &zero)).collect::<Vec<_>>();
    same_indices(&values(a), &values(b))
}

struct Merge<'a> {
    pair: &'a Pair,
    largest: &'a str,
    sum: &'a str,
}

impl Merge<'_> {
    /// True if `stmt` is the block of the maximum in its loops.
    fn is_largest(&self, stmt: &Stmt) -> bool {
        match stmt {
            Stmt::For(it) => self.is_largest(&it.body),
            Stmt::BlockRealize(it) => &*it.block.name == self.largest,
            _ => false,
        }
    }
}

impl Mutator for Merge<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let PrimExpr::BufferLoad(load) = expr else { return self.walk_expr(expr) };
        if load.buffer != self.pair.total.buffer {
            return self.walk_expr(expr);
        }
        let maximum = self.pair.maximum.buffer.load(load.indices.clone());
        let dtype = maximum.dtype();
        let finite = maximum.unary(Intrinsic::Abs).less(PrimExpr::float(f64::INFINITY, dtype));
        let empty = expr.clone().equal(PrimExpr::float(0.0, dtype));
        Some(finite.or(empty).select(expr.clone(), PrimExpr::float(f64::NAN, dtype)))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::SeqStmt(steps) if steps.iter().any(|it| self.is_largest(it)) => {
                let left: Vec<Stmt> = steps.iter().filter(|it| !self.is_largest(it)).cloned().collect();
                let left = Stmt::seq(left);
                Some(self.walk_stmt(&left).unwrap_or(left))
            }
            _ => self.walk_stmt(stmt),
        }
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        if &*block.name == self.sum {
            return Some(self.pair.block(block));
        }
        let reads = block.reads.iter().any(|it| it.buffer == self.pair.total.buffer);
        let new = self.walk_block(block)?;
        Some(if reads { with_access_regions(new) } else { new })
    }
}
