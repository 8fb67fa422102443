//! Handles of loops and blocks: what the primitives take and give.
//!
//! A handle knows the schedule that gave it and the step that did. A clone of a schedule takes what the schedule gave
//! before it was cloned; what either gives later is no handle of the other.
//!
//! TVM counterpart: `LoopRV`, `BlockRV`.

use super::{ScheduleError, StmtSRef};
use crate::ir::{BlockId, ScheduleId, VarId};

/// Who gave a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Origin {
    schedule: ScheduleId,
    /// The number in the trace.
    number: u32,
}

/// A block of the program under schedule. TVM counterpart: `BlockRV`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockRV(BlockId, Origin);

/// A loop of the program under schedule. TVM counterpart: `LoopRV`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoopRV(VarId, Origin);

/// A loop or a block of the program under schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(StmtSRef, Origin);

/// A loop or a block.
pub trait SRef: Copy {
    /// The handle of either kind.
    fn handle(self) -> Handle;

    /// Its name in the schedule state.
    fn sref(self) -> StmtSRef {
        self.handle().0
    }
}

impl SRef for BlockRV {
    fn handle(self) -> Handle {
        Handle(StmtSRef::Block(self.0), self.1)
    }
}

impl SRef for LoopRV {
    fn handle(self) -> Handle {
        Handle(StmtSRef::Loop(self.0), self.1)
    }
}

impl SRef for Handle {
    fn handle(self) -> Handle {
        self
    }
}

impl Handle {
    /// The number in the trace of the schedule that gave it.
    pub(super) fn number(self) -> u32 {
        self.1.number
    }

    /// As a block.
    pub(super) fn block(self) -> Option<BlockRV> {
        match self.0 {
            StmtSRef::Block(id) => Some(BlockRV(id, self.1)),
            StmtSRef::Loop(_) => None,
        }
    }

    /// As a loop.
    pub(super) fn a_loop(self) -> Option<LoopRV> {
        match self.0 {
            StmtSRef::Loop(var) => Some(LoopRV(var, self.1)),
            StmtSRef::Block(_) => None,
        }
    }
}

/// Whose handles a schedule takes: its own, and those that the schedules it is a clone of gave before.
#[derive(Debug)]
pub(super) struct Lineage {
    me: ScheduleId,
    /// How many handles each of the others had given.
    before: Vec<(ScheduleId, u32)>,
}

impl Lineage {
    /// Takes its own only.
    pub(super) fn new() -> Lineage {
        Lineage { me: ScheduleId::fresh(), before: Vec::new() }
    }

    /// For a clone made after `count` handles.
    pub(super) fn fork(&self, count: u32) -> Lineage {
        let before = self.before.iter().copied().chain([(self.me, count)]).collect();
        Lineage { me: ScheduleId::fresh(), before }
    }

    /// The handle of `sref`, number `number` of the trace.
    pub(super) fn give(&self, sref: StmtSRef, number: u32) -> Handle {
        Handle(sref, Origin { schedule: self.me, number })
    }

    /// Refuses a handle of another schedule.
    pub(super) fn check(&self, primitive: &'static str, handle: Handle) -> Result<(), ScheduleError> {
        let Origin { schedule, number } = handle.1;
        let mine = schedule == self.me
            || self.before.iter().any(|&(other, count)| other == schedule && number < count);
        if mine { Ok(()) } else { Err(ScheduleError::ForeignHandle { primitive }) }
    }
}

#[cfg(test)]
impl BlockRV {
    pub(crate) fn id(self) -> BlockId {
        self.0
    }
}

#[cfg(test)]
impl LoopRV {
    pub(crate) fn id(self) -> VarId {
        self.0
    }
}
