//! Errors of code generation.

use std::fmt;

use tvm_core::ir::{Diagnose, Diagnostic, Span, fmt_diagnostics};
use tvm_core::pass::PassError;
use tvm_runtime::RuntimeError;

/// Why code generation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodegenError {
    /// A lowering pass failed.
    Pass(#[from] PassError),
    /// The program uses a construct that this code generator does not support.
    NotSupported {
        /// Name of the code generator.
        target: &'static str,
        /// The unsupported construct.
        what: String,
    },
    /// A code generator failed on a kernel.
    Kernel {
        /// Name of the kernel.
        kernel: String,
        /// The place in the source; none if it is not known.
        span: Span,
        /// The error.
        source: Box<CodegenError>,
    },
    /// The code generator is not part of this build.
    Unsupported {
        /// Name of the code generator.
        target: &'static str,
        /// Cargo feature that provides it.
        feature: &'static str,
        /// Further help text; may be empty.
        help: &'static str,
    },
    /// No C compiler was found.
    NoCompiler {
        /// The commands that were tried.
        tried: String,
    },
    /// The directory of the kernel cache is not safe to load code from.
    Cache {
        /// The directory of the cache, or one above it.
        path: std::path::PathBuf,
        /// Why the directory is not safe.
        reason: String,
    },
    /// The C compiler failed.
    Compiler {
        /// The command that failed.
        command: String,
        /// Output of the command.
        message: String,
    },
    /// The target cannot run or express the program.
    Target {
        /// Text of the target.
        target: String,
        /// Why it cannot.
        message: String,
    },
    /// A file could not be read or written.
    Io {
        /// Path of the file or directory.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The generated code could not be loaded.
    Runtime(#[from] RuntimeError),
    /// LLVM reported an error.
    #[cfg(feature = "llvm")]
    Llvm(#[from] crate::llvm::LlvmError),
}

impl Diagnose for CodegenError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        let plain = |message: String| Diagnostic::plain(message);
        let diagnostic = match self {
            CodegenError::Pass(source) => return source.diagnostics(),
            CodegenError::Kernel { kernel, span, source } => {
                let of_kernel = |it: Diagnostic| it.context(format_args!("kernel `{kernel}`")).at(span);
                return source.diagnostics().into_iter().map(of_kernel).collect();
            }
            CodegenError::NotSupported { target, what } => {
                plain(format!("the {target} code generator does not support {what}"))
            }
            CodegenError::Unsupported { target, feature, help } => {
                plain(format!("this build has no {target} code generator"))
                    .help(format!("turn on the feature `{feature}`{help}"))
            }
            CodegenError::NoCompiler { tried } => plain(format!("no C compiler: tried {tried}")).help(
                "install gcc or clang, set CC, turn on the feature `llvm`, or ask for the interpreter \
                 (`Target::interpreter()`), which is hundreds of times slower",
            ),
            CodegenError::Cache { path, reason } => {
                plain(format!("kernel cache: {}: {reason}", path.display()))
                    .help("set TVM_CACHE_DIR to a directory that only you can write to")
            }
            CodegenError::Compiler { command, message } => plain(format!("`{command}` failed: {message}")),
            CodegenError::Target { target, message } => plain(format!("target `{target}`: {message}")),
            CodegenError::Io { path, source } => plain(format!("{path}: {source}")),
            CodegenError::Runtime(source) => plain(source.to_string()),
            #[cfg(feature = "llvm")]
            CodegenError::Llvm(source) => plain(source.to_string()),
        };
        vec![diagnostic]
    }
}

impl fmt::Display for CodegenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}
