//! The program under schedule and an index of its loops and blocks.
//!
//! A loop is identified by its variable, a block by its id; both stay valid for as long as the node keeps its id.
//! Outside of the primitives, the only way to change the program is [`ScheduleState::replace`], which checks everything
//! before it writes.
//!
//! TVM counterpart: `ScheduleState`, `StmtSRef`, `Replace` (`tir/schedule/state.cc`).

mod blocks;
mod facts;
mod index;
mod loops;

use std::sync::{Arc, OnceLock};

use rustc_hash::{FxHashSet, FxHasher};
use smallvec::SmallVec;

use self::blocks::Blocks;
use self::facts::BlockFacts;
use super::ScheduleError;
use crate::ir::{Attrs, BlockId, VarId};
use crate::tir::{Block, BlockRealize, For, ForKind, IfThenElse, PrimFunc, Stmt, While};

pub(super) use blocks::blocks_in;
pub(super) use loops::LoopChange;

/// Identifies a loop or a block of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StmtSRef {
    /// The loop of this variable.
    Loop(VarId),
    /// The block of this id.
    Block(BlockId),
}

/// One step from the body of a loop or block towards a statement inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Seq(u32),
    Then,
    Else,
    WhileBody,
    Init,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    parent: Option<StmtSRef>,
    /// Path from the body of the parent (or of the function) to this statement.
    steps: SmallVec<[Step; 2]>,
}

type Index = PersistentMap<StmtSRef, Entry>;

type Hasher = std::hash::BuildHasherDefault<FxHasher>;

/// A hash map whose clone shares all entries, and copies what changes.
type PersistentMap<K, V> = rpds::HashTrieMapSync<K, V, Hasher>;

/// The set beside it.
pub(super) type PersistentSet<T> = rpds::HashTrieSetSync<T, Hasher>;

/// A program and the index of its loops and blocks. A clone shares the statement tree.
#[derive(Clone, Debug)]
pub struct ScheduleState {
    func: PrimFunc,
    index: Index,
    /// The loops whose iterations do not run one after the other.
    side_by_side: PersistentSet<VarId>,
    /// For blocks that were queried: a superset of the variables that occur in the block, its bindings and its
    /// predicate.
    mentions: PersistentMap<BlockId, Arc<FxHashSet<VarId>>>,
    /// For blocks that hold no other block.
    facts: PersistentMap<BlockId, Arc<BlockFacts>>,
    /// The blocks, once they were queried.
    blocks: OnceLock<Arc<Blocks>>,
}

/// True when the iterations of a loop of `kind` do not run one after the other.
fn runs_side_by_side(kind: ForKind) -> bool {
    match kind {
        ForKind::Serial | ForKind::Unrolled => false,
        ForKind::Parallel | ForKind::Vectorized | ForKind::ThreadBinding(_) => true,
    }
}

impl StmtSRef {
    /// The reference to `stmt`, if it is a loop or a block.
    pub fn of(stmt: &Stmt) -> Option<StmtSRef> {
        let of_loop = stmt.as_for().map(|it| StmtSRef::Loop(it.loop_var.id()));
        of_loop.or_else(|| stmt.as_block_realize().map(|it| StmtSRef::Block(it.block.id)))
    }
}

impl ScheduleState {
    /// Indexes `func`, whose body must be the realize of a root block.
    ///
    /// # Errors
    /// When the body is something else, or a loop variable or block occurs twice.
    pub fn new(func: PrimFunc) -> Result<ScheduleState, ScheduleError> {
        if !matches!(func.body, Stmt::BlockRealize(_)) {
            return Err(ScheduleError::NotSchedulable(func.name.to_string()));
        }
        let mut state = ScheduleState {
            func,
            index: Index::default(),
            side_by_side: PersistentSet::default(),
            mentions: PersistentMap::default(),
            facts: PersistentMap::default(),
            blocks: OnceLock::new(),
        };
        let body = state.func.body.clone();
        state.add(&body, None, &mut SmallVec::new())?;
        Ok(state)
    }

    /// The program.
    pub fn func(&self) -> &PrimFunc {
        &self.func
    }

    /// The statement of `sref`.
    ///
    /// # Errors
    /// When the program has no such loop or block (any more).
    pub fn get(&self, sref: StmtSRef) -> Result<&Stmt, ScheduleError> {
        let mut at = &self.func.body;
        for step in self.path(sref)? {
            at = child(at, step).ok_or(ScheduleError::UnknownSRef(sref))?;
        }
        Ok(at)
    }

