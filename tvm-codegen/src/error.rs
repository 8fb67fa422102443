//! Errors of code generation.

use tvm_core::pass::PassError;
use tvm_runtime::RuntimeError;

/// Why code generation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodegenError {
    /// A lowering pass failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The program uses a construct that this code generator does not support.
    #[error("the {target} code generator does not support {what}")]
    NotSupported {
        /// Name of the code generator.
        target: &'static str,
        /// The unsupported construct.
        what: String,
    },
    /// A code generator failed on a kernel.
    #[error("kernel `{kernel}`{place}: {source}")]
    Kernel {
        /// Name of the kernel.
        kernel: String,
        /// Where in the kernel, in parentheses: the place in the source, or empty if it is not known.
        place: String,
        /// The error.
        source: Box<CodegenError>,
    },
    /// The code generator is not part of this build.
    #[error("this build has no {target} code generator\n  help: turn on the feature `{feature}`{help}")]
    Unsupported {
        /// Name of the code generator.
        target: &'static str,
        /// Cargo feature that provides it.
        feature: &'static str,
        /// Further help text; may be empty.
        help: &'static str,
    },
    /// No C compiler was found.
    #[error(
        "no C compiler: tried {tried}\n  help: install gcc or clang, set CC, turn on the feature `llvm`, or ask for the interpreter (`Target::interpreter()`), which is hundreds of times slower"
    )]
    NoCompiler {
        /// The commands that were tried.
        tried: String,
    },
    /// The directory of the kernel cache is not safe to load code from.
    #[error(
        "kernel cache: {}: {reason}\n  help: set TVM_CACHE_DIR to a directory that only you can write to", path.display()
    )]
    Cache {
        /// The directory of the cache, or one above it.
        path: std::path::PathBuf,
        /// Why the directory is not safe.
        reason: String,
    },
    /// The C compiler failed.
    #[error("`{command}` failed: {message}")]
    Compiler {
        /// The command that failed.
        command: String,
        /// Output of the command.
        message: String,
    },
    /// The target cannot run or express the program.
    #[error("target `{target}`: {message}")]
    Target {
        /// Text of the target.
        target: String,
        /// Why it cannot.
        message: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file or directory.
        path: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The generated code could not be loaded.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// LLVM reported an error.
    #[cfg(feature = "llvm")]
    #[error(transparent)]
    Llvm(#[from] crate::llvm::LlvmError),
}
