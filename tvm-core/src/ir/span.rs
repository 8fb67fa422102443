//! Where a node came from: a place in the user's Rust source or a path in an imported model.
//!
//! TVM counterpart: `Span`, `SourceName`.

use std::fmt;
use std::sync::Arc;

/// Source of a node; empty when the compiler itself created the node.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Span(Option<Arc<Place>>);

#[derive(PartialEq, Eq)]
enum Place {
    Rust { file: Arc<str>, line: u32, column: u32 },
    Model { path: Arc<str> },
}

impl Span {
    /// No source: the node was created by the compiler.
    pub const fn none() -> Span {
        Span(None)
    }

    /// A place in Rust source: 1-based line, 1-based column.
    pub fn rust(file: &str, line: u32, column: u32) -> Span {
        Span(Some(Arc::new(Place::Rust { file: file.into(), line, column })))
    }

    /// A node of an imported model, for example `graph/conv1 (Conv)`.
    pub fn model(path: impl Into<Arc<str>>) -> Span {
        Span(Some(Arc::new(Place::Model { path: path.into() })))
    }

    /// True when there is no source.
    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The place as text; empty when there is no source.
    pub fn text(&self) -> Arc<str> {
        if self.is_none() { "".into() } else { self.to_string().into() }
    }

    /// File, line and column when the node came from Rust source.
    pub fn location(&self) -> Option<(&str, u32, u32)> {
        match self.0.as_deref() {
            Some(Place::Rust { file, line, column }) => Some((file, *line, *column)),
            Some(Place::Model { .. }) | None => None,
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_deref() {
            Some(Place::Rust { file, line, column }) => write!(f, "{file}:{line}:{column}"),
            Some(Place::Model { path }) => write!(f, "{path}"),
            None => f.write_str("<no source>"),
        }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
