//! The computations behind graph operators, as tensor expressions; one file per family.
//!
//! Everything here takes and returns [`te::TensorExpr`](crate::te::TensorExpr)s of known symbolic shapes. The operators in
//! [`crate::relax::op`] check shapes and types.
//!
//! TVM counterpart: `tvm::topi`.

mod activation;
mod attention;
mod broadcast;
mod conv;
mod conv_transpose;
mod create;
mod image;
mod index;
mod matmul;
mod norm;
mod pad;
mod pool;
mod reduction;
mod scan;
mod softmax;
mod sort;
mod transform;
mod winograd;

pub use activation::{gelu, gelu_tanh, is_finite, is_inf, relu, selu, softplus};
pub use attention::attention;
pub use broadcast::{Operand, broadcast, cast, map};
pub use conv::{ConvLayouts, ConvParams, conv};
pub use conv_transpose::conv_transpose;
pub use create::{arange, eye, full, one_hot, triangle};
pub use image::{Coordinates, Interpolation, Rounding, resize};
pub use index::{gather_elements, gather_nd, scatter_elements, scatter_nd, strided_slice, take};
pub use matmul::{dense_int4, dense_pack, matmul};
pub use norm::{batch_norm, lrn, normalize};
pub use pad::{PadMode, pad};
pub use pool::{PoolParams, adaptive_avg_pool, avg_pool, max_pool};
pub use reduction::{arg_extreme, reduce_axes, scaled_sum, sum_axes, variance};
pub use scan::cumulative;
pub use softmax::{log_softmax, softmax};
pub use sort::sorted_positions;
pub use transform::{concat, flip, layout_transform, permute, repeat, reshape, split, stack, tile};
pub use winograd::{Winograd, tiles, winograd_conv, winograd_data, winograd_product, winograd_result};

use crate::tir::PrimExpr;

/// `a / b` rounded up, for a positive `b`.
pub(crate) fn ceil_div(a: PrimExpr, b: &PrimExpr) -> PrimExpr {
    (a + (b - 1i64)).floordiv(b)
}

/// The position of `indices` in a row-major tensor of extents `shape`.
pub(crate) fn ravel(indices: &[PrimExpr], shape: &[PrimExpr]) -> PrimExpr {
    let add = |flat: PrimExpr, (index, extent): (&PrimExpr, &PrimExpr)| {
        if extent.is_const(1) { flat } else { flat * extent + index }
    };
    indices.iter().zip(shape).fold(PrimExpr::index(0), add)
}

/// The indices of position `flat` in a row-major tensor of extents `shape`.
pub(crate) fn unravel(flat: PrimExpr, shape: &[PrimExpr]) -> Vec<PrimExpr> {
    let mut rest = flat;
    let mut indices = Vec::with_capacity(shape.len());
    for (i, extent) in shape.iter().enumerate().rev() {
        let outermost = shape[..i].iter().all(|outer| outer.is_const(1));
        if extent.is_const(1) {
            indices.push(PrimExpr::index(0));
        } else if outermost {
            indices.push(rest.clone());
        } else {
            indices.push(rest.clone().floormod(extent));
            rest = rest.floordiv(extent);
        }
    }
    indices.reverse();
    indices
}
