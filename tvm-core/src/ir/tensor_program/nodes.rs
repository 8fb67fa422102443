//! The table of the nodes of tensor programs, and how their fields are visited and rewritten.

use std::sync::Arc;

use super::*;
use crate::ir::json::NodeReader;
use crate::ir::node::{Fielded, Part, children, nodes, traverse};
use crate::ir::structural::{Field, Fields, Node};
use crate::ir::{Attrs, BlockId, IrError, Span, Var};
use crate::support::with_stack;
use tvm_runtime::DataType;
use tvm_runtime::abi::Status;

nodes! {
    derive(traverse operands)
    Cast { dtype, value }
    Not { value }
    // The operation stands in the kind of the node.
    Binary { op, a, b }
    Select { condition, true_value, false_value }
    BufferLoad { span, buffer, indices, predicate }
    Ramp { base, stride, lanes }
    Broadcast { value, lanes }
    Shuffle { vectors, indices }
    Let { value, scope { def var, body } }
    PrimCall { span, callee, dtype, args }
}

nodes! {
    derive(traverse)
    BufferStore { span, buffer, indices, value, predicate }
    For { span, kind as "loop", min, extent, annotations, scope { def loop_var, body } }
    BlockRealize { iter_values, predicate, block }
    IfThenElse { span, condition, scope { then_case }, scope { else_case } }
    While { span, condition, scope { body } }
    Bind { value, def var }
    AllocBuffer { annotations, def buffer }
    DeclBuffer { data, def buffer }
    Evaluate { value }
    AssertStmt { condition, failure }
    Failure { status, arg, axis, expected, got, what by subject, span }
    Block {
        scope {
            label name, span, id, iter_vars, alloc_buffers, match_buffers, reads, writes, annotations,
            scope { init }, body
        }
    }
    IterVar { kind as "kind_of_axis", dom, def var }
    Range { min, extent }
    BufferRegion { buffer, region }
    MatchBufferRegion { source, also extents, def buffer }
}

nodes! {
    derive()
    IntImm { value, dtype }
    FloatImm { value, dtype }
    PrimFunc { scope { label name, span, attrs, also binders, params, body } }
}

/// What is done with a field in traversal and rewriting, by its type. By default nothing.
pub(crate) trait Traverse: Clone {
    /// Visits the children in the field.
    fn walk<V: Visitor + ?Sized>(&self, _v: &mut V) {}

    /// Rewrites the children in the field; `None` when none changed.
    fn mutate<M: Mutator + ?Sized>(&self, _m: &mut M) -> Option<Self> {
        None
    }

    /// Calls `f` with each operand in the field of an expression.
    fn operands<'a>(&'a self, _f: &mut dyn FnMut(&'a PrimExpr)) {}

    /// Drops the operands in the field of an expression, which may be thousands of operations deep.
    fn drop_operands(&mut self) {}
}

/// Derives, for an expression, the list of its operands and a drop that needs no deep stack.
macro_rules! operands {
    ($node:ident [$($part:ident)*]) => {
        impl $node {
            /// Calls `f` with each operand.
            pub(super) fn each_operand<'a>(&'a self, f: &mut dyn FnMut(&'a PrimExpr)) {
                $(self.$part.operands(f);)*
            }
        }

        impl Drop for $node {
            fn drop(&mut self) {
                $(self.$part.drop_operands();)*
            }
        }
    };
}
use operands;

/// Evaluates `$do` with `$it` bound to the node of an expression, or `$leaf` for a constant or variable, which has none.
macro_rules! expr_node {
    ($expr:expr, $it:ident => $do:expr, leaf => $leaf:expr) => {
        match $expr {
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => $leaf,
            PrimExpr::Cast($it) => $do,
            PrimExpr::Not($it) => $do,
            PrimExpr::Binary($it) => $do,
            PrimExpr::Select($it) => $do,
            PrimExpr::BufferLoad($it) => $do,
            PrimExpr::Ramp($it) => $do,
            PrimExpr::Broadcast($it) => $do,
            PrimExpr::Shuffle($it) => $do,
            PrimExpr::Let($it) => $do,
            PrimExpr::Call($it) => $do,
        }
    };
}
pub(super) use expr_node;

/// Evaluates `$do` with `$it` bound to the node of a statement, or `$seq` with `$it` bound to the list of a sequence.
macro_rules! stmt_node {
    ($stmt:expr, $it:ident => $do:expr, seq => $seq:expr) => {
        match $stmt {
            Stmt::SeqStmt($it) => $seq,
            Stmt::BufferStore($it) => $do,
            Stmt::For($it) => $do,
            Stmt::BlockRealize($it) => $do,
            Stmt::IfThenElse($it) => $do,
            Stmt::While($it) => $do,
            Stmt::Bind($it) => $do,
            Stmt::AllocBuffer($it) => $do,
            Stmt::DeclBuffer($it) => $do,
            Stmt::Evaluate($it) => $do,
            Stmt::AssertStmt($it) => $do,
        }
    };
}
pub(in crate::ir) use stmt_node;

impl Traverse for PrimExpr {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        v.visit_expr(self);
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<PrimExpr> {
        m.mutate_expr(self)
    }

