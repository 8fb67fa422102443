//! Gives each statement in a loop a loop of its own, if every iteration uses elements of its own.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{BufferId, Var};
use crate::tir::analysis::{holds_blocks, reads_memory};
use crate::tir::{Buffer, For, ForKind, IterKind, Mutator, PrimExpr, Stmt, for_each_load, substitute_stmt};

/// Gives each statement in a loop a loop of its own, if every iteration uses elements of its own.
pub(super) struct Distribute;

impl Mutator for Distribute {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        match walked.as_ref().unwrap_or(stmt) {
            Stmt::For(node) => distributed(node).or(walked),
            _ => walked,
        }
    }
}

fn distributed(node: &For) -> Option<Stmt> {
    let Stmt::SeqStmt(parts) = &node.body else { return None };
    if node.kind != ForKind::Serial || !node.annotations.is_empty() {
        return None;
    }
    let mut shared = Shared::default();
    for (part, stmt) in parts.iter().enumerate() {
        shared.visit(part, stmt, &node.loop_var)?;
    }
    let apart =
        |it: &Uses| !it.written || it.parts.len() < 2 || it.dims.as_ref().is_some_and(|it| !it.is_empty());
    shared.uses.values().all(apart).then(|| {
        Stmt::seq(parts.iter().map(|part| {
            let loop_var = node.loop_var.renew();
            let vars = FxHashMap::from_iter([(node.loop_var.id(), PrimExpr::from(&loop_var))]);
            Stmt::from(For { loop_var, body: substitute_stmt(part, &vars), ..node.clone() })
        }))
    })
}

/// How the statements in a loop use the buffers.
#[derive(Default)]
struct Shared {
    uses: FxHashMap<BufferId, Uses>,
}

/// How the statements in a loop use one buffer.
#[derive(Default)]
struct Uses {
    written: bool,
    /// Numbers of the statements.
    parts: FxHashSet<usize>,
    /// The dimensions in which every index is the axis that the loop drives; `None` before the first access.
    dims: Option<Vec<usize>>,
}

impl Shared {
    /// Adds the accesses of `stmt`; `None` if it has a block that the loop of `var` does not drive along a spatial axis, or
    /// what is not known.
    fn visit(&mut self, part: usize, stmt: &Stmt, var: &Var) -> Option<()> {
        match stmt {
            Stmt::SeqStmt(stmts) => stmts.iter().try_for_each(|it| self.visit(part, it, var)),
            Stmt::For(node) => {
                let fixed = [&node.min, &node.extent].iter().all(|it| !reads_memory(it));
                if fixed { self.visit(part, &node.body, var) } else { None }
            }
            Stmt::BlockRealize(it) if !holds_blocks(&it.block.body) => {
                let mut axes = it.block.iter_vars.iter().zip(it.iter_values.iter());
                let (axis, _) = axes.find(|(_, value)| value.as_var() == Some(var))?;
                let store = it.block.body.as_buffer_store()?;
                let starts = it.block.init.as_ref().and_then(|init| init.as_buffer_store());
                let plain = axis.kind == IterKind::Spatial && it.block.alloc_buffers.is_empty();
                if !plain || it.block.init.is_some() != starts.is_some() || reads_memory(&it.predicate) {
                    return None;
                }
                for store in [store].into_iter().chain(starts) {
                    self.access(part, &store.buffer, &store.indices, &axis.var).written = true;
                }
                for stmt in [&it.block.body].into_iter().chain(&it.block.init) {
                    for_each_load(stmt, &mut |load| {
                        self.access(part, &load.buffer, &load.indices, &axis.var);
                    });
                }
                Some(())
            }
            _ => None,
        }
    }

    fn access(&mut self, part: usize, buffer: &Buffer, indices: &[PrimExpr], axis: &Var) -> &mut Uses {
        let is_axis = |at: &usize| indices.get(*at).and_then(|index| index.as_var()) == Some(axis);
        let uses = self.uses.entry(buffer.id).or_default();
        uses.parts.insert(part);
        let known = uses.dims.take().unwrap_or_else(|| (0..indices.len()).collect());
        uses.dims = Some(known.into_iter().filter(is_axis).collect());
        uses
    }
}
