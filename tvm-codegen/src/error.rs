//! Why code generation failed.

use tvm_core::pass::PassError;
use tvm_runtime::RuntimeError;

/// Why code generation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodegenError {
    /// A lowering pass failed.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// The program uses something that this code generator has no code for.
    #[error("the {target} code generator does not support {what}")]
    NotSupported {
        /// Code generator.
        target: &'static str,
        /// What it met.
        what: String,
    },
    /// The code generator is not compiled in.
    #[error("this build has no {target} code generator\n  help: turn on the feature `{feature}`{help}")]
    Unsupported {
        /// Code generator.
        target: &'static str,
        /// Cargo feature that has it.
        feature: &'static str,
        /// What else to do.
        help: &'static str,
    },
    /// There is no C compiler.
    #[error(
        "no C compiler: tried {tried}\n  help: install gcc or clang, set CC, turn on the feature `llvm`, or ask for the interpreter (`Target::interpreter()`), which is hundreds of times slower"
    )]
    NoCompiler {
        /// Commands tried.
        tried: String,
    },
    /// The directory of the kernel cache is not safe to load code from.
    #[error(
        "kernel cache: {}: {reason}\n  help: set TVM_CACHE_DIR to a directory that only you can write to", path.display()
    )]
    Cache {
        /// The directory, or one above it.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The C compiler failed.
    #[error("`{command}` failed: {message}")]
    Compiler {
        /// The command.
        command: String,
        /// Its output.
        message: String,
    },
    /// The target cannot do this.
    #[error("target `{target}`: {message}")]
    Target {
        /// The target.
        target: String,
        /// What it cannot do.
        message: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The generated code could not be loaded.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// LLVM refused.
    #[cfg(feature = "llvm")]
    #[error(transparent)]
    Llvm(#[from] crate::llvm::LlvmError),
}
