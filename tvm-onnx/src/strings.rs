//! Strings as tensors of bytes: UTF-8 along one more axis at the end, filled up with zeros to the longest string, as NumPy
//! stores strings of a fixed width.

use tvm_runtime::{DataType, RuntimeError, Tensor};

use crate::error::OnnxError;

/// Strings of the given shape as a tensor of `u8` with one more axis at the end.
///
/// # Errors
/// When the number of strings is not that of the shape, or a string ends with a zero byte.
pub fn encode_strings<T: AsRef<[u8]>>(strings: &[T], shape: &[i64]) -> Result<Tensor, OnnxError> {
    let width = strings.iter().map(|it| it.as_ref().len()).max().unwrap_or(0).max(1);
    let mut bytes = vec![0; strings.len().saturating_mul(width)];
    for (place, text) in bytes.chunks_exact_mut(width).zip(strings) {
        let text = text.as_ref();
        if text.last() == Some(&0) {
            return Err(OnnxError::unsupported("strings that end with a zero byte"));
        }
        place[..text.len()].copy_from_slice(text);
    }
    Ok(Tensor::from_bytes(&bytes, &[shape, &[width as i64]].concat(), DataType::U8)?)
}

/// The strings in a tensor of `u8` whose last axis has their bytes. Bytes that are not UTF-8 are replaced.
///
/// # Errors
/// When the tensor has another type, or no axis.
pub fn decode_strings(tensor: &Tensor) -> Result<Vec<String>, OnnxError> {
    let bytes = tensor.as_slice::<u8>()?;
    let Some((&width, shape)) = tensor.shape().split_last() else {
        return Err(RuntimeError::BadData("strings have an axis for their bytes").into());
    };
    let count = usize::try_from(shape.iter().product::<i64>()).unwrap_or(0);
    let text = |i: usize| {
        let bytes = &bytes[i * width as usize..(i + 1) * width as usize];
        let end = bytes.iter().rposition(|it| *it != 0).map_or(0, |last| last + 1);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    Ok((0..count).map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_round_trip() {
        for (strings, shape) in [
            (vec!["a", "", "höher"], vec![3]),
            (vec!["x"], vec![]),
            (vec!["", ""], vec![1, 2]),
            (Vec::new(), vec![0]),
            (Vec::new(), vec![2, 0]),
        ] {
            let tensor = encode_strings(&strings, &shape).unwrap();
            assert_eq!(tensor.shape()[..shape.len()], shape);
            assert_eq!(decode_strings(&tensor).unwrap(), strings);
        }
        assert!(encode_strings(&["a\0"], &[1]).is_err());
        assert!(encode_strings(&["a"], &[2]).is_err());
        assert!(decode_strings(&Tensor::scalar(1u8)).is_err());
    }
}