    fn operands<'a>(&'a self, f: &mut dyn FnMut(&'a PrimExpr)) {
        f(self);
    }

    fn drop_operands(&mut self) {
        if !matches!(self, PrimExpr::IntImm(_) | PrimExpr::Var(_)) {
            let operand = std::mem::replace(self, PrimExpr::index(0));
            with_stack(|| drop(operand));
        }
    }
}

impl Traverse for Arc<[PrimExpr]> {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        self.iter().for_each(|expr| v.visit_expr(expr));
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Arc<[PrimExpr]>> {
        m.mutate_exprs(self)
    }

    fn operands<'a>(&'a self, f: &mut dyn FnMut(&'a PrimExpr)) {
        self.iter().for_each(f);
    }

    fn drop_operands(&mut self) {
        Arc::get_mut(self).into_iter().flatten().for_each(Traverse::drop_operands);
    }
}

impl Traverse for Stmt {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        v.visit_stmt(self);
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Stmt> {
        m.mutate_stmt(self)
    }
}

impl Traverse for Arc<Block> {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        v.visit_block(self);
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Arc<Block>> {
        m.mutate_block(self).map(Arc::new)
    }
}

impl Traverse for Buffer {
    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Buffer> {
        m.mutate_buffer(self)
    }
}

impl Traverse for Option<PrimExpr> {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        self.iter().for_each(|expr| v.visit_expr(expr));
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Option<PrimExpr>> {
        self.as_ref().and_then(|expr| m.mutate_expr(expr)).map(Some)
    }

    fn operands<'a>(&'a self, f: &mut dyn FnMut(&'a PrimExpr)) {
        self.iter().for_each(f);
    }

    fn drop_operands(&mut self) {
        self.iter_mut().for_each(Traverse::drop_operands);
    }
}

impl Traverse for Option<Stmt> {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        self.iter().for_each(|stmt| v.visit_stmt(stmt));
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Option<Stmt>> {
        self.as_ref().and_then(|stmt| m.mutate_stmt(stmt)).map(Some)
    }
}

macro_rules! lists {
    ($($item:ident)*) => {$(
        impl Traverse for Arc<[$item]> {
            fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
                self.iter().for_each(|it| it.walk(v));
            }

            fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Arc<[$item]>> {
                mutate_slice(self, |it| it.mutate(m))
            }
        }
    )*};
}

lists!(Stmt Buffer Range IterVar BufferRegion MatchBufferRegion);

macro_rules! nothing {
    ($($ty:ty;)*) => {
        $(impl Traverse for $ty {})*
    };
}

nothing! {
    i32; u16; Arc<[u16]>; Arc<str>; Attrs; BinaryOp; BlockId; PrimCallee; DataType; ForKind; IterKind; Span; Var;
}

children!(PrimExpr Stmt IterVar Range BufferRegion MatchBufferRegion Param);

macro_rules! named {
    ($($ty:ident $what:literal;)*) => {
        $(impl Part for $ty {
            fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
                fields.field(name, Field::Str(self.name()));
            }

            fn read(node: &NodeReader<'_>, name: &str) -> Result<$ty, IrError> {
                let found = $ty::from_name(node.str(name)?);
                found.ok_or_else(|| node.error(concat!("unknown ", $what)))
            }
        })*
    };
}

