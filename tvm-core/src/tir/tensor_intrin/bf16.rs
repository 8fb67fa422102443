//! Sums of two products of `bf16`: `vdpbf16ps` where the CPU has it. The two products are added to the sum one after the other,
//! each with one rounding, the second one first.
//!
//! TVM counterpart: none.

use tvm_runtime::DataType;

use super::BuiltIn;
use super::build::{add_to, buffer, each, function, word};
use crate::tir::{ForKind, Intrinsic, PrimExpr, PrimFunc, Stmt};

pub(super) const TABLE: &[BuiltIn] =
    &[("dot_8x2_bf16", || dot::<8>("dot_8x2_bf16")), ("dot_16x2_bf16", || dot::<16>("dot_16x2_bf16"))];

/// `c[i] += a[k] * b[i, k]` for two `k`.
fn dot<const N: i64>(name: &str) -> [PrimFunc; 2] {
    let make = |imp: bool| {
        let (a, b, c) = (
            buffer("a", &[2], DataType::BF16),
            buffer("b", &[N, 2], DataType::BF16),
            buffer("c", &[N], DataType::F32),
        );
        let body = match imp {
            false => each("i", N, ForKind::Serial, |i| {
                each("k", 2, ForKind::Serial, |k| {
                    let [x, y] = [a.load([k.clone()]), b.load([i.clone(), k])];
                    add_to(&c, &[i], x.cast(DataType::F32) * y.cast(DataType::F32))
                })
            }),
            true => each("i", N, ForKind::Vectorized, |i| {
                let x = word(&a, |k| vec![PrimExpr::index(k)]);
                let y = word(&b, |k| vec![i.clone(), PrimExpr::index(k)]);
                let sum = PrimExpr::call(Intrinsic::Dot2, [x, y, c.load([i.clone()])], DataType::F32);
                Stmt::store(&c, [i], sum)
            }),
        };
        function(name, a, b, c, body)
    };
    [make(false), make(true)]
}
