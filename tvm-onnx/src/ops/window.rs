//! Attributes that convolutions and poolings share.

use tvm_core::tir::PrimExpr;

use crate::error::OnnxError;
use crate::node::Node;

/// A window over the spatial axes, with one value per axis; `pads` has the padding before all axes, then the padding
/// after them.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) kernel: Vec<i64>,
    pub(super) strides: Vec<i64>,
    pub(super) dilations: Vec<i64>,
    pub(super) pads: Vec<i64>,
}

/// Maximum of extents, strides and pads, so that sums and products of a few of them fit.
const MAX: i64 = 1 << 24;

impl Window {
    /// Number of elements that the window spans along axis `d`, with dilation.
    pub(super) fn reach(&self, d: usize) -> i64 {
        (self.kernel[d] - 1) * self.dilations[d] + 1
    }
}

/// Reads the window over the spatial extents `spatial`. `kernel`, if given, are the extents of the weights.
pub(super) fn window(
    node: &Node<'_, '_>,
    spatial: &[PrimExpr],
    kernel: Option<&[PrimExpr]>,
) -> Result<Window, OnnxError> {
    let n = spatial.len();
    let list = |name: &str, n: usize, least: i64, default: i64| match node.attr_ints(name)? {
        None => Ok(vec![default; n]),
        Some(it) if it.len() == n && it.iter().all(|it| (least..=MAX).contains(it)) => Ok(it.to_vec()),
        Some(it) if it.len() != n => {
            Err(node.malformed(format!("attribute `{name}` is {n} numbers, got {}", it.len())))
        }
        Some(it) => Err(node.malformed(format!("attribute `{name}` is out of range: {it:?}"))),
    };
    let kernel = match (node.attr_ints("kernel_shape")?, kernel) {
        (Some(_), weights) => {
            let kernel = list("kernel_shape", n, 1, 1)?;
            let known = weights.into_iter().flatten().map(PrimExpr::as_int);
            if known.zip(&kernel).any(|(weight, it)| weight.is_some_and(|weight| weight != *it)) {
                return Err(node.malformed("attribute `kernel_shape` is not the shape of the weights"));
            }
            kernel
        }
        (None, Some(weights)) => {
            let extents: Option<Vec<i64>> = weights.iter().map(PrimExpr::as_int).collect();
            let extents = extents.ok_or_else(|| node.unsupported("weights of symbolic extents"))?;
            if extents.iter().any(|it| !(1..=MAX).contains(it)) {
                return Err(node.malformed(format!("the weights have windows of {extents:?}")));
            }
            extents
        }
        (None, None) => return Err(node.malformed("attribute `kernel_shape` is missing")),
    };
    let mut window = Window {
        kernel,
        strides: list("strides", n, 1, 1)?,
        dilations: list("dilations", n, 1, 1)?,
        pads: list("pads", 2 * n, 0, 0)?,
    };
    match node.str_or("auto_pad", "NOTSET")? {
        "NOTSET" | "" => {}
        "VALID" => window.pads = vec![0; 2 * n],
        mode @ ("SAME_UPPER" | "SAME_LOWER") => {
            for (d, extent) in spatial.iter().enumerate() {
                let total = same_pads(node, &window, extent, d)?;
                let (small, large) = (total / 2, total - total / 2);
                let upper = mode == "SAME_UPPER";
                (window.pads[d], window.pads[n + d]) = if upper { (small, large) } else { (large, small) };
            }
        }
        mode => return Err(node.malformed(format!("attribute `auto_pad` is `{}`", crate::names::show(mode)))),
    }
    Ok(window)
}

/// Total padding with which the number of windows is the extent divided by the stride, rounded up.
fn same_pads(node: &Node<'_, '_>, window: &Window, extent: &PrimExpr, d: usize) -> Result<i64, OnnxError> {
    let (stride, reach) = (window.strides[d], window.reach(d));
    if node.op_type() == "ConvTranspose" {
        return Ok(0);
    }
    match extent.as_int() {
        _ if stride == 1 => Ok(reach - 1),
        Some(extent) => {
            let windows = extent / stride + i64::from(extent % stride != 0);
            Ok(((windows - 1) * stride + reach - extent).clamp(0, reach))
        }
        None => Err(node.unsupported("auto_pad with strides over a symbolic extent")),
    }
}
