//! Gives reductions that are written as plain loops the form that the rules know: one block with an `init`.
//!
//! ```text
//! c[[i, j]] = 0.0;                             let mut sum = 0.0;
//! for p in 0..k {                              for p in 0..k {
//!     c[[i, j]] += a[[i, p]] * b[[p, j]];          sum += a[[i, p]] * b[[p, j]];
//! }                                            }
//!                                              c[[i, j]] = sum;
//! ```
//!
//! On the left, the store of the first value becomes the `init` of the block of the sum. On the right, the variable becomes
//! a buffer with an element for each iteration first, and the block around the iteration goes. Then each block gets loops of
//! its own. Sums that are written as plain loops keep their order and rounding, so the block gets the annotation
//! [`IN_ORDER`].

use rustc_hash::{FxHashMap, FxHashSet};

use crate::arith::same;
use crate::ir::{BufferId, Var};
use crate::tir::analysis::{self, holds_blocks, reads_memory, with_access_regions};
use crate::tir::transform::IN_ORDER;
use crate::tir::{
    Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, ForKind, IterKind, IterVar, Mutator, PrimExpr,
    PrimFunc, Stmt, Substitute, for_each_load, substitute_expr, substitute_stmt, uses_var,
};

/// `func` with its reductions in blocks with an `init`; `None` if nothing changes.
pub(super) fn with_inits(func: &PrimFunc) -> Option<PrimFunc> {
    let Stmt::BlockRealize(root) = &func.body else { return None };
    let mut expand = Expand { allocated: Vec::new() };
    let expanded = expand.mutate_stmt(&root.block.body);
    let body = expanded.as_ref().unwrap_or(&root.block.body);
    let body = Merge.mutate_stmt(body)?;
    let body = Distribute.mutate_stmt(&body).unwrap_or(body);
    let alloc_buffers = root.block.alloc_buffers.iter().cloned().chain(expand.allocated).collect();
    let block = Block { alloc_buffers, body, ..(*root.block).clone() };
    Some(PrimFunc { body: BlockRealize { block: block.into(), ..(**root).clone() }.into(), ..func.clone() })
}

/// Replaces blocks around one iteration, which allocate variables, by what is in them.
struct Expand {
    /// The variables, with an element for each iteration.
    allocated: Vec<Buffer>,
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
            let load = BufferLoad { buffer, indices, span: load.span.clone() };
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

/// Makes stores of first values the `init` of the sums that follow.
struct Merge;

impl Mutator for Merge {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::SeqStmt(stmts) = walked.as_ref().unwrap_or(stmt) else { return walked };
        let (mut out, mut changed): (Vec<Stmt>, bool) = (Vec::new(), false);
        for stmt in stmts.iter() {
            let merged = match out.last() {
                Some(Stmt::BlockRealize(first)) => merged(first, stmt, &mut Vec::new()),
                _ => None,
            };
            match merged {
                Some(both) => {
                    out.pop();
                    out.push(both);
                    changed = true;
                }
                None => out.push(stmt.clone()),
            }
        }
        if changed { Some(Stmt::seq(out)) } else { walked }
    }
}

/// `stmt`, loops around the block of a sum, with the store of `first` as its `init`.
fn merged(first: &BlockRealize, stmt: &Stmt, loops: &mut Vec<Var>) -> Option<Stmt> {
    match stmt {
        Stmt::For(node) if node.kind == ForKind::Serial && node.annotations.is_empty() => {
            loops.push(node.loop_var.clone());
            Some(For { body: merged(first, &node.body, loops)?, ..(**node).clone() }.into())
        }
        Stmt::BlockRealize(sum) if !loops.is_empty() => with_init(first, sum, loops).map(Stmt::from),
        _ => None,
    }
}

fn with_init(first: &BlockRealize, sum: &BlockRealize, loops: &[Var]) -> Option<BlockRealize> {
    let (start, update) = (first.block.body.as_buffer_store()?, sum.block.body.as_buffer_store()?);
    analysis::update(update)?;
    let inside = |value: &PrimExpr| loops.iter().any(|var| uses_var(value, var));
    let axes = || sum.block.iter_vars.iter().zip(sum.iter_values.iter());
    let fits = axes().all(|(axis, value)| match axis.kind {
        IterKind::Spatial => !inside(value),
        IterKind::Reduce => true,
        _ => false,
    });
    let always = first.predicate.is_const(1) && sum.predicate.is_const(1);
    if !fits || !always || start.buffer != update.buffer || sum.block.init.is_some() {
        return None;
    }
    let mut vars = FxHashMap::default();
    for (axis, value) in first.block.iter_vars.iter().zip(first.iter_values.iter()) {
        let is_same = |it: &(&IterVar, &PrimExpr)| {
            let (a, b) = (&it.0.dom, &axis.dom);
            it.0.kind == IterKind::Spatial
                && same(it.1, value)
                && same(&a.min, &b.min)
                && same(&a.extent, &b.extent)
        };
        vars.insert(axis.var.id(), PrimExpr::from(&axes().find(is_same)?.0.var));
    }
    let init = substitute_stmt(&first.block.body, &vars);
    let mut reads_itself = false;
    for_each_load(&init, &mut |load| reads_itself |= load.buffer == update.buffer);
    let indices = &init.as_buffer_store()?.indices;
    let same_place = indices.iter().zip(update.indices.iter()).all(|(a, b)| same(a, b));
    if reads_itself || !same_place {
        return None;
    }
    let annotations = sum.block.annotations.clone().with(IN_ORDER, true);
    let block = Block { init: Some(init), annotations, ..(*sum.block).clone() };
    Some(BlockRealize { block: with_access_regions(block).into(), ..sum.clone() })
}

/// Gives each statement in a loop a loop of its own, if every iteration uses elements of its own.
struct Distribute;

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
