//! Models in one object: imported or built, compiled, and called with checked inputs by position or by name.
//!
//! Requires: an ONNX model, or a module with a graph function. Ensures: a wrong model, option or input is a typed error
//! that names it; a [`CompiledModel`] may be called by several threads at once.
//!
//! TVM counterpart: `relax.frontend.onnx.from_onnx`, `relax.build` and `relax.VirtualMachine` together.

mod artifact;
mod captured;
mod check;
mod compiled;
mod error;
mod info;
mod inputs;
mod outputs;

use std::fmt;
use std::path::Path;

use tvm_codegen::{Compiled, for_own_gpu};
use tvm_core::ir::IRModule;
use tvm_core::pass::{PassContext, Precision};
use tvm_core::target::Target;
use tvm_onnx::{DimOption, ImportOptions, ModelFile, OnnxError};
use tvm_runtime::Device;
use tvm_runtime::vm::VmConfig;

pub use captured::CapturedModel;
pub use compiled::{CompiledModel, RunOptions};
pub use error::ModelError;
pub use info::{DimInfo, TensorInfo};
pub use inputs::{Input, InputList, Inputs, IntoInput, NamedInput};
pub use outputs::{OutputKey, Outputs};

/// Where a model comes from.
enum Source {
    Onnx(Box<ModelFile>),
    Module(Box<IRModule>),
}

/// A model to be compiled in this process.
///
/// ```
/// use tvm::prelude::*;
///
/// # fn main() -> Result<(), tvm::ModelError> {
/// let model = Model::onnx("examples/data/digits_cnn/model.onnx")?.threads(1).compile()?;
/// let image = Tensor::zeros(&[1, 1, 8, 8], DataType::F32)?;
/// let outputs = model.run(&image)?;
/// assert_eq!(outputs[0].shape(), [1, 10]);
/// # Ok(())
/// # }
/// ```
///
/// The names are those of `tvm_build::Model`, which compiles a model in a build script.
#[must_use = "a model does nothing until `compile` is called"]
pub struct Model {
    source: Source,
    options: ImportOptions,
    target: Target,
    threads: Option<usize>,
    fast_math: bool,
    precision: Precision,
    entry: Option<String>,
    config: VmConfig,
}

impl Model {
    fn new(source: Source) -> Model {
        Model {
            source,
            options: ImportOptions::default(),
            target: Target::host(),
            threads: None,
            fast_math: false,
            precision: Precision::Full,
            entry: None,
            config: VmConfig::default(),
        }
    }

    /// Reads the ONNX model in the file at `path`. External data is read from files beside it.
    ///
    /// # Errors
    /// When the file cannot be read or is no ONNX model.
    pub fn onnx(path: impl AsRef<Path>) -> Result<Model, ModelError> {
        let path = path.as_ref();
        // An error of reading names the file already.
        let onnx = |err: OnnxError| match err {
            OnnxError::Io { .. } => ModelError::from(err),
            err => ModelError::Import { path: Some(path.to_path_buf()), source: err.into() },
        };
        Ok(Model::new(Source::Onnx(Box::new(ModelFile::open(path).map_err(onnx)?))))
    }

    /// Reads the ONNX model in `bytes`. It cannot have external data.
    ///
    /// # Errors
    /// When the bytes are no ONNX model.
    pub fn onnx_bytes(bytes: &[u8]) -> Result<Model, ModelError> {
        Ok(Model::new(Source::Onnx(Box::new(ModelFile::decode(bytes)?))))
    }

    /// Takes a module that was built or imported in another way. Its entry point is `main`, or its only graph function.
    pub fn module(module: IRModule) -> Model {
        Model::new(Source::Module(Box::new(module)))
    }

    /// Fixes a symbolic dimension to a number, or bounds it; each call checks the bounds.
    pub fn dim(mut self, name: &str, spec: impl Into<DimOption>) -> Model {
        self.options = self.options.dim(name, spec.into());
        self
    }

    /// Sets the shape of an input; it replaces the one in the model.
    pub fn shape(mut self, input: &str, shape: &[i64]) -> Model {
        self.options = self.options.shape(input, shape);
        self
    }

