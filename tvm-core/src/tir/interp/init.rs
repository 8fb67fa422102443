//! Inits of blocks. An init runs when the outermost loop that its reduction depends on is reached, before the first
//! iteration, for all values that its other axes take in that loop. Without such a loop it runs before the body.
//!
//! The interpreter implements this rule itself, on variable slots: it shares no code with the lowering.

use rustc_hash::FxHashSet;

use super::InterpError;
use super::machine::{IntFn, Machine, Run, Trap};
use super::stmt::Compiler;
use crate::ir::{BufferId, Var, VarId};
use crate::tir::{
    BinaryOp, BlockRealize, IterKind, PrimExpr, Range, Stmt, Visitor, any_expr, walk_expr, walk_stmt,
};

/// A construct around the statement that is compiled.
pub(super) enum Enclosing {
    Loop {
        var: Var,
        range: Range,
        /// Inits that run when the loop is reached.
        inits: Vec<Run>,
    },
    Block(BlockRealize),
    If(PrimExpr),
    Let(Var, PrimExpr),
    Alloc(BufferId),
    While,
}

/// The variables and buffers that a statement uses.
#[derive(Default)]
struct Uses {
    vars: FxHashSet<VarId>,
    buffers: FxHashSet<BufferId>,
}

impl Visitor for Uses {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Var(var) = expr {
            self.vars.insert(var.id());
        }
        if let PrimExpr::BufferLoad(load) = expr {
            self.buffers.insert(load.buffer.id);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.buffers.insert(store.buffer.id);
        }
        walk_stmt(self, stmt);
    }
}

impl Uses {
    fn add(&mut self, expr: &PrimExpr) {
        self.visit_expr(expr);
    }

    fn any_in(&self, expr: &PrimExpr) -> bool {
        any_expr(expr, &mut |it| it.as_var().is_some_and(|var| self.vars.contains(&var.id())))
    }
}

fn axes(realize: &BlockRealize) -> impl Iterator<Item = (&Var, IterKind, &PrimExpr, &Range)> {
    let iters = realize.block.iter_vars.iter().zip(realize.iter_values.iter());
    iters.map(|(iter, value)| (&iter.var, iter.kind, value, &iter.dom))
}

/// Collects the conjuncts of a condition.
fn parts<'a>(condition: &'a PrimExpr, out: &mut Vec<&'a PrimExpr>) {
    match condition {
        PrimExpr::Binary(it) if it.op == BinaryOp::And => {
            parts(&it.a, out);
            parts(&it.b, out);
        }
        _ => out.push(condition),
    }
}

impl Compiler {
    /// Index, in `enclosing`, of the loop before which the init runs; `None` if it runs before the body.
    fn start_of_reduction(&self, realize: &BlockRealize, touched: &FxHashSet<BufferId>) -> Option<usize> {
        let owns = |realize: &BlockRealize| {
            let block = &realize.block;
            let matched = block.match_buffers.iter().map(|it| it.buffer.id);
            block.alloc_buffers.iter().map(|it| it.id).chain(matched).any(|id| touched.contains(&id))
        };
        if realize.block.alloc_buffers.iter().any(|it| touched.contains(&it.id)) {
            return None;
        }
        let mut reduced = Uses::default();
        axes(realize).filter(|axis| axis.1 == IterKind::Reduce).for_each(|axis| reduced.add(axis.2));
        let mut start = None;
        for (at, it) in self.enclosing.iter().enumerate().rev() {
            match it {
                Enclosing::Loop { var, .. } if reduced.vars.contains(&var.id()) => start = Some(at),
                Enclosing::Loop { .. } | Enclosing::If(_) => {}
                Enclosing::Let(var, value) if reduced.vars.contains(&var.id()) => reduced.add(value),
                Enclosing::Let(..) => {}
                Enclosing::Alloc(buffer) if !touched.contains(buffer) => {}
                Enclosing::Alloc(_) | Enclosing::While => return start,
                Enclosing::Block(outer) if owns(outer) => return start,
                Enclosing::Block(outer) => {
                    for (var, kind, value, _) in axes(outer) {
                        if kind != IterKind::Spatial && reduced.vars.contains(&var.id()) {
                            reduced.add(value);
                        }
                    }
                }
            }
        }
        start
    }

    /// The init of `realize`, to run directly before its body; `None` if there is none or it runs before a loop instead.
    pub(super) fn init(&mut self, realize: &BlockRealize) -> Result<Option<Run>, InterpError> {
        let Some(init) = &realize.block.init else { return Ok(None) };
        let mut uses = Uses::default();
        uses.visit_stmt(init);
        let Some(start) = self.start_of_reduction(realize, &uses.buffers) else {
            return self.stmt(init).map(Some);
        };
        uses.vars.retain(|id| axes(realize).all(|axis| axis.0.id() != *id));
        axes(realize).filter(|axis| axis.1 != IterKind::Reduce).for_each(|axis| uses.add(axis.2));
        let mut chain = self.enclosing.split_off(start);
        for it in chain.iter().rev() {
            match it {
                Enclosing::Loop { var, range, .. } if uses.vars.contains(&var.id()) => {
                    uses.add(&range.min);
                    uses.add(&range.extent);
                }
                Enclosing::Let(var, value) if uses.vars.contains(&var.id()) => uses.add(value),
                Enclosing::Block(outer) => {
                    let used: Vec<&PrimExpr> =
                        axes(outer).filter(|it| uses.vars.contains(&it.0.id())).map(|it| it.2).collect();
                    used.into_iter().for_each(|value| uses.add(value));
                }
                Enclosing::Loop { .. }
                | Enclosing::Let(..)
                | Enclosing::If(_)
                | Enclosing::Alloc(_)
                | Enclosing::While => {}
            }
        }
        // The init gets its own slots and views of matched buffers: restore those of the body afterwards.
        let outer = matches_any(init, realize).then(|| (self.slots.clone(), self.views.clone()));
        let run = self.init_of(&chain, &uses, Uses::default(), realize, init);
        if let Some((slots, views)) = outer {
            (self.slots, self.views) = (slots, views);
        }
        if let Some(Enclosing::Loop { inits, .. }) = chain.first_mut() {
            inits.push(run?);
        }
        self.enclosing.append(&mut chain);
        Ok(None)
    }

