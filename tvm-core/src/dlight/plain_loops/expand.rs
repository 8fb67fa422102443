//! Replaces blocks around one iteration, which allocate variables, by what is in them: a variable becomes a buffer with an
//! element for each iteration.

use rustc_hash::FxHashMap;

use crate::ir::{BufferId, Var};
use crate::tir::analysis::{holds_blocks, with_access_regions};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferLoad, BufferStore, IterKind, IterVar, Mutator, PrimExpr, Stmt,
    Substitute, substitute_expr, uses_var,
};

/// Replaces blocks around one iteration, which allocate variables, by what is in them.
#[derive(Default)]
pub(super) struct Expand {
    /// The variables, with an element for each iteration.
    pub(super) allocated: Vec<Buffer>,
}

impl Mutator for Expand {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::BlockRealize(realize) => self.expanded(realize),
            _ => self.walk_stmt(stmt),
        }
    }
}

impl Expand {
    fn expanded(&mut self, realize: &BlockRealize) -> Option<Stmt> {
        let block = &realize.block;
        let plain = block.init.is_none() && block.match_buffers.is_empty() && realize.predicate.is_const(1);
        let one_element = |it: &Buffer| {
            it.strides.is_empty() && it.elem_offset.is_none() && it.shape.iter().all(|dim| dim.is_const(1))
        };
        let spatial = |it: &IterVar| it.kind == IterKind::Spatial && it.dom.min.is_const(0);
        if !plain
            || block.alloc_buffers.is_empty()
            || !block.alloc_buffers.iter().all(one_element)
            || !block.iter_vars.iter().all(spatial)
            || !only_reduces(&block.body)
        {
            return None;
        }
        let shape: Vec<PrimExpr> = block.iter_vars.iter().map(|it| it.dom.extent.clone()).collect();
        let new = block.alloc_buffers.iter().map(|old| {
            let new = old.renew(|node| node.shape = shape.clone().into());
            self.allocated.push(new.clone());
            (old.id, new)
        });
        let mut elements = Elements { buffers: new.collect(), realize };
        Some(elements.mutate_stmt(&block.body).unwrap_or_else(|| block.body.clone()))
    }
}

/// True if all loops in `stmt` drive reduced axes only.
fn only_reduces(stmt: &Stmt) -> bool {
    struct Loops<'a> {
        inside: Vec<&'a Var>,
        only: bool,
    }
    impl<'a> Loops<'a> {
        fn visit(&mut self, stmt: &'a Stmt) {
            match stmt {
                Stmt::SeqStmt(stmts) => stmts.iter().for_each(|it| self.visit(it)),
                Stmt::For(node) => {
                    self.inside.push(&node.loop_var);
                    self.visit(&node.body);
                }
                Stmt::BlockRealize(it) => {
                    let axes = it.block.iter_vars.iter().zip(it.iter_values.iter());
                    self.only &= !holds_blocks(&it.block.body)
                        && axes
                            .filter(|(axis, _)| axis.kind != IterKind::Reduce)
                            .all(|(_, value)| !self.inside.iter().any(|var| uses_var(value, var)));
                }
                _ => self.only = false,
            }
        }
    }
    let mut loops = Loops { inside: Vec::new(), only: true };
    loops.visit(stmt);
    loops.only
}

/// Moves what is in a block out of it: its blocks get its axes, and the variables of one iteration become elements.
struct Elements<'a> {
    buffers: FxHashMap<BufferId, Buffer>,
    /// The block around.
    realize: &'a BlockRealize,
}

impl Elements<'_> {
    fn axes(&self) -> impl Iterator<Item = (&IterVar, &PrimExpr)> {
        self.realize.block.iter_vars.iter().zip(self.realize.iter_values.iter())
    }

    fn inner(&self, inner: &BlockRealize) -> BlockRealize {
        let outside: FxHashMap<_, _> =
            self.axes().map(|(axis, value)| (axis.var.id(), value.clone())).collect();
        let own = inner.iter_values.iter().map(|value| substitute_expr(value, &outside));
        let values = self.axes().map(|(_, value)| value.clone()).chain(own).collect();
        let axes: Vec<IterVar> =
            self.axes().map(|(axis, _)| IterVar { var: axis.var.renew(), ..axis.clone() }).collect();
        let renamed = self.axes().zip(&axes).map(|((old, _), new)| (old.var.id(), PrimExpr::from(&new.var)));
        let mut substitute = Substitute { vars: renamed.collect(), buffers: FxHashMap::default() };
        let block = substitute.mutate_block(&inner.block).unwrap_or_else(|| (*inner.block).clone());
        let index: Vec<PrimExpr> = axes.iter().map(|axis| PrimExpr::from(&axis.var)).collect();
        let mut access = Access { buffers: &self.buffers, index };
        let body = access.mutate_stmt(&block.body).unwrap_or_else(|| block.body.clone());
        let iter_vars = axes.into_iter().chain(block.iter_vars.iter().cloned()).collect();
        BlockRealize {
            iter_values: values,
            predicate: substitute_expr(&inner.predicate, &outside),
            block: with_access_regions(Block { iter_vars, body, ..block }).into(),
        }
    }
}

impl Mutator for Elements<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let outside = self.axes().map(|(axis, value)| (axis.var.id(), value.clone())).collect();
        Some(substitute_expr(expr, &outside))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::BlockRealize(inner) => Some(self.inner(inner).into()),
            _ => self.walk_stmt(stmt),
        }
    }
}

/// Replaces accesses of variables by accesses of their element at `index`.
struct Access<'a> {
    buffers: &'a FxHashMap<BufferId, Buffer>,
    index: Vec<PrimExpr>,
}

impl Mutator for Access<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let PrimExpr::BufferLoad(load) = expr
            && let Some(buffer) = self.buffers.get(&load.buffer.id)
        {
            let (buffer, indices) = (buffer.clone(), self.index.clone().into());
            let (predicate, span) = (load.predicate.clone(), load.span.clone());
            let load = BufferLoad { buffer, indices, predicate, span };
            return Some(PrimExpr::BufferLoad(load.into()));
        }
        self.walk_expr(expr)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        if let Stmt::BufferStore(store) = walked.as_ref().unwrap_or(stmt)
            && let Some(buffer) = self.buffers.get(&store.buffer.id)
        {
            let (buffer, indices) = (buffer.clone(), self.index.clone().into());
            return Some(BufferStore { buffer, indices, ..(**store).clone() }.into());
        }
        walked
    }
}
