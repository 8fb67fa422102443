//! Products of `f32` in registers: the rows of a tile of the result are vectors, to which products of one element with a
//! vector are added.
//!
//! TVM counterpart: none for x86 (there, LLVM vectorises such loops).

use tvm_runtime::DataType;

use super::BuiltIn;
use super::build::{add_to, buffer, each, function};
use crate::tir::{Buffer, ForKind, Intrinsic, PrimExpr, PrimFunc, Stmt};

pub(super) const TABLE: &[BuiltIn] = &[
    ("fma_1x8_f32", || row::<8>("fma_1x8_f32")),
    ("fma_1x16_f32", || row::<16>("fma_1x16_f32")),
    ("fma_4x16_f32", || tile::<4, 16>("fma_4x16_f32")),
    ("fma_8x16_f32", || tile::<8, 16>("fma_8x16_f32")),
];

const F32: DataType = DataType::F32;

/// `c[at] = fmuladd(a, b, c[at])`
fn fused(c: &Buffer, at: &[PrimExpr], a: PrimExpr, b: PrimExpr) -> Stmt {
    Stmt::store(c, at.to_vec(), PrimExpr::call(Intrinsic::FMulAdd, [a, b, c.load(at.to_vec())], F32))
}

/// `c[j] += a[0] * b[j]`
fn row<const N: i64>(name: &str) -> [PrimFunc; 2] {
    let make = |kind: ForKind, store: fn(&Buffer, &[PrimExpr], PrimExpr, PrimExpr) -> Stmt| {
        let (a, b, c) = (buffer("a", &[1], F32), buffer("b", &[N], F32), buffer("c", &[N], F32));
        let body = each("j", N, kind, |j| {
            store(&c, std::slice::from_ref(&j), a.load([PrimExpr::index(0)]), b.load([j.clone()]))
        });
        function(name, a, b, c, body)
    };
    [make(ForKind::Serial, |c, at, a, b| add_to(c, at, a * b)), make(ForKind::Vectorized, fused)]
}

/// `c[i, j] += a[i, 0] * b[0, j]`
fn tile<const M: i64, const N: i64>(name: &str) -> [PrimFunc; 2] {
    let make = |kinds: [ForKind; 2], store: fn(&Buffer, &[PrimExpr], PrimExpr, PrimExpr) -> Stmt| {
        let (a, b, c) = (buffer("a", &[M, 1], F32), buffer("b", &[1, N], F32), buffer("c", &[M, N], F32));
        let zero = PrimExpr::index(0);
        let body = each("i", M, kinds[0], |i| {
            each("j", N, kinds[1], |j| {
                let at = [i.clone(), j.clone()];
                store(&c, &at, a.load([i, zero.clone()]), b.load([zero.clone(), j]))
            })
        });
        function(name, a, b, c, body)
    };
    [
        make([ForKind::Serial; 2], |c, at, a, b| add_to(c, at, a * b)),
        make([ForKind::Unrolled, ForKind::Vectorized], fused),
    ]
}
