//! Why a model could not be compiled.

use std::fmt;
use std::path::PathBuf;

use tvm_codegen::CodegenError;
use tvm_core::pass::PassError;
use tvm_onnx::OnnxError;
use tvm_runtime::RuntimeError;

/// Why a model could not be compiled. `Debug` writes the message as `Display` does, so that a build script may return it
/// from `main`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It is not known where to write.
    #[error(
        "no directory to write model `{model}` to: the variable OUT_DIR is not set\n  help: call this from a build script, or name a directory with `.out_dir(path)`"
    )]
    NoOutDir {
        /// The model.
        model: String,
    },
    /// The name cannot be a file's and a type's.
    #[error(
        "`{name}` cannot name a model: expected letters, digits and `_`, beginning with a letter\n  help: give a name with `.name(\"…\")`"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// The model cannot be imported.
    #[error("cannot import {}: {source}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<OnnxError>,
    },
    /// A pass refused the model.
    #[error("cannot compile model `{model}`: {source}")]
    Pass {
        /// The model.
        model: String,
        /// Why.
        source: Box<PassError>,
    },
    /// No code could be generated.
    #[error("cannot generate code for model `{model}`: {source}")]
    Codegen {
        /// The model.
        model: String,
        /// Why.
        source: Box<CodegenError>,
    },
    /// The C compiler or the archiver failed, or there is none.
    #[error("cannot compile the kernels of model `{model}` for {target}: {message}")]
    Compiler {
        /// The model.
        model: String,
        /// The triple.
        target: String,
        /// What it says.
        message: String,
    },
    /// The artifact cannot be made.
    #[error("cannot save model `{model}`: {source}")]
    Artifact {
        /// The model.
        model: String,
        /// Why.
        source: Box<RuntimeError>,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