    /// The loop of `var`.
    ///
    /// # Errors
    /// When the program has no such loop (any more).
    pub fn get_for(&self, var: VarId) -> Result<&Arc<For>, ScheduleError> {
        let sref = StmtSRef::Loop(var);
        self.get(sref)?.as_for().ok_or(ScheduleError::UnknownSRef(sref))
    }

    /// The block `id` with its bindings.
    ///
    /// # Errors
    /// When the program has no such block (any more).
    pub fn get_block(&self, id: BlockId) -> Result<&Arc<BlockRealize>, ScheduleError> {
        let sref = StmtSRef::Block(id);
        self.get(sref)?.as_block_realize().ok_or(ScheduleError::UnknownSRef(sref))
    }

    /// The loop or block around `sref`; `None` for the root.
    pub fn parent(&self, sref: StmtSRef) -> Option<StmtSRef> {
        self.index.get(&sref)?.parent
    }

    /// The loops and blocks around `sref`, innermost first.
    pub fn ancestors(&self, sref: StmtSRef) -> impl Iterator<Item = StmtSRef> {
        std::iter::successors(self.parent(sref), |&it| self.parent(it))
    }

    /// The loops between `sref` and the block around it, outermost first.
    pub fn loops_above(&self, sref: StmtSRef) -> Vec<VarId> {
        let loops =
            self.ancestors(sref).map_while(|it| if let StmtSRef::Loop(var) = it { Some(var) } else { None });
        let mut loops: Vec<VarId> = loops.collect();
        loops.reverse();
        loops
    }

    /// All loops around `sref`, outermost first.
    ///
    /// # Errors
    /// When the program has no such loop or block (any more).
    pub fn enclosing_loops(&self, sref: StmtSRef) -> Result<Vec<Arc<For>>, ScheduleError> {
        let mut at = &self.func.body;
        let mut loops = Vec::new();
        for step in self.path(sref)? {
            if let (PathStep::Body, Stmt::For(it)) = (step, at) {
                loops.push(it.clone());
            }
            at = child(at, step).ok_or(ScheduleError::UnknownSRef(sref))?;
        }
        Ok(loops)
    }

    /// The innermost block around `sref`.
    pub fn scope_block(&self, sref: StmtSRef) -> Option<BlockId> {
        self.ancestors(sref).find_map(|it| if let StmtSRef::Block(id) = it { Some(id) } else { None })
    }

    /// The root block.
    pub fn root(&self) -> BlockId {
        match &self.func.body {
            Stmt::BlockRealize(it) => it.block.id,
            _ => unreachable!("checked when the state was made"),
        }
    }

    /// The name of the loop of `var` in outlines and messages: the name of its variable, with a number if several loops
    /// have the same name.
    pub fn loop_name(&self, var: VarId) -> String {
        super::show::loop_name(self, var)
    }

    /// Replaces the statement of `sref` with `new`. On failure, nothing is changed.
    ///
    /// # Errors
    /// When a loop variable or block would occur twice.
    pub fn replace(&mut self, sref: StmtSRef, new: Stmt) -> Result<(), ScheduleError> {
        let steps = self.path(sref)?;
        let mut body = self.func.body.clone();
        let slot = steps.iter().try_fold(&mut body, |at, step| child_mut(at, *step));
        *slot.ok_or(ScheduleError::UnknownSRef(sref))? = new;
        self.replace_body(body)
    }

    /// Changes the annotations of a loop or block.
    ///
    /// # Errors
    /// When the program has no such loop or block (any more).
    pub(super) fn change_annotations(
        &mut self,
        sref: StmtSRef,
        change: impl FnOnce(&mut Attrs),
    ) -> Result<(), ScheduleError> {
        match self.slot(sref)? {
            Some(Stmt::For(node)) => change(&mut Arc::<For>::make_mut(node).annotations),
            Some(Stmt::BlockRealize(realize)) => {
                change(&mut block_mut(realize).annotations);
                let block = realize.block.clone();
                self.renew_facts(&block);
            }
            _ => return Err(ScheduleError::UnknownSRef(sref)),
        }
        Ok(())
    }

