//! Errors of the importer.

use std::fmt;
use std::path::PathBuf;

use tvm_core::ir::IrError;
use tvm_runtime::RuntimeError;

/// Why a model, or a tensor file, cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnnxError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The bytes are not the protobuf message that was expected.
    #[error("not a valid {what}: {source}")]
    Decode {
        /// Kind of message expected.
        what: &'static str,
        /// Error of the decoder.
        source: prost::DecodeError,
    },
    /// The bytes are not a `.npy` file that can be read.
    #[error("not a valid .npy file: {0}")]
    Npy(String),
    /// The model contradicts itself or the format.
    #[error("malformed model: {message}{}", at(.place))]
    Malformed {
        /// Description of the contradiction.
        message: String,
        /// Node or value concerned; may be empty.
        place: String,
    },
    /// The model is well-formed but uses unsupported features.
    #[error("{0}")]
    Unsupported(UnsupportedReport),
    /// A tensor, or all tensors together, are larger than [`ImportOptions`](crate::ImportOptions) allow.
    #[error("{what} has {bytes} bytes, the limit is {limit}{}", at(.place))]
    TooLarge {
        /// What is too large.
        what: String,
        /// Its size in bytes.
        bytes: u128,
        /// The limit in bytes.
        limit: u64,
        /// Node or value concerned; may be empty.
        place: String,
    },
    /// Data in another file cannot be read, or must not be read.
    #[error("external data of tensor `{tensor}`: {message}")]
    External {
        /// Name of the tensor.
        tensor: String,
        /// Description of the problem.
        message: String,
    },
    /// The graph is ill-typed; the diagnostics name the node.
    #[error(transparent)]
    Ir(#[from] IrError),
    /// A tensor cannot be created.
    #[error(transparent)]
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

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("\n  --> {place}") }
}

impl OnnxError {
    pub(crate) fn malformed(message: impl Into<String>) -> OnnxError {
        OnnxError::Malformed { message: message.into(), place: String::new() }
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
            OnnxError::Malformed { place, .. } | OnnxError::TooLarge { place, .. } if place.is_empty() => {
                *place = path.to_string();
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

impl fmt::Display for UnsupportedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the model uses what is not supported:")?;
        for item in &self.items {
            let n = item.nodes.len();
            write!(f, "\n  {}", item.what)?;
            if n > 0 {
                write!(f, " ({n} node{})", if n == 1 { "" } else { "s" })?;
            }
            for node in item.nodes.iter().take(SHOWN_NODES) {
                write!(f, "\n    --> {node}")?;
            }
            if n > SHOWN_NODES {
                write!(f, "\n    … and {} more", n - SHOWN_NODES)?;
            }
            if let Some(help) = &item.help {
                write!(f, "\n    help: {help}")?;
            }
        }
        Ok(())
    }
}
