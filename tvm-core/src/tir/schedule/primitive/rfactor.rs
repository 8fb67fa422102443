//! `rfactor`: a reduction over several loops becomes partial reductions, one for each iteration of one of these loops,
//! and a reduction of their results.
//!
//! `for i { for k_0 { for k_1 { c[i] += x[i, 4 * k_0 + k_1] } } }` with the loop `k_1` and axis 0 becomes
//!
//! ```text
//! for i { for k_0 { for k_1 { c_rf[k_1, i] += x[i, 4 * k_0 + k_1] } } }
//! for i { for k_1 { c[i] += c_rf[k_1, i] } }
//! ```
//!
//! The first block has the loop as a spatial axis, so this loop may run side by side. Its partial results start at the
//! identity of the operation, those of extremes and their positions at the constants of the init; the second block keeps
//! the init of the reduction. Sums of floats may be rounded in another way.
//!
//! Legal for a block with an init and one commutative update of one element, or of a pair of them, as a position and a
//! value, alone in loops of which each drives spatial or reduction axes, not both. No condition of the block relates the two
//! kinds. The loops visit each point once, and the bounds of the reduction's loops are known where the buffer is allocated.
//!
//! TVM counterpart: `rfactor`.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::arith::Analyzer;
use crate::ir::{Attrs, BlockId, Span, Var, VarId};
use crate::tir::analysis::{conjunction, conjuncts, with_access_regions};
use crate::tir::schedule::analysis::{Reducer, load_all, store_all};
use crate::tir::schedule::rewrite::{self, add_vars, unique_block_name};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::transform::IN_ORDER;
use crate::tir::{
    Block, BlockRealize, Buffer, For, ForKind, IterKind, IterVar, PrimExpr, Range, Stmt, substitute_expr,
    uses_var,
};

const NAME: &str = "rfactor";

/// The most iterations of the factored loop. The memory of the partial results grows with this number, also where a split
/// by a large factor leaves most iterations without a term.
const MAX_ITERATIONS: i64 = 1 << 16;

/// Factors the reduction of the block in the loop `var` by this loop, whose iterations become the dimension `factor_axis` of the
/// partial results; a negative one counts from the end. Returns the block of the partial reductions.
pub(in crate::tir::schedule) fn rfactor(
    state: &mut ScheduleState,
    var: VarId,
    factor_axis: i64,
) -> Result<BlockId, ScheduleError> {
    let at = StmtSRef::Loop(var);
    let blocks = analysis::child_blocks(&state.get_for(var)?.body);
    let [realize] = &blocks[..] else {
        let message =
            format!("loop `{}` holds {} blocks; one is expected", state.loop_name(var), blocks.len());
        return Err(ScheduleError::illegal(NAME, message).show(state, &[at]));
    };
    let marked = [at, StmtSRef::Block(realize.block.id)];
    let sum = reduction(state, realize).map_err(|err| err.show(state, &marked))?;
    let rank = sum.parts.iter().map(|part| part.store.indices.len()).min().unwrap_or(0) as i64;
    let position = if factor_axis < 0 { factor_axis + rank + 1 } else { factor_axis };
    if !(0..=rank).contains(&position) {
        return Err(ScheduleError::argument(
            NAME,
            format!("expected an axis from {} to {rank}, got {factor_axis}", -rank - 1),
        ));
    }
    let nest = Nest::of(state, realize, var).map_err(|err| err.show(state, &marked))?;
    let Some(scope) = state.scope_block(at) else {
        return Err(ScheduleError::argument(NAME, "no block is around the loop"));
    };
    let position = position as usize;
    let partial = sum.parts.iter().map(|part| nest.partial(&part.store.buffer, position));
    let partial: Vec<Buffer> = partial.collect::<Result<_, _>>().map_err(|err| err.show(state, &marked))?;
    let name = unique_block_name(state, &format!("{}_rf", realize.block.name));
    let (id, first) = nest.first(realize, &sum, (&partial, position), name, rewrite::dims_analyzer(state));
    let second = nest.second(realize, &sum, (&partial, position));
    let mut forked = state.clone();
    forked.replace(StmtSRef::Loop(nest.loops[0].loop_var.id()), Stmt::SeqStmt([first, second].into()))?;
    forked.replace_body(rewrite::with_block(&forked.func().body, scope, |block| Block {
        alloc_buffers: block.alloc_buffers.iter().chain(&partial).cloned().collect(),
        ..block.clone()
    }))?;
    forked.flatten()?;
    *state = forked;
    Ok(id)
}

