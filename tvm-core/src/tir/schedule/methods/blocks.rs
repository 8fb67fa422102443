//! Methods of [`Schedule`] that move, inline and divide blocks.

use super::super::instruction::InstructionKind;
use super::super::{BlockRV, LoopRV, Result, SRef, Schedule};
use crate::tir::IndexMap;

impl Schedule {
    /// Makes the update of an element that is all that `block` does, `y[i] = y[i] + x`, atomic: loops around the block may then be
    /// bound to GPU threads ([`bind`](Self::bind)), also where several of them update one element. Differences are sums, and
    /// products, minima and maxima are updates as well. Elsewhere, the block runs as before.
    ///
    /// The order in which threads update an element changes nothing for integers. For floats it does, and such an update is
    /// refused unless `any_order` allows it: results may then differ from run to run.
    ///
    /// ```
    /// # use tvm_core::tir::{PrimFunc, ThreadTag, schedule::{Schedule, ScheduleError}};
    /// # fn histogram(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let counts = s.block("counts")?;
    /// s.atomic(counts, false)?;
    /// let [i] = s.loops(counts)?;
    /// let [block, thread] = s.split(i, [None, Some(256)])?;
    /// s.bind(block, ThreadTag::BlockIdxX)?;
    /// s.bind(thread, ThreadTag::ThreadIdxX)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the block does something else, the term or the place depends on the updated buffer, the buffer is not in global memory, or
    /// its elements are not numbers of 32 or 64 bits.
    pub fn atomic(&mut self, block: BlockRV, any_order: bool) -> Result<()> {
        self.run(InstructionKind::Atomic { any_order }, &[block.handle()]).map(|_| ())
    }

    /// Moves a producer under a loop around all its consumers.
    ///
    /// # Errors
    /// When the program would compute something else.
    pub fn compute_at(&mut self, block: BlockRV, target: LoopRV) -> Result<()> {
        self.run(InstructionKind::ComputeAt, &[block.handle(), target.handle()]).map(|_| ())
    }

    /// Moves a consumer under a loop around its producer. A reduction of what the producer makes goes on from iteration to
    /// iteration.
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

