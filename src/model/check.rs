//! Checks of the inputs of a call against the model, and inputs that are made up.
//!
//! Ensures: number, names, element types, ranks, extents and bounds of dimensions fit. Extents that are expressions are
//! left to the virtual machine.

use tvm_runtime::vm::ValueType;
use tvm_runtime::{DataType, DimSig, RuntimeError, Tensor, Value};

use super::info::TensorInfo;
use super::inputs::{Input, InputList};
use super::{DimInfo, ModelError};

/// The values of `inputs` in the order of the model.
pub(super) fn bind(infos: &[TensorInfo], inputs: InputList) -> Result<Vec<Value>, ModelError> {
    let text = |infos: &[TensorInfo]| infos.iter().map(ToString::to_string).collect::<Vec<_>>();
    let InputList(given) = inputs;
    let by_name = given.iter().any(|(name, _)| name.is_some());
    let mut ordered: Vec<Option<Input>> = infos.iter().map(|_| None).collect();
    if !by_name && given.len() != infos.len() {
        return Err(ModelError::InputCount { inputs: text(infos), got: given.len() });
    }
    for (i, (name, input)) in given.into_iter().enumerate() {
        // Beside named inputs, one without a name stands at its position.
        let index = match &name {
            None => i,
            Some(name) => infos.iter().position(|info| info.name == *name).ok_or_else(|| {
                let inputs = infos.iter().map(|info| info.name.clone()).collect();
                ModelError::UnknownInput { name: name.clone(), inputs }
            })?,
        };
        let Some(slot) = ordered.get_mut(index) else {
            return Err(ModelError::InputCount { inputs: text(infos), got: i + 1 });
        };
        if slot.replace(input).is_some() {
            return Err(ModelError::InputTwice { input: infos[index].name.clone() });
        }
    }
    let missing = infos.iter().zip(&ordered).filter(|(_, it)| it.is_none()).map(|(info, _)| info.to_string());
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() {
        return Err(ModelError::MissingInputs { inputs: missing });
    }
    let mut dims = Vec::new();
    let mut values = Vec::with_capacity(infos.len());
    for (info, input) in infos.iter().zip(ordered.into_iter().flatten()) {
        let bad = |err: RuntimeError| ModelError::InputData { input: info.name.clone(), source: err.into() };
        let value = number(info, input.0.map_err(bad)?)?;
        check(info, &value, &mut dims)?;
        values.push(value);
    }
    Ok(values)
}

/// `value` as a number, if the input is a scalar parameter; a tensor of rank 0 stands for its element.
fn number(info: &TensorInfo, value: Value) -> Result<Value, ModelError> {
    let float = match info.ty {
        ValueType::Int => false,
        ValueType::Float => true,
        _ => return Ok(value),
    };
    let got = match &value {
        Value::Int(_) if !float => return Ok(value),
        Value::Float(_) if float => return Ok(value),
        Value::Tensor(tensor) if tensor.rank() == 0 && tensor.dtype().is_float() == float => {
            return Ok(tensor.read_scalar()?);
        }
        Value::Tensor(tensor) => format!("a tensor of shape {:?} of {}", tensor.shape(), tensor.dtype()),
        other => other.kind().to_string(),
    };
    Err(ModelError::InputNumber { input: info.to_string(), got })
}

/// A symbolic dimension that an input has bound.
type Bound<'a> = (&'a str, i64, &'a str);

fn check<'a>(info: &'a TensorInfo, value: &Value, dims: &mut Vec<Bound<'a>>) -> Result<(), ModelError> {
    let (Some(shape), Some(dtype)) = (&info.shape, info.dtype) else { return Ok(()) };
    let input = || info.name.clone();
    let Some(tensor) = value.as_tensor() else {
        return Err(ModelError::InputKind { input: info.to_string(), got: value.kind() });
    };
    if tensor.dtype() != dtype {
        return Err(ModelError::InputDType { input: input(), expected: dtype, got: tensor.dtype() });
    }
    if tensor.rank() != shape.len() {
        let (expected, got) = (shape.len(), tensor.shape().to_vec());
        return Err(ModelError::InputRank { input: info.to_string(), expected, got });
    }
    for (axis, (dim, &got)) in shape.iter().zip(tensor.shape()).enumerate() {
        let (expected, origin) = match &dim.extent {
            DimSig::Const(extent) => (*extent, None),
            DimSig::Expr(_) => continue,
            DimSig::Var(name) => {
                if let Some(bound) = dim.bound.filter(|it| !it.contains(got)) {
                    let (dim, expected) = (name.clone(), bound);
                    return Err(ModelError::InputBound { input: input(), axis, dim, expected, got });
                }
                let Some(&(_, extent, by)) = dims.iter().find(|(it, ..)| it == name) else {
                    dims.push((name, got, &info.name));
                    continue;
                };
                (extent, Some((name.clone(), by.to_string())))
            }
        };
        if expected != got {
            return Err(ModelError::InputExtent { input: input(), axis, expected, got, dim: origin });
        }
    }
    Ok(())
}

/// Largest extent that is made up for a dimension without a maximum.
const MADE_UP: i64 = 16;

/// Zeros as inputs. A symbolic dimension is its maximum if that is at most 16, else the least allowed value.
pub(super) fn zeros(infos: &[TensorInfo]) -> Result<Vec<Tensor>, ModelError> {
    let zeros = |info: &TensorInfo| {
        let made_up = || ModelError::MadeUp { input: info.to_string() };
        let extent = |dim: &DimInfo| match &dim.extent {
            DimSig::Const(extent) => Some(*extent),
            DimSig::Expr(_) => None,
            DimSig::Var(_) => Some(match dim.bound {
                None => 1,
                Some(bound) => bound
                    .max()
                    .filter(|&max| max <= MADE_UP)
                    .or_else(|| (1..=MADE_UP).find(|&it| bound.contains(it)))
                    .unwrap_or(bound.min()),
            }),
        };
        let shape: Option<Vec<i64>> = info.shape.as_ref().ok_or_else(made_up)?.iter().map(extent).collect();
        let dtype: DataType = info.dtype.ok_or_else(made_up)?;
        Ok(Tensor::zeros(&shape.ok_or_else(made_up)?, dtype)?)
    };
    infos.iter().map(zeros).collect()
}
