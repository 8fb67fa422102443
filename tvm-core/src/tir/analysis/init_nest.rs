//! The init of a reduction as a loop nest of its own: where it is placed, and what it contains.
//!
//! The init of a block runs before the outermost loop that drives a reduction axis of the block, for every combination
//! of values that the loops from there inwards give to its other axes. So it runs once for each result, before the
//! first iteration that reaches the result, and also if no iteration does.
//!
//! A loop *drives* an axis when the value of the axis depends on its variable, directly or through the axes of blocks
//! in between. Spatial axes of such blocks do not count: each of their values has a reduction of its own.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{conjunction, conjuncts, with_access_regions};
use crate::ir::{BufferId, Span, Var, VarId};
use crate::tir::transform::renew_stmt;
use crate::tir::{
    Block, BlockRealize, For, ForKind, IterKind, IterVar, Mutator, PrimExpr, Stmt, Substitute, Visitor,
    any_expr, substitute_expr, uses_var, walk_expr, walk_stmt,
};

/// A construct that may stand between a loop and a block inside it.
#[derive(Clone, Debug)]
pub(in crate::tir) enum Frame {
    /// A loop.
    Loop(Arc<For>),
    /// A block.
    Block(Arc<BlockRealize>),
    /// A branch, with the condition that holds inside.
    Condition(PrimExpr),
    /// A variable, with the value it is bound to.
    Bind(Var, PrimExpr),
    /// A buffer that is allocated or declared.
    Buffer(BufferId),
    /// A `while`: its body runs any number of times.
    While,
}

/// True when `node` drives a reduction axis of the block (`reduce`), or an axis of another kind (not `reduce`).
pub(in crate::tir) fn drives(realize: &BlockRealize, node: &For, reduce: bool) -> bool {
    let axes = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    axes.filter(|(iter, _)| (iter.kind == IterKind::Reduce) == reduce)
        .any(|(_, value)| uses_var(value, &node.loop_var))
}

fn vars_of<'a>(exprs: impl IntoIterator<Item = &'a PrimExpr>) -> FxHashSet<VarId> {
    let mut vars = FxHashSet::default();
    for expr in exprs {
        any_expr(expr, &mut |it| {
            vars.extend(it.as_var().map(Var::id));
            false
        });
    }
    vars
}

/// Variables and buffers that a statement mentions.
#[derive(Default)]
pub(super) struct Mentions {
    pub(super) vars: FxHashSet<VarId>,
    pub(super) buffers: FxHashSet<BufferId>,
}

impl Visitor for Mentions {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::Var(var) => drop(self.vars.insert(var.id())),
            PrimExpr::BufferLoad(load) => drop(self.buffers.insert(load.buffer.id)),
            _ => {}
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.buffers.insert(store.buffer.id);
        }
        walk_stmt(self, stmt);
    }
}

impl Mentions {
    fn of(init: &Stmt) -> Mentions {
        let mut mentions = Mentions::default();
        mentions.visit_stmt(init);
        mentions
    }
}

/// The position in `frames` (all frames that lead to the block, outermost first) of the outermost loop that drives a
/// reduction axis; `None` when the init runs directly before each run of the body.
pub(in crate::tir) fn reduction_loop(frames: &[Frame], realize: &BlockRealize, init: &Stmt) -> Option<usize> {
    let block = &realize.block;
    let touched = Mentions::of(init).buffers;
    if block.alloc_buffers.iter().any(|buffer| touched.contains(&buffer.id)) {
        return None;
    }
    let axes = block.iter_vars.iter().zip(realize.iter_values.iter());
    let mut reduced = vars_of(axes.filter(|(iter, _)| iter.kind == IterKind::Reduce).map(|(_, value)| value));
    let mut outermost = None;
    for (at, frame) in frames.iter().enumerate().rev() {
        match frame {
            Frame::Loop(node) if reduced.contains(&node.loop_var.id()) => outermost = Some(at),
            Frame::Loop(_) | Frame::Condition(_) => {}
            Frame::Bind(var, value) => {
                if reduced.contains(&var.id()) {
                    reduced.extend(vars_of([value]));
                }
            }
            Frame::Buffer(buffer) if touched.contains(buffer) => break,
            Frame::Buffer(_) => {}
            Frame::While => break,
            Frame::Block(outer) => {
                let own = &outer.block;
                let matched = own.match_buffers.iter().map(|it| &it.buffer);
                if own.alloc_buffers.iter().chain(matched).any(|buffer| touched.contains(&buffer.id)) {
                    break;
                }
                for (iter, value) in own.iter_vars.iter().zip(outer.iter_values.iter()) {
                    if iter.kind != IterKind::Spatial && reduced.contains(&iter.var.id()) {
                        reduced.extend(vars_of([value]));
                    }
                }
            }
        }
    }
    outermost
}

/// The variables that drive the reduction axes of the block, and those that its other axes and `init` depend on.
pub(in crate::tir) fn init_variables(
    realize: &BlockRealize,
    init: &Stmt,
) -> (FxHashSet<VarId>, FxHashSet<VarId>) {
    let axes = || realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    let values = |reduce: bool| {
        vars_of(axes().filter(|(iter, _)| (iter.kind == IterKind::Reduce) == reduce).map(|(_, value)| value))
    };
    let own: FxHashSet<VarId> = axes().map(|(iter, _)| iter.var.id()).collect();
    let mut others = values(false);
    others.extend(Mentions::of(init).vars.difference(&own));
    (values(true), others)
}

