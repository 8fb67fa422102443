//! The error type of the command line.

use std::fmt;
use std::path::Path;

use tvm_codegen::CodegenError;
use tvm_core::ir::{Diagnose, Diagnostic, fmt_diagnostics};
use tvm_onnx::OnnxError;
use tvm_runtime::RuntimeError;

use crate::data;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A model cannot be imported.
    Onnx(#[from] OnnxError),
    /// A model cannot be compiled.
    Codegen(#[from] CodegenError),
    /// A pass failed.
    Pass(#[from] tvm_core::pass::PassError),
    /// A model cannot be run.
    Runtime(#[from] RuntimeError),
    /// A file cannot be read or written.
    Io {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The content of a file is invalid.
    File {
        /// Path of the file, or another name of what is invalid.
        path: String,
        /// Error in the content.
        source: Box<Error>,
    },
    /// No Python has a package that is needed.
    NoPeer {
        /// The package.
        package: &'static str,
        /// The interpreters that were tried, and why each does not do.
        tried: Vec<String>,
    },
    /// The command line is invalid.
    Usage(String),
    /// Another failure: of a request, a data set, a program that was started.
    Failed(String),
}

impl Diagnose for Error {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        vec![match self {
            Error::Onnx(source) => return source.diagnostics(),
            Error::Codegen(source) => return source.diagnostics(),
            Error::Pass(source) => return source.diagnostics(),
            Error::Runtime(source) => Diagnostic::plain(source.to_string()),
            Error::Io { path, source } => Diagnostic::plain(format!("{path}: {source}")),
            Error::File { path, source } => {
                return source.diagnostics().into_iter().map(|it| it.context(path)).collect();
            }
            Error::NoPeer { package, tried } => {
                let tried = if tried.is_empty() {
                    "there is none in PATH".to_string()
                } else {
                    format!("tried {}", tried.join(", "))
                };
                let message = format!("no Python with {package}: {tried}");
                Diagnostic::plain(message).help(format!(
                    "install it with `python3 -m pip install {package}`, or name a Python that has it with --python"
                ))
            }
            Error::Usage(message) | Error::Failed(message) => Diagnostic::plain(message),
        }]
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}

impl Error {
    /// Exit status of the command: 2 if the command line is invalid, as for options that are unknown, otherwise 1.
    pub(crate) fn exit(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::File { source, .. } => source.exit(),
            Error::Onnx(_)
            | Error::Codegen(_)
            | Error::Pass(_)
            | Error::Runtime(_)
            | Error::Io { .. }
            | Error::NoPeer { .. }
            | Error::Failed(_) => 1,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error::Usage(message.into())
    }

    pub(crate) fn failed(message: impl Into<String>) -> Error {
        Error::Failed(message.into())
    }

    /// Adds the path of the file to an I/O error.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        |source| Error::Io { path: data::show(path), source }
    }

    /// Adds the path of the file to an error about its content.
    pub(crate) fn file<E: Into<Error>>(path: &Path) -> impl FnOnce(E) -> Error + '_ {
        |err| err.into().context(&data::show(path))
    }

    /// Adds what the error is about: an input, a file. That there is no compiler is not about one.
    pub(crate) fn context(self, about: &str) -> Error {
        if let Error::Codegen(CodegenError::NoCompiler { .. }) = self {
            return self;
        }
        Error::File { path: about.to_string(), source: Box::new(self) }
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
            Error::Pass(_)
            | Error::Runtime(_)
            | Error::Io { .. }
            | Error::NoPeer { .. }
            | Error::Usage(_)
            | Error::Failed(_) => false,
        }
    }
}
