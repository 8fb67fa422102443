//! One description of every node: its kind and its ordered fields, with binders and scopes. Structural equality,
//! structural hashing, the JSON form and the scope rules of `well_formed` are all derived from it.
//!
//! The order of fields matters: a binder comes before the fields in which it is visible.
//!
//! TVM counterpart: `SEqualReduce`, `SHashReduce`, `VisitAttrs`.

mod equal;
mod graph;
#[cfg(test)]
pub(crate) mod graph_sample;
mod hash;
#[cfg(test)]
pub(crate) mod sample;
mod tensor_program;
#[cfg(test)]
mod tests;

pub use equal::{Mismatch, StructuralEqual, structural_equal};
pub use hash::structural_hash;
pub(crate) use hash::structural_hash_sampled;
use smallvec::SmallVec;
use tvm_runtime::{DataType, Device, Tensor};

use super::node::Fielded;
use super::{
    Attrs, BaseFunc, BlockId, ConstructorDef, ExternFunc, GlobalVar, IRModule, Span, Type, TypeDef, Var,
};
use crate::ir::graph::{Arg, Binding, BindingBlock, Body, Clause, Expr, Function, Pattern};
use crate::ir::tensor_program::{
    Block, Buffer, BufferRegion, IterVar, MatchBufferRegion, Param, PrimExpr, PrimFunc, Range, Stmt,
};

