//! Operators on the patches that a window takes from an image, by the indices of their elements.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{product, simplify_dim};
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use super::window::{Window, least, window};
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] =
    &[row("Col2Im", 18, With(columns_to_image)), row("MaxUnpool", 9, With(max_unpool))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Indices along one axis: for each element of the window and each of its places, (window, places).
fn axis_indices(
    node: &mut Node<'_, '_>,
    kernel: &PrimExpr,
    places: &PrimExpr,
    [stride, dilation]: [i64; 2],
) -> Result<Arg> {
    let elements = node.count(kernel, DataType::I64)?;
    let elements = node.with_dim("multiply", &elements, dilation)?;
    let elements = node.along(&elements, 0, 2)?;
    let starts = node.count(places, DataType::I64)?;
    let starts = node.with_dim("multiply", &starts, stride)?;
    let starts = node.along(&starts, 1, 2)?;
    node.apply("add", &elements, &starts)
}

/// Index of each element of each patch in an image whose axes have the given strides: (elements of the window, places).
fn flat_indices(node: &mut Node<'_, '_>, along: &[Arg], strides: &[PrimExpr]) -> Result<Arg> {
    let n = along.len();
    let mut sum: Option<Arg> = None;
    let (mut kernel, mut places) = (Vec::new(), Vec::new());
    for (d, indices) in along.iter().enumerate() {
        let own = node.shape(indices)?;
        kernel.push(own[0].clone());
        places.push(own[1].clone());
        let mut shape = vec![PrimExpr::index(1); 2 * n];
        (shape[d], shape[n + d]) = (own[0].clone(), own[1].clone());
        let indices = node.with_dim("multiply", indices, strides[d].clone())?;
        let indices = node.reshape(&indices, &shape)?;
        sum = Some(match sum {
            Some(sum) => node.apply("add", &sum, &indices)?,
            None => indices,
        });
    }
    let sum = sum.ok_or_else(|| node.malformed("there are no spatial axes"))?;
    node.reshape(&sum, &[product(&kernel), product(&places)])
}

/// Strides of the axes of an image, the last one innermost.
fn strides_of(image: &[PrimExpr]) -> Vec<PrimExpr> {
    (0..image.len()).map(|d| product(&image[d + 1..])).collect()
}

/// The sum of overlapping patches: the columns of the input are patches.
fn columns_to_image(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let x = node.arg(0)?;
    let (image, block) = (node.dims(1)?, node.dims(2)?);
    let n = image.len();
    let list = |name: &str, count: usize, default: i64| -> Result<Vec<i64>> {
        let given = node.attr_ints(name)?.map_or_else(|| vec![default; count], <[i64]>::to_vec);
        if given.len() == count && given.iter().all(|it| (default.min(1)..1 << 24).contains(it)) {
            return Ok(given);
        }
        Err(node.malformed(format!("attribute `{name}` is {count} numbers of a usual size")))
    };
    let (strides, dilations, pads) =
        (list("strides", n, 1)?, list("dilations", n, 1)?, list("pads", 2 * n, 0)?);
    let shape = node.shape(&x)?;
    let [batch, columns, places] = &shape[..] else { return Err(node.malformed("the input has three axes")) };
    if block.len() != n || n == 0 {
        return Err(node.malformed("image and block have different numbers of axes"));
    }
    let padded: Vec<PrimExpr> =
        (0..n).map(|d| simplify_dim(&(&image[d] + (pads[d] + pads[n + d])))).collect();
    let mut along = Vec::new();
    for d in 0..n {
        let reach = (block[d].clone() - 1i64) * dilations[d] + 1i64;
        let count = simplify_dim(&((padded[d].clone() - reach).floordiv(strides[d]) + 1i64));
        along.push(axis_indices(node, &block[d], &count, [strides[d], dilations[d]])?);
    }
    let indices = flat_indices(node, &along, &strides_of(&padded))?;
    let window = product(&block);
    let channels = simplify_dim(&columns.clone().floordiv(&window));
    let rows = simplify_dim(&(batch * &channels));
    let elements = simplify_dim(&(&window * places));
    let flat = node.reshape(&x, &[rows.clone(), elements.clone()])?;
    let indices = node.reshape(&indices, &[1.into(), elements.clone()])?;
    let indices = node.broadcast(&indices, &[rows.clone(), elements])?;
    let dtype = node.dtype(&x)?;
    let empty = node.full(&[rows, product(&padded)], 0.0, dtype)?;
    let add = Attrs::new().with("axis", 1i64).with("reduction", "add");
    let sum = node.op("scatter_elements", &[empty, indices, flat], add)?;
    let sum = node.reshape(&sum, &[&[batch.clone(), channels.clone()], &padded[..]].concat())?;
    let axes: Vec<i64> = (2..n as i64 + 2).collect();
    let begin: Vec<PrimExpr> = pads[..n].iter().map(|&it| PrimExpr::index(it)).collect();
    let end: Vec<PrimExpr> = (0..n).map(|d| simplify_dim(&(&image[d] + pads[d]))).collect();
    let res = super::index::sliced(node, sum, &axes, &begin, &end, &vec![1; n])?;
    one(node.reshape(&res, &[&[batch.clone(), channels], &image[..]].concat()))
}

/// Elements written to the places that pooling took them from; 0 elsewhere.
fn max_unpool(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let (x, indices) = (node.arg(0)?, node.arg(1)?);
    let (shape, dtype) = (node.shape(&x)?, node.dtype(&x)?);
    if shape.len() < 3 {
        return Err(node.malformed("the input has spatial axes"));
    }
    let window = window(node, &shape[2..], None)?;
    let n = shape.len() - 2;
    let mut pooled = shape[..2].to_vec();
    for d in 0..n {
        let inner = (shape[2 + d].clone() - 1i64) * window.strides[d];
        pooled.push(simplify_dim(&(inner + (window.kernel[d] - window.pads[d] - window.pads[n + d]))));
    }
    let flat = |node: &mut Node<'_, '_>, x: &Arg| node.reshape(x, &[product(&shape)]);
    let (values, places) = (flat(node, &x)?, flat(node, &indices)?);
    let empty = node.full(&[product(&pooled)], 0.0, dtype)?;
    let update = Attrs::new().with("axis", 0i64).with("reduction", "update");
    let res = node.op("scatter_elements", &[empty, places, values], update)?;
    let res = node.reshape(&res, &pooled)?;
    if !node.has(2) {
        return Ok(vec![res.into()]);
    }
    // Indices are those of the extents above; what is beyond them is 0.
    let wanted = node.dims(2)?;
    if wanted.len() != pooled.len() {
        return Err(node.malformed(format!("the shape is {} numbers, got {}", pooled.len(), wanted.len())));
    }
    let axes: Vec<i64> = (0..pooled.len() as i64).collect();
    let none = vec![PrimExpr::index(0); pooled.len()];
    let more = wanted.iter().zip(&pooled).map(|(wanted, own)| simplify_dim(&(wanted.clone() - own)));
    let pads: Vec<PrimExpr> = none.into_iter().chain(more).collect();
    let zero = node.scalar(0.0, dtype)?;
    super::shape::pad_when_run(node, res, &axes, &pads, ("constant", Some(zero)))
}

/// For each place of the window, the index of its largest element in the whole tensor; the first of equal ones.
pub(super) fn largest_indices(node: &mut Node<'_, '_>, x: &Arg, out: &[PrimExpr]) -> Result<Arg> {
    let (shape, dtype) = (node.shape(x)?, node.dtype(x)?);
    let window: Window = window(node, &shape[2..], None)?;
    let (n, by_columns) = (shape.len() - 2, node.flag("storage_order", false)?);
    let (mut along, mut inside) = (Vec::new(), None::<Arg>);
    for d in 0..n {
        let kernel = PrimExpr::index(window.kernel[d]);
        let at = axis_indices(node, &kernel, &out[2 + d], [window.strides[d], window.dilations[d]])?;
        let at = node.with_dim("subtract", &at, window.pads[d])?;
        let low = node.with_dim("greater_equal", &at, 0)?;
        let high = node.with_dim("less", &at, shape[2 + d].clone())?;
        let within = node.apply("logical_and", &low, &high)?;
        let mut extents = vec![PrimExpr::index(1); 2 * n];
        (extents[d], extents[n + d]) = (kernel, out[2 + d].clone());
        let within = node.reshape(&within, &extents)?;
        inside = Some(match inside {
            Some(inside) => node.apply("logical_and", &inside, &within)?,
            None => within,
        });
        let at = node.with_dim("maximum", &at, 0)?;
        along.push(node.with_dim("minimum", &at, simplify_dim(&(&shape[2 + d] - 1i64)))?);
    }
    let inside = inside.ok_or_else(|| node.malformed("there are no spatial axes"))?;
    let (space, places) = (product(&shape[2..]), product(&out[2..]));
    let elements = PrimExpr::index(window.kernel.iter().product());
    let grid = [elements.clone(), places.clone()];
    let inside = node.reshape(&inside, &grid)?;
    let indices = flat_indices(node, &along, &strides_of(&shape[2..]))?;
    let rows = simplify_dim(&(&shape[0] * &shape[1]));
    let flat = node.reshape(x, &[rows.clone(), space.clone()])?;
    let patches = node.take(&flat, &indices, 1)?;
    let lowest = node.scalar(least(dtype), dtype)?;
    let patches = node.choice(&inside, &patches, &lowest)?;
    let best = node.over("argmax", &patches, 1)?;
    // Indices by elements of the window, at the best element of each place.
    let by_place = if by_columns {
        let strides: Vec<PrimExpr> = (0..n).map(|d| product(&shape[2..2 + d])).collect();
        flat_indices(node, &along, &strides)?
    } else {
        indices
    };
    let by_place = node.permuted(&by_place, &[1, 0])?;
    let own = node.count(&places, DataType::I64)?;
    let own = node.with_dim("multiply", &own, elements.clone())?;
    let at = node.apply("add", &best, &own)?;
    let flat = node.reshape(&by_place, &[simplify_dim(&(places * elements))])?;
    let found = node.take(&flat, &at, 0)?;
    let starts = node.count(&rows, DataType::I64)?;
    let starts = node.with_dim("multiply", &starts, space)?;
    let starts = node.along(&starts, 0, 2)?;
    let found = node.apply("add", &found, &starts)?;
    node.reshape(&found, out)
}
