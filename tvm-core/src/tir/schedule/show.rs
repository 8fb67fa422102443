//! The loop nest of a program as an outline, with loops or blocks underlined.

use std::fmt::Write;

use super::{ScheduleState, StmtSRef};
use crate::tir::{ForKind, PrimExpr, Stmt};

/// The loops and blocks of the program, one a line; those in `marked` are underlined.
pub(super) fn loop_nest(state: &ScheduleState, marked: &[StmtSRef]) -> String {
    let mut out = String::new();
    outline(&state.func().body, 1, marked, &mut out);
    out.trim_end().to_string()
}

fn outline(stmt: &Stmt, depth: usize, marked: &[StmtSRef], out: &mut String) {
    let line = match stmt {
        Stmt::For(it) => {
            let kind = match it.kind {
                ForKind::Serial => String::new(),
                ForKind::Parallel => "#[parallel] ".into(),
                ForKind::Vectorized => "#[vectorize] ".into(),
                ForKind::Unrolled => "#[unroll] ".into(),
                ForKind::ThreadBinding(tag) => format!("#[bind({:?})] ", tag.name()),
            };
            let extent = match &it.extent {
                PrimExpr::IntImm(imm) => imm.value.to_string(),
                PrimExpr::Var(var) => var.name().to_string(),
                _ => "..".into(),
            };
            Some(format!("{kind}for {} in 0..{extent}", it.loop_var.name()))
        }
        Stmt::BlockRealize(it) => {
            let axes: Vec<String> = it
                .block
                .iter_vars
                .iter()
                .map(|iter| format!("{:?}({})", iter.kind, iter.var.name()))
                .collect();
            Some(format!("block {:?} [{}]", it.block.name, axes.join(", ")))
        }
        _ => None,
    };
    let inner = match line {
        Some(line) => {
            let indent = "  ".repeat(depth);
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{indent}{line}");
            if StmtSRef::of(stmt).is_some_and(|sref| marked.contains(&sref)) {
                let _ = writeln!(out, "{indent}{}", "^".repeat(line.chars().count()));
            }
            depth + 1
        }
        None => depth,
    };
    stmt.children().into_iter().for_each(|stmt| outline(stmt, inner, marked, out));
}
