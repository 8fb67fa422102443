//! Intrinsics of scalars (of one lane, for vectors).

use tvm_runtime::{DTypeCode, DataType};

use super::machine::{FloatFn, IntFn, Machine};
use super::math::round_to;
use super::ops::{Code, rounded};
use crate::support::{to_bf16, to_f16};
use crate::tir::{Intrinsic, wrap_int};

/// A math intrinsic of one float argument.
fn float_unary(intrinsic: Intrinsic) -> Option<fn(f64) -> f64> {
    Some(match intrinsic {
        Intrinsic::Exp => f64::exp,
        Intrinsic::Exp2 => f64::exp2,
        Intrinsic::Log => f64::ln,
        Intrinsic::Log2 => f64::log2,
        Intrinsic::Log10 => f64::log10,
        Intrinsic::Log1p => f64::ln_1p,
        Intrinsic::Sqrt => f64::sqrt,
        Intrinsic::Sin => f64::sin,
        Intrinsic::Cos => f64::cos,
        Intrinsic::Tan => f64::tan,
        Intrinsic::Asin => f64::asin,
        Intrinsic::Acos => f64::acos,
        Intrinsic::Atan => f64::atan,
        Intrinsic::Sinh => f64::sinh,
        Intrinsic::Cosh => f64::cosh,
        Intrinsic::Tanh => f64::tanh,
        Intrinsic::Asinh => f64::asinh,
        Intrinsic::Acosh => f64::acosh,
        Intrinsic::Atanh => f64::atanh,
        Intrinsic::Erf => libm::erf,
        Intrinsic::Sigmoid => |x| 1.0 / (1.0 + (-x).exp()),
        Intrinsic::Abs => f64::abs,
        Intrinsic::Floor => f64::floor,
        Intrinsic::Ceil => f64::ceil,
        Intrinsic::Trunc => f64::trunc,
        Intrinsic::Round => f64::round_ties_even,
        Intrinsic::Likely | Intrinsic::AsyncCopy => |x| x,
        Intrinsic::Pow
        | Intrinsic::Atan2
        | Intrinsic::Rsqrt
        | Intrinsic::Fma
        | Intrinsic::FMulAdd
        | Intrinsic::Ldexp
        | Intrinsic::Copysign
        | Intrinsic::IsNan
        | Intrinsic::IsInf
        | Intrinsic::PopCount
        | Intrinsic::Clz
        | Intrinsic::BitNot
        | Intrinsic::Dot4
        | Intrinsic::Dot2
        | Intrinsic::ReduceAdd
        | Intrinsic::ReduceMul
        | Intrinsic::ReduceMin
        | Intrinsic::ReduceMax
        | Intrinsic::Reinterpret
        | Intrinsic::IfThenElse
        | Intrinsic::AddressOf
        | Intrinsic::Prefetch
        | Intrinsic::PrefetchL2
        | Intrinsic::ArgData
        | Intrinsic::ArgNdim
        | Intrinsic::ArgDType
        | Intrinsic::ArgShape
        | Intrinsic::ArgIsCompact
        | Intrinsic::ArgScalar
        | Intrinsic::StorageSync
        | Intrinsic::WarpShuffleXor
        | Intrinsic::AtomicAdd
        | Intrinsic::AtomicMul
        | Intrinsic::AtomicMin
        | Intrinsic::AtomicMax => return None,
    })
}

/// A pure intrinsic on `args`, which have the (scalar) type `from`; the result has type `to`. `None` if the
/// intrinsic does not exist for that type.
pub(super) fn pure(intrinsic: Intrinsic, args: Vec<Code>, from: DataType, to: DataType) -> Option<Code> {
    if intrinsic == Intrinsic::Reinterpret {
        return Some(reinterpret(args.into_iter().next()?, from, to));
    }
    let (mut ints, mut floats) = (Vec::new(), Vec::new());
    for arg in args {
        match arg {
            Code::Int(f) => ints.push(f),
            Code::Float(f) => floats.push(f),
        }
    }
    let (mut ints, mut floats) = (ints.into_iter(), floats.into_iter());
    if intrinsic == Intrinsic::Dot2 {
        let (a, b, c) = (ints.next()?, ints.next()?, floats.next()?);
        return Some(Code::Float(Box::new(move |m| {
            Ok(dot2(a(m)? as u32, b(m)? as u32, c(m)? as f32).into())
        })));
    }
    if intrinsic == Intrinsic::Ldexp {
        let (x, n) = (floats.next()?, ints.next()?);
        let scaled: FloatFn = Box::new(move |m| Ok(libm::ldexp(x(m)?, n(m)? as i32)));
        return Some(Code::Float(rounded(scaled, to)));
    }
    if let Some(x) = floats.next() {
        return float(intrinsic, x, floats, from);
    }
    int(intrinsic, ints.next()?, ints, from)
}

