//! The pipeline of graph functions: a flat list of passes, read from top to bottom.
//!
//! TVM counterpart: `relax/pipeline.py`.

use super::transform as relax;
use crate::pass::{Pass, Sequential};

/// Lowers graph functions to the form that [`vm_codegen`](crate::relax::vm::vm_codegen) accepts.
pub fn default_build() -> Pass {
    Sequential::built_in(
        "default_build",
        vec![
            relax::realize_places(),
            relax::canonicalize_bindings(),
            relax::lambda_lift(),
            relax::canonicalize_bindings(),
            relax::dead_code_elimination(),
            relax::eliminate_common_subexpr(),
            relax::fuse_attention(),
            relax::fold_batch_norm(),
            relax::elementwise_before_reshape(),
            relax::canonicalize_bindings(),
            relax::narrow_before_moves(),
            relax::flush_subnormal_weights(),
            relax::dead_code_elimination(),
            relax::to_mixed_precision(),
            relax::specialize_batch(),
            relax::convert_layout(),
            relax::legalize_ops(),
            relax::fold_constant(),
            relax::canonicalize_bindings(),
            relax::dead_code_elimination(),
            relax::annotate_tir_op_pattern(),
            relax::fuse_ops(),
            relax::fuse_tir(),
            relax::rewrite_dataflow_reshape(),
            relax::place_programs(),
            relax::zero_outputs().mandatory(),
            relax::call_tir_rewrite(),
            relax::static_plan_block_memory(),
            relax::kill_after_last_use(),
        ],
    )
}
