//! //! Conversion of tensors from and to ONNX `TensorProto`.

use half::{bf16, f16};
use prost::Message;
use tvm_core::ir::Span;
use tvm_runtime::{DataType, Element, Tensor, byte_size};

use crate::error::OnnxError;
use crate::external::ExternalData;
use crate::names::show;
use crate::narrow::Narrow;
use crate::proto::{ElemType, TensorProto};
use crate::strings::encode_strings;

/// Default for the largest tensor that is read, in bytes (2 GiB).
pub const MAX_TENSOR_BYTES: u64 = 2 << 30;

/// Element types with their numbers in the ONNX format.
const ELEM_TYPES: &[(ElemType, DataType)] = &[
    (ElemType::Float, DataType::F32),
    (ElemType::Double, DataType::F64),
    (ElemType::Float16, DataType::F16),
    (ElemType::Bfloat16, DataType::BF16),
    (ElemType::Int8, DataType::I8),
    (ElemType::Int16, DataType::I16),
    (ElemType::Int32, DataType::I32),
    (ElemType::Int64, DataType::I64),
    (ElemType::Uint8, DataType::U8),
    (ElemType::Uint16, DataType::U16),
    (ElemType::Uint32, DataType::U32),
    (ElemType::Uint64, DataType::U64),
    (ElemType::Bool, DataType::BOOL),
];

/// Converts the ONNX element type number `elem` to a data type.
///
/// # Errors
/// When the number is not an element type, or is one that is not supported (strings, complex, 8-bit floats, …).
pub fn dtype_from_onnx(elem: i64) -> Result<DataType, OnnxError> {
    let known = i32::try_from(elem).ok().and_then(|elem| ElemType::try_from(elem).ok());
    let Some(known) = known.filter(|&it| it != ElemType::Undefined) else {
        return Err(OnnxError::malformed(format!("{elem} is not an element type")));
    };
    let found = ELEM_TYPES.iter().find(|(elem, _)| *elem == known).map(|&(_, dtype)| dtype);
    found.ok_or_else(|| {
        OnnxError::unsupported(format!("element type {known:?}"))
            .help("supported: f32 f64 f16 bf16 i8 i16 i32 i64 u8 u16 u32 u64 bool")
    })
}

/// Converts the ONNX element type number `elem` to the data type that stores an element; for a narrow type, also
/// returns that type.
pub(crate) fn element_from_onnx(elem: i64) -> Result<(DataType, Option<Narrow>), OnnxError> {
    match Narrow::from_onnx(elem) {
        Some(narrow) => Ok((narrow.storage(), Some(narrow))),
        None => Ok((dtype_from_onnx(elem)?, None)),
    }
}

/// The element type number of `dtype`; `None` for handles and vectors.
pub fn dtype_to_onnx(dtype: DataType) -> Option<i32> {
    ELEM_TYPES.iter().find(|(_, it)| *it == dtype).map(|&(elem, _)| elem as i32)
}

/// Reads a serialised `TensorProto`, the form in which ONNX backend tests store their data sets. Strings are read as
/// [`encode_strings`] gives them.
///
/// # Errors
/// When the bytes are not a tensor, or when the element type is not supported.
pub fn read_tensor(bytes: &[u8]) -> Result<Tensor, OnnxError> {
    let proto = TensorProto::decode(bytes).map_err(|source| OnnxError::Decode { what: "tensor", source })?;
    decode_any(&proto)
}

/// Converts a `TensorProto` without external data, also one of strings.
pub(crate) fn decode_any(proto: &TensorProto) -> Result<Tensor, OnnxError> {
    match decode_text(proto, MAX_TENSOR_BYTES)? {
        Some(strings) => Ok(strings),
        None => decode_tensor(proto, &ExternalData::none(), MAX_TENSOR_BYTES),
    }
}

/// Serialises a tensor under `name`.
///
/// # Errors
/// When the tensor is not on the host or its type has no ONNX form.
pub fn write_tensor(tensor: &Tensor, name: &str) -> Result<Vec<u8>, OnnxError> {
    let data_type = dtype_to_onnx(tensor.dtype())
        .ok_or_else(|| OnnxError::unsupported(format!("element type {}", tensor.dtype())))?;
    let proto = TensorProto {
        dims: tensor.shape().to_vec(),
        data_type,
        name: name.to_string(),
        raw_data: tensor.bytes()?.to_vec().into(),
        ..TensorProto::default()
    };
    Ok(proto.encode_to_vec())
}

