//! Turns vectorised loops into vector statements.
//!
//! TVM counterpart: `VectorizeLoop`.
//! Requires: flat buffers. Ensures: no `Vectorized` loop. The loop is split into pieces whose number of lanes is a power
//! of two, at most one vector of the target of the widest element in the computation; for a symbolic extent the remainder runs
//! serially. Where the target has cheap masked accesses, a remainder of more than one such piece is one vector, of which
//! some lanes are computed. If a condition depends on the lane, a test whether it holds for all lanes chooses between vectors and a
//! masked vector, or a serial loop. A loop whose body has no vector form (it stores to one element, allocates, loops a different number of
//! times per lane) becomes serial.

mod body;
mod masked;
#[cfg(test)]
mod tests;

use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use self::body::{NoVector, Vectorizer};
use self::masked::Mask;
use super::context::{analyzer_for, enter_loop};
use super::convert_ssa::convert;
use super::unroll_loop::copy_out;
use super::util::DeepSubstitute;
use crate::arith::Analyzer;
use crate::ir::IrError;
use crate::pass::{Pass, prim_func_pass};
use crate::target::Machine;
use crate::tir::{Cast, For, ForKind, Mutator, PrimExpr, PrimFunc, Stmt, Visitor, walk_expr, walk_stmt};

/// Maximum number of vectors of full width that are unrolled; more become a loop.
const MAX_PIECES: i64 = 8;

/// Annotation of a loop over the elements that fill no vector: code generators should not copy its body.
pub const REMAINDER: &str = "remainder";

/// Annotation of a loop: nothing reads soon what its body writes, and it is more than the caches hold. Code generators may
/// store whole vectors past the caches, where their addresses are aligned. The loop ends with a barrier for such stores.
pub const STREAMED: &str = "streamed";

/// Turns vectorised loops into vector statements.
pub fn vectorize_loop() -> Pass {
    prim_func_pass("VectorizeLoop", |func, _, context| -> Result<_, IrError> {
        let machine = context.target.machine;
        let mut vectorize = VectorizeLoop { analyzer: analyzer_for(func), machine };
        let body = vectorize.mutate_stmt(&func.body);
        let body = body.map(|body| convert(func, &body).unwrap_or(body));
        Ok(body.map(|body| PrimFunc { body, ..func.clone() }))
    })
}

struct VectorizeLoop {
    analyzer: Analyzer,
    /// Tells the width of vectors.
    machine: Machine,
}

impl Mutator for VectorizeLoop {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::For(node) = stmt {
            enter_loop(&mut self.analyzer, node);
        }
        let walked = self.walk_stmt(stmt);
        let Stmt::For(node) = walked.as_ref().unwrap_or(stmt) else { return walked };
        if node.kind != ForKind::Vectorized {
            return walked;
        }
        let serial = For { kind: ForKind::Serial, ..(**node).clone() };
        Some(self.vectorize(&serial).unwrap_or_else(|NoVector| serial.into()))
    }
}

impl VectorizeLoop {
    fn vectorize(&self, node: &For) -> Result<Stmt, NoVector> {
        let widest = match widest_element(&node.body) {
            1 => DataType::U8,
            2 => DataType::U16,
            4 => DataType::U32,
            _ => DataType::U64,
        };
        let most = i64::from(self.machine.lanes(widest));
        match node.extent.as_int() {
            Some(extent) => self.pieces(node, most, extent),
            None => self.strips(node, most),
        }
    }

