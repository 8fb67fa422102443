//! Handles of loops and blocks: arguments and results of the primitives.
//!
//! A handle records the schedule that returned it and its number in the trace. A clone of a schedule accepts the
//! handles that the schedule returned before it was cloned; what either returns later, the other does not accept.
//!
//! TVM counterpart: `LoopRV`, `BlockRV`.

use std::sync::Arc;

use super::{ScheduleError, StmtSRef};
use crate::ir::{BlockId, ScheduleId, VarId};

/// The schedule that returned a handle, and the number of the handle there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Origin {
    schedule: ScheduleId,
    /// Number of the handle in the trace.
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
    /// This loop or block as a handle of either kind.
    fn handle(self) -> Handle;

    /// Key of this loop or block in the schedule state.
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
    /// Number of the handle in the trace of the schedule that returned it.
    pub(super) fn number(self) -> u32 {
        self.1.number
    }

    /// The handle as a block; `None` if it is a loop.
    pub(super) fn block(self) -> Option<BlockRV> {
        match self.0 {
            StmtSRef::Block(id) => Some(BlockRV(id, self.1)),
            StmtSRef::Loop(_) => None,
        }
    }

    /// The handle as a loop; `None` if it is a block.
    pub(super) fn a_loop(self) -> Option<LoopRV> {
        match self.0 {
            StmtSRef::Loop(var) => Some(LoopRV(var, self.1)),
            StmtSRef::Block(_) => None,
        }
    }
}

/// The schedules whose handles a schedule accepts: itself, and those it was cloned from, up to the time of the clone.
#[derive(Debug)]
pub(super) struct Lineage {
    me: ScheduleId,
    /// The schedule it was cloned from, and how many handles that had returned then.
    before: Option<(Arc<Lineage>, u32)>,
}

impl Lineage {
    /// The lineage of a schedule that accepts only its own handles.
    pub(super) fn new() -> Lineage {
        Lineage { me: ScheduleId::fresh(), before: None }
    }

    /// The lineage of a clone that is made after `count` handles were returned.
    pub(super) fn fork(self: &Arc<Lineage>, count: u32) -> Lineage {
        Lineage { me: ScheduleId::fresh(), before: Some((self.clone(), count)) }
    }

    /// The handle of `sref` with number `number` in the trace.
    pub(super) fn give(&self, sref: StmtSRef, number: u32) -> Handle {
        Handle(sref, Origin { schedule: self.me, number })
    }

    /// Refuses a handle of another schedule.
    pub(super) fn check(&self, primitive: &'static str, handle: Handle) -> Result<(), ScheduleError> {
        let Origin { schedule, number } = handle.1;
        let (mut at, mut limit) = (self, u32::MAX);
        while at.me != schedule {
            let Some((before, count)) = &at.before else {
                return Err(ScheduleError::ForeignHandle { primitive });
            };
            (at, limit) = (before, *count);
        }
        if number < limit { Ok(()) } else { Err(ScheduleError::ForeignHandle { primitive }) }
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
