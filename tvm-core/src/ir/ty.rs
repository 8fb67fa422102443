//! Types of graph values; they carry symbolic shapes.
//!
//! TVM counterpart: `relax::Type` (`TensorType`, `ShapeType`, …; earlier `StructInfo`), Relay's `TypeData`/`TypeCall`.

use std::sync::Arc;

use tvm_runtime::{DataType, Device};

use crate::ir::tensor_program::PrimExpr;

/// Type of a variable or graph expression.
#[derive(Clone, Debug)]
pub enum Type {
    /// A scalar.
    Prim(DataType),
    /// A tensor.
    Tensor(TensorType),
    /// A shape value.
    Shape(ShapeType),
    /// A tuple.
    Tuple(Arc<[Type]>),
    /// A function or closure.
    Func(Arc<FuncType>),
    /// An algebraic data type applied to its type arguments.
    Adt(AdtType),
    /// A mutable cell.
    Ref(Arc<Type>),
    /// A type parameter of a polymorphic function or type definition.
    Param(TypeParam),
    /// Anything.
    Object,
}

/// Type of a tensor: what is known about its shape, element type and device.
#[derive(Clone, Debug)]
pub struct TensorType {
    /// What is known about the shape.
    pub shape: TensorShape,
    /// Element type; `None` when unknown.
    pub dtype: Option<DataType>,
    /// Device; `None` for the default one.
    pub vdevice: Option<Device>,
}

/// What is known about a tensor's shape.
#[derive(Clone, Debug)]
pub enum TensorShape {
    /// Every extent is an `i64` expression over symbolic dimensions.
    Known(Arc<[PrimExpr]>),
    /// Only the rank is known.
    Rank(usize),
    /// Nothing is known.
    Unknown,
}

/// Type of a shape value.
#[derive(Clone, Debug)]
pub struct ShapeType {
    /// The values, when known symbolically.
    pub values: Option<Arc<[PrimExpr]>>,
    /// Number of dimensions; `None` when unknown.
    pub ndim: Option<usize>,
}

/// Type of a function.
#[derive(Clone, Debug)]
pub struct FuncType {
    /// Type parameters of a polymorphic function.
    pub type_params: Arc<[TypeParam]>,
    /// Parameter types; symbolic dimensions bind on first use.
    pub params: Arc<[Type]>,
    /// Result type.
    pub ret: Type,
    /// True when calling it has no side effect.
    pub pure: bool,
}

/// An algebraic data type applied to arguments; the definition is looked up in the module by name.
#[derive(Clone, Debug)]
pub struct AdtType {
    /// Name of the [`TypeDef`].
    pub name: Arc<str>,
    /// Type arguments.
    pub args: Arc<[Type]>,
}

/// A named type parameter; scoped to one function type or type definition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeParam(pub Arc<str>);

/// Definition of an algebraic data type.
#[derive(Clone, Debug)]
pub struct TypeDef {
    /// Name, unique in the module.
    pub name: Arc<str>,
    /// Type parameters.
    pub params: Arc<[TypeParam]>,
    /// Constructors; a constructor's tag is its index.
    pub constructors: Arc<[ConstructorDef]>,
}

/// One constructor of a [`TypeDef`].
#[derive(Clone, Debug)]
pub struct ConstructorDef {
    /// Name, unique in the type.
    pub name: Arc<str>,
    /// Types of its fields.
    pub fields: Arc<[Type]>,
}

impl TensorType {
    /// A tensor of known shape and element type.
    pub fn new(shape: impl Into<Arc<[PrimExpr]>>, dtype: DataType) -> TensorType {
        TensorType { shape: TensorShape::Known(shape.into()), dtype: Some(dtype), vdevice: None }
    }

    /// A tensor of constant shape.
    pub fn fixed(shape: &[i64], dtype: DataType) -> TensorType {
        TensorType::new(shape.iter().map(|&n| PrimExpr::index(n)).collect::<Vec<_>>(), dtype)
    }

    /// A tensor of known rank and unknown extents.
    pub fn ranked(ndim: usize, dtype: Option<DataType>) -> TensorType {
        TensorType { shape: TensorShape::Rank(ndim), dtype, vdevice: None }
    }

    /// A tensor of unknown rank.
    pub fn unknown(dtype: Option<DataType>) -> TensorType {
        TensorType { shape: TensorShape::Unknown, dtype, vdevice: None }
    }

    /// The extents, when all are known.
    pub fn known_shape(&self) -> Option<&[PrimExpr]> {
        match &self.shape {
            TensorShape::Known(shape) => Some(shape),
            TensorShape::Rank(_) | TensorShape::Unknown => None,
        }
    }

    /// The extents, when all are constants.
    pub fn const_shape(&self) -> Option<Vec<i64>> {
        self.known_shape()?.iter().map(PrimExpr::as_int).collect()
    }

    /// The rank, when known.
    pub fn ndim(&self) -> Option<usize> {
        match &self.shape {
            TensorShape::Known(shape) => Some(shape.len()),
            TensorShape::Rank(ndim) => Some(*ndim),
            TensorShape::Unknown => None,
        }
    }
}

impl Type {
    /// The empty tuple.
    pub fn unit() -> Type {
        Type::Tuple(Arc::new([]))
    }

    /// A tensor of known shape.
    pub fn tensor(shape: impl Into<Arc<[PrimExpr]>>, dtype: DataType) -> Type {
        Type::Tensor(TensorType::new(shape, dtype))
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        if let Type::Tensor(ty) = self { Some(ty) } else { None }
    }

    /// The fields, if it is a tuple.
    pub fn as_tuple(&self) -> Option<&[Type]> {
        if let Type::Tuple(fields) = self { Some(fields) } else { None }
    }

    /// The function type, if it is one.
    pub fn as_func(&self) -> Option<&FuncType> {
        if let Type::Func(ty) = self { Some(ty) } else { None }
    }
}

impl TypeDef {
    /// Tag and definition of the constructor `name`.
    pub fn constructor(&self, name: &str) -> Option<(usize, &ConstructorDef)> {
        self.constructors.iter().enumerate().find(|(_, it)| &*it.name == name)
    }
}
