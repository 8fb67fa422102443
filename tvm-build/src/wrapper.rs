//! The text of the typed wrapper. It has fewer than 300 lines for every model. Names from the model appear in it only
//! as identifiers, escaped literals and escaped documentation.

use std::fmt::Write as _;

use tvm_codegen::Io;
use tvm_core::target::Target;
use tvm_runtime::abi::{ABI_VERSION, kernel_symbol};
use tvm_runtime::vm::{Executable, ValueType, VmFunction};
use tvm_runtime::{DataType, DimSig, KernelSig};

use crate::gpu::EmbeddedGpu;
use crate::names::{Scope, camel, shown};

/// Maximum number of lines of a list.
const MAX_LINES: usize = 40;

/// Inputs of the generation of a wrapper.
pub(crate) struct Wrapper<'a> {
    pub(crate) name: &'a str,
    /// CPU level and prefix of the kernel symbols of each unit; only a single unit has no level.
    pub(crate) units: &'a [(Option<String>, String)],
    pub(crate) library: &'a str,
    pub(crate) target: &'a Target,
    pub(crate) exe: &'a Executable,
    pub(crate) gpu: Option<&'a EmbeddedGpu>,
    /// The file that the module was imported from.
    pub(crate) origin: Option<&'a str>,
    pub(crate) io: &'a Io,
}

/// An input or output of an entry point.
struct Port<'a> {
    ident: String,
    name: String,
    ty: &'a ValueType,
}

impl Port<'_> {
    /// Element type and extents, if everything that a static type needs is known.
    fn tensor(&self) -> Option<(DataType, &[DimSig])> {
        match self.ty {
            ValueType::Tensor { dtype: Some(dtype), shape: Some(shape) } if shape.len() <= 6 => {
                Some((*dtype, shape))
            }
            _ => None,
        }
    }

    /// The generic arguments of the Rust type: element type and rank.
    fn generics(&self, rt: &str) -> Option<String> {
        let (dtype, shape) = self.tensor()?;
        let path = if matches!(dtype, DataType::F16 | DataType::BF16) {
            format!("{rt}::half::")
        } else {
            String::new()
        };
        Some(format!("{path}{dtype}, {}", shape.len()))
    }

    fn doc(&self) -> String {
        format!("`{}`: `{}`", shown(&self.name), shown(&self.ty.to_string()))
    }
}

