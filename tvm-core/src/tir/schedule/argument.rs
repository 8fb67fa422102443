//! Arguments of primitives: buffers of a block and factors of a split.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ScheduleError;
use crate::tir::BufferRegion;

/// Selects one of the buffers that a block reads or writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BufferArg {
    /// By its position, from 0.
    Index(usize),
    /// By its name.
    Name(String),
}

impl From<usize> for BufferArg {
    fn from(index: usize) -> BufferArg {
        BufferArg::Index(index)
    }
}

impl From<&str> for BufferArg {
    fn from(name: &str) -> BufferArg {
        BufferArg::Name(name.into())
    }
}

impl From<String> for BufferArg {
    fn from(name: String) -> BufferArg {
        BufferArg::Name(name)
    }
}

impl fmt::Display for BufferArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferArg::Index(index) => write!(f, "{index}"),
            BufferArg::Name(name) => write!(f, "{name:?}"),
        }
    }
}

impl BufferArg {
    /// The one of `regions` that this argument selects. `block` (a name) and `does` (`"reads"` or `"writes"`) describe
    /// the regions in the error message.
    pub(super) fn find<'a>(
        &self,
        primitive: &'static str,
        (block, does): (&str, &str),
        regions: &'a [BufferRegion],
    ) -> Result<&'a BufferRegion, ScheduleError> {
        let found = match self {
            BufferArg::Index(index) => regions.get(*index),
            BufferArg::Name(name) => {
                let mut named = regions.iter().filter(|region| *region.buffer.name == **name);
                let first = named.next();
                first.filter(|first| named.all(|it| it.buffer == first.buffer))
            }
        };
        found.ok_or_else(|| {
            let names: Vec<String> =
                regions.iter().enumerate().map(|(i, it)| format!("{i}: `{}`", it.buffer.name)).collect();
            let names = if names.is_empty() { "nothing".into() } else { names.join(", ") };
            let message =
                format!("block `{block}` {does} {names}; {self} names none, or more than one, of them");
            ScheduleError::argument(primitive, message)
        })
    }
}

/// A factor of [`Split`](super::InstructionKind::Split).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FactorArg {
    /// An integer.
    Int(i64),
    /// An input of the instruction, a sampled integer.
    Input {
        /// Its position among the inputs.
        input: usize,
    },
    /// A symbolic dimension of the program.
    Dim {
        /// Its name.
        dim: Arc<str>,
    },
}
