//! Type inference of arguments and expressions.
//!
//! An expression's type follows from the types of the variables in it: a binding carries the type of its value, so
//! inference looks at one expression at a time. The type of a body (arm, clause, local function) is that of its result.
//!
//! TVM counterpart: `InferType`, `GetStructInfo`.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::captures::type_dims;
use super::infer_call::infer_call;
use super::infer_match::infer_match;
use super::show_type;
use super::unify::{Unifier, erase_to_well_defined, join};
use crate::ir::{IRModule, IrError, ShapeType, Span, TensorType, Type, Var, VarId};
use crate::relax::{Arg, Body, Expr, Function, If};

/// Type of an argument.
pub fn type_of_arg(arg: &Arg, module: &IRModule) -> Type {
    use crate::ir::BaseFunc;
    match arg {
        Arg::Var(var) => var.ty().clone(),
        Arg::Const(tensor) => Type::Tensor(TensorType::fixed(tensor.shape(), tensor.dtype())),
        Arg::Global(gv) => match module.get(gv) {
            Some(BaseFunc::Relax(func)) => Type::Func(func.ty().into()),
            Some(BaseFunc::Prim(_) | BaseFunc::Extern(_)) | None => Type::Object,
        },
        Arg::Tuple(fields) => Type::Tuple(fields.iter().map(|field| type_of_arg(field, module)).collect()),
        Arg::Shape(values) => {
            Type::Shape(ShapeType { values: Some(values.clone()), ndim: Some(values.len()) })
        }
        Arg::Prim(value) => Type::Prim(value.dtype()),
        Arg::DType(_) | Arg::Str(_) => Type::Object,
    }
}

/// Type of an expression.
///
/// # Errors
/// When it is ill-typed.
pub fn infer_type(expr: &Expr, module: &IRModule) -> Result<Type, IrError> {
    match expr {
        Expr::Arg(arg) => Ok(type_of_arg(arg, module)),
        Expr::Call(call) => infer_call(call, module).map_err(|err| err.at(&call.span)),
        Expr::TupleGetItem(arg, index) => tuple_field(&type_of_arg(arg, module), *index),
        Expr::If(branch) => infer_if(branch, module).map_err(|err| err.at(&branch.span)),
        Expr::Match(it) => infer_match(it, module).map_err(|err| err.at(&it.span)),
        Expr::Function(func) => infer_function(func, module).map_err(|err| err.at(&func.span)),
        Expr::RefCreate(arg) => Ok(Type::Ref(Arc::new(type_of_arg(arg, module)))),
        Expr::RefRead(cell) => cell_type(cell, module),
        Expr::RefWrite(cell, value) => {
            let (inner, value) = (cell_type(cell, module)?, type_of_arg(value, module));
            let stored = Unifier::default().unify(&inner, &value);
            stored.map_err(|why| {
                error(format!(
                    "cannot store {} in a cell of {}: {}",
                    show_type(&value),
                    show_type(&inner),
                    why.0
                ))
            })?;
            Ok(Type::unit())
        }
    }
}

fn tuple_field(ty: &Type, index: usize) -> Result<Type, IrError> {
    match ty {
        Type::Tuple(fields) => fields.get(index).cloned().ok_or_else(|| {
            error(format!("{} has {} fields, there is no field {index}", show_type(ty), fields.len()))
        }),
        Type::Object => Ok(Type::Object),
        _ => Err(error(format!("only a tuple has fields, got {}", show_type(ty)))),
    }
}

fn cell_type(cell: &Arg, module: &IRModule) -> Result<Type, IrError> {
    match type_of_arg(cell, module) {
        Type::Ref(inner) => Ok((*inner).clone()),
        Type::Object => Ok(Type::Object),
        ty => Err(error(format!("expected a mutable cell, got {}", show_type(&ty)))
            .help("make one with `ref_create`")),
    }
}

fn infer_if(branch: &If, module: &IRModule) -> Result<Type, IrError> {
    let cond = type_of_arg(&branch.cond, module);
    let fits = match &cond {
        Type::Tensor(it) => it.ndim().unwrap_or(0) == 0 && it.dtype.is_none_or(|dtype| dtype.is_bool()),
        Type::Prim(dtype) => dtype.is_bool(),
        Type::Object => true,
        _ => false,
    };
    if !fits {
        let message = format!("a condition is Tensor<bool> or bool, got {}", show_type(&cond));
        return Err(error(message).help("reduce the tensor to one bool first"));
    }
    let (a, b) = (infer_body(&branch.then_branch, module), infer_body(&branch.else_branch, module));
    join(&a, &b).map_err(|_| {
        let (a, b) = (show_type(&a), show_type(&b));
        error(format!("the arms of `if` have different types: {a} and {b}"))
            .help("both arms give a value of one element type and structure")
    })
}

fn infer_function(func: &Function, module: &IRModule) -> Result<Type, IrError> {
    let got = infer_body(&func.body, module);
    Unifier::fixed(&func.ret).unify(&func.ret, &got).map_err(|why| {
        let (name, ret, got) = (&func.name, show_type(&func.ret), show_type(&got));
        error(format!("function `{name}` is declared to return {ret}, its body gives {got}: {}", why.0))
    })?;
    Ok(Type::Func(func.ty().into()))
}

/// Type of the result of `body`, without the extents that only its own `match_cast`s define.
pub fn infer_body(body: &Body, module: &IRModule) -> Type {
    let ty = type_of_arg(&body.ret, module);
    let mut own: FxHashSet<VarId> = FxHashSet::default();
    let mut outer: FxHashSet<VarId> = FxHashSet::default();
    for binding in body.bindings() {
        let target = if binding.match_cast { &mut own } else { &mut outer };
        target.extend(type_dims(binding.var.ty()).iter().map(Var::id));
        if binding.match_cast {
            if let Expr::Arg(arg) = &binding.value {
                outer.extend(type_dims(&type_of_arg(arg, module)).iter().map(Var::id));
            }
            own.retain(|var| !outer.contains(var));
        }
        outer.retain(|var| !own.contains(var));
    }
    if own.is_empty() { ty } else { erase_to_well_defined(&ty, &|var| !own.contains(&var)) }
}

pub(super) fn error(message: String) -> IrError {
    IrError::new(message, &Span::none())
}
