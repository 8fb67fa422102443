//! Fields of types and of the nodes of graph functions.

use smallvec::SmallVec;

use super::{Field, Fields};
use crate::ir::graph::*;
use crate::ir::tensor_program::PrimExpr;
use crate::ir::{TensorShape, Type, Var};

pub(super) fn type_kind(ty: &Type) -> &'static str {
    match ty {
        Type::Prim(_) => "PrimType",
        Type::Tensor(_) => "TensorType",
        Type::Shape(_) => "ShapeType",
        Type::Tuple(_) => "TupleType",
        Type::Func(_) => "FuncType",
        Type::Adt(_) => "AdtType",
        Type::Ref(_) => "RefType",
        Type::Param(_) => "TypeParam",
        Type::Object => "ObjectType",
    }
}

pub(super) fn arg_kind(arg: &Arg) -> &'static str {
    match arg {
        Arg::Var(_) => "ArgVar",
        Arg::Const(_) => "Constant",
        Arg::Global(_) => "GlobalVar",
        Arg::Tuple(_) => "Tuple",
        Arg::Shape(_) => "ShapeExpr",
        Arg::Prim(_) => "PrimValue",
        Arg::DType(_) => "DataTypeImm",
        Arg::Str(_) => "ArgString",
    }
}

pub(super) fn expr_kind(expr: &Expr) -> &'static str {
    match expr {
        Expr::Arg(_) => "Arg",
        Expr::Call(it) => match it.callee {
            Callee::Op(_) => "CallOp",
            Callee::Global(_) => "CallGlobal",
            Callee::Var(_) => "CallVar",
            Callee::Tir(_) => "CallTir",
            Callee::TirInplace(_) => "CallTirInplace",
            Callee::DpsPacked(_) => "CallDpsPacked",
            Callee::Packed(_) => "CallPacked",
            Callee::Constructor(_) => "CallConstructor",
        },
        Expr::TupleGetItem(..) => "TupleGetItem",
        Expr::If(_) => "If",
        Expr::Match(_) => "Match",
        Expr::Function(_) => "FunctionExpr",
        Expr::RefCreate(_) => "RefCreate",
        Expr::RefRead(_) => "RefRead",
        Expr::RefWrite(..) => "RefWrite",
    }
}

pub(super) fn pattern_kind(pattern: &Pattern) -> &'static str {
    match pattern {
        Pattern::Wildcard => "PatternWildcard",
        Pattern::Var(_) => "PatternVar",
        Pattern::Constructor(..) => "PatternConstructor",
        Pattern::Tuple(_) => "PatternTuple",
    }
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

impl<'a> Fields<'a> {
    fn type_dims(&mut self, types: impl Iterator<Item = &'a Type>) {
        let mut extents = SmallVec::new();
        types.for_each(|ty| type_extents(ty, &mut extents));
        self.dims(extents.into_iter());
    }

    pub(super) fn ty(&mut self, ty: &'a Type) {
        match ty {
            Type::Prim(dtype) => self.field("dtype", Field::DType(*dtype)),
            Type::Tensor(it) => {
                self.field("known", Field::Int(it.known_shape().is_some().into()));
                match &it.shape {
                    TensorShape::Known(shape) => self.list("shape", shape),
                    TensorShape::Rank(ndim) => self.field("ndim", Field::Int(*ndim as i64)),
                    TensorShape::Unknown => {}
                }
                if let Some(dtype) = it.dtype {
                    self.field("dtype", Field::DType(dtype));
                }
                if let Some(device) = it.vdevice {
                    self.field("vdevice", Field::Device(device));
                }
            }
            Type::Shape(it) => {
                self.field("known", Field::Int(it.values.is_some().into()));
                if let Some(values) = &it.values {
                    self.list("values", values);
                }
                if let Some(ndim) = it.ndim {
                    self.field("ndim", Field::Int(ndim as i64));
                }
            }
            Type::Tuple(fields) => self.list("fields", fields),
            Type::Func(it) => self.scope(|f| {
                f.items("type_params", it.type_params.iter().map(|param| Field::Str(&param.0)));
                f.type_dims(it.params.iter());
                f.list("params", &it.params);
                f.node("ret", &it.ret);
                f.field("pure", Field::Int(it.pure.into()));
            }),
            Type::Adt(it) => {
                self.field("name", Field::Str(&it.name));
                self.list("args", &it.args);
            }
            Type::Ref(it) => self.node("value", &**it),
            Type::Param(it) => self.field("name", Field::Str(&it.0)),
            Type::Object => {}
        }
    }

