//! Blocks in which an axis chooses the expression: the transforms of Winograd's algorithm, and sums and differences.

use tvm::prelude::*;
use tvm::relax::analysis::simplify_dim;
use tvm::te::{TensorExpr, compute};
use tvm::tir::PrimExpr;
use tvm::topi::{Winograd, relu, tiles, winograd_conv, winograd_data, winograd_product, winograd_result};
use tvm_testing::Rng;

use super::program::{Bound, Builder, Program, Values, eps};

const TYPES: [DataType; 7] =
    [DataType::F32, DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I8, DataType::I32];

/// Channels of a block: less than a vector, a vector, and more.
const CHANNELS: [i64; 7] = [1, 3, 4, 8, 15, 16, 33];

/// A transform of Winograd's algorithm, whose results are sums of few terms in the order in which the program has them, so
/// they are the same; or its product, a sum over channels; or all of them.
pub(crate) fn winograd(rng: &mut Rng) -> Program {
    let float = TYPES[rng.below(5)];
    let algorithm = *rng.pick(&Winograd::ALL);
    let channels = *rng.pick(&CHANNELS);
    let (height, width, blocks) = (rng.range(1, 9), rng.range(1, 9), rng.range(1, 2));
    let mut p = Builder::new(rng);
    let count = p.rng.range(1, 2);
    let size = PrimExpr::index(algorithm.size());
    let [blocks, channels] = [blocks, channels].map(PrimExpr::index);
    match p.rng.below(7) {
        0 | 1 => {
            let batch = p.dim("batch", count);
            let before = [0; 2].map(|_| p.rng.range(0, 1));
            let after = [0; 2].map(|_| p.rng.range(0, 1));
            let [h, w] = [("h", height), ("w", width)].map(|(name, it)| p.dim(name, it + 2));
            let x = [batch.clone(), blocks.clone(), h.clone(), w.clone(), channels.clone()];
            let x = p.input("x", &x, float);
            let [rows, columns] = [(h, 0), (w, 1)].map(|(it, axis)| it + (before[axis] + after[axis] - 2));
            let [rows, columns] = [rows, columns].map(|it| simplify_dim(&tiles(&it, algorithm.tile)));
            let shape = [size.clone(), size, blocks, batch, rows, columns, channels];
            let y = winograd_data("data", &x, &algorithm, (before, after), &shape);
            p.finish("winograd_data", &[y], Bound::Same)
        }
        2 | 3 => {
            let [height, width] = [("h", height), ("w", width)].map(|(name, it)| p.dim(name, it));
            let batch = p.dim("batch", count);
            let [rows, columns] = [&height, &width].map(|it| simplify_dim(&tiles(it, algorithm.tile)));
            let x = [size.clone(), size, blocks.clone(), batch.clone(), rows, columns, channels.clone()];
            let x = p.input("x", &x, float);
            let shape = [batch, blocks, height, width, channels];
            let y = winograd_result("result", &x, &algorithm, &shape);
            p.finish("winograd_result", &[y], Bound::Same)
        }
        4 | 5 => {
            let float = *p.rng.pick(&[DataType::F32, DataType::F64]);
            let batch = p.dim("batch", count);
            let [before, after] = [(); 2].map(|()| [0; 2].map(|_| p.rng.range(0, 1)));
            let [h, w] = [("h", height), ("w", width)].map(|(name, it)| p.dim(name, it + 2));
            let [of_out, out] =
                [PrimExpr::from(*p.rng.pick(&[1, 2])), PrimExpr::from(*p.rng.pick(&CHANNELS))];
            let x = [batch.clone(), blocks.clone(), h.clone(), w.clone(), channels.clone()];
            let x = p.input("x", &x, float);
            let weight = [size.clone(), size, of_out.clone(), blocks.clone(), channels.clone(), out.clone()];
            let weight = p.input("weight", &weight, float);
            let [h, w] =
                [(h, 0), (w, 1)].map(|(it, axis)| simplify_dim(&(it + (before[axis] + after[axis] - 2))));
            let shape = [batch, of_out, h, w, out];
            let columns = *p.rng.pick(&[None, Some(1), Some(2), Some(8)]);
            let pads = (before, after);
            let mut y = winograd_conv("conv", [&x, &weight], &algorithm, pads, columns, &shape);
            if p.rng.one_in(2) {
                y = compute("relu", shape, &[&y], |i: &[PrimExpr]| relu(y.at(i.to_vec())));
            }
            // Numbers are at most 2, transformed ones 200, so products of a tile are at most 400 times the number of terms; each
            // element of the result adds up to 361 of these.
            let terms = blocks.as_int().unwrap_or(2) * channels.as_int().unwrap_or(33) + 8;
            let bound = (2 * terms * terms * 400 * 361) as f64 * eps(float);
            let mut program = p.finish("winograd_conv", &[y], Bound::Absolute(bound));
            program.values = Values::Plain;
            program
        }
        _ => {
            let number = p.dim("tiles", height * width);
            let inner = PrimExpr::index(*p.rng.pick(&[1, 2, 4]));
            let channels = PrimExpr::index(*p.rng.pick(&[2, 4, 8]));
            let x = [size.clone(), size.clone(), blocks.clone(), number.clone(), inner.clone()];
            let x = p.input("x", &x, float);
            let w = [size.clone(), size.clone(), 1.into(), blocks.clone(), inner.clone(), channels.clone()];
            let w = p.input("w", &w, float);
            let y = winograd_product("product", &x, &w, &[size.clone(), size, 1.into(), number, channels]);
            let terms = blocks.as_int().unwrap_or(2) * inner.as_int().unwrap_or(4) + 1;
            p.finish("winograd_product", &[y], Bound::Terms { terms, sum: float, products: true })
        }
    }
}

/// Sums, differences and more along an axis of 2 to 5, which chooses one of them; perhaps twice, so that one is computed
/// inside of the other. The operations are the same, so are the results.
pub(crate) fn butterfly(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let choices = rng.range(2, 5);
    let (rows, columns) = (*rng.pick(&[0, 1, 3, 8, 64, 70]), *rng.pick(&[1, 7, 8, 16, 33, 65]));
    let mut p = Builder::new(rng);
    let shape = [p.dim("n", rows), choices.into(), p.dim("m", columns)];
    let x = p.input("x", &shape, dtype);
    let step = |name: &str, x: &TensorExpr| {
        compute(name, shape.clone(), &[x], |i: &[PrimExpr]| {
            let at = |c: i64| x.at([i[0].clone(), c.into(), i[2].clone()]);
            let other = at(0) * PrimExpr::constant(2.0, dtype) - at(choices - 1);
            let cases = [at(0) + at(1), at(0) - at(1), at(1) * at(choices - 1), at(choices - 1) - at(1)];
            let of_rest = (0..choices - 1).zip(cases);
            of_rest.fold(other, |rest, (c, value)| i[1].clone().equal(c).select(value, rest))
        })
    };
    let y = step("y", &x);
    let y = if p.rng.one_in(2) { step("z", &y) } else { y };
    p.finish("butterfly", &[y], Bound::Same)
}
