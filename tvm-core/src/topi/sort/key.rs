//! Keys of elements: unsigned integers in the order of the elements, equal for equal elements.

use tvm_runtime::DataType;

use crate::tir::{BinaryOp, Intrinsic, PrimExpr, binary, wrap_int};

/// The type of the keys of elements of type `dtype`.
pub(super) fn dtype(dtype: DataType) -> DataType {
    match dtype.bits() {
        8 => DataType::U8,
        16 => DataType::U16,
        32 => DataType::U32,
        _ => DataType::U64,
    }
}

/// The key of `value`: smaller for what comes earlier.
pub(super) fn of(value: PrimExpr, descending: bool) -> PrimExpr {
    let dtype = value.dtype();
    let key = self::dtype(dtype);
    let number = |it: i128| PrimExpr::int(wrap_int(it, key), key);
    let top = 1i128 << (dtype.bits() - 1);
    let bits = |it: PrimExpr| PrimExpr::call(Intrinsic::Reinterpret, [it], key);
    let ascending = if dtype.is_bool() {
        value.cast(key)
    } else if dtype.is_uint() {
        value
    } else if dtype.is_int() {
        bits(value) + number(top)
    } else {
        // The bits without the sign are in the order of magnitudes; those of zeros are 0.
        let word = bits(value);
        let magnitude = binary(BinaryOp::BitAnd, word.clone(), number(top - 1));
        let negative = word.greater_equal(number(top));
        let nan = magnitude.clone().greater(number(infinity(dtype)));
        let finite = negative.select(number(top) - &magnitude, number(top) + magnitude);
        nan.select(number(2 * top - 1), finite)
    };
    if descending { number(2 * top - 1) - ascending } else { ascending }
}

/// The bits of infinity.
fn infinity(dtype: DataType) -> i128 {
    let fraction = match dtype {
        DataType::F16 => 10,
        DataType::BF16 => 7,
        DataType::F32 => 23,
        _ => 52,
    };
    let top = 1i128 << (dtype.bits() - 1);
    top - (1 << fraction)
}
