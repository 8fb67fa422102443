//! The text of the typed wrapper of a kernel. Names from the program appear in it only as identifiers, escaped literals and
//! escaped documentation.

use tvm_core::target::Target;
use tvm_runtime::abi::{ABI_VERSION, kernel_symbol};
use tvm_runtime::{DataType, DimSig, KernelSig, ParamKind, ParamSig};

use crate::gpu::EmbeddedGpu;
use crate::names::{Scope, camel, shown};
use crate::wrapper::option;

/// Inputs of the generation of a wrapper.
pub(crate) struct KernelWrapper<'a> {
    pub(crate) name: &'a str,
    pub(crate) library: &'a str,
    pub(crate) target: &'a Target,
    pub(crate) signature: &'a KernelSig,
    /// CPU features that the code needs.
    pub(crate) features: &'a [String],
    /// CPU level and prefix of the symbol of each unit; only a single unit has no level.
    pub(crate) units: &'a [(Option<String>, String)],
    pub(crate) gpu: Option<&'a EmbeddedGpu>,
}

impl KernelWrapper<'_> {
    /// Generates the wrapper; `rt` is the path of the runtime crate.
    pub(crate) fn text(&self, rt: &str) -> String {
        let sig = self.signature;
        let mut idents = Scope::with(&["self_"]);
        let idents: Vec<String> = sig.params.iter().map(|param| idents.fresh(&param.name)).collect();
        let types: String = sig.params.iter().map(|param| marker(param, rt) + ", ").collect();
        let params: String =
            sig.params.iter().zip(&idents).map(|(it, ident)| parameter(it, ident, rt)).collect();
        let described: String = sig.params.iter().map(|param| description(param, rt)).collect();
        let features: Vec<String> = self.features.iter().map(|it| format!("{it:?}")).collect();
        let symbol = kernel_symbol(&sig.name);
        let table = |(level, prefix): &(Option<String>, String)| {
            let level = option(level.as_deref());
            format!("                ({level}, {:?}, {prefix}_{symbol}),\n", sig.name)
        };
        let tables: String = self.units.iter().map(table).collect();
        let gpu = self.gpu.map_or_else(String::new, |gpu| format!("{:?}, []", gpu.file));
        let docs = format!("Kernel: `{}`.", shown(&sig.to_string()));
        format!(
            "// Made by tvm-build {version}; changes are lost.\n\n\
             #[doc = {docs:?}]\n\
             #[derive(Clone, Debug)]\n#[allow(clippy::type_complexity, reason = \"generated\")]\n\
             pub struct {ty} {{\n    \
             function: {rt}::CompiledFn<({types})>,\n    \
             linked: {rt}::LinkedKernel,\n\
             }}\n\n\
             #[allow(dead_code, clippy::too_many_arguments, clippy::needless_pass_by_value, clippy::type_complexity, reason = \"generated\")]\n\
             impl {ty} {{\n    \
             /// The code generator that made the kernel.\n    \
             pub const BACKEND: &'static str = {backend:?};\n    \
             /// What the kernel for the CPU was compiled for.\n    \
             pub const TARGET: &'static str = {target:?};\n    \
             /// The GPU architectures that there is a kernel for.\n    \
             pub const GPU_ARCHS: &'static [&'static str] = &[{gpu_archs}];\n\n    \
             /// Takes the kernel for the first GPU if there is one for it and this machine can use it, otherwise for the CPU level that this\n    \
             /// machine has.\n    \
             ///\n    \
             /// # Errors\n    \
             /// When the kernel was compiled for another version of the runtime, or for a CPU that this machine does not have, or is\n    \
             /// damaged, or there is one for GPUs and the runtime lacks the feature `cuda`.\n    \
             pub fn new() -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             {ty}::load(None, None)\n    \
             }}\n\n    \
             /// As `new`, for this device: `Device::cpu()` or `Device::cuda(0)`.\n    \
             ///\n    \
             /// # Errors\n    \
             /// As for `new`, and when there is no kernel for the device or this machine cannot use it.\n    \
             pub fn on(device: {rt}::Device) -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             {ty}::load(Some(device), None)\n    \
             }}\n\n    \
             /// As `new`, for one of the CPU levels that the kernel was compiled for; `None` is as `new`.\n    \
             ///\n    \
             /// # Errors\n    \
             /// As for `new`, and when there is no kernel for the level.\n    \
             pub fn with_cpu_level(level: Option<&str>) -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             {ty}::load(None, level)\n    \
             }}\n\n    \
             fn load(device: Option<{rt}::Device>, level: Option<&str>) -> Result<{ty}, {rt}::RuntimeError> {{\n        \
             let signature = {rt}::KernelSig {{\n            \
             name: {name:?}.into(),\n            \
             params: vec![\n\
             {described}            \
             ],\n        \
             }};\n        \
             let linked = {rt}::__linked_kernel! {{\n            \
             library: {library:?},\n            \
             abi: {ABI_VERSION},\n            \
             signature: signature,\n            \
             features: [{features}],\n            \
             device: device,\n            \
             level: level,\n            \
             tables: [\n\
             {tables}            \
             ],\n            \
             gpu: [{gpu}],\n        \
             }};\n        \
             let linked = linked?;\n        \
             Ok({ty} {{ function: {rt}::CompiledFn::new(linked.kernel.clone())?, linked }})\n    \
             }}\n\n    \
             #[doc = {call_docs:?}]\n    \
             pub fn call(&self{params}) -> Result<(), {rt}::RuntimeError> {{\n        \
             self.function.call({args})\n    \
             }}\n\n    \
             /// The function behind `call`; `with_pool` gives it a thread pool.\n    \
             pub fn function(&self) -> &{rt}::CompiledFn<({types})> {{\n        \
             &self.function\n    \
             }}\n\n    \
             /// The CPU level that was taken; `None` if there is one CPU only, or the kernel is for a GPU.\n    \
             pub fn cpu_level(&self) -> Option<&'static str> {{\n        \
             self.linked.level\n    \
             }}\n\n    \
             /// The device that calls run on whose tensors are on the host.\n    \
             pub fn device(&self) -> {rt}::Device {{\n        \
             self.linked.device()\n    \
             }}\n\n    \
             /// Why the CPU was taken although there is a kernel for GPUs; `None` if it was not, or was asked for.\n    \
             pub fn no_gpu(&self) -> Option<&{rt}::RuntimeError> {{\n        \
             self.linked.no_gpu.as_ref()\n    \
             }}\n\
             }}\n",
            version = env!("CARGO_PKG_VERSION"),
            ty = camel(self.name),
            backend = self.target.kind.name(),
            gpu_archs = EmbeddedGpu::archs_of(self.gpu),
            target = shown(&self.target.to_string()),
            name = sig.name,
            library = self.library,
            features = features.join(", "),
            call_docs = format!(
                "Runs `{}`.\n\n# Errors\nWhen an argument does not fit, naming it, or an assertion of the kernel fails.",
                shown(&sig.to_string())
            ),
            args = idents.join(", "),
        )
    }
}

