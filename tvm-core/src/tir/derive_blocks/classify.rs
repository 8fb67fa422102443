//! Classification of the loops around a statement as spatial, reduction or opaque axes of its block.

use super::{Loop, collect_stores};
use crate::arith::{LinearSum, Products, same};
use crate::ir::Var;
use crate::tir::{
    BinaryOp, Buffer, BufferStore, IterKind, PrimExpr, Range, Stmt, Visitor, any_expr, for_each_load,
    uses_var, walk_stmt,
};

/// `rest` of `buffer[i] = buffer[i] op rest`, for operations that may be reordered.
pub(super) fn update(store: &BufferStore) -> Option<PrimExpr> {
    let PrimExpr::Binary(it) = &store.value else { return None };
    let is_old = |expr: &PrimExpr| match expr {
        PrimExpr::BufferLoad(load) => load.buffer == store.buffer && same_all(&load.indices, &store.indices),
        _ => false,
    };
    let reads = |expr: &PrimExpr| {
        any_expr(expr, &mut |it| matches!(it, PrimExpr::BufferLoad(load) if load.buffer == store.buffer))
    };
    let rest = match it.op {
        BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max if is_old(&it.a) => &it.b,
        BinaryOp::Add | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max if is_old(&it.b) => &it.a,
        BinaryOp::Sub if is_old(&it.a) => &it.b,
        _ => return None,
    };
    (!reads(rest)).then(|| rest.clone())
}

fn same_all(a: &[PrimExpr], b: &[PrimExpr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// The kind of each loop of `loops[base..]` for `stmt`. `locals` are private to the iterations of the loops around
/// them.
pub(super) fn axis_kinds(
    stmt: &Stmt,
    loops: &[Loop],
    base: usize,
    locals: &[(Buffer, usize)],
) -> Vec<IterKind> {
    let inner = inner_buffers(stmt);
    let stores: Vec<_> =
        collect_stores(stmt).into_iter().filter(|store| !inner.contains(&store.buffer)).collect();
    let mut ranges: Vec<(Var, Range)> =
        loops[base..].iter().map(|it| (it.var.clone(), it.range.clone())).collect();
    ranges.extend(inner_loops(stmt));
    let depth = |buffer: &Buffer| locals.iter().find(|(it, _)| it == buffer).map_or(0, |(_, depth)| *depth);
    (base..loops.len())
        .map(|i| {
            let mut kind = None;
            for store in stores.iter().filter(|store| depth(&store.buffer) <= i) {
                let own = kind_for(stmt, store, &loops[i].var, &ranges);
                kind = match kind {
                    None => Some(own),
                    Some(kind) if kind == own => Some(kind),
                    Some(_) => Some(IterKind::Opaque),
                };
            }
            kind.unwrap_or(IterKind::Spatial)
        })
        .collect()
}

/// The kind of the loop over `var`, judged by `store` alone.
fn kind_for(stmt: &Stmt, store: &BufferStore, var: &Var, ranges: &[(Var, Range)]) -> IterKind {
    let own = store.indices.iter().position(|index| is_injective_in(index, var, ranges));
    let Some(axis) = own else {
        let chosen = store.indices.iter().any(|index| uses_var(index, var));
        return match update(store) {
            Some(_) if !chosen && !reads_elsewhere(stmt, store) => IterKind::Reduce,
            _ => IterKind::Opaque,
        };
    };
    // All other accesses to the buffer must be to elements of the same iteration.
    let mut ok = true;
    for_each_load(stmt, &mut |load| {
        if load.buffer == store.buffer {
            ok &= load.indices.get(axis).is_some_and(|index| same(index, &store.indices[axis]));
        }
    });
    for other in collect_stores(stmt) {
        if other.buffer == store.buffer {
            ok &= other.indices.get(axis).is_some_and(|index| same(index, &store.indices[axis]));
        }
    }
    if ok { IterKind::Spatial } else { IterKind::Opaque }
}

/// Whether `stmt` reads or writes the updated buffer besides the update itself.
fn reads_elsewhere(stmt: &Stmt, store: &BufferStore) -> bool {
    let mut loads = 0;
    for_each_load(stmt, &mut |load| loads += usize::from(load.buffer == store.buffer));
    let updates = collect_stores(stmt).iter().filter(|it| it.buffer == store.buffer).count();
    loads != 1 || updates != 1
}

/// True when different values of `var` give different values of `index`, whatever the other loop variables are: `index`
/// is linear, and the loop variables are its digits as in a positional number system.
pub(in crate::tir) fn is_injective_in(index: &PrimExpr, var: &Var, ranges: &[(Var, Range)]) -> bool {
    let sum = LinearSum::of(index, Products::Keep);
    let mut digits: Vec<(i128, Option<i64>, &Var)> = Vec::new();
    for (monomial, coefficient) in sum.terms() {
        let inside: Vec<&(Var, Range)> =
            ranges.iter().filter(|(other, _)| monomial.atoms().any(|atom| uses_var(atom, other))).collect();
        match (inside.as_slice(), monomial.as_atom().and_then(PrimExpr::as_var)) {
            ([], _) => {}
            ([(_, range)], Some(atom)) => digits.push((coefficient.abs(), range.extent.as_int(), atom)),
            _ => return false,
        }
    }
    digits.sort_by_key(|(coefficient, _, _)| *coefficient);
    let mut reach = Some(0i128);
    for (coefficient, extent, _) in &digits {
        // The lower digits together must not reach the weight of this one.
        if reach.is_none_or(|reach| *coefficient <= reach) {
            return false;
        }
        reach = reach.zip(*extent).and_then(|(reach, extent)| {
            let reach = coefficient * i128::from((extent - 1).max(0)) + reach;
            (reach <= i128::from(i64::MAX)).then_some(reach)
        });
    }
    digits.iter().any(|(_, _, digit)| *digit == var)
}

/// Buffers allocated inside `stmt`.
pub(super) fn inner_buffers(stmt: &Stmt) -> Vec<Buffer> {
    struct Allocs(Vec<Buffer>);
    impl Visitor for Allocs {
        fn visit_expr(&mut self, _: &PrimExpr) {}

        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0.extend(stmt.as_alloc_buffer().map(|it| it.buffer.clone()));
            walk_stmt(self, stmt);
        }

        fn visit_block(&mut self, block: &crate::tir::Block) {
            self.0.extend(block.alloc_buffers.iter().cloned());
            crate::tir::walk_block(self, block);
        }
    }
    let mut allocs = Allocs(vec![]);
    allocs.visit_stmt(stmt);
    allocs.0
}

/// Loops inside `stmt` and the axes of blocks inside, which take the values of loops.
fn inner_loops(stmt: &Stmt) -> Vec<(Var, Range)> {
    struct Inner(Vec<(Var, Range)>);
    impl Visitor for Inner {
        fn visit_expr(&mut self, _: &PrimExpr) {}

        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::For(it) = stmt {
                self.0.push((it.loop_var.clone(), it.range()));
            }
            walk_stmt(self, stmt);
        }

        fn visit_block(&mut self, block: &crate::tir::Block) {
            self.0.extend(block.iter_vars.iter().map(|iter| (iter.var.clone(), iter.dom.clone())));
            crate::tir::walk_block(self, block);
        }
    }
    let mut inner = Inner(vec![]);
    inner.visit_stmt(stmt);
    inner.0
}
