//! Element types of tensors and scalars; layout-compatible with DLPack's `DLDataType`.
//!
//! TVM counterpart: `runtime::DataType` (`include/tvm/runtime/data_type.h`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Family of a [`DataType`]; values are DLPack's `DLDataTypeCode` (bool is 6, as in DLPack 1.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum DTypeCode {
    /// Signed two's-complement integer.
    Int = 0,
    /// Unsigned integer.
    UInt = 1,
    /// IEEE-754 binary floating point.
    Float = 2,
    /// Opaque pointer (64 bits).
    Handle = 3,
    /// Brain floating point, 16 bits.
    BFloat = 4,
    /// Boolean, stored in one byte holding 0 or 1.
    Bool = 6,
}

/// Type of one element: family, bits and vector lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[repr(C)]
pub struct DataType {
    code: DTypeCode,
    bits: u8,
    lanes: u16,
}

macro_rules! named {
    ($($(#[$doc:meta])* $name:ident = $code:ident $bits:literal;)*) => {
        impl DataType {
            $($(#[$doc])* pub const $name: DataType = DataType { code: DTypeCode::$code, bits: $bits, lanes: 1 };)*
        }
    };
}

named! {
    /// `i8`
    I8 = Int 8;
    /// `i16`
    I16 = Int 16;
    /// `i32`
    I32 = Int 32;
    /// `i64`, the type of every index and symbolic dimension
    I64 = Int 64;
    /// `u8`
    U8 = UInt 8;
    /// `u16`
    U16 = UInt 16;
    /// `u32`
    U32 = UInt 32;
    /// `u64`
    U64 = UInt 64;
    /// `f16` (IEEE half)
    F16 = Float 16;
    /// `bf16` (bfloat16)
    BF16 = BFloat 16;
    /// `f32`
    F32 = Float 32;
    /// `f64`
    F64 = Float 64;
    /// `bool`
    BOOL = Bool 8;
    /// Opaque pointer
    HANDLE = Handle 64;
}

/// The scalar types that have a Rust-like name, in the order of the documentation.
const NAMES: &[(&str, DataType)] = &[
    ("f32", DataType::F32),
    ("f64", DataType::F64),
    ("f16", DataType::F16),
    ("bf16", DataType::BF16),
    ("i8", DataType::I8),
    ("i16", DataType::I16),
    ("i32", DataType::I32),
    ("i64", DataType::I64),
    ("u8", DataType::U8),
    ("u16", DataType::U16),
    ("u32", DataType::U32),
    ("u64", DataType::U64),
    ("bool", DataType::BOOL),
    ("handle", DataType::HANDLE),
];

impl DataType {
    /// Family of the element type.
    pub const fn code(self) -> DTypeCode {
        self.code
    }

    /// Bits of one lane (8 for `bool`).
    pub const fn bits(self) -> u8 {
        self.bits
    }

    /// Number of vector lanes; 1 for a scalar.
    pub const fn lanes(self) -> u16 {
        self.lanes
    }

    /// The same element type with `lanes` lanes.
    pub const fn with_lanes(self, lanes: u16) -> DataType {
        DataType { lanes, ..self }
    }

    /// The type of one lane.
    pub const fn scalar(self) -> DataType {
        self.with_lanes(1)
    }

    /// Size in bytes of one value (all lanes).
    pub const fn bytes(self) -> usize {
        (self.bits as usize).div_ceil(8) * self.lanes as usize
    }

    /// True for `f16`, `bf16`, `f32`, `f64` of any lanes.
    pub const fn is_float(self) -> bool {
        matches!(self.code, DTypeCode::Float | DTypeCode::BFloat)
    }

    /// True for signed integers of any lanes.
    pub const fn is_int(self) -> bool {
        matches!(self.code, DTypeCode::Int)
    }

    /// True for unsigned integers of any lanes.
    pub const fn is_uint(self) -> bool {
        matches!(self.code, DTypeCode::UInt)
    }

    /// True for signed and unsigned integers (not `bool`).
    pub const fn is_integer(self) -> bool {
        self.is_int() || self.is_uint()
    }

    /// True for booleans of any lanes.
    pub const fn is_bool(self) -> bool {
        matches!(self.code, DTypeCode::Bool)
    }

    /// True for opaque pointers.
    pub const fn is_handle(self) -> bool {
        matches!(self.code, DTypeCode::Handle)
    }

    /// True when there is one lane.
    pub const fn is_scalar(self) -> bool {
        self.lanes == 1
    }

    /// Smallest and largest value of an integer or bool type; `None` for floats and handles.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        match self.code {
            DTypeCode::Int => {
                let half = 1i128 << (self.bits - 1);
                Some((-half, half - 1))
            }
            DTypeCode::UInt => Some((0, (1i128 << self.bits) - 1)),
            DTypeCode::Bool => Some((0, 1)),
            DTypeCode::Float | DTypeCode::BFloat | DTypeCode::Handle => None,
        }
    }

    /// Every scalar type that can be an element of a tensor.
    pub fn all() -> impl Iterator<Item = DataType> {
        NAMES.iter().map(|&(_, dtype)| dtype).filter(|dtype| !dtype.is_handle())
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, dtype)| *dtype == self.scalar()).map(|(name, _)| *name);
        f.write_str(name.unwrap_or("unknown"))?;
        if self.lanes != 1 { write!(f, "x{}", self.lanes) } else { Ok(()) }
    }
}

