//! The kernel to compile and its output files.

use std::path::PathBuf;

use tvm_codegen::{CodegenError, KernelUnit, cpu_features, lowered, signatures};
use tvm_core::ir::{IRModule, IrError};
use tvm_core::script::PrimFuncDef;
use tvm_core::tir::PrimFunc;

use crate::gpu::{self, GpuProgram};
use crate::kernel_wrapper::KernelWrapper;
use crate::settings::{Settings, builder_words, codegen_error, write};
use crate::{BuildError, BuildItem, cargo, names, object};

/// Largest number of parameters of a typed call.
pub(crate) const MAX_PARAMETERS: usize = 12;

/// A kernel to be compiled into an application.
#[must_use = "a kernel does nothing until `compile` is called"]
pub struct Kernel {
    program: Result<PrimFunc, IrError>,
    /// The program for GPUs, if it is another one.
    gpu_program: Option<Result<PrimFunc, IrError>>,
    name: String,
    settings: Settings,
}

/// Files that were written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KernelFiles {
    /// The wrapper, for `include!`; its paths begin with `tvm_runtime`.
    pub wrapper: PathBuf,
    /// The static library that contains the kernel, once for each CPU level.
    pub library: PathBuf,
    /// The artifact with the kernel for GPUs; `None` if it was compiled for the CPU alone.
    pub gpu_artifact: Option<PathBuf>,
    /// The target that the kernel for the CPU was compiled for.
    pub target: String,
}

builder_words!(Kernel);

impl Kernel {
    /// Selects the kernel or schedule `D`, which `#[prim_func]` or `#[schedule]` defines. The kernel is named after the function.
    pub fn of<D: PrimFuncDef>() -> Kernel {
        let program = D::prim_func();
        Kernel { program, gpu_program: None, name: D::SIG.name.to_string(), settings: Settings::default() }
    }

    /// Selects a tensor program that was built in another way.
    pub fn new(program: PrimFunc) -> Kernel {
        let name = program.name.to_string();
        Kernel { program: Ok(program), gpu_program: None, name, settings: Settings::default() }
    }

    /// Selects the kernel or schedule `D` for GPUs, in place of the one for the CPU; its parameters are the same. Only `gpu` and
    /// `gpu_if_available` compile it. Without a schedule, a kernel gets the default one of its target.
    pub fn gpu_schedule<D: PrimFuncDef>(mut self) -> Kernel {
        self.gpu_program = Some(D::prim_func());
        self
    }

    /// Compiles the kernel and writes its files. In a build script, it tells Cargo where the library is, and reports errors as
    /// errors of the package, so `?` is enough.
    ///
    /// # Errors
    /// When there is no output directory, the program is malformed or has no or too many parameters, that for GPUs has other ones, or no
    /// code can be generated.
    pub fn compile(self) -> Result<KernelFiles, BuildError> {
        let res = self.run();
        if let Err(err) = &res {
            cargo::error(&err.to_string());
        }
        res
    }

    fn run(self) -> Result<KernelFiles, BuildError> {
        let item = BuildItem::Kernel(self.name);
        let dir = self.settings.begin(&item)?;
        let malformed = |source: IrError| BuildError::Program { item: item.clone(), source: source.into() };
        let program = self.program.map_err(malformed)?;
        let gpu_program = self.gpu_program.transpose().map_err(malformed)?.unwrap_or_else(|| program.clone());
        let got = program.params.len();
        if !(1..=MAX_PARAMETERS).contains(&got) {
            return Err(BuildError::Parameters { item, got });
        }
        let target = self.settings.target(&item)?;
        let gpu_target = self.settings.gpu_target(&item, &target)?;
        let codegen = |err: CodegenError| codegen_error(&item, err);
        let module = IRModule::from_prim_func(program);
        let signature =
            signatures(&module).pop().ok_or(BuildError::Parameters { item: item.clone(), got })?;
        let (mut embedded, mut gpu_artifact) = (None, None);
        if let Some(gpu_target) = gpu_target {
            let program = gpu::named_as(&item, gpu_program, &signature)?;
            let exe = gpu::compile_kernel(program, &gpu_target, &self.settings.context()).map_err(codegen)?;
            let (it, path) = GpuProgram { exe, on_host: Vec::new() }.save(&item, &dir)?;
            (embedded, gpu_artifact) = (Some(it), Some(path));
        }
        let unit = names::unit(item.name());
        let mut units = Vec::new();
        let mut prefixes = Vec::new();
        let levels = match target.cpu_levels() {
            levels if levels.is_empty() => vec![None],
            levels => levels.into_iter().map(Some).collect(),
        };
        for level in levels {
            let own = level.map_or_else(|| target.clone(), |level| target.for_level(level));
            let kernels = self.settings.context().scope(|| lowered(&module, &own)).map_err(codegen)?;
            let prefix = level.map_or_else(|| unit.clone(), |level| names::of_level(&unit, level));
            let kernels = kernels.into_iter().map(|(symbol, func)| (format!("{prefix}_{symbol}"), func));
            let (level, kernels) = (level.map(String::from), kernels.collect());
            prefixes.push((level.clone(), prefix));
            units.push(KernelUnit { level, target: own, kernels });
        }

        let library = format!("tvm_{unit}");
        object::library(&item, &library, &units, &dir)?;
        let features = cpu_features(&target).map_err(codegen)?;
        let wrapper = KernelWrapper {
            name: item.name(),
            library: &library,
            target: &target,
            signature: &signature,
            features: &features,
            units: &prefixes,
            gpu: embedded.as_ref(),
        };
        let path = dir.join(format!("{}.rs", item.name()));
        write(&path, wrapper.text("::tvm_runtime").as_bytes())?;
        let facade = dir.join(format!("{}.facade.rs", item.name()));
        write(&facade, wrapper.text("::tvm::runtime").as_bytes())?;
        cargo::library(&dir, target.triple.as_deref().unwrap_or_default());
        Ok(KernelFiles {
            wrapper: path,
            library: dir.join(format!("lib{library}.a")),
            gpu_artifact,
            target: target.to_string(),
        })
    }
}
