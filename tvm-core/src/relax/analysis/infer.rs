//! Type inference of arguments and expressions.
//!
//! TVM counterpart: `InferType`, `GetStructInfo`.

use crate::ir::{IRModule, InferContext, IrError, Span, Type};
use crate::relax::{Arg, Call, Callee, Expr};

/// Type of an argument.
pub fn type_of_arg(arg: &Arg, module: &IRModule) -> Type {
    use crate::ir::{BaseFunc, ShapeType, TensorType};
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
        Expr::Call(call) => infer_call(call, module),
        Expr::TupleGetItem(arg, index) => {
            let ty = type_of_arg(arg, module);
            let fields =
                ty.as_tuple().ok_or_else(|| IrError::new("only a tuple has fields", &Span::none()))?;
            fields.get(*index).cloned().ok_or_else(|| {
                let message = format!("a tuple of {} fields has no field {index}", fields.len());
                IrError::new(message, &Span::none())
            })
        }
        Expr::If(_)
        | Expr::Match(_)
        | Expr::Function(_)
        | Expr::RefCreate(_)
        | Expr::RefRead(_)
        | Expr::RefWrite(..) => Ok(Type::Object),
    }
}

fn infer_call(call: &Call, module: &IRModule) -> Result<Type, IrError> {
    match &call.callee {
        Callee::Op(op) => {
            let types: Vec<Type> = call.args.iter().map(|arg| type_of_arg(arg, module)).collect();
            (op.infer)(&InferContext {
                op: *op,
                args: &call.args,
                types: &types,
                attrs: &call.attrs,
                span: &call.span,
            })
            .map_err(|err| err.at(&call.span))
        }
        Callee::Tir(_) | Callee::DpsPacked(_) | Callee::Packed(_) => {
            Ok(call.ret.clone().unwrap_or(Type::Object))
        }
        Callee::Global(_) | Callee::Var(_) | Callee::Constructor(_) => Ok(Type::Object),
    }
}
