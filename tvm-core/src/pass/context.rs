//! Settings of a compilation: level, required and disabled passes, typed options, instruments.
//!
//! TVM counterpart: `PassContext`.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::Trust;

use super::{Choices, Pass, PassError, PassInstrument, Pipelines, VerifyEach};
use crate::ir::IRModule;
use crate::target::Target;

/// Typed options of the passes, with their defaults.
#[derive(Clone, Debug)]
pub struct PassConfig {
    /// `FuseOps`: maximum number of operators in one fused function.
    pub fuse_max_depth: usize,
    /// `UnrollLoop`: maximum number of statements to which an unmarked serial loop without inner loops is unrolled.
    pub unroll_max_steps: i64,
    /// `ConvertLayout`: convolutions may use Winograd's algorithm, whose results in f32 are within 2·10⁻⁵ of the largest one.
    pub winograd: bool,
    /// Code generation may reassociate and contract floats, multiply by reciprocals, assume that there is no NaN and no
    /// infinity, and ignore the sign of zero. Default schedules for GPUs may update a float several times in any order. When off,
    /// only the reductions of reduction blocks may be contracted.
    pub fast_math: bool,
    /// `ToMixedPrecision`: the type in which convolutions and products with constant weights take their operands. Sums stay in
    /// f32. By default, that of the model.
    pub precision: Precision,
    /// Promises of the caller; none by default: kernels check arguments and accesses, and call no C function.
    pub trust: Trust,
    options: FxHashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// The type in which convolutions and products of f32 take their operands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32, as the model says.
    #[default]
    Full,
    /// bf16: the range of f32, with 8 significant bits. CPUs with instructions for it sum its products in pairs.
    Bf16,
    /// f16: 11 significant bits, numbers up to 65504. On CPUs, the weights alone are f16, which makes products of few rows faster.
    F16,
    /// Constant weights of products are i8, with a scale for each column: a quarter of their size.
    Int8Weights,
    /// Constant weights of products are integers of 4 bits, with a scale for each 32 terms of a column; i8 where the number of
    /// terms is no multiple of 32.
    Int4Weights,
}

impl Precision {
    /// All of them, and their names on the command line.
    pub const ALL: [(Precision, &str); 5] = [
        (Precision::Full, "f32"),
        (Precision::Bf16, "bf16"),
        (Precision::F16, "f16"),
        (Precision::Int8Weights, "int8-weights"),
        (Precision::Int4Weights, "int4-weights"),
    ];
}

impl Precision {
    /// This precision, or `other` if this is [`Precision::Full`].
    #[must_use]
    pub fn or(self, other: Precision) -> Precision {
        if self == Precision::Full { other } else { self }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Precision::ALL.into_iter().find(|(it, _)| it == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Precision, String> {
        let found = Precision::ALL.into_iter().find(|(_, name)| *name == text);
        found
            .map(|(it, _)| it)
            .ok_or_else(|| format!("expected f32, bf16, f16, int8-weights or int4-weights, got `{text}`"))
    }
}

impl PassConfig {
    /// True if products of bf16 may be summed in pairs, which rounds other intermediate results than the sums of one after
    /// the other.
    pub fn sums_pairs(&self) -> bool {
        self.fast_math || self.precision == Precision::Bf16
    }

    /// Sets the options of a user-defined pass: one value per type.
    pub fn set_option<T: Any + Send + Sync>(&mut self, options: T) {
        self.options.insert(TypeId::of::<T>(), Arc::new(options));
    }

    /// The options of type `T`, if set.
    pub fn option<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.options.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

impl Default for PassConfig {
    fn default() -> PassConfig {
        PassConfig {
            fuse_max_depth: 256,
            winograd: true,
            unroll_max_steps: 0,
            fast_math: false,
            precision: Precision::Full,
            trust: Trust::none(),
            options: FxHashMap::default(),
        }
    }
}

/// Settings of a compilation.
#[derive(Clone)]
pub struct PassContext {
    /// What is compiled for. The drivers of compilation set it to their target; by default, it is the host.
    pub target: Target,
    /// Passes of a higher level are skipped; 2 by default.
    pub opt_level: u8,
    /// Names of passes that run whatever their level.
    pub required: Vec<String>,
    /// Names of passes that do not run.
    pub disabled: Vec<String>,
    /// Typed options of the passes.
    pub config: PassConfig,
    /// What the drivers of compilation run; `None`, the default, for [`Pipelines::for_target`].
    pub pipelines: Option<Pipelines>,
    /// Instruments of the passes, in order; by default [`VerifyEach`] if debug assertions are enabled, else none.
    pub instruments: Vec<Arc<dyn PassInstrument>>,
    /// Records what passes choose, and why; nothing by default.
    pub choices: Choices,
}

impl fmt::Debug for PassContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassContext")
            .field("target", &self.target)
            .field("opt_level", &self.opt_level)
            .field("required", &self.required)
            .field("disabled", &self.disabled)
            .field("config", &self.config)
            .field("pipelines", &self.pipelines)
            .field("instruments", &self.instruments.len())
            .finish()
    }
}

impl Default for PassContext {
    fn default() -> PassContext {
        PassContext {
            target: Target::host(),
            opt_level: 2,
            required: Vec::new(),
            disabled: Vec::new(),
            config: PassConfig::default(),
            pipelines: None,
            instruments: if cfg!(debug_assertions) { vec![Arc::new(VerifyEach)] } else { vec![] },
            choices: Choices::default(),
        }
    }
}

thread_local! {
    static STACK: RefCell<Vec<PassContext>> = const { RefCell::new(Vec::new()) };
}

impl PassContext {
    /// The default context.
    pub fn new() -> PassContext {
        PassContext::default()
    }

