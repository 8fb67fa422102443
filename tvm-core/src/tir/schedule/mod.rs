//! Schedules: transformations of loops and blocks that preserve what the program computes.
//!
//! Every primitive checks that it is legal, and leaves the program unchanged if it is not. Primitives that succeed are
//! recorded in a [`Trace`] that can be replayed on a fresh copy of the program, saved as JSON and printed as Rust.
//!
//! TVM counterpart: `tir/schedule`.

mod analysis;
mod error;
mod handle;
mod instruction;
mod loop_kinds;
mod module;
mod primitive;
mod rewrite;
mod sample;
mod show;
mod state;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::Arc;

use crate::ir::AttrValue;
use crate::tir::{PrimFunc, Scope, ThreadTag};
use handle::{Item, Lineage};
use instruction::Choice;

pub use error::ScheduleError;
pub use handle::{BlockRV, ExprRV, Factor, Handle, LoopRV, SRef};
pub use instruction::{BufferArg, FactorArg, InstructionKind, ScheduleInstruction};
pub use loop_kinds::check_loop_kinds;
pub use module::ModuleSchedule;
pub use sample::Decision;
pub use state::{ScheduleState, StmtSRef};
pub use trace::Trace;

/// Attribute of a program to which a schedule was applied: the default schedule leaves it as it is.
pub const IS_SCHEDULED: &str = "is_scheduled";

/// A program under schedule, with the trace of the primitives applied to it.
#[derive(Debug)]
pub struct Schedule {
    state: ScheduleState,
    trace: Trace,
    lineage: Arc<Lineage>,
    random: fastrand::Rng,
}

impl Clone for Schedule {
    /// Forks the schedule: the clone accepts the handles returned so far, and samples as this one would; [`seed`] changes that.
    ///
    /// [`seed`]: Schedule::seed
    fn clone(&self) -> Schedule {
        let lineage = Arc::new(self.lineage.fork(self.trace.count()));
        let (state, trace) = (self.state.clone(), self.trace.clone());
        Schedule { state, trace, lineage, random: self.random.clone() }
    }
}

type Result<T> = std::result::Result<T, ScheduleError>;

impl Schedule {
    /// Starts a schedule of `func`.
    ///
    /// # Errors
    /// When its body is not the realize of a root block.
    pub fn new(func: PrimFunc) -> Result<Schedule> {
        let (state, lineage) = (ScheduleState::new(func)?, Arc::new(Lineage::new()));
        Ok(Schedule { state, trace: Trace::default(), lineage, random: fastrand::Rng::with_seed(0) })
    }

    /// The program as it is now.
    pub fn func(&self) -> &PrimFunc {
        self.state.func()
    }

    /// Ends the schedule and returns the program, with the attribute [`IS_SCHEDULED`] if an instruction was applied.
    pub fn into_func(self) -> PrimFunc {
        let mut func = self.state.func().clone();
        if self.trace.count() > 0 {
            func.attrs.set(IS_SCHEDULED, true);
        }
        func
    }

    /// The program with its index of loops and blocks.
    pub fn state(&self) -> &ScheduleState {
        &self.state
    }

    /// The instructions applied so far.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The loop nest as an outline.
    pub fn outline(&self) -> String {
        show::loop_nest(&self.state, &[])
    }

    /// Runs one instruction on handles, and records it.
    pub(crate) fn run(&mut self, kind: InstructionKind, inputs: &[Handle]) -> Result<Vec<Handle>> {
        self.run_with(kind, inputs, None)
    }

    /// [`run`](Self::run), with the decision of a sampling instruction.
    fn run_with(
        &mut self,
        kind: InstructionKind,
        inputs: &[Handle],
        decision: Option<Decision>,
    ) -> Result<Vec<Handle>> {
        inputs.iter().try_for_each(|&it| self.lineage.check(kind.name(), it))?;
        let items: Vec<Item> = inputs.iter().map(|it| it.item()).collect();
        let mut choice = Choice { decision, random: &mut self.random };
        let outputs = kind.apply(&mut self.state, &items, &mut choice)?;
        let decision = choice.decision.filter(|_| kind.samples());
        let numbers = self.trace.record(kind, inputs, outputs.len(), decision);
        Ok(outputs.into_iter().zip(numbers).map(|(item, number)| self.lineage.give(item, number)).collect())
    }

    /// Sets the seed of what sampling instructions draw; a new schedule has the seed 0.
    pub fn seed(&mut self, seed: u64) {
        self.random = fastrand::Rng::with_seed(seed);
    }

    fn one_block(&mut self, kind: InstructionKind, inputs: &[Handle]) -> Result<BlockRV> {
        match self.run(kind, inputs)?[..] {
            [handle] => handle.block(),
            _ => None,
        }
        .ok_or_else(|| ScheduleError::Trace("a primitive gave something else than one block".into()))
    }

