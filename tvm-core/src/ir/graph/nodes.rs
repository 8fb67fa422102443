//! The table of the nodes of graph functions and types, and how their fields are visited and rewritten.

use std::sync::Arc;

use smallvec::SmallVec;

use super::mutator::walk_pattern;
use super::*;
use super::{ExprMutator as Mutator, ExprVisitor as Visitor};
use crate::ir::json::NodeReader;
use crate::ir::node::{Fielded, Part, children, nodes, traverse};
use crate::ir::structural::{Field, Fields};
use crate::ir::tensor_program::{PrimExpr, mutate_slice};
use crate::ir::{
    AdtType, Attrs, ConstructorDef, ExternFunc, FuncType, IrError, Op, Span, Type, TypeDef, Var,
};

nodes! {
    derive(traverse)
    Call { span, callee, args, attrs, ret }
    If { span, cond, then_branch, else_branch }
    Match { span, value, clauses }
    Clause { scope { pattern, body } }
    Binding { match_cast, also local_function, value, also dims_of_cast, var by variable }
}

nodes! {
    derive()
    Body { scope { blocks, ret } }
    BindingBlock { dataflow, bindings }
    Function { scope { label name, span, attrs, type_params, also binders, params, ret, pure, body } }
    Constructor { ty as "type_def", name as "constructor", tag }
    ExternFunc { symbol, attrs }
    FuncType { scope { type_params, also dims, params, ret, pure } }
    AdtType { name, args }
    TypeDef { name, params, constructors }
    ConstructorDef { name, fields }
}

/// What is done with a field in traversal and rewriting, by its type. By default nothing.
pub(super) trait Traverse: Clone {
    /// Visits the children in the field.
    fn walk<V: Visitor + ?Sized>(&self, _v: &mut V) {}

    /// Rewrites the children in the field; `None` when none changed.
    fn mutate<M: Mutator + ?Sized>(&self, _m: &mut M) -> Option<Self> {
        None
    }
}

macro_rules! visited {
    ($($ty:ty: $visit:ident $mutate:ident;)*) => {$(
        impl Traverse for $ty {
            fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
                v.$visit(self);
            }

            fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<$ty> {
                m.$mutate(self)
            }
        }
    )*};
}

visited! {
    Arg: visit_arg mutate_arg;
    Body: visit_body mutate_body;
    Expr: visit_expr mutate_expr;
    Var: visit_var_def mutate_var_def;
}

impl Traverse for Arc<[Arg]> {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        self.iter().for_each(|arg| v.visit_arg(arg));
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Arc<[Arg]>> {
        m.mutate_args(self)
    }
}

impl Traverse for Arc<[Clause]> {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        self.iter().for_each(|clause| clause.walk(v));
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Arc<[Clause]>> {
        mutate_slice(self, |clause| clause.mutate(m))
    }
}

impl Traverse for Pattern {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        visitor::walk_pattern(v, self);
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Pattern> {
        walk_pattern(m, self)
    }
}

impl Traverse for Option<Type> {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        self.iter().for_each(|ty| v.visit_type(ty));
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Option<Type>> {
        self.as_ref().and_then(|ty| m.mutate_type(ty)).map(Some)
    }
}

/// The callee counts as an argument where it is a value or a function of the module that is called directly.
impl Traverse for Callee {
    fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
        self.as_arg().iter().for_each(|arg| v.visit_arg(arg));
    }

    fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<Callee> {
        match m.mutate_arg(&self.as_arg()?)? {
            Arg::Var(var) => Some(Callee::Var(var)),
            Arg::Global(gv) => Some(Callee::Global(gv)),
            // Nothing else can be called, so the callee stays as it was.
            Arg::Const(_) | Arg::Tuple(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => {
                None
            }
        }
    }
}

impl Callee {
    fn as_arg(&self) -> Option<Arg> {
        match self {
            Callee::Var(var) => Some(Arg::Var(var.clone())),
            Callee::Global(gv) => Some(Arg::Global(gv.clone())),
            Callee::Op(_)
            | Callee::Tir(_)
            | Callee::TirInplace(_)
            | Callee::DpsPacked(_)
            | Callee::Packed(_)
            | Callee::Constructor(_) => None,
        }
    }
}

