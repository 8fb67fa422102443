//! Element-wise chains with broadcasting, transposes, and elementary functions.

use tvm::prelude::*;
use tvm::target::Machine;
use tvm::te::{TensorExpr, compute};
use tvm::tir::{Intrinsic, PrimExpr};
use tvm::topi::{Operand, PadMode, broadcast, concat, pad, permute};
use tvm_testing::Rng;

use super::batch::{Summary, check};
use super::program::{Bound, Builder, Program, eps};
use super::{EXTENTS, below};

const TYPES: [DataType; 7] =
    [DataType::F32, DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I8, DataType::I32];

fn shape(rng: &mut Rng) -> Vec<i64> {
    match rng.below(5) {
        0 => vec![*rng.pick(&[1, 7, 64, 4095, 4096, 4097, 9001])],
        1 => vec![rng.range(60, 70), rng.range(125, 131)],
        2 => below(rng, 9_000, [&EXTENTS; 2]).to_vec(),
        3 => below(rng, 9_000, [&EXTENTS; 3]).to_vec(),
        _ => below(rng, 9_000, [&EXTENTS[..9]; 4]).to_vec(),
    }
}

fn dims(p: &mut Builder<'_>, shape: &[i64]) -> Vec<PrimExpr> {
    shape.iter().zip(["m", "n", "o", "q"]).map(|(&extent, name)| p.dim(name, extent)).collect()
}

/// An input that broadcasts to a tensor of `dims`.
fn operand(p: &mut Builder<'_>, name: &str, dims: &[PrimExpr], dtype: DataType) -> TensorExpr {
    let from = if p.rng.one_in(2) { 0 } else { p.rng.below(dims.len()) };
    let narrow = |it: &PrimExpr, p: &mut Builder<'_>| if p.rng.one_in(4) { 1.into() } else { it.clone() };
    let shape: Vec<PrimExpr> = dims[from..].iter().map(|it| narrow(it, p)).collect();
    p.input(name, &shape, dtype)
}

/// A chain of 1 to 4 element-wise operations on two or three tensors, perhaps with transposed axes at its end. Every element
/// is computed by the same operations, each rounded, so it is the same.
pub(crate) fn chain(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let shape = shape(rng);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &shape);
    let mut x = p.input("x", &dims, dtype);
    let others: Vec<TensorExpr> = ["y", "z"].map(|name| operand(&mut p, name, &dims, dtype)).into();
    for i in 0..p.rng.range(1, 4) {
        let other = p.rng.pick(&others).clone();
        let operation = p.rng.below(9);
        let operands: [Operand; 2] = [(&x).into(), (&other).into()];
        x = broadcast(&format!("e{i}"), &dims, &operands, |it| {
            let (a, b) = (it[0].clone(), it[1].clone());
            match operation {
                0 => a + b,
                1 => a - b,
                2 => a * b,
                3 => a.clone().less(b.clone()).select(b, a),
                4 if dtype.is_float() => a / b,
                4 => -a,
                5 => a * PrimExpr::constant(3.0, dtype) - b,
                6 if dtype.is_float() => a.unary(Intrinsic::Abs) + b,
                7 if dtype == DataType::F32 => a.cast(DataType::F16).cast(DataType::F32) + b,
                _ => PrimExpr::constant(1.0, dtype) - a,
            }
        });
    }
    let y = transposed(&mut p, &x);
    p.finish("chain", &[y], Bound::Same)
}

/// An image whose channels lie in blocks that are contiguous, with contiguous rows instead, in another order of axes at times.
pub(crate) fn blocked(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let width = *rng.pick(&[1, 2, 3, 4, 5, 8, 12, 16, 32, 48]);
    let [n, blocks, h, w] =
        below(rng, 9_000 / width, [&EXTENTS[1..4], &EXTENTS[..7], &EXTENTS[..14], &EXTENTS[..14]]);
    let mut p = Builder::new(rng);
    let [n, h, w] = [("n", n), ("h", h), ("w", w)].map(|(name, extent)| p.dim(name, extent));
    let x = p.input("x", &[n.clone(), blocks.into(), h.clone(), w.clone(), width.into()], dtype);
    let y = compute("y", [n, (blocks * width).into(), h, w], &[&x], |i| {
        let [n, c, h, w] = [0, 1, 2, 3].map(|at| i[at].clone());
        let at = [n, c.clone().floordiv(width), h, w, c.floormod(width)];
        PrimExpr::constant(1.0, dtype) - x.at(at)
    });
    let y = transposed(&mut p, &y);
    p.finish("blocked", &[y], Bound::Same)
}

