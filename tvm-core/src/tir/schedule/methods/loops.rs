//! Methods of [`Schedule`] that change, sample for and annotate loops.

use super::super::handle::Handle;
use super::super::instruction::InstructionKind;
use super::super::sample::Decision;
use super::super::{ExprRV, Factor, FactorArg, LoopRV, Result, SRef, Schedule, ScheduleError};
use crate::ir::AttrValue;
use crate::tir::ThreadTag;

impl Schedule {
    /// Splits a loop into loops of the extents `factors`, outermost first. A factor is an integer, a sampled integer, the name
    /// of a symbolic dimension, or `None` for the one that is inferred. Where the product of the factors is not known to
    /// divide the extent, the blocks inside run under a condition.
    ///
    /// ```
    /// # use tvm_core::tir::{PrimFunc, schedule::{Factor, Schedule, ScheduleError}};
    /// # fn tile(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let block = s.block("y")?;
    /// let [i, j] = s.loops(block)?;
    /// let [i_0, i_1] = s.split(i, [None, Some(8)])?;
    /// let tile = s.sample_perfect_tile::<3>(j, 16, None)?;
    /// let [j_0, j_1, j_2] = s.split(j, tile)?;
    /// let [of_n, rest] = s.split(i_0, [Factor::from("n"), Factor::Infer])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When a factor is not known to be positive, or more than one is to be inferred. A dimension is positive if its bounds say
    /// so (`dims(n = 1..)`).
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
            Factor::Dim(dim) => Some(FactorArg::Dim { dim: dim.clone() }),
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

    /// Divides the range of a loop at `points`, which are positive and ascending: `[8, 16]` gives a loop of the first 8
    /// iterations, one of the next 8 and one of the rest. Where the extent is symbolic, loops after its end have no
    /// iterations. Blocks in the first loop stay the same; those in the others are new, with new names.
    ///
    /// TVM counterpart: `loop_partition`, which takes lengths.
    ///
    /// ```
    /// # use tvm_core::tir::{PrimFunc, schedule::{Schedule, ScheduleError}};
    /// # fn peel(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let block = s.block("y")?;
    /// let [i, _] = s.loops(block)?;
    /// let [first, rest] = s.loop_partition(i, &[1])?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When a point is not inside the loop, the loop drives a reduction with an init, or the number of loops is not `N`.
    pub fn loop_partition<const N: usize>(&mut self, target: LoopRV, points: &[i64]) -> Result<[LoopRV; N]> {
        let got = points.len().saturating_add(1);
        let message = || format!("expected {N} loops, the points give {got}");
        let wrong = || ScheduleError::argument("loop_partition", message());
        if got != N {
            return Err(wrong());
        }
        self.loop_partition_n(target, points)?.try_into().map_err(|_| wrong())
    }

    /// [`loop_partition`](Self::loop_partition) into any number of loops.
    ///
    /// # Errors
    /// As `loop_partition`.
    pub fn loop_partition_n(&mut self, target: LoopRV, points: &[i64]) -> Result<Vec<LoopRV>> {
        let points = points.to_vec();
        self.loops_of(InstructionKind::LoopPartition { points }, &[target.handle()])
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

    /// Puts a loop of one iteration around a loop or block. Returns this loop.
    ///
    /// TVM counterpart: `add_unit_loop`.
    ///
    /// # Errors
    /// When the target is gone or the root block.
    pub fn add_unit_loop(&mut self, target: impl SRef) -> Result<LoopRV> {
        match self.loops_of(InstructionKind::AddUnitLoop, &[target.handle()])?[..] {
            [unit] => Ok(unit),
            _ => Err(ScheduleError::argument("add_unit_loop", "a loop was lost")),
        }
    }

    /// Attaches a hint for later passes to a loop or block.
    ///
    /// # Errors
    /// When the target is gone.
    pub fn annotate(&mut self, target: impl SRef, key: &str, value: impl Into<AttrValue>) -> Result<()> {
        self.run(InstructionKind::Annotate { key: key.into(), value: value.into() }, &[target.handle()])
            .map(|_| ())
    }

    /// Removes the hint `key` from a loop or block.
    ///
    /// TVM counterpart: `unannotate`.
    ///
    /// # Errors
    /// When the target is gone, or has no such hint.
    pub fn unannotate(&mut self, target: impl SRef, key: &str) -> Result<()> {
        self.run(InstructionKind::Unannotate { key: key.into() }, &[target.handle()]).map(|_| ())
    }
}
