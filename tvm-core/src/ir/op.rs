//! Graph operators: rows of static tables, collected in one registry; users register their own explicitly.
//!
//! TVM counterpart: `Op`, `OpAttrMap` (`FInferType`, `FLegalize`, `FPurity`, `TOpPattern`).

use std::fmt;
use std::sync::{OnceLock, RwLock};

use rustc_hash::FxHashMap;

use super::{Attrs, IrError, Span, Type};
use crate::relax::Arg;
use crate::tir::PrimFunc;

/// Definition of one operator.
#[derive(Debug)]
pub struct OpDef {
    /// Full name, for example `add` or `nn.conv2d`.
    pub name: &'static str,
    /// One line on what it computes, with the ONNX or TVM name it follows.
    pub doc: &'static str,
    /// Arguments in order; a variadic argument comes last.
    pub args: &'static [ArgDef],
    /// Attributes.
    pub attrs: &'static [AttrDef],
    /// Computes the result type from the argument types and attributes.
    pub infer: InferFn,
    /// Builds the tensor program that computes it: one `In` per tensor argument in order, then one `Out` per result
    /// tensor. The program may use the symbolic dimensions of the argument types directly: the caller renews them.
    /// `None` for operators that graph passes lower (calls, shapes, memory).
    pub legalize: Option<LegalizeFn>,
    /// True when the operator has no side effect.
    pub pure: bool,
}

/// Computes the result type of a call from the types of its arguments and from its attributes.
pub type InferFn = fn(&InferContext<'_>) -> Result<Type, IrError>;

/// Builds the tensor program that computes a call.
pub type LegalizeFn = fn(&LegalizeContext<'_>) -> Result<PrimFunc, IrError>;

/// One argument of an operator.
#[derive(Clone, Copy, Debug)]
pub struct ArgDef {
    /// Name of the argument.
    pub name: &'static str,
    /// Kind of value that it accepts.
    pub kind: ArgKind,
}

/// Kinds of value that an argument accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// A tensor.
    Tensor,
    /// A tensor that a call may omit; only after the other arguments.
    Optional,
    /// Any number of tensors (given one by one or as one tuple).
    Variadic,
    /// A shape.
    Shape,
    /// A scalar.
    Prim,
    /// Anything.
    Any,
}

/// One attribute of an operator.
#[derive(Clone, Copy, Debug)]
pub struct AttrDef {
    /// Name of the attribute.
    pub name: &'static str,
    /// Kind of value that it accepts.
    pub kind: AttrKind,
    /// True when every call must set it.
    pub required: bool,
}

/// Kind of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// A flag.
    Bool,
    /// An integer.
    Int,
    /// A float.
    Float,
    /// A string.
    Str,
    /// A data type.
    DType,
    /// A list of integers.
    Ints,
    /// A list of floats.
    Floats,
    /// A list of strings.
    Strs,
}

/// How a tensor program may be fused with its neighbours, from the least to the most restricted.
///
/// TVM counterpart: `OpPatternKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpPattern {
    /// Output element `i` depends on input elements `i`.
    ElemWise,
    /// Inputs are broadcast.
    Broadcast,
    /// Each output element comes from one input element (transpose, slice).
    Injective,
    /// A reduction.
    CommReduce,
    /// A heavy kernel that element-wise work can follow (convolution, matmul).
    OutEWiseFusable,
    /// A tuple.
    Tuple,
    /// Nothing is known; never fused.
    Opaque,
}

/// The call whose type is inferred: input of an [`InferFn`].
#[derive(Clone, Copy, Debug)]
pub struct InferContext<'a> {
    /// The operator.
    pub op: Op,
    /// The arguments.
    pub args: &'a [Arg],
    /// Their types.
    pub types: &'a [Type],
    /// Attributes of the call.
    pub attrs: &'a Attrs,
    /// Where the call was written.
    pub span: &'a Span,
}

/// The call that is legalised: input of a [`LegalizeFn`].
#[derive(Clone, Copy, Debug)]
pub struct LegalizeContext<'a> {
    /// The operator.
    pub op: Op,
    /// The arguments.
    pub args: &'a [Arg],
    /// Their types.
    pub types: &'a [Type],
    /// Attributes of the call.
    pub attrs: &'a Attrs,
    /// The inferred result type.
    pub out: &'a Type,
    /// Where the call was written.
    pub span: &'a Span,
}

/// A registered operator; compared by name.
#[derive(Clone, Copy)]
pub struct Op(&'static OpDef);

/// All operators: those of the built-in tables and those that the user registered.
#[derive(Debug)]
pub struct OpRegistry(FxHashMap<&'static str, &'static OpDef>);

fn registry() -> &'static RwLock<OpRegistry> {
    static REGISTRY: OnceLock<RwLock<OpRegistry>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let table = crate::relax::op::TABLES.iter().flat_map(|table| table.iter());
        RwLock::new(OpRegistry(table.map(|def| (def.name, def)).collect()))
    })
}

impl OpRegistry {
    /// Registers an operator.
    ///
    /// # Errors
    /// When an operator of that name exists.
    pub fn register(def: &'static OpDef) -> Result<Op, IrError> {
        let mut registry = registry().write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if registry.0.contains_key(def.name) {
            return Err(IrError::new(
                format!("operator `{}` is registered already", def.name),
                &Span::none(),
            ));
        }
        registry.0.insert(def.name, def);
        Ok(Op(def))
    }

    /// All operators ordered by name.
    pub fn all() -> Vec<Op> {
        let registry = registry().read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut ops: Vec<Op> = registry.0.values().map(|def| Op(def)).collect();
        ops.sort_by_key(|op| op.name);
        ops
    }
}

impl Op {
    /// The operator named `name`.
    ///
    /// # Errors
    /// When there is none; the help names the nearest one.
    pub fn get(name: &str) -> Result<Op, IrError> {
        let found = {
            let registry = registry().read().unwrap_or_else(|poisoned| poisoned.into_inner());
            registry.0.get(name).map(|def| Op(def))
        };
        found.ok_or_else(|| {
            let err = IrError::new(format!("unknown operator `{name}`"), &Span::none());
            let names = OpRegistry::all();
            match crate::support::nearest(name, names.iter().map(|op| op.name)) {
                Some(near) => err.help(format!("did you mean `{near}`?")),
                None => err,
            }
        })
    }

    /// The definition, for the life of the process.
    pub fn def(self) -> &'static OpDef {
        self.0
    }
}

impl std::ops::Deref for Op {
    type Target = OpDef;

    fn deref(&self) -> &OpDef {
        self.0
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Op) -> bool {
        self.name == other.name
    }
}

impl Eq for Op {}

impl std::hash::Hash for Op {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
