//! The pipelines: flat lists of passes, read from top to bottom.
//!
//! TVM counterpart: `tir/pipeline.py`, `relax/pipeline.py`.

use crate::pass::{Pass, Sequential};
use crate::tir::transform as tir;

/// Brings tensor programs to [the lowered form](crate::tir::transform).
pub fn lower_tir() -> Pass {
    Sequential::new(
        "LowerTIR",
        vec![
            tir::lower_init_block(),
            tir::convert_blocks_to_opaque(),
            tir::lower_match_buffer(),
            tir::lower_opaque_block(),
            tir::flatten_buffer(),
            tir::unroll_loop(),
            tir::convert_ssa(),
            tir::remove_no_op(),
            tir::lower_tvm_builtin(),
            tir::make_packed_api(),
        ],
    )
}
