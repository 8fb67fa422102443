//! What is compiled, for what, and to where.

use std::path::{Path, PathBuf};

use tvm_codegen::lowered;
use tvm_core::ir::IRModule;
use tvm_core::relax::vm;
use tvm_core::target::{Target, TargetKind};
use tvm_onnx::{DimSpec, ImportOptions, import_file};

use crate::wrapper::{Facts, Wrapper};
use crate::{BuildError, cargo, features, names, object};

/// Which code generator makes the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
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
    backend: Backend,
    target: Option<String>,
    cpu: Option<String>,
    out_dir: Option<PathBuf>,
}

/// What was written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// The wrapper, for `include!`; the paths in it begin with `tvm_runtime`.
    pub wrapper: PathBuf,
    /// Bytecode and constants.
    pub artifact: PathBuf,
    /// The static library of the kernels.
    pub library: PathBuf,
    /// Number of kernels.
    pub kernels: usize,
    /// What the kernels were compiled for.
    pub target: String,
}

impl Model {
    fn new(source: Source, name: String) -> Model {
        Model {
            source,
            name,
            options: ImportOptions::default(),
            backend: if cfg!(feature = "llvm") { Backend::Llvm } else { Backend::C },
            target: None,
            cpu: None,
            out_dir: None,
        }
    }

    /// The ONNX model in the file at `path`, relative to the package. It is named after the file.
    pub fn onnx(path: impl Into<PathBuf>) -> Model {
        let path = path.into();
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Model::new(Source::Onnx(path), name)
    }

    /// A module that was built or imported otherwise; its graph functions are the entry points.
    pub fn module(name: impl Into<String>, module: IRModule) -> Model {
        Model::new(Source::Module(Box::new(module)), name.into())
    }

    /// The name of the files and, in camel case, of the wrapper.
    pub fn name(mut self, name: impl Into<String>) -> Model {
        self.name = name.into();
        self
    }

    /// What is known of a symbolic dimension: a number, or bounds, which each call checks.
    pub fn dim(mut self, name: &str, spec: impl Into<DimSpec>) -> Model {
        self.options = self.options.dim(name, spec.into());
        self
    }

    /// The shape of an input in place of the model's own.
    pub fn shape(mut self, input: &str, shape: &[i64]) -> Model {
        self.options = self.options.shape(input, shape);
        self
    }

    /// The code generator; otherwise LLVM with the feature `llvm`, else C.
    pub fn backend(mut self, backend: Backend) -> Model {
        self.backend = backend;
        self
    }

    /// The triple of the machine that runs the model; otherwise Cargo's `TARGET`, else this machine.
    pub fn target(mut self, triple: impl Into<String>) -> Model {
        self.target = Some(triple.into());
        self
    }

    /// The CPU to compile for, as the code generator names it, or `native`; otherwise the features that Cargo compiles
    /// the application with.
    pub fn cpu(mut self, cpu: impl Into<String>) -> Model {
        self.cpu = Some(cpu.into());
        self
    }

    /// Where to write; otherwise Cargo's `OUT_DIR`.
    pub fn out_dir(mut self, path: impl Into<PathBuf>) -> Model {
        self.out_dir = Some(path.into());
        self
    }

    /// Compiles the model and writes its files. In a build script, tells Cargo what it depends on and where the library
    /// is; errors are shown as errors of the package, so `?` is all there is to do.
    ///
    /// # Errors
    /// When there is nowhere to write to, the file is not a model, it uses what is not supported (all of that is listed),
    /// or no code can be generated.
    pub fn compile(self) -> Result<Compiled, BuildError> {
        let res = self.run();
        if let Err(err) = &res {
            cargo::error(&err.to_string());
        }
        res
    }

    fn run(self) -> Result<Compiled, BuildError> {
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
        let target = target(self.backend, self.target, self.cpu);
        let facts = Facts::of(&module, origin);
        let (programs, mut exe) = vm::compile(module)
            .map_err(|err| BuildError::Pass { model: name.clone(), source: err.into() })?;
        exe.target = target.to_string();
        exe.metadata = facts.metadata(&name);
        let features = tvm_codegen::cpu_features(&target)
            .map_err(|err| BuildError::Codegen { model: name.clone(), source: err.into() })?;
        exe.metadata.push(tvm_runtime::cpu_requirements(features.iter().map(String::as_str)));

        // Symbols of two models, or of two versions of one package, must not clash.
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let (package, version) = (variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION"));
        let unit = format!("{name}_{:08x}", names::hash(&[&package, &version, &name]) as u32);
        let mut kernels = lowered(&programs)
            .map_err(|err| BuildError::Codegen { model: name.clone(), source: err.into() })?;
        for (symbol, _) in &mut kernels {
            *symbol = format!("{unit}_{symbol}");
        }

        std::fs::create_dir_all(&dir).map_err(|source| BuildError::Io { path: dir.clone(), source })?;
        let library = format!("tvm_{unit}");
        object::library(&name, &library, &kernels, &target, &dir)?;
        let artifact = dir.join(format!("{name}.tvm"));
        let bytes =
            exe.save().map_err(|err| BuildError::Artifact { model: name.clone(), source: err.into() })?;
        write(&artifact, &bytes)?;
        let wrapper = Wrapper {
            name: &name,
            library: &library,
            target: &target,
            exe: &exe,
            facts: &facts,
            unit: &unit,
        };
        let path = dir.join(format!("{name}.rs"));
        write(&path, wrapper.text("::tvm_runtime").as_bytes())?;
        write(&dir.join(format!("{name}.facade.rs")), wrapper.text("::tvm::runtime").as_bytes())?;
        cargo::library(&dir, target.triple.as_deref().unwrap_or_default());
        Ok(Compiled {
            wrapper: path,
            artifact,
            library: dir.join(format!("lib{library}.a")),
            kernels: kernels.len(),
            target: target.to_string(),
        })
    }
}

/// What to compile for: as told, else as Cargo says, else this machine's baseline.
fn target(backend: Backend, triple: Option<String>, cpu: Option<String>) -> Target {
    let kind = match backend {
        Backend::C => TargetKind::C,
        Backend::Llvm => TargetKind::Llvm,
    };
    let cargo = std::env::var("TARGET").ok();
    // Cargo's features are those of Cargo's target.
    let same = triple.is_none() || triple == cargo;
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").ok().filter(|_| same).unwrap_or_default();
    let triple = triple.or(cargo).unwrap_or_else(|| env!("TVM_BUILD_TARGET").to_string());
    features::target(kind, &triple, &features, cpu.as_deref())
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    std::fs::write(path, bytes).map_err(|source| BuildError::Io { path: path.to_path_buf(), source })
}
