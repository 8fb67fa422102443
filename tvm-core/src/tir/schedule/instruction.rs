//! Primitives as data: the instructions that a trace records and replays.
//!
//! TVM counterpart: `Instruction`, `InstructionKind`.

use serde::{Deserialize, Serialize};

use super::analysis::check_scope;
use super::argument::{BufferArg, FactorArg};
use super::handle::Item;
use super::primitive::{
    add_unit_loop::add_unit_loop,
    annotate::annotate,
    atomic::atomic,
    blockize::blockize,
    cache_index::cache_index,
    cache_read::cache_read,
    cache_write::cache_write,
    compute_at::compute_at,
    compute_at::reverse_compute_at,
    compute_inline::compute_inline,
    decompose_padding::decompose_padding,
    decompose_reduction::decompose_reduction,
    for_kind::{misfit, set_kind},
    fuse::fuse,
    fuse_reduction_epilogue::fuse_reduction_epilogue,
    loop_partition::loop_partition,
    pad_einsum::pad_einsum,
    reindex::reindex,
    reorder::reorder,
    reverse_compute_inline::reverse_compute_inline,
    rfactor::rfactor,
    set_scope::set_scope,
    split::split,
    storage_align::storage_align,
    tensorize::tensorize,
    transform_block_layout::transform_block_layout,
    transform_layout::transform_layout,
    unannotate::unannotate,
};
use super::sample::{Decision, categorical, perfect_tile};
use super::{ScheduleError, ScheduleState, StmtSRef};
use crate::ir::{AttrValue, BlockId, VarId};
use crate::tir::{ForKind, IndexMap, PrimExpr, Scope, ThreadTag};

/// A primitive and its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum InstructionKind {
    /// Looks up a block by name.
    GetBlock {
        /// Name of the block.
        name: String,
    },
    /// Looks up the loops around a block.
    GetLoops,
    /// Splits a loop.
    Split {
        /// Extents of the new loops; `None` is inferred.
        factors: Vec<Option<FactorArg>>,
    },
    /// Samples factors whose product is the extent of a loop.
    SamplePerfectTile {
        /// Number of factors.
        n: usize,
        /// The largest innermost factor.
        max_innermost: i64,
    },
    /// Samples one of several integers.
    SampleCategorical {
        /// The integers.
        candidates: Vec<i64>,
        /// Their weights.
        weights: Vec<f64>,
    },
    /// Fuses loops.
    Fuse,
    /// Reorders loops.
    Reorder,
    /// Divides the range of a loop.
    LoopPartition {
        /// The first iterations of the second and the following loops.
        points: Vec<i64>,
    },
    /// Runs a loop on the thread pool.
    Parallel,
    /// Runs a loop as vector lanes.
    Vectorize,
    /// Repeats the body of a loop once per iteration.
    Unroll,
    /// Runs a loop on GPU threads.
    Bind {
        /// The thread index that the loop variable becomes.
        tag: ThreadTag,
    },
    /// Makes the update of a block atomic.
    Atomic {
        /// True if the order of updates of floats is free.
        any_order: bool,
    },
    /// Puts a loop of one iteration around a loop or block.
    AddUnitLoop,
    /// Makes a block and the other readers of a buffer read a copy of it.
    CacheRead {
        /// The buffer to copy, one of those that the block reads.
        #[serde(alias = "index")]
        buffer: BufferArg,
        /// Where the copy lives.
        scope: Scope,
    },
    /// Makes a block write a copy of a buffer; a new block copies it back.
    CacheWrite {
        /// The buffer to copy, one of those that the block writes.
        #[serde(alias = "index")]
        buffer: BufferArg,
        /// Where the copy lives.
        scope: Scope,
    },
    /// Computes common parts of the indices of a block before it.
    CacheIndex {
        /// Where the indices live.
        scope: Scope,
        /// How often an expression occurs at least.
        uses: usize,
    },
    /// Changes the layout of a buffer between blocks.
    TransformLayout {
        /// The buffer, one of those that the block writes or reads.
        buffer: BufferArg,
        /// A capital letter for each axis.
        from: String,
        /// The new layout.
        to: String,
    },
    /// Moves a buffer to another kind of memory.
    SetScope {
        /// The buffer, one of those that the block writes or reads.
        buffer: BufferArg,
        /// Where it lives.
        scope: Scope,
    },
    /// Aligns the stride of an axis of a buffer.
    StorageAlign {
        /// The buffer, one of those that the block writes.
        buffer: BufferArg,
        /// The axis; a negative one counts from the end.
        axis: i64,
        /// The modulus of the stride.
        factor: i64,
        /// What remains of the stride.
        offset: i64,
    },
    /// Makes a block access a copy of a buffer that its axes index.
    Reindex {
        /// The buffer to copy, one of those that the block writes or reads.
        buffer: BufferArg,
    },
    /// Changes the axes of a block and the loops around it.
    TransformBlockLayout {
        /// The new axes, as expressions of the axes of the block.
        index_map: IndexMap,
    },
    /// Pads the axes of a sum of products.
    PadEinsum {
        /// For each axis, what its extent becomes a multiple of.
        padding: Vec<i64>,
    },
    /// Moves a producer under a loop.
    ComputeAt,
    /// Moves a consumer under a loop.
    ReverseComputeAt,
    /// Inlines a producer.
    ComputeInline,
    /// Inlines a consumer.
    ReverseComputeInline,
    /// Makes a consumer part of a reduction.
    FuseReductionEpilogue,
    /// Separates the init of a reduction.
    DecomposeReduction,
    /// Separates the constant around a padded value.
    DecomposePadding,
    /// Factors a reduction by a loop.
    Rfactor {
        /// The dimension of the partial results that the loop becomes; a negative one counts from the end.
        factor_axis: i64,
    },
    /// Puts a block around a loop.
    Blockize,
    /// Replaces what a block or loop computes by a tensor intrinsic.
    Tensorize {
        /// Name of the intrinsic.
        intrin: String,
    },
    /// Attaches a hint.
    Annotate {
        /// Name of the hint.
        key: String,
        /// Value of the hint.
        value: AttrValue,
    },
    /// Removes a hint.
    Unannotate {
        /// Name of the hint.
        key: String,
    },
}

