//! Models from files: imported and compiled, or loaded from an artifact.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tvm_codegen::{Compiled, for_own_gpu};
use tvm_core::ir::IRModule;
use tvm_core::pass::{PassContext, Precision};
use tvm_core::target::Target;
use tvm_onnx::{DimOption, ImportOptions, ModelFile};
use tvm_runtime::artifact::{ArtifactError, ArtifactInfo};
use tvm_runtime::vm::{CallOptions, Executable, ValueType, Vm, VmConfig};
use tvm_runtime::{Device, RuntimeError, Tensor, ThreadPool, Value, WorkerPool};

use crate::data;
use crate::error::Error;
use crate::progress::Progress;

/// Name of a model's entry point.
pub(crate) const MAIN: &str = "main";

/// A model that is ready to run.
pub(crate) struct Model {
    /// The virtual machine with the program.
    pub(crate) vm: Arc<Vm>,
    /// The programs of its kernels before schedules; none for an artifact.
    pub(crate) programs: IRModule,
    /// Names of the inputs in the model.
    pub(crate) inputs: Vec<String>,
    /// Names of the outputs in the model.
    pub(crate) outputs: Vec<String>,
    /// Element type of each output whose elements are the bits of a type that tvm does not have; empty for the others.
    pub(crate) elements: Vec<String>,
}

/// Options for reading and compiling a model.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Target to compile for: host, c, llvm, interpreter or cuda, optionally followed by options such as -cpu=…; -cpu=x86-64,x86-64-v3,x86-64-v4
    /// compiles kernels for several levels of x86-64, and the machine that runs them takes the highest one that it has; cuda -arch=sm_80,sm_90 compiles an artifact for these architectures of GPUs, and newer ones.
    #[arg(long, default_value = "host")]
    pub(crate) target: Target,
    /// Lets kernels reassociate and contract floats, and assume that there is no NaN and no infinity.
    #[arg(long)]
    pub(crate) fast_math: bool,
    /// The type in which convolutions and products of f32 take their operands: f32, bf16 or f16; with int8-weights and int4-weights, products have weights of integers. Sums stay in f32; `tvmc compare --with f32` says what it costs in accuracy.
    #[arg(long, default_value_t, value_name = "TYPE")]
    pub(crate) precision: Precision,
    /// A symbolic dimension: `n=4` makes it a constant, `n=1..64` bounds it.
    #[arg(long = "dim", value_name = "NAME=N")]
    pub(crate) dims: Vec<Dim>,
    /// Replaces the shape of an input: `image=1x3x224x224`.
    #[arg(long = "shape", value_name = "INPUT=AxBxC")]
    pub(crate) shapes: Vec<Shape>,
    /// The number of elements of an input that is a sequence: `boxes=3`. Its elements are the inputs `boxes[0]` to `boxes[2]`.
    #[arg(long = "sequence", value_name = "INPUT=N")]
    pub(crate) sequences: Vec<Sequence>,
    /// An optional input that is not given.
    #[arg(long, value_name = "INPUT")]
    pub(crate) absent: Vec<String>,
    /// Where a node, or all nodes of an operator, compute: `TopK=cpu` runs them on the host of a GPU target.
    #[arg(long = "place", value_name = "NODE=DEVICE")]
    pub(crate) places: Vec<Place>,
}

/// The place of a node or an operator, given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) device: Device,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let (name, device) = text.rsplit_once('=').ok_or_else(|| format!("`{text}` is not NODE=DEVICE"))?;
        let device = device.parse().map_err(|err| format!("{err}"))?;
        Ok(Place { name: name.to_string(), device })
    }
}

/// The length of a sequence, given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    name: String,
    len: usize,
}

impl FromStr for Sequence {
    type Err = String;

    fn from_str(text: &str) -> Result<Sequence, String> {
        let parsed = text.split_once('=').and_then(|(name, len)| Some((name, len.parse().ok()?)));
        let (name, len) = parsed.ok_or_else(|| format!("`{text}` is not INPUT=NUMBER"))?;
        Ok(Sequence { name: name.to_string(), len })
    }
}

/// A dimension given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Dim {
    pub(crate) name: String,
    pub(crate) spec: DimOption,
}

/// The shape of an input, given on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    name: String,
    extents: Vec<i64>,
}

