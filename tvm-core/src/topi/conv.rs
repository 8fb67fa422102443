//! Convolutions over one to three spatial axes, in any layout.

use tvm_runtime::DataType;

use super::matmul::words_of;
use super::reduction::{accumulator, narrowed};
use super::transform::lazy;
use super::{PadMode, pad};
use crate::arith::Analyzer;
use crate::te::{ReduceAxis, TensorExpr, compute, reduce_axis, sum};
use crate::tir::layout::{Layout, LayoutAxis};
use crate::tir::{PrimExpr, words};

/// Parameters of a convolution, one value per spatial axis.
#[derive(Clone, Debug)]
pub struct ConvParams {
    /// Distance between neighbouring windows, in elements.
    pub strides: Vec<i64>,
    /// Number of padding elements before the data.
    pub pad_before: Vec<i64>,
    /// Number of padding elements after the data.
    pub pad_after: Vec<i64>,
    /// Distance between neighbouring elements of a window.
    pub dilation: Vec<i64>,
    /// Number of groups that the channels are split into; groups do not mix.
    pub groups: i64,
    /// True if rows of windows in the padding of the first spatial axis are left out of the sums, not multiplied by 0: the same, if all
    /// weights are finite.
    pub skip_padding: bool,
}

/// Layouts of the tensors of a convolution.
#[derive(Clone, Debug)]
pub struct ConvLayouts {
    /// The undivided axes of data and result: `N`, `C` and the letters of the spatial axes.
    pub letters: String,
    /// Layout of the data.
    pub data: Layout,
    /// Layout of the weights, of the axes `O`, `I` and the letters of the spatial axes.
    pub kernel: Layout,
    /// Layout of the result.
    pub out: Layout,
}

impl ConvLayouts {
    /// The layout of words of neighbouring channels of data of `dtype`, and the axis of the data that is divided into words: its
    /// channels, if they are not divided, or the innermost ones, if they are whole words.
    pub(crate) fn data_of_words(&self, dtype: DataType) -> Option<(Layout, usize)> {
        if is_plain(&self.data, &self.letters) {
            return Some((self.data.clone(), 1));
        }
        let last = self.data.axes().last()?;
        let parts = words::parts(dtype);
        let block = last.factor.filter(|block| last.letter == 'C' && block % parts == 0)?;
        let of_words = format!("{}{}c", self.letters, block / parts).parse().ok()?;
        Some((of_words, self.data.ndim() - 1))
    }

    /// The undivided axes of the weights.
    pub fn kernel_letters(&self) -> String {
        format!("OI{}", &self.letters[2..])
    }
}

