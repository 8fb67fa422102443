//! Rewrites and queries that several primitives share.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::arith::Analyzer;
use crate::ir::{BlockId, Var, VarId};
use crate::support::with_stack;
use crate::tir::analysis::{conjunction, conjuncts};
use crate::tir::transform::analyzer_for;
use crate::tir::{
    Block, BlockRealize, Buffer, BufferLoad, BufferRegion, BufferStore, For, Mutator, PrimExpr, Range, Stmt,
    Visitor, any_expr, walk_stmt,
};

/// Simplifies the bindings and predicates of the outermost blocks of `new`, which is to replace the statement at
/// `sref`, under the loops around them.
pub(super) fn simplify_bindings(state: &ScheduleState, sref: StmtSRef, new: &Stmt) -> Stmt {
    struct Simplify {
        analyzer: Analyzer,
        /// The variables that the bindings depend on; other loops do not matter.
        used: FxHashSet<VarId>,
    }
    impl Mutator for Simplify {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }
        fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
            match stmt {
                Stmt::For(it) => {
                    if self.used.contains(&it.loop_var.id()) {
                        bind_loop(&mut self.analyzer, it);
                    }
                    let body = with_stack(|| self.mutate_stmt(&it.body))?;
                    Some(For { body, ..(**it).clone() }.into())
                }
                Stmt::BlockRealize(it) => {
                    let simple = |expr: &PrimExpr| self.analyzer.simplify(expr);
                    let iter_values = it.iter_values.iter().map(simple).collect();
                    // Conjuncts are simplified one by one: the variables of a condition show what it restricts.
                    let conditions = conjuncts(&it.predicate).iter().map(simple).collect::<Vec<_>>();
                    let predicate = conjunction(conditions.iter().flat_map(conjuncts));
                    Some(BlockRealize { iter_values, predicate, block: it.block.clone() }.into())
                }
                _ => self.walk_stmt(stmt),
            }
        }
    }
    let around = state.enclosing_loops(sref).unwrap_or_default();
    let mut used = binding_vars(new);
    for node in around.iter().rev() {
        if used.contains(&node.loop_var.id()) {
            [&node.min, &node.extent].into_iter().for_each(|it| add_vars(it, &mut used));
        }
    }
    let mut analyzer = dims_analyzer(state);
    for node in around.iter().filter(|node| used.contains(&node.loop_var.id())) {
        bind_loop(&mut analyzer, node);
    }
    Simplify { analyzer, used }.mutate_stmt(new).unwrap_or_else(|| new.clone())
}

/// The variables in the bindings and predicates of the outermost blocks of `stmt`, and in the bounds of the loops that
/// these depend on.
fn binding_vars(stmt: &Stmt) -> FxHashSet<VarId> {
    match stmt {
        Stmt::BlockRealize(it) => {
            let mut used = FxHashSet::default();
            it.iter_values.iter().chain([&it.predicate]).for_each(|expr| add_vars(expr, &mut used));
            used
        }
        Stmt::For(it) => {
            let mut used = with_stack(|| binding_vars(&it.body));
            if used.contains(&it.loop_var.id()) {
                [&it.min, &it.extent].into_iter().for_each(|expr| add_vars(expr, &mut used));
            }
            used
        }
        _ => stmt.children().into_iter().flat_map(binding_vars).collect(),
    }
}

pub(super) fn add_vars(expr: &PrimExpr, vars: &mut FxHashSet<VarId>) {
    any_expr(expr, &mut |it| {
        vars.extend(it.as_var().map(Var::id));
        false
    });
}

/// An analyzer that knows the dimensions and what the program states about them.
pub(super) fn dims_analyzer(state: &ScheduleState) -> Analyzer {
    let mut analyzer = analyzer_for(state.func());
    state.func().symbolic_dims().iter().for_each(|dim| analyzer.bind_dim(dim));
    analyzer
}

/// An analyzer that knows the dimensions, the axes of the block around `sref`, and the loops and axes around that
/// block.
pub(super) fn analyzer_outside(state: &ScheduleState, sref: StmtSRef) -> Result<Analyzer, ScheduleError> {
    let mut analyzer = dims_analyzer(state);
    let mut around: Vec<StmtSRef> =
        state.ancestors(sref).skip_while(|it| matches!(it, StmtSRef::Loop(_))).collect();
    around.reverse();
    for outer in around {
        match outer {
            StmtSRef::Loop(var) => bind_loop(&mut analyzer, state.get_for(var)?),
            StmtSRef::Block(id) => {
                let block = &state.get_block(id)?.block;
                block.iter_vars.iter().for_each(|iter| analyzer.bind_range(&iter.var, &iter.dom));
            }
        }
    }
    Ok(analyzer)
}

