//! Typed calls of linked models: what the wrappers that `tvm-build` generates are made of.
//!
//! Shapes are checked here, once per call and before anything runs, against the signature in the artifact and the bounds
//! that the model was compiled for.

mod input;
mod typed;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::dtype::Element;
use crate::error::RuntimeError;
use crate::kernel::DimSig;
use crate::module::{DimBound, LinkedModel};
use crate::tensor::Tensor;
use crate::value::Value;
use crate::vm::{ValueType, Vm, VmFunction};

pub use input::{ModelInput, ShapeOf};
pub use typed::TypedTensor;

/// A typed call of a graph function: its arguments are given one by one, in the order of the parameters, and checked
/// against its signature.
pub struct ModelCall<'a> {
    vm: &'a Vm,
    bounds: &'static [DimBound],
    func: &'a VmFunction,
    /// Symbolic dimensions bound by the arguments so far.
    dims: SmallVec<[(&'a str, i64); 4]>,
    args: SmallVec<[Value; 4]>,
}

/// The results of a call, taken one by one.
pub struct ModelOutputs {
    func: Arc<str>,
    values: std::vec::IntoIter<Value>,
}

impl LinkedModel {
    /// Begins a call of the entry point `name`.
    #[doc(hidden)]
    pub fn call(&self, name: &str) -> Result<ModelCall<'_>, RuntimeError> {
        self.vm.call(name).map(|call| ModelCall { bounds: self.bounds, ..call })
    }
}

impl Vm {
    /// Begins a typed call of the function `name`: `vm.call("main")?.input::<f32, 2>(&x)?.run()?.typed::<f32, 2>()?`.
    ///
    /// # Errors
    /// When there is no such function.
    pub fn call(&self, name: &str) -> Result<ModelCall<'_>, RuntimeError> {
        let func = self.functions().find(|func| &*func.name == name);
        let func =
            func.ok_or_else(|| RuntimeError::NotFound { what: "function", names: vec![name.into()] })?;
        Ok(ModelCall { vm: self, bounds: &[], func, dims: SmallVec::new(), args: SmallVec::new() })
    }
}

impl<'a> ModelCall<'a> {
    /// The next argument, a tensor of known type and rank.
    pub fn input<T: Element, const RANK: usize>(
        mut self,
        input: impl ModelInput<T, RANK>,
    ) -> Result<ModelCall<'a>, RuntimeError> {
        let Some(param) = self.func.params.get(self.args.len()) else { return Ok(self.value(Value::Null)) };
        let dims: &[DimSig] = match &param.ty {
            ValueType::Tensor { shape: Some(shape), .. } => shape,
            _ => &[],
        };
        let of = ShapeOf { func: &self.func.name, param, dims, bound: &self.dims };
        let tensor = input.into_tensor(&of)?;
        let (func, arg) = (|| self.func.name.clone(), || Arc::from(param.name.as_str()));
        if tensor.dtype() != T::DTYPE {
            let got = tensor.dtype().to_string().into();
            return Err(RuntimeError::ArgDType { func: func(), arg: arg(), expected: T::DTYPE, got });
        }
        if tensor.rank() != RANK {
            let (expected, got) = (RANK as i64, tensor.rank() as i64);
            return Err(RuntimeError::ArgRank { func: func(), arg: arg(), expected, got });
        }
        for (axis, (dim, &got)) in dims.iter().zip(tensor.shape()).enumerate() {
            let axis = axis as i64;
            let expected = match dim {
                DimSig::Const(extent) => Some(*extent),
                DimSig::Var(name) => self.dims.iter().find(|(bound, _)| bound == name).map(|(_, it)| *it),
                DimSig::Expr(_) => Some(got),
            };
            if let (None, DimSig::Var(name)) = (expected, dim) {
                if let Some(&(dim, low, high)) = self.bound(name)
                    && !(low..=high).contains(&got)
                {
                    let (func, arg, dim) = (func(), arg(), Some(dim.into()));
                    let expected = format!("{low}..={high}").into();
                    return Err(RuntimeError::ArgBound { func, arg, axis, dim, expected, got });
                }
                self.dims.push((name, got));
            }
            if let Some(expected) = expected.filter(|&expected| expected != got) {
                let dim = dim.label();
                return Err(RuntimeError::ArgExtent { func: func(), arg: arg(), axis, expected, got, dim });
            }
        }
        Ok(self.value(tensor))
    }

    fn bound(&self, name: &str) -> Option<&'static DimBound> {
        self.bounds.iter().find(|(dim, ..)| *dim == name)
    }

    /// The next argument, of any type.
    #[must_use]
    pub fn value(mut self, value: impl Into<Value>) -> ModelCall<'a> {
        self.args.push(value.into());
        self
    }

    /// Runs the model.
    pub fn run(self) -> Result<ModelOutputs, RuntimeError> {
        let value = self.vm.invoke(&self.func.name, &self.args)?;
        let values = match (&self.func.ret, value) {
            (ValueType::Tuple(_), Value::Adt(tuple)) => tuple.fields().to_vec(),
            (_, value) => vec![value],
        };
        Ok(ModelOutputs { func: self.func.name.clone(), values: values.into_iter() })
    }
}

impl ModelOutputs {
    /// The next result.
    pub fn value(&mut self) -> Result<Value, RuntimeError> {
        self.values.next().ok_or_else(|| RuntimeError::Signature {
            func: self.func.clone(),
            detail: "the program has fewer results than its wrapper; compile the model again".into(),
        })
    }

    /// The next result, a tensor.
    pub fn tensor(&mut self) -> Result<Tensor, RuntimeError> {
        self.value()?.try_into()
    }

    /// The next result, a tensor of known type and rank.
    pub fn typed<T: Element, const RANK: usize>(&mut self) -> Result<TypedTensor<T, RANK>, RuntimeError> {
        self.tensor()?.try_into()
    }
}
