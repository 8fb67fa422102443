//! The messages of `onnx.proto` that the importer reads, written by hand. Field numbers are those of the format.
//!
//! The decoder skips fields that are not listed here, and rejects messages nested more than 100 deep.

use prost::Message;
use prost::bytes::Bytes;

/// An ONNX model.
#[derive(Clone, PartialEq, Message)]
pub struct ModelProto {
    /// Version of the format.
    #[prost(int64, tag = "1")]
    pub ir_version: i64,
    /// Tool that wrote the model.
    #[prost(string, tag = "2")]
    pub producer_name: String,
    /// Version of that tool.
    #[prost(string, tag = "3")]
    pub producer_version: String,
    /// The graph that the model computes.
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
    /// Version number.
    #[prost(int64, tag = "2")]
    pub version: i64,
}

/// A function that the model defines.
#[derive(Clone, PartialEq, Message)]
pub struct FunctionProto {
    /// Name of the function.
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
    /// Nodes of the body.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Operator sets that the body uses.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// Domain of the function.
    #[prost(string, tag = "10")]
    pub domain: String,
    /// Name of the overload.
    #[prost(string, tag = "13")]
    pub overload: String,
}

/// A graph of operations.
#[derive(Clone, PartialEq, Message)]
pub struct GraphProto {
    /// Operations of the graph.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// Name of the graph.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Constants and default values of inputs.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Constants in sparse form.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    /// Inputs; an initializer of the same name is the value of the input.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// Outputs.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// Types of intermediate values.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
}

/// An operation of a graph.
#[derive(Clone, PartialEq, Message)]
pub struct NodeProto {
    /// Names of the input values; an empty name marks an omitted input.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// Names of the output values; an empty name marks an unused output.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// Name of the node, for error messages.
    #[prost(string, tag = "3")]
    pub name: String,
    /// Name of the operator.
    #[prost(string, tag = "4")]
    pub op_type: String,
    /// Attributes.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Domain of the operator; empty for the standard one.
    #[prost(string, tag = "7")]
    pub domain: String,
    /// Name of the overload, for a function of the model.
    #[prost(string, tag = "8")]
    pub overload: String,
}

/// An attribute; [`ty`](AttributeProto::ty) selects the field that holds the value.
#[derive(Clone, PartialEq, Message)]
pub struct AttributeProto {
    /// Name of the attribute.
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
    /// In the body of a function: name of the function's attribute that provides the value.
    #[prost(string, tag = "21")]
    pub ref_attr_name: String,
}

/// Kind of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum AttributeType {
    /// No type was given.
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
    /// Present if the tensor is a part of a larger tensor; no known tool writes it.
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
    /// Name of the tensor.
    #[prost(string, tag = "8")]
    pub name: String,
    /// Data of any type as little-endian bytes, used instead of the other fields.
    #[prost(bytes = "bytes", tag = "9")]
    pub raw_data: Bytes,
    /// Data of `f64` tensors.
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// Data of `u32` and `u64` tensors.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Location of the data in an external file: `location`, `offset`, `length`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// 1 if the data is in an external file.
    #[prost(int32, tag = "14")]
    pub data_location: i32,
}

/// Element types of the format.
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

/// Position of a part within a larger tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Segment {
    /// Index of the first element.
    #[prost(int64, tag = "1")]
    pub begin: i64,
    /// Index after the last element.
    #[prost(int64, tag = "2")]
    pub end: i64,
}

/// A tensor in sparse form; only its presence is checked.
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
    /// Name of the value.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Type of the value.
    #[prost(message, optional, tag = "2")]
    pub ty: Option<TypeProto>,
}

/// Type of a value: at most one field is set.
#[derive(Clone, PartialEq, Message)]
pub struct TypeProto {
    /// A tensor.
    #[prost(message, optional, tag = "1")]
    pub tensor_type: Option<TensorTypeProto>,
    /// A sequence.
    #[prost(message, optional, boxed, tag = "4")]
    pub sequence_type: Option<Box<ElementTypeProto>>,
    /// A map; only its presence is checked.
    #[prost(message, optional, tag = "5")]
    pub map_type: Option<Opaque>,
    /// A sparse tensor; only its presence is checked.
    #[prost(message, optional, tag = "8")]
    pub sparse_tensor_type: Option<Opaque>,
    /// A value that may be absent.
    #[prost(message, optional, boxed, tag = "9")]
    pub optional_type: Option<Box<ElementTypeProto>>,
}

/// A sequence of values, as files hold it.
#[derive(Clone, PartialEq, Message)]
pub struct SequenceProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Kind of the elements: 1 tensors, 3 sequences.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    /// The elements, if they are tensors.
    #[prost(message, repeated, tag = "3")]
    pub tensor_values: Vec<TensorProto>,
    /// The elements, if they are sequences.
    #[prost(message, repeated, tag = "5")]
    pub sequence_values: Vec<SequenceProto>,
}

/// A value that may be absent, as files hold it.
#[derive(Clone, PartialEq, Message)]
pub struct OptionalProto {
    /// Name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Kind of the value: 0 none, 1 a tensor, 3 a sequence.
    #[prost(int32, tag = "2")]
    pub elem_type: i32,
    /// The value, if it is a tensor.
    #[prost(message, optional, tag = "3")]
    pub tensor_value: Option<TensorProto>,
    /// The value, if it is a sequence.
    #[prost(message, optional, tag = "5")]
    pub sequence_value: Option<SequenceProto>,
}

/// What a sequence or an optional value holds.
#[derive(Clone, PartialEq, Message)]
pub struct ElementTypeProto {
    /// Type of the elements.
    #[prost(message, optional, boxed, tag = "1")]
    pub elem_type: Option<Box<TypeProto>>,
}

/// A message whose content is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Message)]
pub struct Opaque {}

/// Element type and shape of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorTypeProto {
    /// One of [`ElemType`].
    #[prost(enumeration = "ElemType", tag = "1")]
    pub elem_type: i32,
    /// Extents; absent if even the rank is unknown.
    #[prost(message, optional, tag = "2")]
    pub shape: Option<TensorShapeProto>,
}

/// Shape of a tensor.
#[derive(Clone, PartialEq, Message)]
pub struct TensorShapeProto {
    /// One extent per axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<DimensionProto>,
}

/// One extent: a number, a name, or neither if it is unknown.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct DimensionProto {
    /// Value of the extent.
    #[prost(int64, optional, tag = "1")]
    pub dim_value: Option<i64>,
    /// Name of the symbolic dimension.
    #[prost(string, optional, tag = "2")]
    pub dim_param: Option<String>,
}
