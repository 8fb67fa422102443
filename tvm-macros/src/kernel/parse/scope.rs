//! Names in scope and what they stand for.

use syn::Ident;

use crate::kernel::ast::DType;

/// What a name stands for.
#[derive(Clone)]
pub(super) enum Name {
    /// A value that does not change; its type where known (`usize` for indices).
    Value { dtype: Option<DType>, kind: ValueKind },
    /// A parameter, a local buffer, or a buffer that matches a region of one (`matched`).
    Tensor { rank: usize, dtype: DType, written: Written, matched: bool },
    /// A mutable scalar.
    Scalar { dtype: DType },
    /// Its declaration has an error: its uses report no further errors.
    Unknown,
    /// A helper closure.
    Helper { arity: usize },
}

/// What kind of value a name is, for messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Dim,
    LoopVar,
    Axis,
    Param,
    Let,
}

impl ValueKind {
    pub(super) fn describe(self) -> &'static str {
        match self {
            ValueKind::Dim => "a symbolic dimension",
            ValueKind::LoopVar => "a loop variable",
            ValueKind::Axis => "an axis of a block",
            ValueKind::Param => "a scalar parameter",
            ValueKind::Let => "not mutable",
        }
    }
}

/// Whether a buffer may be written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Input,
    /// A parameter that is an output.
    Output,
    /// A local buffer.
    Local,
}

/// The open scopes, innermost last.
pub(super) struct Scopes(Vec<Vec<(Ident, Name)>>);

impl Scopes {
    pub(super) fn new() -> Scopes {
        Scopes(vec![vec![]])
    }

    pub(super) fn open(&mut self) {
        self.0.push(vec![]);
    }

    /// Number of open scopes.
    pub(super) fn depth(&self) -> usize {
        self.0.len()
    }

    pub(super) fn close(&mut self) {
        self.0.pop();
    }

    pub(super) fn declare(&mut self, name: &Ident, what: Name) {
        if let Some(scope) = self.0.last_mut() {
            scope.push((name.clone(), what));
        }
    }

    pub(super) fn lookup(&self, name: &Ident) -> Option<&Name> {
        self.0.iter().rev().flat_map(|scope| scope.iter().rev()).find(|(it, _)| it == name).map(|(_, it)| it)
    }

    /// All names in scope that `pred` holds for.
    pub(super) fn names(&self, pred: impl Fn(&Name) -> bool) -> Vec<String> {
        self.0.iter().flatten().filter(|(_, it)| pred(it)).map(|(name, _)| name.to_string()).collect()
    }
}
