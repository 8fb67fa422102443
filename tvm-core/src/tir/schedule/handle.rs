//! Handles of loops, blocks and sampled integers: arguments and results of the primitives.
//!
//! A handle records the schedule that returned it and its number in the trace. A clone of a schedule accepts the
//! handles that the schedule returned before it was cloned; what either returns later, the other does not accept.
//!
//! TVM counterpart: `LoopRV`, `BlockRV`, `ExprRV`.

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

/// An integer that the schedule sampled. TVM counterpart: `ExprRV`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExprRV(i64, Origin);

/// A factor of [`Schedule::split`](super::Schedule::split).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Factor {
    /// As large as the extent and the other factors demand.
    Infer,
    /// An integer.
    Int(i64),
    /// An integer that the schedule sampled.
    Sampled(ExprRV),
    /// The symbolic dimension of this name.
    Dim(Arc<str>),
}

impl From<Option<i64>> for Factor {
    /// `None` is inferred.
    fn from(it: Option<i64>) -> Factor {
        it.map_or(Factor::Infer, Factor::Int)
    }
}

impl From<&str> for Factor {
    /// A symbolic dimension.
    fn from(name: &str) -> Factor {
        Factor::Dim(name.into())
    }
}

impl From<ExprRV> for Factor {
    fn from(it: ExprRV) -> Factor {
        Factor::Sampled(it)
    }
}

/// A loop, a block or a sampled integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handle(Item, Origin);

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Item {
    Stmt(StmtSRef),
    Int(i64),
}

/// A loop or a block.
pub trait SRef: Copy {
    /// This loop or block as a handle of any kind.
    fn handle(self) -> Handle;

    /// Key of this loop or block in the schedule state.
    fn sref(self) -> StmtSRef;
}

impl SRef for BlockRV {
    fn handle(self) -> Handle {
        Handle(Item::Stmt(self.sref()), self.1)
    }

    fn sref(self) -> StmtSRef {
        StmtSRef::Block(self.0)
    }
}

impl SRef for LoopRV {
    fn handle(self) -> Handle {
        Handle(Item::Stmt(self.sref()), self.1)
    }

    fn sref(self) -> StmtSRef {
        StmtSRef::Loop(self.0)
    }
}

impl ExprRV {
    /// The sampled integer.
    pub fn value(self) -> i64 {
        self.0
    }

    /// This integer as a handle of any kind.
    pub(super) fn handle(self) -> Handle {
        Handle(Item::Int(self.0), self.1)
    }
}

impl Handle {
    /// Number of the handle in the trace of the schedule that returned it.
    pub(super) fn number(self) -> u32 {
        self.1.number
    }

    /// What the handle stands for.
    pub(super) fn item(self) -> Item {
        self.0
    }

    /// The handle as a block; `None` if it is something else.
    pub(super) fn block(self) -> Option<BlockRV> {
        match self.0 {
            Item::Stmt(StmtSRef::Block(id)) => Some(BlockRV(id, self.1)),
            Item::Stmt(StmtSRef::Loop(_)) | Item::Int(_) => None,
        }
    }

    /// The handle as a loop; `None` if it is something else.
    pub(super) fn a_loop(self) -> Option<LoopRV> {
        match self.0 {
            Item::Stmt(StmtSRef::Loop(var)) => Some(LoopRV(var, self.1)),
            Item::Stmt(StmtSRef::Block(_)) | Item::Int(_) => None,
        }
    }

    /// The handle as a sampled integer; `None` if it is something else.
    pub(super) fn expr(self) -> Option<ExprRV> {
        match self.0 {
            Item::Int(value) => Some(ExprRV(value, self.1)),
            Item::Stmt(_) => None,
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

    /// The handle of `item` with number `number` in the trace.
    pub(super) fn give(&self, item: Item, number: u32) -> Handle {
        Handle(item, Origin { schedule: self.me, number })
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

impl Drop for Lineage {
    /// Drops a long chain of forks without recursion.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some((before, _)) = next {
            next = Arc::into_inner(before).and_then(|mut it| it.before.take());
        }
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
