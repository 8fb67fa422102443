//! Alias analysis: which values may share memory, and which memory escapes the analysis.
//!
//! Memory is identified by the variable that it is created for: an allocation, the result of a `call_tir`. A value may
//! share memory with whatever it is a view or a field of, with the fields that it is a tuple of, with the results of the
//! arms that compute it, and with the value that a pattern takes it from. Memory *escapes* where the analysis loses track
//! of it: when it is stored in a data type or a cell, captured by a closure, passed to a function that may keep or return
//! it, or returned by the body that creates it.
//!
//! TVM counterpart: `AliasAnalyzer` of `DataflowUseInplaceCalls`.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{MemoryEffect, Var, VarId};
use crate::relax::{Arg, Body, Call, Callee, Expr, Function, Pattern};
use crate::support::with_stack;

/// The memory that values of one function may share.
#[derive(Default)]
pub struct Aliases {
    /// Memory that each variable may share, if any; variables with the same memory share the list.
    memory: FxHashMap<VarId, Arc<[VarId]>>,
    escaped: FxHashSet<VarId>,
    /// Nesting depth of the body that creates the memory.
    depth: FxHashMap<VarId, usize>,
}

impl Aliases {
    /// Analyses `func`. Only memory that its own body creates is tracked, not what comes from outside and not what its
    /// local functions create.
    pub fn new(func: &Function) -> Aliases {
        let mut aliases = Aliases::default();
        let returned = aliases.body(&func.body, 0);
        aliases.escape(&returned);
        aliases
    }

    /// The memory that the value of `var` may share.
    pub fn of(&self, var: VarId) -> &[VarId] {
        self.memory.get(&var).map_or(&[], |it| it)
    }

    /// True when `memory` may be reached in ways that the analysis does not track.
    pub fn escapes(&self, memory: VarId) -> bool {
        self.escaped.contains(&memory)
    }

    fn escape(&mut self, memory: &[VarId]) {
        self.escaped.extend(memory);
    }

    fn of_args(&self, args: &[Arg]) -> Arc<[VarId]> {
        match args {
            [Arg::Var(var)] => self.memory.get(&var.id()).cloned().unwrap_or_else(|| Arc::new([])),
            _ => {
                let mut all = IndexSet::new();
                args.iter().for_each(|arg| self.collect(arg, &mut all));
                all.into_iter().collect()
            }
        }
    }

    fn collect(&self, arg: &Arg, all: &mut IndexSet<VarId>) {
        match arg {
            Arg::Var(var) => all.extend(self.of(var.id())),
            Arg::Tuple(fields) => fields.iter().for_each(|field| self.collect(field, all)),
            Arg::Const(_) | Arg::Global(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => {}
        }
    }

    fn of_arg(&self, arg: &Arg) -> Arc<[VarId]> {
        self.of_args(std::slice::from_ref(arg))
    }

    /// Analyses `body`; returns the memory of enclosing bodies that its result may share.
    fn body(&mut self, body: &Body, depth: usize) -> Arc<[VarId]> {
        with_stack(|| {
            for binding in body.bindings() {
                let memory = self.value(&binding.value, &binding.var, depth);
                if !memory.is_empty() {
                    self.memory.insert(binding.var.id(), memory);
                }
            }
            let (inner, outer): (Vec<VarId>, Vec<VarId>) =
                self.of_arg(&body.ret).iter().partition(|it| self.depth.get(it) == Some(&depth));
            self.escape(&inner);
            outer.into()
        })
    }

    fn bodies<'a>(&mut self, bodies: impl Iterator<Item = &'a Body>, depth: usize) -> Arc<[VarId]> {
        let mut all = IndexSet::new();
        bodies.for_each(|body| all.extend(self.body(body, depth).iter()));
        all.into_iter().collect()
    }

    /// Analyses `expr`, the value of `var`; returns the memory that it may share.
    fn value(&mut self, expr: &Expr, var: &Var, depth: usize) -> Arc<[VarId]> {
        let none = || Arc::new([]) as Arc<[VarId]>;
        match expr {
            Expr::Arg(arg) | Expr::TupleGetItem(arg, _) => self.of_arg(arg),
            Expr::Call(call) => match effect(call) {
                MemoryEffect::Fresh => {
                    self.depth.insert(var.id(), depth);
                    Arc::new([var.id()])
                }
                MemoryEffect::Reads => none(),
                MemoryEffect::Reshapes | MemoryEffect::Forwards => self.of_args(&call.args),
                MemoryEffect::Keeps => {
                    let kept = self.of_args(&call.args);
                    self.escape(&kept);
                    none()
                }
            },
            Expr::If(it) => self.bodies([&it.then_branch, &it.else_branch].into_iter(), depth + 1),
            Expr::Match(it) => {
                let matched = self.of_arg(&it.value);
                it.clauses.iter().for_each(|clause| self.pattern(&clause.pattern, &matched));
                self.bodies(it.clauses.iter().map(|clause| &clause.body), depth + 1)
            }
            Expr::Function(func) => {
                // It may run later, so what it captures escapes.
                for var in super::captures(func) {
                    let kept = self.of_arg(&Arg::Var(var));
                    self.escape(&kept);
                }
                none()
            }
            Expr::RefCreate(arg) | Expr::RefWrite(_, arg) => {
                let kept = self.of_arg(arg);
                self.escape(&kept);
                none()
            }
            // What a cell holds has escaped.
            Expr::RefRead(_) => none(),
        }
    }

    fn pattern(&mut self, pattern: &Pattern, matched: &Arc<[VarId]>) {
        match pattern {
            Pattern::Wildcard => {}
            Pattern::Var(var) => {
                self.memory.insert(var.id(), matched.clone());
            }
            Pattern::Constructor(_, fields) | Pattern::Tuple(fields) => {
                fields.iter().for_each(|field| self.pattern(field, matched));
            }
        }
    }
}

fn effect(call: &Call) -> MemoryEffect {
    match &call.callee {
        Callee::Tir(_) => MemoryEffect::Fresh,
        Callee::TirInplace(_) => MemoryEffect::Forwards,
        Callee::Op(op) => op.memory,
        // A function may return an argument, a packed function may also keep it.
        Callee::Global(_)
        | Callee::Var(_)
        | Callee::DpsPacked(_)
        | Callee::Packed(_)
        | Callee::Constructor(_) => MemoryEffect::Keeps,
    }
}