/// The text is not the name of a data type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a data type; expected one of f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool, optionally followed by x<lanes>"
)]
pub struct ParseDataTypeError(pub String);

impl FromStr for DataType {
    type Err = ParseDataTypeError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let err = || ParseDataTypeError(s.to_string());
        let (name, lanes) = match s.split_once('x') {
            Some((name, lanes)) => (name, lanes.parse::<u16>().ok().filter(|&n| n > 0).ok_or_else(err)?),
            None => (s, 1),
        };
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, dtype)| dtype.with_lanes(lanes)).ok_or_else(err)
    }
}

impl From<DataType> for String {
    fn from(dtype: DataType) -> String {
        dtype.to_string()
    }
}

impl TryFrom<String> for DataType {
    type Error = ParseDataTypeError;

    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

/// A Rust type that can be an element of a tensor.
///
/// # Safety
/// `DTYPE` describes the type exactly: same size, and every bit pattern that the runtime stores for
/// that data type is a valid value of the Rust type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a tensor",
    note = "element types are f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool"
)]
#[allow(unsafe_code, reason = "the trait vouches for the layout of its implementors")]
pub unsafe trait Element: Copy + Send + Sync + fmt::Debug + 'static {
    /// The data type of one element.
    const DTYPE: DataType;
}

macro_rules! elements {
    ($($ty:ty => $name:ident),* $(,)?) => {
        $(
            // SAFETY: each Rust type has the size and representation of the data type that the table pairs it with.
            #[allow(unsafe_code, reason = "see SAFETY")]
            unsafe impl Element for $ty {
                const DTYPE: DataType = DataType::$name;
            }
        )*
    };
}

elements! {
    f32 => F32, f64 => F64, half::f16 => F16, half::bf16 => BF16,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64, bool => BOOL,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for dtype in DataType::all() {
            for lanes in [1, 4, 16] {
                let dtype = dtype.with_lanes(lanes);
                assert_eq!(dtype.to_string().parse(), Ok(dtype));
            }
        }
        for bad in ["", "f31", "f32x", "f32x0", "x4", "float32"] {
            assert!(bad.parse::<DataType>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_and_ranges() {
        assert_eq!(DataType::F32.with_lanes(8).bytes(), 32);
        assert_eq!(DataType::BOOL.bytes(), 1);
        assert_eq!(DataType::I8.int_range(), Some((-128, 127)));
        assert_eq!(DataType::U64.int_range(), Some((0, u64::MAX as i128)));
        assert_eq!(DataType::F16.int_range(), None);
    }
}
