//! Other programs that run ONNX models, whose results ours are compared with.

mod onnxruntime;

use tvm_runtime::Tensor;

use crate::error::Error;

pub(crate) use onnxruntime::OnnxRuntime;

/// A program that runs a model.
pub(crate) trait Reference {
    /// The values `names` of the model, for inputs by name.
    ///
    /// # Errors
    /// When the program cannot run the model, or a value is no tensor of numbers.
    fn run(&mut self, names: &[String], inputs: &[(String, Tensor)]) -> Result<Vec<Tensor>, Error>;
}
