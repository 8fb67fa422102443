//! Sums of four products of signed bytes, or of unsigned ones: `sdot` and `udot` of AArch64, where the code generator finds them.
//!
//! Both are written with [`Dot4`](Intrinsic::Dot4), which multiplies unsigned by signed bytes: a byte with its highest bit
//! flipped is 128 more as an unsigned byte, or 128 less as a signed one. What this adds is summed apart, and subtracted.
//!
//! TVM counterpart: `tensor_intrin/arm_cpu.py` (`ARM_DOT_4x4_i8_SDOT_INTRIN`, `ARM_DOT_4x4_u8_UDOT_INTRIN`).

use tvm_runtime::DataType;

use super::BuiltIn;
use super::build::{add_to, buffer, each, function, int, word};
use crate::tir::{BinaryOp, ForKind, Intrinsic, PrimExpr, PrimFunc, binary};

pub(super) const TABLE: &[BuiltIn] = &[
    ("dot_4x4_i8i8s32_sdot", || dot("dot_4x4_i8i8s32_sdot", DataType::I8)),
    ("dot_4x4_u8u8u32_udot", || dot("dot_4x4_u8u8u32_udot", DataType::U8)),
];

const N: i64 = 4;

/// The highest bit of each byte.
const HIGH_BITS: i64 = 0x8080_8080_u32 as i32 as i64;

/// `c[i] += a[k] * b[i, k]` for four `k`; the sums have 32 bits and the signs of the bytes.
fn dot(name: &str, dtype: DataType) -> [PrimFunc; 2] {
    let sums = if dtype == DataType::I8 { DataType::I32 } else { DataType::U32 };
    let make = |imp: bool| {
        let (a, b, c) = (buffer("a", &[4], dtype), buffer("b", &[N, 4], dtype), buffer("c", &[N], sums));
        let body = match imp {
            false => each("i", N, ForKind::Serial, |i| {
                each("k", 4, ForKind::Serial, |k| {
                    let [x, y] = [a.load([k.clone()]), b.load([i.clone(), k])];
                    add_to(&c, &[i], x.cast(sums) * y.cast(sums))
                })
            }),
            true => each("i", N, ForKind::Vectorized, |i| {
                let x = word(&a, |k| vec![PrimExpr::index(k)]);
                let y = word(&b, |k| vec![i.clone(), PrimExpr::index(k)]);
                add_to(&c, &[i], PrimExpr::call(Intrinsic::Reinterpret, [signed(x, y, dtype)], sums))
            }),
        };
        function(name, a, b, c, body)
    };
    [make(false), make(true)]
}

/// The sum of the products of the bytes of `x` and `y`, all of `dtype`, as an `i32`.
fn signed(x: PrimExpr, y: PrimExpr, dtype: DataType) -> PrimExpr {
    let dot = |a, b| PrimExpr::call(Intrinsic::Dot4, [a, b, int(0)], DataType::I32);
    let flipped = |it| binary(BinaryOp::BitXor, it, int(HIGH_BITS));
    match dtype == DataType::I8 {
        // (x + 128) * y - 128 * y
        true => dot(flipped(x), y.clone()) - dot(int(HIGH_BITS), y),
        // x * (y - 128) - x * -128
        false => dot(x.clone(), flipped(y)) - dot(x, int(HIGH_BITS)),
    }
}