/// An analyzer that knows the dimensions, and the loops and axes around `sref`.
pub(super) fn analyzer_around(state: &ScheduleState, sref: StmtSRef) -> Result<Analyzer, ScheduleError> {
    let mut analyzer = analyzer_outside(state, sref)?;
    for outer in state.loops_above(sref) {
        bind_loop(&mut analyzer, state.get_for(outer)?);
    }
    Ok(analyzer)
}

/// Binds the variable of the loop `node` to its range in `analyzer`.
pub(super) fn bind_loop(analyzer: &mut Analyzer, node: &For) {
    analyzer.bind_range(&node.loop_var, &node.range());
}

/// The body of the function without the block `id` and without the loops and branches that held nothing else.
pub(super) fn remove_block(state: &ScheduleState, id: BlockId) -> Stmt {
    remove_and_replace(state, id, None)
}

/// [`remove_block`], and `new` in place of the loop of its variable, which is not around the block.
pub(super) fn move_block(state: &ScheduleState, id: BlockId, new: For) -> Stmt {
    remove_and_replace(state, id, Some(new))
}

fn remove_and_replace(state: &ScheduleState, id: BlockId, new: Option<For>) -> Stmt {
    struct Remove {
        block: StmtSRef,
        new: Option<Arc<For>>,
        /// What holds the block or the loop; nothing else is visited.
        around: Vec<StmtSRef>,
    }
    impl Mutator for Remove {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }
        fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
            if let Some(sref) = StmtSRef::of(stmt) {
                if sref == self.block {
                    return Some(Stmt::nop());
                }
                if let Some(new) = self.new.take_if(|new| sref == StmtSRef::Loop(new.loop_var.id())) {
                    return Some(Stmt::For(new));
                }
                if !self.around.contains(&sref) {
                    return None;
                }
            }
            let new = self.walk_stmt(stmt)?;
            let empty = |stmt: &Stmt| matches!(stmt, Stmt::SeqStmt(stmts) if stmts.is_empty());
            let vanishes = match &new {
                Stmt::For(it) => empty(&it.body),
                Stmt::IfThenElse(it) => empty(&it.then_case) && it.else_case.as_ref().is_none_or(empty),
                _ => false,
            };
            Some(if vanishes { Stmt::nop() } else { new })
        }
    }
    let block = StmtSRef::Block(id);
    let replaced = new.as_ref().map(|new| StmtSRef::Loop(new.loop_var.id()));
    let around = [Some(block), replaced].into_iter().flatten().flat_map(|it| state.ancestors(it)).collect();
    let body = &state.func().body;
    Remove { block, new: new.map(Arc::new), around }.mutate_stmt(body).unwrap_or_else(|| body.clone())
}

/// `body` with `change` applied to the block `id`.
pub(super) fn with_block(body: &Stmt, id: BlockId, change: impl FnOnce(&Block) -> Block) -> Stmt {
    struct Change<F>(BlockId, Option<F>);
    impl<F: FnOnce(&Block) -> Block> Mutator for Change<F> {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }
        fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
            if block.id == self.0 {
                self.1.take().map(|change| change(block))
            } else {
                walk_block_body(self, block)
            }
        }
    }
    Change(id, Some(change)).mutate_stmt(body).unwrap_or_else(|| body.clone())
}

/// Rewrites the init and body of `block`; leaves its axes, regions and buffers unchanged.
pub(super) fn walk_block_body<M: Mutator>(mutator: &mut M, block: &Block) -> Option<Block> {
    let init = block.init.as_ref().and_then(|init| mutator.mutate_stmt(init));
    let body = mutator.mutate_stmt(&block.body);
    (init.is_some() || body.is_some()).then(|| Block {
        init: init.or_else(|| block.init.clone()),
        body: body.unwrap_or_else(|| block.body.clone()),
        ..block.clone()
    })
}

/// `block` without the allocation of `buffer`; `None` when it does not allocate it.
pub(super) fn drop_alloc(block: &Block, buffer: &Buffer) -> Option<Block> {
    block.alloc_buffers.contains(buffer).then(|| Block {
        alloc_buffers: block.alloc_buffers.iter().filter(|it| *it != buffer).cloned().collect(),
        ..block.clone()
    })
}