    /// The loop of constant `extent` as vectors of `most` lanes, then fewer.
    fn pieces(&self, node: &For, most: i64, extent: i64) -> Result<Stmt, NoVector> {
        let (whole, mut rest) = (extent / most, extent % most);
        let mut stmts = Vec::new();
        if whole > 0 {
            let strip = self.strip_loop(node, most, PrimExpr::int(whole, node.loop_var.dtype()))?;
            stmts.push(if whole <= MAX_PIECES { copy_out(&strip, whole) } else { strip.into() });
        }
        while rest > 0 {
            let lanes = 1 << rest.ilog2();
            let base = &node.min + PrimExpr::int(extent - rest, node.loop_var.dtype());
            if lanes < rest
                && let Ok(masked) = self.masked_piece(node, base.clone(), rest)
            {
                stmts.push(masked);
                break;
            }
            stmts.push(self.piece(node, base, lanes)?);
            rest -= lanes;
        }
        Ok(Stmt::seq(stmts))
    }

    /// The loop of symbolic extent as vectors of `most` lanes and a serial remainder.
    fn strips(&self, node: &For, most: i64) -> Result<Stmt, NoVector> {
        let whole = node.extent.clone().floordiv(most);
        let strip = self.strip_loop(node, most, whole.clone())?;
        let done = whole * most;
        let annotations = node.annotations.clone().with(REMAINDER, true);
        let rest = For { min: &node.min + &done, extent: &node.extent - done, annotations, ..node.clone() };
        Ok(Stmt::seq([strip.into(), rest.into()]))
    }

    /// `for strip in 0..count` over pieces of `lanes` lanes.
    fn strip_loop(&self, node: &For, lanes: i64, count: PrimExpr) -> Result<For, NoVector> {
        let strip = node.loop_var.renew();
        let base = &node.min + &strip * lanes;
        let mut analyzer = self.analyzer.clone();
        let mut outer = For {
            loop_var: strip,
            min: PrimExpr::int(0, node.loop_var.dtype()),
            extent: count,
            ..node.clone()
        };
        enter_loop(&mut analyzer, &outer);
        outer.body = VectorizeLoop { analyzer, machine: self.machine }.piece(node, base, lanes)?;
        Ok(outer)
    }

    /// Iterations `base..base + lanes` as one vector.
    fn piece(&self, node: &For, base: PrimExpr, lanes: i64) -> Result<Stmt, NoVector> {
        let base = self.analyzer.simplify(&base);
        if lanes == 1 {
            return Ok(DeepSubstitute::stmt(FxHashMap::from_iter([(node.loop_var.id(), base)]), &node.body));
        }
        let masks = self.machine.masked_vectors;
        Vectorizer::new(&self.analyzer, node.loop_var.clone(), base, lanes as u16, masks).body(&node.body)
    }

    /// Iterations `base..base + count` as the first `count` lanes of one vector, if the target has predicates.
    fn masked_piece(&self, node: &For, base: PrimExpr, count: i64) -> Result<Stmt, NoVector> {
        let lanes = u16::try_from(count).map_err(|_| NoVector)?.next_power_of_two();
        let base = self.analyzer.simplify(&base);
        let masks = self.machine.masked_vectors;
        let mask = Mask::first(count, lanes);
        Vectorizer::new(&self.analyzer, node.loop_var.clone(), base, lanes, masks)
            .masked(&node.body, Some(mask))
    }
}

/// Bytes of the widest element that `stmt` computes with; indices do not count.
fn widest_element(stmt: &Stmt) -> i64 {
    struct Widest(usize);
    impl Visitor for Widest {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            match expr {
                PrimExpr::BufferLoad(load) => self.0 = self.0.max(load.buffer.dtype.bytes()),
                PrimExpr::Cast(cast) => {
                    let Cast { dtype, value } = &**cast;
                    self.0 = self.0.max(dtype.scalar().bytes());
                    self.visit_expr(value);
                }
                _ => walk_expr(self, expr),
            }
        }

        fn visit_stmt(&mut self, stmt: &Stmt) {
            match stmt {
                Stmt::BufferStore(store) => {
                    self.0 = self.0.max(store.buffer.dtype.bytes());
                    self.visit_expr(&store.value);
                }
                other => walk_stmt(self, other),
            }
        }
    }
    let mut widest = Widest(1);
    widest.visit_stmt(stmt);
    widest.0 as i64
}
