//! The model to compile, its target, and its output files.

use std::path::{Path, PathBuf};

use tvm_codegen::{CodegenError, KernelUnit};
use tvm_core::ir::IRModule;
use tvm_core::target::{ParseTargetError, Target, TargetKind};
use tvm_onnx::{DimOption, ImportOptions, import_file};

use crate::wrapper::Wrapper;
use crate::{BuildError, cargo, features, names, object};

/// Code generator for the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codegen {
    /// C, compiled by the C compiler that the `cc` crate finds.
    C,
    /// LLVM (feature `llvm`).
    Llvm,
}

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
    codegen: Codegen,
    target: Option<String>,
    cpu: Option<String>,
    out_dir: Option<PathBuf>,
}

/// Files that were written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelFiles {
    /// The wrapper, for `include!`; its paths begin with `tvm_runtime`.
    pub wrapper: PathBuf,
    /// The artifact: bytecode and constants.
    pub artifact: PathBuf,
    /// The static library that contains the kernels.
    pub library: PathBuf,
    /// Number of kernels; those of several CPU levels are counted for each.
    pub kernels: usize,
    /// The target that the kernels were compiled for.
    pub target: String,
}

impl Model {
    fn new(source: Source, name: String) -> Model {
        Model {
            source,
            name,
            options: ImportOptions::default(),
            codegen: if cfg!(feature = "llvm") { Codegen::Llvm } else { Codegen::C },
            target: None,
            cpu: None,
            out_dir: None,
        }
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

    /// Sets the name of the files and, in camel case, of the wrapper.
    pub fn name(mut self, name: impl Into<String>) -> Model {
        self.name = name.into();
        self
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

    /// Selects the code generator. The default is LLVM with the feature `llvm`, otherwise C.
    pub fn codegen(mut self, codegen: Codegen) -> Model {
        self.codegen = codegen;
        self
    }

    /// Sets the triple of the machine that will run the model. The default is Cargo's `TARGET`, otherwise this machine.
    pub fn target(mut self, triple: impl Into<String>) -> Model {
        self.target = Some(triple.into());
        self
    }

    /// Sets the CPU to compile for: a name that the code generator knows, or `native`. The default is the set of
    /// features that Cargo compiles the application with.
    pub fn cpu(mut self, cpu: impl Into<String>) -> Model {
        self.cpu = Some(cpu.into());
        self
    }

    /// Compiles the kernels for several levels of x86-64 (`["x86-64", "x86-64-v3"]`, say). The library holds all of them; the
    /// application runs those of the highest level that its CPU has, and needs the lowest one. The levels share bytecode and
    /// constants. This replaces [`Model::cpu`].
    pub fn cpu_levels<L: AsRef<str>>(mut self, levels: impl IntoIterator<Item = L>) -> Model {
        let levels: Vec<String> = levels.into_iter().map(|level| level.as_ref().to_string()).collect();
        self.cpu = Some(levels.join(","));
        self
    }

    /// Sets the output directory. The default is Cargo's `OUT_DIR`.
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Model {
        self.out_dir = Some(path.into());
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
        let name = self.name;
        if !names::is_model_name(&name) {
            return Err(BuildError::Name { name });
        }
        let dir = self.out_dir.or_else(|| std::env::var_os("OUT_DIR").map(PathBuf::from));
        let dir = dir.ok_or_else(|| BuildError::NoOutDir { model: name.clone() })?;
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
        let target = target(self.codegen, self.target, self.cpu)
            .map_err(|source| BuildError::Target { model: name.clone(), source })?;
        let codegen = |err: CodegenError| match err {
            CodegenError::Pass(err) => BuildError::Pass { model: name.clone(), source: err.into() },
            err => BuildError::Codegen { model: name.clone(), source: err.into() },
        };
        let mut compiled = tvm_codegen::Compiled::new(module, &target).map_err(codegen)?;
        let about = [("model", Some(name.clone())), ("source", origin.clone())];
        let about = about.into_iter().filter_map(|(key, value)| Some((key.to_string(), value?)));
        compiled.executable.metadata.splice(0..0, about);
        compiled.require_cpu().map_err(codegen)?;

        // Symbols of two models, or of two versions of a package, must not clash.
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let (package, version) = (variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION"));
        let unit = format!("{name}_{:08x}", names::hash(&[&package, &version, &name]) as u32);
        let mut units = compiled.units().map_err(codegen)?;
        let mut prefixes = Vec::new();
        for KernelUnit { level, kernels, .. } in &mut units {
            let prefix = level.as_deref().map_or_else(|| unit.clone(), |level| names::of_level(&unit, level));
            kernels.iter_mut().for_each(|(symbol, _)| *symbol = format!("{prefix}_{symbol}"));
            prefixes.push((level.clone(), prefix));
        }
        let kernels = units.iter().map(|unit| unit.kernels.len()).sum();

        std::fs::create_dir_all(&dir).map_err(|source| BuildError::Io { path: dir.clone(), source })?;
        let library = format!("tvm_{unit}");
        object::library(&name, &library, &units, &dir)?;
        let artifact = dir.join(format!("{name}.tvm"));
        let bytes = compiled
            .executable
            .save()
            .map_err(|err| BuildError::Artifact { model: name.clone(), source: err.into() })?;
        write(&artifact, &bytes)?;
        let wrapper = Wrapper {
            name: &name,
            library: &library,
            target: &target,
            exe: &compiled.executable,
            origin: origin.as_deref(),
            io: &compiled.io,
            units: &prefixes,
        };
        let path = dir.join(format!("{name}.rs"));
        write(&path, wrapper.text("::tvm_runtime").as_bytes())?;
        write(&dir.join(format!("{name}.facade.rs")), wrapper.text("::tvm::runtime").as_bytes())?;
        cargo::library(&dir, target.triple.as_deref().unwrap_or_default());
        Ok(ModelFiles {
            wrapper: path,
            artifact,
            library: dir.join(format!("lib{library}.a")),
            kernels,
            target: target.to_string(),
        })
    }
}

/// The target: the given one, else Cargo's, else the baseline of this machine.
fn target(codegen: Codegen, triple: Option<String>, cpu: Option<String>) -> Result<Target, ParseTargetError> {
    let kind = match codegen {
        Codegen::C => TargetKind::C,
        Codegen::Llvm => TargetKind::Llvm,
    };
    let cargo = std::env::var("TARGET").ok();
    // Cargo's list of features describes Cargo's target only.
    let same = triple.is_none() || triple == cargo;
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").ok().filter(|_| same).unwrap_or_default();
    let triple = triple.or(cargo).unwrap_or_else(|| env!("TVM_BUILD_TARGET").to_string());
    features::target(kind, &triple, &features, cpu.as_deref())
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    std::fs::write(path, bytes).map_err(|source| BuildError::Io { path: path.to_path_buf(), source })
}
