//! Tensors read from files, and generated tensors.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use tvm_onnx::{read_npy, read_tensor};
use tvm_runtime::{DataType, Tensor};

use crate::error::Error;
use crate::{npz, out};

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

/// True for `-`, which stands for standard input or output.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// How a path from which something is read is called in messages.
pub(crate) fn show(path: &Path) -> String {
    if is_standard(path) { "standard input".to_string() } else { path.display().to_string() }
}

/// The content of a file, or what comes from standard input, which can be read once.
pub(crate) fn bytes(path: &Path) -> Result<Vec<u8>, Error> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if !is_standard(path) {
        return fs::read(path).map_err(Error::io(path));
    }
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Err(Error::usage("`-` is given twice, but standard input can be read only once"));
    }
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes).map_err(Error::io(path))?;
    Ok(bytes)
}

/// Content of a file of tensors.
pub(crate) enum Tensors {
    /// The tensor of a `.npy` or `.pb` file.
    One(Tensor),
    /// Names and arrays of a `.npz` file.
    Named(Vec<(String, Tensor)>),
}

/// Reads a `.npy`, `.npz` or `.pb` file, or one of them from standard input.
pub(crate) fn read_any(path: &Path) -> Result<Tensors, Error> {
    let bytes = bytes(path)?;
    let ends = |it: &str| path.extension().is_some_and(|extension| extension == it);
    if npz::is_npz(&bytes) || ends("npz") {
        return Ok(Tensors::Named(npz::read(&bytes).map_err(Error::file(path))?));
    }
    let is_npy = ends("npy") || bytes.starts_with(b"\x93NUMPY");
    let read = if is_npy { read_npy(&bytes) } else { read_tensor(&bytes) };
    Ok(Tensors::One(read.map_err(Error::file(path))?))
}

/// Reads a tensor from a `.npy` or `.pb` file, or from a `.npz` file of one array.
pub(crate) fn read(path: &Path) -> Result<Tensor, Error> {
    match read_any(path)? {
        Tensors::One(tensor) => Ok(tensor),
        Tensors::Named(mut arrays) if arrays.len() == 1 => Ok(arrays.remove(0).1),
        Tensors::Named(arrays) => {
            let message = format!("{} holds {} arrays, expected one", show(path), arrays.len());
            Err(Error::failed(message))
        }
    }
}

/// Checks that a file can be written at `path`, before work is done for it.
pub(crate) fn check_output(path: &Path) -> Result<(), Error> {
    if is_standard(path) {
        return Ok(());
    }
    let shown = path.display();
    if path.is_dir() {
        return Err(Error::failed(format!("{shown} is a directory, expected a file to write")));
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Error::failed(format!("{shown}: there is no directory {}", folder.display())));
    }
    let new = !path.exists();
    let opened = fs::File::options().append(true).create(true).open(path).map_err(Error::io(path));
    if new && opened.is_ok() {
        fs::remove_file(path).map_err(Error::io(path))?;
    }
    opened.map(drop)
}

/// Checks that files can be written into the directory `path`, which is made if there is none.
pub(crate) fn check_output_dir(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::io(path))
}

/// Writes bytes to a file, or to standard output.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if is_standard(path) {
        out::raw(bytes);
        return Ok(());
    }
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
