//! A call of a compiled model that is captured once, and then costs one launch on a GPU.

use std::fmt;
use std::sync::Arc;

use tvm_runtime::vm::CapturedCall;
use tvm_runtime::{Device, Value};

use super::compiled::CompiledModel;
use super::info::TensorInfo;
use super::inputs::Inputs;
use super::outputs::Outputs;
use super::{ModelError, check};

/// A call of a model for inputs of the shapes that it was captured with; see [`CapturedCall`].
pub struct CapturedModel {
    call: CapturedCall,
    inputs: Arc<[TensorInfo]>,
    outputs: Arc<[TensorInfo]>,
}

impl CompiledModel {
    /// Runs the model once, and captures what it does on its GPU: later runs of the result are one launch there, with other elements of
    /// inputs of the same shapes. On a CPU, they are plain runs that keep their memory.
    ///
    /// ```
    /// use tvm::prelude::*;
    ///
    /// # fn main() -> Result<(), tvm::ModelError> {
    /// let model = Model::onnx("examples/data/digits_cnn/model.onnx")?.threads(1).compile()?;
    /// let image = Tensor::zeros(&[1, 1, 8, 8], DataType::F32)?;
    /// let mut captured = model.capture(&image)?;
    /// let outputs = captured.run(&image)?;
    /// assert_eq!(outputs[0].shape(), [1, 10]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`CompiledModel::run`], and [`RuntimeError::Capture`](crate::RuntimeError::Capture) when the model needs the host in
    /// the middle.
    pub fn capture(&self, inputs: impl Inputs) -> Result<CapturedModel, ModelError> {
        let args: Vec<Value> = check::bind(&self.inputs, inputs.list())?;
        let call = self.vm.capture(&self.entry, args)?;
        Ok(CapturedModel { call, inputs: self.inputs.clone(), outputs: self.outputs.clone() })
    }
}

impl CapturedModel {
    /// Runs the model with other inputs of the shapes that it was captured with. The outputs are on the host.
    ///
    /// # Errors
    /// As for [`CompiledModel::run`], and [`RuntimeError::CapturedArg`](crate::RuntimeError::CapturedArg) for other shapes.
    pub fn run(&mut self, inputs: impl Inputs) -> Result<Outputs, ModelError> {
        let args: Vec<Value> = check::bind(&self.inputs, inputs.list())?;
        Outputs::new(self.outputs.clone(), self.call.run_to(Device::cpu(), args)?)
    }

    /// The call of the virtual machine, whose results may stay on the GPU.
    pub fn call(&mut self) -> &mut CapturedCall {
        &mut self.call
    }
}

impl fmt::Debug for CapturedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapturedModel").field("call", &self.call).finish_non_exhaustive()
    }
}
