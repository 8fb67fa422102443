//! Convolutions and pooling, over images and over blocks of channels.

use tvm::prelude::*;
use tvm::te::TensorExpr;
use tvm::tir::PrimExpr;
use tvm::topi::{
    ConvLayouts, ConvParams, Operand, PoolParams, avg_pool, broadcast, conv, conv_transpose, max_pool,
};
use tvm_testing::Rng;

use super::program::{Bound, Builder, Program};

/// A window along the two axes of an image.
#[derive(Clone, Copy)]
struct Window {
    extent: [i64; 2],
    stride: [i64; 2],
    pad: [[i64; 2]; 2],
    dilation: [i64; 2],
    /// True if padding is left out of the sums.
    skip_padding: bool,
}

impl Window {
    const ONE: Window =
        Window { extent: [1; 2], stride: [1; 2], pad: [[0; 2]; 2], dilation: [1; 2], skip_padding: false };

    fn random(rng: &mut Rng) -> Window {
        if rng.one_in(6) {
            return Window::ONE;
        }
        let extent = [0; 2].map(|_| *rng.pick(&[1, 2, 3, 3, 5]));
        let mut pad = || extent.map(|it| rng.range(0, (it - 1).min(2)));
        let pad = [pad(), pad()];
        Window {
            extent,
            stride: [0; 2].map(|_| *rng.pick(&[1, 1, 1, 2, 3])),
            pad,
            dilation: [0; 2].map(|_| *rng.pick(&[1, 1, 1, 2])),
            skip_padding: rng.one_in(2),
        }
    }

    /// From the first to the last element.
    fn reach(&self, axis: usize) -> i64 {
        (self.extent[axis] - 1) * self.dilation[axis] + 1
    }

    /// The parameters of a convolution with this window.
    fn params(&self, groups: i64) -> ConvParams {
        ConvParams {
            strides: self.stride.into(),
            pad_before: self.pad[0].into(),
            pad_after: self.pad[1].into(),
            dilation: self.dilation.into(),
            groups,
            skip_padding: self.skip_padding,
        }
    }

    /// The extent of the image, at least as long as the window, as a constant, a symbolic dimension or half of one, and that of
    /// the result.
    fn image(&self, p: &mut Builder<'_>, name: &str, axis: usize, most: i64) -> [(PrimExpr, i64); 2] {
        let padding = self.pad[0][axis] + self.pad[1][axis];
        let least = (self.reach(axis) - padding).max(1);
        let extent = p.rng.range(least, most.max(least));
        let stride = self.stride[axis];
        let of = |extent: i64| (extent + padding - self.reach(axis)) / stride + 1;
        let (dim, more) = (p.dim(name, extent), padding - self.reach(axis));
        // Some images are the results of other windows, so that their own extents are quotients.
        let (dim, extent) = match p.rng.one_in(3) {
            true => ((dim + 1i64).floordiv(2), (extent + 1) / 2),
            false => (dim, extent),
        };
        let (dim, extent) = if extent < least { (least.into(), least) } else { (dim, extent) };
        let out = match (stride, more + 1) {
            (1, 0) => dim.clone(),
            (1, more) => dim.clone() + more,
            _ => (dim.clone() + more).floordiv(stride) + 1i64,
        };
        [(dim, extent), (out, of(extent))]
    }
}

/// Types of data; weights and sums have the same type, but 16-bit floats are added in f32.
const TYPES: [DataType; 6] =
    [DataType::F32, DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I32];

fn wide(dtype: DataType) -> DataType {
    if dtype.is_float() && dtype.bits() == 16 { DataType::F32 } else { dtype }
}

/// Rows and columns of an image, and how many blocks of how many channels it has; one block is the whole of a plain image.
fn image_shape(block: Option<i64>, [batch, channels, h, w]: [PrimExpr; 4]) -> Vec<PrimExpr> {
    match block {
        None => vec![batch, channels, h, w],
        Some(block) => {
            let blocks = channels.as_int().expect("blocks divide constants") / block;
            vec![batch, blocks.into(), h, w, block.into()]
        }
    }
}

/// A convolution of 1×1 over plain images: a product with the pixels of each.
pub(crate) fn pointwise(rng: &mut Rng) -> Program {
    let window = Window::ONE;
    let groups = *rng.pick(&[1, 1, 2, 3]);
    let channels = [0; 2].map(|_| groups * *rng.pick(&[1, 3, 8, 13, 16]));
    convolution_of(rng, window, groups, None, channels)
}