/// `body` without the allocation of `buffer`.
pub(super) fn drop_alloc_everywhere(body: &Stmt, buffer: &Buffer) -> Stmt {
    struct Drop<'a>(&'a Buffer);
    impl Mutator for Drop<'_> {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }
        fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
            let inner = walk_block_body(self, block);
            drop_alloc(inner.as_ref().unwrap_or(block), self.0).or(inner)
        }
    }
    Drop(buffer).mutate_stmt(body).unwrap_or_else(|| body.clone())
}

/// The blocks directly inside the block around `sref`, in program order.
pub(super) fn siblings(
    state: &ScheduleState,
    sref: StmtSRef,
) -> Result<Vec<Arc<BlockRealize>>, ScheduleError> {
    match state.scope_block(sref) {
        Some(scope) => Ok(analysis::child_blocks(&state.get_block(scope)?.block.body)),
        None => Ok(Vec::new()),
    }
}

/// The leaf blocks that write `buffer`.
pub(super) fn writers<'a>(state: &'a ScheduleState, buffer: &Buffer) -> Vec<&'a Arc<BlockRealize>> {
    let writes = |it: &&Arc<BlockRealize>| it.block.writes.iter().any(|write| write.buffer == *buffer);
    state.leaf_blocks().iter().filter(writes).collect()
}

/// The leaf blocks that read `buffer`.
pub(super) fn readers<'a>(state: &'a ScheduleState, buffer: &Buffer) -> Vec<&'a Arc<BlockRealize>> {
    let reads = |it: &&Arc<BlockRealize>| it.block.reads.iter().any(|read| read.buffer == *buffer);
    state.leaf_blocks().iter().filter(reads).collect()
}

/// True when some block of the function allocates `buffer`.
pub(super) fn is_intermediate(state: &ScheduleState, buffer: &Buffer) -> bool {
    state.blocks().iter().any(|it| it.block.alloc_buffers.contains(buffer))
}

/// Refuses a `buffer` that has strides, an offset or a second name.
pub(super) fn check_plain_layout(
    name: &'static str,
    state: &ScheduleState,
    id: BlockId,
    buffer: &Buffer,
) -> Result<(), ScheduleError> {
    let refuse = |why: String| Err(ScheduleError::illegal(name, why).show(state, &[StmtSRef::Block(id)]));
    let matched = |it: &Block| it.match_buffers.iter().any(|part| part.source.buffer == *buffer);
    if let Some(it) = state.blocks().iter().find(|it| matched(&it.block)) {
        return refuse(format!(
            "block `{}` has a second name for a region of `{}`",
            it.block.name, buffer.name
        ));
    }
    if !buffer.strides.is_empty() || buffer.elem_offset.is_some() {
        return refuse(format!("`{}` has strides or an offset", buffer.name));
    }
    Ok(())
}

/// True when the block is known to run for every element of `buffer`, which it indexes by `axes`.
pub(super) fn covers(
    state: &ScheduleState,
    realize: &BlockRealize,
    axes: &[Option<Var>],
    buffer: &Buffer,
) -> Result<bool, ScheduleError> {
    let block = &realize.block;
    let extents = block.iter_vars.iter().map(|iter| &iter.dom.extent);
    let analyzer = Analyzer::of_indices(extents.chain(buffer.shape.iter()));
    let whole = axes.iter().zip(buffer.shape.iter()).all(|(axis, extent)| match axis {
        None => true,
        Some(var) => block.iter_vars.iter().find(|iter| iter.var == *var).is_some_and(|iter| {
            iter.dom.min.is_const(0) && analyzer.can_prove_equal(&iter.dom.extent, extent)
        }),
    });
    Ok(whole && analysis::covers_domain(state, realize)?)
}

/// True when `expr` holds a `let`.
pub(super) fn binds_names(expr: &PrimExpr) -> bool {
    any_expr(expr, &mut |it| matches!(it, PrimExpr::Let(_)))
}

/// The position of the statement that holds `sref` in the sequence that is the body of block `scope`; 0 when the body
/// is one statement. `None` when `sref` is not inside.
pub(super) fn top_level_index(state: &ScheduleState, scope: BlockId, sref: StmtSRef) -> Option<usize> {
    let inside = |stmt: &Stmt| holds(stmt, sref);
    match &state.get_block(scope).ok()?.block.body {
        Stmt::SeqStmt(stmts) => stmts.iter().position(inside),
        single => inside(single).then_some(0),
    }
}

/// True when the loop or block `sref` is in `stmt`.
pub(super) fn holds(stmt: &Stmt, sref: StmtSRef) -> bool {
    struct Holds(StmtSRef, bool);
    impl Visitor for Holds {
        fn visit_expr(&mut self, _: &PrimExpr) {}
        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.1 |= StmtSRef::of(stmt) == Some(self.0);
            if !self.1 {
                walk_stmt(self, stmt);
            }
        }
    }
    let mut holds = Holds(sref, false);
    holds.visit_stmt(stmt);
    holds.1
}