/// `init` as a block named `name`, with the axes of the block except the reduction axes. It is inside copies of those
/// loops of `frames` (all from the place of the nest to the block) that `init` or these axes depend on. Conditions that
/// depend on no other loop are kept.
pub(in crate::tir) fn init_nest(realize: &BlockRealize, init: &Stmt, frames: &[Frame], name: String) -> Stmt {
    let block = &realize.block;
    let spatial: Vec<(&IterVar, &PrimExpr)> = (block.iter_vars.iter())
        .zip(realize.iter_values.iter())
        .filter(|(iter, _)| iter.kind != IterKind::Reduce)
        .collect();
    let (_, mut needed) = init_variables(realize, init);

    // From the block outwards: the loops that are needed, also through the names and axes in between.
    for frame in frames.iter().rev() {
        match frame {
            Frame::Loop(node) if needed.contains(&node.loop_var.id()) => {
                needed.extend(vars_of([&node.min, &node.extent]));
            }
            Frame::Bind(var, value) if needed.contains(&var.id()) => needed.extend(vars_of([value])),
            Frame::Block(outer) => {
                let axes = outer.block.iter_vars.iter().zip(outer.iter_values.iter());
                let used = axes.filter(|(iter, _)| needed.contains(&iter.var.id()));
                let inside = vars_of(used.map(|(_, value)| value));
                needed.extend(inside);
            }
            Frame::Loop(_) | Frame::Bind(..) | Frame::Condition(_) | Frame::Buffer(_) | Frame::While => {}
        }
    }

    // From the place of the nest inwards: the loops, the values of names and axes, and the conditions.
    let mut names: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
    let mut left_out: FxHashSet<VarId> = FxHashSet::default();
    let mut loops: Vec<For> = Vec::new();
    let mut conditions: Vec<PrimExpr> = Vec::new();
    for frame in frames {
        match frame {
            Frame::Loop(node) if needed.contains(&node.loop_var.id()) => {
                let bound = |expr: &PrimExpr| substitute_expr(expr, &names);
                loops.push(For { min: bound(&node.min), extent: bound(&node.extent), ..(**node).clone() });
            }
            Frame::Loop(node) => drop(left_out.insert(node.loop_var.id())),
            Frame::Bind(var, value) => define(&mut names, &mut left_out, var, value),
            Frame::Condition(condition) => conditions.extend(conjuncts(&substitute_expr(condition, &names))),
            Frame::Block(outer) => {
                conditions.extend(conjuncts(&substitute_expr(&outer.predicate, &names)));
                for (iter, value) in outer.block.iter_vars.iter().zip(outer.iter_values.iter()) {
                    define(&mut names, &mut left_out, &iter.var, value);
                }
            }
            Frame::Buffer(_) | Frame::While => {}
        }
    }
    conditions.extend(conjuncts(&substitute_expr(&realize.predicate, &names)));
    let values: Vec<PrimExpr> = spatial.iter().map(|(_, value)| substitute_expr(value, &names)).collect();
    let (kept, dropped): (Vec<_>, Vec<_>) =
        conditions.into_iter().partition(|it| vars_of([it]).is_disjoint(&left_out));
    let mut predicate = conjunction(kept);
    let used = vars_of(&values);
    if dropped.iter().any(|it| !vars_of([it]).is_disjoint(&used)) {
        // A dropped condition may be the one that kept the axes in their domains.
        for ((iter, _), value) in spatial.iter().zip(&values) {
            let (min, extent) =
                (substitute_expr(&iter.dom.min, &names), substitute_expr(&iter.dom.extent, &names));
            predicate =
                predicate.and(value.clone().greater_equal(&min)).and(value.clone().less(min + extent));
        }
    }

    let mentions = Mentions::of(init);
    let matched = block.match_buffers.iter().filter(|it| mentions.buffers.contains(&it.buffer.id));
    let init_block = with_access_regions(Block {
        iter_vars: spatial.iter().map(|(iter, _)| (*iter).clone()).collect(),
        match_buffers: matched.cloned().collect(),
        span: block.span.clone(),
        ..Block::new(name, init.clone())
    });
    let init_realize = BlockRealize { iter_values: values.into(), predicate, block: init_block.into() };
    let mut substitute = Substitute { vars: names, buffers: FxHashMap::default() };
    let inside = Stmt::from(init_realize);
    let inside = substitute.mutate_stmt(&inside).unwrap_or(inside);
    let nest = loops.into_iter().rev().fold(inside, |body, node| {
        let spatial_only = drives(realize, &node, false) && !drives(realize, &node, true);
        let kind = if spatial_only { node.kind } else { ForKind::Serial };
        For { body, kind, span: Span::none(), ..node }.into()
    });
    renew_stmt(&nest)
}

/// Records that `var` has the value `value`, unless the value depends on a loop that is left out.
fn define(
    names: &mut FxHashMap<VarId, PrimExpr>,
    left_out: &mut FxHashSet<VarId>,
    var: &Var,
    value: &PrimExpr,
) {
    let value = substitute_expr(value, names);
    if vars_of([&value]).is_disjoint(left_out) {
        names.insert(var.id(), value);
    } else {
        left_out.insert(var.id());
    }
}
