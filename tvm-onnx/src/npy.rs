//! Reading and writing of NumPy's `.npy` files, versions 1 to 3.

use std::borrow::Cow;

use tvm_runtime::{DataType, Tensor, byte_size};

use crate::error::OnnxError;
use crate::strings::encode_strings;
use crate::tensor::MAX_TENSOR_BYTES;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Element types and their codes in the file. NumPy has no bfloat16.
const DESCRS: &[(&str, DataType)] = &[
    ("<f4", DataType::F32),
    ("<f8", DataType::F64),
    ("<f2", DataType::F16),
    ("|i1", DataType::I8),
    ("<i2", DataType::I16),
    ("<i4", DataType::I32),
    ("<i8", DataType::I64),
    ("|u1", DataType::U8),
    ("<u2", DataType::U16),
    ("<u4", DataType::U32),
    ("<u8", DataType::U64),
    ("|b1", DataType::BOOL),
];

/// Reads the bytes of a `.npy` file, with the elements in either order (C or Fortran). Strings (`S`, `U`) are read as [`encode_strings`] gives them.
///
/// # Errors
/// When they are not such a file, or contain what a tensor cannot represent: another element type.
pub fn read_npy(bytes: &[u8]) -> Result<Tensor, OnnxError> {
    let err = |message: &str| OnnxError::Npy(message.to_string());
    let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| err("it does not start like one"))?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(|| err("it is cut short"))?;
    let (len, rest) = match version[0] {
        1 => rest.split_first_chunk::<2>().map(|(len, rest)| (u16::from_le_bytes(*len).into(), rest)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(len, rest)| (u32::from_le_bytes(*len), rest)),
        _ => return Err(err("its version is unknown")),
    }
    .ok_or_else(|| err("it is cut short"))?;
    let (header, data) = rest.split_at_checked(len as usize).ok_or_else(|| err("it is cut short"))?;
    let header = std::str::from_utf8(header).map_err(|_| err("its header is not text"))?;
    let descr = field(header, "descr").and_then(|it| it.split(['\'', '"']).nth(1));
    let descr = descr.ok_or_else(|| err("its header has no element type"))?;
    let text = text_type(descr);
    let found = DESCRS.iter().find(|(code, _)| code[1..] == descr[1.min(descr.len())..]);
    let dtype = match (found, descr.as_bytes().first()) {
        _ if text.is_some() => DataType::U8,
        (Some(&(code, dtype)), Some(order)) if *order != b'>' || code.starts_with('|') => dtype,
        _ => {
            return Err(OnnxError::unsupported(format!("element type `{}`", crate::names::show(descr)))
                .help("supported: little-endian numbers and bool"));
        }
    };
    let fortran = field(header, "fortran_order").is_some_and(|it| it.trim_start().starts_with("True"));
    let shape = field(header, "shape").and_then(|it| it.split(['(', ')']).nth(1));
    let shape = shape.ok_or_else(|| err("its header has no shape"))?;
    let extents = shape.split(',').map(str::trim).filter(|it| !it.is_empty()).map(str::parse::<i64>);
    let shape = extents.collect::<Result<Vec<_>, _>>().map_err(|_| err("its shape is not numbers"))?;
    let in_range = |shape: &[i64]| {
        let size = byte_size(shape, dtype).filter(|&it| it as u64 <= MAX_TENSOR_BYTES);
        size.ok_or_else(|| err("its shape is out of range"))
    };
    let mut size = in_range(&shape)?;
    let mut pitch = dtype.bytes();
    if let Some((width, bytes)) = text {
        size = in_range(&[&shape[..], &[width, bytes]].concat())?;
        pitch = (width * bytes) as usize;
    }
    let data = data.get(..size).ok_or_else(|| err("it has too little data"))?;
    let data = if fortran { Cow::Owned(row_major(data, &shape, pitch)) } else { Cow::Borrowed(data) };
    match text {
        Some((_, bytes)) => strings(&data, &shape, pitch, bytes == 4),
        None => Ok(Tensor::from_bytes(&data, &shape, dtype)?),
    }
}