    /// Sets the target, which passes see.
    #[must_use]
    pub fn target(mut self, target: Target) -> PassContext {
        self.target = target;
        self
    }

    /// Sets the level: passes of a higher level are skipped.
    #[must_use]
    pub fn opt_level(mut self, opt_level: u8) -> PassContext {
        self.opt_level = opt_level;
        self
    }

    /// Makes the pass `name` run whatever its level.
    #[must_use]
    pub fn require(mut self, name: &str) -> PassContext {
        self.required.push(name.to_string());
        self
    }

    /// Disables the pass `name`.
    #[must_use]
    pub fn disable(mut self, name: &str) -> PassContext {
        self.disabled.push(name.to_string());
        self
    }

    /// Changes options of the passes.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut PassConfig)) -> PassContext {
        change(&mut self.config);
        self
    }

    /// Replaces the pipelines that the drivers of compilation run.
    #[must_use]
    pub fn pipelines(mut self, pipelines: Pipelines) -> PassContext {
        self.pipelines = Some(pipelines);
        self
    }

    /// Adds `instrument`; keep a clone of the `Arc` to read its results afterwards.
    #[must_use]
    pub fn instrument(mut self, instrument: Arc<dyn PassInstrument>) -> PassContext {
        self.instruments.push(instrument);
        self
    }

    /// Removes all instruments, including [`VerifyEach`].
    #[must_use]
    pub fn without_instruments(mut self) -> PassContext {
        self.instruments.clear();
        self
    }

    /// The innermost context entered on this thread, or the default one.
    pub fn current() -> PassContext {
        STACK.with_borrow(|stack| stack.last().cloned()).unwrap_or_default()
    }

    /// Runs `f` with this context as the current one of the thread.
    pub fn scope<R>(self, f: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a PassContext);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.instruments.iter().rev().for_each(|it| it.exit(self.0));
            }
        }
        self.instruments.iter().for_each(|it| it.enter(&self));
        let _leave = Leave(&self);
        self.entered(f)
    }

    /// Runs `f` with this context as the current one of the thread, which its instruments do not see.
    pub(super) fn entered<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                STACK.with_borrow_mut(|stack| stack.pop());
            }
        }
        STACK.with_borrow_mut(|stack| stack.push(self.clone()));
        let _leave = Leave;
        f()
    }

    /// True when the pass should run. Mandatory passes are always enabled: applying one that is disabled is an error.
    pub fn enabled(&self, pass: &Pass) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == pass.info.name);
        pass.is_mandatory()
            || !named(&self.disabled) && (named(&self.required) || pass.info.opt_level <= self.opt_level)
    }

    /// Checks that the passes named in the context exist: built in, registered, or constructed so far.
    pub(super) fn check_names(&self) -> Result<(), PassError> {
        self.required.iter().chain(&self.disabled).try_for_each(|name| super::registry::check_name(name))
    }

    pub(super) fn instrumented(
        &self,
        pass: &Pass,
        module: IRModule,
        run: impl FnOnce(IRModule) -> Result<IRModule, PassError>,
    ) -> Result<IRModule, PassError> {
        if pass.is_mandatory() {
            if self.disabled.iter().any(|name| name == pass.info.name) {
                return Err(PassError::Mandatory(pass.info.name.to_string()));
            }
        } else if !self.enabled(pass) || !self.instruments.iter().all(|it| it.should_run(pass, &module)) {
            return Ok(module);
        }
        self.instruments.iter().try_for_each(|it| it.before(pass, &module))?;
        let module = run(module)?;
        self.instruments.iter().try_for_each(|it| it.after(pass, &module))?;
        Ok(module)
    }
}
