//! All pipelines, and the table of all passes.

use crate::dlight::default_schedule;
use crate::pass::{Pass, Pipelines, Sequential};
use crate::target::{Target, TargetKind};
use crate::{relax, tir};

pub use crate::relax::pipeline::default_build;
pub use crate::tir::pipeline::{lower_cuda, lower_tir};

impl Pipelines {
    /// The default pipelines for `target`.
    pub fn for_target(target: &Target) -> Pipelines {
        match target.kind {
            TargetKind::Host | TargetKind::C | TargetKind::Llvm | TargetKind::Interpreter => {
                Pipelines { graph: default_build(), tir: scheduled(&lower_tir()) }
            }
            TargetKind::Cuda => Pipelines { graph: default_build(), tir: scheduled(&lower_cuda()) },
        }
    }
}

/// `lowering` with default schedules, after the check of the source.
fn scheduled(lowering: &Pass) -> Pass {
    let (source, rest) = lowering.parts().split_at(1);
    let passes = source.iter().cloned().chain([default_schedule()]).chain(rest.iter().cloned());
    Sequential::built_in(lowering.info.name, passes.collect()).mandatory()
}

impl Pass {
    /// Constructors of the built-in passes.
    pub(crate) const BUILT_IN: &[fn() -> Pass] = &[
        default_schedule,
        relax::transform::annotate_tir_op_pattern,
        relax::transform::call_tir_rewrite,
        relax::transform::canonicalize_bindings,
        relax::transform::convert_layout,
        relax::transform::dead_code_elimination,
        relax::transform::elementwise_before_reshape,
        relax::transform::eliminate_common_subexpr,
        relax::transform::flush_subnormal_weights,
        relax::transform::fold_batch_norm,
        relax::transform::fold_constant,
        relax::transform::fuse_attention,
        relax::transform::fuse_ops,
        relax::transform::fuse_tir,
        relax::transform::kill_after_last_use,
        relax::transform::lambda_lift,
        relax::transform::legalize_ops,
        relax::transform::narrow_before_moves,
        relax::transform::place_programs,
        relax::transform::realize_places,
        relax::transform::rewrite_dataflow_reshape,
        relax::transform::specialize_batch,
        relax::transform::static_plan_block_memory,
        relax::transform::to_mixed_precision,
        relax::transform::zero_outputs,
        tir::transform::align_storage,
        tir::transform::async_copies,
        tir::transform::check_bounds,
        tir::transform::check_loop_kinds,
        tir::transform::check_reduction_lanes,
        tir::transform::check_shared_written,
        tir::transform::common_subexpr_elim,
        tir::transform::compact_buffer_allocation,
        tir::transform::contract_reductions,
        tir::transform::convert_blocks_to_opaque,
        tir::transform::convert_ssa,
        tir::transform::drop_atomics,
        tir::transform::expand_math,
        tir::transform::flatten_buffer,
        tir::transform::float_compute_legalize,
        tir::transform::hoist_conditions,
        tir::transform::hoist_expressions,
        tir::transform::inject_prefetch,
        tir::transform::loop_partition,
        tir::transform::lower_cross_thread_reduction,
        tir::transform::lower_init_block,
        tir::transform::lower_intrin,
        tir::transform::lower_match_buffer,
        tir::transform::lower_opaque_block,
        tir::transform::lower_tvm_builtin,
        tir::transform::make_kernels,
        tir::transform::make_packed_api,
        tir::transform::narrow_indices,
        tir::transform::narrow_kernel_indices,
        tir::transform::narrow_loops,
        tir::transform::partition_choices,
        tir::transform::partition_constant_loops,
        tir::transform::plan_and_update_buffer_allocation_location,
        tir::transform::remove_no_op,
        tir::transform::shuffle_strided_loads,
        tir::transform::simplify,
        tir::transform::software_pipeline,
        tir::transform::split_host_device,
        tir::transform::storage_rewrite,
        tir::transform::thread_sync,
        tir::transform::unguard_lanes,
        tir::transform::unify_thread_binding,
        tir::transform::unroll_loop,
        tir::transform::vectorize_accesses,
        tir::transform::vectorize_loop,
        tir::transform::vectorize_reductions,
        tir::transform::vectorize_transposes,
        tir::transform::verify_gpu_code,
        tir::transform::verify_lowered,
        tir::transform::verify_source,
        tir::transform::zero_unwritten,
    ];
}
