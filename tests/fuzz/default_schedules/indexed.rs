//! Gathers, scatters, running sums and sorts. Every element is computed by the same operations in the same order, so it is the
//! same.

use tvm::prelude::*;
use tvm::te::{TensorExpr, compute, scan};
use tvm::tir::{BinaryOp, PrimExpr, binary};
use tvm::topi::{
    cumulative, gather_elements, gather_nd, scatter_elements, scatter_nd, sorted_positions, take,
};
use tvm_testing::Rng;

use super::program::{Bound, Builder, Program};
use super::{EXTENTS, below};

const TYPES: [DataType; 7] =
    [DataType::F32, DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I8, DataType::I32];

fn dims(p: &mut Builder<'_>, shape: &[i64]) -> Vec<PrimExpr> {
    shape.iter().zip(["m", "n", "o"]).map(|(&extent, name)| p.dim(name, extent)).collect()
}

/// Positions, some of them outside of an axis of `extent` elements, at both of its ends: they are numbers of any size before.
fn positions(p: &mut Builder<'_>, name: &str, shape: &[PrimExpr], extent: i64) -> TensorExpr {
    let dtype = *p.rng.pick(&[DataType::I64, DataType::I32]);
    let raw = p.input(name, shape, dtype);
    let mask = (2 * extent as u64 + 1).next_power_of_two() as i64 - 1;
    compute("positions", shape.to_vec(), &[&raw], |i: &[PrimExpr]| {
        let low = binary(BinaryOp::BitAnd, raw.at(i.to_vec()), PrimExpr::int(mask, dtype));
        low - PrimExpr::int(extent, dtype)
    })
}

/// Extents of two or three axes, of which `axis` is not empty.
fn shape(rng: &mut Rng) -> (Vec<i64>, usize) {
    loop {
        let shape = match rng.below(3) {
            0 => below(rng, 9_000, [&EXTENTS; 2]).to_vec(),
            1 => vec![rng.range(1, 9), *rng.pick(&[300, 513])],
            _ => below(rng, 9_000, [&EXTENTS[..12]; 3]).to_vec(),
        };
        let axis = rng.below(shape.len());
        if shape[axis] > 0 {
            return (shape, axis);
        }
    }
}

/// Rows, or elements, at given positions.
pub(crate) fn gather(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let (extents, axis) = shape(rng);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &extents);
    let x = p.input("x", &dims, dtype);
    let y = match p.rng.below(3) {
        0 => {
            let count = *p.rng.pick(&[0, 1, 7, 16, 33]);
            let places = [p.dim("count", count)];
            let places = positions(&mut p, "places", &places, extents[axis]);
            let shape = [&dims[..axis], places.shape(), &dims[axis + 1..]].concat();
            take(&x, &places, axis, &shape)
        }
        1 => {
            let places = positions(&mut p, "places", &dims, extents[axis]);
            gather_elements(&x, &places, axis)
        }
        _ => {
            let count = *p.rng.pick(&[1, 7, 16, 33]);
            let depth = p.rng.range(1, dims.len() as i64) as usize;
            let least = extents[..depth].iter().copied().min().unwrap_or(1);
            let rows = [p.dim("count", count), PrimExpr::index(depth as i64)];
            let places = positions(&mut p, "places", &rows, least);
            let shape = [&rows[..1], &dims[depth..]].concat();
            gather_nd(&x, &places, 0, depth, &shape)
        }
    };
    p.finish("gather", &[y], Bound::Same)
}

/// Updates of elements, or of rows, at given positions, several of the same.
pub(crate) fn scatter(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let (extents, axis) = shape(rng);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &extents);
    let x = p.input("x", &dims, dtype);
    let combine: fn(PrimExpr, PrimExpr) -> PrimExpr =
        *p.rng.pick(&[(|_, b| b) as fn(_, _) -> _, |a, b| a + b, |a, b| a * b, |a: PrimExpr, b| a.max(b)]);
    let y = if p.rng.one_in(2) {
        let places = positions(&mut p, "places", &dims, extents[axis]);
        let updates = p.input("updates", &dims, dtype);
        scatter_elements(&x, &places, &updates, axis, combine)
    } else {
        let depth = p.rng.range(1, dims.len() as i64) as usize;
        let least = extents[..depth].iter().copied().min().unwrap_or(1);
        // Without elements there is no place for an update.
        let count = if least == 0 { 0 } else { *p.rng.pick(&[0, 1, 7, 33]) };
        let rows = [p.dim("count", count), PrimExpr::index(depth as i64)];
        let places = positions(&mut p, "places", &rows, least);
        let updates = p.input("updates", &[&rows[..1], &dims[depth..]].concat(), dtype);
        scatter_nd(&x, &places, &updates, depth, combine)
    };
    p.finish("scatter", &[y], Bound::Same)
}

/// Running sums, products or extremes along an axis, or a recurrence over two elements before.
pub(crate) fn running(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let (extents, axis) = shape(rng);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &extents);
    let x = p.input("x", &dims, dtype);
    let one = PrimExpr::constant(1.0, dtype);
    let exclusive = p.rng.one_in(2);
    let y = match p.rng.below(4) {
        0 | 1 => cumulative("sums", &x, axis, exclusive, one, |a, b| a + b),
        2 => cumulative("extremes", &x, axis, exclusive, one, |a, b| a.max(b)),
        _ => scan("recurrence", dims, dtype, axis, &[&x], |i, y| {
            let before = |n: i64| {
                let mut at = i.to_vec();
                at[axis] = (at[axis].clone() - n).max(0);
                at
            };
            let next = y.at(before(1)) - y.at(before(2)) * PrimExpr::constant(0.5, dtype) + x.at(i.to_vec());
            let first = i[axis].clone().less(2);
            let dtype = next.dtype();
            PrimExpr::call(tvm::tir::Intrinsic::IfThenElse, [first, x.at(i.to_vec()), next], dtype)
        }),
    };
    p.finish("running", &[y], Bound::Same)
}

/// Positions in sorted order, of all elements or of a few, and perhaps the elements.
pub(crate) fn sorted(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let rows = *rng.pick(&[1, 2, 5]);
    let length = *rng.pick(&[1, 2, 7, 31, 32, 33, 64, 70, 131]);
    let along = rng.below(2);
    let extents = if along == 0 { [length, rows] } else { [rows, length] };
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &extents);
    let x = p.input("x", &dims, dtype);
    let mut shape = dims.clone();
    if p.rng.one_in(2) {
        shape[along] = PrimExpr::index(p.rng.range(1, length.min(9)));
    }
    let descending = p.rng.one_in(2);
    let places = sorted_positions(&x, along, descending, &shape);
    let mut outputs = vec![places.clone()];
    if p.rng.one_in(2) {
        outputs.push(compute("sorted", shape, &[&x, &places], |i: &[PrimExpr]| {
            let mut at = i.to_vec();
            at[along] = places.at(i.to_vec());
            x.at(at)
        }));
    }
    p.finish("sorted", &outputs, Bound::Same)
}
