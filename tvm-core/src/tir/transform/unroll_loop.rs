//! Replaces unrolled loops by copies of their bodies.
//!
//! TVM counterpart: `UnrollLoop`.
//! Ensures: no `Unrolled` loop. Loops marked so become copies of their bodies if their extent is constant and not too
//! large, otherwise serial. With `unroll_max_steps`, short serial loops without inner loops are unrolled as well.
//!
//! Loops with the annotation [`PRAGMA_UNROLL`] stay loops. The annotation reaches the code generators, which ask the compiler behind
//! them for as many copies of the body in each iteration.

use rustc_hash::FxHashMap;

use super::convert_ssa::convert;
use super::util::DeepSubstitute;
use crate::ir::{AttrValue, IrError};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::{For, ForKind, Mutator, PrimExpr, PrimFunc, Stmt, Visitor, walk_stmt};

/// Maximum number of statements to which a loop marked `Unrolled` is unrolled.
const MAX_COPIES: i64 = 4096;

/// Annotation of a loop: how many iterations the compiled loop computes at once, from 1 (it is not unrolled) to [`MOST_COPIES`].
pub const PRAGMA_UNROLL: &str = "pragma_unroll";

/// The largest value of [`PRAGMA_UNROLL`].
pub const MOST_COPIES: i64 = 1024;

/// The value of [`PRAGMA_UNROLL`] of `node`, if it has a valid one.
pub fn pragma_unroll(node: &For) -> Option<i64> {
    match node.annotations.get(PRAGMA_UNROLL) {
        Some(AttrValue::Int(copies @ 1..=MOST_COPIES)) => Some(*copies),
        _ => None,
    }
}

/// Replaces unrolled loops by copies of their bodies. Fails if the value of [`PRAGMA_UNROLL`] is out of range.
pub fn unroll_loop() -> Pass {
    prim_func_pass("UnrollLoop", |func, _, ctx| {
        let mut unroll = UnrollLoop { auto_max_steps: ctx.config.unroll_max_steps, error: None };
        let body = unroll.mutate_stmt(&func.body);
        match unroll.error {
            Some(error) => Err(error),
            None => Ok(body.map(|body| {
                let body = convert(func, &body).unwrap_or(body);
                PrimFunc { body, ..func.clone() }
            })),
        }
    })
}

struct UnrollLoop {
    auto_max_steps: i64,
    error: Option<IrError>,
}

impl Mutator for UnrollLoop {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::For(node) = walked.as_ref().unwrap_or(stmt) else { return walked };
        let pragma = node.annotations.get(PRAGMA_UNROLL);
        if let Some(value) = pragma.filter(|_| pragma_unroll(node).is_none()) {
            let name = node.loop_var.name();
            let message =
                format!("loop `{name}` has the annotation `{PRAGMA_UNROLL}` with the value {value:?}");
            let help = format!("give the number of copies of its body, from 1 to {MOST_COPIES}");
            self.error.get_or_insert_with(|| IrError::new(message, &node.span).help(help));
        }
        let marked = node.kind == ForKind::Unrolled;
        let auto = node.kind == ForKind::Serial && pragma.is_none() && !has_loop(&node.body);
        // An empty body counts as one statement, so that not even its copies are made.
        let copies = node.extent.as_int().filter(|extent| {
            let steps = extent.saturating_mul(count(&node.body).max(1));
            (marked && steps <= MAX_COPIES) || (auto && steps <= self.auto_max_steps)
        });
        match copies {
            Some(extent) => Some(copy_out(node, extent)),
            None if marked => Some(For { kind: ForKind::Serial, ..(**node).clone() }.into()),
            None => walked,
        }
    }
}

/// `extent` copies of the body of `node`.
pub(super) fn copy_out(node: &For, extent: i64) -> Stmt {
    Stmt::seq((0..extent).map(|i| {
        let value = node.min.clone() + PrimExpr::int(i, node.loop_var.dtype());
        DeepSubstitute::stmt(FxHashMap::from_iter([(node.loop_var.id(), value)]), &node.body)
    }))
}

fn has_loop(stmt: &Stmt) -> bool {
    struct Find(bool);
    impl Visitor for Find {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0 |= matches!(stmt, Stmt::For(_) | Stmt::While(_));
            walk_stmt(self, stmt);
        }
    }
    let mut find = Find(false);
    find.visit_stmt(stmt);
    find.0
}

/// Number of statements in `stmt`, not counting sequences.
fn count(stmt: &Stmt) -> i64 {
    struct Count(i64);
    impl Visitor for Count {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0 += i64::from(!matches!(stmt, Stmt::SeqStmt(_)));
            walk_stmt(self, stmt);
        }
    }
    let mut counter = Count(0);
    counter.visit_stmt(stmt);
    counter.0
}
