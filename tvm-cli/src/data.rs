//! Tensors in files, and tensors made up.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use half::{bf16, f16};
use tvm_onnx::{read_npy, read_tensor};
use tvm_runtime::{DataType, Tensor};

use crate::error::Error;

/// What a made-up input holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fill {
    /// 0 everywhere.
    Zeros,
    /// 1 everywhere.
    Ones,
    /// Element `i` of `n` is `i / n` (integers: 0).
    Arange,
    /// Uniform in 0..1 (integers: 0 or 1), the same in every run.
    Random,
}

/// Reads a tensor from a `.npy` or `.pb` file.
pub(crate) fn read(path: &Path) -> Result<Tensor, Error> {
    let bytes = fs::read(path).map_err(Error::io(path))?;
    let is_npy = path.extension().is_some_and(|it| it == "npy") || bytes.starts_with(b"\x93NUMPY");
    Ok(if is_npy { read_npy(&bytes)? } else { read_tensor(&bytes)? })
}

/// Writes bytes to a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(Error::io(path))
}

/// The files `<stem>_0`, `<stem>_1`, … of `dir`, each `.pb` or `.npy`.
pub(crate) fn numbered(dir: &Path, stem: &str) -> Vec<PathBuf> {
    let file = |i: usize| {
        let candidates = ["pb", "npy"].map(|ext| dir.join(format!("{stem}_{i}.{ext}")));
        candidates.into_iter().find(|path| path.is_file())
    };
    (0..).map_while(file).collect()
}

/// A tensor of this shape, filled.
pub(crate) fn filled(fill: Fill, shape: &[i64], dtype: DataType) -> Result<Tensor, Error> {
    let n = Tensor::zeros(shape, dtype)?.len();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let value = |i: usize| match fill {
        Fill::Zeros => 0.0,
        Fill::Ones => 1.0,
        Fill::Arange => i as f64 / n as f64,
        Fill::Random if dtype.is_float() => random(),
        Fill::Random => random().round(),
    };
    let values: Vec<f64> = (0..n).map(value).collect();
    cast(&values, shape, dtype)
}

fn cast(values: &[f64], shape: &[i64], dtype: DataType) -> Result<Tensor, Error> {
    macro_rules! cast {
        ($($name:ident |$it:ident| $expr:expr;)*) => {
            match dtype {
                $(DataType::$name => Tensor::from_vec(values.iter().map(|&$it| $expr).collect(), shape)?,)*
                _ => return Err(Error::usage(format!("no values of type {dtype} can be made up"))),
            }
        };
    }
    Ok(cast! {
        F32 |it| it as f32;
        F64 |it| it;
        F16 |it| f16::from_f64(it);
        BF16 |it| bf16::from_f64(it);
        I8 |it| it as i8;
        I16 |it| it as i16;
        I32 |it| it as i32;
        I64 |it| it as i64;
        U8 |it| it as u8;
        U16 |it| it as u16;
        U32 |it| it as u32;
        U64 |it| it as u64;
        BOOL |it| it != 0.0;
    })
}

/// The elements as `f64`; large integers are rounded.
pub(crate) fn to_f64(tensor: &Tensor) -> Result<Vec<f64>, Error> {
    macro_rules! all {
        ($($name:ident $ty:ty, |$it:ident| $expr:expr;)*) => {
            match tensor.dtype() {
                $(DataType::$name => tensor.as_slice::<$ty>()?.iter().map(|&$it| $expr).collect(),)*
                other => return Err(Error::usage(format!("elements of type {other} cannot be compared"))),
            }
        };
    }
    Ok(all! {
        F32 f32, |it| it.into();
        F64 f64, |it| it;
        F16 f16, |it| it.to_f64();
        BF16 bf16, |it| it.to_f64();
        I8 i8, |it| it.into();
        I16 i16, |it| it.into();
        I32 i32, |it| it.into();
        I64 i64, |it| it as f64;
        U8 u8, |it| it.into();
        U16 u16, |it| it.into();
        U32 u32, |it| it.into();
        U64 u64, |it| it as f64;
        BOOL bool, |it| f64::from(u8::from(it));
    })
}
