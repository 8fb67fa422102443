//! NumPy's `.npz` files: archives of `.npy` files.
//!
//! Requires nothing of the bytes: a damaged archive is an error, and no entry is read beyond the largest tensor.
//!
//! TVM counterpart: `numpy.load` and `numpy.savez` in `tvmc run`.

use std::collections::HashSet;
use std::io::{Cursor, Read, Write};

use tvm_onnx::{MAX_TENSOR_BYTES, read_npy, write_npy, write_npy_strings};
use tvm_runtime::Tensor;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::error::Error;

/// How every `.npz` file that holds an array begins.
const MAGIC: &[u8] = b"PK\x03\x04";

/// Bytes that an entry may have besides its data.
const HEADER: u64 = 1 << 20;

/// True if `bytes` begin like a `.npz` file.
pub(crate) fn is_npz(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Name and array of each entry.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<(String, Tensor)>, Error> {
    let damaged = |err: &dyn std::fmt::Display| Error::failed(format!("not a valid .npz file: {err}"));
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|err| damaged(&err))?;
    let mut arrays = Vec::new();
    for i in 0..archive.len() {
        let file = archive.by_index(i).map_err(|err| damaged(&err))?;
        let name = file.name().map_err(|err| damaged(&err))?;
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_string();
        let mut content = Vec::new();
        let limit = MAX_TENSOR_BYTES + HEADER;
        file.take(limit).read_to_end(&mut content).map_err(|err| damaged(&format!("`{name}`: {err}")))?;
        let array = read_npy(&content).map_err(|err| Error::from(err).context(&format!("`{name}`")))?;
        arrays.push((name, array));
    }
    Ok(arrays)
}

/// A `.npz` file of these arrays, of which those named in `text` are strings.
pub(crate) fn write<'a>(
    arrays: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    text: &HashSet<&str>,
) -> Result<Vec<u8>, Error> {
    let failed = |err: &dyn std::fmt::Display| Error::failed(format!("cannot write a .npz file: {err}"));
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, tensor) in arrays {
        let npy = if text.contains(name) { write_npy_strings } else { write_npy };
        let content = npy(tensor).map_err(|err| Error::from(err).context(&format!("`{name}`")))?;
        let large = content.len() as u64 > u64::from(u32::MAX) / 2;
        let options = options.large_file(large);
        archive.start_file(format!("{name}.npy"), options).map_err(|err| failed(&err))?;
        archive.write_all(&content).map_err(|err| failed(&err))?;
    }
    Ok(archive.finish().map_err(|err| failed(&err))?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_round_trip_and_damaged_archives_are_refused() {
        let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0], &[3]).unwrap();
        let b = Tensor::from_vec(vec![7i64], &[1, 1]).unwrap();
        let bytes = write([("a", &a), ("/x/b", &b)], &HashSet::new()).unwrap();
        assert!(is_npz(&bytes));
        assert_eq!(read(&bytes).unwrap(), [("a".to_string(), a), ("/x/b".to_string(), b)]);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err(), "{cut}");
        }
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 0x5a;
            let _ = read(&damaged);
        }
    }
}
