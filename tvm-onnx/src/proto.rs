//! The messages of `onnx.proto` that the importer reads, written by hand; field numbers are those of the format.
//!
//! Fields that nothing here uses are skipped by the decoder. Nesting deeper than 100 messages is refused by it.

use prost::Message;
use prost::bytes::Bytes;

/// A model.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// Tool that wrote the model.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// Its version.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// The graph.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Operator sets that the graph uses.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Functions that nodes may call.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
}

/// A version of an operator set.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct OperatorSetIdProto {
    /// Domain; empty for the standard one.
    #[prost(string, tag = "1")]
    pub domain: String,
    /// Version.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A function of the model.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Parameters.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// Results.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// Attributes without a default.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// Attributes with a default.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// Body.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Operator sets that the body uses.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Its domain.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Which overload.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// A graph.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Operations.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Its name.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Constants in sparse form.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    /// Inputs; an initializer of the same name gives one its value.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Types of inner values.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
}

/// An operation.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the values it takes; an empty one is left out.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the values it gives; an empty one is not wanted.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Its name, for messages.
    #[prost(string, tag = "3")]
    pub name: String,
    /// The operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Domain of the operator; empty for the standard one.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Which overload of a function of the model.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// An attribute; [`ty`](AttributeProto::ty) says which field holds the value.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// One of [`AttributeType`].
    #[prost(enumeration = "AttributeType", tag = "20")]
    pub ty: i32,
    /// A float.
    #[prost(float, tag = "2")]
    pub f: f32,
    /// An integer.
    #[prost(int64, tag = "3")]
    pub i: i64,
    /// A string.
    #[prost(bytes = "bytes", tag = "4")]
    pub s: Bytes,
    /// A tensor.
    #[prost(message, optional, tag = "5")]
    pub t: Option<TensorProto>,
    /// A graph.
    #[prost(message, optional, tag = "6")]
    pub g: Option<GraphProto>,
    /// Floats.
    #[prost(float, repeated, tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, tag = "8")]
    pub ints: Vec<i64>,
    /// Strings.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    /// In the body of a function: the attribute of the function whose value this is.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
}

/// Kind of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    /// Not given.
    Undefined = 0,
    /// A float.
    Float = 1,
    /// An integer.
    Int = 2,
    /// A string.
    String = 3,
    /// A tensor.
    Tensor = 4,
    /// A graph.
    Graph = 5,
    /// Floats.
    Floats = 6,
    /// Integers.
    Ints = 7,
    /// Strings.
    Strings = 8,
    /// Tensors.
    Tensors = 9,
    /// Graphs.
    Graphs = 10,
    /// A sparse tensor.
    SparseTensor = 11,
    /// Sparse tensors.
    SparseTensors = 12,
    /// A type.
    TypeProto = 13,
    /// Types.
    TypeProtos = 14,
}

/// A tensor with its data, inline or in a file.
#[derive(Clone, PartialEq, Message)]
pub struct TensorProto {
    /// Extents.
    #[prost(int64, repeated, tag = "1")]
    pub dims: Vec<i64>,
    /// One of [`ElemType`].
    #[prost(enumeration = "ElemType", tag = "2")]
    pub data_type: i32,
    /// Part of a larger tensor; no tool writes it.
    #[prost(message, optional, tag = "3")]
    pub segment: Option<Segment>,
    /// Data of `f32` tensors (and complex pairs).
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// Data of narrow integer, bool and half-precision tensors.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// Data of string tensors.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
    /// Data of `i64` tensors.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// Its name.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Data of any type as little-endian bytes, in place of the other fields.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw_data: Bytes,
    /// Data of `f64` tensors.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Data of `u32` and `u64` tensors.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Where the data is when it is in a file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 when the data is in a file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// Element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[allow(missing_docs, reason = "the names are the types")]
pub enum ElemType {
    Undefined = 0,
    Float = 1,
    Uint8 = 2,
    Int8 = 3,
    Uint16 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Float16 = 10,
    Double = 11,
    Uint32 = 12,
    Uint64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    Bfloat16 = 16,
    Float8E4m3fn = 17,
    Float8E4m3fnuz = 18,
    Float8E5m2 = 19,
    Float8E5m2fnuz = 20,
    Uint4 = 21,
    Int4 = 22,
    Float4E2m1 = 23,
    Float8E8m0 = 24,
    Uint2 = 25,
    Int2 = 26,
}

/// Part of a larger tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Segment {
    /// First element.
    #[prost(int64, tag = "1")]
    pub begin: i64,
    /// Behind the last element.
    #[prost(int64, tag = "2")]
    pub end: i64,
}

/// A tensor in sparse form; only its presence is looked at.
#[derive(Clone, PartialEq, Message)]
pub struct SparseTensorProto {
    /// The elements that are not zero.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
}

/// A pair of strings.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct StringStringEntryProto {
    /// Key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// Name and type of a value.
#[derive(Clone, PartialEq, Message)]
pub struct ValueInfoProto {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its type.
    #[prost(message, optional, tag = "2")]
    pub ty: Option<TypeProto>,
}

/// Type of a value: at most one field is set.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
    /// A sequence; only its presence is looked at.
    #[prost(message, optional, tag = "4")]
    pub sequence_type: Option<Opaque>,
    /// A map; only its presence is looked at.
    #[prost(message, optional, tag = "5")]
    pub map_type: Option<Opaque>,
    /// A sparse tensor; only its presence is looked at.
    #[prost(message, optional, tag = "8")]
    pub sparse_tensor_type: Option<Opaque>,
    /// A value that may be absent; only its presence is looked at.
    #[prost(message, optional, tag = "9")]
    pub optional_type: Option<Opaque>,
}

/// A message whose content is not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Opaque {}

/// Element type and shape of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// One of [`ElemType`].
    #[prost(enumeration = "ElemType", tag = "1")]
    pub elem_type: i32,
    /// Extents; absent when even the rank is unknown.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// Extents.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// One per axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One extent: a number, a name, or neither when it is unknown.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct DimensionProto {
    /// The number.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}
