//! A verified executable with its kernels resolved, which an application calls.
//!
//! TVM counterpart: `relay::vm::VirtualMachine`, `relax::VirtualMachine`. It is immutable, so any number of threads may
//! call it at the same time; the mutable state of a run is in its [`Workspace`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use super::args::IntoArgs;
use super::capture::CaptureLog;
use super::executable::{Executable, VmFunction};
use super::instruction::ConstIdx;
use super::interp::Run;
use super::options::CallOptions;
use super::profile::Profile;
use super::verify::verify;
use super::workspace::Workspace;
use crate::cpu_level::lacks;
use crate::device::{Device, unrecorded};
use crate::error::RuntimeError;
use crate::kernel::{Backend, Kernel};
use crate::module::{Module, ModuleLoader, load_imports};
use crate::packed::{PackedFunc, get_global_func};
use crate::tensor::Tensor;
use crate::thread_pool::ThreadPool;
use crate::value::Value;

/// Limits of one run, the thread pool for its parallel loops, and functions and loaders of the application.
#[derive(Clone)]
pub struct VmConfig {
    /// Maximum number of nested calls (tail calls do not count); default 2^20.
    pub max_depth: usize,
    /// Maximum number of registers of all active calls together; default 2^23.
    pub max_registers: usize,
    /// Maximum number of instructions; `None`, the default, for no limit.
    pub max_steps: Option<u64>,
    /// Maximum size of all storages together, in bytes; default `isize::MAX`.
    pub max_bytes: usize,
    /// Thread pool; `None`, the default, for the global one.
    pub pool: Option<Arc<dyn ThreadPool>>,
    /// Packed functions of this virtual machine alone, by name. They come before those of imported modules and those in the
    /// global registry, so that two models may use one name for different functions.
    pub functions: BTreeMap<String, PackedFunc>,
    /// Loaders of the imported modules that an artifact carries, by kind.
    pub loaders: BTreeMap<String, ModuleLoader>,
    /// The CPU level whose kernels run (`x86-64-v3`), of a program that was compiled for several; `None`, the default, for the
    /// highest level that this machine has.
    pub cpu_level: Option<String>,
}

impl Default for VmConfig {
    fn default() -> VmConfig {
        VmConfig {
            max_depth: 1 << 20,
            max_registers: 1 << 23,
            max_steps: None,
            max_bytes: isize::MAX as usize,
            pool: None,
            functions: BTreeMap::new(),
            loaders: BTreeMap::new(),
            cpu_level: None,
        }
    }
}

/// A program that is ready to run.
pub struct Vm {
    /// Unique number; closures carry it.
    pub(super) id: u64,
    pub(super) exe: Arc<Executable>,
    pub(super) constants: Vec<Value>,
    /// Copies of constants on devices other than the host, which are made when they are first needed.
    pub(super) copies: Mutex<BTreeMap<(ConstIdx, Device), Tensor>>,
    pub(super) kernels: Vec<Kernel>,
    pub(super) packed: Vec<PackedFunc>,
    pub(super) config: VmConfig,
    cpu_level: Option<String>,
    /// Workspaces of past calls, each with the thread that made the call, for reuse by later ones.
    spare: Mutex<Vec<(ThreadId, Workspace)>>,
}

/// Maximum number of workspaces kept between calls.
const MAX_SPARE: usize = 16;

impl Vm {
    /// Verifies `exe`, and looks up its kernels in `module`, and its packed functions in the imports of `module` and in the
    /// global registry.
    pub fn new(exe: impl Into<Arc<Executable>>, module: &Module) -> Result<Vm, RuntimeError> {
        Vm::with_config(exe, module, VmConfig::default())
    }