/// What the block computes, if it may be factored.
fn reduction<'a>(state: &ScheduleState, realize: &'a BlockRealize) -> Result<Reducer<'a>, ScheduleError> {
    let block = &realize.block;
    let refuse = |why: &str| Err(ScheduleError::illegal(NAME, format!("block `{}` {why}", block.name)));
    if block.init.is_none() {
        return Err(ScheduleError::illegal(NAME, format!("block `{}` has no init", block.name))
            .help("factor the reduction before `decompose_reduction`"));
    }
    if !block.is_reduction() {
        return refuse("has no reduction axis");
    }
    if block.annotations.get(IN_ORDER).is_some() {
        return refuse("keeps the order of its sum, which is written as a plain loop");
    }
    analysis::check_reorderable(NAME, state, realize)?;
    if analysis::reduces_with_outer(state, realize) {
        return refuse("goes on with the reduction of a block around it");
    }
    let sum = Reducer::of(block).or_else(|why| refuse(&why))?;
    for buffer in sum.parts.iter().map(|part| &part.store.buffer) {
        let matched = |it: &Block| {
            it.match_buffers.iter().any(|part| part.buffer == *buffer || part.source.buffer == *buffer)
        };
        if state.blocks().iter().any(|it| matched(&it.block)) {
            return refuse(&format!("allocates a buffer, or `{}` has a second name", buffer.name));
        }
    }
    Ok(sum)
}

/// The loops that hold nothing but the block.
struct Nest {
    /// Outermost first.
    loops: Vec<Arc<For>>,
    factored: Arc<For>,
    /// The other loops that drive reduction axes.
    reduced: FxHashSet<VarId>,
    /// The other loops that drive a reduction axis together with the factored one: each becomes an axis.
    beside: Vec<Arc<For>>,
    /// The reduction axes that the factored loop drives, with their values.
    touched: Vec<(VarId, PrimExpr)>,
}

