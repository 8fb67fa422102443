//! Names of the blocks of one program: no two blocks have the same.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

/// The names that are taken.
#[derive(Debug, Default)]
pub(crate) struct BlockNames {
    taken: FxHashSet<Arc<str>>,
    /// For each name, the number that the next block with this hint gets.
    next: FxHashMap<Arc<str>, usize>,
}

impl BlockNames {
    /// Takes `name`; false where it is taken already.
    pub(crate) fn take(&mut self, name: &Arc<str>) -> bool {
        self.taken.insert(name.clone())
    }

    /// Takes `hint`, with a number appended if it is taken already; returns the name.
    pub(crate) fn unique(&mut self, hint: &str) -> Arc<str> {
        let mut name: Arc<str> = hint.into();
        if self.take(&name) {
            return name;
        }
        let mut i = self.next.get(hint).copied().unwrap_or(1);
        loop {
            name = format!("{hint}_{i}").into();
            i += 1;
            if self.take(&name) {
                self.next.insert(hint.into(), i);
                return name;
            }
        }
    }
}

#[cfg(test)]
impl<const N: usize> From<[&str; N]> for BlockNames {
    fn from(names: [&str; N]) -> BlockNames {
        BlockNames { taken: names.into_iter().map(Arc::from).collect(), ..BlockNames::default() }
    }
}