    /// Makes `epilogue`, which adds to the result of `reduction` (or multiplies, compares it, as the reduction does), part of
    /// the reduction: `c[i] + b[i]` starts at `b[i]`. Sums of floats may be rounded in another way.
    ///
    /// TVM counterpart: `fuse_reduction_epilogue`.
    ///
    /// ```
    /// # use tvm_core::tir::{PrimFunc, schedule::{Schedule, ScheduleError}};
    /// # fn biased(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let (product, biased) = (s.block("product")?, s.block("biased")?);
    /// s.fuse_reduction_epilogue(product, biased)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When it is not the only reader, does not read each element once, or computes something that cannot be applied before
    /// the reduction is complete, as a maximum of a sum.
    pub fn fuse_reduction_epilogue(&mut self, reduction: BlockRV, epilogue: BlockRV) -> Result<()> {
        self.run(InstructionKind::FuseReductionEpilogue, &[reduction.handle(), epilogue.handle()]).map(|_| ())
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

    /// Gives `block` the axes that `index_map` makes of its axes, and loops over them in place of the loops around it. The
    /// axes are spatial or reductions, as those that they are made of. Sums of floats may be rounded in another way.
    ///
    /// TVM counterpart: `transform_block_layout`.
    ///
    /// ```
    /// # use tvm_core::tir::{IndexMap, PrimFunc, schedule::{Schedule, ScheduleError}};
    /// # fn tiles(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let y = s.block("y")?;
    /// s.transform_block_layout(y, IndexMap::of(|[i, j]| [i / 8, j / 4, i % 8, j % 4])?)?;
    /// let [i_0, j_0, i_1, j_1] = s.loops(y)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the map is not bijective over the axes or mixes spatial and reduction axes, or the block is not alone in its loops.
    pub fn transform_block_layout(&mut self, block: BlockRV, index_map: IndexMap) -> Result<()> {
        self.run(InstructionKind::TransformBlockLayout { index_map }, &[block.handle()]).map(|_| ())
    }

    /// Makes the extent of each axis of `block`, a sum of products, a multiple of the number for it in `padding`; 1 leaves the axis
    /// as it is. The block then reads copies of its operands that are padded with 0, and its result is copied from a padded
    /// buffer.
    ///
    /// TVM counterpart: `pad_einsum`.
    ///
    /// # Errors
    /// When the block is no sum of products of loads, or a padded axis is not one loop and one index.
    pub fn pad_einsum(&mut self, block: BlockRV, padding: &[i64]) -> Result<()> {
        self.run(InstructionKind::PadEinsum { padding: padding.into() }, &[block.handle()]).map(|_| ())
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

    /// Puts a block around `target`, a loop that holds loops around one block, and returns it. Its axes are what the loops outside
    /// choose; the block inside has axes for what the loops inside do, and the name and handle that it had. The init of a
    /// reduction moves to the new block, so that [`decompose_reduction`](Self::decompose_reduction) takes that one.
    ///
    /// TVM counterpart: `blockize`.
    ///
    /// ```
    /// # use tvm_core::tir::{PrimFunc, schedule::{Schedule, ScheduleError}};
    /// # fn tiles(func: PrimFunc) -> Result<(), ScheduleError> {
    /// let mut s = Schedule::new(func)?;
    /// let y = s.block("y")?;
    /// let [i, j] = s.loops(y)?;
    /// let [i_0, i_1] = s.split(i, [None, Some(8)])?;
    /// let [j_0, j_1] = s.split(j, [None, Some(16)])?;
    /// s.reorder([i_0, j_0, i_1, j_1])?;
    /// let tile = s.blockize(i_1)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When the loops inside do not drive the last part of each of their axes, or the block has a condition on them.
    pub fn blockize(&mut self, target: LoopRV) -> Result<BlockRV> {
        self.one_block(InstructionKind::Blockize, &[target.handle()])
    }

    /// Replaces the body of `target`, which must compute what the tensor intrinsic named `intrin` describes, by the implementation of
    /// the intrinsic. A loop becomes a block first, as by [`blockize`](Self::blockize). Returns the block. The names are those of
    /// [`TensorIntrin::names`](crate::tir::TensorIntrin::names). Sums of floats may be rounded in another way.
    ///
    /// TVM counterpart: `tensorize`.
    ///
    /// ```
    /// # use tvm_core::te;
    /// # use tvm_core::tir::{PrimExpr, schedule::{Schedule, ScheduleError}};
    /// # use tvm_runtime::DataType;
    /// # let [m, n, k] = [32i64, 64, 10].map(PrimExpr::index);
    /// # let x = te::placeholder("x", [m.clone(), k.clone()], DataType::F32);
    /// # let w = te::placeholder("w", [k.clone(), n.clone()], DataType::F32);
    /// # let r = te::reduce_axis("r", k);
    /// # let y = te::compute("y", [m, n], &[&x, &w], |i: &[PrimExpr]| {
    /// #     te::sum(x.at([i[0].clone(), r.expr()]) * w.at([r.expr(), i[1].clone()]), &[&r])
    /// # });
    /// # let matmul = te::create_prim_func("matmul", &[x, w], &[y]).unwrap();
    /// let mut s = Schedule::new(matmul)?; // 32×10 times 10×64
    /// let y = s.block("y")?;
    /// let [i, j, k] = s.loops(y)?;
    /// let [i_0, i_1] = s.split(i, [None, Some(8)])?;
    /// let [j_0, j_1] = s.split(j, [None, Some(16)])?;
    /// s.reorder([i_0, j_0, k, i_1, j_1])?;
    /// let tile = s.tensorize(i_1, "fma_8x16_f32")?;
    /// s.decompose_reduction(tile, k)?;
    /// # Ok::<(), ScheduleError>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such intrinsic, or the block computes something else: the message says what differs. When the block sums
    /// floats in an order that counts.
    pub fn tensorize(&mut self, target: impl SRef, intrin: &str) -> Result<BlockRV> {
        self.one_block(InstructionKind::Tensorize { intrin: intrin.into() }, &[target.handle()])
    }
}
