//! `blockize`: a loop, with what is inside, becomes a block around the block in it.
//!
//! `for i in 0..64 { for j in 0..16 { block("y", [S(i), S(j)], ..) } }`, with `i` split by 8 and at its inner loop, becomes
//!
//! ```text
//! for i_0 in 0..8 {
//!     block("y_o", [S(i_0)], |[vi_o]| {
//!         for i_1 in 0..8 { for j in 0..16 { block("y", [S(i_1), S(j)], |[vi_i, vj_i]| y[vi_o * 8 + vi_i, vj_i] = ..) } }
//!     });
//! }
//! ```
//!
//! Legal where the loop holds perfectly nested loops around one block, whose axes [`divide_axes`](analysis::divide_axes) can
//! divide, whose predicate does not depend on these loops, and which names no region. The init of a reduction becomes that of the new block, as a
//! nest; this takes a commutative update of elements that its spatial axes tell apart.
//!
//! TVM counterpart: `blockize`. There, every axis gets an axis in both blocks; here, an outer axis that no outer loop drives, and
//! an inner spatial axis that no inner loop drives, is left out.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::arith::Analyzer;
use crate::ir::{BlockId, VarId};
use crate::support::with_stack;
use crate::tir::analysis::{Frame, conjuncts, init_nest, with_access_regions};
use crate::tir::schedule::rewrite::{self, add_vars, unique_block_name};
use crate::tir::schedule::{ScheduleError, ScheduleState, StmtSRef, analysis};
use crate::tir::transform::DECOMPOSED;
use crate::tir::{
    Block, BlockRealize, Buffer, BufferRegion, BufferStore, For, ForKind, IterKind, IterVar, Mutator,
    PrimExpr, Stmt, Substitute, Visitor, for_each_load, walk_block, walk_stmt,
};

const NAME: &str = "blockize";

/// Puts a block around the loop `var`. Returns this block.
pub(in crate::tir::schedule) fn blockize(
    state: &mut ScheduleState,
    var: VarId,
) -> Result<BlockId, ScheduleError> {
    let at = StmtSRef::Loop(var);
    let refuse = |why: String| ScheduleError::illegal(NAME, why).show(state, &[at]);
    let top = state.get_for(var)?.clone();
    let blocks = analysis::child_blocks(&top.body);
    let [realize] = &blocks[..] else {
        return Err(refuse(format!("the loop holds {} blocks", blocks.len()))
            .help("blockize takes a loop that holds loops around one block"));
    };
    let block = &realize.block;
    let loops = state.loops_above(StmtSRef::Block(block.id));
    let nodes = loops.iter().map(|&it| state.get_for(it).cloned()).collect::<Result<Vec<_>, _>>()?;
    let (outer, inner) = nodes.split_at(loops.iter().position(|&it| it == var).unwrap_or(0));
    analysis::check_perfectly_nested(NAME, state, inner).map_err(|err| err.show(state, &[at]))?;
    if inner.last().is_none_or(|node| node.body.as_block_realize().is_none()) {
        return Err(refuse(format!("the loops hold other statements than block `{}`", block.name)));
    }
    check_loops(state, realize, &loops, inner).map_err(|err| err.show(state, &[at]))?;
    let analyzer = rewrite::analyzer_around(state, at)?;
    let divided = analysis::divide_axes(realize, outer, inner, &analyzer).map_err(refuse)?;
    let init = match &block.init {
        Some(init) => {
            check_init(state, realize, init).map_err(|err| err.show(state, &[at]))?;
            let at_loops = divided.iter().map(|it| it.at_loops.clone()).collect();
            let all = PrimExpr::bool(true);
            let whole = BlockRealize { iter_values: at_loops, predicate: all, block: block.clone() };
            let frames: Vec<Frame> = inner.iter().cloned().map(Frame::Loop).collect();
            let name = unique_block_name(state, &format!("{}_init", block.name));
            Some(init_nest(&whole, init, &frames, name))
        }
        None => None,
    };
    let nest = inner.iter().rev().fold(inside(realize, &divided, &analyzer), |body, node| {
        Stmt::from(For { body, ..(**node).clone() })
    });
    let axes = divided.iter().filter_map(|it| it.outer.as_ref());
    let block = with_access_regions(Block {
        iter_vars: axes.clone().map(|(axis, _)| axis.clone()).collect(),
        init,
        span: block.span.clone(),
        ..Block::new(unique_block_name(state, &format!("{}_o", block.name)), nest)
    });
    let (id, iter_values) = (block.id, axes.map(|(_, value)| value.clone()).collect());
    let new = BlockRealize { iter_values, predicate: realize.predicate.clone(), block: block.into() };
    state.replace(at, new.into())?;
    Ok(id)
}

