//! A compiled program: functions in bytecode, constants, the kernels it needs, and what is known about them.
//!
//! TVM counterpart: `relay::vm::Executable`, `relax::VMExecutable`. Plain data: building one checks nothing,
//! [`verify`](fn@super::verify) and [`Vm::new`](super::Vm::new) do.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dtype::DataType;
use crate::kernel::{DimSig, KernelSig, fmt_list};
use crate::tensor::Tensor;
use crate::value::Value;

use super::instruction::Instruction;

/// The type of a parameter or result, for callers and tools; `Display` writes it as the DSL does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ValueType {
    /// A tensor; element type and shape where they are known.
    Tensor {
        /// Element type.
        dtype: Option<DataType>,
        /// Extents.
        shape: Option<Vec<DimSig>>,
    },
    /// A shape, with its rank where it is known.
    Shape(Option<u32>),
    /// An integer or boolean scalar.
    Int,
    /// A floating-point scalar.
    Float,
    /// A string.
    Str,
    /// A tuple.
    Tuple(Vec<ValueType>),
    /// A function.
    Func(Vec<ValueType>, Box<ValueType>),
    /// An algebraic data type, by name.
    Adt(String),
    /// A reference cell.
    Ref(Box<ValueType>),
    /// Anything.
    Object,
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueType::Tensor { dtype: Some(dtype), shape: Some(shape) } => {
                write!(f, "Tensor<{dtype}")?;
                shape.iter().try_for_each(|dim| write!(f, ", {dim}"))?;
                write!(f, ">")
            }
            ValueType::Tensor { dtype: Some(dtype), shape: None } => write!(f, "TensorDyn<{dtype}>"),
            ValueType::Tensor { dtype: None, .. } => write!(f, "Tensor"),
            ValueType::Shape(Some(rank)) => write!(f, "Shape<{rank}>"),
            ValueType::Shape(None) => write!(f, "Shape"),
            ValueType::Int => write!(f, "i64"),
            ValueType::Float => write!(f, "f64"),
            ValueType::Str => write!(f, "str"),
            ValueType::Tuple(fields) => {
                write!(f, "(")?;
                fmt_list(f, fields)?;
                write!(f, "{})", if fields.len() == 1 { "," } else { "" })
            }
            ValueType::Func(params, ret) => {
                write!(f, "fn(")?;
                fmt_list(f, params)?;
                write!(f, ") -> {ret}")
            }
            ValueType::Adt(name) => f.write_str(name),
            ValueType::Ref(ty) => write!(f, "Ref<{ty}>"),
            ValueType::Object => write!(f, "Object"),
        }
    }
}

/// A parameter of a function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VmParam {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ValueType,
}

/// One function.
#[derive(Clone, Debug, PartialEq)]
pub struct VmFunction {
    /// Unique name.
    pub name: Arc<str>,
    /// Parameters; captured values of a closure come first.
    pub params: Vec<VmParam>,
    /// Type of the result.
    pub ret: ValueType,
    /// Number of registers, at least `params.len()`.
    pub num_regs: u32,
    /// True if the application may call it by name; closures and helpers are not public.
    pub public: bool,
    /// Its instructions; the last one does not fall through.
    pub code: Vec<Instruction>,
}

/// An entry of the constant pool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Constant {
    /// A tensor on the host.
    Tensor(Tensor),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A shape.
    Shape(Vec<i64>),
    /// A string.
    Str(String),
    /// An element type.
    DType(DataType),
}

impl From<&Constant> for Value {
    fn from(constant: &Constant) -> Value {
        match constant {
            Constant::Tensor(it) => Value::Tensor(it.clone()),
            Constant::Int(it) => Value::Int(*it),
            Constant::Float(it) => Value::Float(*it),
            Constant::Shape(it) => Value::Shape(it.as_slice().into()),
            Constant::Str(it) => Value::Str(it.as_str().into()),
            Constant::DType(it) => Value::DType(*it),
        }
    }
}

/// What the bytes of a [`KernelObject`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A shared library for the host, with one symbol per kernel.
    SharedLibrary,
    /// A CUDA binary (cubin or fatbin).
    CudaBinary,
    /// Anything else; the application knows.
    Other,
}

/// Machine code that travels with an executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelObject {
    /// Its name, for messages.
    pub name: String,
    /// What it is.
    pub kind: ObjectKind,
    /// The bytes.
    pub bytes: Arc<[u8]>,
}

/// A compiled program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Executable {
    /// Functions; names are unique.
    pub functions: Vec<VmFunction>,
    /// The constant pool.
    pub constants: Vec<Constant>,
    /// Kernels, by their signatures; a kernel is resolved by `KernelSig::name`, which is also its symbol.
    pub kernels: Vec<KernelSig>,
    /// Names of packed functions, resolved in the global registry.
    pub packed: Vec<String>,
    /// Machine code of the kernels; may be empty if the kernels come from elsewhere (just compiled, or linked in).
    pub objects: Vec<KernelObject>,
    /// What it was compiled for, as the compiler writes its target.
    pub target: String,
    /// Further facts as pairs of key and value (model name, source, licence, …), in a fixed order.
    pub metadata: Vec<(String, String)>,
}

impl Executable {
    /// The function of that name.
    pub fn function(&self, name: &str) -> Option<&VmFunction> {
        self.functions.iter().find(|func| &*func.name == name)
    }

    /// Size of all tensors in the constant pool, in bytes.
    pub fn constant_bytes(&self) -> usize {
        let bytes = |constant: &Constant| match constant {
            Constant::Tensor(tensor) => tensor.byte_len(),
            _ => 0,
        };
        self.constants.iter().map(bytes).sum()
    }

    /// The value of a metadata key.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}
