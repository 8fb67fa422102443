//! Several CPU levels in one program: kernels for some levels of x86-64, of which loading takes the highest one that this
//! machine has.
//!
//! Requires that the metadata lists the levels, and that there is one set of kernels for each of them; a program of which
//! this is not true does not load. TVM counterpart: none.

use crate::cpu::{has, level_features, level_index};
use crate::error::RuntimeError;
use crate::vm::Executable;

/// Key of the metadata entry that lists the levels.
const KEY: &str = "cpu.levels";

/// Metadata entry that lists the CPU levels, in ascending order, that a program has kernels for.
pub fn cpu_level_list<'a>(levels: impl IntoIterator<Item = &'a str>) -> (String, String) {
    (KEY.to_string(), levels.into_iter().collect::<Vec<_>>().join(","))
}

impl Executable {
    /// The CPU levels that the program has kernels for, in ascending order; none if it has kernels for one CPU only.
    pub fn cpu_levels(&self) -> impl Iterator<Item = &str> {
        self.metadata(KEY).into_iter().flat_map(|list| list.split(','))
    }

    /// The level whose kernels this machine runs: `wanted`, or else the highest one that the machine has. `carried` are the
    /// levels of the kernels that are there.
    ///
    /// # Errors
    /// When `carried` are not the levels that the program lists, or the program lacks the level `wanted`, or the machine lacks
    /// features of it.
    pub(crate) fn choose_level(
        &self,
        carried: &[&str],
        wanted: Option<&str>,
    ) -> Result<Option<String>, RuntimeError> {
        let listed: Vec<&str> = self.cpu_levels().collect();
        Ok(choose(&listed, carried, wanted, has)?.map(String::from))
    }
}

/// The one of `levels` of x86-64, in ascending order, whose kernels this machine runs: `wanted`, or else the highest one that
/// it has; `None` if there are no levels.
///
/// # Errors
/// When `levels` lacks `wanted` or is not in order, or this machine lacks features of the level.
pub fn choose_cpu_level<'a>(
    levels: &[&'a str],
    wanted: Option<&str>,
) -> Result<Option<&'a str>, RuntimeError> {
    choose(levels, levels, wanted, has)
}

fn choose<'a>(
    listed: &[&'a str],
    carried: &[&str],
    wanted: Option<&str>,
    has: impl Fn(&str) -> bool,
) -> Result<Option<&'a str>, RuntimeError> {
    let malformed = |message: String| Err(RuntimeError::CpuLevelList { message });
    for (i, level) in listed.iter().enumerate() {
        let Some(index) = level_index(level) else {
            return malformed(format!("`{level}` is no level of x86-64"));
        };
        if i > 0 && level_index(listed[i - 1]).is_some_and(|below| below >= index) {
            return malformed(format!("`{level}` is not above `{}`", listed[i - 1]));
        }
        match carried.iter().filter(|it| *it == level).count() {
            0 => return malformed(format!("there are no kernels for `{level}`")),
            1 => {}
            _ => return malformed(format!("there are kernels for `{level}` twice")),
        }
    }
    if let Some(level) = carried.iter().find(|level| !listed.contains(level)) {
        return malformed(format!("there are kernels for `{level}`, which is not listed"));
    }
    let missing = |level: &str| -> Vec<String> {
        let features = level_features(level).unwrap_or_default();
        features.into_iter().filter(|name| !has(name)).map(String::from).collect()
    };
    let level = match wanted {
        Some(wanted) => listed.iter().find(|level| **level == wanted).ok_or_else(|| lacks(wanted, listed))?,
        None => match listed.iter().rev().find(|level| missing(level).is_empty()).or(listed.first()) {
            Some(level) => level,
            None => return Ok(None),
        },
    };
    match missing(level) {
        missing if missing.is_empty() => Ok(Some(level)),
        missing => Err(RuntimeError::CpuFeatures { missing }),
    }
}

/// The error for a program that has no kernels for the level `wanted`.
pub(crate) fn lacks(wanted: &str, has: &[&str]) -> RuntimeError {
    RuntimeError::CpuLevel { level: wanted.into(), has: has.iter().map(ToString::to_string).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 3] = ["x86-64", "x86-64-v3", "x86-64-v4"];

    fn machine(level: &str) -> impl Fn(&str) -> bool {
        let features = level_features(level).unwrap();
        move |name| features.contains(&name)
    }

    #[test]
    fn the_highest_level_that_the_machine_has() {
        let rows = [("x86-64", ALL[0]), ("x86-64-v2", ALL[0]), ("x86-64-v3", ALL[1]), ("x86-64-v4", ALL[2])];
        for (cpu, level) in rows {
            assert_eq!(choose(&ALL, &ALL, None, machine(cpu)).unwrap(), Some(level), "{cpu}");
        }
        let carried = ["x86-64-v4", "x86-64", "x86-64-v3"];
        assert_eq!(choose(&ALL, &carried, None, machine("x86-64-v3")).unwrap(), Some(ALL[1]));
        assert_eq!(choose(&[], &[], None, |_| false).unwrap(), None);
    }

    #[test]
    fn a_level_that_is_asked_for() {
        for level in ALL {
            assert_eq!(choose(&ALL, &ALL, Some(level), machine("x86-64-v4")).unwrap(), Some(level));
        }
        let err = choose(&ALL, &ALL, Some("x86-64-v4"), machine("x86-64-v3")).unwrap_err();
        assert!(matches!(&err, RuntimeError::CpuFeatures { missing } if missing.len() == 5), "{err}");
        let err = choose(&ALL, &ALL, Some("x86-64-v2"), machine("x86-64-v4")).unwrap_err();
        assert!(
            matches!(&err, RuntimeError::CpuLevel { level, has } if level == "x86-64-v2" && has.len() == 3)
        );
        assert!(err.to_string().contains("`x86-64-v2`") && err.to_string().contains("`x86-64-v3`"), "{err}");
        let err = choose(&[], &[], Some("x86-64"), |_| true).unwrap_err();
        assert!(matches!(err, RuntimeError::CpuLevel { .. }));
        // A machine that lacks the lowest level, as one of another architecture does.
        let err = choose(&ALL[1..], &ALL[1..], None, machine("x86-64-v2")).unwrap_err();
        assert!(matches!(err, RuntimeError::CpuFeatures { .. }), "{err}");
    }

    #[test]
    fn levels_that_do_not_fit() {
        let rows: [(&[&str], &[&str], &str); 8] = [
            (&ALL, &ALL[..2], "no kernels for `x86-64-v4`"),
            (&ALL[..1], &["x86-64", "x86-64"], "kernels for `x86-64` twice"),
            (&ALL[..2], &ALL, "kernels for `x86-64-v4`, which is not listed"),
            (&[], &ALL, "kernels for `x86-64`, which is not listed"),
            (&["x86-64-v3", "x86-64"], &ALL[..2], "`x86-64` is not above `x86-64-v3`"),
            (&["x86-64", "x86-64"], &ALL[..1], "`x86-64` is not above `x86-64`"),
            (&["x86-64", "x86-64-v9"], &["x86-64", "x86-64-v9"], "`x86-64-v9` is no level"),
            (&[""], &[], "`` is no level"),
        ];
        for (listed, carried, expected) in rows {
            let err = choose(listed, carried, None, |_| true).unwrap_err();
            assert!(matches!(err, RuntimeError::CpuLevelList { .. }), "{err}");
            assert!(err.to_string().contains(expected), "{err}\nexpected: {expected}");
        }
    }
}
