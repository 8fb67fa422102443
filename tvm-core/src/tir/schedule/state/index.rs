//! The index of loops and blocks: built once, then updated where the program changes.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::facts::BlockFacts;
use super::{Entry, PersistentMap, ScheduleState, Step, StmtSRef, runs_side_by_side};
use crate::support::with_stack;
use crate::tir::schedule::ScheduleError;
use crate::tir::{BlockRealize, For, Stmt};

/// Path from the body of a loop or block (or of the function) to a statement inside it.
type Steps = SmallVec<[Step; 2]>;

/// A statement that is new in the program, with its place.
struct Added<'a> {
    stmt: &'a Stmt,
    parent: Option<StmtSRef>,
    steps: Steps,
}

impl ScheduleState {
    /// Replaces the whole body. Statements that the new body shares with the old one are not visited. On failure,
    /// nothing is changed.
    ///
    /// # Errors
    /// When the body is not the realize of a root block, or a loop variable or block would occur twice.
    pub(in crate::tir::schedule) fn replace_body(&mut self, body: Stmt) -> Result<(), ScheduleError> {
        if !matches!(body, Stmt::BlockRealize(_)) {
            return Err(ScheduleError::NotSchedulable(self.func.name.to_string()));
        }
        let mut new = self.clone();
        new.mentions = PersistentMap::default();
        new.blocks = OnceLock::new();
        let mut added = Vec::new();
        new.compare(&self.func.body, &body, None, &mut Steps::new(), &mut added);
        for Added { stmt, parent, mut steps } in added {
            new.add(stmt, parent, &mut steps)?;
        }
        new.func.body = body;
        *self = new;
        Ok(())
    }