    /// As [`Vm::new`], but with other limits, another thread pool, functions of the application, or loaders of the modules
    /// that `exe` carries. A packed function is looked up in [`VmConfig::functions`], in the imports of `module`, in the
    /// modules that `exe` carries, and in the global registry.
    ///
    /// # Errors
    /// When `exe` breaks a rule of the verifier, lacks a kernel, a packed function or a loader, or a module does not load.
    pub fn with_config(
        exe: impl Into<Arc<Executable>>,
        module: &Module,
        config: VmConfig,
    ) -> Result<Vm, RuntimeError> {
        let exe = exe.into();
        verify(&exe)?;
        if let Some(level) = config.cpu_level.as_deref().filter(|it| Some(*it) != module.cpu_level()) {
            return Err(lacks(level, module.cpu_level().as_slice()));
        }
        let cpu_level = module.cpu_level().map(String::from);
        let names = exe.kernels.iter().map(|sig| sig.name.as_str());
        let kernels = find_all("kernel", names, |name| module.get(name).cloned())?;
        for (sig, kernel) in exe.kernels.iter().zip(&kernels) {
            if kernel.signature() != sig {
                let detail = format!("the program expects `{sig}`, the module has `{}`", kernel.signature());
                return Err(RuntimeError::Signature { func: sig.name.as_str().into(), detail });
            }
        }
        let carried = load_imports(&exe.objects, &config.loaders)?;
        let find = |name: &str| {
            let mut imports = module.imports().iter().chain(&carried);
            let function = config.functions.get(name).cloned();
            let function = function.or_else(|| imports.find_map(|it| it.function(name)));
            function.or_else(|| get_global_func(name))
        };
        let packed = find_all("packed function", exe.packed.iter().map(String::as_str), find)?;
        let constants = exe.constants.iter().map(Value::from).collect();
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let (copies, spare) = (Mutex::default(), Mutex::default());
        Ok(Vm { id, exe, constants, copies, kernels, packed, config, cpu_level, spare })
    }

    /// Kind of the kernels: [`Backend::Host`] if at least one is a function of the host, else [`Backend::Device`] if at least one
    /// runs on a device, else [`Backend::Native`].
    pub fn backend(&self) -> Backend {
        let has = |backend| self.kernels.iter().any(|kernel| kernel.backend() == backend);
        [Backend::Host, Backend::Device].into_iter().find(|it| has(*it)).unwrap_or(Backend::Native)
    }

    /// The CPU level whose kernels run; `None` unless the program was compiled for several levels.
    pub fn cpu_level(&self) -> Option<&str> {
        self.cpu_level.as_deref()
    }

    /// The program that this virtual machine runs.
    pub fn executable(&self) -> &Arc<Executable> {
        &self.exe
    }

    /// The functions that the application can call.
    pub fn functions(&self) -> impl Iterator<Item = &VmFunction> {
        self.exe.functions.iter().filter(|func| func.public)
    }

    /// Calls a public function. An argument passed by value is given away: if nobody else has it, the program may reuse
    /// its memory for its result.
    pub fn invoke(&self, name: &str, args: impl IntoArgs) -> Result<Value, RuntimeError> {
        self.with_spare(|workspace| self.invoke_in(workspace, name, args))
    }

    /// Calls a public function on another thread pool, or so that another thread can cancel the call.
    ///
    /// # Errors
    /// As for [`Vm::invoke`], and [`RuntimeError::Cancelled`].
    pub fn invoke_with(
        &self,
        options: CallOptions<'_>,
        name: &str,
        args: impl IntoArgs,
    ) -> Result<Value, RuntimeError> {
        self.with_spare(|workspace| {
            args.push_to(workspace);
            self.run(workspace, name, None, options)
        })
    }

    /// Calls a public function in a workspace of the caller. The workspace keeps memory for the next call.
    pub fn invoke_in(
        &self,
        workspace: &mut Workspace,
        name: &str,
        args: impl IntoArgs,
    ) -> Result<Value, RuntimeError> {
        args.push_to(workspace);
        self.run(workspace, name, None, CallOptions::default())
    }

    /// Calls a public function and adds its counts and times to `profile`.
    pub fn invoke_profiled(
        &self,
        profile: &mut Profile,
        name: &str,
        args: impl IntoArgs,
    ) -> Result<Value, RuntimeError> {
        let start = Instant::now();
        let res = self.with_spare(|workspace| {
            args.push_to(workspace);
            self.run(workspace, name, Some(profile), CallOptions::default())
        });
        profile.total += start.elapsed();
        res
    }