/// `x`, or its elements with the axes in another order.
fn transposed(p: &mut Builder<'_>, x: &TensorExpr) -> TensorExpr {
    if x.ndim() == 1 || p.rng.one_in(3) {
        return x.clone();
    }
    let mut axes: Vec<usize> = (0..x.ndim()).collect();
    for i in (1..axes.len()).rev() {
        axes.swap(i, p.rng.below(i + 1));
    }
    permute(x, &axes)
}

/// Two tensors of which one is transposed, combined, or joined along an axis. The elements are the same.
pub(crate) fn motion(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let shape = shape(rng);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &shape);
    let x = p.input("x", &dims, dtype);
    let y = transposed(&mut p, &x);
    if p.rng.one_in(3) {
        let axis = p.rng.below(y.ndim());
        let other = p.input("y", y.shape(), dtype);
        let mut shape = y.shape().to_vec();
        shape[axis] = shape[axis].clone() * 2i64;
        let joined = concat(&[y, other], axis, &shape);
        return p.finish("joined", &[joined], Bound::Same);
    }
    let other = operand(&mut p, "y", y.shape(), dtype);
    let sum = broadcast("sum", y.shape(), &[(&y).into(), (&other).into()], |it| it[0].clone() + &it[1]);
    p.finish("motion", &[sum], Bound::Same)
}

/// One elementary function of each element. That of the interpreter is within one unit of the exact value, and that of
/// kernels within 4 in f32 and f64; in 16 bits, where both are computed in f32 and rounded, they are neighbours at most.
pub(crate) fn function(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES[..5]);
    let shape = shape(rng);
    let function =
        *rng.pick(&[Intrinsic::Exp, Intrinsic::Tanh, Intrinsic::Sigmoid, Intrinsic::Sqrt, Intrinsic::Erf]);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &shape);
    let x = p.input("x", &dims, dtype);
    let y = compute("y", dims, &[&x], |i: &[PrimExpr]| x.at(i.to_vec()).unary(function));
    let y = transposed(&mut p, &y);
    p.finish("function", &[y], Bound::Relative(5.0 * eps(dtype)))
}

/// Short rows, whose elements gcc 12 loads a whole vector at a time, beyond the end of the last row.
#[test]
fn padded_rows_read_no_memory_behind_them() {
    for dtype in TYPES {
        for (before, after) in [(0, 2), (1, 1), (2, 0)] {
            let mut rng = Rng::new(1);
            let mut p = Builder::new(&mut rng);
            let x = p.input("x", &[2, 2, 8, 4, 3].map(PrimExpr::from), dtype);
            let zero = PadMode::Constant(PrimExpr::constant(0.0, dtype));
            let y = pad("padded", &x, &[0, 0, 0, before, 0], &[0, 0, 0, after, 0], &zero);
            let program = p.finish("padded", &[y], Bound::Same);
            let machine = Machine { vector_bits: 128, ..Machine::baseline() };
            let failures = check(&[program], &machine, 2, &mut Summary::default());
            assert!(failures.is_empty(), "{dtype}: {}", failures.join("\n"));
        }
    }
}

/// Bytes in vectors of more lanes than a predicate has bits, and a remainder of several pieces.
#[test]
fn remainders_of_wide_vectors_compile() {
    let mut rng = Rng::new(1);
    let mut p = Builder::new(&mut rng);
    let x = p.input("x", &[47.into(), 8.into()], DataType::I8);
    let y = compute("y", x.shape().to_vec(), &[&x], |i: &[PrimExpr]| x.at(i.to_vec()));
    let program = p.finish("copy", &[y], Bound::Same);
    let machine = Machine { vector_bits: 1024, masked_vectors: true, ..Machine::baseline() };
    let failures = check(&[program], &machine, 1, &mut Summary::default());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
