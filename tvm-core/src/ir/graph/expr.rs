//! Graph expressions. Their types enforce A-normal form: the arguments of an operation are [`Arg`]s, never expressions.
//!
//! TVM counterpart: `relax/expr.h`; Relay's `Match`, `Constructor`, `RefCreate`, … .

use std::sync::Arc;

use tvm_runtime::{DataType, Tensor};

use crate::ir::tensor_program::PrimExpr;
use crate::ir::{Attrs, GlobalVar, Op, Span, Type, Var};

/// An argument of an operation: a value that needs no computation.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A variable in scope.
    Var(Var),
    /// A constant tensor.
    Const(Tensor),
    /// A function of the module.
    Global(GlobalVar),
    /// A tuple of arguments.
    Tuple(Arc<[Arg]>),
    /// A shape: `i64` expressions over symbolic dimensions.
    Shape(Arc<[PrimExpr]>),
    /// A scalar.
    Prim(PrimExpr),
    /// A data type.
    DType(DataType),
    /// A string.
    Str(Arc<str>),
}

/// A computation; the right side of a binding.
#[derive(Clone, Debug)]
pub enum Expr {
    /// The argument itself: an alias, a constant, a tuple, a shape.
    Arg(Arg),
    /// A call.
    Call(Arc<Call>),
    /// A field of a tuple.
    TupleGetItem(Arg, usize),
    /// A branch; the arms see the variables in scope.
    If(Arc<If>),
    /// A match on the constructors of an algebraic data type.
    Match(Arc<Match>),
    /// A local function; it captures the variables it uses.
    Function(Arc<Function>),
    /// A new mutable cell.
    RefCreate(Arg),
    /// The content of a mutable cell.
    RefRead(Arg),
    /// Sets the content of a mutable cell: (cell, value); the result is the empty tuple.
    RefWrite(Arg, Arg),
}

/// The callee of a call.
#[derive(Clone, Debug)]
pub enum Callee {
    /// An operator.
    Op(Op),
    /// A function of the module. A tensor program is called through [`Callee::Tir`].
    Global(GlobalVar),
    /// A closure or function parameter.
    Var(Var),
    /// A tensor program in destination-passing style (`call_tir`): the arguments are its inputs and then the values
    /// of its scalar parameters; the outputs are allocated from [`Call::ret`].
    Tir(GlobalVar),
    /// A tensor program that updates tensors (`call_tir_inplace`): after the arguments of [`Callee::Tir`] come the values that
    /// the outputs start with. The outputs are new tensors, in the memory of those values where nothing else uses it, and
    /// otherwise in copies.
    TirInplace(GlobalVar),
    /// A packed function that fills its outputs (`call_dps_packed`); outputs as for `Tir`.
    DpsPacked(Arc<str>),
    /// A packed function that returns its result (`call_packed`).
    Packed(Arc<str>),
    /// A constructor of an algebraic data type.
    Constructor(Constructor),
}

/// A constructor: type name, its own name, its tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constructor {
    /// Name of the type definition.
    pub ty: Arc<str>,
    /// Name of the constructor.
    pub name: Arc<str>,
    /// Its index among the constructors of the type.
    pub tag: usize,
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub callee: Callee,
    /// Arguments.
    pub args: Arc<[Arg]>,
    /// Attributes (of an operator).
    pub attrs: Attrs,
    /// Result type where the callee does not determine it: `Tir`, `TirInplace`, `DpsPacked`, `Packed`.
    pub ret: Option<Type>,
    /// Where it was written.
    pub span: Span,
}

/// A branch.
#[derive(Clone, Debug)]
pub struct If {
    /// A rank-0 bool tensor or a bool scalar.
    pub cond: Arg,
    /// Runs when the condition is true.
    pub then_branch: Body,
    /// Runs when the condition is false.
    pub else_branch: Body,
    /// Where it was written.
    pub span: Span,
}

/// A match; the first clause whose pattern matches runs.
#[derive(Clone, Debug)]
pub struct Match {
    /// The value that is matched.
    pub value: Arg,
    /// The clauses, in the order in which they are tried.
    pub clauses: Arc<[Clause]>,
    /// Where it was written.
    pub span: Span,
}

