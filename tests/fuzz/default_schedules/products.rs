//! Products of matrices: with batches, transposed operands, few rows, one column, and what follows element-wise; the right
//! operand may lie in panels.

use tvm::prelude::*;
use tvm::te::{TensorExpr, compute, reduce_axis, sum};
use tvm::tir::PrimExpr;
use tvm_testing::Rng;

use super::program::{Bound, Builder, Program};
use super::{EXTENTS, below};

/// Types of the elements of both operands and of sums.
const TYPES: [[DataType; 3]; 13] = [
    [DataType::F32; 3],
    [DataType::F32; 3],
    [DataType::F64; 3],
    [DataType::F16, DataType::F16, DataType::F32],
    [DataType::F16; 3],
    [DataType::BF16, DataType::BF16, DataType::F32],
    [DataType::BF16, DataType::F16, DataType::F32],
    [DataType::I8, DataType::I8, DataType::I32],
    [DataType::U8, DataType::I8, DataType::I32],
    [DataType::I8, DataType::U8, DataType::I32],
    [DataType::U8, DataType::U8, DataType::I32],
    [DataType::I8; 3],
    [DataType::I32; 3],
];

/// Batches, rows, columns, terms: of one of nine kinds.
fn extents(rng: &mut Rng, kind: usize) -> [i64; 4] {
    match kind {
        // Few rows, or a few more, and many columns.
        0 => [1, *rng.pick(&[1, 2, 3]), *rng.pick(&[1024, 1031, 1100]), *rng.pick(&[1, 3, 8, 9, 17])],
        4 => [1, *rng.pick(&[0, 1, 5, 31, 32, 33]), *rng.pick(&[256, 257, 300]), *rng.pick(&[1, 3, 8, 9])],
        1 => [1, 1, *rng.pick(&[1024, 1037]), *rng.pick(&[64, 65, 71])],
        // A matrix and a vector.
        2 => [1, *rng.pick(&EXTENTS), 1, *rng.pick(&[1, 7, 33, 130, 257])],
        3 => [1, 1, *rng.pick(&EXTENTS), *rng.pick(&[1, 7, 33, 130, 257])],
        _ => {
            let mut res = below(rng, 24_000, [0; 3].map(|_| &EXTENTS[..]));
            let batch = if rng.one_in(3) { rng.range(0, 3) } else { 1 };
            if rng.one_in(2) {
                res.rotate_left(1);
            }
            [batch, res[0], res[1], res[2]]
        }
    }
}

/// `a b`, perhaps with a bias or a residual added, and not less than 0. The bound is that of sums of `k` terms; what
/// follows adds two operations.
pub(crate) fn product(rng: &mut Rng) -> Program {
    let kind = rng.below(9);
    product_of(rng, kind)
}

/// A product of one or a few rows with a matrix of many columns.
pub(crate) fn few_rows(rng: &mut Rng) -> Program {
    let kind = rng.below(2);
    product_of(rng, kind)
}