    /// The tensor `tensor`, which is constant number `index`, on `device`. Each constant is copied there once, and the copies
    /// are kept as long as the virtual machine.
    pub(super) fn constant_on(
        &self,
        index: ConstIdx,
        tensor: &Tensor,
        device: Device,
    ) -> Result<Tensor, RuntimeError> {
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (index, device);
        if let Some(copy) = copies.get(&key) {
            return Ok(copy.clone());
        }
        // It stays, whether the call that needs it first is captured or not.
        let copy = unrecorded(|| tensor.deep_copy(device))?;
        copies.insert(key, copy.clone());
        Ok(copy)
    }

    /// Calls the function `name` with the arguments in the registers of `workspace`.
    fn run(
        &self,
        workspace: &mut Workspace,
        name: &str,
        profile: Option<&mut Profile>,
        options: CallOptions<'_>,
    ) -> Result<Value, RuntimeError> {
        self.run_as(Run::new(self, workspace, profile, options), name)
    }

    /// Calls the function `name` while its work on a device is recorded.
    pub(super) fn run_captured(
        &self,
        workspace: &mut Workspace,
        log: &mut CaptureLog,
        name: &str,
    ) -> Result<Value, RuntimeError> {
        self.run_as(Run::new(self, workspace, None, CallOptions::default()).captured(log), name)
    }

    fn run_as(&self, mut run: Run<'_>, name: &str) -> Result<Value, RuntimeError> {
        let writer = run.writer;
        let _streams = run.ws.streams.enter();
        let res = self.find(name, run.ws.regs.len()).and_then(|index| run.call(index));
        run.ws.finish(writer);
        res
    }

    /// True if `tensor` is in the memory of a copy of a constant.
    pub(super) fn is_constant(&self, tensor: &Tensor) -> bool {
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.values().any(|it| it.storage().is_same(tensor.storage()))
    }

    /// Index of the public function `name`, which is called with `got` arguments.
    pub(super) fn find(&self, name: &str, got: usize) -> Result<usize, RuntimeError> {
        let found = self.exe.functions.iter().position(|func| func.public && &*func.name == name);
        let index = found
            .ok_or_else(|| RuntimeError::NotFound { what: "function", names: vec![name.to_string()] })?;
        let func = &self.exe.functions[index];
        let expected = func.params.len();
        if got != expected {
            return Err(RuntimeError::ArgCount { func: func.name.clone(), expected, got });
        }
        Ok(index)
    }

    /// Calls `f` with the workspace of the last call of this thread, so that on a GPU its results are in a stream without work of
    /// others; with another one, if it has none.
    fn with_spare<R>(&self, f: impl FnOnce(&mut Workspace) -> R) -> R {
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = std::thread::current().id();
        let take = |spare: &mut Vec<(ThreadId, Workspace)>| {
            let own = spare.iter().rposition(|it| it.0 == thread);
            own.map(|at| spare.remove(at)).or_else(|| spare.pop())
        };
        let mut workspace = take(&mut spare()).map_or_else(Workspace::default, |it| it.1);
        let res = f(&mut workspace);
        let mut spare = spare();
        if spare.len() < MAX_SPARE {
            spare.push((thread, workspace));
        }
        res
    }
}

/// Looks up each name with `find`; the error lists all missing names.
fn find_all<'a, T>(
    what: &'static str,
    names: impl Iterator<Item = &'a str>,
    find: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, RuntimeError> {
    let mut missing = Vec::new();
    let mut res = Vec::new();
    for name in names {
        match find(name) {
            Some(it) => res.push(it),
            None => missing.push(name.to_string()),
        }
    }
    if missing.is_empty() { Ok(res) } else { Err(RuntimeError::NotFound { what, names: missing }) }
}

impl fmt::Debug for Vm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.functions().map(|func| &func.name).collect();
        write!(f, "Vm({names:?})")
    }
}
