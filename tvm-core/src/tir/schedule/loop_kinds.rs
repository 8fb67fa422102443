//! Checks that the kinds of loops are legal, whoever set them. Every parallel, vectorised or thread-bound loop must
//! meet the conditions of `parallel`, `vectorize` or `bind`, in kernels and in modules that were built or read.
//!
//! TVM counterpart: none (TVM trusts the kinds that a program is written with).

use std::sync::Arc;

use super::analysis::check_same_threads;
use super::primitive::for_kind::{check_independent, primitive_of};
use super::{ScheduleError, ScheduleState, analysis};
use crate::ir::{Diagnostic, IrError};
use crate::tir::analysis::with_access_regions;
use crate::tir::transform::without_matched_buffers;
use crate::tir::{
    Block, BlockNames, BlockRealize, Buffer, For, ForKind, Mutator, PrimExpr, PrimFunc, Stmt, Visitor,
    any_expr, derive_blocks, walk_stmt,
};

/// Checks that the parallel, vectorised and thread-bound loops of `func` may have their kind. If `waits`, threads of a block
/// wait for each other where they share memory.
///
/// # Errors
/// One diagnostic per loop that may not, at the place of the loop.
pub fn check_loop_kinds(func: &PrimFunc, waits: bool) -> Result<(), IrError> {
    let refused = |(node, error): (Arc<For>, ScheduleError)| {
        let reason = match error {
            ScheduleError::Illegal { reason, .. } => Diagnostic { outline: None, ..*reason },
            other => Diagnostic::plain(other.to_string()),
        };
        let (name, kind) = (node.loop_var.name(), adjective(node.kind));
        let help = reason.help.clone().unwrap_or_else(|| "leave the loop serial".into());
        let reason = reason.context(format_args!("loop `{name}` cannot be {kind}"));
        Diagnostic { span: node.span.clone(), ..reason }.help(help)
    };
    let errors: Vec<Diagnostic> = illegal_loops(func, waits).into_iter().map(refused).collect();
    if errors.is_empty() { Ok(()) } else { Err(IrError(errors)) }
}

/// The adjective for a loop of `kind` in messages.
fn adjective(kind: ForKind) -> &'static str {
    match kind {
        ForKind::Serial => "serial",
        ForKind::Unrolled => "unrolled",
        ForKind::Parallel => "parallel",
        ForKind::Vectorized => "vectorised",
        ForKind::ThreadBinding(_) => "bound to threads",
    }
}

/// The loops whose kind is not legal, each with the reason.
fn illegal_loops(func: &PrimFunc, waits: bool) -> Vec<(Arc<For>, ScheduleError)> {
    let mut loops = Loops::default();
    loops.visit_stmt(&func.body);
    if loops.0.is_empty() {
        return vec![];
    }
    // A loop inside a block may access one element through several names.
    let body = without_matched_buffers(&func.body).unwrap_or_else(|| func.body.clone());
    // Statements outside of blocks get a block of their own, so that their regions are known.
    let body = match body {
        Stmt::BlockRealize(_) => body,
        body => BlockRealize::opaque(Block::root(vec![], body)),
    };
    let body = InBlocks.mutate_stmt(&body).unwrap_or(body);
    let mut loops = Loops::default();
    loops.visit_stmt(&body);
    let state = match ScheduleState::new(PrimFunc { body, ..func.clone() }) {
        Ok(state) => state,
        Err(error) => return loops.0.into_iter().map(|node| (node, error.clone())).collect(),
    };
    let check = |node: Arc<For>| {
        let name = primitive_of(node.kind);
        let res = check_heads(name, &node).and_then(|()| check_independent(name, &state, &node));
        let res = res.and_then(|()| check_same_threads(name, &state, node.loop_var.id(), waits));
        Some((node, res.err()?))
    };
    loops.0.into_iter().filter_map(check).collect()
}