impl FromStr for Dim {
    type Err = String;

    fn from_str(text: &str) -> Result<Dim, String> {
        let err = || format!("`{text}` is not NAME=NUMBER or NAME=LOW..HIGH");
        let (name, value) = text.split_once('=').ok_or_else(err)?;
        let number = |text: &str| text.trim_start_matches('=').parse::<i64>().map_err(|_| err());
        let spec = match value.split_once("..") {
            Some((low, high)) => DimOption::Range(number(low)?, number(high)?),
            None => DimOption::Fixed(number(value)?),
        };
        spec.bound().map_err(|err| err.to_string())?;
        Ok(Dim { name: name.to_string(), spec })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let err = || format!("`{text}` is not INPUT=AxBxC");
        let (name, extents) = text.rsplit_once('=').ok_or_else(err)?;
        let extents = extents.split('x').filter(|it| !it.is_empty()).map(str::parse);
        let extents: Vec<i64> = extents.collect::<Result<_, _>>().map_err(|_| err())?;
        if extents.iter().any(|&it| it < 0) {
            return Err(err());
        }
        Ok(Shape { name: name.to_string(), extents })
    }
}

/// The number of threads.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Threads {
    /// Number of threads that run kernels; by default one for each physical core, or TVM_NUM_THREADS.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

impl Threads {
    /// The number, if one is given.
    pub(crate) fn number(self) -> Option<u32> {
        self.threads
    }

    /// A configuration with a pool of this many threads, or the default one.
    pub(crate) fn config(self) -> VmConfig {
        let pool = self.threads.map(|it| Arc::new(WorkerPool::new(it as usize)) as Arc<dyn ThreadPool>);
        VmConfig { pool, ..VmConfig::default() }
    }
}

impl Options {
    /// Converts to the options of the importer.
    pub(crate) fn import(&self) -> ImportOptions {
        let mut options = ImportOptions::default();
        options.dims.extend(self.dims.iter().map(|it| (it.name.clone(), it.spec)));
        options.shapes.extend(self.shapes.iter().map(|it| (it.name.clone(), it.extents.clone())));
        options.sequences.extend(self.sequences.iter().map(|it| (it.name.clone(), it.len)));
        options.absent.extend(self.absent.iter().cloned());
        options.places.extend(self.places.iter().map(|it| (it.name.clone(), it.device)));
        options
    }

    /// True if there are options for the import of a model.
    pub(crate) fn for_import(&self) -> bool {
        self.import() != ImportOptions::default()
    }

    /// The least extent that each dimension may have.
    pub(crate) fn least_extents(&self) -> HashMap<String, i64> {
        let least = |spec: DimOption| match spec {
            DimOption::Fixed(value) => value,
            DimOption::Range(low, high) => low.max(1).min(high),
        };
        self.dims.iter().map(|it| (it.name.clone(), least(it.spec))).collect()
    }

    /// The dimensions that stay symbolic, as `--dim` takes them.
    pub(crate) fn ranges(&self) -> Vec<String> {
        let range = |it: &Dim| match it.spec {
            DimOption::Fixed(_) => None,
            DimOption::Range(low, high) => Some(format!("{}={low}..{high}", it.name)),
        };
        self.dims.iter().filter_map(range).collect()
    }

    /// The places of nodes, as `--place` takes them.
    pub(crate) fn places(&self) -> Vec<String> {
        self.places.iter().map(|it| format!("{}={}", it.name, it.device)).collect()
    }

    /// Runs `f` in a context with these options, in which `progress` shows the passes.
    pub(crate) fn scope<R>(&self, progress: &Progress, f: impl FnOnce() -> R) -> R {
        let mut context = PassContext::current();
        context.config.fast_math |= self.fast_math;
        context.config.precision = self.precision.or(context.config.precision);
        context.instruments.push(progress.instrument());
        context.scope(f)
    }

    /// Those of an artifact: none.
    pub(crate) fn for_artifact(target: &Target) -> Options {
        let (dims, shapes, sequences) = (Vec::new(), Vec::new(), Vec::new());
        let (precision, absent, places) = (Precision::Full, Vec::new(), Vec::new());
        Options {
            target: target.clone(),
            fast_math: false,
            precision,
            dims,
            shapes,
            sequences,
            absent,
            places,
        }
    }