/// Elements of `size` bytes each, whose first index varies fastest, in the order in which the last index does.
fn row_major(data: &[u8], shape: &[i64], size: usize) -> Vec<u8> {
    let mut axes: Vec<(usize, usize, usize)> = Vec::new(); // extent, stride, index
    let mut count = 1usize;
    for &extent in shape {
        axes.push((extent as usize, count, 0));
        count = count.wrapping_mul(extent as usize);
    }
    let (mut res, mut at) = (Vec::with_capacity(data.len()), 0);
    for _ in 0..count {
        res.extend_from_slice(&data[at * size..][..size]);
        for (extent, stride, index) in axes.iter_mut().rev() {
            *index += 1;
            at += *stride;
            if index < extent {
                break;
            }
            at -= *stride * *index;
            *index = 0;
        }
    }
    res
}

/// Number of characters of a type of strings, and bytes of a character.
fn text_type(descr: &str) -> Option<(i64, i64)> {
    let (bytes, digits) = match descr.strip_prefix(['<', '|', '=']).unwrap_or(descr).split_at_checked(1)? {
        ("S", digits) => (1, digits),
        ("U", digits) => (4, digits),
        _ => return None,
    };
    digits.parse::<u32>().ok().map(|width| (width.into(), bytes))
}

/// Strings of `pitch` bytes each, of which those at the end that are zero do not count.
fn strings(data: &[u8], shape: &[i64], pitch: usize, wide: bool) -> Result<Tensor, OnnxError> {
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
    let text = |i: usize| {
        let bytes = &data[i * pitch..(i + 1) * pitch];
        if !wide {
            let end = bytes.iter().rposition(|it| *it != 0).map_or(0, |last| last + 1);
            return Ok(bytes[..end].to_vec());
        }
        let chars = bytes.chunks_exact(4).map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]));
        let text: Option<String> = chars.map(char::from_u32).collect();
        let text = text.ok_or_else(|| OnnxError::Npy("a string has what is no character".into()))?;
        Ok(text.trim_end_matches('\0').as_bytes().to_vec())
    };
    let texts: Vec<Vec<u8>> = (0..count).map(text).collect::<Result<_, OnnxError>>()?;
    encode_strings(&texts, shape)
}

/// The text after `'name':` in the header.
fn field<'h>(header: &'h str, name: &str) -> Option<&'h str> {
    let at = header.find(&format!("'{name}'")).or_else(|| header.find(&format!("\"{name}\"")))?;
    header[at + name.len() + 2..].split_once(':').map(|(_, rest)| rest)
}

/// Writes a tensor in the `.npy` format; a bfloat16 tensor is written as `f32`.
///
/// # Errors
/// When the tensor is not on the host.
pub fn write_npy(tensor: &Tensor) -> Result<Vec<u8>, OnnxError> {
    let widened = (tensor.dtype() == DataType::BF16).then(|| -> Result<Tensor, OnnxError> {
        let values = tensor.as_slice::<half::bf16>()?.iter().map(|it| it.to_f32()).collect();
        Ok(Tensor::from_vec(values, tensor.shape())?)
    });
    let widened = widened.transpose()?;
    let tensor = widened.as_ref().unwrap_or(tensor);
    let descr = DESCRS.iter().find(|(_, dtype)| *dtype == tensor.dtype()).map(|(code, _)| *code);
    let descr = descr.ok_or_else(|| OnnxError::unsupported(format!("element type {}", tensor.dtype())))?;
    Ok(file(descr, tensor.shape(), tensor.bytes()?))
}

/// Writes strings in the `.npy` format, given as [`encode_strings`] makes them: NumPy's type `S`.
///
/// # Errors
/// When the tensor has another type, no axis, or is not on the host.
pub fn write_npy_strings(tensor: &Tensor) -> Result<Vec<u8>, OnnxError> {
    let bytes = tensor.as_slice::<u8>()?;
    let Some((width, shape)) = tensor.shape().split_last() else {
        return Err(OnnxError::Npy("strings have an axis for their bytes".into()));
    };
    Ok(file(&format!("|S{width}"), shape, bytes))
}

