//! Graph operators: static tables of definitions, collected in one registry. Users register their own explicitly.
//!
//! TVM counterpart: `Op`, `OpAttrMap` (`FInferType`, `FLegalize`, `FPurity`, `TOpPattern`).

use std::fmt;
use std::sync::{OnceLock, RwLock};

use rustc_hash::FxHashMap;

use super::graph::{Arg, BlockBuilder, Expr};
use super::tensor_program::{PrimExpr, PrimFunc};
use super::{Attrs, IrError, Span, Type};

/// Definition of one operator: [`OpDef::new`] takes the mandatory parts, and builder methods add the optional ones.
///
/// ```
/// use tvm_core::ir::{OpDef, OpRegistry, Type};
/// use tvm_core::relax::op::def::tensor;
///
/// /// `x` itself; as an operator of one's own it is registered once, by name.
/// static SAME: OpDef = OpDef::new("my.same", "x itself", |cx| Ok(Type::Tensor(cx.tensor(0)?.clone())))
///     .args(&[tensor("x")])
///     .graph(|cx, _| Ok(Some(cx.args[0].clone().into())));
///
/// let op = OpRegistry::register(&SAME)?;
/// assert_eq!(op.args[0].name, "x");
/// # Ok::<(), tvm_core::ir::IrError>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpDef {
    /// Full name, for example `add` or `nn.conv2d`.
    pub name: &'static str,
    /// One line on what the operator computes, with the name of its ONNX or TVM counterpart.
    pub doc: &'static str,
    /// Computes the result type from the argument types and the attributes.
    pub infer: InferFn,
    /// Arguments in order; a variadic one comes last. Default: none.
    pub args: &'static [ArgDef],
    /// Attributes. Default: none.
    pub attrs: &'static [AttrDef],
    /// How `LegalizeOps` lowers a call. Default: not at all; the virtual machine executes it (shapes, memory).
    pub legalize: Option<Legalize>,
    /// What a call does with the memory of its arguments. Default: [`MemoryEffect::Keeps`].
    pub memory: MemoryEffect,
    /// The extents that bound the indices in argument 1. Default: the operator takes no indices.
    pub index_extents: Option<IndexExtentsFn>,
    /// Name of the operator in graph functions, when it differs from its name without the family (`nn.`). Default: none.
    pub function: Option<&'static str>,
    /// True when an element of the result depends on the elements at its place in the arguments, which broadcast, and on the
    /// attributes. Default: false.
    pub elementwise: bool,
    /// False when the operator has a side effect. Default: true.
    pub pure: bool,
}

