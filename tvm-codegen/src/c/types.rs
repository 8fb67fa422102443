//! C's names for data types. In a register, a bool is 0 or 1, and a vector of bools is a mask of bytes 0 or -1. `f16`
//! and `bf16` are represented by their bits: only conversions operate on them.

use tvm_runtime::{DTypeCode, DataType};

/// Short name of one lane: `f32`, `u8`, …
pub(super) fn short(dtype: DataType) -> String {
    dtype.scalar().to_string()
}

/// C type of one lane, in memory and in registers.
pub(super) fn scalar(dtype: DataType) -> &'static str {
    match (dtype.code(), dtype.bits()) {
        (DTypeCode::Bool, _) | (DTypeCode::UInt, 8) => "uint8_t",
        (DTypeCode::Int, 8) => "int8_t",
        (DTypeCode::Int, 16) => "int16_t",
        (DTypeCode::Int, 32) => "int32_t",
        (DTypeCode::Int, _) => "int64_t",
        (DTypeCode::UInt, 16) | (DTypeCode::BFloat, _) | (DTypeCode::Float, 16) => "uint16_t",
        (DTypeCode::UInt, 32) => "uint32_t",
        (DTypeCode::UInt, _) => "uint64_t",
        (DTypeCode::Float, 32) => "float",
        (DTypeCode::Float, _) => "double",
        (DTypeCode::Handle, _) => "void *",
    }
}

/// The type that represents values of `dtype` in vectors: masks for bools, bits for short floats.
pub(super) fn carrier(dtype: DataType) -> DataType {
    let carrier = match dtype.scalar() {
        DataType::BOOL => DataType::I8,
        DataType::F16 | DataType::BF16 => DataType::U16,
        other => other,
    };
    carrier.with_lanes(dtype.lanes())
}

/// The signed integer type of the width of `dtype`: the type of its masks.
pub(super) fn mask(dtype: DataType) -> DataType {
    let scalar = match dtype.bits() {
        8 => DataType::I8,
        16 => DataType::I16,
        32 => DataType::I32,
        _ => DataType::I64,
    };
    scalar.with_lanes(dtype.lanes())
}

/// True for integers that C promotes to `int` before an operation.
pub(super) fn is_narrow(dtype: DataType) -> bool {
    dtype.is_integer() && dtype.bits() < 32
}
