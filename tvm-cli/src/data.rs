//! Tensors read from files, and generated tensors.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use tvm_onnx::{read_npy, read_tensor};
use tvm_runtime::{DataType, Tensor};

use crate::error::Error;

/// Content of a generated input.
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

/// Generates a tensor of this shape.
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
    Ok(Tensor::from_f64s(&values, shape, dtype)?)
}