/// Computes the result type of a call from the types of its arguments and from its attributes.
pub type InferFn = fn(&InferContext<'_>) -> Result<Type, IrError>;

/// Builds the tensor program of a call: one `In` per tensor argument in order, then one `Out` per result tensor. It may
/// use the symbolic dimensions of the argument types as they are: the caller renews them. It is called only when the
/// shapes and element types of all tensors are known.
pub type TensorProgramFn = fn(&LegalizeContext<'_>) -> Result<PrimFunc, IrError>;

/// Builds the graph of a call: emits bindings and returns the value of the call, whose type is the inferred one or a less
/// precise one. Operators in the graph are legalised in turn. `None` leaves the call as it is, for example while a shape
/// is unknown.
pub type GraphFn = fn(&LegalizeContext<'_>, &mut BlockBuilder) -> Result<Option<Expr>, IrError>;

/// The extents that bound the indices of a call, one per column of the last axis of the indices, or a single one for all
/// indices. `None` means that they are not checked, for example because an extent is unknown.
pub type IndexExtentsFn = fn(&InferContext<'_>) -> Result<Option<Vec<PrimExpr>>, IrError>;

/// How calls of an operator are lowered.
///
/// TVM counterpart: `FLegalize`.
#[derive(Clone, Copy, Debug)]
pub enum Legalize {
    /// Lowered to a call of one tensor program.
    TensorProgram(TensorProgramFn),
    /// Lowered to a graph of calls of operators, functions or packed functions.
    Graph(GraphFn),
}

/// What a call does with the memory of its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryEffect {
    /// The result is in new memory.
    Fresh,
    /// The result shares no memory with an argument, and no argument is kept.
    Reads,
    /// The result is the data of the first argument with another shape, and no argument is kept. An operator of this kind
    /// that has a lowering becomes a view of the same memory instead of a kernel.
    Reshapes,
    /// The result may be an argument itself, and no argument is kept.
    Forwards,
    /// The call may keep or return its arguments.
    Keeps,
}

impl OpDef {
    /// An operator without arguments, attributes or lowering, which is pure and may keep its arguments.
    pub const fn new(name: &'static str, doc: &'static str, infer: InferFn) -> OpDef {
        OpDef {
            name,
            doc,
            infer,
            args: &[],
            attrs: &[],
            legalize: None,
            memory: MemoryEffect::Keeps,
            index_extents: None,
            function: None,
            elementwise: false,
            pure: true,
        }
    }

    /// Sets the arguments.
    pub const fn args(self, args: &'static [ArgDef]) -> OpDef {
        OpDef { args, ..self }
    }

    /// Sets the attributes.
    pub const fn attrs(self, attrs: &'static [AttrDef]) -> OpDef {
        OpDef { attrs, ..self }
    }

    /// Makes `LegalizeOps` lower calls to calls of the tensor program that `lower` builds.
    pub const fn tensor_program(self, lower: TensorProgramFn) -> OpDef {
        OpDef { legalize: Some(Legalize::TensorProgram(lower)), ..self }
    }

    /// Makes `LegalizeOps` replace calls by the graph that `lower` builds.
    pub const fn graph(self, lower: GraphFn) -> OpDef {
        OpDef { legalize: Some(Legalize::Graph(lower)), ..self }
    }

    /// Sets what a call does with the memory of its arguments.
    pub const fn memory(self, memory: MemoryEffect) -> OpDef {
        OpDef { memory, ..self }
    }

    /// Declares that argument 1 holds indices, which are checked before the tensor program runs.
    pub const fn index_extents(self, index_extents: IndexExtentsFn) -> OpDef {
        OpDef { index_extents: Some(index_extents), ..self }
    }

    /// Sets another name for the operator in graph functions.
    pub const fn function(self, name: &'static str) -> OpDef {
        OpDef { function: Some(name), ..self }
    }

    /// Declares that the elements of the result depend on those at their place only.
    pub const fn elementwise(self) -> OpDef {
        OpDef { elementwise: true, ..self }
    }

    /// Declares a side effect: passes neither remove nor merge calls.
    pub const fn impure(self) -> OpDef {
        OpDef { pure: false, ..self }
    }

    /// True when calls are lowered to a view of the first argument instead of a kernel.
    pub const fn is_view(&self) -> bool {
        matches!((self.memory, self.legalize), (MemoryEffect::Reshapes, Some(_)))
    }
}

/// One argument of an operator.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
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
    /// A tensor that a call may omit; comes after the required arguments.
    Optional,
    /// Any number of tensors, passed one by one or as one tuple.
    Variadic,
    /// A shape.
    Shape,
    /// A scalar.
    Prim,
    /// A value of any type.
    Any,
}

/// One attribute of an operator.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AttrDef {
    /// Name of the attribute.
    pub name: &'static str,
    /// Kind of value that it accepts.
    pub kind: AttrKind,
    /// True when every call must set it.
    pub required: bool,
    /// What holds when a call does not set it: a value (`-1`, `"raise"`), or words (`all axes`). Documentation, which the tests
    /// of `docs/guide/src/operators.md` compare with what the operator does. Empty if it is required or nothing is stated.
    pub default: &'static str,
}

impl AttrDef {
    /// States what holds when a call does not set the attribute.
    pub const fn default(self, default: &'static str) -> AttrDef {
        AttrDef { default, ..self }
    }
}

/// Kind of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrKind {
    /// A Boolean flag; 0 and 1 are accepted too.
    Bool,
    /// An integer.
    Int,
    /// A float; an integer is accepted too.
    Float,
    /// A string.
    Str,
    /// A data type.
    DType,
    /// A list of integers; a single integer stands for a list of one.
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
    /// Element-wise, except that inputs may be broadcast.
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

/// The call that is legalised: input of a [`TensorProgramFn`] or [`GraphFn`].
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

/// The operators of the built-in tables (`relax/op`) and those that users registered, by name.
#[derive(Debug)]
pub struct OpRegistry(FxHashMap<&'static str, &'static OpDef>);

fn registry() -> &'static RwLock<OpRegistry> {
    static REGISTRY: OnceLock<RwLock<OpRegistry>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let table = OpRegistry::BUILT_IN.iter().flat_map(|table| table.iter());
        RwLock::new(OpRegistry(table.map(|def| (def.name, def)).collect()))
    })
}

impl OpRegistry {
    /// Registers an operator.
    ///
    /// # Errors
    /// When an operator of that name is registered already.
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
    /// When no operator has that name; the help text suggests the nearest name.
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

    /// The definition of the operator.
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
