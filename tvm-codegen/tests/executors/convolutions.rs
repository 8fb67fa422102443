//! Convolutions, which GPUs compute as products of matrices: windows, strides, padding and dilation in all combinations that a
//! network has, of floats.

use tvm_core::ir::Var;
use tvm_core::te;
use tvm_core::tir::{PrimExpr, PrimFunc};
use tvm_core::topi::{ConvLayouts, ConvParams, conv};
use tvm_runtime::{DataType, Value};

use super::data::Rng;
use super::suite::{Case, check, tensor};

/// A convolution of square images with a bias for each channel, not less than 0.
#[derive(Clone, Copy)]
struct Conv {
    /// `None` for a symbolic batch.
    batch: Option<i64>,
    channels: [i64; 2],
    size: i64,
    window: i64,
    stride: i64,
    pad: i64,
    dilation: i64,
    groups: i64,
    /// Channels in a block of data, weights and result; 1 for plain layouts.
    block: i64,
    dtype: DataType,
}

const SMALL: Conv = Conv {
    batch: Some(1),
    channels: [4, 40],
    size: 9,
    window: 3,
    stride: 1,
    pad: 1,
    dilation: 1,
    groups: 1,
    block: 1,
    dtype: DataType::F32,
};

impl Conv {
    fn out(&self) -> i64 {
        (self.size + 2 * self.pad - (self.window - 1) * self.dilation - 1) / self.stride + 1
    }

    /// The layouts of data, weights and result.
    fn layouts(&self) -> [String; 3] {
        match self.block {
            1 => ["NCHW", "OIHW", "NCHW"].map(String::from),
            block => [format!("NCHW{block}c"), format!("OIHW{block}i{block}o"), format!("NCHW{block}c")],
        }
    }

    fn weight(&self) -> Vec<i64> {
        let [inputs, outputs] = [self.channels[0] / self.groups, self.channels[1]].map(|it| it / self.block);
        let inner = if self.block > 1 { vec![self.block; 2] } else { vec![] };
        [vec![outputs, inputs, self.window, self.window], inner].concat()
    }

    /// The shape of images of `size` with so many channels.
    fn image<T: Clone + From<i64>>(&self, batch: T, channels: i64, size: i64) -> Vec<T> {
        let inner = (self.block > 1).then_some(self.block);
        let dims = [channels / self.block, size, size].into_iter().chain(inner);
        [batch].into_iter().chain(dims.map(T::from)).collect()
    }

    fn func(&self) -> PrimFunc {
        let batch = self.batch.map_or_else(|| PrimExpr::from(Var::index("n")), PrimExpr::index);
        let [inputs, outputs] = self.channels;
        let x = te::placeholder("x", self.image(batch.clone(), inputs, self.size), self.dtype);
        let weight: Vec<PrimExpr> = self.weight().into_iter().map(PrimExpr::index).collect();
        let weight = te::placeholder("weight", weight, self.dtype);
        let bias = te::placeholder("bias", [PrimExpr::index(outputs)], self.dtype);
        let params = ConvParams {
            strides: vec![self.stride; 2],
            pad_before: vec![self.pad; 2],
            pad_after: vec![self.pad; 2],
            dilation: vec![self.dilation; 2],
            groups: self.groups,
            skip_padding: true,
        };
        let [data, kernel, out] = self.layouts().map(|it| it.parse().unwrap());
        let layouts = ConvLayouts { letters: "NCHW".into(), data, kernel, out };
        let shape = self.image(batch, outputs, self.out());
        let sums = conv("conv2d", &x, &weight, &params, &layouts, &shape, self.dtype);
        let y = te::compute("y", shape, &[&sums, &bias], |i: &[PrimExpr]| {
            let channel = if self.block > 1 { &i[1] * self.block + &i[4] } else { i[1].clone() };
            (sums.at(i.to_vec()) + bias.at([channel])).max(PrimExpr::float(0.0, self.dtype))
        });
        te::create_prim_func("conv", &[x, weight, bias], &[y]).unwrap()
    }

    fn case(&self, batches: &[i64], rng: &mut Rng) -> Case {
        let args = |batch: &i64, rng: &mut Rng| -> Vec<Value> {
            let shapes = [
                self.image(*batch, self.channels[0], self.size),
                self.weight(),
                vec![self.channels[1]],
                self.image(*batch, self.channels[1], self.out()),
            ];
            shapes.iter().map(|shape| tensor(shape, self.dtype, rng)).collect()
        };
        let tolerance = if self.dtype == DataType::F32 { 1e-4 } else { 1e-2 };
        Case { func: self.func(), args: batches.iter().map(|it| args(it, rng)).collect(), tolerance }
    }
}

#[test]
fn convolutions_in_tiles() {
    let mut rng = Rng(51);
    let fixed = [
        SMALL,
        Conv { channels: [35, 33], window: 1, pad: 0, ..SMALL },
        Conv { window: 7, stride: 2, pad: 3, size: 15, channels: [3, 33], batch: Some(2), ..SMALL },
        Conv { dilation: 2, pad: 2, ..SMALL },
        Conv { groups: 2, channels: [8, 66], ..SMALL },
        Conv { groups: 2, channels: [64, 96], block: 16, ..SMALL },
        Conv { groups: 3, channels: [48, 48], block: 16, stride: 2, ..SMALL },
        Conv { dtype: DataType::F16, stride: 2, size: 13, ..SMALL },
    ];
    let cases: Vec<Case> = fixed.iter().map(|it| it.case(&[it.batch.unwrap()], &mut rng)).collect();
    check(&cases);
}

#[test]
fn convolutions_of_batches_of_any_size() {
    let mut rng = Rng(52);
    let free = [
        Conv { batch: None, size: 7, ..SMALL },
        Conv { batch: None, channels: [35, 33], window: 1, pad: 0, size: 7, ..SMALL },
        Conv { batch: None, groups: 2, channels: [8, 66], size: 7, ..SMALL },
        Conv { batch: None, groups: 2, channels: [32, 64], block: 8, size: 7, ..SMALL },
    ];
    let cases: Vec<Case> = free.iter().map(|it| it.case(&[0, 1, 3], &mut rng)).collect();
    check(&cases);
}