/// A convolution, plain or of blocks of channels, of all channels, in groups or depthwise, perhaps with a bias and not less than 0. The
/// bound is that of sums of as many terms as the window and the channels have.
pub(crate) fn convolution(rng: &mut Rng) -> Program {
    let window = Window::random(rng);
    let depthwise = rng.one_in(4);
    let block = rng.one_in(2).then(|| *rng.pick(&[2, 4, 8, 16]));
    let mut channels = || match block {
        Some(block) => block * rng.range(1, if block > 4 { 1 } else { 2 }),
        None => *rng.pick(&[1, 2, 3, 4, 7, 16]),
    };
    let inputs = channels();
    let outputs = if depthwise { inputs } else { channels() };
    if depthwise {
        return convolution_of(rng, window, inputs, block, [inputs, outputs]);
    }
    let groups = if block.is_none() { *rng.pick(&[1, 1, 2, 3, 4]) } else { 1 };
    convolution_of(rng, window, groups, block, [inputs, outputs].map(|it| groups * it))
}

/// A convolution of so many channels and terms that its sums are products of matrices with tiles.
pub(crate) fn of_many_channels(rng: &mut Rng) -> Program {
    let mut window = Window::random(rng);
    if rng.one_in(2) {
        window.stride = [1; 2];
    }
    let groups = *rng.pick(&[1, 1, 1, 2]);
    let terms = window.extent[0] * window.extent[1];
    let inputs = (32 + terms - 1) / terms + rng.range(0, 2);
    let outputs = *rng.pick(&[32, 33, 40, 64]);
    convolution_to(rng, window, (groups, None, Some(16)), [inputs, outputs].map(|it| groups * it))
}

/// A convolution from a number of channels to another, in `groups`, or in blocks of `block` channels.
fn convolution_of(
    rng: &mut Rng,
    window: Window,
    groups: i64,
    block: Option<i64>,
    channels: [i64; 2],
) -> Program {
    convolution_to(rng, window, (groups, block, None), channels)
}

/// As [`convolution_of`], of images up to the size `most`.
fn convolution_to(
    rng: &mut Rng,
    window: Window,
    (groups, block, most): (i64, Option<i64>, Option<i64>),
    [inputs, outputs]: [i64; 2],
) -> Program {
    let dtype = *rng.pick(&TYPES);
    let mut p = Builder::new(rng);
    let count = *p.rng.pick(&[1, 1, 1, 1, 2, 2, 2, 2, 0]);
    let batch = p.dim("batch", count);
    let of_group = inputs / groups;
    let depthwise = groups > 1 && groups == inputs;
    // Wide images have several panels of columns.
    let most = most.unwrap_or_else(|| match of_group * outputs * window.extent[0] * window.extent[1] {
        501.. => 7,
        ..=72 if p.rng.one_in(3) => 40,
        _ => 14,
    });
    let sizes = [("h", 0), ("w", 1)].map(|(name, axis)| window.image(&mut p, name, axis, most));
    let [h, w] = [0, 1].map(|axis| sizes[axis][0].0.clone());
    let [out_h, out_w] = [0, 1].map(|axis| sizes[axis][1].0.clone());
    let x = p.input("x", &image_shape(block, [batch.clone(), inputs.into(), h, w]), dtype);
    // Some weights are for all channels but those that fill the last block.
    let used = block.filter(|_| !depthwise && p.rng.one_in(3));
    let used = used.map(|block| p.rng.range(inputs - block + 1, inputs));
    let [data, kernel] = match block {
        None => ["NCHW".to_string(), "OIHW".to_string()],
        Some(block) if depthwise => [format!("NCHW{block}c"), format!("OIHW{block}o")],
        Some(block) if used.is_some() => [format!("NCHW{block}c"), format!("OHWI{block}o")],
        Some(block) => [format!("NCHW{block}c"), format!("OIHW{block}i{block}o")],
    };
    let [kh, kw] = window.extent;
    let weight_dims = match (block, used) {
        (None, _) => vec![outputs, of_group, kh, kw],
        (Some(block), Some(used)) => vec![outputs / block, kh, kw, used, block],
        (Some(block), _) if depthwise => vec![outputs / block, 1, kh, kw, block],
        (Some(block), _) => vec![outputs / block, inputs / block, kh, kw, block, block],
    };
    let weight_dims: Vec<PrimExpr> = weight_dims.into_iter().map(PrimExpr::index).collect();
    let weight = p.input("weight", &weight_dims, dtype);
    let params = window.params(groups);
    let layout = |text: &str| text.parse().expect("a layout");
    let layouts = ConvLayouts {
        letters: "NCHW".into(),
        data: layout(&data),
        kernel: layout(&kernel),
        out: layout(&data),
    };
    let out = image_shape(block, [batch, outputs.into(), out_h, out_w]);
    let y = conv("conv", &x, &weight, &params, &layouts, &out, dtype);
    let y = epilogue(&mut p, y, outputs, block);
    let terms = of_group * kh * kw + 3;
    p.finish("convolution", &[y], Bound::Terms { terms, sum: wide(dtype), products: true })
}