impl Nest {
    fn of(state: &ScheduleState, realize: &BlockRealize, var: VarId) -> Result<Nest, ScheduleError> {
        let block = &realize.block;
        let refuse = |why: String| Err(ScheduleError::illegal(NAME, why));
        let nodes = state.loops_above(StmtSRef::Block(block.id));
        let nodes = nodes.iter().map(|&it| state.get_for(it).cloned()).collect::<Result<Vec<_>, _>>()?;
        let alone = |node: &&Arc<For>| matches!(node.body, Stmt::For(_) | Stmt::BlockRealize(_));
        let outside = nodes.len() - nodes.iter().rev().take_while(alone).count();
        let (around, loops) = nodes.split_at(outside);
        let axes = || block.iter_vars.iter().zip(realize.iter_values.iter());
        let vars = |reduce: bool| {
            let mut vars = FxHashSet::default();
            let values = axes().filter(|(iter, _)| (iter.kind == IterKind::Reduce) == reduce);
            values.for_each(|(_, value)| add_vars(value, &mut vars));
            vars
        };
        let (mut reduced, spatial) = (vars(true), vars(false));
        let name_of = |node: &For| state.loop_name(node.loop_var.id());
        let Some(factored) = loops.iter().find(|node| node.loop_var.id() == var) else {
            let why =
                format!("loop `{}` holds other statements than block `{}`", state.loop_name(var), block.name);
            return refuse(why);
        };
        if let Some(node) = around.iter().find(|node| reduced.contains(&node.loop_var.id())) {
            let why = format!("loop `{}` drives the reduction and holds other statements too", name_of(node));
            return refuse(why);
        }
        if !reduced.remove(&var) {
            let message =
                format!("loop `{}` drives no reduction axis of block `{}`", name_of(factored), block.name);
            return Err(ScheduleError::illegal(NAME, message).help("factor a loop over a reduction axis"));
        }
        let serial = matches!(factored.kind, ForKind::Serial | ForKind::Unrolled);
        if !serial || !factored.annotations.is_empty() || !factored.min.is_const(0) {
            let message =
                format!("loop `{}` is not a serial loop from 0 without annotations", name_of(factored));
            return Err(ScheduleError::illegal(NAME, message).help("factor first, annotate after"));
        }
        if let Some(node) = loops.iter().find(|node| matches!(node.kind, ForKind::ThreadBinding(_))) {
            let message = format!("loop `{}` is bound to a thread", name_of(node));
            return Err(ScheduleError::illegal(NAME, message).help("factor first, bind after"));
        }
        let drives = |vars: &FxHashSet<VarId>, node: &For| vars.contains(&node.loop_var.id());
        let both = |node: &&Arc<For>| {
            drives(&spatial, node) && (drives(&reduced, node) || node.loop_var.id() == var)
        };
        if let Some(node) = loops.iter().find(both) {
            return refuse(format!("loop `{}` drives spatial and reduction axes", name_of(node)));
        }
        let idle = |node: &&Arc<For>| {
            !drives(&spatial, node) && !drives(&reduced, node) && node.loop_var.id() != var
        };
        if let Some(node) = loops.iter().filter(idle).find(|node| !node.extent.is_const(1)) {
            return refuse(format!("loop `{}` repeats block `{}`", name_of(node), block.name));
        }
        let dims: Vec<VarId> = state.func().symbolic_dims().iter().map(Var::id).collect();
        let known = |expr: &PrimExpr| vars_of([expr]).iter().all(|it| dims.contains(it));
        for node in loops {
            let bounds = vars_of([&node.min, &node.extent]);
            if loops.iter().any(|it| bounds.contains(&it.loop_var.id())) {
                return refuse(format!("the bounds of loop `{}` depend on another loop", name_of(node)));
            }
            let reduces = drives(&reduced, node) || node.loop_var.id() == var;
            if reduces && !(known(&node.min) && known(&node.extent)) {
                return refuse(format!(
                    "the bounds of loop `{}` are no dimensions or constants",
                    name_of(node)
                ));
            }
        }
        if !rewrite::dims_analyzer(state).can_prove(&factored.extent.clone().greater_equal(0)) {
            return refuse(format!("the extent of loop `{}` may be negative", name_of(factored)));
        }
        let direct = direct_vars(block);
        if let Some(node) = loops.iter().find(|node| direct.contains(&node.loop_var.id())) {
            return refuse(format!(
                "block `{}` uses loop `{}` itself, not an axis",
                block.name,
                name_of(node)
            ));
        }
        let drop_out: FxHashSet<VarId> = loops.iter().filter(idle).map(|node| node.loop_var.id()).collect();
        for condition in conjuncts(&realize.predicate) {
            let vars = vars_of([&condition]);
            let reduces = vars.contains(&var) || !vars.is_disjoint(&reduced);
            if reduces && !vars.is_disjoint(&spatial) || !vars.is_disjoint(&drop_out) {
                let message = format!(
                    "block `{}` runs where `{condition}`, which relates a reduction to spatial axes",
                    block.name
                );
                return refuse(message);
            }
        }
        if !analysis::visits_once(state, realize, loops)? {
            let message = format!("block `{}` is not known to visit each point once", block.name);
            return Err(ScheduleError::illegal(NAME, message).help("factor before `compute_at`"));
        }
        let touched: Vec<(VarId, PrimExpr)> = axes()
            .filter(|(_, value)| uses_var(value, &factored.loop_var))
            .map(|(iter, value)| (iter.var.id(), value.clone()))
            .collect();
        let used = vars_of(touched.iter().map(|(_, value)| value));
        let local = |it: &VarId| dims.contains(it) || loops.iter().any(|node| node.loop_var.id() == *it);
        if !used.iter().all(local) {
            let why = format!("a reduction axis of block `{}` depends on more than the loops", block.name);
            return refuse(why);
        }
        let others = loops.iter().filter(|node| node.loop_var.id() != var);
        let beside = others.filter(|node| used.contains(&node.loop_var.id())).cloned().collect();
        Ok(Nest { loops: loops.to_vec(), factored: factored.clone(), reduced, beside, touched })
    }