    pub(super) fn arg(&mut self, arg: &'a Arg) {
        match arg {
            Arg::Var(it) => self.field("var", Field::UseVar(it)),
            Arg::Const(it) => self.field("data", Field::Tensor(it)),
            Arg::Global(it) => self.field("name", Field::Global(it)),
            Arg::Tuple(it) => self.list("fields", it),
            Arg::Shape(it) => self.list("values", it),
            Arg::Prim(it) => self.node("value", it),
            Arg::DType(it) => self.field("value", Field::DType(*it)),
            Arg::Str(it) => self.field("value", Field::Str(it)),
        }
    }

    fn constructor(&mut self, constructor: &'a Constructor) {
        self.field("type_def", Field::Str(&constructor.ty));
        self.field("constructor", Field::Str(&constructor.name));
        self.field("tag", Field::Int(constructor.tag as i64));
    }

    fn call(&mut self, call: &'a Call) {
        self.field("span", Field::Span(&call.span));
        match &call.callee {
            Callee::Op(it) => self.field("callee", Field::Str(it.def().name)),
            Callee::Global(it) | Callee::Tir(it) | Callee::TirInplace(it) => {
                self.field("callee", Field::Global(it));
            }
            Callee::Var(it) => self.field("callee", Field::UseVar(it)),
            Callee::DpsPacked(it) | Callee::Packed(it) => self.field("callee", Field::Str(it)),
            Callee::Constructor(it) => self.constructor(it),
        }
        self.list("args", &call.args);
        self.field("attrs", Field::Attrs(&call.attrs));
        self.option("ret", call.ret.as_ref());
    }

    pub(super) fn relax_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Arg(it) => self.node("value", it),
            Expr::Call(it) => self.call(it),
            Expr::TupleGetItem(tuple, index) => {
                self.node("tuple", tuple);
                self.field("index", Field::Int(*index as i64));
            }
            Expr::If(it) => {
                self.field("span", Field::Span(&it.span));
                self.node("cond", &it.cond);
                self.node("then_branch", &it.then_branch);
                self.node("else_branch", &it.else_branch);
            }
            Expr::Match(it) => {
                self.field("span", Field::Span(&it.span));
                self.node("value", &it.value);
                self.list("clauses", &it.clauses);
            }
            Expr::Function(it) => self.function(it),
            Expr::RefCreate(value) => self.node("value", value),
            Expr::RefRead(cell) => self.node("cell", cell),
            Expr::RefWrite(cell, value) => {
                self.node("cell", cell);
                self.node("value", value);
            }
        }
    }

    /// The variable of a local function is bound before the function, which may call itself.
    pub(super) fn binding(&mut self, binding: &'a Binding) {
        self.field("match_cast", Field::Int(binding.match_cast.into()));
        let recursive = matches!(binding.value, Expr::Function(_));
        if recursive {
            self.node("var", &binding.var);
        }
        self.node("value", &binding.value);
        if binding.match_cast {
            self.type_dims(std::iter::once(binding.var.ty()));
        }
        if !recursive {
            self.node("var", &binding.var);
        }
    }

    pub(super) fn pattern(&mut self, pattern: &'a Pattern) {
        match pattern {
            Pattern::Wildcard => {}
            Pattern::Var(it) => self.node("var", it),
            Pattern::Constructor(constructor, fields) => {
                self.constructor(constructor);
                self.list("fields", fields);
            }
            Pattern::Tuple(fields) => self.list("fields", fields),
        }
    }

    /// Scalars bind first, then dimensions, then the other parameters, as in tensor programs.
    pub(super) fn function(&mut self, func: &'a Function) {
        let scalar = |param: &&Var| matches!(param.ty(), Type::Prim(_));
        self.scope(|f| {
            f.field("name", Field::Name(&func.name));
            f.field("span", Field::Span(&func.span));
            f.field("attrs", Field::Attrs(&func.attrs));
            f.items("type_params", func.type_params.iter().map(|param| Field::Str(&param.0)));
            f.items("scalars", func.params.iter().filter(scalar).map(|param| Field::Node(param.into())));
            f.type_dims(func.params.iter().map(Var::ty));
            let param = |param| if scalar(&param) { Field::UseVar(param) } else { Field::Node(param.into()) };
            f.items("params", func.params.iter().map(param));
            f.node("ret", &func.ret);
            f.field("pure", Field::Int(func.pure.into()));
            f.node("body", &func.body);
        });
    }
}
