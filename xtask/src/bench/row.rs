//! What a row of the comparison is: work, contestants, goal.

/// Whose program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Peer,
    /// The machine itself.
    Limit,
}

/// One program that does the work of a row.
#[derive(Debug, Clone)]
pub(crate) struct Contestant {
    pub(crate) side: Side,
    pub(crate) engine: &'static str,
    pub(crate) label: String,
    /// Specification of the case: JSON that `models.py` reads, or the case itself for the machine.
    pub(crate) spec: String,
}

/// What bounds the work from below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Multiply-adds in f32.
    Fma,
    /// Memory is read.
    Read,
    /// Memory is read and written.
    Copy,
    /// Nothing that is measured here.
    Unknown,
}

/// What must be reached; all that is given.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Goal {
    /// Our time by the best peer's, at most.
    pub(crate) ratio: Option<f64>,
    /// Share of the limit, at least.
    pub(crate) share: Option<f64>,
    /// The share counts for one thread only.
    pub(crate) one_thread: bool,
    /// Our time in seconds, at most.
    pub(crate) seconds: Option<f64>,
}

/// Which time of ours counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Call,
    Compile,
}

/// A row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// Index in `table::GROUPS`.
    pub(crate) group: usize,
    pub(crate) name: String,
    pub(crate) flops: f64,
    pub(crate) bytes: f64,
    pub(crate) limit: Limit,
    pub(crate) measure: Measure,
    /// Both sides compute the same values, up to this share of the largest; `None` where they do not.
    pub(crate) tolerance: Option<f64>,
    pub(crate) goal: Goal,
    /// Whether it is a row of the short form.
    pub(crate) short: bool,
    pub(crate) contestants: Vec<Contestant>,
}

impl Row {
    /// A row without contestants, of the short form, with f32 multiply-adds as limit.
    pub(crate) fn new(group: usize, name: impl Into<String>, flops: f64, bytes: f64) -> Self {
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

    fn add(mut self, side: Side, engine: &'static str, label: String, spec: &str) -> Self {
        self.contestants.push(Contestant { side, engine, label, spec: spec.to_string() });
        self
    }

    /// Adds our program. Where there are several, the fastest counts.
    pub(crate) fn ours(self, spec: &str) -> Self {
        self.add(Side::Ours, "tvm", "tvm".to_string(), spec)
    }

    /// Adds our program on another case, as the one to compare with.
    pub(crate) fn against(self, label: &str, spec: &str) -> Self {
        self.add(Side::Peer, "tvm", label.to_string(), spec)
    }

    /// Adds peers on the same case.
    pub(crate) fn peers(self, engines: &[&'static str], spec: &str) -> Self {
        engines.iter().fold(self, |row, engine| row.add(Side::Peer, engine, (*engine).to_string(), spec))
    }

    /// Adds a peer under a name that says what differs.
    pub(crate) fn peer(self, engine: &'static str, label: &str, spec: &str) -> Self {
        self.add(Side::Peer, engine, label.to_string(), spec)
    }

    /// Sets what bounds the work, and adds the machine as a contestant.
    pub(crate) fn bound(mut self, limit: Limit) -> Self {
        self.limit = limit;
        self
    }

    /// The machine at the limit of this row.
    pub(crate) fn machine(&self) -> Option<Contestant> {
        let spec = match self.limit {
            Limit::Fma => r#"{"test":"fma"}"#.to_string(),
            Limit::Read => format!(r#"{{"test":"read","bytes":{}}}"#, self.bytes),
            Limit::Copy => format!(r#"{{"test":"copy","bytes":{}}}"#, self.bytes),
            Limit::Unknown => return None,
        };
        Some(Contestant { side: Side::Limit, engine: "machine", label: "machine".to_string(), spec })
    }

    /// Sets the largest ratio.
    pub(crate) fn ratio(mut self, most: f64) -> Self {
        self.goal.ratio = Some(most);
        self
    }

    /// Sets the least share of the limit.
    pub(crate) fn share(mut self, least: f64) -> Self {
        self.goal.share = Some(least);
        self
    }

    /// Leaves the row out of the short form if `long`.
    pub(crate) fn long(mut self, long: bool) -> Self {
        self.short = !long;
        self
    }

    /// Work per second of a time: in 10⁹ operations, or in 10⁹ bytes where memory is the limit.
    pub(crate) fn rate(&self, seconds: f64) -> f64 {
        let work = if self.in_bytes() { self.bytes } else { self.flops };
        work / seconds / 1e9
    }

    /// Whether bytes are what counts.
    pub(crate) fn in_bytes(&self) -> bool {
        matches!(self.limit, Limit::Read | Limit::Copy)
    }
}