/// `body` with `stmt` inserted at position `at` of the sequence in block `scope`, which also allocates `buffer`.
pub(super) fn insert_in_scope(body: &Stmt, scope: BlockId, at: usize, stmt: Stmt, buffer: &Buffer) -> Stmt {
    with_block(body, scope, |block| {
        let alloc_buffers = block.alloc_buffers.iter().chain([buffer]).cloned().collect();
        Block { alloc_buffers, body: insert_at(&block.body, at, stmt), ..block.clone() }
    })
}

/// The sequence `body` with `stmt` inserted at position `at`.
pub(super) fn insert_at(body: &Stmt, at: usize, stmt: Stmt) -> Stmt {
    let mut stmts = match body {
        Stmt::SeqStmt(stmts) => stmts.to_vec(),
        single => vec![single.clone()],
    };
    stmts.insert(at.min(stmts.len()), stmt);
    Stmt::seq(stmts)
}

/// `body`, with `from` replaced by `to` in block `id`.
pub(super) fn redirect(body: &Stmt, id: BlockId, from: &Buffer, to: &Buffer) -> Stmt {
    let mut substitute = crate::tir::Substitute::default();
    substitute.buffers.insert(from.id, to.clone());
    with_block(body, id, |block| {
        let block = Arc::new(block.clone());
        substitute.mutate_block(&block).unwrap_or_else(|| (*block).clone())
    })
}

/// Replaces the accesses of a buffer by accesses of another one.
pub(super) struct Relocate<'a> {
    pub(super) from: &'a Buffer,
    pub(super) to: &'a Buffer,
    /// The indices in `to` of the element that has these indices in `from`.
    pub(super) place: &'a dyn Fn(&[PrimExpr]) -> Arc<[PrimExpr]>,
    /// The region of `to` for a region of `from`.
    pub(super) region: &'a dyn Fn(&[Range]) -> Arc<[Range]>,
}

impl Mutator for Relocate<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = self.walk_expr(expr);
        let PrimExpr::BufferLoad(load) = walked.as_ref().unwrap_or(expr) else { return walked };
        if load.buffer != *self.from {
            return walked;
        }
        let (buffer, indices) = (self.to.clone(), (self.place)(&load.indices));
        let (predicate, span) = (load.predicate.clone(), load.span.clone());
        Some(PrimExpr::BufferLoad(BufferLoad { buffer, indices, predicate, span }.into()))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::BufferStore(store) = walked.as_ref().unwrap_or(stmt) else { return walked };
        if store.buffer != *self.from {
            return walked;
        }
        let indices = (self.place)(&store.indices);
        Some(BufferStore { buffer: self.to.clone(), indices, ..(**store).clone() }.into())
    }

    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let inner = self.walk_block(block);
        let block = inner.unwrap_or_else(|| (**block).clone());
        let renamed = |it: &Buffer| if it == self.from { self.to.clone() } else { it.clone() };
        let moved = |it: &BufferRegion| match it.buffer == *self.from {
            true => BufferRegion { buffer: self.to.clone(), region: (self.region)(&it.region) },
            false => it.clone(),
        };
        Some(Block {
            reads: block.reads.iter().map(moved).collect(),
            writes: block.writes.iter().map(moved).collect(),
            alloc_buffers: block.alloc_buffers.iter().map(renamed).collect(),
            ..block
        })
    }
}

/// The most elements of a new buffer of constant shape.
const MAX_ELEMENTS: i128 = 1 << 56;

/// The number of elements of a new buffer of `shape`, as far as it is constant, if there are too many.
pub(super) fn too_many_elements(shape: &[PrimExpr]) -> Option<i128> {
    let known = shape.iter().filter_map(PrimExpr::as_int);
    let elements = known.fold(1i128, |all, extent| all.saturating_mul(extent.max(1).into()));
    (elements > MAX_ELEMENTS).then_some(elements)
}

/// A block name that is not used in the function, derived from `hint`.
pub(super) fn unique_block_name(state: &ScheduleState, hint: &str) -> String {
    let blocks = state.blocks();
    let taken = |name: &str| blocks.iter().any(|it| &*it.block.name == name);
    if !taken(hint) {
        return hint.to_string();
    }
    (1..).map(|i| format!("{hint}_{i}")).find(|name| !taken(name)).unwrap_or_default()
}
