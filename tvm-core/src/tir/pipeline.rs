//! The pipelines of tensor programs, for CPUs and for GPUs: flat lists of passes, read from top to bottom.
//!
//! TVM counterpart: `tir/pipeline.py`.

use super::transform as tir;
use crate::pass::{Pass, Sequential};

/// Lowers tensor programs to [the lowered form](crate::tir::transform).
pub fn lower_tir() -> Pass {
    let passes = vec![
        tir::verify_source().mandatory(),
        tir::check_loop_kinds().mandatory(),
        tir::drop_atomics().mandatory(),
        tir::check_reduction_lanes().mandatory(),
        tir::contract_reductions(),
        tir::lower_init_block().mandatory(),
        tir::check_bounds().mandatory(),
        tir::convert_blocks_to_opaque().mandatory(),
        tir::lower_match_buffer().mandatory(),
        tir::lower_opaque_block().mandatory(),
        tir::simplify(),
        // Parallel loops rely on it: a buffer of each iteration is allocated in the iteration.
        tir::plan_and_update_buffer_allocation_location().mandatory(),
        tir::zero_unwritten().mandatory(),
        tir::compact_buffer_allocation(),
        tir::partition_constant_loops(),
        tir::unguard_lanes(),
        tir::align_storage(),
        tir::flatten_buffer().mandatory(),
        tir::simplify(),
        tir::loop_partition(),
        tir::simplify(),
        tir::narrow_loops(),
        tir::partition_choices(),
        tir::vectorize_reductions(),
        tir::vectorize_transposes(),
        tir::simplify(),
        tir::vectorize_loop().mandatory(),
        tir::unroll_loop().mandatory(),
        tir::simplify(),
        tir::shuffle_strided_loads(),
        tir::remove_no_op(),
        // Late: passes before it look at one buffer at a time.
        tir::storage_rewrite(),
        tir::float_compute_legalize().mandatory(),
        tir::inject_prefetch(),
        // Before division and remainder are expanded, on vectors of half the size.
        tir::narrow_indices(),
        tir::hoist_expressions(),
        // Before functions are expanded, each of which is then expanded once.
        tir::common_subexpr_elim(),
        tir::expand_math(),
        tir::lower_intrin().mandatory(),
        tir::lower_tvm_builtin().mandatory(),
        tir::make_packed_api().mandatory(),
        // For the extents with which `make_packed_api` compares the arguments.
        tir::lower_intrin().mandatory(),
        tir::verify_lowered().mandatory(),
    ];
    Sequential::built_in("LowerTIR", passes).mandatory()
}

/// Lowers tensor programs for a GPU: to [the lowered form](crate::tir::transform) of the host, with kernels in it.
pub fn lower_cuda() -> Pass {
    let passes = vec![
        tir::verify_source().mandatory(),
        tir::check_loop_kinds().mandatory(),
        tir::lower_cross_thread_reduction().mandatory(),
        tir::contract_reductions(),
        tir::lower_init_block().mandatory(),
        tir::check_bounds().mandatory(),
        tir::convert_blocks_to_opaque().mandatory(),
        tir::lower_match_buffer().mandatory(),
        tir::lower_opaque_block().mandatory(),
        tir::simplify(),
        tir::zero_unwritten().mandatory(),
        // From here on, whatever touches memory is in a kernel.
        tir::make_kernels().mandatory(),
        // Shared memory shrinks to what one iteration of the loops around its loops over threads uses.
        tir::plan_and_update_buffer_allocation_location(),
        tir::compact_buffer_allocation(),
        tir::check_shared_written().mandatory(),
        tir::async_copies(),
        tir::software_pipeline(),
        tir::thread_sync().mandatory(),
        tir::unify_thread_binding().mandatory(),
        // From here on, passes see the program of one thread, and barriers as calls with an effect. The memory of a thread
        // shrinks to what this thread uses.
        tir::plan_and_update_buffer_allocation_location(),
        tir::compact_buffer_allocation(),
        tir::align_storage(),
        tir::flatten_buffer().mandatory(),
        tir::simplify(),
        tir::loop_partition(),
        tir::simplify(),
        tir::vectorize_accesses(),
        tir::unroll_loop().mandatory(),
        tir::simplify(),
        tir::remove_no_op(),
        tir::float_compute_legalize().mandatory(),
        tir::split_host_device().mandatory(),
        tir::verify_gpu_code().mandatory(),
        tir::lower_intrin().mandatory(),
        tir::make_packed_api().mandatory(),
        // For the extents with which `make_packed_api` compares the arguments.
        tir::lower_intrin().mandatory(),
        // Last: what it proves of 64 bits, others prove too.
        tir::narrow_kernel_indices(),
        tir::verify_lowered().mandatory(),
    ];
    Sequential::built_in("LowerCUDA", passes).mandatory()
}