/// Convolution: a padding stage when there is padding, a stage that casts integers if floats are summed, a stage that makes words of
/// the data if the weights are words of `i32`, then one block with the axes of the result and reduction axes: the axes of the
/// weights in their order, without the output channels.
pub fn conv(
    name: &str,
    x: &TensorExpr,
    weight: &TensorExpr,
    params: &ConvParams,
    layouts: &ConvLayouts,
    shape: &[PrimExpr],
    dtype: DataType,
) -> TensorExpr {
    let (letters, kernel_letters) = (&layouts.letters, &layouts.kernel_letters());
    let groups = Groups::of(params, layouts, shape);
    let wide = accumulator(dtype);
    if let Some(extents) =
        pointwise_image(x, weight, params, layouts, groups.as_ref(), shape).filter(|_| x.dtype() == dtype)
    {
        let x = if params.strides.iter().all(|&it| it == 1) { x } else { &every(x, &params.strides, shape) };
        return pointwise(name, x, weight, groups, shape, extents);
    }
    let padded = params.pad_before.iter().chain(&params.pad_after).any(|&it| it != 0);
    let picked = !padded && is_picked(weight, params, layouts);
    // The rows of the data among those of the padded data.
    let inside = (params.skip_padding && padded).then(|| {
        let begin = PrimExpr::index(params.pad_before[0]);
        let end = layouts.data.undivided_shape(letters, x.shape())[2].clone() + &begin;
        [begin, end]
    });
    let strides = if picked { &vec![1; params.strides.len()] } else { &params.strides };
    let x = &if picked {
        every(x, &params.strides, &layouts.out.undivided_shape(letters, shape))
    } else if padded {
        let mode = PadMode::Constant(PrimExpr::constant(0.0, x.dtype()));
        let of_axes = |pads: &[i64]| -> Vec<i64> {
            let spatial = |axis: &LayoutAxis| letters[2..].find(axis.letter);
            layouts.data.axes().iter().map(|axis| spatial(axis).map_or(0, |d| pads[d])).collect()
        };
        pad("pad_temp", x, &of_axes(&params.pad_before), &of_axes(&params.pad_after), &mode)
    } else {
        x.clone()
    };
    let dot = words::dot(x.dtype(), weight.dtype());
    // A stage, as several terms read each element.
    let converted = dot.is_none() && x.dtype().is_integer() && wide.is_float();
    let x = if converted { &super::map("converted", x, |it| it.cast(wide)) } else { x };
    let words = dot.and_then(|_| layouts.data_of_words(x.dtype()));
    let (x, data) = match &words {
        Some((words, axis)) => (&words_of(name, x, *axis), words),
        None => (x, &layouts.data),
    };
    let reduced: Vec<Option<ReduceAxis>> = (layouts.kernel.axes().iter().enumerate())
        .map(|(i, axis)| (axis.letter != 'O').then(|| reduce_axis(&axis_name(axis), weight.dim(i))))
        .collect();
    let out_dims = layouts.out.undivided_shape(letters, shape);
    let sums_name = if groups.is_some() { format!("{name}_sums") } else { name.to_string() };
    let outer: Vec<PrimExpr> = groups.as_ref().map_or(shape.to_vec(), |it| it.shape(shape));
    let sums = compute(&sums_name, outer.clone(), &[x, weight], |axes_of_sums| {
        let i = &groups.as_ref().map_or(axes_of_sums.to_vec(), |it| it.joined(axes_of_sums));
        let axes: Vec<&ReduceAxis> = reduced.iter().flatten().collect();
        let indices = axes_of_sums.iter().cloned().chain(axes.iter().map(|axis| axis.expr()));
        let extents = outer.iter().chain(axes.iter().map(|axis| axis.extent())).cloned();
        let analyzer = Analyzer::of_extents(&indices.collect::<Vec<_>>(), &extents.collect::<Vec<_>>());
        let simplified = |index: Vec<PrimExpr>| -> Vec<PrimExpr> {
            index
                .iter()
                .map(|it| if it.as_var().is_some() { it.clone() } else { analyzer.simplify(it) })
                .collect()
        };
        let out = layouts.out.undivided_index(letters, i);
        let of_kernel = |o: &PrimExpr| {
            let terms = reduced.iter().map(|axis| axis.as_ref().map_or(PrimExpr::index(0), ReduceAxis::expr));
            let mut at = layouts.kernel.undivided_index(kernel_letters, &terms.collect::<Vec<_>>());
            at[0] = o.clone();
            at
        };
        let kernel = of_kernel(&out[1]);
        let mut at = out.clone();
        let of_group = || layouts.kernel.undivided_shape(kernel_letters, weight.shape())[1].clone();
        at[1] = match (params.groups, &groups) {
            (1, _) => kernel[1].clone(),
            (_, Some(_)) => axes_of_sums[1].clone() * of_group() + &kernel[1],
            (groups, None) => {
                out[1].clone().floordiv(out_dims[1].clone().floordiv(groups)) * of_group() + &kernel[1]
            }
        };
        for d in 0..letters.len() - 2 {
            at[2 + d] = &out[2 + d] * strides[d] + &kernel[2 + d] * params.dilation[d];
        }
        let x = x.at(simplified(data.index(letters, &at)));
        let weight = weight.at(simplified(layouts.kernel.index(kernel_letters, &kernel)));
        if let Some((dot, summed)) = dot {
            let zero = PrimExpr::constant(0.0, summed);
            return sum(PrimExpr::call(dot, [x, weight, zero], summed), &axes);
        }
        let term = x.cast(wide) * weight.cast(wide);
        match &inside {
            Some([begin, end]) => {
                // The number of rows stays as the shape has it: the default schedule makes it a dimension of its own.
                let row = analyzer.simplify(&at[2]);
                let inside = row.clone().greater_equal(begin.clone()).and(row.less(end.clone()));
                sum(lazy(inside, term, PrimExpr::constant(0.0, wide)), &axes)
            }
            None => sum(term, &axes),
        }
    });
    let sums = groups.map_or(sums.clone(), |it| it.apart(name, &sums, shape));
    narrowed(sums, dtype)
}

/// True for a layout whose axes are these letters in order.
fn is_plain(layout: &Layout, letters: &str) -> bool {
    layout.axes().len() == letters.len()
        && layout.axes().iter().zip(letters.chars()).all(|(axis, letter)| axis.letter == letter)
}

/// Groups as an axis of their own, so that the channels of a group are an axis that reads the same data.
struct Groups {
    /// Extent of the second axis of the result for one group: channels, or blocks of channels.
    channels: i64,
    groups: i64,
}

impl Groups {
    /// `None` where the channels of the result are one axis of the sums: of one group, of groups of one channel or one block, or where
    /// blocks are no parts of groups.
    fn of(params: &ConvParams, layouts: &ConvLayouts, shape: &[PrimExpr]) -> Option<Groups> {
        let groups = params.groups;
        let second = layouts.out.axes().get(1).filter(|axis| axis.letter == 'C' && axis.factor.is_none());
        let extent =
            second.and(shape.get(1))?.as_int().filter(|extent| groups > 1 && extent % groups == 0)?;
        (extent > groups).then_some(Groups { channels: extent / groups, groups })
    }

    /// The shape of the sums.
    fn shape(&self, shape: &[PrimExpr]) -> Vec<PrimExpr> {
        let own = [self.groups, self.channels].map(PrimExpr::index);
        [&shape[..1], &own, &shape[2..]].concat()
    }

    /// Indices of the result from those of the sums.
    fn joined(&self, i: &[PrimExpr]) -> Vec<PrimExpr> {
        [&i[..1], &[&i[1] * self.channels + &i[2]], &i[3..]].concat()
    }

