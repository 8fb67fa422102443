//! What a row of the comparison is: work, contestants, goal.

use crate::work::Work;

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Ours.
    Ours,
    /// Another library, or another program of ours to compare with.
    Peer,
    /// The machine itself.
    Limit,
}

/// The worker of our program for the target C, whatever the target of `tvm` is.
pub(crate) const FOR_C: &str = "tvm-c";

/// What a program is given.
#[derive(Debug, Clone)]
pub enum Given {
    /// The specification of work by name, of which `models.py` makes a case.
    Spec(String),
    /// The case itself, as the workers read it.
    Case(String),
}

/// One program that does the work of a row.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// Whose program it is.
    pub side: Side,
    /// Name of its worker: `tvm`, `tvm-c`, `machine`, or of one of [`ENGINES`](crate::ENGINES).
    pub engine: &'static str,
    /// What it is called.
    pub label: String,
    /// Its work.
    pub given: Given,
}

/// What bounds the work from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Multiply-adds in f32.
    Fma,
    /// The instruction that adds products of bf16, where the processor has one.
    DotBf16,
    /// The instruction that adds products of 8-bit integers, where the processor has one.
    DotInt8,
    /// Memory is read.
    Read,
    /// Memory is read and written.
    Copy,
    /// Nothing that is measured here.
    Unknown,
}

/// A group of rows.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// What its rows have in common.
    pub title: &'static str,
    /// What it is compared with, and what is to be reached.
    pub goal: &'static str,
    /// The geometric mean of the ratios, at most.
    pub mean: Option<f64>,
}

impl Group {
    /// A group with this title, goal, and geometric mean at most.
    pub const fn new(title: &'static str, goal: &'static str, mean: Option<f64>) -> Self {
        Self { title, goal, mean }
    }
}

/// What must be reached; all that is given.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Goal {
    /// Our time by the best peer's, at most.
    pub ratio: Option<f64>,
    /// Share of the limit, at least.
    pub share: Option<f64>,
    /// The share counts for one thread only.
    pub one_thread: bool,
    /// Our time in seconds, at most.
    pub seconds: Option<f64>,
}

/// Which time of ours counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// A call.
    Call,
    /// The compilation.
    Compile,
    /// From the file to what is needed for a call; of ours, from a compiled artifact to the first result.
    Load,
    /// The memory that a process needs beyond what it has before it loads the model, in bytes instead of seconds.
    Memory,
}

/// How far results of networks that round to bytes or to 16 bits may be apart, as a share of the largest: a value between two steps
/// may go to either, and the next layers amplify that.
pub const ROUNDED: f64 = 0.25;

/// A row.
#[derive(Debug, Clone)]
pub struct Row {
    /// Index in the groups of the report.
    pub group: usize,
    /// What the work is called.
    pub name: String,
    /// Operations of the direct form.
    pub flops: f64,
    /// Bytes that must be read and written.
    pub bytes: f64,
    /// What bounds it from below.
    pub limit: Limit,
    /// Which time counts.
    pub measure: Measure,
    /// Both sides compute the same values, up to this share of the largest; `None` where they do not.
    pub tolerance: Option<f64>,
    /// What is to be reached.
    pub goal: Goal,
    /// Whether it is a row of the short form.
    pub short: bool,
    /// The programs, without the machine.
    pub contestants: Vec<Contestant>,
}

impl Row {
    /// A row without contestants, of the short form, with f32 multiply-adds as limit.
    pub fn new(group: usize, name: impl Into<String>, flops: f64, bytes: f64) -> Self {
        Self {
            group,
            name: name.into(),
            flops,
            bytes,
            limit: Limit::Fma,
            measure: Measure::Call,
            tolerance: Some(2e-3),
            goal: Goal::default(),
            short: true,
            contestants: Vec::new(),
        }
    }

    /// Sets what the work is called.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    fn add(mut self, side: Side, engine: &'static str, label: String, work: &Work) -> Self {
        let given = Given::Spec(work.spec().to_string());
        self.contestants.push(Contestant { side, engine, label, given });
        self
    }

    /// Adds our program. Where there are several, the fastest counts.
    pub fn ours(self, work: &Work) -> Self {
        self.add(Side::Ours, "tvm", "tvm".to_string(), work)
    }

    /// Adds our program for the target C.
    pub fn ours_for_c(self, work: &Work) -> Self {
        self.add(Side::Ours, FOR_C, "tvm, C".to_string(), work)
    }

    /// Adds our program on another case, as the one to compare with.
    pub fn against(self, label: &str, work: &Work) -> Self {
        self.add(Side::Peer, "tvm", label.to_string(), work)
    }

    /// Adds peers on the same case.
    pub fn peers(self, engines: &[&'static str], work: &Work) -> Self {
        engines.iter().fold(self, |row, engine| row.add(Side::Peer, engine, (*engine).to_string(), work))
    }

    /// Adds a peer under a name that says what differs.
    pub fn peer(self, engine: &'static str, label: &str, work: &Work) -> Self {
        self.add(Side::Peer, engine, label.to_string(), work)
    }

    /// Sets what bounds the work, and adds the machine as a contestant.
    pub fn bound(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// The machine at the limit of this row.
    pub fn machine(&self) -> Option<Contestant> {
        let case = match self.limit {
            Limit::Fma => r#"{"test":"fma"}"#.to_string(),
            Limit::DotBf16 => r#"{"test":"dot_bf16"}"#.to_string(),
            Limit::DotInt8 => r#"{"test":"dot_int8"}"#.to_string(),
            Limit::Read => format!(r#"{{"test":"read","bytes":{}}}"#, self.bytes),
            Limit::Copy => format!(r#"{{"test":"copy","bytes":{}}}"#, self.bytes),
            Limit::Unknown => return None,
        };
        let given = Given::Case(case);
        Some(Contestant { side: Side::Limit, engine: "machine", label: "machine".to_string(), given })
    }

    /// Sets the largest ratio.
    pub fn ratio(mut self, most: f64) -> Self {
        self.goal.ratio = Some(most);
        self
    }

    /// Sets the least share of the limit.
    pub fn share(mut self, least: f64) -> Self {
        self.goal.share = Some(least);
        self
    }

    /// Leaves the row out of the short form if `long`.
    pub fn long(mut self, long: bool) -> Self {
        self.short = !long;
        self
    }

    /// Sets the operations; without them there is no limit.
    pub fn with_operations(mut self, flops: Option<f64>) -> Self {
        match flops {
            Some(flops) => self.flops = flops,
            None => self.limit = Limit::Unknown,
        }
        self
    }

    /// Work per second of a time: in 10⁹ operations, or in 10⁹ bytes where memory is the limit.
    pub fn rate(&self, seconds: f64) -> f64 {
        let work = if self.in_bytes() { self.bytes } else { self.flops };
        work / seconds / 1e9
    }

    /// Whether bytes are what counts.
    pub fn in_bytes(&self) -> bool {
        matches!(self.limit, Limit::Read | Limit::Copy)
    }
}
