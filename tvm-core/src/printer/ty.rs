//! Types.

use super::Printer;
use crate::ir::{FuncType, TensorShape, TensorType, Type};
use crate::tir::PrimExpr;

impl Printer {
    pub(super) fn ty(&mut self, ty: &Type) -> String {
        match ty {
            Type::Prim(dtype) => dtype.to_string(),
            Type::Tensor(it) => self.tensor_type(it),
            Type::Shape(it) => match (&it.values, it.ndim) {
                (Some(values), _) => format!("Shape<{}>", self.extents(values)),
                (None, Some(ndim)) => format!("ShapeRank<{ndim}>"),
                (None, None) => "Shape".to_string(),
            },
            Type::Tuple(fields) => self.tuple(fields),
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

    /// One extent as a generic argument.
    fn extent(&mut self, extent: &PrimExpr) -> String {
        let text = self.index(extent);
        let simple = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if simple { text } else { format!("{{ {text} }}") }
    }

    pub(super) fn extents(&mut self, extents: &[PrimExpr]) -> String {
        extents.iter().map(|extent| self.extent(extent)).collect::<Vec<_>>().join(", ")
    }

    fn tensor_type(&mut self, it: &TensorType) -> String {
        let dtype = it.dtype.map_or("_".to_string(), |dtype| dtype.to_string());
        let device = it.vdevice.map_or(String::new(), |device| format!(" /* on {device} */"));
        match &it.shape {
            TensorShape::Known(shape) if shape.is_empty() => format!("Tensor<{dtype}>{device}"),
            TensorShape::Known(shape) => format!("Tensor<{dtype}, {}>{device}", self.extents(shape)),
            TensorShape::Rank(ndim) => format!("TensorRank<{dtype}, {ndim}>{device}"),
            TensorShape::Unknown => format!("TensorDyn<{dtype}>{device}"),
        }
    }

    fn tuple(&mut self, fields: &[Type]) -> String {
        let fields: Vec<String> = fields.iter().map(|field| self.ty(field)).collect();
        if let [field] = &fields[..] { format!("({field},)") } else { format!("({})", fields.join(", ")) }
    }

    fn func_type(&mut self, it: &FuncType) -> String {
        let params: Vec<String> = it.params.iter().map(|param| self.ty(param)).collect();
        let impure = if it.pure { "" } else { " /* impure */" };
        format!("fn({}) -> {}{impure}", params.join(", "), self.ty(&it.ret))
    }
}
