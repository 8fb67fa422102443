//! Errors of the importer.

use std::fmt;
use std::path::PathBuf;

use tvm_core::ir::{Diagnose, Diagnostic, IrError, Span, fmt_diagnostics};
use tvm_runtime::RuntimeError;

/// Why a model, or a tensor file, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// A file cannot be read.
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The bytes are not the protobuf message that was expected.
    Decode {
        /// Kind of message expected.
        what: &'static str,
        /// Error of the decoder.
        source: prost::DecodeError,
    },
    /// The bytes are not a `.npy` file that can be read.
    Npy(String),
    /// The model contradicts itself or the format.
    Malformed {
        /// Description of the contradiction.
        message: String,
        /// Node or value concerned; may be none.
        place: Span,
    },
    /// The model is well-formed but uses unsupported features.
    Unsupported(UnsupportedReport),
    /// A tensor, or all tensors together, are larger than [`ImportOptions`](crate::ImportOptions) allow.
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size in bytes.
        bytes: u128,
        /// The limit in bytes.
        limit: u64,
        /// Node or value concerned; may be none.
        place: Span,
    },
    /// Data in another file cannot be read, or must not be read.
    External {
        /// Name of the tensor.
        tensor: String,
        /// Description of the problem.
        message: String,
    },
    /// The graph is ill-typed; the diagnostics name the node.
    Ir(#[from] IrError),
    /// A tensor cannot be created.
    Runtime(#[from] RuntimeError),
}

/// All unsupported features that a model uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnsupportedReport {
    /// One entry per operator or feature.
    pub items: Vec<UnsupportedItem>,
}

/// One unsupported operator or feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedItem {
    /// The operator or feature.
    pub what: String,
    /// Paths of the nodes that use it.
    pub nodes: Vec<String>,
    /// Help text: what to do instead.
    pub help: Option<String>,
}

/// Maximum number of nodes that are shown per item of a report.
const SHOWN_NODES: usize = 5;

impl OnnxError {
    pub(crate) fn malformed(message: impl Into<String>) -> OnnxError {
        OnnxError::Malformed { message: message.into(), place: Span::none() }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> OnnxError {
        let item = UnsupportedItem { what: what.into(), nodes: Vec::new(), help: None };
        OnnxError::Unsupported(UnsupportedReport { items: vec![item] })
    }

    /// Sets the help text, if the error has a place for it.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> OnnxError {
        if let OnnxError::Unsupported(report) = &mut self
            && let Some(item) = report.items.last_mut()
        {
            item.help = Some(help.into());
        }
        self
    }

    /// Sets the node concerned, unless the error already names one.
    #[must_use]
    pub(crate) fn at(mut self, path: &str) -> OnnxError {
        match &mut self {
            OnnxError::Malformed { place, .. } | OnnxError::TooLarge { place, .. } if place.is_none() => {
                *place = Span::model(path);
            }
            OnnxError::Unsupported(report) => {
                for item in report.items.iter_mut().filter(|item| item.nodes.is_empty()) {
                    item.nodes.push(path.to_string());
                }
            }
            _ => {}
        }
        self
    }

    /// True if the model is well-formed, as far as it was checked, and uses unsupported features.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, OnnxError::Unsupported(_))
    }
}

impl Diagnose for OnnxError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        vec![match self {
            OnnxError::Io { path, source } => {
                Diagnostic::plain(format!("cannot read {}: {source}", path.display()))
            }
            OnnxError::Decode { what, source } => Diagnostic::plain(format!("not a valid {what}: {source}")),
            OnnxError::Npy(message) => Diagnostic::plain(format!("not a valid .npy file: {message}")),
            OnnxError::Malformed { message, place } => {
                Diagnostic::new(format!("malformed model: {message}"), place)
            }
            OnnxError::Unsupported(report) => return report.diagnostics(),
            OnnxError::TooLarge { what, bytes, limit, place } => {
                Diagnostic::new(format!("{what} has {bytes} bytes, the limit is {limit}"), place)
            }
            OnnxError::External { tensor, message } => {
                Diagnostic::plain(format!("external data of tensor `{tensor}`: {message}"))
            }
            OnnxError::Ir(source) => return source.diagnostics(),
            OnnxError::Runtime(source) => Diagnostic::plain(source.to_string()),
        }]
    }
}

impl fmt::Display for OnnxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}

impl UnsupportedReport {
    /// Adds the items of `other`; nodes with the same problem share an item.
    pub(crate) fn extend(&mut self, other: UnsupportedReport) {
        for item in other.items {
            match self.items.iter_mut().find(|it| it.what == item.what) {
                Some(known) => {
                    let new = item.nodes.into_iter().filter(|node| !known.nodes.contains(node));
                    let new: Vec<String> = new.collect();
                    known.nodes.extend(new);
                }
                None => self.items.push(item),
            }
        }
    }

    /// One diagnostic per operator or feature, at the first node that uses it.
    fn diagnostics(&self) -> Vec<Diagnostic> {
        let of_item = |item: &UnsupportedItem| {
            let (count, places) = (item.nodes.len(), item.nodes.iter().map(|it| Span::model(it.as_str())));
            let used = if count > 1 { format!(" ({count} nodes)") } else { String::new() };
            let mut res =
                Diagnostic::plain(format!("the model uses what is not supported: {}{used}", item.what));
            for (i, place) in places.take(SHOWN_NODES).enumerate() {
                res = if i == 0 { res.at(&place) } else { res.note("and here", &place) };
            }
            if count > SHOWN_NODES {
                res = res.note(format!("and in {} more nodes", count - SHOWN_NODES), &Span::none());
            }
            Diagnostic { help: item.help.clone(), ..res }
        };
        self.items.iter().map(of_item).collect()
    }
}

impl fmt::Display for UnsupportedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}