impl Traverse for bool {}
impl Traverse for Attrs {}
impl Traverse for Span {}

children!(Arg Body BindingBlock Binding Clause Expr Pattern ConstructorDef);

/// What the callee is follows from the kind of the node.
impl Part for Callee {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        let field = match self {
            Callee::Op(it) => Field::Str(it.def().name),
            Callee::Global(it) | Callee::Tir(it) | Callee::TirInplace(it) => Field::Global(it),
            Callee::Var(it) => Field::UseVar(it),
            Callee::DpsPacked(it) | Callee::Packed(it) => Field::Str(it),
            Callee::Constructor(it) => return it.collect_fields(fields),
        };
        fields.field(name, field);
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Callee, IrError> {
        Ok(match node.str("kind")? {
            "CallOp" => Callee::Op(Op::get(node.str(name)?)?),
            "CallGlobal" => Callee::Global(node.global(name)?),
            "CallVar" => Callee::Var(node.child(name)?),
            "CallTir" => Callee::Tir(node.global(name)?),
            "CallTirInplace" => Callee::TirInplace(node.global(name)?),
            "CallDpsPacked" => Callee::DpsPacked(node.str(name)?.into()),
            "CallPacked" => Callee::Packed(node.str(name)?.into()),
            "CallConstructor" => Callee::Constructor(Constructor::read_fields(node)?),
            other => return Err(node.error(format!("unknown kind `{other}`"))),
        })
    }
}

/// The parameters of a function: [`Function::binders`] has bound the scalars.
impl Part for Arc<[Var]> {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        let param = |param| if is_scalar(param) { Field::UseVar(param) } else { Field::Node(param.into()) };
        fields.items(name, self.iter().map(param));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Arc<[Var]>, IrError> {
        node.list(name)
    }
}

impl Binding {
    fn is_local_function(&self) -> bool {
        matches!(self.value, Expr::Function(_))
    }

    /// The variable of a local function is bound before the function, which may call itself.
    fn local_function<'a>(&'a self, fields: &mut Fields<'a>) {
        if self.is_local_function() {
            fields.node("var", &self.var);
        }
    }

    fn dims_of_cast<'a>(&'a self, fields: &mut Fields<'a>) {
        if self.match_cast {
            type_dims(std::iter::once(self.var.ty()), fields);
        }
    }

    fn variable<'a>(&'a self, fields: &mut Fields<'a>) {
        if !self.is_local_function() {
            fields.node("var", &self.var);
        }
    }
}

impl Function {
    /// Scalars bind first, then dimensions, then the other parameters, as in tensor programs.
    fn binders<'a>(&'a self, fields: &mut Fields<'a>) {
        let scalars = self.params.iter().filter(|param| is_scalar(param));
        fields.items("scalars", scalars.map(|param| Field::Node(param.into())));
        type_dims(self.params.iter().map(Var::ty), fields);
    }
}

fn is_scalar(param: &Var) -> bool {
    matches!(param.ty(), Type::Prim(_))
}

impl FuncType {
    fn dims<'a>(&'a self, fields: &mut Fields<'a>) {
        type_dims(self.params.iter(), fields);
    }
}

/// Adds the dimensions that `types` bind.
fn type_dims<'a>(types: impl Iterator<Item = &'a Type>, fields: &mut Fields<'a>) {
    let mut extents = SmallVec::new();
    types.for_each(|ty| type_extents(ty, &mut extents));
    fields.dims(extents.into_iter());
}

/// Collects the extents of `ty` that may bind dimensions: those of tensors and shapes, also inside tuples.
fn type_extents<'a>(ty: &'a Type, out: &mut SmallVec<[&'a PrimExpr; 8]>) {
    match ty {
        Type::Tensor(it) => out.extend(it.known_shape().unwrap_or_default()),
        Type::Shape(it) => out.extend(it.values.iter().flat_map(|values| values.iter())),
        Type::Tuple(fields) => fields.iter().for_each(|field| type_extents(field, out)),
        Type::Prim(_) | Type::Func(_) | Type::Adt(_) | Type::Ref(_) | Type::Param(_) | Type::Object => {}
    }
}