    fn loops_of(&mut self, kind: InstructionKind, inputs: &[Handle]) -> Result<Vec<LoopRV>> {
        Ok(self.run(kind, inputs)?.into_iter().filter_map(Handle::a_loop).collect())
    }

    /// The block named `name`.
    ///
    /// # Errors
    /// When no block has this name.
    pub fn get_block(&mut self, name: &str) -> Result<BlockRV> {
        self.one_block(InstructionKind::GetBlock { name: name.into() }, &[])
    }

    /// Short for [`get_block`](Self::get_block).
    ///
    /// # Errors
    /// When no block has this name.
    pub fn block(&mut self, name: &str) -> Result<BlockRV> {
        self.get_block(name)
    }

    /// The loops around `block` up to the block around it, outermost first.
    ///
    /// # Errors
    /// When the block is gone.
    pub fn get_loops(&mut self, block: BlockRV) -> Result<Vec<LoopRV>> {
        self.loops_of(InstructionKind::GetLoops, &[block.handle()])
    }

    /// The `N` loops around `block`.
    ///
    /// # Errors
    /// When the number of loops is not `N`.
    pub fn loops<const N: usize>(&mut self, block: BlockRV) -> Result<[LoopRV; N]> {
        let loops = self.get_loops(block)?;
        let got = loops.len();
        loops
            .try_into()
            .map_err(|_| ScheduleError::argument("loops", format!("expected {N} loops, the block has {got}")))
    }

    /// Splits a loop into loops of the extents `factors`, outermost first. A factor is an integer, a sampled integer, or `None` for the one that is
    /// inferred.
    ///
    /// ```
    /// # use tvm_core::tir::{PrimFunc, schedule::{Schedule, ScheduleError}};
    /// # fn tile(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let block = s.block("y")?;
    /// let [i, j] = s.loops(block)?;
    /// let [i_0, i_1] = s.split(i, [None, Some(8)])?;
    /// let tile = s.sample_perfect_tile::<3>(j, 16, None)?;
    /// let [j_0, j_1, j_2] = s.split(j, tile)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When a factor is not positive, or more than one is to be inferred.
    pub fn split<const N: usize>(
        &mut self,
        target: LoopRV,
        factors: [impl Into<Factor>; N],
    ) -> Result<[LoopRV; N]> {
        let loops = self.split_n(target, &factors.map(Into::into))?;
        loops.try_into().map_err(|_| ScheduleError::argument("split", "a loop was lost"))
    }

    /// [`split`](Self::split) by any number of factors.
    ///
    /// # Errors
    /// As `split`.
    pub fn split_n(&mut self, target: LoopRV, factors: &[Factor]) -> Result<Vec<LoopRV>> {
        let mut inputs = vec![target.handle()];
        let mut arg = |factor: &Factor| match factor {
            Factor::Infer => None,
            Factor::Int(value) => Some(FactorArg::Int(*value)),
            Factor::Sampled(expr) => {
                inputs.push(expr.handle());
                Some(FactorArg::Input { input: inputs.len() - 1 })
            }
        };
        let factors = factors.iter().map(&mut arg).collect();
        self.loops_of(InstructionKind::Split { factors }, &inputs)
    }

    /// Samples `N` factors whose product is the extent of a loop, the innermost at most `max_innermost`. A `decision` is
    /// taken instead of a sample.
    ///
    /// TVM counterpart: `sample_perfect_tile`.
    ///
    /// # Errors
    /// When the extent is not a positive constant, or the decision is no such tiling.
    pub fn sample_perfect_tile<const N: usize>(
        &mut self,
        target: LoopRV,
        max_innermost: i64,
        decision: Option<[i64; N]>,
    ) -> Result<[ExprRV; N]> {
        let decision = decision.as_ref().map(|it| &it[..]);
        let factors = self.sample_perfect_tile_n(target, N, max_innermost, decision)?;
        factors.try_into().map_err(|_| ScheduleError::argument("sample_perfect_tile", "a factor was lost"))
    }

    /// [`sample_perfect_tile`](Self::sample_perfect_tile) of `n` factors.
    ///
    /// # Errors
    /// As `sample_perfect_tile`.
    pub fn sample_perfect_tile_n(
        &mut self,
        target: LoopRV,
        n: usize,
        max_innermost: i64,
        decision: Option<&[i64]>,
    ) -> Result<Vec<ExprRV>> {
        let kind = InstructionKind::SamplePerfectTile { n, max_innermost };
        let decision = decision.map(|it| Decision::Tile(it.to_vec()));
        let factors = self.run_with(kind, &[target.handle()], decision)?;
        Ok(factors.into_iter().filter_map(Handle::expr).collect())
    }

