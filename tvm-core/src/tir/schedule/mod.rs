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
mod primitive;
mod rewrite;
mod show;
mod state;
#[cfg(test)]
mod tests;
mod trace;

use std::sync::Arc;

use crate::ir::AttrValue;
use crate::tir::{PrimFunc, Scope, ThreadTag};
use handle::Lineage;

pub use error::ScheduleError;
pub use handle::{BlockRV, Handle, LoopRV, SRef};
pub use instruction::{BufferArg, Instruction, InstructionKind};
pub use loop_kinds::check_loop_kinds;
pub use state::{ScheduleState, StmtSRef};
pub use trace::Trace;

/// A program under schedule, with the trace of the primitives applied to it.
#[derive(Debug)]
pub struct Schedule {
    state: ScheduleState,
    trace: Trace,
    lineage: Arc<Lineage>,
}

impl Clone for Schedule {
    /// Forks the schedule: the clone accepts the handles returned so far.
    fn clone(&self) -> Schedule {
        let lineage = Arc::new(self.lineage.fork(self.trace.count()));
        Schedule { state: self.state.clone(), trace: self.trace.clone(), lineage }
    }
}

type Result<T> = std::result::Result<T, ScheduleError>;

impl Schedule {
    /// Starts a schedule of `func`.
    ///
    /// # Errors
    /// When its body is not the realize of a root block.
    pub fn new(func: PrimFunc) -> Result<Schedule> {
        Ok(Schedule { state: ScheduleState::new(func)?, trace: Trace::default(), lineage: Arc::new(Lineage::new()) })
    }

    /// The program as it is now.
    pub fn func(&self) -> &PrimFunc {
        self.state.func()
    }

    /// Ends the schedule and returns the program.
    pub fn into_func(self) -> PrimFunc {
        self.state.func().clone()
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
        inputs.iter().try_for_each(|&it| self.lineage.check(kind.name(), it))?;
        let srefs: Vec<StmtSRef> = inputs.iter().map(|it| it.sref()).collect();
        let outputs = kind.apply(&mut self.state, &srefs)?;
        let numbers = self.trace.record(kind, inputs, outputs.len());
        Ok(outputs.into_iter().zip(numbers).map(|(sref, number)| self.lineage.give(sref, number)).collect())
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

    /// Splits a loop into loops of the extents `factors`, outermost first. One factor may be `None`: it is inferred.
    ///
    /// # Errors
    /// When a factor is not positive, or more than one is to be inferred.
    pub fn split<const N: usize>(
        &mut self,
        target: LoopRV,
        factors: [Option<i64>; N],
    ) -> Result<[LoopRV; N]> {
        let loops =
            self.loops_of(InstructionKind::Split { factors: factors.to_vec() }, &[target.handle()])?;
        loops.try_into().map_err(|_| ScheduleError::argument("split", "a loop was lost"))
    }

    /// Fuses perfectly nested loops, outermost first.
    ///
    /// # Errors
    /// When they are not perfectly nested.
    pub fn fuse<const N: usize>(&mut self, loops: [LoopRV; N]) -> Result<LoopRV> {
        match self.loops_of(InstructionKind::Fuse, &loops.map(SRef::handle))?[..] {
            [fused] => Ok(fused),
            _ => Err(ScheduleError::argument("fuse", "a loop was lost")),
        }
    }

    /// Puts loops of one nest into the order `order`, outermost first.
    ///
    /// # Errors
    /// When the program would compute something else.
    pub fn reorder<const N: usize>(&mut self, order: [LoopRV; N]) -> Result<()> {
        self.run(InstructionKind::Reorder, &order.map(SRef::handle)).map(|_| ())
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

    /// Attaches a hint for later passes to a loop or block.
    ///
    /// # Errors
    /// When the target is gone.
    pub fn annotate(&mut self, target: impl SRef, key: &str, value: impl Into<AttrValue>) -> Result<()> {
        self.run(InstructionKind::Annotate { key: key.into(), value: value.into() }, &[target.handle()])
            .map(|_| ())
    }
}
