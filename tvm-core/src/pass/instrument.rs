//! What watches passes run, and the built-in instruments.
//!
//! TVM counterpart: `ir/instrument.h`, `tvm.ir.instrument`.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::{Pass, PassContext, PassError, PassKind};
use crate::ir::{IRModule, well_formed};

/// Watches the passes that run under a [`PassContext`]; one instrument may serve several threads.
pub trait PassInstrument: Send + Sync {
    /// The context becomes the current one of a thread.
    fn enter(&self, _ctx: &PassContext) {}

    /// The context is left.
    fn exit(&self, _ctx: &PassContext) {}

    /// Whether `pass` is to run; all instruments must agree. Mandatory passes run without being asked for.
    fn should_run(&self, _pass: &Pass, _module: &IRModule) -> bool {
        true
    }

    /// Before `pass` runs on `module`.
    ///
    /// # Errors
    /// Stops the compilation.
    fn before(&self, _pass: &Pass, _module: &IRModule) -> Result<(), PassError> {
        Ok(())
    }

    /// After `pass` gave `module`.
    ///
    /// # Errors
    /// Stops the compilation.
    fn after(&self, _pass: &Pass, _module: &IRModule) -> Result<(), PassError> {
        Ok(())
    }
}

/// Checks the module after every pass; on by default where debug assertions are.
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

/// How long each pass took, nested ones under the sequence that ran them.
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
    /// How many sequences it is nested in.
    pub depth: usize,
    /// Time it took; zero when it failed.
    pub duration: Duration,
}

impl PassTimingInstrument {
    /// Nothing measured yet.
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
            // What failed inside has no end of its own.
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

/// Where printed modules go: (title, text). The compiler itself does no output.
pub type Sink = dyn Fn(&str, &str) + Send + Sync;

/// Prints the module before or after passes, or both, into a sink.
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

    /// The module before every pass, titled `before NAME`.
    pub fn before_all(sink: impl Fn(&str, &str) + Send + Sync + 'static) -> PrintIR {
        PrintIR::new(true, false, sink)
    }

    /// The module after every pass, titled `after NAME`.
    pub fn after_all(sink: impl Fn(&str, &str) + Send + Sync + 'static) -> PrintIR {
        PrintIR::new(false, true, sink)
    }

    /// The module before and after every pass, titled `007_NAME.before` and `008_NAME.after`: names for files.
    pub fn dump(sink: impl Fn(&str, &str) + Send + Sync + 'static) -> PrintIR {
        PrintIR::new(true, true, sink)
    }

    /// Only for the passes of these names.
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