/// Any node.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "each variant is the node of its name")]
pub enum Node<'a> {
    Expr(&'a PrimExpr),
    Stmt(&'a Stmt),
    Block(&'a Block),
    IterVar(&'a IterVar),
    Range(&'a Range),
    BufferRegion(&'a BufferRegion),
    MatchBuffer(&'a MatchBufferRegion),
    /// A buffer where it is bound.
    BufferDef(&'a Buffer),
    /// A variable where it is bound.
    VarDef(&'a Var),
    Param(&'a Param),
    PrimFunc(&'a PrimFunc),
    Type(&'a Type),
    TypeDef(&'a TypeDef),
    ConstructorDef(&'a ConstructorDef),
    Arg(&'a Arg),
    RelaxExpr(&'a Expr),
    Body(&'a Body),
    BindingBlock(&'a BindingBlock),
    Binding(&'a Binding),
    Clause(&'a Clause),
    Pattern(&'a Pattern),
    Function(&'a Function),
    ExternFunc(&'a ExternFunc),
    Module(&'a IRModule),
}

macro_rules! from {
    ($($variant:ident($ty:ty))*) => {
        $(impl<'a> From<&'a $ty> for Node<'a> {
            fn from(node: &'a $ty) -> Node<'a> {
                Node::$variant(node)
            }
        })*
    };
}

from! {
    Expr(PrimExpr) Stmt(Stmt) Block(Block) IterVar(IterVar) Range(Range) BufferRegion(BufferRegion)
    MatchBuffer(MatchBufferRegion) BufferDef(Buffer) VarDef(Var) Param(Param) PrimFunc(PrimFunc) Type(Type)
    TypeDef(TypeDef) ConstructorDef(ConstructorDef) Arg(Arg) RelaxExpr(Expr) Body(Body)
    BindingBlock(BindingBlock) Binding(Binding) Clause(Clause) Pattern(Pattern) Function(Function)
    ExternFunc(ExternFunc) Module(IRModule)
}

impl<'a> From<&'a BaseFunc> for Node<'a> {
    fn from(func: &'a BaseFunc) -> Node<'a> {
        match func {
            BaseFunc::Prim(func) => Node::PrimFunc(func),
            BaseFunc::Relax(func) => Node::Function(func),
            BaseFunc::Extern(func) => Node::ExternFunc(func),
        }
    }
}

/// One field of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Field<'a> {
    /// A scope begins: later binders are visible up to the matching `Close`.
    Open,
    /// The innermost scope ends.
    Close,
    /// A list begins: this many fields of the same name follow.
    Len(usize),
    /// A name hint: not part of the structure.
    Name(&'a str),
    /// A source: not part of the structure.
    Span(&'a Span),
    /// A block's identity: not part of the structure.
    Block(BlockId),
    Int(i64),
    Float(f64),
    Str(&'a str),
    DType(DataType),
    Device(Device),
    Attrs(&'a Attrs),
    Tensor(&'a Tensor),
    /// A function of the module, by name.
    Global(&'a GlobalVar),
    /// Binds a variable.
    DefVar(&'a Var),
    /// Binds a symbolic dimension, unless it is bound already.
    Dim(&'a Var),
    /// A variable bound before, or a free one.
    UseVar(&'a Var),
    /// Binds a buffer.
    DefBuffer(&'a Buffer),
    /// A buffer bound before, or a free one.
    UseBuffer(&'a Buffer),
    /// A child.
    Node(Node<'a>),
}

/// Name of a field, and its index when it is an item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    pub(crate) index: Option<u32>,
}

/// The fields of one node.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(pub(crate) SmallVec<[(Slot, Field<'a>); 8]>);

impl<'a> Fields<'a> {
    /// The fields of `node`; for a module, only its attributes: its functions and types are identified by name, and
    /// each consumer chooses their order.
    pub(crate) fn of(node: Node<'a>) -> Fields<'a> {
        let mut fields = Fields::default();
        fields.collect(node);
        fields
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Slot, Field<'a>)> {
        self.0.iter()
    }

    /// Where the node was written, if that is known.
    pub(crate) fn span(&self) -> Option<&'a Span> {
        self.iter().find_map(|(_, field)| match field {
            Field::Span(span) if !span.is_none() => Some(*span),
            _ => None,
        })
    }

    pub(crate) fn field(&mut self, name: &'static str, field: Field<'a>) {
        self.0.push((Slot { name, index: None }, field));
    }

    pub(crate) fn node(&mut self, name: &'static str, node: impl Into<Node<'a>>) {
        self.field(name, Field::Node(node.into()));
    }

    fn option<T>(&mut self, name: &'static str, node: Option<&'a T>)
    where
        Node<'a>: From<&'a T>,
    {
        if let Some(node) = node {
            self.node(name, node);
        }
    }

    pub(crate) fn items(&mut self, name: &'static str, items: impl Iterator<Item = Field<'a>>) {
        let len_at = self.0.len();
        self.field(name, Field::Len(0));
        for (i, item) in items.enumerate() {
            self.0.push((Slot { name, index: Some(i as u32) }, item));
        }
        self.0[len_at].1 = Field::Len(self.0.len() - len_at - 1);
    }

    fn list<T>(&mut self, name: &'static str, nodes: &'a [T])
    where
        Node<'a>: From<&'a T>,
    {
        self.items(name, nodes.iter().map(|node| Field::Node(node.into())));
    }

    fn scope(&mut self, fill: impl FnOnce(&mut Fields<'a>)) {
        self.open();
        fill(self);
        self.close();
    }

    /// Begins a scope.
    pub(crate) fn open(&mut self) {
        self.field("", Field::Open);
    }

    /// Ends the innermost scope.
    pub(crate) fn close(&mut self) {
        self.field("", Field::Close);
    }

    /// Adds the extents (strides, offsets) that are plain variables: such an occurrence binds the variable.
    pub(crate) fn dims(&mut self, exprs: impl Iterator<Item = &'a PrimExpr>) {
        self.items("dims", exprs.filter_map(PrimExpr::as_var).map(Field::Dim));
    }

    fn collect(&mut self, node: Node<'a>) {
        match node {
            Node::Expr(it) => self.expr(it),
            Node::Stmt(it) => self.stmt(it),
            Node::Block(it) => it.collect_fields(self),
            Node::IterVar(it) => it.collect_fields(self),
            Node::Range(it) => it.collect_fields(self),
            Node::BufferRegion(it) => it.collect_fields(self),
            Node::MatchBuffer(it) => it.collect_fields(self),
            Node::BufferDef(it) => self.buffer(it),
            Node::VarDef(it) => {
                self.field("name", Field::Name(it.name()));
                self.field("span", Field::Span(it.span()));
                self.node("ty", it.ty());
                if let Some(bound) = it.bound() {
                    self.items("bound", bound.parts().into_iter().map(Field::Int));
                }
                self.field("id", Field::DefVar(it));
            }
            Node::Param(Param::In(it) | Param::Out(it)) => self.node("buffer", it),
            Node::Param(Param::Scalar(it)) => self.field("var", Field::UseVar(it)),
            Node::PrimFunc(it) => it.collect_fields(self),
            Node::Type(it) => self.ty(it),
            Node::TypeDef(it) => it.collect_fields(self),
            Node::ConstructorDef(it) => it.collect_fields(self),
            Node::Arg(it) => self.arg(it),
            Node::RelaxExpr(it) => self.relax_expr(it),
            Node::Body(it) => it.collect_fields(self),
            Node::BindingBlock(it) => it.collect_fields(self),
            Node::Binding(it) => it.collect_fields(self),
            Node::Clause(it) => it.collect_fields(self),
            Node::Pattern(it) => self.pattern(it),
            Node::Function(it) => it.collect_fields(self),
            Node::ExternFunc(it) => it.collect_fields(self),
            Node::Module(it) => self.field("attrs", Field::Attrs(&it.attrs)),
        }
    }
}

impl Node<'_> {
    /// Name of the node's kind; nodes of different kinds are never equal.
    pub fn kind(self) -> &'static str {
        match self {
            Node::Expr(it) => tensor_program::expr_kind(it),
            Node::Stmt(it) => tensor_program::stmt_kind(it),
            Node::Block(_) => "Block",
            Node::IterVar(_) => "IterVar",
            Node::Range(_) => "Range",
            Node::BufferRegion(_) => "BufferRegion",
            Node::MatchBuffer(_) => "MatchBufferRegion",
            Node::BufferDef(_) => "Buffer",
            Node::VarDef(_) => "Var",
            Node::Param(Param::In(_)) => "In",
            Node::Param(Param::Out(_)) => "Out",
            Node::Param(Param::Scalar(_)) => "Scalar",
            Node::PrimFunc(_) => "PrimFunc",
            Node::Type(it) => graph::type_kind(it),
            Node::TypeDef(_) => "TypeDef",
            Node::ConstructorDef(_) => "ConstructorDef",
            Node::Arg(it) => graph::arg_kind(it),
            Node::RelaxExpr(it) => graph::expr_kind(it),
            Node::Body(_) => "Body",
            Node::BindingBlock(_) => "BindingBlock",
            Node::Binding(_) => "Binding",
            Node::Clause(_) => "Clause",
            Node::Pattern(it) => graph::pattern_kind(it),
            Node::Function(_) => "Function",
            Node::ExternFunc(_) => "ExternFunc",
            Node::Module(_) => "IRModule",
        }
    }
}