    /// Merges nested sequences into the sequences around them.
    pub(super) fn flatten(&mut self) -> Result<(), ScheduleError> {
        struct Flatten;
        impl crate::tir::Mutator for Flatten {
            fn mutate_expr(&mut self, _: &crate::tir::PrimExpr) -> Option<crate::tir::PrimExpr> {
                None
            }
            fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
                let new = self.walk_stmt(stmt);
                match new.as_ref().unwrap_or(stmt) {
                    Stmt::SeqStmt(stmts) if stmts.iter().any(|it| matches!(it, Stmt::SeqStmt(_))) => {
                        Some(Stmt::seq(stmts.iter().cloned()))
                    }
                    _ => new,
                }
            }
        }
        match crate::tir::Mutator::mutate_stmt(&mut Flatten, &self.func.body) {
            Some(body) => self.replace_body(body),
            None => Ok(()),
        }
    }

    /// True when the index equals one that is built from scratch. TVM counterpart: `VerifySRefTree`.
    pub fn verify(&self) -> bool {
        ScheduleState::new(self.func.clone())
            .is_ok_and(|fresh| fresh.index == self.index && fresh.side_by_side == self.side_by_side)
    }

    /// The loops whose iterations do not run one after the other.
    pub(super) fn side_by_side(&self) -> &PersistentSet<VarId> {
        &self.side_by_side
    }

    /// The statement of `sref`, to be changed in place.
    fn slot(&mut self, sref: StmtSRef) -> Result<Option<&mut Stmt>, ScheduleError> {
        let path = self.path(sref)?;
        self.blocks.take();
        Ok(path.into_iter().try_fold(&mut self.func.body, child_mut))
    }

    fn path(&self, sref: StmtSRef) -> Result<Vec<PathStep>, ScheduleError> {
        let mut parts = Vec::new();
        let mut at = Some(sref);
        while let Some(it) = at {
            let entry = self.index.get(&it).ok_or(ScheduleError::UnknownSRef(sref))?;
            parts.push(entry.steps.as_slice());
            at = entry.parent;
        }
        let mut path = Vec::new();
        for (i, steps) in parts.iter().rev().enumerate() {
            if i > 0 && steps.first() != Some(&Step::Init) {
                path.push(PathStep::Body);
            }
            path.extend(steps.iter().map(|&step| PathStep::Inner(step)));
        }
        Ok(path)
    }
}

/// A step of a path from the root: into the body of a loop or block, or inside it.
#[derive(Clone, Copy, Debug)]
enum PathStep {
    Body,
    Inner(Step),
}

fn child(stmt: &Stmt, step: PathStep) -> Option<&Stmt> {
    match (step, stmt) {
        (PathStep::Body, Stmt::For(it)) => Some(&it.body),
        (PathStep::Body, Stmt::BlockRealize(it)) => Some(&it.block.body),
        (PathStep::Inner(Step::Init), Stmt::BlockRealize(it)) => it.block.init.as_ref(),
        (PathStep::Inner(Step::Seq(i)), Stmt::SeqStmt(stmts)) => stmts.get(i as usize),
        (PathStep::Inner(Step::Then), Stmt::IfThenElse(it)) => Some(&it.then_case),
        (PathStep::Inner(Step::Else), Stmt::IfThenElse(it)) => it.else_case.as_ref(),
        (PathStep::Inner(Step::WhileBody), Stmt::While(it)) => Some(&it.body),
        _ => None,
    }
}

fn child_mut(stmt: &mut Stmt, step: PathStep) -> Option<&mut Stmt> {
    match (step, stmt) {
        (PathStep::Body, Stmt::For(it)) => Some(&mut Arc::<For>::make_mut(it).body),
        (PathStep::Body, Stmt::BlockRealize(it)) => Some(&mut block_mut(it).body),
        (PathStep::Inner(Step::Init), Stmt::BlockRealize(it)) => block_mut(it).init.as_mut(),
        (PathStep::Inner(Step::Seq(i)), Stmt::SeqStmt(stmts)) => Arc::make_mut(stmts).get_mut(i as usize),
        (PathStep::Inner(Step::Then), Stmt::IfThenElse(it)) => {
            Some(&mut Arc::<IfThenElse>::make_mut(it).then_case)
        }
        (PathStep::Inner(Step::Else), Stmt::IfThenElse(it)) => {
            Arc::<IfThenElse>::make_mut(it).else_case.as_mut()
        }
        (PathStep::Inner(Step::WhileBody), Stmt::While(it)) => Some(&mut Arc::<While>::make_mut(it).body),
        _ => None,
    }
}

fn block_mut(realize: &mut Arc<BlockRealize>) -> &mut Block {
    Arc::make_mut(&mut Arc::make_mut(realize).block)
}
