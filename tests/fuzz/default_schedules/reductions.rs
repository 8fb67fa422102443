//! Sums, products, extremes and their positions over any axes; softmax, norms, and chains of extremes of rows.

use tvm::prelude::*;
use tvm::target::Machine;
use tvm::te::{max, min, prod, sum};
use tvm::tir::PrimExpr;
use tvm::topi::{
    Operand, arg_extreme, broadcast, log_softmax, normalize, reduce_axes, scaled_sum, softmax, sum_axes,
};
use tvm_testing::Rng;

use super::batch::{Summary, check};
use super::program::{Bound, Builder, Program, Values, eps};
use super::{EXTENTS, below};

const FLOATS: [DataType; 5] = [DataType::F32, DataType::F32, DataType::F64, DataType::F16, DataType::BF16];

/// A shape of 1 to 3 axes, and some of these axes.
fn shape(rng: &mut Rng, p: usize) -> (Vec<i64>, Vec<usize>) {
    let shape = match rng.below(3) {
        // Rows longer than any tile.
        0 => vec![*rng.pick(&[1, 2, 3, 70]), *rng.pick(&[255, 256, 257, 300])],
        1 => below(rng, 20_000, [&EXTENTS; 2]).to_vec(),
        _ => below(rng, 20_000, [&EXTENTS; 3]).to_vec(),
    };
    let mut axes: Vec<usize> = (0..shape.len()).filter(|_| rng.one_in(2)).collect();
    if axes.is_empty() {
        axes.push(if rng.one_in(2) { shape.len() - 1 } else { rng.below(shape.len()) });
    }
    axes.truncate(p);
    (shape, axes)
}

fn dims(p: &mut Builder<'_>, shape: &[i64]) -> Vec<PrimExpr> {
    shape.iter().zip(["m", "n", "o"]).map(|(&extent, name)| p.dim(name, extent)).collect()
}

/// A reduction of some axes. Sums are within the bound of sums. Largest and smallest elements and positions are exact. A
/// product of n factors is within n roundings on either side of the exact one, unless a partial product is subnormal, so
/// factors are plain numbers here, and few.
pub(crate) fn reduction(rng: &mut Rng) -> Program {
    let (shape, axes) = shape(rng, 3);
    let terms = axes.iter().map(|&axis| shape[axis]).product::<i64>() + 2;
    let integer = rng.one_in(4);
    let dtype = if integer { *rng.pick(&[DataType::I8, DataType::I32]) } else { *rng.pick(&FLOATS) };
    let keep = rng.one_in(2);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &shape);
    let x = p.input("x", &dims, dtype);
    let of_sum = |sum, products| Bound::Terms { terms, sum, products };
    let wide = if dtype.is_float() && dtype.bits() < 32 { DataType::F32 } else { dtype };
    let plain = |it: PrimExpr| it;
    let (y, bound) = match p.rng.below(8) {
        0 => (reduce_axes("sum", &x, &axes, keep, plain, sum), of_sum(dtype, false)),
        1 => (sum_axes("sum", &x, &axes, keep, plain), of_sum(wide, false)),
        2 => (sum_axes("squares", &x, &axes, keep, |it| it.clone() * it), of_sum(wide, true)),
        3 if !integer => (scaled_sum("mean", &x, &axes, keep), of_sum(wide, true)),
        4 => (reduce_axes("max", &x, &axes, keep, plain, max), Bound::Equal),
        5 => (reduce_axes("min", &x, &axes, keep, plain, min), Bound::Equal),
        6 if integer || terms <= 20 && dtype.bits() > 16 => {
            let y = reduce_axes("prod", &x, &axes, keep, plain, prod);
            let mut program = p.finish("product_of_all", &[y], Bound::Relative(terms as f64 * eps(dtype)));
            program.values = Values::Plain;
            return program;
        }
        _ => {
            let largest = p.rng.one_in(2);
            let last = p.rng.one_in(2);
            (arg_extreme("arg", &x, &axes, keep, largest, last), Bound::Same)
        }
    };
    p.finish("reduction", &[y], bound)
}