    /// Indices of the sums from those of the result.
    fn divided(&self, i: &[PrimExpr]) -> Vec<PrimExpr> {
        let own = [i[1].clone().floordiv(self.channels), i[1].clone().floormod(self.channels)];
        [&i[..1], &own, &i[2..]].concat()
    }

    /// The sums with the axes of the result.
    fn apart(&self, name: &str, sums: &TensorExpr, shape: &[PrimExpr]) -> TensorExpr {
        compute(name, shape, &[sums], |i| sums.at(self.divided(i)))
    }
}

/// The fewest pixels for which [`pointwise`] pays: those of one vector.
const FEW_PIXELS: i64 = 16;

/// Height and width of the result, if the convolution is a product of two matrices in the plain layouts: windows of 1×1
/// without padding.
fn pointwise_image(
    x: &TensorExpr,
    weight: &TensorExpr,
    params: &ConvParams,
    layouts: &ConvLayouts,
    groups: Option<&Groups>,
    shape: &[PrimExpr],
) -> Option<[i64; 2]> {
    let zeros = params.pad_before.iter().chain(&params.pad_after).all(|&it| it == 0);
    let plain = is_plain(&layouts.data, &layouts.letters)
        && is_plain(&layouts.out, &layouts.letters)
        && is_plain(&layouts.kernel, &layouts.kernel_letters());
    if !zeros
        || (params.groups != 1 && groups.is_none())
        || !plain
        || layouts.letters.len() != 4
        || accumulator(x.dtype()) != x.dtype()
    {
        return None;
    }
    let window = (2..4).all(|axis| weight.dim(axis).is_const(1));
    let [height, width] = [shape[2].as_int()?, shape[3].as_int()?];
    (window && height.checked_mul(width)? >= FEW_PIXELS).then_some([height, width])
}

/// True if the elements of plain data that the windows read are picked before: one by one, they are far apart, and several
/// blocks of channels read them.
fn is_picked(weight: &TensorExpr, params: &ConvParams, layouts: &ConvLayouts) -> bool {
    let of_window = |axis: &LayoutAxis| axis.letter != 'O' && axis.letter != 'I';
    let mut axes = layouts.kernel.axes().iter().enumerate();
    layouts.letters.len() == 4
        && params.strides.iter().any(|&it| it != 1)
        && is_plain(&layouts.data, &layouts.letters)
        && !is_plain(&layouts.out, &layouts.letters)
        && axes.all(|(at, axis)| !of_window(axis) || weight.dim(at).is_const(1))
}

/// The pixels that windows of 1×1 with these strides read.
fn every(x: &TensorExpr, strides: &[i64], shape: &[PrimExpr]) -> TensorExpr {
    let extents = [x.dim(0), x.dim(1), shape[2].clone(), shape[3].clone()];
    compute("pixels", extents, &[x], |i| {
        x.at([i[0].clone(), i[1].clone(), &i[2] * strides[0], &i[3] * strides[1]])
    })
}

/// The weights times the image, whose pixels are one axis; then one stage with the axes of the result.
fn pointwise(
    name: &str,
    x: &TensorExpr,
    weight: &TensorExpr,
    groups: Option<Groups>,
    shape: &[PrimExpr],
    [height, width]: [i64; 2],
) -> TensorExpr {
    let channel = reduce_axis("ci", weight.dim(1));
    let flat = vec![shape[0].clone(), shape[1].clone(), PrimExpr::index(height * width)];
    let dtype = x.dtype();
    let outer = groups.as_ref().map_or(flat.clone(), |it| it.shape(&flat));
    let product = compute(&format!("{name}_product"), outer.clone(), &[x, weight], |own| {
        let i = groups.as_ref().map_or(own.to_vec(), |it| it.joined(own));
        let first = if groups.is_some() { &own[1] * weight.dim(1) } else { PrimExpr::index(0) };
        // One row of pixels has no division.
        let analyzer = Analyzer::of_extents(own, &outer);
        let last = &i[i.len() - 1];
        let pixel = [last.clone().floordiv(width), last.clone().floormod(width)];
        let pixel = pixel.map(|it| analyzer.simplify(&it));
        let x = x.at([&[i[0].clone(), first + channel.expr()], &pixel[..]].concat());
        let weight = weight.at([i[1].clone(), channel.expr(), PrimExpr::index(0), PrimExpr::index(0)]);
        sum(x.cast(dtype) * weight.cast(dtype), &[&channel])
    });
    compute(name, shape, &[&product], |i| {
        let flat = [i[0].clone(), i[1].clone(), &i[2] * width + &i[3]];
        product.at(groups.as_ref().map_or(flat.to_vec(), |it| it.divided(&flat)))
    })
}

/// Name of the reduction axis that runs over an axis of the weights.
fn axis_name(axis: &LayoutAxis) -> String {
    let letter =
        if axis.letter == 'I' { "ci".into() } else { format!("k{}", axis.letter.to_ascii_lowercase()) };
    if axis.factor.is_some() { format!("{letter}_inner") } else { letter }
}