/// Checks that the bounds, bindings and predicates inside `node` read no buffer that the blocks inside write.
fn check_heads(name: &'static str, node: &For) -> Result<(), ScheduleError> {
    let blocks = analysis::child_blocks(&node.body);
    let written =
        |buffer: &Buffer| blocks.iter().any(|it| it.block.writes.iter().any(|it| it.buffer == *buffer));
    let mut read = None;
    for_each_head(&node.body, &mut |expr| {
        any_expr(expr, &mut |it| {
            if let PrimExpr::BufferLoad(load) = it
                && written(&load.buffer)
            {
                read = Some(load.buffer.name.clone());
            }
            false
        });
    });
    let Some(buffer) = read else { return Ok(()) };
    let message = format!("a loop bound or condition in it reads `{buffer}`, which iterations write");
    Err(ScheduleError::illegal(name, message))
}

/// Calls `f` on the loop bounds, conditions, block bindings and predicates in `stmt`, but not inside its blocks.
fn for_each_head(stmt: &Stmt, f: &mut dyn FnMut(&PrimExpr)) {
    match stmt {
        Stmt::For(it) => [&it.min, &it.extent].into_iter().for_each(&mut *f),
        Stmt::BlockRealize(it) => return it.iter_values.iter().chain([&it.predicate]).for_each(f),
        Stmt::IfThenElse(it) => f(&it.condition),
        Stmt::While(it) => f(&it.condition),
        Stmt::BufferStore(_)
        | Stmt::SeqStmt(_)
        | Stmt::Bind(_)
        | Stmt::AllocBuffer(_)
        | Stmt::DeclBuffer(_)
        | Stmt::Evaluate(_)
        | Stmt::AssertStmt(_) => {}
    }
    stmt.children().into_iter().for_each(|it| for_each_head(it, f));
}

/// Collects the loops whose iterations do not run one after the other, outermost first.
#[derive(Default)]
struct Loops(Vec<Arc<For>>);

impl Visitor for Loops {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::For(it) = stmt {
            match it.kind {
                ForKind::Serial | ForKind::Unrolled => {}
                ForKind::Parallel | ForKind::Vectorized | ForKind::ThreadBinding(_) => {
                    self.0.push(it.clone());
                }
            }
        }
        walk_stmt(self, stmt);
    }
}

/// Turns plain statements in such loops into blocks, and makes all blocks declare everything that they access.
struct InBlocks;

impl Mutator for InBlocks {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let mut new = self.walk_block(block).unwrap_or_else(|| (**block).clone());
        let mut loops = Loops::default();
        loops.visit_stmt(&new.body);
        if loops.0.iter().any(|node| has_plain_store(&node.body)) {
            new.body = derive_blocks(&new.body, BlockNames::default());
        }
        Some(with_access_regions(new))
    }
}

/// True when `stmt` contains a store outside of its blocks.
fn has_plain_store(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::BlockRealize(_) => false,
        Stmt::BufferStore(_) => true,
        other => other.children().into_iter().any(has_plain_store),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Var;
    use crate::tir::Param;
    use tvm_runtime::DataType;

    /// `for i in 0..n - 1 { y[i + store] = y[i + load] + 1 }` without a block; the loop has the kind `kind`.
    fn shifted(kind: ForKind, store: i64, load: i64) -> PrimFunc {
        let (n, i) = (Var::index("n"), Var::index("i"));
        let y = Buffer::new("y", [PrimExpr::from(&n)], DataType::I64);
        let at = |by: i64| [PrimExpr::from(&i) + by];
        let body = Stmt::store(&y, at(store), y.load(at(load)) + 1);
        let body = For { kind, ..For::serial(i.clone(), PrimExpr::from(&n) - 1, body) }.into();
        let body = BlockRealize::opaque(Block::root(vec![], body));
        PrimFunc::new("f", vec![Param::Out(y)], body)
    }

    #[test]
    fn iterations_that_depend_on_each_other_are_refused() {
        for kind in [ForKind::Parallel, ForKind::Vectorized] {
            for (store, load, legal) in [(0, 1, false), (1, 0, false), (0, 0, true), (1, 1, true)] {
                let res = check_loop_kinds(&shifted(kind, store, load), false);
                assert_eq!(res.is_ok(), legal, "{kind:?} {store} {load}: {res:?}");
            }
        }
        assert!(check_loop_kinds(&shifted(ForKind::Serial, 0, 1), false).is_ok());
    }
}