named! { ForKind "kind of loop"; IterKind "kind of axis"; }

/// A use of the buffer.
impl Part for Buffer {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        fields.field(name, Field::UseBuffer(self));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Buffer, IrError> {
        node.child(name)
    }
}

/// A list binds the buffers.
impl Part for Arc<[Buffer]> {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        fields.items(name, self.iter().map(|buffer| Field::Node(Node::BufferDef(buffer))));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Arc<[Buffer]>, IrError> {
        node.list(name)
    }
}

impl Part for Arc<Block> {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        fields.field(name, Field::Node(Node::Block(self)));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Arc<Block>, IrError> {
        node.child(name)
    }
}

/// The failure of an assertion: its fields are fields of the assertion.
impl Part for Failure {
    fn collect<'a>(&'a self, _name: &'static str, fields: &mut Fields<'a>) {
        self.collect_fields(fields);
    }

    fn read(node: &NodeReader<'_>, _name: &str) -> Result<Failure, IrError> {
        Failure::read_fields(node)
    }
}

/// The operation is the kind of the node.
impl Part for BinaryOp {
    fn collect<'a>(&'a self, _name: &'static str, _fields: &mut Fields<'a>) {}

    fn read(node: &NodeReader<'_>, _name: &str) -> Result<BinaryOp, IrError> {
        let kind = node.str("kind")?;
        let found = BinaryOp::ALL.iter().copied().find(|op| op.name() == kind);
        found.ok_or_else(|| node.error(format!("unknown operation `{kind}`")))
    }
}

/// What the callee is follows from the kind of the node.
impl Part for PrimCallee {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        let callee = match self {
            PrimCallee::Intrinsic(intrinsic) => intrinsic.name(),
            PrimCallee::PureExtern(symbol) => symbol,
        };
        fields.field(name, Field::Str(callee));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<PrimCallee, IrError> {
        let callee = node.str(name)?;
        if node.str("kind")? != "Call" {
            return Ok(PrimCallee::PureExtern(callee.into()));
        }
        let found = Intrinsic::from_name(callee).map(PrimCallee::Intrinsic);
        found.ok_or_else(|| node.error(format!("unknown intrinsic `{callee}`")))
    }
}

/// The lanes of a shuffle, at most 128.
impl Part for Arc<[u16]> {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        fields.items(name, self.iter().map(|&lane| Field::Int(lane.into())));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Arc<[u16]>, IrError> {
        let lanes = node.items(name)?;
        if lanes.len() > 128 {
            return Err(node.error(format!("`{name}` are over 128")));
        }
        lanes.iter().map(|lane| node.integer(lane, name)).collect()
    }
}

impl Failure {
    /// The message of an assertion is part of the structure; the subject of another failure is a name.
    fn subject<'a>(&'a self, fields: &mut Fields<'a>) {
        let is_message = self.status == Status::Assert as i32;
        fields.field("what", if is_message { Field::Str(&self.what) } else { Field::Name(&self.what) });
    }
}

impl MatchBufferRegion {
    /// The extents that are plain variables bind these.
    fn extents<'a>(&'a self, fields: &mut Fields<'a>) {
        fields.dims(buffer_extents(&self.buffer));
    }
}

impl PrimFunc {
    /// Scalars bind first, then extents, then buffers: a shape may use names that a later parameter binds.
    fn binders<'a>(&'a self, fields: &mut Fields<'a>) {
        let scalars = self.params.iter().filter_map(|param| match param {
            Param::Scalar(var) => Some(Field::Node(Node::VarDef(var))),
            Param::In(_) | Param::Out(_) => None,
        });
        fields.items("scalars", scalars);
        fields.dims(self.params.iter().filter_map(Param::buffer).flat_map(buffer_extents));
    }
}

/// Shape, strides and offset of a buffer.
fn buffer_extents(buffer: &Buffer) -> impl Iterator<Item = &PrimExpr> {
    buffer.shape.iter().chain(buffer.strides.iter()).chain(&buffer.elem_offset)
}