    /// Updates the entries of what is in `new` and in `old`, which is at the same place; removes the entries of what is
    /// only in `old`; adds what is only in `new` to `added`.
    fn compare<'a>(
        &mut self,
        old: &Stmt,
        new: &'a Stmt,
        parent: Option<StmtSRef>,
        steps: &mut Steps,
        added: &mut Vec<Added<'a>>,
    ) {
        if old.ptr_eq(new) {
            return;
        }
        let mut inside = |state: &mut Self, old: &Stmt, new: &'a Stmt, step: Step, steps: &mut Steps| {
            steps.push(step);
            with_stack(|| state.compare(old, new, parent, steps, added));
            steps.pop();
        };
        match (old, new) {
            (Stmt::For(a), Stmt::For(b)) if a.loop_var == b.loop_var => self.compare_loops(a, b, added),
            (Stmt::BlockRealize(a), Stmt::BlockRealize(b)) if a.block.id == b.block.id => {
                self.compare_blocks(a, b, added);
            }
            (Stmt::SeqStmt(a), Stmt::SeqStmt(b)) => self.compare_sequences(a, b, parent, steps, added),
            (Stmt::IfThenElse(a), Stmt::IfThenElse(b)) if a.else_case.is_some() == b.else_case.is_some() => {
                inside(self, &a.then_case, &b.then_case, Step::Then, steps);
                for (a, b) in a.else_case.iter().zip(&b.else_case) {
                    inside(self, a, b, Step::Else, steps);
                }
            }
            (Stmt::While(a), Stmt::While(b)) => inside(self, &a.body, &b.body, Step::WhileBody, steps),
            _ => {
                self.remove(old);
                added.push(Added { stmt: new, parent, steps: steps.clone() });
            }
        }
    }

    fn compare_loops<'a>(&mut self, old: &For, new: &'a For, added: &mut Vec<Added<'a>>) {
        let var = new.loop_var.id();
        match runs_side_by_side(new.kind) {
            true => self.side_by_side.insert_mut(var),
            false => drop(self.side_by_side.remove_mut(&var)),
        }
        let me = Some(StmtSRef::Loop(var));
        with_stack(|| self.compare(&old.body, &new.body, me, &mut Steps::new(), added));
    }

    fn compare_blocks<'a>(&mut self, old: &BlockRealize, new: &'a BlockRealize, added: &mut Vec<Added<'a>>) {
        if Arc::ptr_eq(&old.block, &new.block) {
            return;
        }
        let (id, me) = (new.block.id, Some(StmtSRef::Block(new.block.id)));
        let mut steps = SmallVec::from_slice(&[Step::Init]);
        match (&old.block.init, &new.block.init) {
            (Some(old), Some(new)) => self.compare(old, new, me, &mut steps, added),
            (Some(old), None) => self.remove(old),
            (None, Some(new)) => added.push(Added { stmt: new, parent: me, steps }),
            (None, None) => {}
        }
        self.compare(&old.block.body, &new.block.body, me, &mut Steps::new(), added);
        match holds_blocks(&new.block.body) {
            true => drop(self.facts.remove_mut(&id)),
            false => self.facts.insert_mut(id, Arc::new(BlockFacts::of(&new.block))),
        }
    }

    /// Pairs the statements from both ends, as far as they are the same loops and blocks.
    fn compare_sequences<'a>(
        &mut self,
        old: &[Stmt],
        new: &'a [Stmt],
        parent: Option<StmtSRef>,
        steps: &mut Steps,
        added: &mut Vec<Added<'a>>,
    ) {
        let is_same = |(a, b): &(&Stmt, &Stmt)| match (StmtSRef::of(a), StmtSRef::of(b)) {
            (Some(a), Some(b)) => a == b,
            // The places of loops and blocks inside of other statements contain positions in this sequence.
            _ => old.len() == new.len() && a.ptr_eq(b),
        };
        let head = old.iter().zip(new).take_while(is_same).count();
        let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(is_same).count();
        let moved = old.len() != new.len();
        let mut pair = |state: &mut Self, a: &Stmt, (at, b): (usize, &'a Stmt), moved: bool| {
            steps.push(Step::Seq(at as u32));
            if moved && let Some(sref) = StmtSRef::of(b) {
                state.index.insert_mut(sref, Entry { parent, steps: steps.clone() });
            }
            state.compare(a, b, parent, steps, added);
            steps.pop();
        };
        for (a, b) in old[..head].iter().zip(new.iter().enumerate()) {
            pair(self, a, b, false);
        }
        for (a, b) in old[old.len() - tail..].iter().zip(new.iter().enumerate().skip(new.len() - tail)) {
            pair(self, a, b, moved);
        }
        old[head..old.len() - tail].iter().for_each(|stmt| self.remove(stmt));
        for (at, stmt) in new.iter().enumerate().take(new.len() - tail).skip(head) {
            let mut steps = steps.clone();
            steps.push(Step::Seq(at as u32));
            added.push(Added { stmt, parent, steps });
        }
    }

    /// Removes the loops and blocks in `stmt` from the index.
    fn remove(&mut self, stmt: &Stmt) {
        if let Some(sref) = StmtSRef::of(stmt) {
            self.index.remove_mut(&sref);
        }
        match stmt {
            Stmt::For(it) => {
                self.side_by_side.remove_mut(&it.loop_var.id());
            }
            Stmt::BlockRealize(it) => {
                self.facts.remove_mut(&it.block.id);
                it.block.init.iter().for_each(|init| self.remove(init));
            }
            _ => {}
        }
        with_stack(|| stmt.children().into_iter().for_each(|stmt| self.remove(stmt)));
    }

    /// Adds the loops and blocks in `stmt`, which is at `steps` in `parent`, to the index.
    ///
    /// # Errors
    /// When one of them is in the index already.
    pub(super) fn add(
        &mut self,
        stmt: &Stmt,
        parent: Option<StmtSRef>,
        steps: &mut Steps,
    ) -> Result<(), ScheduleError> {
        let mut inside = |stmt: &Stmt, step: Step| {
            steps.push(step);
            let res = self.add(stmt, parent, steps);
            steps.pop();
            res
        };
        match stmt {
            Stmt::For(it) => {
                let me = StmtSRef::Loop(it.loop_var.id());
                self.insert(me, parent, steps)?;
                if runs_side_by_side(it.kind) {
                    self.side_by_side.insert_mut(it.loop_var.id());
                }
                with_stack(|| self.add(&it.body, Some(me), &mut Steps::new()))
            }
            Stmt::BlockRealize(it) => {
                let me = StmtSRef::Block(it.block.id);
                self.insert(me, parent, steps)?;
                if let Some(init) = &it.block.init {
                    self.add(init, Some(me), &mut SmallVec::from_slice(&[Step::Init]))?;
                }
                if !holds_blocks(&it.block.body) {
                    self.facts.insert_mut(it.block.id, Arc::new(BlockFacts::of(&it.block)));
                }
                self.add(&it.block.body, Some(me), &mut Steps::new())
            }
            Stmt::SeqStmt(stmts) => {
                stmts.iter().enumerate().try_for_each(|(i, stmt)| inside(stmt, Step::Seq(i as u32)))
            }
            Stmt::IfThenElse(it) => {
                inside(&it.then_case, Step::Then)?;
                it.else_case.iter().try_for_each(|stmt| inside(stmt, Step::Else))
            }
            Stmt::While(it) => inside(&it.body, Step::WhileBody),
            Stmt::BufferStore(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => Ok(()),
        }
    }

    fn insert(
        &mut self,
        sref: StmtSRef,
        parent: Option<StmtSRef>,
        steps: &[Step],
    ) -> Result<(), ScheduleError> {
        if self.index.contains_key(&sref) {
            return Err(ScheduleError::DuplicateId(sref));
        }
        self.index.insert_mut(sref, Entry { parent, steps: steps.into() });
        Ok(())
    }
}

/// True when a block is in `stmt`.
fn holds_blocks(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::BlockRealize(_)) || with_stack(|| stmt.children().into_iter().any(holds_blocks))
}