/// Converts a `TensorProto` to a tensor. Sizes are checked before memory is allocated.
pub(crate) fn decode_tensor(
    proto: &TensorProto,
    external: &ExternalData,
    limit: u64,
) -> Result<Tensor, OnnxError> {
    let place = || format!("tensor `{}`", show(&proto.name));
    decode(proto, external, limit).map_err(|err| err.at(&place()))
}

/// Converts a `TensorProto` of strings to their bytes, along one more axis at the end; `None` for other tensors.
pub(crate) fn decode_text(proto: &TensorProto, limit: u64) -> Result<Option<Tensor>, OnnxError> {
    if proto.data_type != ElemType::String as i32 {
        return Ok(None);
    }
    let place = || format!("tensor `{}`", show(&proto.name));
    let dims = &proto.dims[..];
    let strings = &proto.string_data;
    let decode = || {
        let count = byte_size(dims, DataType::U8).filter(|_| dims.len() < MAX_RANK);
        let count =
            count.ok_or_else(|| OnnxError::malformed(format!("{} is not a shape", show_dims(dims))))?;
        if count != strings.len() {
            let message = format!("shape {} has {count} strings, got {}", show_dims(dims), strings.len());
            return Err(OnnxError::malformed(message));
        }
        let width = strings.iter().map(|it| it.len()).max().unwrap_or(0).max(1);
        let bytes = count as u128 * width as u128;
        if bytes > limit.into() {
            let what = format!("strings of shape {}", show_dims(dims));
            return Err(OnnxError::TooLarge { what, bytes, limit, place: Span::none() });
        }
        encode_strings(strings, dims)
    };
    decode().map(Some).map_err(|err| err.at(&place()))
}

fn decode(proto: &TensorProto, external: &ExternalData, limit: u64) -> Result<Tensor, OnnxError> {
    let (dtype, narrow) = element_from_onnx(proto.data_type.into())?;
    if proto.segment.is_some() {
        return Err(OnnxError::unsupported("tensors in segments"));
    }
    let dims = &proto.dims[..];
    let Some(size) = byte_size(dims, dtype).filter(|_| dims.len() <= MAX_RANK) else {
        return Err(OnnxError::malformed(format!("{} is not a shape", show_dims(dims))));
    };
    if size as u64 > limit {
        let what = format!("a tensor of shape {}", show_dims(dims));
        return Err(OnnxError::TooLarge { what, bytes: size as u128, limit, place: Span::none() });
    }
    if let Some(narrow) = narrow {
        return decode_narrow(proto, external, narrow, size);
    }
    if proto.data_location != 0 {
        let data = external.find(proto, size)?;
        let mut tensor = Tensor::zeros(dims, dtype)?;
        data.read(tensor.bytes_mut()?)?;
        if dtype.is_bool() && tensor.bytes()?.iter().any(|&byte| byte > 1) {
            return Err(OnnxError::malformed("a bool is neither 0 nor 1"));
        }
        return Ok(tensor);
    }
    if !proto.raw_data.is_empty() {
        let got = proto.raw_data.len();
        if got != size {
            let message = format!("shape {} of {dtype} takes {size} bytes, got {got}", show_dims(dims));
            return Err(OnnxError::malformed(message));
        }
        return Ok(Tensor::from_bytes(&proto.raw_data, dims, dtype)?);
    }
    typed_data(proto, dtype, size / dtype.bytes().max(1))
}

/// Decodes a tensor of `n` narrow elements.
fn decode_narrow(
    proto: &TensorProto,
    external: &ExternalData,
    narrow: Narrow,
    n: usize,
) -> Result<Tensor, OnnxError> {
    if proto.data_location != 0 {
        let size = n.div_ceil(8 / narrow.bits as usize);
        let data = external.find(proto, size)?;
        let mut bytes = vec![0; size];
        data.read(&mut bytes)?;
        return narrow.unpack(proto, &bytes, n);
    }
    if !proto.raw_data.is_empty() {
        return narrow.unpack(proto, &proto.raw_data, n);
    }
    let byte = |&it: &i32| u8::try_from(it & 0xff).ok();
    let bytes: Option<Vec<u8>> = proto.int32_data.iter().map(byte).collect();
    narrow.unpack(proto, &bytes.unwrap_or_default(), n)
}

/// Largest rank of a tensor.
pub(crate) const MAX_RANK: usize = 64;

pub(crate) fn show_dims(dims: &[i64]) -> String {
    const SHOWN: usize = 16;
    let mut text = dims.iter().take(SHOWN).map(i64::to_string).collect::<Vec<_>>().join(", ");
    if dims.len() > SHOWN {
        text += &format!(", … {} extents", dims.len());
    }
    format!("[{text}]")
}

