//! Profile of runs: number of calls and time for each kernel and packed function.
//!
//! TVM counterpart: `VirtualMachineProfiler`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Counts and times of one run or of several.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    entries: BTreeMap<(ProfileKind, String), ProfileEntry>,
    /// Number of instructions executed.
    pub instructions: u64,
    /// Total time of the runs.
    pub total: Duration,
}

/// Kind of the function that an entry describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProfileKind {
    /// A kernel.
    Kernel,
    /// A packed function.
    Packed,
}

/// Counts of one kernel or packed function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileEntry {
    /// Number of calls.
    pub calls: u64,
    /// Total time of the calls.
    pub time: Duration,
}

impl Profile {
    pub(super) fn add(&mut self, kind: ProfileKind, name: &str, time: Duration) {
        let key = (kind, name.to_string());
        let entry = self.entries.entry(key).or_default();
        entry.calls += 1;
        entry.time += time;
    }

    /// All entries, longest time first.
    pub fn entries(&self) -> Vec<(ProfileKind, &str, ProfileEntry)> {
        let mut res: Vec<_> =
            self.entries.iter().map(|((kind, name), entry)| (*kind, name.as_str(), *entry)).collect();
        res.sort_by_key(|(.., entry)| std::cmp::Reverse(entry.time));
        res
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let total = micros(self.total).max(f64::MIN_POSITIVE);
        writeln!(f, "{:>12} {:>7} {:>9} {:>12}  name", "time [us]", "%", "calls", "each [us]")?;
        let mut rest = self.total;
        for (kind, name, entry) in self.entries() {
            rest = rest.saturating_sub(entry.time);
            let (time, calls) = (micros(entry.time), entry.calls);
            let mark = if kind == ProfileKind::Packed { " (packed)" } else { "" };
            let (percent, each) = (100.0 * time / total, time / calls as f64);
            writeln!(f, "{time:>12.1} {percent:>7.2} {calls:>9} {each:>12.2}  {name}{mark}")?;
        }
        let (time, count) = (micros(rest), self.instructions);
        writeln!(f, "{time:>12.1} {:>7.2} {count:>9} {:>12}  (instructions)", 100.0 * time / total, "")?;
        write!(f, "{:>12.1} {:>7.2} {:>9} {:>12}  total", micros(self.total), 100.0, "", "")
    }
}
