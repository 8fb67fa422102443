//! Instruments, which observe passes as they run, and the built-in ones.
//!
//! TVM counterpart: `ir/instrument.h`, `tvm.ir.instrument`.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::{Pass, PassContext, PassError, PassKind};
use crate::ir::{IRModule, well_formed};

/// Observes the passes that run under a [`PassContext`]; one instrument may serve several threads.
pub trait PassInstrument: Send + Sync {
    /// Called when the context becomes the current one of a thread.
    fn enter(&self, _ctx: &PassContext) {}

    /// Called when the context stops being the current one of a thread.
    fn exit(&self, _ctx: &PassContext) {}

    /// Whether `pass` should run; all instruments must agree. Not queried for mandatory passes, which always run.
    fn should_run(&self, _pass: &Pass, _module: &IRModule) -> bool {
        true
    }

    /// Called before `pass` runs on `module`.
    ///
    /// # Errors
    /// An error stops the compilation.
    fn before(&self, _pass: &Pass, _module: &IRModule) -> Result<(), PassError> {
        Ok(())
    }

    /// Called after `pass` returned `module`.
    ///
    /// # Errors
    /// An error stops the compilation.
    fn after(&self, _pass: &Pass, _module: &IRModule) -> Result<(), PassError> {
        Ok(())
    }
}

/// Checks before and after every pass that the module is well-formed; on by default if debug assertions are enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerifyEach;

impl PassInstrument for VerifyEach {
    fn before(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        match pass.kind {
            PassKind::Sequential => Ok(()),
            _ => well_formed(module).map_err(|err| PassError::ir(pass.info.name, err)),
        }
    }

    fn after(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        match pass.kind {
            PassKind::Sequential => Ok(()),
            _ => well_formed(module)
                .map_err(|source| PassError::Verify { pass: pass.info.name.to_string(), source }),
        }
    }
}

/// Measures how long each pass takes; passes of a sequence are nested under it.
#[derive(Debug, Default)]
pub struct PassTimingInstrument(Mutex<Timings>);

#[derive(Debug, Default)]
struct Timings {
    /// Passes that are running: thread, row, start.
    running: Vec<(ThreadId, usize, Instant)>,
    rows: Vec<PassTiming>,
}

/// One run of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassTiming {
    /// Name of the pass.
    pub name: &'static str,
    /// Number of sequences that the pass is nested in.
    pub depth: usize,
    /// Time that the pass took; zero when it failed.
    pub duration: Duration,
}

impl PassTimingInstrument {
    /// An instrument without measurements.
    pub fn new() -> PassTimingInstrument {
        PassTimingInstrument::default()
    }

    /// All runs in the order in which they began.
    pub fn timings(&self) -> Vec<PassTiming> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rows.clone()
    }

    /// The runs as a table.
    pub fn table(&self) -> String {
        let rows = self.timings();
        let label = |row: &PassTiming| format!("{}{}", "  ".repeat(row.depth), row.name);
        let width = rows.iter().map(|row| label(row).len()).max().unwrap_or(0);
        let line = |row: &PassTiming| {
            format!("{:<width$}  {:>10.3} ms\n", label(row), row.duration.as_secs_f64() * 1e3)
        };
        rows.iter().map(line).collect()
    }
}

impl PassInstrument for PassTimingInstrument {
    fn before(&self, pass: &Pass, _: &IRModule) -> Result<(), PassError> {
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = std::thread::current().id();
        let depth = timings.running.iter().filter(|(other, ..)| *other == thread).count();
        let row = timings.rows.len();
        timings.rows.push(PassTiming { name: pass.info.name, depth, duration: Duration::ZERO });
        timings.running.push((thread, row, Instant::now()));
        Ok(())
    }

    fn after(&self, pass: &Pass, _: &IRModule) -> Result<(), PassError> {
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = std::thread::current().id();
        let rows = &timings.rows;
        let found = timings
            .running
            .iter()
            .rposition(|&(other, row, _)| other == thread && rows[row].name == pass.info.name);
        if let Some(at) = found {
            let (_, row, start) = timings.running[at];
            timings.rows[row].duration = start.elapsed();
            // Also drops passes nested in this one that failed: `after` was not called for them.
            timings.running.retain(|&(other, it, _)| other != thread || it < row);
        }
        Ok(())
    }

    fn exit(&self, _: &PassContext) {
        let thread = std::thread::current().id();
        let mut timings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        timings.running.retain(|(other, ..)| *other != thread);
    }
}

/// Receives printed modules: (title, text). The compiler itself does no output.
pub type Sink = dyn Fn(&str, &str) + Send + Sync;

/// Prints the module to a sink, before or after passes, or both.
pub struct PrintIR {
    before: bool,
    after: bool,
    only: Option<Vec<String>>,
    count: Mutex<usize>,
    sink: Box<Sink>,
}

impl PrintIR {
    fn new(before: bool, after: bool, sink: impl Fn(&str, &str) + Send + Sync + 'static) -> PrintIR {
        PrintIR { before, after, only: None, count: Mutex::new(0), sink: Box::new(sink) }
    }

    /// Prints the module before every pass, titled `before NAME`.
    pub fn before_all(sink: impl Fn(&str, &str) + Send + Sync + 'static) -> PrintIR {
        PrintIR::new(true, false, sink)
    }

    /// Prints the module after every pass, titled `after NAME`.
    pub fn after_all(sink: impl Fn(&str, &str) + Send + Sync + 'static) -> PrintIR {
        PrintIR::new(false, true, sink)
    }

    /// Prints the module before and after every pass, titled `007_NAME.before` and `008_NAME.after`, as file names.
    pub fn dump(sink: impl Fn(&str, &str) + Send + Sync + 'static) -> PrintIR {
        PrintIR::new(true, true, sink)
    }

    /// Prints only for the passes of these names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> PrintIR {
        self.only = Some(names.iter().map(|name| name.to_string()).collect());
        self
    }

    fn print(&self, wanted: bool, when: &str, pass: &Pass, module: &IRModule) {
        let name = pass.info.name;
        let listed = self.only.as_ref().is_none_or(|only| only.iter().any(|it| it == name));
        if !wanted || !listed || pass.kind == PassKind::Sequential {
            return;
        }
        let title = if self.before && self.after {
            let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            *count += 1;
            format!("{:03}_{name}.{when}", *count - 1)
        } else {
            format!("{when} {name}")
        };
        (self.sink)(&title, &module.to_string());
    }
}

impl PassInstrument for PrintIR {
    fn before(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        self.print(self.before, "before", pass, module);
        Ok(())
    }

    fn after(&self, pass: &Pass, module: &IRModule) -> Result<(), PassError> {
        self.print(self.after, "after", pass, module);
        Ok(())
    }
}

impl fmt::Debug for PrintIR {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, after, only, count: _, sink: _ } = self;
        f.debug_struct("PrintIR").field("before", before).field("after", after).field("only", only).finish()
    }
}