fn element(dtype: DataType, rt: &str) -> String {
    match dtype {
        DataType::F16 | DataType::BF16 => format!("{rt}::half::{dtype}"),
        _ => dtype.to_string(),
    }
}

/// The type that marks the parameter in the type of a typed call.
fn marker(param: &ParamSig, rt: &str) -> String {
    let element = element(param.dtype, rt);
    match param.kind {
        ParamKind::In => format!("{rt}::In<{element}, {}>", param.shape.len()),
        ParamKind::Out => format!("{rt}::Out<{element}, {}>", param.shape.len()),
        ParamKind::Scalar => element,
    }
}

/// The parameter of the method `call`.
fn parameter(param: &ParamSig, ident: &str, rt: &str) -> String {
    match param.kind {
        ParamKind::In | ParamKind::Out => format!(", {ident}: impl {rt}::TypedArg<{}>", marker(param, rt)),
        ParamKind::Scalar => format!(", {ident}: {}", marker(param, rt)),
    }
}

/// The expression that describes the parameter.
fn description(param: &ParamSig, rt: &str) -> String {
    let kind = match param.kind {
        ParamKind::In => "In",
        ParamKind::Out => "Out",
        ParamKind::Scalar => "Scalar",
    };
    let dim = |dim: &DimSig| match dim {
        DimSig::Const(extent) => format!("{rt}::DimSig::Const({extent})"),
        DimSig::Var(name) => format!("{rt}::DimSig::Var({name:?}.into())"),
        DimSig::Expr(text) => format!("{rt}::DimSig::Expr({text:?}.into())"),
    };
    let shape: Vec<String> = param.shape.iter().map(dim).collect();
    format!(
        "                {rt}::ParamSig {{ name: {:?}.into(), kind: {rt}::ParamKind::{kind}, dtype: <{} as \
         {rt}::Element>::DTYPE, shape: vec![{}] }},\n",
        param.name,
        element(param.dtype, rt),
        shape.join(", ")
    )
}
