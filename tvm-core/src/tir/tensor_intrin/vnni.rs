//! Sums of four products of an unsigned and a signed byte: `vpdpbusd` of AVX-VNNI and AVX512-VNNI, two instructions elsewhere.
//!
//! TVM counterpart: `tensor_intrin/x86.py` (`VNNI_DOT_16x4_INTRIN`, `AVX512_DOT_16x4_INTRIN`).

use tvm_runtime::DataType;

use super::BuiltIn;
use super::build::{add_to, buffer, each, function, word};
use crate::tir::{ForKind, Intrinsic, PrimExpr, PrimFunc, Stmt};

pub(super) const TABLE: &[BuiltIn] =
    &[("dot_8x4_vnni", || dot::<8>("dot_8x4_vnni")), ("dot_16x4_vnni", || dot::<16>("dot_16x4_vnni"))];

/// `c[i] += a[k] * b[i, k]` for four `k`, of unsigned and signed bytes.
fn dot<const N: i64>(name: &str) -> [PrimFunc; 2] {
    let make = |imp: bool| {
        let (a, b, c) = (
            buffer("a", &[4], DataType::U8),
            buffer("b", &[N, 4], DataType::I8),
            buffer("c", &[N], DataType::I32),
        );
        let body = match imp {
            false => each("i", N, ForKind::Serial, |i| {
                each("k", 4, ForKind::Serial, |k| {
                    let [x, y] = [a.load([k.clone()]), b.load([i.clone(), k])];
                    add_to(&c, &[i], x.cast(DataType::I32) * y.cast(DataType::I32))
                })
            }),
            true => each("i", N, ForKind::Vectorized, |i| {
                let x = word(&a, |k| vec![PrimExpr::index(k)]);
                let y = word(&b, |k| vec![i.clone(), PrimExpr::index(k)]);
                let sum = PrimExpr::call(Intrinsic::Dot4, [x, y, c.load([i.clone()])], DataType::I32);
                Stmt::store(&c, [i], sum)
            }),
        };
        function(name, a, b, c, body)
    };
    [make(false), make(true)]
}