/// The decision of a sampling instruction: given before it runs, or drawn from `random` by it.
pub(super) struct Choice<'a> {
    pub(super) decision: Option<Decision>,
    pub(super) random: &'a mut fastrand::Rng,
}

/// One step of a trace. Inputs and outputs are numbers of handles, counted in the order in which the steps return them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleInstruction {
    /// The primitive and its attributes.
    #[serde(flatten)]
    pub kind: InstructionKind,
    /// Numbers of the handles that the primitive is applied to.
    pub inputs: Vec<u32>,
    /// Numbers of the handles that it returned.
    pub outputs: Vec<u32>,
    /// What a sampling instruction drew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

impl InstructionKind {
    /// Name of the method of `Schedule`.
    pub const fn name(&self) -> &'static str {
        match self {
            InstructionKind::GetBlock { .. } => "get_block",
            InstructionKind::GetLoops => "get_loops",
            InstructionKind::Split { .. } => "split",
            InstructionKind::SamplePerfectTile { .. } => "sample_perfect_tile",
            InstructionKind::SampleCategorical { .. } => "sample_categorical",
            InstructionKind::Fuse => "fuse",
            InstructionKind::Reorder => "reorder",
            InstructionKind::LoopPartition { .. } => "loop_partition",
            InstructionKind::Parallel => "parallel",
            InstructionKind::Vectorize => "vectorize",
            InstructionKind::Unroll => "unroll",
            InstructionKind::Bind { .. } => "bind",
            InstructionKind::Atomic { .. } => "atomic",
            InstructionKind::AddUnitLoop => "add_unit_loop",
            InstructionKind::CacheRead { .. } => "cache_read",
            InstructionKind::CacheWrite { .. } => "cache_write",
            InstructionKind::CacheIndex { .. } => "cache_index",
            InstructionKind::TransformLayout { .. } => "transform_layout",
            InstructionKind::SetScope { .. } => "set_scope",
            InstructionKind::StorageAlign { .. } => "storage_align",
            InstructionKind::Reindex { .. } => "reindex",
            InstructionKind::TransformBlockLayout { .. } => "transform_block_layout",
            InstructionKind::PadEinsum { .. } => "pad_einsum",
            InstructionKind::ComputeAt => "compute_at",
            InstructionKind::ReverseComputeAt => "reverse_compute_at",
            InstructionKind::ComputeInline => "compute_inline",
            InstructionKind::ReverseComputeInline => "reverse_compute_inline",
            InstructionKind::FuseReductionEpilogue => "fuse_reduction_epilogue",
            InstructionKind::DecomposeReduction => "decompose_reduction",
            InstructionKind::DecomposePadding => "decompose_padding",
            InstructionKind::Rfactor { .. } => "rfactor",
            InstructionKind::Blockize => "blockize",
            InstructionKind::Tensorize { .. } => "tensorize",
            InstructionKind::Annotate { .. } => "annotate",
            InstructionKind::Unannotate { .. } => "unannotate",
        }
    }

    /// True for instructions that sample.
    pub(super) const fn samples(&self) -> bool {
        matches!(self, InstructionKind::SamplePerfectTile { .. } | InstructionKind::SampleCategorical { .. })
    }

    /// True for primitives that move blocks or values, false for those that change loops, `None` for those that change
    /// nothing at run time.
    const fn moves(&self) -> Option<bool> {
        match self {
            InstructionKind::GetBlock { .. }
            | InstructionKind::GetLoops
            | InstructionKind::SamplePerfectTile { .. }
            | InstructionKind::SampleCategorical { .. }
            | InstructionKind::Unroll
            | InstructionKind::Atomic { .. }
            | InstructionKind::Annotate { .. }
            | InstructionKind::Unannotate { .. }
            | InstructionKind::StorageAlign { .. } => None,
            InstructionKind::Split { .. }
            | InstructionKind::Fuse
            | InstructionKind::Reorder
            | InstructionKind::LoopPartition { .. }
            | InstructionKind::Parallel
            | InstructionKind::Vectorize
            | InstructionKind::Bind { .. }
            | InstructionKind::AddUnitLoop
            | InstructionKind::DecomposeReduction => Some(false),
            InstructionKind::CacheRead { .. }
            | InstructionKind::CacheWrite { .. }
            | InstructionKind::CacheIndex { .. }
            | InstructionKind::TransformLayout { .. }
            | InstructionKind::SetScope { .. }
            | InstructionKind::Reindex { .. }
            | InstructionKind::TransformBlockLayout { .. }
            | InstructionKind::PadEinsum { .. }
            | InstructionKind::ComputeAt
            | InstructionKind::ReverseComputeAt
            | InstructionKind::ComputeInline
            | InstructionKind::ReverseComputeInline
            | InstructionKind::FuseReductionEpilogue
            | InstructionKind::DecomposePadding
            | InstructionKind::Rfactor { .. }
            | InstructionKind::Blockize
            | InstructionKind::Tensorize { .. } => Some(true),
        }
    }

    /// Applies the primitive to `state`, which is unchanged when it fails. It fails if loops that could run side by
    /// side before no longer could afterwards.
    pub(super) fn apply(
        &self,
        state: &mut ScheduleState,
        inputs: &[Item],
        choice: &mut Choice<'_>,
    ) -> Result<Vec<Item>, ScheduleError> {
        let Some(moves) = self.moves() else { return self.change(state, inputs, choice) };
        for input in inputs {
            if let Item::Stmt(sref) = input {
                check_scope(self.name(), state, *sref, moves)?;
            }
        }
        if !moves && state.side_by_side().is_empty() {
            return self.change(state, inputs, choice);
        }
        let before = state.clone();
        let outputs = self.change(state, inputs, choice).and_then(|outputs| {
            match misfit(self.name(), state, Some(&before), self.checked(inputs))? {
                Some(misfit_now) if misfit(self.name(), &before, None, None)?.is_none() => Err(misfit_now),
                _ => Ok(outputs),
            }
        });
        if outputs.is_err() {
            *state = before;
        }
        outputs
    }

    /// The loop that the primitive checks itself: the one whose kind it sets.
    fn checked(&self, inputs: &[Item]) -> Option<VarId> {
        let sets_kind = matches!(
            self,
            InstructionKind::Parallel | InstructionKind::Vectorize | InstructionKind::Bind { .. }
        );
        match inputs.first() {
            Some(Item::Stmt(StmtSRef::Loop(var))) if sets_kind => Some(*var),
            _ => None,
        }
    }

    fn change(
        &self,
        state: &mut ScheduleState,
        inputs: &[Item],
        choice: &mut Choice<'_>,
    ) -> Result<Vec<Item>, ScheduleError> {
        let block = |i: usize| match inputs.get(i) {
            Some(Item::Stmt(StmtSRef::Block(id))) => Ok(*id),
            _ => Err(ScheduleError::argument(self.name(), format!("input {i} is not a block"))),
        };
        let a_loop = |i: usize| match inputs.get(i) {
            Some(Item::Stmt(StmtSRef::Loop(var))) => Ok(*var),
            _ => Err(ScheduleError::argument(self.name(), format!("input {i} is not a loop"))),
        };
        let int = |i: usize| match inputs.get(i) {
            Some(Item::Int(value)) => Ok(*value),
            _ => Err(ScheduleError::argument(self.name(), format!("input {i} is not an integer"))),
        };
        let stmt = |i: usize| match inputs.get(i) {
            Some(Item::Stmt(sref)) => Ok(*sref),
            _ => Err(ScheduleError::argument(self.name(), format!("input {i} is not a loop or a block"))),
        };
        let all_loops = || (0..inputs.len()).map(a_loop).collect::<Result<Vec<VarId>, _>>();
        let no_output = |()| Vec::new();
        let one_block = |id: BlockId| vec![Item::Stmt(StmtSRef::Block(id))];
        let loops = |vars: Vec<VarId>| vars.into_iter().map(|var| Item::Stmt(StmtSRef::Loop(var))).collect();
        match self {
            InstructionKind::GetBlock { name } => find_block(state, name).map(one_block),
            InstructionKind::GetLoops => {
                let id = block(0)?;
                state.get_block(id)?;
                Ok(loops(state.loops_above(StmtSRef::Block(id))))
            }
            InstructionKind::Split { factors } => {
                let value = |factor: &Option<FactorArg>| match factor {
                    None => Ok(None),
                    Some(FactorArg::Int(value)) => Ok(Some(PrimExpr::index(*value))),
                    Some(FactorArg::Input { input }) => int(*input).map(|it| Some(PrimExpr::index(it))),
                    Some(FactorArg::Dim { dim }) => find_dim(state, dim).map(Some),
                };
                let factors = factors.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                split(state, a_loop(0)?, &factors).map(loops)
            }
            InstructionKind::SamplePerfectTile { n, max_innermost } => {
                let limits = (*n, *max_innermost);
                let tile = perfect_tile(state, a_loop(0)?, limits, choice.decision.as_ref(), choice.random)?;
                choice.decision = Some(Decision::Tile(tile.clone()));
                Ok(tile.into_iter().map(Item::Int).collect())
            }
            InstructionKind::SampleCategorical { candidates, weights } => {
                let of = (&candidates[..], &weights[..]);
                let index = categorical(of, choice.decision.as_ref(), choice.random)?;
                choice.decision = Some(Decision::Index(index));
                Ok(vec![Item::Int(candidates[index])])
            }
            InstructionKind::Fuse => fuse(state, &all_loops()?).map(|var| loops(vec![var])),
            InstructionKind::Reorder => reorder(state, &all_loops()?).map(no_output),
            InstructionKind::LoopPartition { points } => loop_partition(state, a_loop(0)?, points).map(loops),
            InstructionKind::Parallel => set_kind(state, a_loop(0)?, ForKind::Parallel).map(no_output),
            InstructionKind::Vectorize => set_kind(state, a_loop(0)?, ForKind::Vectorized).map(no_output),
            InstructionKind::Unroll => set_kind(state, a_loop(0)?, ForKind::Unrolled).map(no_output),
            InstructionKind::Bind { tag } => {
                set_kind(state, a_loop(0)?, ForKind::ThreadBinding(*tag)).map(no_output)
            }
            InstructionKind::Atomic { any_order } => atomic(state, block(0)?, *any_order).map(no_output),
            InstructionKind::AddUnitLoop => add_unit_loop(state, stmt(0)?).map(|var| loops(vec![var])),
            InstructionKind::CacheRead { buffer, scope } => {
                cache_read(state, block(0)?, buffer, *scope).map(one_block)
            }
            InstructionKind::CacheWrite { buffer, scope } => {
                cache_write(state, block(0)?, buffer, *scope).map(one_block)
            }
            InstructionKind::CacheIndex { scope, uses } => {
                let blocks = cache_index(state, block(0)?, *scope, *uses)?;
                Ok(blocks.into_iter().flat_map(one_block).collect())
            }
            InstructionKind::TransformLayout { buffer, from, to } => {
                transform_layout(state, block(0)?, buffer, from, to).map(no_output)
            }
            InstructionKind::SetScope { buffer, scope } => {
                set_scope(state, block(0)?, buffer, *scope).map(no_output)
            }
            InstructionKind::StorageAlign { buffer, axis, factor, offset } => {
                storage_align(state, block(0)?, buffer, [*axis, *factor, *offset]).map(no_output)
            }
            InstructionKind::Reindex { buffer } => reindex(state, block(0)?, buffer).map(one_block),
            InstructionKind::TransformBlockLayout { index_map } => {
                transform_block_layout(state, block(0)?, index_map).map(no_output)
            }
            InstructionKind::PadEinsum { padding } => pad_einsum(state, block(0)?, padding).map(no_output),
            InstructionKind::ComputeAt => compute_at(state, block(0)?, a_loop(1)?).map(no_output),
            InstructionKind::ReverseComputeAt => {
                reverse_compute_at(state, block(0)?, a_loop(1)?).map(no_output)
            }
            InstructionKind::ComputeInline => compute_inline(state, block(0)?).map(no_output),
            InstructionKind::ReverseComputeInline => reverse_compute_inline(state, block(0)?).map(no_output),
            InstructionKind::FuseReductionEpilogue => {
                fuse_reduction_epilogue(state, block(0)?, block(1)?).map(no_output)
            }
            InstructionKind::DecomposeReduction => {
                decompose_reduction(state, block(0)?, a_loop(1)?).map(one_block)
            }
            InstructionKind::DecomposePadding => {
                decompose_padding(state, block(0)?, a_loop(1)?).map(one_block)
            }
            InstructionKind::Rfactor { factor_axis } => {
                rfactor(state, a_loop(0)?, *factor_axis).map(one_block)
            }
            InstructionKind::Blockize => blockize(state, a_loop(0)?).map(one_block),
            InstructionKind::Tensorize { intrin } => tensorize(state, stmt(0)?, intrin).map(one_block),
            InstructionKind::Annotate { key, value } => annotate(state, stmt(0)?, key, value).map(no_output),
            InstructionKind::Unannotate { key } => unannotate(state, stmt(0)?, key).map(no_output),
        }
    }
}

/// The symbolic dimension named `name`.
fn find_dim(state: &ScheduleState, name: &str) -> Result<PrimExpr, ScheduleError> {
    let dims = state.func().symbolic_dims();
    let mut named = dims.iter().filter(|dim| dim.name() == name);
    if let (Some(dim), None) = (named.next(), named.next()) {
        return Ok(dim.into());
    }
    let all: Vec<String> = dims.iter().map(|dim| format!("`{}`", dim.name())).collect();
    let all = if all.is_empty() { "none".into() } else { all.join(", ") };
    let message = format!("`{name}` names no symbolic dimension, or more than one; the dimensions are {all}");
    Err(ScheduleError::argument("split", message))
}

fn find_block(state: &ScheduleState, name: &str) -> Result<BlockId, ScheduleError> {
    let blocks = state.blocks();
    blocks.iter().find(|it| &*it.block.name == name).map(|it| it.block.id).ok_or_else(|| {
        let names: Vec<String> = blocks.iter().map(|it| format!("`{}`", it.block.name)).collect();
        ScheduleError::UnknownBlock { name: name.into(), blocks: names.join(", ") }
    })
}
