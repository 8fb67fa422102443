//! `decompose_padding`: a block that writes a value inside of bounds and a constant outside becomes a block that writes
//! the constant everywhere, and after it the block that writes the value inside.
//!
//! `for i in 0..n + 2 { y[i] = if_then_else(1 <= i && i < n + 1, x[i - 1], 0) }` becomes
//!
//! ```text
//! for i in 0..n + 2 { y[i] = 0 }
//! for i in 0..n { y[i + 1] = x[i] }
//! ```
//!
//! Legal for a complete block of one store, alone in the loops from the given one inwards, whose value is a choice
//! (`if_then_else` or `select`) between a value and a constant by a condition that reads no memory. A bound of an axis
//! narrows the loop that the axis is, if it is known to lie in the range of this loop; other conditions become part of the
//! predicate of the block.
//!
//! TVM counterpart: `decompose_padding`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::arith::Analyzer;
use crate::ir::{Attrs, BlockId, Var, VarId};
use crate::tir::analysis::{conjunction, conjuncts, reads_memory, with_access_regions};
use crate::tir::schedule::rewrite::{self, unique_block_name};
use crate::tir::schedule::state::blocks_in;
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::transform::renew_stmt;
use crate::tir::{
    BinaryOp, Block, BlockRealize, BufferStore, For, ForKind, Intrinsic, PrimCallee, PrimExpr, Stmt,
    any_expr, substitute_expr, uses_var,
};

const NAME: &str = "decompose_padding";

/// Lets a block before the loop `var` write the constant of block `id`. Returns that block.
pub(in crate::tir::schedule) fn decompose_padding(
    state: &mut ScheduleState,
    id: BlockId,
    var: VarId,
) -> Result<BlockId, ScheduleError> {
    let realize = state.get_block(id)?.clone();
    let block = &realize.block;
    let marked = [StmtSRef::Block(id), StmtSRef::Loop(var)];
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why).show(state, &marked));
    state.get_for(var)?;
    analysis::check_reorderable(NAME, state, &realize).map_err(|err| err.show(state, &marked))?;
    if block.is_reduction() || block.init.is_some() {
        return refuse(format!("block `{}` is a reduction", block.name));
    }
    let Some(store) = analysis::single_store(block) else {
        return refuse(format!("block `{}` is more than one store", block.name));
    };
    if !block.alloc_buffers.is_empty() || !block.match_buffers.is_empty() {
        return refuse(format!("block `{}` has buffers of its own", block.name));
    }
    let Some((condition, inside, outside)) = choice(&store.value) else {
        let message = format!(
            "block `{}` writes no choice between a value and a constant, by a condition that reads no memory",
            block.name
        );
        return Err(ScheduleError::illegal(NAME, message)
            .help("a padded value is written `if_then_else(in_bounds, value, constant)`")
            .show(state, &marked));
    };
    let loops = state.loops_above(StmtSRef::Block(id));
    let Some(at) = loops.iter().position(|&it| it == var) else {
        return refuse(format!("the loop is not around block `{}`", block.name));
    };
    let nodes = loops[at..].iter().map(|&it| state.get_for(it).cloned()).collect::<Result<Vec<_>, _>>()?;
    analysis::check_perfectly_nested(NAME, state, &nodes).map_err(|err| err.show(state, &marked))?;
    if !nodes.last().is_some_and(|node| matches!(node.body, Stmt::BlockRealize(_))) {
        return refuse(format!("the loops hold other statements than block `{}`", block.name));
    }
    if let Some(node) = nodes.iter().find(|node| matches!(node.kind, ForKind::ThreadBinding(_))) {
        let name = state.loop_name(node.loop_var.id());
        return refuse(format!("loop `{name}` is bound to a thread: decompose first, bind after"));
    }
    let stored = store.indices.iter().chain([&store.value]);
    let domains = block.iter_vars.iter().flat_map(|iter| [&iter.dom.min, &iter.dom.extent]);
    let direct: Vec<&PrimExpr> = stored.chain(domains).collect();
    let uses = |node: &&Arc<For>| direct.iter().any(|expr| uses_var(expr, &node.loop_var));
    if let Some(node) = nodes.iter().find(uses) {
        let name = state.loop_name(node.loop_var.id());
        return refuse(format!("block `{}` uses loop `{name}` itself, not an axis", block.name));
    }
    let name = unique_block_name(state, &format!("{}_pad_const", block.name));
    let constant = nest(&nodes, {
        let fill = Stmt::store(&store.buffer, store.indices.clone(), outside);
        let fill =
            Block { iter_vars: block.iter_vars.clone(), span: block.span.clone(), ..Block::new(name, fill) };
        BlockRealize { block: with_access_regions(fill).into(), ..(*realize).clone() }
    });
    let plain = |node: For| For { annotations: Attrs::new(), ..node };
    let constant = renew_stmt(&each_loop(constant, &plain));
    let Some(constant_id) = blocks_in(&constant).first().map(|it| it.block.id) else {
        return refuse(format!("block `{}` is no block", block.name));
    };
    let mut interior = Interior::new(rewrite::dims_analyzer(state), state, &realize, nodes);
    conjuncts(&condition).into_iter().for_each(|condition| interior.restrict(condition));
    let body = BufferStore { value: inside, ..store.clone() };
    let copy = interior.finish(with_access_regions(Block { body: body.into(), ..(**block).clone() }));
    let mut forked = state.clone();
    forked.replace(StmtSRef::Loop(var), Stmt::SeqStmt([constant, copy].into()))?;
    forked.flatten()?;
    *state = forked;
    Ok(constant_id)
}

