//! Errors of compiling a model.

use std::fmt;
use std::path::PathBuf;

use tvm_codegen::CodegenError;
use tvm_core::ir::{Diagnose, Diagnostic, fmt_diagnostics};
use tvm_core::pass::PassError;
use tvm_core::target::ParseTargetError;
use tvm_onnx::OnnxError;
use tvm_runtime::RuntimeError;

/// Why a model could not be compiled. `Debug` writes the same message as `Display`, so that a build script may return
/// the error from `main`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No output directory is known.
    NoOutDir {
        /// Name of the model.
        model: String,
    },
    /// The name is not valid as the name of a file and of a type.
    Name {
        /// The rejected name.
        name: String,
    },
    /// The model cannot be imported.
    Import {
        /// Path of the file.
        path: PathBuf,
        /// Error of the importer.
        source: Box<OnnxError>,
    },
    /// The model cannot be compiled for the CPUs that were asked for.
    Target {
        /// Name of the model.
        model: String,
        /// What is wrong with them.
        source: ParseTargetError,
    },
    /// A pass failed on the model.
    Pass {
        /// Name of the model.
        model: String,
        /// Error of the pass.
        source: Box<PassError>,
    },
    /// No code could be generated.
    Codegen {
        /// Name of the model.
        model: String,
        /// Error of the code generator.
        source: Box<CodegenError>,
    },
    /// The C compiler or the archiver failed or is missing.
    Compiler {
        /// Name of the model.
        model: String,
        /// Target triple.
        target: String,
        /// Message of the tool.
        message: String,
    },
    /// The artifact cannot be created.
    Artifact {
        /// Name of the model.
        model: String,
        /// Error of the runtime library.
        source: Box<RuntimeError>,
    },
    /// A file cannot be written.
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Diagnose for BuildError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        let of = |source: &dyn Diagnose, context: String| {
            source.diagnostics().into_iter().map(|it| it.context(&context)).collect()
        };
        vec![match self {
            BuildError::Target { model, source } => Diagnostic::plain(format!("model `{model}`: {source}")),
            BuildError::NoOutDir { model } => Diagnostic::plain(format!(
                "no directory to write model `{model}` to: the variable OUT_DIR is not set"
            ))
            .help("call this from a build script, or name a directory with `.out_dir(path)`"),
            BuildError::Name { name } => Diagnostic::plain(format!(
                "`{name}` cannot name a model: expected letters, digits and `_`, beginning with a letter"
            ))
            .help("give a name with `.name(\"…\")`"),
            BuildError::Import { path, source } => {
                return of(&**source, format!("cannot import {}", path.display()));
            }
            BuildError::Pass { model, source } => {
                return of(&**source, format!("cannot compile model `{model}`"));
            }
            BuildError::Codegen { model, source } => {
                return of(&**source, format!("cannot generate code for model `{model}`"));
            }
            BuildError::Compiler { model, target, message } => Diagnostic::plain(format!(
                "cannot compile the kernels of model `{model}` for {target}: {message}"
            )),
            BuildError::Artifact { model, source } => {
                Diagnostic::plain(format!("cannot save model `{model}`: {source}"))
            }
            BuildError::Io { path, source } => {
                Diagnostic::plain(format!("cannot write {}: {source}", path.display()))
            }
        }]
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