    /// Imports and compiles the model at `path`, or loads the artifact there.
    pub(crate) fn load(&self, path: &Path, config: VmConfig) -> Result<Model, Error> {
        let progress = Progress::importing(path);
        self.scope(&progress, || Model::load(path, self, config))
    }
}

/// Content of a file.
pub(crate) enum Content {
    /// A compiled artifact, and what its header says.
    Artifact(Box<Executable>, ArtifactInfo),
    /// Bytes of an ONNX model: everything that is not an artifact is taken for one.
    Onnx(tvm_onnx::Bytes),
}

/// Reads the model or artifact in a file, or from standard input.
pub(crate) fn read(path: &Path) -> Result<Content, Error> {
    let shown = data::show(path);
    if path.is_dir() {
        return Err(Error::failed(format!("{shown} is a directory, expected a model or artifact")));
    }
    let bytes = data::bytes(path)?;
    let info = tvm_runtime::artifact::inspect(&bytes);
    if info.is_err() && path.extension().is_none_or(|it| it != "tvm") {
        return Ok(Content::Onnx(bytes.into()));
    }
    let load = || {
        let exe =
            if data::is_standard(path) { Executable::load(&bytes) } else { Executable::load_file(path) }?;
        Ok((Box::new(exe), info?))
    };
    let (exe, info) = load().map_err(|err: RuntimeError| Error::from(err).context(&shown))?;
    Ok(Content::Artifact(exe, info))
}

/// The directory of a file, which is searched for external data.
pub(crate) fn directory(path: &Path) -> PathBuf {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

/// The ONNX model in a file, whose constants stay there until they are imported. `None` for an artifact and for standard input.
fn model_file(path: &Path) -> Result<Option<ModelFile>, Error> {
    if data::is_standard(path) || path.is_dir() || path.extension().is_some_and(|it| it == "tvm") {
        return Ok(None);
    }
    let mut start = Vec::new();
    fs::File::open(path).and_then(|it| it.take(64).read_to_end(&mut start)).map_err(Error::io(path))?;
    if !matches!(tvm_runtime::artifact::inspect(&start), Err(ArtifactError::Magic)) {
        return Ok(None);
    }
    ModelFile::open(path).map(Some).map_err(Error::file(path))
}

/// Imports the ONNX model in a file; an artifact is returned as it is.
fn imported(path: &Path, options: &ImportOptions) -> Result<Result<IRModule, Box<Executable>>, Error> {
    let module = match model_file(path)? {
        Some(file) => file.import(options),
        // What is no model is an artifact. Its constants stay in the mapped file.
        None if path.is_file() => {
            let exe =
                Executable::load_file(path).map_err(|err| Error::from(err).context(&data::show(path)))?;
            return Ok(Err(Box::new(exe)));
        }
        None => match read(path)? {
            Content::Onnx(bytes) => tvm_onnx::import(bytes, Some(&directory(path)), options),
            Content::Artifact(exe, _) => return Ok(Err(exe)),
        },
    };
    module.map(Ok).map_err(Error::file(path))
}

/// Imports the ONNX model in a file.
pub(crate) fn import(path: &Path, options: &ImportOptions) -> Result<IRModule, Error> {
    let compiled = || Error::failed(format!("{} is compiled already", data::show(path)));
    imported(path, options)?.map_err(|_| compiled())
}

impl Model {
    /// Compiles a module for `target`.
    pub(crate) fn compile(module: IRModule, target: &Target, config: VmConfig) -> Result<Model, Error> {
        let compiled = Compiled::new(module, &for_own_gpu(target))?;
        let main = compiled.io.function(MAIN).cloned().unwrap_or_default();
        let programs = compiled.programs.clone();
        let vm = Arc::new(compiled.into_vm(config)?);
        Ok(Model { vm, programs, inputs: main.inputs, outputs: main.outputs, elements: main.elements })
    }

    /// Loads the artifact in a file, or compiles the model in it.
    fn load(path: &Path, options: &Options, config: VmConfig) -> Result<Model, Error> {
        match imported(path, &options.import())? {
            Ok(module) => Model::compile(module, &options.target, config).map_err(Error::file(path)),
            Err(_) if options.for_import() || options.fast_math || options.precision != Precision::Full => {
                let message = "is compiled already: --dim, --shape, --sequence, --absent, --place, --precision and --fast-math are for models\n  help: give the inputs with --input";
                Err(Error::usage(format!("{} {message}", data::show(path))))
            }
            Err(exe) => {
                let (inputs, outputs) = (metadata_names(&exe, "input"), metadata_names(&exe, "output"));
                let elements = metadata_names(&exe, "element");
                // SAFETY: the user of `tvmc` asks to run this artifact, as one runs a program.
                #[allow(unsafe_code, reason = "see SAFETY")]
                let vm = unsafe { Vm::linked_with_config(*exe, config).map_err(Error::file(path))? };
                Ok(Model { vm: Arc::new(vm), programs: IRModule::new(), inputs, outputs, elements })
            }
        }
    }

    /// Name and type of each parameter.
    pub(crate) fn params(&self) -> Result<Vec<(String, ValueType)>, Error> {
        let main = self.vm.executable().function(MAIN);
        let main = main.ok_or_else(|| Error::failed("there is no function `main`"))?;
        let name = |i: usize, own: &str| self.inputs.get(i).cloned().unwrap_or_else(|| own.to_string());
        Ok(main.params.iter().enumerate().map(|(i, it)| (name(i, &it.name), it.ty.clone())).collect())
    }

    /// Names of `n` outputs.
    pub(crate) fn output_names(&self, n: usize) -> Vec<String> {
        let name = |i: usize| self.outputs.get(i).cloned().unwrap_or_else(|| format!("output_{i}"));
        (0..n).map(name).collect()
    }

    /// Runs the model; returns its outputs in order.
    pub(crate) fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        self.run_with(CallOptions::default(), inputs)
    }

    /// As [`Model::run`]; another thread may cancel it.
    pub(crate) fn run_with(&self, options: CallOptions<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
        let args: Vec<Value> = inputs.iter().map(Value::from).collect();
        tensors(self.vm.invoke_with(options, MAIN, &args)?)
    }
}

