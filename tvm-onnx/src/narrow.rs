//! ONNX element types that are narrower than every tvm type: 2- and 4-bit integers, 4- and 8-bit floats.
//!
//! Their elements are stored one per byte: integers as `i8` or `u8` of the same value, floats as `u8` with the bits of
//! the float. Operators that move elements pass them through; conversions and quantisation compute with them.

use tvm_runtime::{DataType, Tensor};

use crate::error::OnnxError;
use crate::proto::{ElemType, TensorProto};

/// A narrow element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Narrow {
    /// Name of the type outside of ONNX, for example in NumPy extensions.
    pub(crate) name: &'static str,
    /// Number of bits of an element.
    pub(crate) bits: u32,
    /// Interpretation of the bits.
    pub(crate) kind: Kind,
}

/// Interpretation of the bits of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// An unsigned integer.
    UInt,
    /// A signed integer.
    Int,
    /// A float with a sign.
    Float(Float),
    /// A power of two, given by its exponent.
    Exponent,
}

/// Layout of a float: sign, exponent, `mantissa` bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Float {
    /// Number of bits of the mantissa.
    pub(crate) mantissa: i32,
    /// Exponent of the smallest normal number.
    pub(crate) least: i32,
    /// Bits of the largest finite number.
    pub(crate) largest: u8,
    /// Bits of infinity; `None` if there is none.
    pub(crate) infinity: Option<u8>,
    /// Bits of NaN; `None` if there is none.
    pub(crate) nan: Option<u8>,
    /// True if there is no negative zero.
    pub(crate) unsigned_zero: bool,
}

const fn float(mantissa: i32, least: i32, largest: u8, infinity: Option<u8>, nan: Option<u8>) -> Kind {
    Kind::Float(Float { mantissa, least, largest, infinity, nan, unsigned_zero: false })
}

/// A float type without infinities and without a negative zero; the bits of the negative zero mean NaN.
const fn float_fnuz(mantissa: i32, least: i32) -> Kind {
    let (infinity, nan) = (None, Some(0x80));
    Kind::Float(Float { mantissa, least, largest: 0x7f, infinity, nan, unsigned_zero: true })
}

const TYPES: &[(ElemType, Narrow)] = &[
    (
        ElemType::Float8E4m3fn,
        Narrow { name: "float8_e4m3fn", bits: 8, kind: float(3, -6, 0x7e, None, Some(0x7f)) },
    ),
    (ElemType::Float8E4m3fnuz, Narrow { name: "float8_e4m3fnuz", bits: 8, kind: float_fnuz(3, -7) }),
    (
        ElemType::Float8E5m2,
        Narrow { name: "float8_e5m2", bits: 8, kind: float(2, -14, 0x7b, Some(0x7c), Some(0x7e)) },
    ),
    (ElemType::Float8E5m2fnuz, Narrow { name: "float8_e5m2fnuz", bits: 8, kind: float_fnuz(2, -15) }),
    (ElemType::Float8E8m0, Narrow { name: "float8_e8m0fnu", bits: 8, kind: Kind::Exponent }),
    (ElemType::Float4E2m1, Narrow { name: "float4_e2m1fn", bits: 4, kind: float(1, 0, 0x7, None, None) }),
    (ElemType::Uint4, Narrow { name: "uint4", bits: 4, kind: Kind::UInt }),
    (ElemType::Int4, Narrow { name: "int4", bits: 4, kind: Kind::Int }),
    (ElemType::Uint2, Narrow { name: "uint2", bits: 2, kind: Kind::UInt }),
    (ElemType::Int2, Narrow { name: "int2", bits: 2, kind: Kind::Int }),
];

impl Narrow {
    /// The narrow type with the number `elem` in the format, if there is one.
    pub(crate) fn from_onnx(elem: i64) -> Option<Narrow> {
        TYPES.iter().find(|(it, _)| *it as i64 == elem).map(|(_, narrow)| *narrow)
    }

    /// The data type that stores an element.
    pub(crate) fn storage(self) -> DataType {
        if self.kind == Kind::Int { DataType::I8 } else { DataType::U8 }
    }

    /// Smallest and largest value of an integer type; `None` for other types.
    pub(crate) fn int_range(self) -> Option<(i128, i128)> {
        match self.kind {
            Kind::UInt => Some((0, (1 << self.bits) - 1)),
            Kind::Int => Some((-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)),
            Kind::Float(_) | Kind::Exponent => None,
        }
    }

