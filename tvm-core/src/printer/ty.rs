//! Printing types.

use super::Printer;
use crate::ir::{FuncType, TensorShape, TensorType, Type};

impl Printer {
    pub(super) fn ty(&mut self, ty: &Type) -> String {
        match ty {
            Type::Prim(dtype) => dtype.to_string(),
            Type::Tensor(it) => self.tensor_type(it),
            Type::Shape(it) => match (&it.values, it.ndim) {
                (Some(values), _) => format!("Shape<{}>", self.graph_extents(values)),
                (None, Some(ndim)) => format!("ShapeRank<{ndim}>"),
                (None, None) => "Shape".to_string(),
            },
            Type::Tuple(fields) => {
                let fields: Vec<String> = fields.iter().map(|field| self.ty(field)).collect();
                tuple(&fields)
            }
            Type::Func(it) => self.func_type(it),
            Type::Adt(it) if it.args.is_empty() => it.name.to_string(),
            Type::Adt(it) => {
                let args: Vec<String> = it.args.iter().map(|arg| self.ty(arg)).collect();
                format!("{}<{}>", it.name, args.join(", "))
            }
            Type::Ref(it) => format!("Ref<{}>", self.ty(it)),
            Type::Param(it) => it.0.to_string(),
            Type::Object => "Object".to_string(),
        }
    }

    fn tensor_type(&mut self, it: &TensorType) -> String {
        let dtype = it.dtype.map_or("_".to_string(), |dtype| dtype.to_string());
        // `on!` is not a valid extent, so it does not compile: the DSL cannot express devices.
        let device =
            it.vdevice.map_or(String::new(), |device| format!(", {{ on!({:?}) }}", device.to_string()));
        match &it.shape {
            TensorShape::Known(shape) if shape.is_empty() => format!("Tensor<{dtype}{device}>"),
            TensorShape::Known(shape) => format!("Tensor<{dtype}, {}{device}>", self.graph_extents(shape)),
            TensorShape::Rank(ndim) => format!("TensorRank<{dtype}, {ndim}{device}>"),
            TensorShape::Unknown => format!("TensorDyn<{dtype}{device}>"),
        }
    }

    fn func_type(&mut self, it: &FuncType) -> String {
        let params: Vec<String> = it.params.iter().map(|param| self.ty(param)).collect();
        // `generic!` is not a valid type, so it does not compile: the DSL has no generic function types.
        let generic: String = it.type_params.iter().map(|param| format!("generic!({}) ", param.0)).collect();
        let text = format!("{generic}fn({}) -> {}", params.join(", "), self.ty(&it.ret));
        if it.pure { text } else { format!("Impure<{text}>") }
    }

    /// A type in an expression position: `Tensor::<f32, n>`.
    pub(super) fn type_arg(&mut self, ty: &Type) -> String {
        match ty {
            Type::Tuple(fields) => {
                let fields: Vec<String> = fields.iter().map(|field| self.type_arg(field)).collect();
                tuple(&fields)
            }
            Type::Func(it) if it.pure => format!("Box::<{}>", self.ty(ty)),
            Type::Func(_)
            | Type::Prim(_)
            | Type::Tensor(_)
            | Type::Shape(_)
            | Type::Adt(_)
            | Type::Ref(_)
            | Type::Param(_)
            | Type::Object => self.ty(ty).replacen('<', "::<", 1),
        }
    }
}

/// A tuple with these fields as Rust source.
pub(super) fn tuple(fields: &[String]) -> String {
    if let [field] = fields { format!("({field},)") } else { format!("({})", fields.join(", ")) }
}