    /// Samples one of `candidates`, which have these `weights`. A `decision`, the position of a candidate, is taken instead
    /// of a sample.
    ///
    /// TVM counterpart: `sample_categorical`.
    ///
    /// # Errors
    /// When there are not as many weights as candidates, the weights are negative or all 0, or there is no such candidate.
    pub fn sample_categorical(
        &mut self,
        candidates: &[i64],
        weights: &[f64],
        decision: Option<usize>,
    ) -> Result<ExprRV> {
        let (candidates, weights) = (candidates.to_vec(), weights.to_vec());
        let kind = InstructionKind::SampleCategorical { candidates, weights };
        let drawn = self.run_with(kind, &[], decision.map(Decision::Index))?;
        let drawn = drawn.first().and_then(|it| it.expr());
        drawn.ok_or_else(|| ScheduleError::argument("sample_categorical", "the sample was lost"))
    }

    /// Fuses perfectly nested loops, outermost first.
    ///
    /// # Errors
    /// When they are not perfectly nested.
    pub fn fuse<const N: usize>(&mut self, loops: [LoopRV; N]) -> Result<LoopRV> {
        self.fuse_n(&loops)
    }

    /// [`fuse`](Self::fuse) of any number of loops.
    ///
    /// # Errors
    /// As `fuse`.
    pub fn fuse_n(&mut self, loops: &[LoopRV]) -> Result<LoopRV> {
        let loops: Vec<Handle> = loops.iter().map(|it| it.handle()).collect();
        match self.loops_of(InstructionKind::Fuse, &loops)?[..] {
            [fused] => Ok(fused),
            _ => Err(ScheduleError::argument("fuse", "a loop was lost")),
        }
    }

    /// Puts loops of one chain in this order, outermost first.
    ///
    /// # Errors
    /// When the program would compute something else.
    pub fn reorder<const N: usize>(&mut self, order: [LoopRV; N]) -> Result<()> {
        self.reorder_n(&order)
    }

    /// [`reorder`](Self::reorder) of any number of loops.
    ///
    /// # Errors
    /// As `reorder`.
    pub fn reorder_n(&mut self, order: &[LoopRV]) -> Result<()> {
        let order: Vec<Handle> = order.iter().map(|it| it.handle()).collect();
        self.run(InstructionKind::Reorder, &order).map(|_| ())
    }

    /// Runs the iterations of a loop on the thread pool.
    ///
    /// # Errors
    /// When they depend on each other.
    pub fn parallel(&mut self, target: LoopRV) -> Result<()> {
        self.run(InstructionKind::Parallel, &[target.handle()]).map(|_| ())
    }

    /// Runs the iterations of a loop as lanes of vectors.
    ///
    /// # Errors
    /// When they depend on each other or their number is not a constant.
    pub fn vectorize(&mut self, target: LoopRV) -> Result<()> {
        self.run(InstructionKind::Vectorize, &[target.handle()]).map(|_| ())
    }

    /// Unrolls a loop: its body is repeated once per iteration.
    ///
    /// # Errors
    /// When the loop is gone.
    pub fn unroll(&mut self, target: LoopRV) -> Result<()> {
        self.run(InstructionKind::Unroll, &[target.handle()]).map(|_| ())
    }

    /// Runs the iterations of a loop on GPU threads.
    ///
    /// # Errors
    /// When they depend on each other.
    pub fn bind(&mut self, target: LoopRV, tag: ThreadTag) -> Result<()> {
        self.run(InstructionKind::Bind { tag }, &[target.handle()]).map(|_| ())
    }

    /// Makes `block`, and the other readers in its scope, read a copy of `buffer` in `scope`. `buffer` is a name, or a
    /// position among the buffers that the block reads. Returns the copying block.
    ///
    /// # Errors
    /// When the buffer is written among or after its readers.
    pub fn cache_read(
        &mut self,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        scope: Scope,
    ) -> Result<BlockRV> {
        self.one_block(InstructionKind::CacheRead { buffer: buffer.into(), scope }, &[block.handle()])
    }

    /// Makes `block` write `buffer` through a copy in `scope`. `buffer` is a name, or a position among the buffers that
    /// the block writes. Returns the block that copies back.
    ///
    /// # Errors
    /// When other blocks write the buffer too.
    pub fn cache_write(
        &mut self,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        scope: Scope,
    ) -> Result<BlockRV> {
        self.one_block(InstructionKind::CacheWrite { buffer: buffer.into(), scope }, &[block.handle()])
    }

