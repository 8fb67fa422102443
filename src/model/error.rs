//! Errors of models: of their import, compilation and calls.

use std::fmt;
use std::path::PathBuf;

use tvm_codegen::CodegenError;
use tvm_core::ir::{Diagnose, Diagnostic, fmt_diagnostics};
use tvm_core::support::nearest;
use tvm_onnx::OnnxError;
use tvm_runtime::{DataType, DimBound, RuntimeError};

/// Why a model cannot be compiled, loaded or called.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The ONNX model cannot be imported.
    Import {
        /// The file of the model, if it is in one.
        path: Option<PathBuf>,
        /// The error of the importer.
        source: Box<OnnxError>,
    },
    /// The model cannot be compiled.
    Codegen(#[from] CodegenError),
    /// The model cannot be loaded, or a run failed.
    Runtime(#[from] RuntimeError),
    /// An option does not fit the model.
    Option {
        /// What does not fit.
        message: String,
    },
    /// There is no such graph function.
    Entry {
        /// The function asked for, if any.
        name: Option<String>,
        /// The graph functions of the model.
        functions: Vec<String>,
    },
    /// The number of inputs is wrong.
    InputCount {
        /// The inputs of the model, as text.
        inputs: Vec<String>,
        /// Number of inputs given.
        got: usize,
    },
    /// The model has no input of this name.
    UnknownInput {
        /// The name given.
        name: String,
        /// The names of the inputs.
        inputs: Vec<String>,
    },
    /// An input was given twice.
    InputTwice {
        /// Name of the input.
        input: String,
    },
    /// Inputs were not given.
    MissingInputs {
        /// The missing inputs, as text.
        inputs: Vec<String>,
    },
    /// What was given as an input is no tensor: data and shape do not fit, for example.
    InputData {
        /// Name of the input.
        input: String,
        /// The error of the conversion.
        source: Box<RuntimeError>,
    },
    /// An input is not a tensor.
    InputKind {
        /// The input, as text.
        input: String,
        /// Kind of the value given.
        got: &'static str,
    },
    /// An input is not a number of the type of a scalar parameter.
    InputNumber {
        /// The input, as text.
        input: String,
        /// What was given.
        got: String,
    },
    /// The element type of an input is wrong.
    InputDType {
        /// Name of the input.
        input: String,
        /// Element type of the input.
        expected: DataType,
        /// Element type given.
        got: DataType,
    },
    /// The rank of an input is wrong.
    InputRank {
        /// The input, as text.
        input: String,
        /// Rank of the input.
        expected: usize,
        /// Shape given.
        got: Vec<i64>,
    },
    /// An extent of an input is wrong.
    InputExtent {
        /// Name of the input.
        input: String,
        /// Axis concerned.
        axis: usize,
        /// Extent expected.
        expected: i64,
        /// Extent given.
        got: i64,
        /// For a symbolic dimension, its name, and the input that set it.
        dim: Option<(String, String)>,
    },
    /// A symbolic dimension is outside the bounds that the model was compiled for.
    InputBound {
        /// Name of the input.
        input: String,
        /// Axis concerned.
        axis: usize,
        /// Name of the dimension.
        dim: String,
        /// Bounds of the dimension.
        expected: DimBound,
        /// Extent given.
        got: i64,
    },
    /// The model has no output of this name or number.
    UnknownOutput {
        /// The name or number asked for.
        name: String,
        /// The names of the outputs.
        outputs: Vec<String>,
    },
    /// An output was taken before.
    OutputTaken {
        /// Name of the output.
        output: String,
    },
    /// An output is not a tensor.
    OutputKind {
        /// Name of the output.
        output: String,
        /// Kind of the value.
        got: &'static str,
    },
    /// No inputs can be made up, because an extent of an input is computed from others.
    MadeUp {
        /// The input, as text.
        input: String,
    },
}

impl From<OnnxError> for ModelError {
    fn from(source: OnnxError) -> ModelError {
        ModelError::Import { path: None, source: source.into() }
    }
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// An error about a name, with the nearest one as help.
fn unknown(what: &str, name: &str, names: &[String]) -> Diagnostic {
    let (has, nothing) = (list(names), format!("there is no {what} `{name}`: the model has no {what}s"));
    let res = Diagnostic::plain(if names.is_empty() {
        nothing
    } else {
        format!("there is no {what} `{name}`; the {what}s are {has}")
    });
    match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => res.help(format!("did you mean `{near}`?")),
        None => res,
    }
}

impl Diagnose for ModelError {
    fn diagnostics(&self) -> Vec<Diagnostic> {
        let plain = |message: String| Diagnostic::plain(message);
        vec![match self {
            ModelError::Import { path: None, source } => return source.diagnostics(),
            ModelError::Import { path: Some(path), source } => {
                let context = |it: Diagnostic| it.context(path.display());
                return source.diagnostics().into_iter().map(context).collect();
            }
            ModelError::Codegen(source) => return source.diagnostics(),
            ModelError::Runtime(source) => plain(source.to_string()),
            ModelError::Option { message } => plain(message.clone()),
            ModelError::Entry { name: Some(name), functions } => unknown("graph function", name, functions),
            ModelError::Entry { name: None, functions } if functions.is_empty() => {
                plain("the module has no graph function".into())
            }
            ModelError::Entry { name: None, functions } => {
                plain(format!("no graph function is called `main`; there are {}", list(functions)))
                    .help("name one with `entry`")
            }
            ModelError::InputCount { inputs, got } => {
                let (n, is) = (inputs.len(), if *got == 1 { "is" } else { "are" });
                let message = format!("the model has {n} input(s), but {got} {is} given");
                plain(if inputs.is_empty() { message } else { format!("{message}: {}", list(inputs)) })
            }
            ModelError::UnknownInput { name, inputs } => unknown("input", name, inputs),
            ModelError::InputTwice { input } => plain(format!("input `{input}` is given twice")),
            ModelError::MissingInputs { inputs } => plain(format!("not given: {}", list(inputs))),
            ModelError::InputData { input, source } => plain(format!("input `{input}`: {source}")),
            ModelError::InputKind { input, got } => {
                plain(format!("input `{input}`: expected a tensor, got {got}"))
            }
            ModelError::InputNumber { input, got } => {
                plain(format!("input `{input}`: expected one number, got {got}"))
                    .help("pass a number (`3i64`, `0.5f64`) or a tensor of rank 0 (`Tensor::scalar(3i64)`)")
            }
            ModelError::InputDType { input, expected, got } => {
                plain(format!("input `{input}`: expected elements of type {expected}, got {got}"))
            }
            ModelError::InputRank { input, expected, got } => {
                let rank = got.len();
                plain(format!("input `{input}`: expected rank {expected}, got rank {rank} (shape {got:?})"))
            }
            ModelError::InputExtent { input, axis, expected, got, dim: None } => {
                plain(format!("input `{input}`: axis {axis}: expected {expected}, got {got}"))
            }
            ModelError::InputExtent { input, axis, expected, got, dim: Some((dim, by)) } => plain(format!(
                "input `{input}`: axis {axis}: expected {expected}, got {got}: `{dim}` is {expected} in input `{by}`"
            )),
            ModelError::InputBound { input, axis, dim, expected, got } => plain(format!(
                "input `{input}`: axis {axis}: the model was compiled for `{dim}` in {expected}, got {got}"
            )),
            ModelError::UnknownOutput { name, outputs } => unknown("output", name, outputs),
            ModelError::OutputTaken { output } => plain(format!("output `{output}` was taken before")),
            ModelError::OutputKind { output, got } => {
                plain(format!("output `{output}`: expected a tensor, got {got}"))
                    .help("call the virtual machine (`vm()`) for results of other kinds")
            }
            ModelError::MadeUp { input } => {
                plain(format!("input `{input}`: an extent is computed from others"))
                    .help("run the model with inputs of your own to warm it up")
            }
        }]
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_diagnostics(&self.diagnostics(), f)
    }
}
