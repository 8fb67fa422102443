//! Compilation of a module of graph functions. The library, `tvmc` and `tvm-build` share [`Compiled`]: they differ in what
//! they make of it.
//!
//! TVM counterpart: `relax.build`.

use std::sync::Arc;

use tvm_core::ir::{AttrValue, BaseFunc, IRModule};
use tvm_core::relax::analysis::type_dims;
use tvm_core::relax::vm;
use tvm_core::target::{Target, TargetKind};
use tvm_core::tir::PrimFunc;
use tvm_runtime::vm::{CodeObject, Executable, ObjectKind, Vm, VmConfig};
use tvm_runtime::{DimBound, RuntimeModule, cpu_level_list, cpu_requirements};

use crate::driver::{build_level, by_place};
use crate::{
    CodegenError, EmitKind, Options, Unit, cpu_features, emit, emit_lowered, for_own_gpu, lowered, resolve,
};

/// A module of graph functions, compiled to bytecode and to the tensor programs that the bytecode calls.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The tensor programs, before lowering.
    pub programs: IRModule,
    /// The bytecode, without kernels. Its metadata records the names of inputs and outputs of `main`.
    pub executable: Executable,
    /// Names and bounds that the bytecode does not contain.
    pub io: Io,
    target: Target,
    imports: Vec<Arc<dyn RuntimeModule>>,
}

/// The lowered kernels of a module for one CPU or GPU architecture.
#[derive(Clone, Debug)]
pub struct KernelUnit {
    /// The CPU level, if the target of the module has several.
    pub level: Option<String>,
    /// What the kernels are compiled for.
    pub target: Target,
    /// Symbol and program of each kernel.
    pub kernels: Vec<(String, PrimFunc)>,
}

/// Names and bounds in the graph functions of a module.
#[derive(Clone, Debug, Default)]
pub struct Io {
    /// One entry per graph function.
    pub functions: Vec<FunctionIo>,
    /// Names and bounds of the dimensions that have bounds.
    pub bounds: Vec<(String, DimBound)>,
}

/// Names of the inputs and outputs of one graph function; empty lists where none are recorded.
#[derive(Clone, Debug, Default)]
pub struct FunctionIo {
    /// Name of the function in the module.
    pub name: String,
    /// Names of the inputs, in the order of the parameters.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
    /// Element type of each output whose elements are the bits of a type that tvm does not have; empty for the others.
    pub elements: Vec<String>,
}

impl Compiled {
    /// Compiles the graph functions of `module`, and selects the tensor programs that they call.
    ///
    /// # Errors
    /// When a pass fails on the module.
    pub fn new(module: IRModule, target: &Target) -> Result<Compiled, CodegenError> {
        let target = resolve(target);
        let io = Io::of(&module);
        let (programs, mut executable) = vm::compile_for(module, &target.for_graph())?;
        executable.target = target.to_string();
        executable.metadata = io.metadata();
        Ok(Compiled { programs, executable, io, target, imports: Vec::new() })
    }

    /// Imports the module that an external code generator made of a part of the model, which calls its packed functions.
    #[must_use]
    pub fn with_import(mut self, module: impl RuntimeModule + 'static) -> Compiled {
        self.imports.push(Arc::new(module));
        self
    }

    /// The target, with the host resolved to a code generator.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Builds the kernels in this process, for one CPU level; the result is ready to run.
    ///
    /// # Errors
    /// When the target cannot run a tensor program.
    pub fn into_vm(self, config: VmConfig) -> Result<Vm, CodegenError> {
        let mut module = build_level(&self.programs, &self.target, config.cpu_level.as_deref())?;
        self.imports.into_iter().for_each(|import| module.import(import));
        Ok(Vm::with_config(self.executable, &module, config)?)
    }

