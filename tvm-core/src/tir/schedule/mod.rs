//! Schedules: transformations of loops and blocks that preserve what the program computes.
//!
//! Every primitive checks that it is legal, and leaves the program unchanged if it is not. Primitives that succeed are
//! recorded in a [`Trace`] that can be replayed on a fresh copy of the program, saved as JSON and printed as Rust.
//!
//! TVM counterpart: `tir/schedule`.

pub(super) mod analysis;
mod argument;
mod error;
mod handle;
mod instruction;
mod loop_kinds;
mod methods;
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

use crate::tir::PrimFunc;
use handle::{Item, Lineage};
use instruction::Choice;

pub use argument::{BufferArg, FactorArg};
pub use error::ScheduleError;
pub use handle::{BlockRV, ExprRV, Factor, Handle, LoopRV, SRef};
pub use instruction::{InstructionKind, ScheduleInstruction};
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
}
