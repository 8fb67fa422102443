//! Errors of compiling a model.

use std::fmt;
use std::path::PathBuf;

use tvm_codegen::CodegenError;
use tvm_core::pass::PassError;
use tvm_onnx::OnnxError;
use tvm_runtime::RuntimeError;

/// Why a model could not be compiled. `Debug` writes the same message as `Display`, so that a build script may return
/// the error from `main`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No output directory is known.
    #[error(
        "no directory to write model `{model}` to: the variable OUT_DIR is not set\n  help: call this from a build script, or name a directory with `.out_dir(path)`"
    )]
    NoOutDir {
        /// Name of the model.
        model: String,
    },
    /// The name is not valid as the name of a file and of a type.
    #[error(
        "`{name}` cannot name a model: expected letters, digits and `_`, beginning with a letter\n  help: give a name with `.name(\"…\")`"
    )]
    Name {
        /// The rejected name.
        name: String,
    },
    /// The model cannot be imported.
    #[error("cannot import {}: {source}", path.display())]
    Import {
        /// Path of the file.
        path: PathBuf,
        /// Error of the importer.
        source: Box<OnnxError>,
    },
    /// A pass failed on the model.
    #[error("cannot compile model `{model}`: {source}")]
    Pass {
        /// Name of the model.
        model: String,
        /// Error of the pass.
        source: Box<PassError>,
    },
    /// No code could be generated.
    #[error("cannot generate code for model `{model}`: {source}")]
    Codegen {
        /// Name of the model.
        model: String,
        /// Error of the code generator.
        source: Box<CodegenError>,
    },
    /// The C compiler or the archiver failed or is missing.
    #[error("cannot compile the kernels of model `{model}` for {target}: {message}")]
    Compiler {
        /// Name of the model.
        model: String,
        /// Target triple.
        target: String,
        /// Message of the tool.
        message: String,
    },
    /// The artifact cannot be created.
    #[error("cannot save model `{model}`: {source}")]
    Artifact {
        /// Name of the model.
        model: String,
        /// Error of the runtime library.
        source: Box<RuntimeError>,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
