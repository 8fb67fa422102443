//! Unique Rust identifiers for variables, buffers and functions, from their name hints.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{BufferId, Var, VarId};
use crate::tir::{Buffer, Intrinsic};

/// Words that cannot name a variable: Rust's keywords and the names that have a meaning in the DSL.
const RESERVED: &[&str] = &[
    "as",
    "async",
    "await",
    "bool",
    "break",
    "const",
    "continue",
    "crate",
    "dyn",
    "else",
    "enum",
    "extern",
    "bf16",
    "f16",
    "f32",
    "f64",
    "false",
    "fn",
    "for",
    "gen",
    "i16",
    "i32",
    "i64",
    "i8",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "pub",
    "ref",
    "return",
    "self",
    "Self",
    "static",
    "struct",
    "super",
    "trait",
    "true",
    "type",
    "u16",
    "u32",
    "u64",
    "u8",
    "union",
    "unsafe",
    "use",
    "usize",
    "where",
    "while",
    "yield",
    "abstract",
    "become",
    "box",
    "do",
    "final",
    "macro",
    "override",
    "priv",
    "try",
    "typeof",
    "unsized",
    "virtual",
    "_",
    "S",
    "R",
    "O",
    "Q",
    "alloc",
    "block",
    "grid",
    "init",
    "add",
    "cast",
    "floordiv",
    "floormod",
    "select",
    "max",
    "min",
    "dataflow",
    "call_tir",
    "call_tir_inplace",
    "call_packed",
    "call_dps_packed",
    "match_cast",
    "shape",
    "prim",
    "function",
    "constant",
    "call_global",
    "bind",
    "match_buffer",
    "call_op",
    "ref_create",
    "ref_read",
    "ref_write",
    "tuple_get_item",
];

/// Names in nested scopes: a name is free again after the scope that defined it.
#[derive(Debug, Default)]
pub(super) struct Names {
    vars: FxHashMap<VarId, String>,
    buffers: FxHashMap<BufferId, String>,
    used: FxHashSet<String>,
    /// By base name (without number), the number at which the search for a free name starts.
    next: FxHashMap<String, usize>,
    /// Names in order of definition, each with its base name and the value of `next` before it.
    trail: Vec<(String, String, usize)>,
}

impl Names {
    /// Begins a scope; returns the mark that `close` needs to end it.
    pub(super) fn open(&self) -> usize {
        self.trail.len()
    }

    /// Ends the scope that began at `mark`.
    pub(super) fn close(&mut self, mark: usize) {
        for (name, base, next) in self.trail.drain(mark..).rev() {
            self.used.remove(&name);
            self.next.insert(base, next);
        }
    }

    /// Reserves these names for the lifetime of the printer.
    pub(super) fn reserve<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.used.extend(names.into_iter().map(str::to_string));
    }

    /// A unique name for `var`.
    pub(super) fn define(&mut self, var: &Var) -> String {
        let name = self.unique(var.name());
        self.vars.insert(var.id(), name.clone());
        name
    }

    /// A unique name for `buffer`.
    pub(super) fn define_buffer(&mut self, buffer: &Buffer) -> String {
        let name = self.unique(&buffer.name);
        self.buffers.insert(buffer.id, name.clone());
        name
    }

    /// The name of `var`; a free variable gets one on first use.
    pub(super) fn var(&mut self, var: &Var) -> String {
        self.vars.get(&var.id()).cloned().unwrap_or_else(|| self.define(var))
    }

    /// The name of `buffer`; a free buffer gets one on first use.
    pub(super) fn buffer(&mut self, buffer: &Buffer) -> String {
        self.buffers.get(&buffer.id).cloned().unwrap_or_else(|| self.define_buffer(buffer))
    }

    /// True when `var` has a name.
    pub(super) fn knows(&self, var: &Var) -> bool {
        self.vars.contains_key(&var.id())
    }

    /// A name made from `hint` that is not used in any open scope.
    pub(super) fn unique(&mut self, hint: &str) -> String {
        let base = identifier(hint);
        let first = self.next.get(&base).copied().unwrap_or(0);
        let mut next = first;
        let mut name = if next == 0 { base.clone() } else { format!("{base}_{next}") };
        while !self.used.insert(name.clone()) {
            next += 1;
            name = format!("{base}_{next}");
        }
        self.next.insert(base.clone(), next + 1);
        self.trail.push((name.clone(), base, first));
        name
    }
}

/// `hint` as a Rust identifier.
pub(super) fn identifier(hint: &str) -> String {
    let mut name: String =
        hint.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, 'v');
    }
    if name.chars().all(|c| c == '_') {
        name = "v".to_string();
    }
    // An all-uppercase name would refer to a constant of the host program.
    if name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase) {
        name.make_ascii_lowercase();
    }
    // The expansions of the macros use names with two underscores.
    while name.starts_with("__") {
        name.remove(0);
    }
    if RESERVED.contains(&name.as_str()) || Intrinsic::from_name(&name).is_some() {
        name.push('_');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_identifiers() {
        let mut names = Names::default();
        for (hint, want) in [
            ("i", "i"),
            ("i", "i_1"),
            ("for", "for_"),
            ("0a.b", "v0a_b"),
            ("", "v"),
            ("é", "v_1"),
            ("A", "a"),
        ] {
            assert_eq!(names.unique(hint), want, "{hint:?}");
        }
        let mark = names.open();
        assert_eq!(names.unique("i"), "i_2");
        names.close(mark);
        assert_eq!(names.unique("i"), "i_2");
    }
}
