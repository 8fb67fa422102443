//! Schedule primitives, one per file. Each checks its arguments and that the rewrite is legal, rewrites, and replaces
//! the program once.

pub(super) mod add_unit_loop;
pub(super) mod annotate;
pub(super) mod atomic;
pub(super) mod blockize;
pub(super) mod cache_index;
pub(super) mod cache_read;
pub(super) mod cache_write;
pub(super) mod compute_at;
pub(super) mod compute_inline;
pub(super) mod decompose_padding;
pub(super) mod decompose_reduction;
pub(super) mod for_kind;
pub(super) mod fuse;
pub(super) mod fuse_reduction_epilogue;
pub(super) mod loop_partition;
pub(super) mod pad_einsum;
pub(super) mod reindex;
pub(super) mod reorder;
pub(super) mod reverse_compute_inline;
pub(super) mod rfactor;
pub(super) mod set_scope;
pub(super) mod split;
pub(super) mod storage_align;
pub(super) mod tensorize;
pub(super) mod transform_block_layout;
pub(super) mod transform_layout;
pub(super) mod unannotate;
