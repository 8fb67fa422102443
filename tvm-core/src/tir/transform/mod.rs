//! Passes over tensor programs, one per file; [`lower_tir`](crate::pipeline::lower_tir) lowers a program to the form that
//! code generators accept.
//!
//! # The lowered form
//! What every code generator (C, LLVM, CUDA host code) may rely on:
//!
//! 1. The parameters are the three scalars of the kernel ABI: `args` (handle), `num_args` (`i32`), `ctx` (handle).
//!    Values of the user's parameters are bound at the start of the body through the `arg_*` intrinsics, checked by
//!    `AssertStmt`s: a failed one fills `ctx->error` and returns its status from the kernel.
//! 2. There is no `BlockRealize`. Buffers are flat: one dimension, no strides, no offset. `DeclBuffer` declares the
//!    buffer of a parameter over `arg_data`; `AllocBuffer` allocates (`Local`: on the stack, constant extent;
//!    `Global`: through `ctx->alloc`, freed at the end of its sequence, `Status::OutOfMemory` when it fails).
//! 3. A load or store has one index: a scalar, or a vector. `Ramp(base, 1, lanes)` is a contiguous unaligned vector
//!    access, any other vector is a gather or scatter. A contiguous vector may have a predicate: the other lanes are no
//!    access; read, they are zero.
//! 4. Loops are `Serial` or `Parallel`; vectorised and unrolled loops are expanded. In a program for a GPU, an outermost
//!    `ThreadBinding` loop is a [kernel](crate::tir::analysis::DeviceKernel), and what is outside of kernels touches no
//!    memory. A `Parallel` loop becomes one `ctx->parallel_for`; its body is outlined over the variables and
//!    buffers it uses; nested ones are serial.
//! 5. No access is outside its buffer: an access that is not proven to be in bounds is checked by an `AssertStmt` before
//!    it. No integer division or remainder has a divisor that traps; no shift amount reaches the width of its type.
//! 6. `Let` may appear in expressions; no variable is bound twice. Indices are `i64`; those of gathers and scatters may be
//!    vectors of `i32`, converted, and those in kernels for GPUs scalars of `i32`, converted.

mod align_storage;
mod async_copies;
mod check_bounds;
mod check_loop_kinds;
mod check_reduction_lanes;
mod check_shared_written;
mod common_subexpr_elim;
mod compact_buffer_allocation;
mod context;
mod contract_reductions;
mod convert_blocks_to_opaque;
mod convert_ssa;
mod coverage;
mod drop_atomics;
mod expand_math;
mod flatten_buffer;
mod float_compute_legalize;
#[cfg(test)]
mod fuzz;
mod hoist_conditions;
mod hoist_expressions;
mod inject_prefetch;
mod inline_call;
mod loop_partition;
mod lower_cross_thread_reduction;
mod lower_init_block;
mod lower_intrin;
mod lower_match_buffer;
mod lower_opaque_block;
mod lower_tvm_builtin;
mod make_kernels;
mod make_packed_api;
mod narrow_indices;
mod narrow_kernel_indices;
mod narrow_loops;
mod own_dims;
mod partition_choices;
mod plan_and_update_buffer_allocation_location;
#[cfg(test)]
mod random_programs;
mod remove_no_op;
mod renew_defs;
mod shuffle_strided_loads;
mod simplify;
mod software_pipeline;
mod split_host_device;
mod storage_rewrite;
#[cfg(test)]
mod tests;
mod thread_sync;
mod unguard_lanes;
mod unify_thread_binding;
mod unroll_loop;
mod util;
mod vector;
mod vectorize_accesses;
mod vectorize_loop;
mod vectorize_reductions;
mod vectorize_transposes;
mod verify_gpu_code;
mod verify_lowered;
mod verify_source;
mod whole_write;
mod zero_unwritten;

pub use align_storage::{BUFFER_DIM_ALIGN, align_storage};
pub(in crate::tir) use align_storage::{DimAlign, LARGEST_FACTOR};
pub use async_copies::{ASYNC_COPY, async_copies};
pub use check_bounds::check_bounds;
pub use check_loop_kinds::check_loop_kinds;
pub use check_reduction_lanes::check_reduction_lanes;
pub use check_shared_written::check_shared_written;
pub use common_subexpr_elim::common_subexpr_elim;
pub use compact_buffer_allocation::compact_buffer_allocation;
pub(in crate::tir) use context::analyzer_for;
pub(in crate::tir) use contract_reductions::is_declared as order_is_free;
pub use contract_reductions::{DECOMPOSED, IN_ORDER, contract_reductions};
pub use convert_blocks_to_opaque::convert_blocks_to_opaque;
pub use convert_ssa::convert_ssa;
pub(in crate::tir) use coverage::is_covered_in;
pub use drop_atomics::drop_atomics;
pub use expand_math::expand_math;
pub use flatten_buffer::flatten_buffer;
pub use float_compute_legalize::float_compute_legalize;
pub use hoist_conditions::hoist_conditions;
pub use hoist_expressions::hoist_expressions;
pub use inject_prefetch::{PREFETCH, PREFETCH_L2, inject_prefetch};
pub(crate) use inline_call::{bind_buffer, inline_body, misfit_of_call};
pub use loop_partition::{UNDIVIDED, loop_partition, partition_constant_loops};
pub use lower_cross_thread_reduction::lower_cross_thread_reduction;
pub use lower_init_block::lower_init_block;
pub use lower_intrin::lower_intrin;
pub use lower_match_buffer::lower_match_buffer;
pub(in crate::tir) use lower_match_buffer::without_matched_buffers;
pub use lower_opaque_block::lower_opaque_block;
pub use lower_tvm_builtin::{STACK_BYTES, lower_tvm_builtin};
pub use make_kernels::make_kernels;
pub use make_packed_api::make_packed_api;
pub use narrow_indices::narrow_indices;
pub use narrow_kernel_indices::narrow_kernel_indices;
pub use narrow_loops::narrow_loops;
pub use own_dims::EXTENTS;
pub(crate) use own_dims::with_own_dims;
pub use partition_choices::partition_choices;
pub(in crate::tir) use plan_and_update_buffer_allocation_location::may_enter;
pub use plan_and_update_buffer_allocation_location::plan_and_update_buffer_allocation_location;
pub use remove_no_op::remove_no_op;
pub(crate) use renew_defs::Renew;
pub use renew_defs::{renew_defs, renew_stmt};
pub use shuffle_strided_loads::shuffle_strided_loads;
pub use simplify::simplify;
pub use software_pipeline::{SOFTWARE_PIPELINE, software_pipeline};
pub use split_host_device::split_host_device;
pub use storage_rewrite::storage_rewrite;
pub use thread_sync::thread_sync;
pub use unguard_lanes::unguard_lanes;
pub use unify_thread_binding::unify_thread_binding;
pub use unroll_loop::{MOST_COPIES, PRAGMA_UNROLL, pragma_unroll, unroll_loop};
pub(crate) use util::specialized;
pub(in crate::tir) use util::{BlockNames, DeepSubstitute};
pub use vectorize_accesses::vectorize_accesses;
pub use vectorize_loop::{REMAINDER, STREAMED, vectorize_loop};
pub use vectorize_reductions::{REDUCTION_LANES, vectorize_reductions};
pub use vectorize_transposes::vectorize_transposes;
pub use verify_gpu_code::verify_gpu_code;
pub use verify_lowered::verify_lowered;
pub use verify_source::verify_source;
pub use zero_unwritten::{zero_outputs, zero_unwritten};
