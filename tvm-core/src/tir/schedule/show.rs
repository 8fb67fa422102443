//! The loop nest of a program as an outline, with loops or blocks underlined.
//!
//! Loops with the same name are numbered: the second `i` is `i#2`.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::{ScheduleState, StmtSRef};
use crate::ir::VarId;
use crate::support::with_stack;
use crate::tir::{For, ForKind, Stmt};

/// The loops and blocks of the program, one per line; those in `marked` are underlined.
pub(super) fn loop_nest(state: &ScheduleState, marked: &[StmtSRef]) -> String {
    let mut outline = Outline { names: names(state), marked, out: String::new() };
    outline.stmt(&state.func().body, 1);
    outline.out.trim_end().to_string()
}

/// The name of the loop of `var` in the outline.
pub(super) fn loop_name(state: &ScheduleState, var: VarId) -> String {
    names(state).remove(&var).unwrap_or_default()
}

/// Unique names of all loops.
fn names(state: &ScheduleState) -> FxHashMap<VarId, String> {
    fn walk(stmt: &Stmt, counts: &mut FxHashMap<String, usize>, names: &mut FxHashMap<VarId, String>) {
        if let Stmt::For(it) = stmt {
            let name = it.loop_var.name();
            let count = counts.entry(name.to_string()).or_default();
            *count += 1;
            let unique = if *count == 1 { name.to_string() } else { format!("{name}#{count}") };
            names.insert(it.loop_var.id(), unique);
        }
        with_stack(|| stmt.children().into_iter().for_each(|stmt| walk(stmt, counts, names)));
    }
    let mut names = FxHashMap::default();
    walk(&state.func().body, &mut FxHashMap::default(), &mut names);
    names
}

struct Outline<'a> {
    names: FxHashMap<VarId, String>,
    marked: &'a [StmtSRef],
    out: String,
}

impl Outline<'_> {
    fn stmt(&mut self, stmt: &Stmt, depth: usize) {
        let line = match stmt {
            Stmt::For(it) => Some(self.head(it)),
            Stmt::BlockRealize(it) => {
                let axes: Vec<String> = (it.block.iter_vars.iter())
                    .map(|iter| format!("{:?}({})", iter.kind, iter.var.name()))
                    .collect();
                let condition = match it.predicate.is_const(1) {
                    true => String::new(),
                    false => format!(" if {}", it.predicate),
                };
                Some(format!("block {:?} [{}]{condition}", it.block.name, axes.join(", ")))
            }
            _ => None,
        };
        let inner = match line {
            Some(line) => {
                let indent = "  ".repeat(depth);
                // Writing to a string cannot fail.
                let _ = writeln!(self.out, "{indent}{line}");
                if StmtSRef::of(stmt).is_some_and(|sref| self.marked.contains(&sref)) {
                    let _ = writeln!(self.out, "{indent}{}", "^".repeat(line.chars().count()));
                }
                depth + 1
            }
            None => depth,
        };
        with_stack(|| stmt.children().into_iter().for_each(|stmt| self.stmt(stmt, inner)));
    }

    fn head(&self, it: &For) -> String {
        let kind = match it.kind {
            ForKind::Serial => String::new(),
            ForKind::Parallel => "#[parallel] ".into(),
            ForKind::Vectorized => "#[vectorize] ".into(),
            ForKind::Unrolled => "#[unroll] ".into(),
            ForKind::ThreadBinding(tag) => format!("#[bind({:?})] ", tag.name()),
        };
        let name = self.names.get(&it.loop_var.id()).map_or(it.loop_var.name(), String::as_str);
        let end = if it.min.is_const(0) { it.extent.clone() } else { &it.min + &it.extent };
        format!("{kind}for {name} in {}..{end}", it.min)
    }
}
