//! What the dialects of C differ in. All else, statements and scalar expressions, is the same text.

use tvm_runtime::DataType;

use super::types;

/// A dialect of C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// C with GCC's extensions: vectors, statement expressions, built-in functions.
    #[default]
    C,
    /// CUDA C++: functions of the device prelude instead, and no vectors.
    Cuda,
}

impl Dialect {
    /// The function `name` of libm for the float type `dtype`.
    pub(super) fn math(self, name: &str, dtype: DataType) -> String {
        match self {
            Dialect::C => format!("__builtin_{name}{}", if dtype.bits() == 32 { "f" } else { "" }),
            Dialect::Cuda => format!("tvm_{name}_{}", types::short(dtype)),
        }
    }

    /// Not a number.
    pub(super) fn nan(self, dtype: DataType) -> String {
        match self {
            Dialect::C => format!("{}(\"\")", self.math("nan", dtype)),
            Dialect::Cuda => format!("{}()", self.math("nan", dtype)),
        }
    }

    /// Positive infinity.
    pub(super) fn infinity(self, dtype: DataType) -> String {
        format!("{}()", self.math("inf", dtype))
    }

    /// The number of ones in the unsigned integer `value`.
    pub(super) fn ones(self, value: &str) -> String {
        match self {
            Dialect::C => format!("__builtin_popcountll({value})"),
            Dialect::Cuda => format!("tvm_ones({value})"),
        }
    }

    /// The number of zeros before the first one of `value`, which has 64 bits and is not 0.
    pub(super) fn leading_zeros(self, value: &str) -> String {
        match self {
            Dialect::C => format!("__builtin_clzll({value})"),
            Dialect::Cuda => format!("tvm_leading_zeros({value})"),
        }
    }

    /// A condition that usually holds.
    pub(super) fn likely(self, condition: &str) -> String {
        match self {
            Dialect::C => format!("__builtin_expect({condition}, 1)"),
            Dialect::Cuda => condition.to_string(),
        }
    }

    /// A condition that rarely holds.
    pub(super) fn unlikely(self, condition: &str) -> String {
        match self {
            Dialect::C => format!("__builtin_expect({condition}, 0)"),
            Dialect::Cuda => condition.to_string(),
        }
    }

    /// True (1) if the float `value` of type `dtype` is not a number, or is infinite.
    pub(super) fn is(self, what: &str, value: &str, dtype: DataType) -> String {
        match self {
            Dialect::C => format!("(__builtin_is{what}({value}) != 0)"),
            Dialect::Cuda => format!("{}({value})", self.math(&format!("is{what}"), dtype)),
        }
    }

    /// What stands before and after the statements of an expression that names values.
    pub(super) const fn statement_expression(self) -> [&'static str; 3] {
        match self {
            Dialect::C => ["({ ", "", "; })"],
            Dialect::Cuda => ["([&] { ", "return ", "; }())"],
        }
    }

    /// The words that no variable may have as its name.
    pub(super) const fn reserved(self) -> &'static [&'static str] {
        match self {
            Dialect::C => &[],
            Dialect::Cuda => CUDA_WORDS,
        }
    }
}

/// Words of C++ and CUDA.
const CUDA_WORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "bitand",
    "bitor",
    "catch",
    "class",
    "compl",
    "concept",
    "const_cast",
    "co_await",
    "co_return",
    "co_yield",
    "decltype",
    "delete",
    "dynamic_cast",
    "explicit",
    "export",
    "friend",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "reinterpret_cast",
    "requires",
    "static_assert",
    "static_cast",
    "template",
    "this",
    "throw",
    "try",
    "typeid",
    "typename",
    "using",
    "virtual",
    "wchar_t",
    "xor",
    "xor_eq",
    "threadIdx",
    "blockIdx",
    "blockDim",
    "gridDim",
    "warpSize",
    "int8_t",
    "int16_t",
    "int32_t",
    "int64_t",
    "uint8_t",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uintptr_t",
    "std",
];