fn float(
    intrinsic: Intrinsic,
    x: FloatFn,
    mut rest: impl Iterator<Item = FloatFn>,
    dtype: DataType,
) -> Option<Code> {
    let res: FloatFn = match intrinsic {
        Intrinsic::IsNan => return Some(Code::Int(Box::new(move |m| Ok(x(m)?.is_nan() as i64)))),
        Intrinsic::IsInf => return Some(Code::Int(Box::new(move |m| Ok(x(m)?.is_infinite() as i64)))),
        Intrinsic::Pow => binary(x, rest.next()?, f64::powf),
        Intrinsic::Atan2 => binary(x, rest.next()?, f64::atan2),
        Intrinsic::Copysign => binary(x, rest.next()?, f64::copysign),
        // The root is rounded to the type before the division, as in `1.0 / x.sqrt()`.
        Intrinsic::Rsqrt => Box::new(move |m| Ok(1.0 / round_to(x(m)?.sqrt(), dtype))),
        Intrinsic::FMulAdd => {
            let (y, z) = (rest.next()?, rest.next()?);
            Box::new(move |m| Ok(round_to(x(m)? * y(m)?, dtype) + z(m)?))
        }
        Intrinsic::Fma => {
            let (y, z) = (rest.next()?, rest.next()?);
            if dtype == DataType::F32 {
                Box::new(move |m| Ok(f64::from((x(m)? as f32).mul_add(y(m)? as f32, z(m)? as f32))))
            } else {
                Box::new(move |m| Ok(x(m)?.mul_add(y(m)?, z(m)?)))
            }
        }
        _ => {
            let f = float_unary(intrinsic)?;
            Box::new(move |m| Ok(f(x(m)?)))
        }
    };
    Some(Code::Float(rounded(res, dtype)))
}

fn binary(x: FloatFn, y: FloatFn, f: fn(f64, f64) -> f64) -> FloatFn {
    Box::new(move |m: &mut Machine<'_>| {
        let x = x(m)?;
        Ok(f(x, y(m)?))
    })
}

fn int(
    intrinsic: Intrinsic,
    x: IntFn,
    mut rest: impl Iterator<Item = IntFn>,
    dtype: DataType,
) -> Option<Code> {
    let bits = u32::from(dtype.bits());
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    Some(Code::Int(match intrinsic {
        Intrinsic::Abs if dtype.is_int() => Box::new(move |m| Ok(wrap_int(i128::from(x(m)?).abs(), dtype))),
        Intrinsic::Abs
        | Intrinsic::Floor
        | Intrinsic::Ceil
        | Intrinsic::Trunc
        | Intrinsic::Round
        | Intrinsic::Likely
        | Intrinsic::AsyncCopy => x,
        Intrinsic::IsNan | Intrinsic::IsInf => Box::new(move |m| x(m).map(|_| 0)),
        Intrinsic::PopCount => Box::new(move |m| Ok(i64::from((x(m)? as u64 & mask).count_ones()))),
        Intrinsic::Clz => Box::new(move |m| Ok(i64::from((x(m)? as u64 & mask).leading_zeros() + bits - 64))),
        Intrinsic::BitNot if dtype.is_bool() => Box::new(move |m| Ok(1 - x(m)?)),
        Intrinsic::BitNot => Box::new(move |m| Ok(wrap_int(i128::from(!x(m)?), dtype))),
        Intrinsic::Dot4 => {
            let (y, z) = (rest.next()?, rest.next()?);
            Box::new(move |m| Ok(i64::from(dot4(x(m)? as i32, y(m)? as i32, z(m)? as i32))))
        }
        Intrinsic::Pow => {
            let y = rest.next()?;
            Box::new(move |m| {
                let (base, exponent) = (x(m)?, y(m)?);
                Ok(wrap_int(i128::from(int_pow(base, exponent)), dtype))
            })
        }
        _ => return None,
    }))
}

/// `c` plus the products of the upper halves of `a` and `b`, and of the lower ones, all of them `bf16`.
fn dot2(a: u32, b: u32, c: f32) -> f32 {
    let [upper, lower] = [|it: u32| f32::from_bits(it & 0xffff_0000), |it: u32| f32::from_bits(it << 16)];
    lower(a).mul_add(lower(b), upper(a).mul_add(upper(b), c))
}

/// `c` plus the products of the unsigned bytes of `a` and the signed bytes of `b`, wrapping.
fn dot4(a: i32, b: i32, c: i32) -> i32 {
    let terms = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    terms.fold(c, |sum, (x, y)| sum.wrapping_add(i32::from(x) * i32::from(y as i8)))
}

/// `base` to the power `exponent`, wrapping. For a negative exponent the result truncates toward zero; base 0 gives 0.
fn int_pow(mut base: i64, mut exponent: i64) -> i64 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => 1 - 2 * (exponent & 1),
            _ => 0,
        };
    }
    let mut res = 1i64;
    while exponent > 0 {
        if exponent & 1 == 1 {
            res = res.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    res
}

/// The bits of `code`, of type `from`, as a value of type `to` of the same width.
fn reinterpret(code: Code, from: DataType, to: DataType) -> Code {
    let bits: IntFn = match code {
        Code::Int(f) => f,
        Code::Float(f) => Box::new(move |m| {
            let x = f(m)?;
            Ok(match (from.code(), from.bits()) {
                (DTypeCode::BFloat, _) => i64::from(to_bf16(x).to_bits()),
                (_, 16) => i64::from(to_f16(x).to_bits()),
                (_, 32) => i64::from((x as f32).to_bits()),
                _ => x.to_bits() as i64,
            })
        }),
    };
    if !to.is_float() {
        return Code::Int(Box::new(move |m| Ok(wrap_int(i128::from(bits(m)?), to))));
    }
    Code::Float(Box::new(move |m| {
        let x = bits(m)?;
        Ok(match (to.code(), to.bits()) {
            (DTypeCode::BFloat, _) => half::bf16::from_bits(x as u16).to_f64(),
            (_, 16) => half::f16::from_bits(x as u16).to_f64(),
            (_, 32) => f64::from(f32::from_bits(x as u32)),
            _ => f64::from_bits(x as u64),
        })
    }))
}