fn file(descr: &str, shape: &[i64], data: &[u8]) -> Vec<u8> {
    let shape: String = shape.iter().map(|it| format!("{it},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let unpadded = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let mut bytes = [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes()].concat();
    bytes.extend_from_slice(data);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips() {
        for dtype in DataType::all().filter(|&it| it != DataType::BF16) {
            for shape in [&[][..], &[0], &[7], &[2, 3]] {
                let n = byte_size(shape, dtype).unwrap();
                let bytes: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
                let tensor = Tensor::from_bytes(&bytes, shape, dtype).unwrap();
                let file = write_npy(&tensor).unwrap();
                assert_eq!((file.len() - n) % 64, 0);
                assert_eq!(read_npy(&file).unwrap(), tensor);
                for cut in 0..file.len() {
                    assert!(read_npy(&file[..cut]).is_err(), "{cut}");
                }
            }
        }
    }

    #[test]
    fn strings_round_trip() {
        let texts = encode_strings(&["red", "", "grün"], &[3, 1]).unwrap();
        let bytes = write_npy_strings(&texts).unwrap();
        assert_eq!(read_npy(&bytes).unwrap(), texts);
        let wide: Vec<u8> =
            ['a', '\0', 'ü', 'x'].iter().flat_map(|&it| u32::from(it).to_le_bytes()).collect();
        let read = read_npy(&file("<U2", &[2], &wide)).unwrap();
        assert_eq!(read, encode_strings(&["a", "üx"], &[2]).unwrap());
        assert!(read_npy(&file("<U2", &[2], &[0xff; 16])).is_err());
        assert!(read_npy(&file("|S9", &[1 << 40, 1 << 40], &[])).is_err());
        assert!(read_npy(&file("|S9", &[2], &[0; 17])).is_err());
        assert!(read_npy(&file("|S0", &[1 << 40], &[])).is_err());
    }

    #[test]
    fn fortran_order_is_read() {
        let fortran = |file: Vec<u8>| {
            let at = file.windows(7).position(|it| it == b" False,").unwrap();
            [&file[..at], b" True, ", &file[at + 7..]].concat()
        };
        // numpy.arange(6, dtype=numpy.int16).reshape(1, 2, 3)
        let values: Vec<u8> = [0i16, 3, 1, 4, 2, 5].iter().flat_map(|it| it.to_le_bytes()).collect();
        let read = read_npy(&fortran(file("<i2", &[1, 2, 3], &values))).unwrap();
        assert_eq!(read, Tensor::from_slice(&[0i16, 1, 2, 3, 4, 5], &[1, 2, 3]).unwrap());
        let read = read_npy(&fortran(file("|S2", &[2, 2], b"a c b\0dd"))).unwrap();
        assert_eq!(read, encode_strings(&["a ", "b", "c ", "dd"], &[2, 2]).unwrap());
        for (shape, data) in [(&[][..], &[7u8][..]), (&[0, 3], &[]), (&[3, 0], &[]), (&[3], &[1, 2, 3])] {
            let read = read_npy(&fortran(file("|u1", shape, data))).unwrap();
            assert_eq!(read, Tensor::from_slice(data, shape).unwrap());
        }
        assert!(read_npy(&fortran(file("<i2", &[1, 2, 3], &values[..11]))).is_err());
    }

    #[test]
    fn damaged_files_are_refused() {
        let tensor = Tensor::from_vec(vec![1f32, 2.0], &[2]).unwrap();
        let good = String::from_utf8_lossy(&write_npy(&tensor).unwrap()[10..]).into_owned();
        let file = |header: &str| {
            let len = (header.len() as u16).to_le_bytes();
            [MAGIC, &[1, 0], &len, header.as_bytes(), &[0; 8]].concat()
        };
        let header = good.split_once('\n').unwrap().0;
        assert!(read_npy(&file(header)).is_ok());
        for (from, to) in [
            ("<f4", ">f4"),
            ("<f4", "<c8"),
            ("<f4", ""),
            ("(2,)", "(3,)"),
            ("(2,)", "(-2,)"),
            ("(2,)", "(x,)"),
            ("(2,)", "(9223372036854775807,9)"),
            ("shape", "shap"),
            ("descr", "desc"),
        ] {
            assert!(read_npy(&file(&header.replace(from, to))).is_err(), "{from} {to}");
        }
    }
}
