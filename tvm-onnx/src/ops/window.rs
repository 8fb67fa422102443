//! Attributes that convolutions and poolings share.

use tvm_core::ir::Type;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::simplify_dim;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

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
    match read(node, spatial, kernel)? {
        (window, symbolic) if symbolic.is_empty() => Ok(window),
        _ => Err(node.unsupported("auto_pad with strides over a symbolic extent")),
    }
}

/// A tensor (batch, channels, spatial axes…) with the padding that depends on symbolic extents, and its windows.
pub(super) struct Padded {
    pub(super) x: Arg,
    pub(super) window: Window,
    /// Number of windows along the axes that have such padding.
    counts: Vec<(usize, PrimExpr)>,
}

/// The least number of an element type: the padding that a maximum does not see.
pub(super) fn least(dtype: DataType) -> f64 {
    dtype.int_range().map_or(f64::NEG_INFINITY, |(least, _)| least as f64)
}

/// As [`window`], for `x`; padding that depends on a symbolic extent is put around `x`, with elements `fill`.
pub(super) fn padded(
    node: &mut Node<'_, '_>,
    x: &Arg,
    kernel: Option<&[PrimExpr]>,
    fill: f64,
) -> Result<Padded, OnnxError> {
    let shape = node.shape(x)?;
    let (window, symbolic) = read(node, &shape[2..], kernel)?;
    let mut res = Padded { x: x.clone(), window, counts: Vec::new() };
    if symbolic.is_empty() {
        return Ok(res);
    }
    let axes: Vec<i64> = symbolic.iter().map(|it| it.axis as i64 + 2).collect();
    let sides = |side: usize| symbolic.iter().map(move |it| it.pads[side].clone());
    let pads: Vec<PrimExpr> = sides(0).chain(sides(1)).collect();
    let fill = node.scalar(fill, node.dtype(x)?)?;
    let around = super::shape::pad_when_run(node, x.clone(), &axes, &pads, ("constant", Some(fill)))?;
    res.x =
        node.materialise(around.into_iter().next().ok_or_else(|| node.malformed("there are no axes"))?)?;
    res.counts = symbolic.into_iter().map(|it| (it.axis + 2, it.count)).collect();
    Ok(res)
}

impl Padded {
    /// The result of the windows, with their numbers as extents.
    pub(super) fn counted(&self, node: &mut Node<'_, '_>, res: Arg) -> Result<Arg, OnnxError> {
        if self.counts.is_empty() {
            return Ok(res);
        }
        let (mut shape, dtype) = (node.shape(&res)?, node.dtype(&res)?);
        self.counts.iter().for_each(|(axis, count)| shape[*axis] = count.clone());
        let span = node.span().clone();
        let ty = Type::tensor(shape, dtype);
        Ok(Arg::Var(node.importer().builder.emit_match_cast("windows", res, ty, &span)))
    }
}

/// Padding before and after a spatial axis that depends on its symbolic extent, and the number of windows along it.
struct Symbolic {
    axis: usize,
    pads: [PrimExpr; 2],
    count: PrimExpr,
}

/// The window, and what of its padding depends on symbolic extents, which is 0 in the window.
fn read(
    node: &Node<'_, '_>,
    spatial: &[PrimExpr],
    kernel: Option<&[PrimExpr]>,
) -> Result<(Window, Vec<Symbolic>), OnnxError> {
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
    let mut symbolic = Vec::new();
    match node.str_or("auto_pad", "NOTSET")? {
        "NOTSET" | "" => {}
        "VALID" => window.pads = vec![0; 2 * n],
        mode @ ("SAME_UPPER" | "SAME_LOWER") => {
            let upper = mode == "SAME_UPPER";
            for (axis, extent) in spatial.iter().enumerate() {
                let (count, total) = same(node, &window, extent, axis);
                let small = simplify_dim(&total.clone().floordiv(2));
                let large = simplify_dim(&(total - &small));
                let pads = if upper { [small, large] } else { [large, small] };
                let known = [pads[0].as_int(), pads[1].as_int()];
                (window.pads[axis], window.pads[n + axis]) = (known[0].unwrap_or(0), known[1].unwrap_or(0));
                if known.contains(&None) {
                    (window.pads[axis], window.pads[n + axis]) = (0, 0);
                    symbolic.push(Symbolic { axis, pads, count });
                }
            }
        }
        mode => return Err(node.malformed(format!("attribute `auto_pad` is `{}`", crate::names::show(mode)))),
    }
    Ok((window, symbolic))
}

/// The number of windows along an axis, its extent divided by the stride and rounded up, and the total padding that gives it.
fn same(node: &Node<'_, '_>, window: &Window, extent: &PrimExpr, axis: usize) -> (PrimExpr, PrimExpr) {
    let (stride, reach) = (window.strides[axis], window.reach(axis));
    if node.op_type() == "ConvTranspose" {
        return (extent.clone(), PrimExpr::index(0));
    }
    if stride == 1 {
        return (extent.clone(), PrimExpr::index(reach - 1));
    }
    let count = (extent.clone() + (stride - 1)).floordiv(stride);
    let total = ((count.clone() - 1i64) * stride + reach - extent).max(0);
    (simplify_dim(&count), simplify_dim(&total))
}