    /// The buffer of the partial results of `buffer`.
    fn partial(&self, buffer: &Buffer, position: usize) -> Result<Buffer, ScheduleError> {
        let mut shape = buffer.shape.to_vec();
        shape.insert(position, self.factored.extent.clone());
        if let Some(extent) = self.factored.extent.as_int().filter(|&extent| extent > MAX_ITERATIONS) {
            let why = format!("expected a loop of at most {MAX_ITERATIONS} iterations, got {extent}");
            return Err(ScheduleError::illegal(NAME, why).help("split the loop, and factor the smaller part"));
        }
        if let Some(elements) = rewrite::too_many_elements(&shape) {
            let why = format!("`{}` would have {elements} partial results", buffer.name);
            return Err(ScheduleError::illegal(NAME, why).help("split the loop, and factor the smaller part"));
        }
        Ok(buffer.renew(|node| {
            node.name = format!("{}_rf", buffer.name).into();
            node.shape = shape.into();
            node.strides = [].into();
            node.elem_offset = None;
        }))
    }

    /// The partial reductions, in the loops of the block.
    fn first(
        &self,
        realize: &BlockRealize,
        sum: &Reducer<'_>,
        (partial, position): (&[Buffer], usize),
        name: String,
        mut analyzer: Analyzer,
    ) -> (BlockId, Stmt) {
        let axis_of = |node: &For| Var::index(format!("v{}", node.loop_var.name()));
        let factored = axis_of(&self.factored);
        let own =
            |node: &For, var: &Var, kind: IterKind| IterVar { var: var.clone(), dom: node.range(), kind };
        let mut axes = vec![own(&self.factored, &factored, IterKind::Spatial)];
        let mut values = vec![PrimExpr::from(&self.factored.loop_var)];
        let mut loop_axes = FxHashMap::from_iter([(self.factored.loop_var.id(), PrimExpr::from(&factored))]);
        let mut vars: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
        let block = &realize.block;
        for (iter, value) in block.iter_vars.iter().zip(realize.iter_values.iter()) {
            if self.touched.iter().all(|(touched, _)| *touched != iter.var.id()) {
                let var = Var::index(iter.var.name());
                vars.insert(iter.var.id(), PrimExpr::from(&var));
                axes.push(IterVar { var, ..iter.clone() });
                values.push(value.clone());
            }
        }
        for node in &self.beside {
            let var = axis_of(node);
            loop_axes.insert(node.loop_var.id(), PrimExpr::from(&var));
            axes.push(own(node, &var, IterKind::Reduce));
            values.push(PrimExpr::from(&node.loop_var));
        }
        vars.extend(self.touched.iter().map(|(axis, value)| (*axis, substitute_expr(value, &loop_axes))));
        axes.iter().for_each(|axis| analyzer.bind_range(&axis.var, &axis.dom));
        let (mut places, mut terms): (Vec<(Buffer, Vec<PrimExpr>)>, Vec<PrimExpr>) = Default::default();
        for (part, buffer) in sum.parts.iter().zip(partial) {
            let indices = part.store.indices.iter().map(|index| substitute_expr(index, &vars));
            let mut indices: Vec<PrimExpr> = indices.collect();
            indices.insert(position, PrimExpr::from(&factored));
            places.push((buffer.clone(), indices));
            terms.push(analyzer.simplify(&substitute_expr(&part.term, &vars)));
        }
        let reduces = axes.iter().any(|axis| axis.kind == IterKind::Reduce);
        let updates = if reduces { sum.combine(&load_all(&places), &terms) } else { terms };
        let identities = places.iter().zip(&sum.parts);
        let identities = identities
            .map(|((buffer, indices), part)| Stmt::store(buffer, indices.clone(), part.identity.clone()));
        let first = with_access_regions(Block {
            iter_vars: axes.into(),
            annotations: block.annotations.clone(),
            init: reduces.then(|| Stmt::seq(identities)),
            span: block.span.clone(),
            ..Block::new(name, Stmt::seq(store_all(&places, updates, &Span::none())))
        });
        let id = first.id;
        let inside = BlockRealize {
            iter_values: values.into(),
            predicate: realize.predicate.clone(),
            block: first.into(),
        };
        let around = |body: Stmt, node: &Arc<For>| For { body, ..(**node).clone() }.into();
        (id, self.loops.iter().rev().fold(inside.into(), around))
    }

