//! Values as data sets store them: tensors, sequences, optional values.
//!
//! Each is serialised as a message of its own (`TensorProto`, `SequenceProto`, `OptionalProto`); which one follows from the
//! declared type.

use prost::Message;
use tvm_runtime::Tensor;

use crate::error::OnnxError;
use crate::proto::{OptionalProto, SequenceProto, TensorProto, TypeProto};
use crate::tensor::{decode_any, read_tensor};

/// A value of a data set.
#[derive(Clone, Debug)]
pub enum DataValue {
    /// A tensor; strings as [`encode_strings`](crate::encode_strings) gives them.
    Tensor(Tensor),
    /// A sequence.
    Sequence(Vec<DataValue>),
    /// An optional value that is empty.
    Absent,
}

impl DataValue {
    /// Reads a serialised value of type `ty`.
    ///
    /// # Errors
    /// When the bytes are not such a value, or when an element type is not supported.
    pub fn read(bytes: &[u8], ty: &TypeProto) -> Result<DataValue, OnnxError> {
        if ty.sequence_type.is_some() {
            let proto = SequenceProto::decode(bytes)
                .map_err(|source| OnnxError::Decode { what: "sequence", source })?;
            return sequence(&proto);
        }
        if ty.optional_type.is_none() {
            return read_tensor(bytes).map(DataValue::Tensor);
        }
        let proto = OptionalProto::decode(bytes)
            .map_err(|source| OnnxError::Decode { what: "optional value", source })?;
        match (proto.elem_type, &proto.tensor_value, &proto.sequence_value) {
            (TENSOR, Some(it), _) => tensor(it),
            (SEQUENCE, _, Some(it)) => sequence(it),
            (0 | TENSOR | SEQUENCE, _, _) => Ok(DataValue::Absent),
            (kind, _, _) => Err(OnnxError::unsupported(format!("optional values of kind {kind}"))),
        }
    }
}

/// Numbers of the kinds of values in the format.
const TENSOR: i32 = 1;
const SEQUENCE: i32 = 3;

fn tensor(proto: &TensorProto) -> Result<DataValue, OnnxError> {
    decode_any(proto).map(DataValue::Tensor)
}

fn sequence(proto: &SequenceProto) -> Result<DataValue, OnnxError> {
    let elements: Result<_, _> = match proto.elem_type {
        0 | TENSOR => proto.tensor_values.iter().map(tensor).collect(),
        SEQUENCE => proto.sequence_values.iter().map(sequence).collect(),
        kind => Err(OnnxError::unsupported(format!("sequences of kind {kind}"))),
    };
    Ok(DataValue::Sequence(elements?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::ElementTypeProto;

    #[test]
    fn sequences_and_optional_values() {
        let element =
            |value: f32| TensorProto { data_type: 1, float_data: vec![value], ..TensorProto::default() };
        let sequence = SequenceProto {
            elem_type: TENSOR,
            tensor_values: vec![element(1.0), element(2.0)],
            ..SequenceProto::default()
        };
        let of = Some(Box::new(ElementTypeProto::default()));
        let ty = TypeProto { sequence_type: of.clone(), ..TypeProto::default() };
        let value = DataValue::read(&sequence.encode_to_vec(), &ty).unwrap();
        let DataValue::Sequence(elements) = value else { panic!("{value:?}") };
        let [DataValue::Tensor(_), DataValue::Tensor(second)] = &elements[..] else { panic!("{elements:?}") };
        assert_eq!(second.as_slice::<f32>().unwrap(), [2.0]);

        let ty = TypeProto { optional_type: of, ..TypeProto::default() };
        let present =
            OptionalProto { elem_type: SEQUENCE, sequence_value: Some(sequence), ..OptionalProto::default() };
        assert!(matches!(DataValue::read(&present.encode_to_vec(), &ty), Ok(DataValue::Sequence(_))));
        assert!(matches!(DataValue::read(&[], &ty), Ok(DataValue::Absent)));
        let map = OptionalProto { elem_type: 4, ..OptionalProto::default() };
        assert!(DataValue::read(&map.encode_to_vec(), &ty).is_err());
        assert!(DataValue::read(b"\xff", &ty).is_err());
    }
}