fn typed_data(proto: &TensorProto, dtype: DataType, n: usize) -> Result<Tensor, OnnxError> {
    fn from<T: Copy, E: Element>(
        proto: &TensorProto,
        data: &[T],
        n: usize,
        convert: impl Fn(T) -> Option<E>,
    ) -> Result<Tensor, OnnxError> {
        if data.len() != n {
            let (dims, got) = (show_dims(&proto.dims), data.len());
            return Err(OnnxError::malformed(format!("shape {dims} takes {n} elements, got {got}")));
        }
        let elements: Option<Vec<E>> = data.iter().map(|&it| convert(it)).collect();
        let Some(elements) = elements else {
            return Err(OnnxError::malformed(format!("an element does not fit {}", E::DTYPE)));
        };
        Ok(Tensor::from_vec(elements, &proto.dims)?)
    }
    let bits = |it: i32| u16::try_from(it).ok();
    let (narrow, wide) = (&proto.int32_data[..], &proto.uint64_data[..]);
    match dtype {
        DataType::F32 => from(proto, &proto.float_data, n, Some),
        DataType::F64 => from(proto, &proto.double_data, n, Some),
        DataType::F16 => from(proto, narrow, n, |it| bits(it).map(f16::from_bits)),
        DataType::BF16 => from(proto, narrow, n, |it| bits(it).map(bf16::from_bits)),
        DataType::I8 => from(proto, narrow, n, |it| i8::try_from(it).ok()),
        DataType::I16 => from(proto, narrow, n, |it| i16::try_from(it).ok()),
        DataType::I32 => from(proto, narrow, n, Some),
        DataType::I64 => from(proto, &proto.int64_data, n, Some),
        DataType::U8 => from(proto, narrow, n, |it| u8::try_from(it).ok()),
        DataType::U16 => from(proto, narrow, n, bits),
        DataType::U32 => from(proto, wide, n, |it| u32::try_from(it).ok()),
        DataType::U64 => from(proto, wide, n, Some),
        DataType::BOOL => from(proto, narrow, n, |it| Some(it != 0)),
        _ => Err(OnnxError::unsupported(format!("element type {dtype}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_round_trips() {
        for dtype in DataType::all() {
            for shape in [&[][..], &[0], &[2, 3]] {
                let n = byte_size(shape, dtype).unwrap();
                let bytes: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
                let tensor = Tensor::from_bytes(&bytes, shape, dtype).unwrap();
                let read = read_tensor(&write_tensor(&tensor, "x").unwrap()).unwrap();
                assert_eq!(read, tensor);
            }
        }
    }

    #[test]
    fn typed_fields() {
        let proto = |data_type: ElemType| TensorProto {
            dims: vec![2],
            data_type: data_type as i32,
            float_data: vec![1.5, -2.0],
            int32_data: vec![1, 0],
            int64_data: vec![7, -7],
            double_data: vec![0.5, 2.5],
            uint64_data: vec![3, 4],
            ..TensorProto::default()
        };
        let read = |ty| decode_tensor(&proto(ty), &ExternalData::none(), MAX_TENSOR_BYTES).unwrap();
        assert_eq!(read(ElemType::Float).to_vec::<f32>().unwrap(), [1.5, -2.0]);
        assert_eq!(read(ElemType::Bool).to_vec::<bool>().unwrap(), [true, false]);
        assert_eq!(read(ElemType::Int64).to_vec::<i64>().unwrap(), [7, -7]);
        assert_eq!(read(ElemType::Uint32).to_vec::<u32>().unwrap(), [3, 4]);
        assert_eq!(read(ElemType::Float16).to_vec::<f16>().unwrap()[0].to_bits(), 1);
    }

    #[test]
    fn sizes_are_checked() {
        let cases: &[(&[i64], usize, &str)] = &[
            (&[2], 3, "takes 8 bytes, got 3"),
            (&[-1], 4, "not a shape"),
            (&[1 << 40, 1 << 40], 4, "not a shape"),
            (&[1 << 33], 4, "the limit is"),
            (&[3], 0, "takes 3 elements, got 0"),
        ];
        for (dims, raw, want) in cases {
            let proto = TensorProto {
                dims: dims.to_vec(),
                data_type: 1,
                raw_data: vec![0; *raw].into(),
                ..TensorProto::default()
            };
            let err = decode_tensor(&proto, &ExternalData::none(), MAX_TENSOR_BYTES).unwrap_err().to_string();
            assert!(err.contains(want), "{err}");
        }
    }
}