/// One arm of a match.
#[derive(Clone, Debug)]
pub struct Clause {
    /// The pattern of the values for which it runs.
    pub pattern: Pattern,
    /// What it computes; the pattern's variables are in scope.
    pub body: Body,
}

/// A pattern; it may be nested.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Matches any value.
    Wildcard,
    /// Matches any value and binds it to the variable.
    Var(Var),
    /// Matches values of one constructor whose fields match.
    Constructor(Constructor, Arc<[Pattern]>),
    /// Matches a tuple whose fields match.
    Tuple(Arc<[Pattern]>),
}

/// Bindings and a result.
#[derive(Clone, Debug)]
pub struct Body {
    /// Bindings in order, grouped in blocks.
    pub blocks: Arc<[BindingBlock]>,
    /// The result.
    pub ret: Arg,
}

/// Consecutive bindings of a body.
#[derive(Clone, Debug)]
pub struct BindingBlock {
    /// True when all bindings are pure and without control flow (`dataflow`).
    pub dataflow: bool,
    /// The bindings, in order.
    pub bindings: Arc<[Binding]>,
}

/// `let var = value`.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The variable; its type is the type of the value.
    pub var: Var,
    /// The expression that is computed.
    pub value: Expr,
    /// True for `match_cast(value, type of var)`: checked at run time, binds the new symbolic dimensions of the type.
    pub match_cast: bool,
}

/// A graph function, global or local.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name, as a hint for printing and errors.
    pub name: Arc<str>,
    /// Type parameters of a polymorphic function.
    pub type_params: Arc<[crate::ir::TypeParam]>,
    /// Parameters; symbolic dimensions of their types bind on first use.
    pub params: Arc<[Var]>,
    /// The body.
    pub body: Body,
    /// Result type.
    pub ret: Type,
    /// True when calling it has no side effect.
    pub pure: bool,
    /// Attributes.
    pub attrs: Attrs,
    /// Where it was written.
    pub span: Span,
}

impl Arg {
    /// The variable, if it is one.
    pub fn as_var(&self) -> Option<&Var> {
        if let Arg::Var(var) = self { Some(var) } else { None }
    }

    /// The constant, if it is one.
    pub fn as_const(&self) -> Option<&Tensor> {
        if let Arg::Const(tensor) = self { Some(tensor) } else { None }
    }
}

impl Expr {
    /// The bodies of the arms of a branch or match; none for other expressions.
    pub fn bodies(&self) -> Vec<&Body> {
        match self {
            Expr::If(it) => vec![&it.then_branch, &it.else_branch],
            Expr::Match(it) => it.clauses.iter().map(|clause| &clause.body).collect(),
            Expr::Arg(_)
            | Expr::Call(_)
            | Expr::TupleGetItem(..)
            | Expr::Function(_)
            | Expr::RefCreate(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..) => Vec::new(),
        }
    }
}

impl Body {
    /// A body without bindings.
    pub fn value(ret: Arg) -> Body {
        Body { blocks: Arc::new([]), ret }
    }

    /// All bindings in order.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.blocks.iter().flat_map(|block| block.bindings.iter())
    }
}

impl Binding {
    /// `let var = value`.
    pub fn new(var: Var, value: Expr) -> Binding {
        Binding { var, value, match_cast: false }
    }
}

impl Function {
    /// The type of the function.
    pub fn ty(&self) -> crate::ir::FuncType {
        crate::ir::FuncType {
            type_params: self.type_params.clone(),
            params: self.params.iter().map(|param| param.ty().clone()).collect(),
            ret: self.ret.clone(),
            pure: self.pure,
        }
    }
}

impl From<Var> for Arg {
    fn from(var: Var) -> Arg {
        Arg::Var(var)
    }
}

impl From<&Var> for Arg {
    fn from(var: &Var) -> Arg {
        Arg::Var(var.clone())
    }
}

impl From<Tensor> for Arg {
    fn from(tensor: Tensor) -> Arg {
        Arg::Const(tensor)
    }
}

impl From<Arg> for Expr {
    fn from(it: Arg) -> Expr {
        Expr::Arg(it)
    }
}

impl From<Call> for Expr {
    fn from(call: Call) -> Expr {
        Expr::Call(Arc::new(call))
    }
}