    /// Puts the kernels into the executable as a shared library, or one for each CPU level of the target, and the imported modules as they save themselves. Records the
    /// CPU features that the kernels need. Kernels for GPUs are machine code for each architecture of the target, and PTX for the highest
    /// one, which newer GPUs run. What runs on the host of a GPU is in a shared library beside them.
    ///
    /// # Errors
    /// When the target cannot express a tensor program, or has no machine code, or an imported module cannot be saved.
    pub fn into_executable(mut self) -> Result<Executable, CodegenError> {
        self.require_cpu()?;
        if !self.programs.is_empty() {
            let (units, host) = (self.units()?, self.host_unit(TargetKind::Host)?);
            // They are lowered, so their memory is free while kernels are compiled.
            self.programs = IRModule::new();
            if self.target.is_gpu() {
                self.executable.objects.extend(gpu_objects(&units)?);
            }
            let for_cpus = if self.target.is_gpu() { Vec::new() } else { units };
            for unit in for_cpus.into_iter().chain(host) {
                let bytes = emit_lowered(&unit.kernels, &unit.target, EmitKind::SharedLibrary)?.into();
                let (name, kind) = match unit.level {
                    Some(level) => (format!("kernels.{level}"), ObjectKind::LevelLibrary(level)),
                    None => ("kernels".into(), ObjectKind::SharedLibrary),
                };
                self.executable.objects.push(CodeObject { name, kind, bytes });
            }
        }
        self.with_imports()
    }

    /// The executable with the imported modules.
    fn with_imports(mut self) -> Result<Executable, CodegenError> {
        for (i, import) in self.imports.iter().enumerate() {
            self.executable.objects.push(CodeObject::of_import(format!("import.{i}"), &**import)?);
        }
        Ok(self.executable)
    }

    /// Records the CPU features that the kernels need in the metadata of the executable: those of the lowest level, if the
    /// target has several, and the list of the levels.
    ///
    /// # Errors
    /// When only a C compiler can know the CPU, and there is none or it does not know the CPU either.
    pub fn require_cpu(&mut self) -> Result<(), CodegenError> {
        let of_host = by_place(&self.programs, &self.target).map(|_| self.target.of_host());
        let features = cpu_features(of_host.as_ref().unwrap_or(&self.target))?;
        self.executable.metadata.push(cpu_requirements(features.iter().map(String::as_str)));
        let levels = self.target.cpu_levels();
        if !levels.is_empty() && !self.programs.is_empty() {
            self.executable.metadata.push(cpu_level_list(levels));
        }
        Ok(())
    }

    /// The kernels that run on the host although the target is a GPU, in the form lowered for the code generator `kind`; `None` if there
    /// are none.
    ///
    /// # Errors
    /// When a tensor program is malformed.
    pub fn host_unit(&self, kind: TargetKind) -> Result<Option<KernelUnit>, CodegenError> {
        let Some((_, host)) = by_place(&self.programs, &self.target) else { return Ok(None) };
        let target = resolve(&self.target.of_host().with_kind(kind));
        Ok(Some(KernelUnit { level: None, kernels: lowered(&host, &target)?, target }))
    }

    /// The kernels in the lowered form: one unit, or one for each CPU level or GPU architecture of the target, in ascending order. All
    /// units have the same symbols. What runs on the host of a GPU is in [`Compiled::host_unit`].
    ///
    /// # Errors
    /// When a tensor program is malformed.
    pub fn units(&self) -> Result<Vec<KernelUnit>, CodegenError> {
        let unit = |level: Option<&str>| {
            let target = level.map_or_else(|| self.target.clone(), |level| self.target.for_level(level));
            Ok(KernelUnit {
                level: level.map(String::from),
                kernels: lowered(&self.programs, &target)?,
                target,
            })
        };
        if self.target.is_gpu() {
            let unit = |arch| {
                let target = self.target.clone().with_arch(arch);
                Ok(KernelUnit { level: None, kernels: lowered(&self.programs, &target)?, target })
            };
            return self.target.gpu_archs().into_iter().map(unit).collect();
        }
        match self.target.cpu_levels() {
            levels if levels.is_empty() => Ok(vec![unit(None)?]),
            levels => levels.into_iter().map(|level| unit(Some(level))).collect(),
        }
    }