    /// The number that `bits` represent.
    pub(crate) fn value(self, bits: u8) -> f32 {
        let float = match self.kind {
            Kind::UInt => return f32::from(bits),
            Kind::Int => return f32::from(self.sign_extended(bits) as i8),
            Kind::Exponent if bits == 0xff => return f32::NAN,
            Kind::Exponent => return 2f32.powi(i32::from(bits) - 127),
            Kind::Float(float) => float,
        };
        let sign = 1u8 << (self.bits - 1);
        let size = bits & (sign - 1);
        let negative = if bits & sign != 0 { -1.0 } else { 1.0 };
        if float.nan == Some(bits)
            || !float.unsigned_zero
                && float.nan.is_some()
                && size > float.largest.max(float.infinity.unwrap_or(0))
        {
            return f32::NAN;
        }
        if float.infinity == Some(size) {
            return negative * f32::INFINITY;
        }
        let (exponent, rest) =
            (i32::from(size >> float.mantissa), i32::from(size) & ((1 << float.mantissa) - 1));
        let full = if exponent == 0 { rest } else { rest + (1 << float.mantissa) };
        negative * full as f32 * 2f32.powi(exponent.max(1) - 1 + float.least - float.mantissa)
    }

    /// The value of each of the 256 bytes. Bits above the width of the type are ignored.
    pub(crate) fn values(self) -> Result<Tensor, OnnxError> {
        let mask = u8::MAX >> (8 - self.bits);
        Ok(Tensor::from_vec((0..=u8::MAX).map(|it| self.value(it & mask)).collect(), &[256])?)
    }

    fn sign_extended(self, bits: u8) -> u8 {
        let unused = 8 - self.bits;
        (((bits << unused) as i8) >> unused) as u8
    }

    /// Decodes a tensor of this type to one element per byte.
    pub(crate) fn unpack(self, proto: &TensorProto, packed: &[u8], n: usize) -> Result<Tensor, OnnxError> {
        let per_byte = (8 / self.bits) as usize;
        if packed.len() != n.div_ceil(per_byte) {
            let (want, got) = (n.div_ceil(per_byte), packed.len());
            return Err(OnnxError::malformed(format!(
                "{n} elements of {} take {want} bytes, got {got}",
                self.name
            )));
        }
        let mask = u8::MAX >> (8 - self.bits);
        let element = |i: usize| {
            let bits = (packed[i / per_byte] >> (i % per_byte * self.bits as usize)) & mask;
            if self.kind == Kind::Int { self.sign_extended(bits) } else { bits }
        };
        let bytes: Vec<u8> = (0..n).map(element).collect();
        Ok(Tensor::from_bytes(&bytes, &proto.dims, self.storage())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrow(elem: ElemType) -> Narrow {
        Narrow::from_onnx(elem as i64).unwrap()
    }

    #[test]
    fn values() {
        let cases: &[(ElemType, u8, f32)] = &[
            (ElemType::Float8E4m3fn, 0x7e, 448.0),
            (ElemType::Float8E4m3fn, 0x01, 1.0 / 512.0),
            (ElemType::Float8E4m3fn, 0xb8, -1.0),
            (ElemType::Float8E4m3fnuz, 0x7f, 240.0),
            (ElemType::Float8E5m2, 0x7b, 57344.0),
            (ElemType::Float8E5m2, 0xfc, f32::NEG_INFINITY),
            (ElemType::Float8E5m2fnuz, 0x7f, 57344.0),
            (ElemType::Float8E8m0, 128, 2.0),
            (ElemType::Float4E2m1, 0x7, 6.0),
            (ElemType::Float4E2m1, 0x9, -0.5),
            (ElemType::Uint4, 15, 15.0),
            (ElemType::Int4, 8, -8.0),
            (ElemType::Int2, 3, -1.0),
        ];
        for &(elem, bits, want) in cases {
            assert_eq!(narrow(elem).value(bits), want, "{elem:?} {bits:#x}");
        }
        for (elem, bits) in [
            (ElemType::Float8E4m3fn, 0xff),
            (ElemType::Float8E4m3fnuz, 0x80),
            (ElemType::Float8E5m2, 0x7d),
            (ElemType::Float8E5m2fnuz, 0x80),
            (ElemType::Float8E8m0, 0xff),
        ] {
            assert!(narrow(elem).value(bits).is_nan(), "{elem:?} {bits:#x}");
        }
    }

    #[test]
    fn packed_elements() {
        let proto = TensorProto { dims: vec![3], ..TensorProto::default() };
        let got = narrow(ElemType::Int4).unpack(&proto, &[0x7f, 0x08], 3).unwrap();
        assert_eq!(got.to_vec::<i8>().unwrap(), [-1, 7, -8]);
        let got = narrow(ElemType::Uint2).unpack(&proto, &[0b00_10_01_11], 3).unwrap();
        assert_eq!(got.to_vec::<u8>().unwrap(), [3, 1, 2]);
        assert!(narrow(ElemType::Uint2).unpack(&proto, &[0, 0], 3).is_err());
    }
}