impl Wrapper<'_> {
    /// Generates the wrapper; `rt` is the path of the runtime crate.
    pub(crate) fn text(&self, rt: &str) -> String {
        let ty = camel(self.name);
        let entries: Vec<&VmFunction> = self.exe.functions.iter().filter(|func| func.public).collect();
        let mut types = String::new();
        let mut body = String::new();
        let mut consts = Scope::with(&["backend", "target", "gpu_archs"]);
        let mut methods = Scope::with(&["new", "on", "with_config", "on_with_config", "load", "model"]);
        self.bounds(&mut body, &mut consts);
        for func in &entries {
            self.entry(&mut body, &mut types, &mut consts, &mut methods, func, rt);
        }
        let origin = self.origin.unwrap_or("a module");
        let backend = self.target.kind.name();
        let target = shown(&self.target.to_string());
        let version = env!("CARGO_PKG_VERSION");
        let (tables, gpu) = (self.tables(), self.gpu());
        let gpu_archs = EmbeddedGpu::archs_of(self.gpu);
        format!(
            "// Made by tvm-build {version}; changes are lost.\n\n\
             /// The model `{name}`, compiled from `{origin}` for `{target}`.\n\
             #[derive(Debug)]\n\
             pub struct {ty}({rt}::LinkedModel);\n\n\
             #[allow(dead_code, clippy::too_many_arguments, clippy::needless_pass_by_value, reason = \"generated\")]\n\
             impl {ty} {{\n    \
             /// The code generator that made the kernels.\n    \
             pub const BACKEND: &'static str = {backend:?};\n    \
             /// What the kernels for the CPU were compiled for.\n    \
             pub const TARGET: &'static str = {target:?};\n    \
             /// The GPU architectures that there are kernels for.\n    \
             pub const GPU_ARCHS: &'static [&'static str] = &[{gpu_archs}];\n{body}\n    \
             /// Checks the program and its versions, and makes it ready to run: on the first GPU if there are kernels for it and this\n    \
             /// machine can use it, otherwise on the CPU.\n    \
             ///\n    \
             /// # Errors\n    \
             /// When it was compiled for another version of the runtime, or is damaged, or has kernels for GPUs and the runtime lacks the\n    \
             /// feature `cuda`.\n    \
             pub fn new() -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             {ty}::load(None, {rt}::vm::VmConfig::default())\n    \
             }}\n\n    \
             /// As `new`, on this device: `Device::cpu()` or `Device::cuda(0)`.\n    \
             ///\n    \
             /// # Errors\n    \
             /// As for `new`, and when there are no kernels for the device or this machine cannot use it.\n    \
             pub fn on(device: {rt}::Device) -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             {ty}::load(Some(device), {rt}::vm::VmConfig::default())\n    \
             }}\n\n    \
             /// As `new`, with limits or a thread pool. A CPU level in `config` asks for the CPU.\n    \
             ///\n    \
             /// # Errors\n    \
             /// As for `new`.\n    \
             pub fn with_config(config: {rt}::vm::VmConfig) -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             {ty}::load(None, config)\n    \
             }}\n\n    \
             /// As `on`, with limits or a thread pool.\n    \
             ///\n    \
             /// # Errors\n    \
             /// As for `on`.\n    \
             pub fn on_with_config(device: {rt}::Device, config: {rt}::vm::VmConfig) -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             {ty}::load(Some(device), config)\n    \
             }}\n\n    \
             fn load(device: Option<{rt}::Device>, config: {rt}::vm::VmConfig) -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             let model = {rt}::__linked_model! {{\n            \
             artifact: \"{name}.tvm\",\n            \
             library: {library:?},\n            \
             abi: {ABI_VERSION},\n            \
             device: device,\n            \
             config: config,\n\
             {tables}\
             {gpu}        \
             }};\n        \
             Ok({ty}(model?))\n    \
             }}\n\n    \
             /// The program behind the methods, and the device that it runs on.\n    \
             pub fn model(&self) -> &{rt}::LinkedModel {{\n        \
             &self.0\n    \
             }}\n\
             }}\n{types}",
            name = self.name,
            origin = shown(origin),
            library = self.library,
        )
    }

    /// The list of the kernels for each CPU level; a single list has no level.
    fn tables(&self) -> String {
        let max_lines = MAX_LINES / self.units.len().max(1);
        let table = |(level, prefix): &(Option<String>, String)| {
            let entry = |sig: &KernelSig| format!("({:?}, {prefix}_{})", sig.name, kernel_symbol(&sig.name));
            let entries: Vec<_> = self.exe.kernels.iter().map(entry).collect();
            let list = lines(&entries, "                    ", max_lines);
            format!("                ({}, [\n{list}                ]),\n", option(level.as_deref()))
        };
        let tables: String = self.units.iter().map(table).collect();
        format!("            tables: [\n{tables}            ],\n")
    }

    /// The artifact for GPUs, and its kernels that run on the host.
    fn gpu(&self) -> String {
        let Some(gpu) = self.gpu else { return "            gpu: [],\n".into() };
        let entries: Vec<_> =
            gpu.on_host.iter().map(|(name, symbol)| format!("({name:?}, {symbol})")).collect();
        let list = lines(&entries, "                ", MAX_LINES);
        format!("            gpu: [{:?}, [\n{list}            ]],\n", gpu.file)
    }

    fn bounds(&self, out: &mut String, consts: &mut Scope) {
        let mut items = Vec::new();
        for (name, bound) in &self.io.bounds {
            let ident = consts.fresh(name).to_uppercase();
            let doc = format!("Bounds of dimension `{}`: {bound}.", shown(name));
            let (low, high) = (bound.min(), bound.max().unwrap_or(i64::MAX));
            items.push(format!(
                "#[doc = {doc:?}] pub const {ident}: std::ops::RangeInclusive<i64> = {low}..={high};"
            ));
        }
        out.push_str(&packed(&items, "    ", " "));
    }

    fn entry(
        &self,
        body: &mut String,
        types: &mut String,
        consts: &mut Scope,
        methods: &mut Scope,
        func: &VmFunction,
        rt: &str,
    ) {
        let own = if &*func.name == "main" { "run" } else { &*func.name };
        let method = methods.fresh(own);
        let prefix = if method == "run" { String::new() } else { format!("{method}_") };
        let output = format!("{}{}Output", camel(self.name), camel(&prefix));
        let (inputs, outputs) = self.ports(func);

        let shapes: Vec<String> =
            inputs.iter().chain(&outputs).filter_map(|port| shape_const(port, &prefix, consts)).collect();
        body.push_str(&packed(&shapes, "    ", " "));
        let docs = entry_docs(func, &inputs, &outputs);
        let param = |port: &Port<'_>| match port.generics(rt) {
            Some(generics) => format!(", {}: impl {rt}::ModelInput<{generics}>", port.ident),
            None => format!(", {}: impl Into<{rt}::Value>", port.ident),
        };
        let pass = |port: &Port<'_>| match port.generics(rt) {
            Some(generics) => format!(".input::<{generics}>({})?", port.ident),
            None => format!(".value({})", port.ident),
        };
        let take = |port: &Port<'_>| match port.generics(rt) {
            Some(_) => format!("{}: outputs.typed()?", port.ident),
            None => format!("{}: outputs.value()?", port.ident),
        };
        let field = |port: &Port<'_>| {
            let ty = match port.generics(rt) {
                Some(generics) => format!("{rt}::TypedTensor<{generics}>"),
                None => format!("{rt}::Value"),
            };
            format!("#[doc = {:?}] pub {}: {ty},", format!("Output {}.", port.doc()), port.ident)
        };
        let params: String = inputs.iter().map(param).collect();
        let passes: String = inputs.iter().map(pass).collect();
        let takes: Vec<String> = outputs.iter().map(take).collect();
        let fields: Vec<String> = outputs.iter().map(field).collect();
        let _ = write!(
            body,
            "\n    #[doc = {docs:?}]\n    \
             pub fn {method}(&self{params}) -> Result<{output}, {rt}::RuntimeError> {{\n        \
             let mut outputs = self.0.call({:?})?{passes}.run()?;\n        \
             Ok({output} {{ {} }})\n    \
             }}\n",
            &*func.name,
            takes.join(", "),
        );
        let _ = write!(
            types,
            "\n/// What `{method}` of [`{}`] gives.\n\
             #[derive(Clone, Debug)]\n\
             #[allow(dead_code, reason = \"generated\")]\n\
             pub struct {output} {{\n{}}}\n",
            camel(self.name),
            packed(&fields, "    ", " "),
        );
    }

    fn ports<'f>(&self, func: &'f VmFunction) -> (Vec<Port<'f>>, Vec<Port<'f>>) {
        let rets: Vec<&ValueType> = match &func.ret {
            ValueType::Tuple(fields) => fields.iter().collect(),
            ret => vec![ret],
        };
        let io = self.io.function(&func.name);
        let given = |output, index: usize| {
            let name = io.and_then(|io| if output { io.outputs.get(index) } else { io.inputs.get(index) });
            name.filter(|name| !name.is_empty()).cloned()
        };
        let mut idents = Scope::with(&["self_", "outputs"]);
        let input = |(index, param): (usize, &'f tvm_runtime::vm::VmParam)| {
            let name = given(false, index).unwrap_or_else(|| param.name.clone());
            Port { ident: idents.fresh(&name), name, ty: &param.ty }
        };
        let inputs = func.params.iter().enumerate().map(input).collect();
        let mut idents = Scope::default();
        let only = rets.len() == 1;
        let output = |(index, ty): (usize, &'f ValueType)| {
            let unnamed = || if only { "output".to_string() } else { format!("output_{index}") };
            let name = given(true, index).unwrap_or_else(unnamed);
            Port { ident: idents.fresh(&name), name, ty }
        };
        (inputs, rets.into_iter().enumerate().map(output).collect())
    }
}

