//! The model to compile and its output files.

use std::path::PathBuf;

use tvm_codegen::{CodegenError, KernelUnit};
use tvm_core::ir::IRModule;
use tvm_onnx::{DimOption, ImportOptions, import_file};

use crate::settings::{Settings, builder_words, codegen_error, write};
use crate::wrapper::Wrapper;
use crate::{BuildError, BuildItem, cargo, gpu, names, object};

enum Source {
    Onnx(PathBuf),
    Module(Box<IRModule>),
}

/// A model to be compiled into an application.
#[must_use = "a model does nothing until `compile` is called"]
pub struct Model {
    source: Source,
    name: String,
    options: ImportOptions,
    settings: Settings,
}

/// Files that were written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelFiles {
    /// The wrapper, for `include!`; its paths begin with `tvm_runtime`.
    pub wrapper: PathBuf,
    /// The artifact: bytecode and constants.
    pub artifact: PathBuf,
    /// The artifact for GPUs, with its kernels; `None` if the model was compiled for the CPU alone.
    pub gpu_artifact: Option<PathBuf>,
    /// The static library that contains the kernels.
    pub library: PathBuf,
    /// Number of kernels for the CPU; those of several CPU levels are counted for each.
    pub kernels: usize,
    /// The target that the kernels were compiled for.
    pub target: String,
}

builder_words!(Model);

impl Model {
    fn new(source: Source, name: String) -> Model {
        Model { source, name, options: ImportOptions::default(), settings: Settings::default() }
    }

    /// Selects the ONNX model in the file at `path`, relative to the package. The model is named after the file.
    pub fn onnx(path: impl Into<PathBuf>) -> Model {
        let path = path.into();
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Model::new(Source::Onnx(path), name)
    }

    /// Selects a module that was built or imported in another way; its graph functions are the entry points.
    pub fn module(name: impl Into<String>, module: IRModule) -> Model {
        Model::new(Source::Module(Box::new(module)), name.into())
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

    /// Says that the node `name`, or else all nodes of the operator `name` (`TopK`), compute on `device` in the program for GPUs: on the
    /// host ([`Device::cpu`](crate::Device::cpu)), if they are cheap work on small tensors.
    pub fn place(mut self, name: &str, device: crate::Device) -> Model {
        self.options = self.options.place(name, device);
        self
    }

    /// Compiles the model and writes its files. In a build script, it tells Cargo which files the model depends on and
    /// where the library is, and reports errors as errors of the package, so `?` is enough.
    ///
    /// # Errors
    /// When there is no output directory, the file is not a model, the model uses unsupported features (all of them are
    /// listed), or no code can be generated.
    pub fn compile(self) -> Result<ModelFiles, BuildError> {
        let res = self.run();
        if let Err(err) = &res {
            cargo::error(&err.to_string());
        }
        res
    }

    fn run(self) -> Result<ModelFiles, BuildError> {
        if let Source::Onnx(path) = &self.source {
            cargo::rerun_if_changed(path);
        }
        let item = BuildItem::Model(self.name);
        let dir = self.settings.begin(&item)?;
        let name = item.name();
        let (module, origin) = match self.source {
            Source::Module(module) => (*module, None),
            Source::Onnx(path) => match import_file(&path, &self.options) {
                Ok(module) => {
                    let file = path.file_name().map(|it| it.to_string_lossy().into_owned());
                    (module, file)
                }
                Err(err) => return Err(BuildError::Import { path, source: err.into() }),
            },
        };
        let target = self.settings.target(&item)?;
        let gpu_target = self.settings.gpu_target(&item, &target)?;
        let context = self.settings.context();
        let codegen = |err: CodegenError| codegen_error(&item, err);
        let about = [("model", Some(name.to_string())), ("source", origin.clone())];
        let about = about.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
        let about: Vec<(String, String)> = about.collect();
        let unit = names::unit(name);

        let of_gpu = |target| {
            let prefix = format!("{unit}_gpu");
            gpu::compile_model(module.clone(), target, self.settings.kind(), &prefix, &context)
        };
        let gpu = gpu_target.as_ref().map(of_gpu).transpose().map_err(codegen)?;
        let compiled = context.clone().scope(|| tvm_codegen::Compiled::new(module, &target));
        let mut compiled = compiled.map_err(codegen)?;
        compiled.executable.metadata.splice(0..0, about.iter().cloned());
        compiled.require_cpu().map_err(codegen)?;

        let mut units = context.scope(|| compiled.units()).map_err(codegen)?;
        let mut prefixes = Vec::new();
        for KernelUnit { level, kernels, .. } in &mut units {
            let prefix = level.as_deref().map_or_else(|| unit.clone(), |level| names::of_level(&unit, level));
            kernels.iter_mut().for_each(|(symbol, _)| *symbol = format!("{prefix}_{symbol}"));
            prefixes.push((level.clone(), prefix));
        }
        let kernels = units.iter().map(|unit| unit.kernels.len()).sum();

        let (mut embedded, mut gpu_artifact) = (None, None);
        if let Some(mut program) = gpu {
            program.exe.metadata.splice(0..0, about);
            let (it, path) = program.save(&item, &dir)?;
            (embedded, gpu_artifact) = (Some(it), Some(path));
            // They are compiled for the lowest level.
            if let Some(lowest) = units.first_mut() {
                lowest.kernels.extend(program.on_host.into_iter().map(|(_, symbol, func)| (symbol, func)));
            }
        }
        let library = format!("tvm_{unit}");
        object::library(&item, &library, &units, &dir)?;
        let artifact = dir.join(format!("{name}.tvm"));
        let bytes = compiled
            .executable
            .save()
            .map_err(|err| BuildError::Artifact { item: item.clone(), source: err.into() })?;
        write(&artifact, &bytes)?;
        let wrapper = Wrapper {
            name,
            library: &library,
            target: &target,
            exe: &compiled.executable,
            origin: origin.as_deref(),
            io: &compiled.io,
            units: &prefixes,
            gpu: embedded.as_ref(),
        };
        let path = dir.join(format!("{name}.rs"));
        write(&path, wrapper.text("::tvm_runtime").as_bytes())?;
        write(&dir.join(format!("{name}.facade.rs")), wrapper.text("::tvm::runtime").as_bytes())?;
        cargo::library(&dir, target.triple.as_deref().unwrap_or_default());
        Ok(ModelFiles {
            wrapper: path,
            artifact,
            gpu_artifact,
            library: dir.join(format!("lib{library}.a")),
            kernels,
            target: target.to_string(),
        })
    }
}
