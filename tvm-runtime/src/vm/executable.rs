//! A compiled program: functions in bytecode, constants, signatures of the kernels it calls, and metadata.
//!
//! TVM counterpart: `relay::vm::Executable`, `relax::VMExecutable`. Plain data: constructing one checks nothing;
//! [`verify`](fn@super::verify) and [`Vm::new`](super::Vm::new) check it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::dtype::DataType;
use crate::kernel::{DimSig, KernelSig, fmt_list};
use crate::launch::CodeFormat;
use crate::tensor::Tensor;
use crate::value::Value;

use super::instruction::Instruction;
#[cfg(doc)]
use super::{Vm, VmConfig};

/// Type of a parameter or result, for callers and tools; `Display` writes it in the syntax of the DSL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ValueType {
    /// A tensor; element type and shape are given if known.
    Tensor {
        /// Element type, if known.
        dtype: Option<DataType>,
        /// Extents, if known.
        shape: Option<Vec<DimSig>>,
    },
    /// A shape; its rank is given if known.
    Shape(Option<u32>),
    /// An integer or boolean scalar.
    Int,
    /// A floating-point scalar.
    Float,
    /// A string.
    Str,
    /// A tuple.
    Tuple(Vec<ValueType>),
    /// A function: parameter types and result type.
    Func(Vec<ValueType>, Box<ValueType>),
    /// An algebraic data type, by name.
    Adt(String),
    /// A reference cell.
    Ref(Box<ValueType>),
    /// A value of any type.
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
    /// Name of the parameter.
    pub name: String,
    /// Type of the parameter.
    pub ty: ValueType,
}

/// A function in bytecode.
#[derive(Clone, Debug, PartialEq)]
pub struct VmFunction {
    /// Name, unique in the executable.
    pub name: Arc<str>,
    /// Parameters; captured values of a closure come first.
    pub params: Vec<VmParam>,
    /// Type of the result.
    pub ret: ValueType,
    /// Number of registers, at least `params.len()`.
    pub num_regs: u32,
    /// True if the application may call it by name; closures and helpers are not public.
    pub public: bool,
    /// Instructions; the last one does not fall through.
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

/// Format of the bytes of a [`CodeObject`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ObjectKind {
    /// A shared library for the host, with one symbol per kernel.
    SharedLibrary,
    /// An imported module of the kind with this name; the loader of the kind ([`VmConfig::loaders`]) reads it.
    Import(String),
    /// A shared library for the host whose code is for this level of x86-64; loading takes one of several.
    LevelLibrary(String),
    /// Kernels for a GPU, and how they are launched ([`GpuUnit`](crate::artifact::GpuUnit)). Loading takes the objects of one architecture
    /// and format.
    GpuKernels {
        /// The architecture that the code was compiled for, for example `sm_80`.
        arch: String,
        /// Format of the code.
        format: CodeFormat,
    },
}

/// Code that an executable carries: machine code of its kernels, or an imported module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeObject {
    /// Name of the object, for error messages.
    pub name: String,
    /// Format of the bytes.
    pub kind: ObjectKind,
    /// The object itself.
    pub bytes: Arc<[u8]>,
}

/// A compiled program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Executable {
    /// Functions; names are unique.
    pub functions: Vec<VmFunction>,
    /// The constant pool.
    pub constants: Vec<Constant>,
    /// Signatures of the kernels. A kernel is found by `KernelSig::name`, from which its symbol derives.
    pub kernels: Vec<KernelSig>,
    /// Names of packed functions; [`Vm::with_config`] finds them.
    pub packed: Vec<String>,
    /// Imported modules, and machine code of the kernels, unless they come from elsewhere (compiled in the same process, or
    /// linked in).
    pub objects: Vec<CodeObject>,
    /// The target that the program was compiled for, as text of the compiler.
    pub target: String,
    /// Further metadata as key and value (model name, source, licence, …), in a fixed order.
    pub metadata: Vec<(String, String)>,
}

impl Executable {
    /// The function with this name.
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

    /// The value of a metadata key, if present.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}
