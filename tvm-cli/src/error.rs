//! The error type of the command line.

use std::path::Path;

use tvm_codegen::CodegenError;
use tvm_onnx::OnnxError;
use tvm_runtime::RuntimeError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A model cannot be imported.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// A model cannot be compiled.
    #[error(transparent)]
    Codegen(#[from] CodegenError),
    /// A pass failed.
    #[error(transparent)]
    Pass(#[from] tvm_core::pass::PassError),
    /// A model cannot be run.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The content of a file is invalid.
    #[error("{path}: {source}")]
    File {
        /// Path of the file.
        path: String,
        /// Error in the content.
        source: Box<Error>,
    },
    /// The command line, a request or a data set is invalid.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Exit status of a failed command.
    pub(crate) const EXIT: u8 = 2;

    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error::Usage(message.into())
    }

    /// Adds the path of the file to an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        |source| Error::Io { path: path.display().to_string(), source }
    }

    /// Adds the path of the file to an error about its content.
    pub(crate) fn file<E: Into<Error>>(path: &Path) -> impl FnOnce(E) -> Error + '_ {
        |err| Error::File { path: path.display().to_string(), source: Box::new(err.into()) }
    }

    /// True if the model is well-formed but uses an unsupported feature.
    pub(crate) fn is_unsupported(&self) -> bool {
        match self {
            Error::Onnx(err) => err.is_unsupported(),
            Error::Codegen(CodegenError::Kernel { source, .. }) => {
                matches!(**source, CodegenError::NotSupported { .. })
            }
            Error::Codegen(err) => {
                matches!(err, CodegenError::NotSupported { .. } | CodegenError::Unsupported { .. })
            }
            Error::File { source, .. } => source.is_unsupported(),
            Error::Pass(_) | Error::Runtime(_) | Error::Io { .. } | Error::Usage(_) => false,
        }
    }
}
