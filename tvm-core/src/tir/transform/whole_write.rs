//! Finds out whether the first statement that uses a buffer writes all of it: a nest of loops with one store, at an index that
//! takes every value, before the same element is read.
//!
//! For loops that were fused and split, as default schedules for GPUs do, where [`coverage`](super::coverage) finds no
//! solution of its equations. TVM counterpart: none.

use super::context::{conjuncts, enter_loop, reads};
use super::util::accesses;
use crate::arith::{Analyzer, IterMapLevel, detect_iter_map};
use crate::ir::Var;
use crate::tir::analysis::{conjunction, same_indices};
use crate::tir::{Buffer, BufferStore, PrimExpr, Range, Stmt, for_each_load, uses_var};

/// True if the first of `stmts` that uses `buffer` writes every element of it before it reads this element.
pub(super) fn writes_whole(analyzer: &Analyzer, buffer: &Buffer, stmts: &[Stmt]) -> bool {
    let Some(stmt) = stmts.iter().find(|stmt| accesses(stmt, buffer)) else { return true };
    let mut nest = Nest { buffer, analyzer: analyzer.clone(), loops: Vec::new(), conditions: Vec::new() };
    let Some(store) = nest.first_store(stmt) else { return false };
    let mut own = true;
    for_each_load(stmt, &mut |load| {
        own &= load.buffer != *buffer || same_indices(&load.indices, &store.indices);
    });
    own && nest.takes_all(&store)
}

/// The loops and conditions around a statement.
struct Nest<'a> {
    buffer: &'a Buffer,
    analyzer: Analyzer,
    loops: Vec<(Var, Range)>,
    conditions: Vec<PrimExpr>,
}

impl Nest<'_> {
    /// The store to the buffer that comes before all other uses of it in `stmt`.
    fn first_store(&mut self, stmt: &Stmt) -> Option<BufferStore> {
        match stmt {
            Stmt::For(node) => {
                let range = node.range();
                let fixed =
                    |end: &PrimExpr| !reads(end) && !self.loops.iter().any(|(var, _)| uses_var(end, var));
                if !fixed(&range.min) || !fixed(&range.extent) {
                    return None;
                }
                enter_loop(&mut self.analyzer, node);
                self.loops.push((node.loop_var.clone(), range));
                self.first_store(&node.body)
            }
            Stmt::IfThenElse(node) => {
                if node.else_case.is_some() || reads(&node.condition) {
                    return None;
                }
                self.conditions.extend(conjuncts(&node.condition));
                self.first_store(&node.then_case)
            }
            Stmt::SeqStmt(stmts) => {
                let first = stmts.iter().find(|stmt| accesses(stmt, self.buffer))?;
                self.first_store(first)
            }
            Stmt::BufferStore(store) => {
                let own = accesses(&crate::tir::Evaluate { value: store.value.clone() }.into(), self.buffer);
                let plain = store.buffer == *self.buffer && store.predicate.is_none() && !own;
                plain.then(|| (**store).clone())
            }
            Stmt::While(_)
            | Stmt::BlockRealize(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => None,
        }
    }

    /// True if the indices of `store` take all values that the shape allows.
    fn takes_all(&self, store: &BufferStore) -> bool {
        let predicate = conjunction(self.conditions.iter().cloned());
        // All loops are used up: none without an iteration is left out.
        let level = IterMapLevel::Bijective;
        let Ok(map) = detect_iter_map(&store.indices, &self.loops, &predicate, level, &self.analyzer) else {
            return false;
        };
        map.iter().zip(store.buffer.shape.iter()).all(|(sum, extent)| {
            let values = match &sum.args[..] {
                [] => PrimExpr::index(1),
                [split] if split.scale.is_const(1) => split.extent.clone(),
                _ => return false,
            };
            self.analyzer.can_prove_equal(&sum.base, &PrimExpr::index(0))
                && self.analyzer.can_prove_equal(&values, extent)
        })
    }
}

#[cfg(test)]
mod tests {
    use tvm_runtime::DataType;

    use super::*;
    use crate::tir::For;

    /// `for f in 0..extent { if f < bound { b[f / 5, f % 5] = 0 } }`, inside of a loop of `outer` iterations, for a buffer of
    /// 3 × 5 elements.
    fn nest(extent: i64, bound: i64, outer: PrimExpr, shift: i64) -> bool {
        let buffer = Buffer::new("b", [3, 5].map(PrimExpr::index), DataType::I64);
        let (f, k) = (Var::index("f"), Var::index("k"));
        let at = || PrimExpr::from(&f) + shift;
        let store = Stmt::store(&buffer, [at().floordiv(5), at().floormod(5)], PrimExpr::index(0));
        let guarded = Stmt::if_then_else(PrimExpr::from(&f).less(bound), store, None);
        let body = Stmt::from(For::serial(f.clone(), extent, guarded));
        let body = Stmt::from(For::serial(k, outer, body));
        writes_whole(&Analyzer::new(), &buffer, &[body])
    }

    #[test]
    fn loops_that_write_all() {
        let one = || PrimExpr::index(1);
        assert!(nest(15, 15, one(), 0) && nest(32, 15, one(), 0));
        assert!(!nest(14, 15, one(), 0), "an iteration less");
        assert!(!nest(32, 14, one(), 0), "a smaller bound");
        assert!(!nest(15, 15, one(), 1), "moved by an element");
        assert!(!nest(15, 15, PrimExpr::from(Var::index("n")), 0), "perhaps not at all");
    }
}