/// The text of the expression for `level`.
pub(crate) fn option(level: Option<&str>) -> String {
    level.map_or_else(|| "None".into(), |level| format!("Some({level:?})"))
}

/// Formats `items`, each followed by a comma, on at most `max_lines` lines.
fn lines(items: &[String], indent: &str, max_lines: usize) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("{item},")).collect();
    packed_on(&items, indent, " ", max_lines)
}

/// Formats `items` on at most [`MAX_LINES`] lines.
fn packed(items: &[String], indent: &str, between: &str) -> String {
    packed_on(items, indent, between, MAX_LINES)
}

fn packed_on(items: &[String], indent: &str, between: &str, max_lines: usize) -> String {
    let per_line = items.len().div_ceil(max_lines).max(1);
    items.chunks(per_line).map(|chunk| format!("{indent}{}\n", chunk.join(between))).collect()
}

/// Declares the constant with the shape of `port`, if it is a tensor.
fn shape_const(port: &Port<'_>, prefix: &str, consts: &mut Scope) -> Option<String> {
    let (_, dims) = port.tensor()?;
    let ident = consts.fresh(&format!("{prefix}{}_shape", port.ident)).to_uppercase();
    let extent = |dim: &DimSig| dim.as_const().map_or("None".into(), |extent| format!("Some({extent})"));
    let extents: Vec<String> = dims.iter().map(extent).collect();
    let doc = format!("Shape of {}; `None` is symbolic.", port.doc());
    Some(format!(
        "#[doc = {doc:?}] pub const {ident}: [Option<i64>; {}] = [{}];",
        dims.len(),
        extents.join(", ")
    ))
}

/// Documentation of the method that runs `func`.
fn entry_docs(func: &VmFunction, inputs: &[Port<'_>], outputs: &[Port<'_>]) -> String {
    let mut docs = vec![format!("Entry point `{}`.", shown(&func.name)), String::new()];
    docs.extend(inputs.iter().map(|port| format!("- input {}", port.doc())));
    docs.extend(outputs.iter().map(|port| format!("- output {}", port.doc())));
    docs.extend(
        ["", "# Errors", "When an argument does not fit, naming it, or the program fails."].map(String::from),
    );
    docs.join("\n")
}