    /// The reduction of the partial results, in copies of the factored loop and of those that drive spatial axes.
    fn second(
        &self,
        realize: &BlockRealize,
        sum: &Reducer<'_>,
        (partial, position): (&[Buffer], usize),
    ) -> Stmt {
        let mut loops: Vec<For> = Vec::new();
        let mut vars: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
        for node in self.loops.iter().filter(|node| !self.reduced.contains(&node.loop_var.id())) {
            let var = Var::index(node.loop_var.name());
            vars.insert(node.loop_var.id(), PrimExpr::from(&var));
            loops.push(For { loop_var: var, annotations: Attrs::new(), ..(**node).clone() });
        }
        let factored = Var::index(format!("v{}", self.factored.loop_var.name()));
        let block = &realize.block;
        let spatial = block.iter_vars.iter().zip(realize.iter_values.iter());
        let spatial = spatial.filter(|(iter, _)| iter.kind != IterKind::Reduce);
        let (mut axes, values): (Vec<IterVar>, Vec<&PrimExpr>) =
            spatial.map(|(iter, value)| (iter.clone(), value)).unzip();
        let of_loop = PrimExpr::from(&self.factored.loop_var);
        let values = values.into_iter().chain([&of_loop]).map(|value| substitute_expr(value, &vars));
        let values: Vec<PrimExpr> = values.collect();
        axes.push(IterVar {
            var: factored.clone(),
            dom: Range::from_extent(self.factored.extent.clone()),
            kind: IterKind::Reduce,
        });
        let kept = conjuncts(&realize.predicate);
        let kept = kept.iter().filter(|condition| vars_of([*condition]).is_disjoint(&self.reduced));
        let predicate = substitute_expr(&conjunction(kept.cloned()), &vars);
        let places: Vec<(Buffer, Vec<PrimExpr>)> =
            sum.parts.iter().map(|it| (it.store.buffer.clone(), it.store.indices.to_vec())).collect();
        let of_parts = places.iter().zip(partial).map(|((_, indices), partial)| {
            let mut indices = indices.clone();
            indices.insert(position, PrimExpr::from(&factored));
            partial.load(indices)
        });
        let update = sum.combine(&load_all(&places), &of_parts.collect::<Vec<_>>());
        let span = sum.parts.first().map_or_else(Span::none, |part| part.store.span.clone());
        let body = Stmt::seq(store_all(&places, update, &span));
        let second = with_access_regions(Block { iter_vars: axes.into(), body, ..(**block).clone() });
        let inside = BlockRealize { iter_values: values.into(), predicate, block: second.into() };
        loops.into_iter().rev().fold(inside.into(), |body, node| For { body, ..node }.into())
    }
}

fn vars_of<'a>(exprs: impl IntoIterator<Item = &'a PrimExpr>) -> FxHashSet<VarId> {
    let mut vars = FxHashSet::default();
    exprs.into_iter().for_each(|expr| add_vars(expr, &mut vars));
    vars
}

/// The variables in the stores of `block`, its body and its init, and in the domains of its axes.
fn direct_vars(block: &Block) -> FxHashSet<VarId> {
    let steps = [Some(&block.body), block.init.as_ref()].into_iter().flatten();
    let steps = steps.flat_map(|it| match it {
        Stmt::SeqStmt(steps) => &steps[..],
        one => std::slice::from_ref(one),
    });
    let stored = steps.flat_map(|step| match step {
        Stmt::BufferStore(it) => it.indices.iter().chain([&it.value]).collect(),
        Stmt::Bind(it) => vec![&it.value],
        _ => Vec::new(),
    });
    let domains = block.iter_vars.iter().flat_map(|iter| [&iter.dom.min, &iter.dom.extent]);
    vars_of(stored.chain(domains))
}