/// Condition, value and constant of a padded value.
fn choice(value: &PrimExpr) -> Option<(PrimExpr, PrimExpr, PrimExpr)> {
    let (condition, inside, outside) = match value {
        PrimExpr::Select(it) => (&it.condition, &it.true_value, &it.false_value),
        PrimExpr::Call(it) if matches!(it.callee, PrimCallee::Intrinsic(Intrinsic::IfThenElse)) => {
            match &it.args[..] {
                [condition, inside, outside] => (condition, inside, outside),
                _ => return None,
            }
        }
        _ => return None,
    };
    let constant = matches!(outside, PrimExpr::IntImm(_) | PrimExpr::FloatImm(_));
    let plain =
        condition.dtype().lanes() == 1 && !reads_memory(condition) && !rewrite::binds_names(condition);
    let pure = !any_expr(condition, &mut |it| matches!(it, PrimExpr::Call(_)));
    (constant && plain && pure).then(|| (condition.clone(), inside.clone(), outside.clone()))
}

/// `realize` inside of copies of `nodes`.
fn nest(nodes: &[Arc<For>], realize: BlockRealize) -> Stmt {
    nodes.iter().rev().fold(realize.into(), |body, node| For { body, ..(**node).clone() }.into())
}

/// `stmt` with `change` applied to the loops that it starts with.
fn each_loop(stmt: Stmt, change: &dyn Fn(For) -> For) -> Stmt {
    let Stmt::For(node) = stmt else { return stmt };
    let body = each_loop(node.body.clone(), change);
    For { body, ..change((*node).clone()) }.into()
}

/// The part of an iteration in which a condition holds.
struct Interior {
    analyzer: Analyzer,
    /// Variables that have one value in the whole program.
    dims: Vec<Var>,
    realize: BlockRealize,
    nodes: Vec<Arc<For>>,
    /// For loops that are an axis: the bounds of the axis.
    bounds: FxHashMap<VarId, (PrimExpr, PrimExpr)>,
    conditions: Vec<PrimExpr>,
}

impl Interior {
    fn new(
        analyzer: Analyzer,
        state: &ScheduleState,
        realize: &BlockRealize,
        nodes: Vec<Arc<For>>,
    ) -> Interior {
        let mut interior = Interior {
            analyzer,
            dims: state.func().symbolic_dims(),
            realize: realize.clone(),
            nodes,
            bounds: FxHashMap::default(),
            conditions: Vec::new(),
        };
        for node in &interior.nodes {
            let var = &node.loop_var;
            let used = realize.iter_values.iter().filter(|value| uses_var(value, var)).count();
            let is_axis = realize.iter_values.iter().any(|value| value.as_var() == Some(var));
            let elsewhere = uses_var(&realize.predicate, var)
                || interior.nodes.iter().any(|it| uses_var(&it.min, var) || uses_var(&it.extent, var));
            let known =
                interior.is_known(&node.extent) && node.min.is_const(0) && node.annotations.is_empty();
            if used == 1 && is_axis && !elsewhere && known {
                interior.bounds.insert(var.id(), (PrimExpr::index(0), node.extent.clone()));
            }
        }
        interior
    }