    /// Compiles `init` inside the constructs of `chain` that define the variables in `uses`; those in `skipped` have no
    /// value here.
    fn init_of(
        &mut self,
        chain: &[Enclosing],
        uses: &Uses,
        mut skipped: Uses,
        realize: &BlockRealize,
        init: &Stmt,
    ) -> Result<Run, InterpError> {
        let Some((first, rest)) = chain.split_first() else {
            let condition = self.condition(&realize.predicate, &skipped)?;
            let mut values = Vec::new();
            for (var, _, value, dom) in axes(realize).filter(|axis| axis.1 != IterKind::Reduce) {
                let code = (self.int(value)?, self.int(&dom.min)?, self.int(&dom.extent)?);
                values.push((self.slot_of(var)?, code));
            }
            let matched = realize.block.match_buffers.iter().map(|it| self.match_buffer(it));
            let matched =
                if matches_any(init, realize) { matched.collect::<Result<Vec<_>, _>>()? } else { vec![] };
            let init = self.stmt(init)?;
            return Ok(Box::new(move |m| {
                if !condition(m)? {
                    return Ok(());
                }
                for (slot, (value, min, extent)) in &values {
                    let (value, min) = (value(m)?, min(m)?);
                    if value < min || value >= min.saturating_add(extent(m)?) {
                        return Ok(());
                    }
                    m.slots[*slot] = value;
                }
                matched.iter().try_for_each(|run| run(m))?;
                init(m)
            }));
        };
        match first {
            Enclosing::Loop { var, range, .. } if uses.vars.contains(&var.id()) => {
                let (min, extent) = (self.int(&range.min)?, self.int(&range.extent)?);
                let slot = self.slot_of(var)?;
                let inside = self.init_of(rest, uses, skipped, realize, init)?;
                Ok(Box::new(move |m| {
                    let (min, extent) = (min(m)?, extent(m)?);
                    for i in min..min.saturating_add(extent) {
                        m.step()?;
                        m.slots[slot] = i;
                        inside(m)?;
                    }
                    Ok(())
                }))
            }
            Enclosing::Loop { var, .. } => {
                skipped.vars.insert(var.id());
                self.init_of(rest, uses, skipped, realize, init)
            }
            Enclosing::Let(var, value) if skipped.any_in(value) || !uses.vars.contains(&var.id()) => {
                skipped.vars.insert(var.id());
                self.init_of(rest, uses, skipped, realize, init)
            }
            Enclosing::Let(var, value) => {
                let bind = self.bind_var(var, value)?;
                let inside = self.init_of(rest, uses, skipped, realize, init)?;
                Ok(Box::new(move |m| bind(m).and_then(|()| inside(m))))
            }
            Enclosing::If(condition) => {
                let condition = self.condition(condition, &skipped)?;
                let inside = self.init_of(rest, uses, skipped, realize, init)?;
                Ok(Box::new(move |m| if condition(m)? { inside(m) } else { Ok(()) }))
            }
            Enclosing::Block(outer) => {
                let condition = self.condition(&outer.predicate, &skipped)?;
                let mut binds = Vec::new();
                for (var, _, value, _) in axes(outer) {
                    if skipped.any_in(value) {
                        skipped.vars.insert(var.id());
                    } else {
                        binds.push((self.slot_of(var)?, self.int(value)?));
                    }
                }
                let inside = self.init_of(rest, uses, skipped, realize, init)?;
                Ok(Box::new(move |m| {
                    if !condition(m)? {
                        return Ok(());
                    }
                    for (slot, value) in &binds {
                        m.slots[*slot] = value(m)?;
                    }
                    inside(m)
                }))
            }
            Enclosing::Alloc(_) | Enclosing::While => self.init_of(rest, uses, skipped, realize, init),
        }
    }

    /// Compiles the conjuncts of `condition` that use no variable in `skipped`.
    fn condition(
        &mut self,
        condition: &PrimExpr,
        skipped: &Uses,
    ) -> Result<impl Fn(&mut Machine<'_>) -> Result<bool, Trap> + Send + Sync + 'static, InterpError> {
        let mut all = Vec::new();
        parts(condition, &mut all);
        let known: Vec<IntFn> = all
            .into_iter()
            .filter(|part| !skipped.any_in(part))
            .map(|part| self.int(part))
            .collect::<Result<_, _>>()?;
        Ok(move |m: &mut Machine<'_>| {
            for part in &known {
                if part(m)? == 0 {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}

/// True when `init` accesses a buffer that the block matches to a region.
fn matches_any(init: &Stmt, realize: &BlockRealize) -> bool {
    let mut uses = Uses::default();
    uses.visit_stmt(init);
    realize.block.match_buffers.iter().any(|it| uses.buffers.contains(&it.buffer.id))
}
