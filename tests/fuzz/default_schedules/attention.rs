//! Attention: sums of products, their exponentials, and sums of products with these.

use tvm::prelude::*;
use tvm::tir::PrimExpr;
use tvm::topi::attention;
use tvm_testing::Rng;

use super::program::{Bound, Builder, Program, Values, eps};

/// Types of queries, keys and values.
const TYPES: [DataType; 4] = [DataType::F32, DataType::F64, DataType::F16, DataType::BF16];

/// Attention of `m` queries to `n` keys of depth `d`, with elements of magnitude at most 2 and a scale of 1/4. A score is a sum
/// of `d` products of magnitude at most 4, on both sides within `d eps` of the exact one relative to `4 d`; scaled, both are
/// within `s = 2 d² eps` of each other, and a bias of magnitude at most 2 adds `2 (d + 2) eps`. Weights are exponentials of their differences to the largest one: their relative
/// errors are at most `2 s`, 8 units of the functions, and `n eps` of the sum that divides them. The result is a mean of
/// values of magnitude at most 2 with these weights, and a sum of `n` terms: it is within `2 (2 s + (2 n + 8) eps)`, and half
/// a unit of the type to which either side is rounded. Larger values would leave the range of this estimate, so values are
/// plain numbers.
pub(crate) fn of_heads(rng: &mut Rng) -> Program {
    let dtype = *rng.pick(&TYPES);
    let [m, n] = [0; 2].map(|_| *rng.pick(&[1, 7, 8, 9, 16, 31, 33]));
    let (heads, d) = (*rng.pick(&[1, 2, 3]), *rng.pick(&[1, 3, 8, 16]));
    let bias = rng.below(8);
    let mut p = Builder::new(rng);
    let heads = p.dim("heads", heads);
    let [m_dim, n_dim] = [("m", m), ("n", n)].map(|(name, it)| p.dim(name, it));
    let q = p.input("q", &[heads.clone(), m_dim.clone(), d.into()], dtype);
    let [k, v] = ["k", "v"].map(|name| p.input(name, &[heads.clone(), n_dim.clone(), d.into()], dtype));
    let one = PrimExpr::index(1);
    let bias = match bias {
        0 => Some(vec![heads, m_dim, n_dim]),
        1 => Some(vec![m_dim, one]),
        2 => Some(vec![one, n_dim]),
        3 => Some(vec![n_dim]),
        4 => Some(vec![]),
        _ => None,
    };
    let bias = bias.map(|shape| p.input("bias", &shape, dtype));
    let y = attention([&q, &k, &v], bias.as_ref(), 0.25, dtype);
    let wide = if dtype.bits() < 32 { DataType::F32 } else { dtype };
    let scores = 2.0 * (d * d + d + 2) as f64 * eps(wide);
    let bound = 2.0 * (2.0 * scores + (2 * n + 8) as f64 * eps(wide)) + 2.0 * eps(dtype);
    let mut program = p.finish("attention", &[y], Bound::Absolute(bound));
    program.values = Values::Plain;
    program
}
