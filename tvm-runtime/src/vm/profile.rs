//! Profile of runs: number of calls and time for each kernel and packed function, and each call where that is asked for.
//!
//! TVM counterpart: `VirtualMachineProfiler`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{DataType, Device, Value};

/// Counts and times of one run or of several.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    kernels: BTreeMap<String, ProfileEntry>,
    packed: BTreeMap<String, ProfileEntry>,
    /// Number of instructions executed.
    pub instructions: u64,
    /// Total time of the runs.
    pub total: Duration,
    record: Option<Record>,
}

/// The calls of a profile that records them.
#[derive(Clone, Debug)]
struct Record {
    start: Instant,
    calls: Vec<ProfileCall>,
}

/// One call of a kernel or packed function.
#[derive(Clone, Debug)]
pub struct ProfileCall {
    /// What was called.
    pub kind: ProfileKind,
    /// Its name.
    pub name: Arc<str>,
    /// Time from the creation of the profile to the begin of the call.
    pub start: Duration,
    /// Time of the call.
    pub time: Duration,
    /// Where the tensors of a kernel are; `None` for packed functions, and without tensors.
    pub device: Option<Device>,
    /// The arguments of a kernel, in the order of its parameters; nothing for packed functions.
    pub args: Vec<ProfileArg>,
}

/// What is recorded of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum ProfileArg {
    /// Shape and element type of a tensor.
    Tensor(Box<[i64]>, DataType),
    /// An integer.
    Int(i64),
    /// Another value.
    Other,
}

/// Kind of the function that an entry describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProfileKind {
    /// A kernel.
    Kernel,
    /// A packed function.
    Packed,
}

impl fmt::Display for ProfileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProfileKind::Kernel => "kernel",
            ProfileKind::Packed => "packed",
        })
    }
}

/// Counts of one kernel or packed function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileEntry {
    /// Number of calls.
    pub calls: u64,
    /// Total time of the calls.
    pub time: Duration,
    /// Where the tensors of a kernel were; `None` for packed functions, and without tensors.
    pub device: Option<Device>,
}

impl Profile {
    /// A profile that records each call, with its arguments.
    #[must_use]
    pub fn recording() -> Profile {
        Profile { record: Some(Record { start: Instant::now(), calls: Vec::new() }), ..Profile::default() }
    }

    /// Adds a call that began at `start` and ends now.
    pub(super) fn add<'a>(
        &mut self,
        (kind, device): (ProfileKind, Option<Device>),
        name: &str,
        start: Instant,
        args: impl Iterator<Item = &'a Value>,
    ) {
        let time = start.elapsed();
        let entries = match kind {
            ProfileKind::Kernel => &mut self.kernels,
            ProfileKind::Packed => &mut self.packed,
        };
        match entries.get_mut(name) {
            Some(entry) => entry.add(time, device),
            None => entries.entry(name.to_string()).or_default().add(time, device),
        }
        if let Some(record) = &mut self.record {
            let start = start.saturating_duration_since(record.start);
            let args = args.map(ProfileArg::of).collect();
            record.calls.push(ProfileCall { kind, name: name.into(), start, time, device, args });
        }
    }

    /// The calls in order; nothing unless the profile is [recording](Profile::recording).
    pub fn calls(&self) -> &[ProfileCall] {
        self.record.as_ref().map_or(&[], |it| &it.calls)
    }

    /// True if not all kernels ran on one device.
    pub fn on_several_devices(&self) -> bool {
        let mut devices = self.kernels.values().filter_map(|it| it.device);
        let first = devices.next();
        devices.any(|it| Some(it) != first)
    }

    /// All entries, longest time first.
    pub fn entries(&self) -> Vec<(ProfileKind, &str, ProfileEntry)> {
        let kinds = [(ProfileKind::Kernel, &self.kernels), (ProfileKind::Packed, &self.packed)];
        let mut res = Vec::new();
        for (kind, entries) in kinds {
            res.extend(entries.iter().map(|(name, entry)| (kind, name.as_str(), *entry)));
        }
        res.sort_by_key(|(.., entry)| std::cmp::Reverse(entry.time));
        res
    }
}

impl ProfileEntry {
    fn add(&mut self, time: Duration, device: Option<Device>) {
        self.calls += 1;
        self.time += time;
        self.device = device;
    }
}

impl ProfileArg {
    fn of(value: &Value) -> ProfileArg {
        match value {
            Value::Tensor(it) => ProfileArg::Tensor(it.shape().into(), it.dtype()),
            Value::Int(it) => ProfileArg::Int(*it),
            _ => ProfileArg::Other,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let total = micros(self.total).max(f64::MIN_POSITIVE);
        writeln!(f, "{:>12} {:>7} {:>9} {:>12}  name", "time [us]", "%", "calls", "each [us]")?;
        let (mut rest, several) = (self.total, self.on_several_devices());
        for (kind, name, entry) in self.entries() {
            rest = rest.saturating_sub(entry.time);
            let (time, calls) = (micros(entry.time), entry.calls);
            let mark = match entry.device {
                _ if kind == ProfileKind::Packed => " (packed)".to_string(),
                Some(device) if several => format!(" on {device}"),
                _ => String::new(),
            };
            let (percent, each) = (100.0 * time / total, time / calls as f64);
            writeln!(f, "{time:>12.1} {percent:>7.2} {calls:>9} {each:>12.2}  {name}{mark}")?;
        }
        let (time, count) = (micros(rest), self.instructions);
        writeln!(f, "{time:>12.1} {:>7.2} {count:>9} {:>12}  (instructions)", 100.0 * time / total, "")?;
        write!(f, "{:>12.1} {:>7.2} {:>9} {:>12}  total", micros(self.total), 100.0, "", "")
    }
}
