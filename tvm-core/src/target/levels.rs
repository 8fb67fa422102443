//! Targets with several CPU levels: kernels for some levels of x86-64 in one artifact or library.
//!
//! Requires levels of x86-64, each once. Ensures that [`Target::cpu`] and [`Target::machine`] are those of the lowest level,
//! so what knows nothing of levels compiles for all machines. TVM counterpart: none.

use tvm_runtime::level_index;

use super::{ParseTargetError, Target, TargetKind};

impl Target {
    /// Sets several levels of x86-64 (`x86-64`, `x86-64-v3`, say), in any order; one level is as [`Target::with_cpu`]. The
    /// bytecode and the layouts of tensors are those for the highest level, and all levels share them.
    ///
    /// # Errors
    /// When an entry is no level or occurs twice, or the target has features of its own, another architecture or no CPU.
    pub fn with_cpu_levels<L: AsRef<str>>(
        self,
        levels: impl IntoIterator<Item = L>,
    ) -> Result<Target, ParseTargetError> {
        let mixed = |option: String| Err(ParseTargetError::Mixed { option });
        if matches!(self.kind, TargetKind::Cuda | TargetKind::Interpreter) {
            return mixed(format!("the target kind {}", self.kind.name()));
        }
        if self.features.is_some() {
            return mixed("-features".into());
        }
        if let Some(triple) = self.triple.as_ref().filter(|it| !it.starts_with("x86_64")) {
            return mixed(format!("-triple={triple}"));
        }
        let mut sorted: Vec<(usize, String)> = Vec::new();
        for level in levels {
            let level = level.as_ref().to_string();
            let Some(index) = level_index(&level) else {
                return Err(ParseTargetError::Level { level, problem: "is no level of x86-64" });
            };
            match sorted.binary_search_by_key(&index, |it| it.0) {
                Ok(_) => return Err(ParseTargetError::Level { level, problem: "occurs twice" }),
                Err(place) => sorted.insert(place, (index, level)),
            }
        }
        let mut levels = sorted.into_iter().map(|(_, level)| level);
        let Some(lowest) = levels.next() else {
            return Err(ParseTargetError::Level { level: String::new(), problem: "is no level of x86-64" });
        };
        let mut target = self.with_cpu(lowest);
        target.higher_levels = levels.collect();
        Ok(target)
    }

    /// The levels that kernels are compiled for, in ascending order; none if the target has one CPU.
    pub fn cpu_levels(&self) -> Vec<&str> {
        let lowest = self.cpu.iter().filter(|_| !self.higher_levels.is_empty());
        lowest.chain(&self.higher_levels).map(String::as_str).collect()
    }

    /// The target for `level` alone, with the vectors of this level and the caches and cores of this target.
    #[must_use]
    pub fn for_level(&self, level: &str) -> Target {
        self.clone().with_cpu(level)
    }

    /// The target that graph functions are compiled for: the highest of several levels, otherwise the target itself.
    #[must_use]
    pub fn for_graph(&self) -> Target {
        self.higher_levels.last().map_or_else(|| self.clone(), |level| self.for_level(level))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_has_its_own_machine() {
        let target: Target = "llvm -mcpu=x86-64-v4,x86-64,x86-64-v3 -l2=1048576".parse().unwrap();
        assert_eq!(target.cpu_levels(), ["x86-64", "x86-64-v3", "x86-64-v4"]);
        assert_eq!((target.cpu.as_deref(), target.machine.vector_bits), (Some("x86-64"), 128));
        for (level, bits) in [("x86-64", 128), ("x86-64-v3", 256), ("x86-64-v4", 512)] {
            let of_level = target.for_level(level);
            assert_eq!((of_level.machine.vector_bits, of_level.machine.l2_bytes), (bits, 1 << 20));
            assert!(of_level.cpu_levels().is_empty() && of_level.cpu.as_deref() == Some(level));
        }
        assert_eq!(target.for_graph(), target.for_level("x86-64-v4"));
        let one: Target = "c -cpu=x86-64-v3".parse().unwrap();
        assert!(one.cpu_levels().is_empty() && one.for_graph() == one);
        assert_eq!(Target::c().with_cpu_levels(["x86-64-v3"]).unwrap(), one);
        assert!(target.with_cpu("x86-64-v2").higher_levels.is_empty());
    }

    #[test]
    fn lists_that_are_refused() {
        let rows = [
            ("c -cpu=x86-64,haswell", "`haswell` in a list of CPUs is no level"),
            ("c -cpu=native,x86-64", "`native` in a list of CPUs is no level"),
            ("c -cpu=x86-64,", "`` in a list of CPUs is no level"),
            ("c -cpu=x86-64-v3,x86-64-v3", "`x86-64-v3` in a list of CPUs occurs twice"),
            ("c -cpu=x86-64,x86-64-v3 -features=+avx", "does not go with -features"),
            ("c -cpu=x86-64,x86-64-v3 -vector-bits=64", "does not go with -vector-bits"),
            ("c -triple=aarch64-linux-gnu -cpu=x86-64,x86-64-v3", "does not go with -triple=aarch64"),
            ("interpreter -cpu=x86-64,x86-64-v3", "does not go with the target kind interpreter"),
            ("cuda -cpu=x86-64,x86-64-v3", "does not go with the target kind cuda"),
        ];
        for (text, expected) in rows {
            let err = text.parse::<Target>().unwrap_err();
            assert!(!matches!(err, ParseTargetError::Syntax(_)), "{text}");
            assert!(err.to_string().contains(expected), "{err}\nexpected: {expected}");
        }
        assert!(Target::c().with_cpu_levels::<&str>([]).is_err());
    }
}
