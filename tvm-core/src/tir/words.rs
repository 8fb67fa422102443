//! Words: values of 32 bits that hold neighbouring elements of a narrow type, the first one in the lowest bits.
//! [`Dot4`](Intrinsic::Dot4) and [`Dot2`](Intrinsic::Dot2) multiply them part by part.
//!
//! TVM counterpart: none.

use tvm_runtime::DataType;

use super::{BinaryOp, Intrinsic, PrimExpr, binary};

/// Bits of a word.
const BITS: i64 = 32;

/// Elements of `dtype`, which is narrower than a word, in a word.
pub(crate) fn parts(dtype: DataType) -> i64 {
    BITS / i64::from(dtype.bits())
}

/// The intrinsic that multiplies words of `data` by weights that are words, of type `i32`, and the type of its sums; `None` if the
/// weights are no words.
pub(crate) fn dot(data: DataType, weight: DataType) -> Option<(Intrinsic, DataType)> {
    match (data, weight) {
        (DataType::U8, DataType::I32) => Some((Intrinsic::Dot4, DataType::I32)),
        (DataType::BF16, DataType::I32) => Some((Intrinsic::Dot2, DataType::F32)),
        _ => None,
    }
}

/// The word at `at` of neighbouring elements of type `dtype` along the dimension `place`, of which the first `extent` are terms;
/// `load` gives the element at an index.
pub(crate) fn word(
    dtype: DataType,
    extent: &PrimExpr,
    at: Vec<PrimExpr>,
    place: usize,
    load: impl Fn(Vec<PrimExpr>) -> PrimExpr,
) -> PrimExpr {
    let (parts, bits) = (parts(dtype), i64::from(dtype.bits()));
    let element = |i: i64| at[place].clone() * parts + i;
    let part = |i: i64| {
        let mut indices = at.clone();
        indices[place] = element(i);
        let mut part = load(indices);
        if dtype != DataType::U8 {
            let unsigned = if bits == 8 { DataType::U8 } else { DataType::U16 };
            part = PrimExpr::call(Intrinsic::Reinterpret, [part], unsigned);
        }
        binary(BinaryOp::Shl, part.cast(DataType::I32), PrimExpr::int(bits * i, DataType::I32))
    };
    let or = |a, b| binary(BinaryOp::BitOr, a, b);
    let choice = |i: i64, a, b| {
        let exists = element(i).less(extent.clone());
        PrimExpr::call(Intrinsic::IfThenElse, [exists, a, b], DataType::I32)
    };
    let whole = (1..parts).fold(part(0), |word, i| or(word, part(i)));
    if extent.as_int().is_some_and(|extent| extent % parts == 0) {
        return whole;
    }
    let guarded = |i: i64| choice(i, part(i), PrimExpr::int(0, DataType::I32));
    let rest = (1..parts - 1).fold(guarded(0), |word, i| or(word, guarded(i)));
    choice(parts - 1, whole, rest)
}