/// The block with its inner axes, and without its init.
fn inside(realize: &BlockRealize, divided: &[analysis::Divided], analyzer: &Analyzer) -> Stmt {
    let block = &realize.block;
    let mut analyzer = analyzer.clone();
    let both = divided.iter().flat_map(|it| it.outer.iter().chain(&it.inner));
    both.for_each(|(axis, _)| analyzer.bind_range(&axis.var, &axis.dom));
    let ids = block.iter_vars.iter().map(|iter| iter.var.id());
    let vars = ids.zip(divided.iter().map(|it| it.whole.clone())).collect();
    let decomposed = block.init.is_some();
    let updated: &[BufferRegion] = if decomposed { &block.writes } else { &[] };
    let annotations = match decomposed {
        true => block.annotations.clone().with(DECOMPOSED, true),
        false => block.annotations.clone(),
    };
    let plain = Arc::new(Block {
        iter_vars: [].into(),
        reads: updated.iter().chain(block.reads.iter()).cloned().collect(),
        init: None,
        annotations,
        ..(**block).clone()
    });
    let plain = Substitute { vars, ..Substitute::default() }.mutate_block(&plain).map_or(plain, Arc::new);
    let plain = SimplifyIndices(&analyzer).mutate_block(&plain).map_or(plain, Arc::new);
    let axes = divided.iter().filter_map(|it| it.inner.as_ref());
    let iter_vars: Vec<IterVar> = axes.clone().map(|(axis, _)| axis.clone()).collect();
    let iter_values = axes.map(|(_, value)| value.clone()).collect();
    let block = Block { iter_vars: iter_vars.into(), ..(*plain).clone() };
    BlockRealize { iter_values, predicate: PrimExpr::bool(true), block: block.into() }.into()
}

/// Checks that only the axes of the block depend on the loops around it, and its predicate only on those that stay outside of
/// the new block.
fn check_loops(
    state: &ScheduleState,
    realize: &BlockRealize,
    loops: &[VarId],
    inner: &[Arc<For>],
) -> Result<(), ScheduleError> {
    let refuse = |why: String| Err(ScheduleError::illegal(NAME, why));
    let block = &realize.block;
    let mut used = Used(FxHashSet::default());
    used.visit_block(block);
    if let Some(&var) = loops.iter().find(|var| used.0.contains(var)) {
        let name = state.loop_name(var);
        return refuse(format!("block `{}` uses loop `{name}` itself, not an axis", block.name));
    }
    let mut sizes = OwnBuffers { fixed: true };
    sizes.visit_block(block);
    if !sizes.fixed {
        return refuse(format!(
            "block `{}` matches a buffer to a region, or allocates one whose size is not constant",
            block.name
        ));
    }
    for node in inner {
        let name = state.loop_name(node.loop_var.id());
        if let ForKind::ThreadBinding(_) = node.kind {
            return refuse(format!("loop `{name}` is bound to threads"));
        }
        let mut bounds = FxHashSet::default();
        [&node.min, &node.extent].into_iter().for_each(|it| add_vars(it, &mut bounds));
        if loops.iter().any(|var| bounds.contains(var)) {
            return refuse(format!("the range of loop `{name}` depends on another loop"));
        }
    }
    for condition in conjuncts(&realize.predicate) {
        let mut vars = FxHashSet::default();
        add_vars(&condition, &mut vars);
        if let Some(node) = inner.iter().find(|node| vars.contains(&node.loop_var.id())) {
            let name = state.loop_name(node.loop_var.id());
            let why = format!(
                "block `{}` runs where `{condition}` holds, which depends on loop `{name}` inside",
                block.name
            );
            return Err(ScheduleError::illegal(NAME, why)
                .help("split by factors that divide the extent, or pad it (`pad_einsum`)"));
        }
    }
    Ok(())
}