    /// Sets the number of elements of an input that is a sequence; element `i` of `x` is the input `x[i]`.
    pub fn sequence(mut self, input: &str, len: usize) -> Model {
        self.options = self.options.sequence(input, len);
        self
    }

    /// Says that an optional input is not given.
    pub fn absent(mut self, input: &str) -> Model {
        self.options = self.options.absent(input);
        self
    }

    /// Says that the node `name`, or else all nodes of the operator `name` (`TopK`), compute on `device`: for a GPU target, on the host
    /// ([`Device::cpu`]), if they are cheap work on small tensors. What they take and give is copied where other nodes need it. Where the
    /// target computes on `device` anyway, nothing changes.
    ///
    /// ```
    /// use tvm::BestTarget;
    /// use tvm::prelude::*;
    ///
    /// # fn main() -> Result<(), tvm::ModelError> {
    /// let model = Model::onnx("examples/data/digits_cnn/model.onnx")?;
    /// let model = model.target(BestTarget::find().target).place("Softmax", Device::cpu()).compile()?;
    /// assert_eq!(model.run(&Tensor::zeros(&[1, 1, 8, 8], DataType::F32)?)?[0].shape(), [1, 10]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn place(mut self, name: &str, device: Device) -> Model {
        self.options = self.options.place(name, device);
        self
    }

    /// Sets what is compiled for. The default is the CPU of this machine.
    pub fn target(mut self, target: Target) -> Model {
        self.target = target;
        self
    }

    /// Sets the number of threads of a call, the calling thread included. The default is the pool of the process
    /// ([`set_thread_pool`](crate::runtime::set_thread_pool)).
    pub fn threads(mut self, threads: usize) -> Model {
        self.threads = Some(threads);
        self
    }

    /// Allows code that reassociates and contracts floats, and assumes that there is no NaN and no infinity.
    pub fn fast_math(mut self, fast_math: bool) -> Model {
        self.fast_math = fast_math;
        self
    }

    /// Sets the type in which convolutions and products of f32 with constant weights take their operands; sums stay in f32. The
    /// default is that of the model.
    pub fn precision(mut self, precision: Precision) -> Model {
        self.precision = precision;
        self
    }

    /// Sets the graph function that is called. The default is `main`, or the only one.
    pub fn entry(mut self, name: impl Into<String>) -> Model {
        self.entry = Some(name.into());
        self
    }

    /// Sets the limits of the virtual machine, and functions and loaders of the application. [`Model::threads`] replaces
    /// the thread pool in it.
    pub fn config(mut self, config: VmConfig) -> Model {
        self.config = config;
        self
    }

    /// Imports and compiles the model; the result is ready to run.
    ///
    /// # Errors
    /// When an option does not fit the model, the model uses unsupported features (all of them are listed), or no code
    /// can be generated.
    pub fn compile(mut self) -> Result<CompiledModel, ModelError> {
        if let Some(threads) = self.threads {
            self.config.pool = Some(compiled::pool(threads)?);
        }
        let module = match self.source {
            Source::Module(module) if self.options == ImportOptions::default() => *module,
            Source::Module(_) => {
                let message = "`dim`, `shape`, `sequence`, `absent` and `place` are options of the import of ONNX models; a module has its shapes, and moves tensors by `to_vdevice`";
                return Err(ModelError::Option { message: message.into() });
            }
            Source::Onnx(file) => {
                let path = file.path().map(Path::to_path_buf);
                file.import(&self.options).map_err(|err| ModelError::Import { path, source: err.into() })?
            }
        };
        let mut context = PassContext::current();
        context.config.fast_math |= self.fast_math;
        context.config.precision = self.precision.or(context.config.precision);
        let compiled = context.clone().scope(|| Compiled::new(module, &for_own_gpu(&self.target)))?;
        let vm = context.clone().scope(|| compiled.clone().into_vm(self.config))?;
        CompiledModel::new(vm, self.entry.as_deref(), Some(artifact::Origin { compiled, context }))
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::Onnx(file) => {
                file.path().map_or_else(|| "bytes".into(), |path| path.display().to_string())
            }
            Source::Module(_) => "module".to_string(),
        };
        f.debug_struct("Model").field("source", &source).field("options", &self.options).finish()
    }
}
