//! Types and extents in error messages, in the syntax of the surface language.

use super::tensor_program::{BinaryOp, PrimExpr, bitwise, comparison, logical};
use super::{TensorShape, Type};

/// `ty` as the user writes it: `Tensor<f32, n, 128>`.
pub fn show_type(ty: &Type) -> String {
    let list = |types: &[Type]| types.iter().map(show_type).collect::<Vec<_>>().join(", ");
    match ty {
        Type::Prim(dtype) => dtype.to_string(),
        Type::Tensor(tensor) => {
            let dtype = tensor.dtype.map_or_else(|| "_".to_string(), |it| it.to_string());
            match &tensor.shape {
                TensorShape::Known(shape) => {
                    let dims = shape.iter().map(|dim| format!(", {}", show_dim(dim)));
                    format!("Tensor<{dtype}{}>", dims.collect::<String>())
                }
                TensorShape::Rank(ndim) => format!("Tensor<{dtype}{}>", ", _".repeat(*ndim)),
                TensorShape::Unknown => format!("TensorDyn<{dtype}>"),
            }
        }
        Type::Shape(shape) => match &shape.values {
            Some(values) => format!("Shape{}", show_dims(values)),
            None => "Shape".to_string(),
        },
        Type::Tuple(fields) => format!("({})", list(fields)),
        Type::Func(func) => format!("fn({}) -> {}", list(&func.params), show_type(&func.ret)),
        Type::Adt(adt) if adt.args.is_empty() => adt.name.to_string(),
        Type::Adt(adt) => format!("{}<{}>", adt.name, list(&adt.args)),
        Type::Ref(inner) => format!("Ref<{}>", show_type(inner)),
        Type::Param(param) => param.0.to_string(),
        Type::Object => "Object".to_string(),
    }
}

/// Extents as `[n, 128]`.
pub fn show_dims(dims: &[PrimExpr]) -> String {
    format!("[{}]", dims.iter().map(show_dim).collect::<Vec<_>>().join(", "))
}

/// One extent: `n * 2 + 1`.
pub fn show_dim(dim: &PrimExpr) -> String {
    match dim {
        PrimExpr::IntImm(it) => it.value.to_string(),
        PrimExpr::Var(var) => var.name().to_string(),
        PrimExpr::Binary(it) => {
            let (sign, level) = match written_as(it.op) {
                Some(found) => found,
                None => {
                    let name = format!("{:?}", it.op).to_lowercase();
                    return format!("{name}({}, {})", show_dim(&it.a), show_dim(&it.b));
                }
            };
            // Parentheses where precedence needs them; at equal precedence, on the right side of any operator but `+`.
            let side = |expr: &PrimExpr, least: u8| match expr {
                PrimExpr::Binary(inner) if written_as(inner.op).is_some_and(|(_, level)| level < least) => {
                    format!("({})", show_dim(expr))
                }
                _ => show_dim(expr),
            };
            let right = if it.op == BinaryOp::Add { level } else { level + 1 };
            format!("{} {sign} {}", side(&it.a, level), side(&it.b, right))
        }
        other => other.to_string(),
    }
}

/// Operator sign and precedence; `None` for an operator that is written as a function.
fn written_as(op: BinaryOp) -> Option<(&'static str, u8)> {
    match op {
        BinaryOp::Add => Some(("+", 1)),
        BinaryOp::Sub => Some(("-", 1)),
        BinaryOp::Mul => Some(("*", 2)),
        BinaryOp::Div | BinaryOp::FloorDiv => Some(("/", 2)),
        BinaryOp::Mod | BinaryOp::FloorMod => Some(("%", 2)),
        BinaryOp::Min | BinaryOp::Max | comparison!() | logical!() | bitwise!() => None,
    }
}