/// Softmax, its logarithm, layer norm or root mean square norm.
pub(crate) fn norm(rng: &mut Rng) -> Program {
    let (shape, axes) = shape(rng, 2);
    match rng.below(5) {
        0 | 1 => softmax_of(rng, &shape, axes[0]),
        2 => log_softmax_of(rng, &shape, axes[0]),
        _ => layer_norm(rng, &shape, &axes),
    }
}

/// Positions of extremes among few different numbers, or softmax, of rows that threads divide into parts, or of which shared
/// memory holds one, or none.
pub(crate) fn position_or_softmax(rng: &mut Rng) -> Program {
    let rows = *rng.pick(&[1, 2, 3, 5]);
    if rng.one_in(3) {
        let length = *rng.pick(&[9000, 18_688, 18_689, 20_001]);
        let make = if rng.one_in(2) { softmax_of } else { log_softmax_of };
        return make(rng, &[1, length], 1);
    }
    let shape = [rows, *rng.pick(&[1, 2, 31, 32, 33, 257, 1025, 5000])];
    let dtype = *rng.pick(&[DataType::F32, DataType::F16, DataType::BF16, DataType::F64, DataType::I8]);
    let (largest, last, axis) = (rng.one_in(2), rng.one_in(2), rng.below(2));
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &shape);
    let x = p.input("x", &dims, dtype);
    // Ties: many elements are 1, except for NaN.
    let one = PrimExpr::constant(1.0, dtype);
    let few = broadcast("few", &dims, &[(&x).into()], |it| {
        let above = it[0].clone().greater(PrimExpr::constant(0.0, dtype));
        above.select(one.clone(), it[0].clone())
    });
    let x = if p.rng.one_in(2) { few } else { x };
    let y = arg_extreme("arg", &x, &[axis], p.rng.one_in(2), largest, last);
    p.finish("position", &[y], Bound::Same)
}

/// Largest and smallest elements of rows and what is computed from them, several times over, or positions in that. Differences and extremes are the
/// same in any order, apart from the signs of zeros.
pub(crate) fn rows(rng: &mut Rng) -> Program {
    let (shape, mut axes) = shape(rng, 2);
    if rng.one_in(2) {
        axes = vec![shape.len() - 1];
    }
    let dtype = *rng.pick(&FLOATS);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, &shape);
    let x = p.input("x", &dims, dtype);
    let mut row = x.clone();
    for step in 0..p.rng.range(1, 4) {
        let largest = p.rng.one_in(2);
        let make = if largest { max } else { min };
        let extreme = reduce_axes(&format!("extreme{step}"), &row, &axes, true, |it| it, make);
        let other = if p.rng.one_in(2) { &x } else { &row };
        let operation = p.rng.below(3);
        let operands = [row.clone(), extreme.clone(), other.clone()];
        let operands: Vec<Operand> = operands.iter().map(Operand::from).collect();
        row = broadcast(&format!("row{step}"), &dims, &operands, |it| match operation {
            0 => it[0].clone() - it[1].clone(),
            1 => it[2].clone() - it[1].clone(),
            _ => (it[0].clone() - it[1].clone()).max(it[2].clone()),
        });
        if p.rng.one_in(4) {
            return p.finish("extremes", &[extreme], Bound::Equal);
        }
    }
    if p.rng.one_in(3) {
        let (largest, last) = (p.rng.one_in(2), p.rng.one_in(2));
        let place = arg_extreme("place", &row, &axes, false, largest, last);
        return p.finish("place", &[place], Bound::Same);
    }
    p.finish("rows", &[row], Bound::Equal)
}

