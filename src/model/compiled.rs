//! A compiled model: its inputs and outputs, and its calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tvm_runtime::vm::{CallOptions, CancelToken, Vm, VmFunction};
use tvm_runtime::{SerialPool, ThreadPool, Value, WorkerPool};

use super::artifact::Origin;
use super::info::{TensorInfo, of_function};
use super::inputs::Inputs;
use super::outputs::Outputs;
use super::{ModelError, check};

/// A model that is ready to run. Any number of threads may call it at once; each call has memory of its own, which later
/// calls reuse. `Display` writes its inputs and outputs.
pub struct CompiledModel {
    pub(super) vm: Arc<Vm>,
    pub(super) entry: Arc<str>,
    pub(super) inputs: Arc<[TensorInfo]>,
    pub(super) outputs: Arc<[TensorInfo]>,
    /// What the kernels were compiled from, unless the model was loaded with them.
    pub(super) origin: Option<Origin>,
    /// Thread pools of calls that ask for a number of threads.
    pools: Mutex<BTreeMap<usize, Arc<dyn ThreadPool>>>,
}

/// Options of one call.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    threads: Option<usize>,
    cancel: Option<CancelToken>,
}

impl RunOptions {
    /// The options of [`CompiledModel::run`]: the threads of the model, and no token.
    pub fn new() -> RunOptions {
        RunOptions::default()
    }

    /// Sets the number of threads of the call, the calling thread included.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> RunOptions {
        self.threads = Some(threads);
        self
    }

    /// Lets `token` cancel the call, between two kernels.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> RunOptions {
        self.cancel = Some(token.clone());
        self
    }
}

/// Largest number of threads that may be asked for.
const MAX_THREADS: usize = 1024;

/// A thread pool of `threads` threads.
pub(super) fn pool(threads: usize) -> Result<Arc<dyn ThreadPool>, ModelError> {
    match threads {
        1 => Ok(Arc::new(SerialPool)),
        2..=MAX_THREADS => Ok(Arc::new(WorkerPool::new(threads))),
        _ => {
            let message = format!("a call on {threads} threads: expected 1..={MAX_THREADS}");
            Err(ModelError::Option { message })
        }
    }
}

impl CompiledModel {
    pub(super) fn new(
        vm: Vm,
        entry: Option<&str>,
        origin: Option<Origin>,
    ) -> Result<CompiledModel, ModelError> {
        let names = || vm.functions().map(|it| it.name.to_string()).collect::<Vec<_>>();
        let named = |name: &str| vm.functions().find(|it| &*it.name == name);
        let found: Option<&VmFunction> = match entry {
            Some(name) => named(name),
            None => named("main").or_else(|| vm.functions().next().filter(|_| vm.functions().count() == 1)),
        };
        let func =
            found.ok_or_else(|| ModelError::Entry { name: entry.map(String::from), functions: names() })?;
        let (inputs, outputs) = of_function(vm.executable(), func);
        let entry = func.name.clone();
        let (vm, inputs, outputs) = (Arc::new(vm), inputs.into(), outputs.into());
        Ok(CompiledModel { vm, entry, inputs, outputs, origin, pools: Mutex::default() })
    }

    /// The inputs, in order.
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.inputs
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.outputs
    }

    /// The virtual machine that runs the model.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// Runs the model; [`Inputs`] lists what it takes.
    ///
    /// # Errors
    /// When an input is missing, unknown or does not fit, or the run fails.
    pub fn run(&self, inputs: impl Inputs) -> Result<Outputs, ModelError> {
        self.run_with(inputs, &RunOptions::default())
    }

    /// As [`CompiledModel::run`], with a number of threads of its own, or so that it can be cancelled.
    ///
    /// # Errors
    /// As for [`CompiledModel::run`], and [`RuntimeError::Cancelled`](crate::RuntimeError::Cancelled).
    pub fn run_with(&self, inputs: impl Inputs, options: &RunOptions) -> Result<Outputs, ModelError> {
        let args: Vec<Value> = check::bind(&self.inputs, inputs.list())?;
        let pool = options.threads.map(|threads| self.pool(threads)).transpose()?;
        let options = CallOptions { pool: pool.as_deref(), cancel: options.cancel.as_ref() };
        let result = self.vm.invoke_with(options, &self.entry, args)?;
        Outputs::new(self.outputs.clone(), result)
    }

    /// Runs the model once on zeros, so that the first call finds its memory and code ready.
    ///
    /// # Errors
    /// When an extent of an input is an expression, or the run fails.
    pub fn warm_up(&self) -> Result<(), ModelError> {
        self.run(check::zeros(&self.inputs)?).map(drop)
    }

    /// The pool for calls on `threads` threads, which is kept.
    fn pool(&self, threads: usize) -> Result<Arc<dyn ThreadPool>, ModelError> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&threads) {
            return Ok(pool.clone());
        }
        let pool = pool(threads)?;
        pools.insert(threads, pool.clone());
        Ok(pool)
    }
}

impl fmt::Display for CompiledModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inputs.iter().try_for_each(|it| writeln!(f, "input  {it}"))?;
        self.outputs.iter().try_for_each(|it| writeln!(f, "output {it}"))
    }
}

impl fmt::Debug for CompiledModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledModel").field("entry", &self.entry).finish_non_exhaustive()
    }
}