    /// Emits the kernels as one unit of `kind`.
    ///
    /// # Errors
    /// When the target cannot express a tensor program, or has no output of this kind.
    pub fn emit(&self, kind: EmitKind) -> Result<Vec<u8>, CodegenError> {
        emit(&self.programs, &self.target, kind)
    }
}

/// The kernels of `units`, which are for one GPU architecture each, in ascending order, as objects of an executable: machine code for each
/// architecture, and PTX for the highest one whose code newer GPUs run.
///
/// # Errors
/// When the target cannot express a tensor program, or there is no compiler of code for GPUs.
pub fn gpu_objects(units: &[KernelUnit]) -> Result<Vec<CodeObject>, CodegenError> {
    let portable = |unit: &KernelUnit| unit.target.gpu_arch().is_some_and(|it| it.is_portable());
    let newest = units.iter().rposition(portable);
    let mut objects = Vec::new();
    for (i, unit) in units.iter().enumerate() {
        let of = Unit { kernels: &unit.kernels, target: &unit.target, options: Options::current() };
        objects.extend(crate::cuda::objects(of, newest == Some(i))?);
    }
    Ok(objects)
}

/// Compiles graph functions to bytecode, and the tensor programs that they call to kernels. The result is ready to run.
///
/// # Errors
/// When a pass fails on the module, or the target cannot run a tensor program.
pub fn compile_module(module: &IRModule, target: &Target) -> Result<Vm, CodegenError> {
    Compiled::new(module.clone(), &for_own_gpu(target))?.into_vm(VmConfig::default())
}

/// Compiles like [`compile_module`], but to an executable that contains its kernels as a shared library, or as code for GPUs and how it is
/// launched. The bytes that [`Executable::save`] returns run in an application without a compiler, on machines with the CPU features that the
/// target names ([`Executable::check_cpu`]).
///
/// # Errors
/// As for [`compile_module`], and for the interpreter, which has no machine code.
pub fn export_module(module: &IRModule, target: &Target) -> Result<Executable, CodegenError> {
    Compiled::new(module.clone(), target)?.into_executable()
}

impl Io {
    fn of(module: &IRModule) -> Io {
        let mut io = Io::default();
        for (gv, func) in module.functions() {
            let BaseFunc::Relax(func) = func else { continue };
            let list = |attr: &str| match func.attrs.get(attr) {
                Some(AttrValue::List(items)) => items.to_vec(),
                _ => Vec::new(),
            };
            let names = |attr: &str| list(attr).iter().map(|it| text(it).unwrap_or_default()).collect();
            io.functions.push(FunctionIo {
                name: gv.name().to_string(),
                inputs: names("input_names"),
                outputs: names("output_names"),
                elements: names("output_elements"),
            });
            for dim in func.params.iter().cloned().flat_map(|param| {
                let dims = type_dims(param.ty());
                std::iter::once(param).chain(dims)
            }) {
                let known = io.bounds.iter().any(|(name, _)| *name == dim.name());
                let bound = dim.bound().filter(|_| !known);
                io.bounds.extend(bound.map(|bound| (dim.name().to_string(), bound)));
            }
        }
        io
    }

    /// The names of the function `name`.
    pub fn function(&self, name: &str) -> Option<&FunctionIo> {
        self.functions.iter().find(|it| it.name == name)
    }

    /// Names of the inputs and outputs of `main`, and element types of outputs: `input.0`, `output.0`, `element.0` and so on.
    fn metadata(&self) -> Vec<(String, String)> {
        let Some(main) = self.function("main") else { return Vec::new() };
        let entries = |kind: &'static str, names: &[String]| -> Vec<(String, String)> {
            names.iter().enumerate().map(|(i, name)| (format!("{kind}.{i}"), name.clone())).collect()
        };
        let io = [entries("input", &main.inputs), entries("output", &main.outputs)].concat();
        [io, entries("element", &main.elements)].concat()
    }
}

fn text(value: &AttrValue) -> Option<String> {
    if let AttrValue::Str(text) = value { Some(text.to_string()) } else { None }
}
