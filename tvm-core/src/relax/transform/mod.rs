//! Passes over graph functions, one per file.

mod annotate_tir_op_pattern;
mod call_tir_rewrite;
mod calls;
mod canonicalize_bindings;
mod convert_layout;
mod dead_code_elimination;
mod elementwise_before_reshape;
mod eliminate_common_subexpr;
mod flush_subnormal_weights;
mod fold_batch_norm;
mod fold_constant;
mod fuse_attention;
mod fuse_ops;
mod fuse_tir;
mod kill_after_last_use;
mod lambda_lift;
mod legalize_ops;
mod narrow_before_moves;
mod place_programs;
mod realize_places;
mod renew_defs;
mod rewrite_dataflow_reshape;
mod specialize_batch;
mod static_plan_block_memory;
mod to_mixed_precision;
mod zero_outputs;

pub use annotate_tir_op_pattern::annotate_tir_op_pattern;
pub use call_tir_rewrite::call_tir_rewrite;
pub use canonicalize_bindings::canonicalize_bindings;
pub use convert_layout::convert_layout;
pub use dead_code_elimination::dead_code_elimination;
pub use elementwise_before_reshape::elementwise_before_reshape;
pub use eliminate_common_subexpr::eliminate_common_subexpr;
pub use flush_subnormal_weights::flush_subnormal_weights;
pub use fold_batch_norm::fold_batch_norm;
pub use fold_constant::fold_constant;
pub use fuse_attention::fuse_attention;
pub use fuse_ops::fuse_ops;
pub use fuse_tir::fuse_tir;
pub use kill_after_last_use::kill_after_last_use;
pub use lambda_lift::lambda_lift;
pub use legalize_ops::legalize_ops;
pub use narrow_before_moves::narrow_before_moves;
pub use place_programs::place_programs;
pub use realize_places::realize_places;
pub use renew_defs::renew_defs;
pub use rewrite_dataflow_reshape::rewrite_dataflow_reshape;
pub use specialize_batch::specialize_batch;
pub use static_plan_block_memory::static_plan_block_memory;
pub use to_mixed_precision::to_mixed_precision;
pub use zero_outputs::zero_outputs;

#[cfg(test)]
mod random_graphs;
#[cfg(test)]
mod tests;