/// The tensors in a result, on the host.
pub(crate) fn tensors(result: Value) -> Result<Vec<Tensor>, Error> {
    match result {
        Value::Tensor(tensor) => Ok(vec![tensor.to_device(Device::cpu())?]),
        Value::Adt(tuple) => {
            let field = |it: &Value| Ok(it.try_tensor("an output")?.to_device(Device::cpu())?);
            tuple.fields().iter().map(field).collect()
        }
        other => Err(Error::failed(format!("the result is {}, expected tensors", other.kind()))),
    }
}

/// Names of inputs or outputs in the metadata of an executable.
pub(crate) fn metadata_names(exe: &Executable, kind: &str) -> Vec<String> {
    (0..).map_while(|i| exe.metadata(&format!("{kind}.{i}")).map(String::from)).collect()
}

#[cfg(test)]
mod tests {
    use tvm_core::pass::{Pipelines, prim_func_pass};
    use tvm_core::tir::{Mutator, PrimExpr, PrimFunc};

    use super::*;

    /// Replaces the smallest `f32`, with which a maximum begins, by a large number.
    struct Raise;

    impl Mutator for Raise {
        fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
            match expr {
                PrimExpr::FloatImm(it) if it.value < 0.0 => Some(PrimExpr::float(1e9, it.dtype)),
                _ => self.walk_expr(expr),
            }
        }
    }

    #[test]
    fn pipelines_of_the_context_run() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits_cnn/model.onnx"));
        let module = import(path, &ImportOptions::default()).unwrap();
        let raise = prim_func_pass("test.Raise", |func, _, _| {
            Ok(Raise.mutate_stmt(&func.body).map(|body| PrimFunc { body, ..func.clone() }))
        });
        let image = Tensor::zeros(&[1, 1, 8, 8], tvm_runtime::DataType::F32).unwrap();
        for target in [Target::c(), Target::interpreter()] {
            let compile = || Model::compile(module.clone(), &target, VmConfig::default()).unwrap();
            let default = Pipelines::for_target(&target);
            let tir = default.tir.insert_before("VerifySource", raise.clone()).unwrap();
            let context = PassContext::new().pipelines(Pipelines { tir, ..default });
            let run = |model: Model| model.run(std::slice::from_ref(&image)).unwrap()[0].to_f64s().unwrap();
            assert_ne!(run(compile()), run(context.scope(compile)), "{target}");
        }
    }
}
