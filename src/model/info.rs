//! Descriptions of the inputs and outputs of a compiled model.

use std::fmt;

use tvm_runtime::vm::{Executable, Instruction, ValueType, VmFunction};
use tvm_runtime::{DataType, DimBound, DimSig};

/// Name and type of an input or output. `Display` writes both, and the bounds of its dimensions:
/// `image: Tensor<f32, n, 1, 8, 8> where n = 1..=64`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Name in the model.
    pub name: String,
    /// Element type; `None` if it is not known, or the value is no tensor.
    pub dtype: Option<DataType>,
    /// Extents; `None` if the rank is not known, or the value is no tensor.
    pub shape: Option<Vec<DimInfo>>,
    /// The type as a whole.
    pub ty: ValueType,
}

/// One extent of an input or output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DimInfo {
    /// A number, a symbolic dimension, or an expression of symbolic dimensions.
    pub extent: DimSig,
    /// Bounds of a symbolic dimension that has some.
    pub bound: Option<DimBound>,
}

impl TensorInfo {
    fn new(name: String, ty: &ValueType, bounds: &[(&str, DimBound)]) -> TensorInfo {
        let (dtype, shape) = match ty {
            ValueType::Tensor { dtype, shape } => (*dtype, shape.as_deref()),
            _ => (None, None),
        };
        let dim = |extent: &DimSig| {
            let of = |name: &str| bounds.iter().find(|(it, _)| *it == name).map(|(_, bound)| *bound);
            let bound = if let DimSig::Var(name) = extent { of(name) } else { None };
            DimInfo { extent: extent.clone(), bound }
        };
        let shape = shape.map(|shape| shape.iter().map(dim).collect());
        TensorInfo { name, dtype, shape, ty: ty.clone() }
    }

    /// The shape, if all extents are numbers.
    pub fn fixed_shape(&self) -> Option<Vec<i64>> {
        self.shape.as_ref()?.iter().map(|dim| dim.extent.as_const()).collect()
    }
}

impl fmt::Display for TensorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.ty)?;
        let mut known: Vec<&str> = Vec::new();
        for dim in self.shape.iter().flatten() {
            if let (DimSig::Var(name), Some(bound)) = (&dim.extent, dim.bound)
                && !known.contains(&name.as_str())
            {
                f.write_str(if known.is_empty() { " where " } else { ", " })?;
                f.write_str(&bound.source(name))?;
                known.push(name);
            }
        }
        Ok(())
    }
}

/// The inputs and outputs of `func`. Names that the metadata of `exe` lacks are those of the parameters, and `output_0`
/// and so on.
pub(super) fn of_function(exe: &Executable, func: &VmFunction) -> (Vec<TensorInfo>, Vec<TensorInfo>) {
    let bound = |it: &'_ Instruction| match it {
        Instruction::CheckBound { bound, dim, .. } => Some((dim.to_string(), *bound)),
        _ => None,
    };
    let bounds: Vec<(String, DimBound)> = func.code.iter().filter_map(bound).collect();
    let bounds: Vec<(&str, DimBound)> = bounds.iter().map(|(dim, bound)| (dim.as_str(), *bound)).collect();
    let named = |kind: &str, i: usize| {
        let name = if &*func.name == "main" { exe.metadata(&format!("{kind}.{i}")) } else { None };
        name.filter(|name| !name.is_empty()).map(String::from)
    };
    let input = |(i, param): (usize, &tvm_runtime::vm::VmParam)| {
        let name = named("input", i).unwrap_or_else(|| param.name.clone());
        TensorInfo::new(name, &param.ty, &bounds)
    };
    let output = |(i, ty): (usize, &ValueType)| {
        let name = named("output", i).unwrap_or_else(|| format!("output_{i}"));
        TensorInfo::new(name, ty, &bounds)
    };
    let results = match &func.ret {
        ValueType::Tuple(fields) => fields.as_slice(),
        single => std::slice::from_ref(single),
    };
    let inputs = func.params.iter().enumerate().map(input).collect();
    (inputs, results.iter().enumerate().map(output).collect())
}