/// Checks that the init may run before all loops in the new block.
fn check_init(state: &ScheduleState, realize: &BlockRealize, init: &Stmt) -> Result<(), ScheduleError> {
    let block = &realize.block;
    let refuse =
        |why: &str| Err(ScheduleError::illegal(NAME, format!("the init of block `{}` {why}", block.name)));
    if !block.is_reduction() {
        return refuse("has no reduction to start");
    }
    let ordered = |iter: &IterVar| matches!(iter.kind, IterKind::Ordered | IterKind::Opaque);
    if block.iter_vars.iter().any(ordered) {
        return refuse("runs for axes that keep their order");
    }
    if !block.alloc_buffers.is_empty() {
        return refuse("may use buffers of the block");
    }
    if analysis::reduces_with_outer(state, realize) {
        return refuse("belongs to a reduction that a block around it goes on with");
    }
    if !analysis::child_blocks(init).is_empty() || !analysis::child_blocks(&block.body).is_empty() {
        return refuse("or its body holds other blocks");
    }
    let mut reads_result = false;
    for_each_load(init, &mut |load| {
        reads_result |= block.writes.iter().any(|write| write.buffer == load.buffer);
    });
    if reads_result {
        return refuse("reads what the block writes");
    }
    analysis::check_reorderable(NAME, state, realize)
}

/// The variables in a block.
struct Used(FxHashSet<VarId>);

impl Visitor for Used {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        add_vars(expr, &mut self.0);
    }
}

/// Whether all buffers that a block declares are allocated in constant sizes: their shapes may depend on axes otherwise.
struct OwnBuffers {
    fixed: bool,
}

impl OwnBuffers {
    fn buffer(&mut self, it: &Buffer) {
        self.fixed &= it.const_shape().is_some() && it.strides.is_empty() && it.elem_offset.is_none();
    }
}

impl Visitor for OwnBuffers {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::AllocBuffer(it) => self.buffer(&it.buffer),
            Stmt::DeclBuffer(_) => self.fixed = false,
            Stmt::BufferStore(_)
            | Stmt::For(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {}
        }
        walk_stmt(self, stmt);
    }

    fn visit_block(&mut self, block: &Block) {
        self.fixed &= block.match_buffers.is_empty();
        block.alloc_buffers.iter().for_each(|it| self.buffer(it));
        walk_block(self, block);
    }
}

/// Simplifies the indices of accesses.
struct SimplifyIndices<'a>(&'a Analyzer);

impl SimplifyIndices<'_> {
    fn simple(&self, indices: &[PrimExpr]) -> Arc<[PrimExpr]> {
        let simple = |it: &PrimExpr| if it.dtype().is_scalar() { self.0.simplify(it) } else { it.clone() };
        indices.iter().map(simple).collect()
    }
}

impl Mutator for SimplifyIndices<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = with_stack(|| self.walk_expr(expr));
        let PrimExpr::BufferLoad(load) = walked.as_ref().unwrap_or(expr) else { return walked };
        let indices = self.simple(&load.indices);
        Some(PrimExpr::BufferLoad(load.with_indices(indices).into()))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let walked = self.walk_stmt(stmt);
        let Stmt::BufferStore(store) = walked.as_ref().unwrap_or(stmt) else { return walked };
        let indices = self.simple(&store.indices);
        Some(BufferStore { indices, ..(**store).clone() }.into())
    }
}