    /// Gives `buffer`, which blocks of the program write and read, another layout; all accesses change with it. `buffer` is
    /// a name, or a position among the buffers that `block` writes, followed by those that it reads. `from` is a capital
    /// letter for each of its axes, and `to` the new [`Layout`](crate::tir::Layout): `("KN", "NK16n")` turns 64 × 96
    /// elements into 6 × 64 × 16.
    ///
    /// # Errors
    /// When the buffer is a parameter, or blocks do not divide an axis.
    pub fn transform_layout(
        &mut self,
        block: BlockRV,
        buffer: impl Into<BufferArg>,
        from: &str,
        to: &str,
    ) -> Result<()> {
        let (buffer, from, to) = (buffer.into(), from.to_string(), to.to_string());
        self.run(InstructionKind::TransformLayout { buffer, from, to }, &[block.handle()]).map(|_| ())
    }

    /// Moves a producer under a loop around all its consumers.
    ///
    /// # Errors
    /// When the program would compute something else.
    pub fn compute_at(&mut self, block: BlockRV, target: LoopRV) -> Result<()> {
        self.run(InstructionKind::ComputeAt, &[block.handle(), target.handle()]).map(|_| ())
    }

    /// Moves a consumer under a loop around its producer.
    ///
    /// # Errors
    /// When the program would compute something else.
    pub fn reverse_compute_at(&mut self, block: BlockRV, target: LoopRV) -> Result<()> {
        self.run(InstructionKind::ReverseComputeAt, &[block.handle(), target.handle()]).map(|_| ())
    }

    /// Inlines a block: its value replaces the loads that read it.
    ///
    /// # Errors
    /// When its value is not one expression, or its inputs change before it is used.
    pub fn compute_inline(&mut self, block: BlockRV) -> Result<()> {
        self.run(InstructionKind::ComputeInline, &[block.handle()]).map(|_| ())
    }

    /// Moves an element-wise consumer into its producer.
    ///
    /// # Errors
    /// When it is not the only reader, or does not read each element once.
    pub fn reverse_compute_inline(&mut self, block: BlockRV) -> Result<()> {
        self.run(InstructionKind::ReverseComputeInline, &[block.handle()]).map(|_| ())
    }

    /// Moves the init of a reduction before a loop. Returns the init block.
    ///
    /// # Errors
    /// When a loop around `target` drives the reduction.
    pub fn decompose_reduction(&mut self, block: BlockRV, target: LoopRV) -> Result<BlockRV> {
        self.one_block(InstructionKind::DecomposeReduction, &[block.handle(), target.handle()])
    }

    /// Makes a block that writes a padded value, `if_then_else(in_bounds, value, constant)`, write only what is in bounds, after a
    /// block before the loop `target` has written the constant everywhere. Bounds of an axis narrow its loop. Returns the
    /// block that writes the constant.
    ///
    /// TVM counterpart: `decompose_padding`.
    ///
    /// # Errors
    /// When the value is no such choice, or the loop holds more than the block.
    pub fn decompose_padding(&mut self, block: BlockRV, target: LoopRV) -> Result<BlockRV> {
        self.one_block(InstructionKind::DecomposePadding, &[block.handle(), target.handle()])
    }

    /// Factors the reduction in `target`, a loop that drives it: each iteration of the loop gets partial results of its own,
    /// which `block`, the result of this method, computes, and which the block of the reduction then combines. The partial
    /// results are a buffer with one more dimension, `factor_axis`; a negative one counts from the end, -1 is the last. The
    /// loops around the block are now around `block`. Sums of floats may be rounded in another way.
    ///
    /// TVM counterpart: `rfactor`.
    ///
    /// ```
    /// # use tvm_core::tir::{PrimFunc, schedule::{Schedule, ScheduleError}};
    /// # fn sum_rows(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let sum = s.block("y")?;
    /// let [i, k] = s.loops(sum)?;
    /// let [k_0, k_1] = s.split(k, [None, Some(8)])?;
    /// let block = s.rfactor(k_1, 0)?;
    /// s.reorder([k_1, i, k_0])?;
    /// s.parallel(k_1)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the block is no commutative reduction with an init, or the loop does more than drive its reduction axes.
    pub fn rfactor(&mut self, target: LoopRV, factor_axis: i64) -> Result<BlockRV> {
        self.one_block(InstructionKind::Rfactor { factor_axis }, &[target.handle()])
    }

    /// Attaches a hint for later passes to a loop or block.
    ///
    /// # Errors
    /// When the target is gone.
    pub fn annotate(&mut self, target: impl SRef, key: &str, value: impl Into<AttrValue>) -> Result<()> {
        self.run(InstructionKind::Annotate { key: key.into(), value: value.into() }, &[target.handle()])
            .map(|_| ())
    }
}