    fn is_known(&self, expr: &PrimExpr) -> bool {
        !any_expr(expr, &mut |it| it.as_var().is_some_and(|var| !self.dims.contains(var)))
    }

    /// Adds a condition over the axes of the block: as a bound of a loop, if it is one, or to the predicate.
    fn restrict(&mut self, condition: PrimExpr) {
        if !self.narrow(&condition) {
            let axes = self.realize.block.iter_vars.iter().zip(self.realize.iter_values.iter());
            let values = axes.map(|(iter, value)| (iter.var.id(), value.clone())).collect();
            self.conditions.push(substitute_expr(&condition, &values));
        }
    }

    fn narrow(&mut self, condition: &PrimExpr) -> bool {
        let PrimExpr::Binary(it) = condition else { return false };
        let (op, axis, limit) = match (it.a.as_var(), it.b.as_var()) {
            (Some(axis), _) if self.is_known(&it.b) => (it.op, axis, &it.b),
            (_, Some(axis)) if self.is_known(&it.a) => match it.op {
                BinaryOp::Le => (BinaryOp::Ge, axis, &it.a),
                BinaryOp::Lt => (BinaryOp::Gt, axis, &it.a),
                BinaryOp::Ge => (BinaryOp::Le, axis, &it.a),
                BinaryOp::Gt => (BinaryOp::Lt, axis, &it.a),
                _ => return false,
            },
            _ => return false,
        };
        let mut axes = self.realize.block.iter_vars.iter().zip(self.realize.iter_values.iter());
        let value = axes.find(|(iter, _)| iter.var == *axis).and_then(|(_, value)| value.as_var());
        let Some((min, end)) = value.and_then(|var| self.bounds.get_mut(&var.id())) else { return false };
        let (new_min, new_end) = match op {
            BinaryOp::Ge => (limit.clone(), end.clone()),
            BinaryOp::Gt => (limit + 1, end.clone()),
            BinaryOp::Lt => (min.clone(), limit.clone()),
            BinaryOp::Le => (min.clone(), limit + 1),
            _ => return false,
        };
        let in_order = [(&*min, &new_min), (&new_min, &new_end), (&new_end, &*end)]
            .into_iter()
            .all(|(a, b)| self.analyzer.can_prove(&b.clone().greater_equal(a)));
        if in_order {
            (*min, *end) = (new_min, new_end);
        }
        in_order
    }

    /// The loops and predicate, around `block`.
    fn finish(self, block: Block) -> Stmt {
        let moved = |(var, (min, _)): (&VarId, &(PrimExpr, PrimExpr))| {
            let node = self.nodes.iter().find(|node| node.loop_var.id() == *var)?;
            Some((*var, self.analyzer.simplify(&(PrimExpr::from(&node.loop_var) + min))))
        };
        let moved: FxHashMap<VarId, PrimExpr> = self.bounds.iter().filter_map(moved).collect();
        let at = |expr: &PrimExpr| substitute_expr(expr, &moved);
        let conditions = conjuncts(&self.realize.predicate).into_iter().chain(self.conditions.iter().map(at));
        let inside = BlockRealize {
            iter_values: self.realize.iter_values.iter().map(at).collect(),
            predicate: conjunction(conditions),
            block: block.into(),
        };
        self.nodes.iter().rev().fold(inside.into(), |body, node| {
            let extent = match self.bounds.get(&node.loop_var.id()) {
                Some((min, end)) => self.analyzer.simplify(&(end.clone() - min)),
                None => node.extent.clone(),
            };
            For { body, extent, ..(**node).clone() }.into()
        })
    }
}