fn product_of(rng: &mut Rng, kind: usize) -> Program {
    let [dtype, other, wide] = *rng.pick(&TYPES);
    let [count, mut m, n, mut k] = extents(rng, kind);
    let mut p = Builder::new(rng);
    let batched = count != 1 || p.rng.one_in(6);
    // The rule for few rows takes constant numbers of columns.
    let constant = n >= 256 && !p.rng.one_in(8);
    let panels = p.rng.one_in(4).then(|| *p.rng.pick(&[4, 8, 16, 32, 64]));
    if panels.is_some() && count == 1 && n < 256 && p.rng.one_in(4) {
        // Rows that are divided in blocks where the second-level cache is small.
        (m, k) = (p.rng.range(32, 64) * 16, p.rng.range(1, 8));
    }
    let [batch, rows] = [("batch", count), ("m", m)].map(|(name, it)| p.dim(name, it));
    let columns = if constant || panels.is_some() { n.into() } else { p.dim("n", n) };
    let k_dim = p.dim("k", k);
    let leading: Vec<PrimExpr> = batched.then_some(batch).into_iter().collect();
    let shared = batched && p.rng.one_in(3);
    let mut operand = |name, dtype, at: [&PrimExpr; 2], batched: bool| {
        let transposed = p.rng.one_in(if constant { 8 } else { 3 });
        let [row, column] = if transposed { [at[1], at[0]] } else { at };
        let mut shape = if batched { leading.clone() } else { Vec::new() };
        shape.extend([row.clone(), column.clone()]);
        let x = p.input(name, &shape, dtype);
        move |batch: &[PrimExpr], row: PrimExpr, column: PrimExpr| {
            let mut at = if batched { batch.to_vec() } else { Vec::new() };
            at.extend(if transposed { [column, row] } else { [row, column] });
            (x.at(at).cast(wide), x.clone())
        }
    };
    let a = operand("a", dtype, [&rows, &k_dim], batched);
    // The operand at an index, or in panels of this width.
    let b = match panels {
        None => Ok(operand("b", other, [&k_dim, &columns], batched && !shared)),
        Some(width) => {
            let shape = [((n + width - 1) / width).into(), k_dim.clone(), width.into()];
            Err((p.input("b", &shape, other), width))
        }
    };
    let mut out = leading.clone();
    out.extend([rows.clone(), columns.clone()]);
    let reduced = reduce_axis("k", k_dim.clone());
    let of_b = |batch: &[PrimExpr], row: PrimExpr, column: PrimExpr| match &b {
        Ok(b) => b(batch, row, column),
        Err((x, width)) => {
            let at = [column.clone().floordiv(*width), row, column.floormod(*width)];
            (x.at(at).cast(wide), x.clone())
        }
    };
    let zero = || vec![PrimExpr::index(0); leading.len()];
    let inputs = [a(&zero(), 0.into(), 0.into()).1, of_b(&zero(), 0.into(), 0.into()).1];
    let product = compute("product", out.clone(), &inputs.each_ref(), |i: &[PrimExpr]| {
        let (batch, at) = i.split_at(leading.len());
        let (a, b) =
            (a(batch, at[0].clone(), reduced.expr()).0, of_b(batch, reduced.expr(), at[1].clone()).0);
        sum(a * b, &[&reduced])
    });
    let result = epilogue(&mut p, product, &columns, dtype);
    let products = true;
    p.finish("product", &[result], Bound::Terms { terms: k + 3, sum: wide, products })
}

/// What follows a sum in `wide`, element by element.
fn epilogue(p: &mut Builder<'_>, x: TensorExpr, columns: &PrimExpr, dtype: DataType) -> TensorExpr {
    let wide = x.dtype();
    let narrow = wide.is_float() && dtype != wide && p.rng.one_in(2);
    let relu = |it: PrimExpr| it.max(PrimExpr::constant(0.0, wide));
    let cast = |it: PrimExpr| if narrow { it.cast(dtype) } else { it };
    match p.rng.below(5) {
        0 => {
            let bias = p.input("bias", std::slice::from_ref(columns), wide);
            let biased = compute("biased", x.shape(), &[&x, &bias], |i: &[PrimExpr]| {
                x.at(i.to_vec()) + bias.at([i[i.len() - 1].clone()])
            });
            compute("relu", x.shape(), &[&biased], |i: &[PrimExpr]| cast(relu(biased.at(i.to_vec()))))
        }
        1 => {
            let residual = p.input("residual", x.shape(), wide);
            compute("added", x.shape(), &[&x, &residual], |i: &[PrimExpr]| {
                cast(relu(x.at(i.to_vec()) + residual.at(i.to_vec())))
            })
        }
        2 => compute("relu", x.shape(), &[&x], |i: &[PrimExpr]| cast(relu(x.at(i.to_vec())))),
        _ if narrow => compute("narrowed", x.shape(), &[&x], |i: &[PrimExpr]| cast(x.at(i.to_vec()))),
        _ => x,
    }
}