/// The logarithm of softmax of n elements of magnitude at most 2. The sum, at most n, has a relative error of at most
/// `(n + 16) eps` on either side, as for softmax: the same absolute error of its logarithm, which is below 40 and within 4
/// units in the last place, 160 eps. Differences of numbers below 64 add 64 eps.
fn log_softmax_of(rng: &mut Rng, shape: &[i64], axis: usize) -> Program {
    let dtype = *rng.pick(&[DataType::F32, DataType::F32, DataType::F64]);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, shape);
    let x = p.input("x", &dims, dtype);
    let y = log_softmax(&x, axis);
    p.finish("log_softmax", &[y], Bound::Absolute((shape[axis] + 240) as f64 * eps(dtype)))
}

/// Exponentials divided by their sum. Their arguments are the same on both sides. Each exponential is within 3.7 units
/// of the last place of the exact one, the interpreter's within 1; with the roundings to the element type, numerator and
/// quotient have an error of at most 8 units between them, and the sum one of `n` units of the type in which it is added, and
/// 8 of its terms. A quotient is at most 1, so what is lost in subnormal numbers stays a few of their units.
fn softmax_of(rng: &mut Rng, shape: &[i64], axis: usize) -> Program {
    let dtype = *rng.pick(&FLOATS);
    let wide = if dtype.bits() < 32 { DataType::F32 } else { dtype };
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, shape);
    let x = p.input("x", &dims, dtype);
    let y = softmax(&x, axis);
    let relative = 16.0 * eps(dtype) + shape[axis] as f64 * eps(wide);
    p.finish("softmax", &[y], Bound::Relative(relative))
}

/// `(x - mean) / sqrt(variance + 1) * gamma + beta` with `|x|`, `|gamma|` and `|beta|` at most M = 2, over n elements. With
/// e = (n + 4) eps, both means are within e M of each other, so that distances to them, at most 2 M, are within 2 e M,
/// squares within 8 e M², the variance within 12 e M²; as the root is at least 1, the quotient is within
/// 2 e M + (2 M) (12 e M²) / 2 = 100 e, and the result within 200 e + 10 eps. Only types whose sums are of their own
/// precision are here: the bound says nothing for 16 bits.
/// Without the mean, the distances are smaller, and the bound holds too.
fn layer_norm(rng: &mut Rng, shape: &[i64], axes: &[usize]) -> Program {
    let center = !rng.one_in(3);
    let dtype = *rng.pick(&[DataType::F32, DataType::F32, DataType::F64]);
    let mut p = Builder::new(rng);
    let dims = dims(&mut p, shape);
    let x = p.input("x", &dims, dtype);
    let last = dims.len() - 1;
    let [gamma, beta] = ["gamma", "beta"].map(|name| p.input(name, &dims[last..], dtype));
    let y = normalize("norm", &x, axes, 1.0, center, &[&gamma, &beta], |it, i| {
        it * gamma.at([i[last].clone()]) + beta.at([i[last].clone()])
    });
    let n = axes.iter().map(|&axis| shape[axis]).product::<i64>();
    p.finish("layer_norm", &[y], Bound::Absolute((200.0 * (n + 4) as f64 + 10.0) * eps(dtype)))
}

/// Rows of 17 elements, whose loop a compiler divides differently for the chunks of several threads.
#[test]
fn sums_of_products_have_the_same_bits_on_any_number_of_threads() {
    for seed in 1..5 {
        let mut rng = Rng::new(seed);
        let mut p = Builder::new(&mut rng);
        let x = p.input("x", &[64.into(), 5.into(), 17.into()], DataType::F64);
        let y = sum_axes("squares", &x, &[2], false, |it| it.clone() * it);
        let mut program =
            p.finish("squares", &[y], Bound::Terms { terms: 18, sum: DataType::F64, products: true });
        program.values = Values::Plain;
        let machine = Machine { vector_bits: 8, ..Machine::baseline() };
        let failures = check(&[program], &machine, 2, &mut Summary::default());
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}
