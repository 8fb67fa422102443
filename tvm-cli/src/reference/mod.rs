//! What runs ONNX models, and whose results ours are compared with: other programs, or this one with other options.

mod onnxruntime;
mod own;

use tvm_runtime::Tensor;

use crate::error::Error;

pub(crate) use onnxruntime::OnnxRuntime;
pub(crate) use own::Own;

/// A program that runs a model.
pub(crate) trait Reference {
    /// The values `names` of the model, for inputs by name.
    ///
    /// # Errors
    /// When the program cannot run the model, or a value is no tensor of numbers.
    fn run(&mut self, names: &[String], inputs: &[(String, Tensor)]) -> Result<Vec<Tensor>, Error>;
}