/// A bias of each channel, and not less than 0.
fn epilogue(p: &mut Builder<'_>, x: TensorExpr, channels: i64, block: Option<i64>) -> TensorExpr {
    if p.rng.one_in(3) {
        return x;
    }
    let shape = match block {
        None => vec![channels, 1, 1],
        Some(block) => vec![channels / block, 1, 1, block],
    };
    let bias = p.input("bias", &shape.into_iter().map(PrimExpr::index).collect::<Vec<_>>(), x.dtype());
    let operands: [Operand; 2] = [(&x).into(), (&bias).into()];
    let sum = broadcast("biased", x.shape(), &operands, |it| it[0].clone() + &it[1]);
    if p.rng.one_in(3) {
        return sum;
    }
    broadcast("relu", x.shape(), &[(&sum).into()], |it| it[0].clone().max(PrimExpr::constant(0.0, x.dtype())))
}

/// A transposed convolution in some number of groups, perhaps with a bias and not less than 0.
pub(crate) fn transposed(rng: &mut Rng) -> Program {
    let window = Window::random(rng);
    let groups = *rng.pick(&[1, 1, 1, 2, 3]);
    let [per_in, per_out] = [0; 2].map(|_| *rng.pick(&[1, 2, 5, 8]));
    let dtype = *rng.pick(&TYPES);
    let mut p = Builder::new(rng);
    let count = *p.rng.pick(&[1, 1, 1, 2, 0]);
    let batch = p.dim("batch", count);
    let mut image = vec![batch.clone(), (groups * per_in).into()];
    let mut out = vec![batch, (groups * per_out).into()];
    for (axis, name) in ["h", "w"].into_iter().enumerate() {
        let stride = window.stride[axis];
        let more =
            p.rng.range(0, stride - 1) + window.reach(axis) - window.pad[0][axis] - window.pad[1][axis];
        let most = if axis == 1 && p.rng.one_in(3) { 40 } else { 9 };
        let least = if more < 1 { 2 } else { 1 };
        let extent = p.rng.range(least, most);
        let extent = p.dim(name, extent);
        out.push((extent.clone() - 1i64) * stride + more);
        image.push(extent);
    }
    let x = p.input("x", &image, dtype);
    let [kh, kw] = window.extent;
    let weight = p.input("weight", &[groups * per_in, per_out, kh, kw].map(PrimExpr::index), dtype);
    let params = window.params(groups);
    let y = conv_transpose("conv_transpose", &x, &weight, &params, &out, dtype);
    let y = epilogue(&mut p, y, groups * per_out, None);
    let terms = per_in * kh * kw + 3;
    p.finish("transposed", &[y], Bound::Terms { terms, sum: wide(dtype), products: true })
}

/// The largest element or the mean of each window. Largest elements are exact; means are sums of the window's elements,
/// and a division.
pub(crate) fn pooling(rng: &mut Rng) -> Program {
    let window = Window::random(rng);
    let block = rng.one_in(2).then(|| *rng.pick(&[2, 4, 8, 16, 32]));
    let mean = rng.one_in(2);
    let dtype = if mean {
        *rng.pick(&[DataType::F32, DataType::F64, DataType::F16, DataType::BF16])
    } else {
        *rng.pick(&[DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I8, DataType::I32])
    };
    let channels = block.unwrap_or(rng.range(1, 4));
    let mut p = Builder::new(rng);
    let count = *p.rng.pick(&[1, 1, 1, 2, 2, 2, 3, 3, 0]);
    let batch = p.dim("batch", count);
    let sizes = [("h", 0), ("w", 1)].map(|(name, axis)| window.image(&mut p, name, axis, 17));
    let [h, w] = [0, 1].map(|axis| sizes[axis][0].0.clone());
    let [out_h, out_w] = [0, 1].map(|axis| sizes[axis][1].0.clone());
    let x = p.input("x", &image_shape(block, [batch.clone(), channels.into(), h, w]), dtype);
    let params = PoolParams {
        axes: vec![2, 3],
        window: window.extent.into(),
        strides: window.stride.into(),
        pad_before: window.pad[0].into(),
        pad_after: window.pad[1].into(),
        dilation: window.dilation.into(),
        count_include_pad: p.rng.one_in(2),
    };
    let out = image_shape(block, [batch, channels.into(), out_h, out_w]);
    let terms = window.extent[0] * window.extent[1] + 2;
    let (y, bound) = match mean {
        true => (avg_pool("pool", &x, &params, &out), Bound::Terms { terms, sum: dtype, products: true }),
        false => (max_pool("pool", &x, &params, &out), Bound::Equal),
    };
    p.finish("pooling", &[y], bound)
}
