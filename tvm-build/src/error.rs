//! Errors of compiling a model or a kernel.

use std::fmt;
use std::path::PathBuf;

use tvm_codegen::CodegenError;
use tvm_core::ir::{Diagnose, Diagnostic, IrError, fmt_diagnostics};
use tvm_core::pass::PassError;
use tvm_core::target::ParseTargetError;
use tvm_onnx::OnnxError;
use tvm_runtime::RuntimeError;

use crate::gpu::no_compiler;
use crate::kernel::MAX_PARAMETERS;

/// What is compiled. `Display` writes kind and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildItem {
    /// A model of this name.
    Model(String),
    /// A kernel of this name.
    Kernel(String),
}

impl BuildItem {
    /// The name.
    pub fn name(&self) -> &str {
        match self {
            BuildItem::Model(name) | BuildItem::Kernel(name) => name,
        }
    }

    /// `model` or `kernel`.
    fn kind(&self) -> &'static str {
        match self {
            BuildItem::Model(_) => "model",
            BuildItem::Kernel(_) => "kernel",
        }
    }
}

impl fmt::Display for BuildItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind(), self.name())
    }
}

/// Why a model or kernel could not be compiled. `Debug` writes the same message as `Display`, so that a build script may return
/// the error from `main`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No output directory is known.
    NoOutDir {
        /// What was to be compiled.
        item: BuildItem,
    },
    /// The name is not valid as the name of a file and of a type.
    Name {
        /// What has the name.
        item: BuildItem,
    },
    /// The tensor program of a kernel is malformed.
    Program {
        /// What was to be compiled.
        item: BuildItem,
        /// What is wrong with it.
        source: Box<IrError>,
    },
    /// The kernel has more parameters than a typed call, or none.
    Parameters {
        /// What was to be compiled.
        item: BuildItem,
        /// Number of parameters.
        got: usize,
    },
    /// The model cannot be imported.
    Import {
        /// Path of the file.
        path: PathBuf,
        /// Error of the importer.
        source: Box<OnnxError>,
    },
    /// Nothing can be compiled for the CPUs or GPUs that were asked for.
    Target {
        /// What was to be compiled.
        item: BuildItem,
        /// What is wrong with them.
        source: ParseTargetError,
    },
    /// There is no compiler of code for GPUs: libnvrtc or the feature `cuda` is missing.
    GpuCompiler {
        /// What was to be compiled.
        item: BuildItem,
        /// What is missing.
        source: Box<CodegenError>,
    },
    /// The kernel for GPUs has other parameters than the one for the CPU.
    GpuParameters {
        /// What was to be compiled.
        item: BuildItem,
        /// Signature of the one for the CPU.
        expected: String,
        /// Signature of the one for GPUs.
        got: String,
    },
    /// A pass failed.
    Pass {
        /// What was to be compiled.
        item: BuildItem,
        /// Error of the pass.
        source: Box<PassError>,
    },
    /// No code could be generated.
    Codegen {
        /// What was to be compiled.
        item: BuildItem,
        /// Error of the code generator.
        source: Box<CodegenError>,
    },
    /// The C compiler or the archiver failed or is missing.
    Compiler {
        /// What was to be compiled.
        item: BuildItem,
        /// Target triple.
        target: String,
        /// Message of the tool.
        message: String,
    },
    /// The artifact cannot be created.
    Artifact {
        /// What was to be compiled.
        item: BuildItem,
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
            BuildError::Target { item, source } => Diagnostic::plain(format!("{item}: {source}")),
            BuildError::NoOutDir { item } => {
                Diagnostic::plain(format!("no directory to write {item} to: the variable OUT_DIR is not set"))
                    .help("call this from a build script, or name a directory with `.out_dir(path)`")
            }
            BuildError::Name { item } => Diagnostic::plain(format!(
                "`{}` cannot name a {}: expected letters, digits and `_`, beginning with a letter",
                item.name(),
                item.kind()
            ))
            .help("give a name with `.name(\"…\")`"),
            BuildError::Program { item, source } => return of(&**source, format!("cannot build {item}")),
            BuildError::Parameters { item, got } => Diagnostic::plain(format!(
                "{item} has {got} parameters: a typed call has 1 to {MAX_PARAMETERS}"
            )),
            BuildError::Import { path, source } => {
                return of(&**source, format!("cannot import {}", path.display()));
            }
            BuildError::GpuCompiler { item, source } => {
                return no_compiler(&format!("cannot compile {item} for GPUs"), source);
            }
            BuildError::GpuParameters { item, expected, got } => Diagnostic::plain(format!(
                "{item}: the kernel for GPUs is `{got}`, expected the parameters of `{expected}`"
            )),
            BuildError::Pass { item, source } => return of(&**source, format!("cannot compile {item}")),
            BuildError::Codegen { item, source } => {
                return of(&**source, format!("cannot generate code for {item}"));
            }
            BuildError::Compiler { item, target, message } => {
                let what = match item {
                    BuildItem::Model(_) => "the kernels of ",
                    BuildItem::Kernel(_) => "",
                };
                Diagnostic::plain(format!("cannot compile {what}{item} for {target}: {message}"))
            }
            BuildError::Artifact { item, source } => {
                Diagnostic::plain(format!("cannot save {item}: {source}"))
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
