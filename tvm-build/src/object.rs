//! Compilation of lowered kernels to a static library.

use std::path::Path;

use tvm_codegen::c::load::compile_flags;
use tvm_codegen::{CodegenError, EmitKind, KernelUnit, Options, emit_parts};
use tvm_core::target::TargetKind;

use crate::{BuildError, BuildItem, names};

/// Compiles each of `units`, which are for one triple, to an object and archives them as library `name` in `dir`.
pub(crate) fn library(
    item: &BuildItem,
    name: &str,
    units: &[KernelUnit],
    dir: &Path,
) -> Result<(), BuildError> {
    let triple = units.first().and_then(|unit| unit.target.triple.as_deref()).unwrap_or_default();
    let codegen = |err: CodegenError| BuildError::Codegen { item: item.clone(), source: err.into() };
    let failed = |err: cc::Error| BuildError::Compiler {
        item: item.clone(),
        target: triple.to_string(),
        message: err.to_string(),
    };
    let new = || {
        let mut build = cc::Build::new();
        build.target(triple).host(env!("TVM_BUILD_TARGET")).out_dir(dir);
        build.cargo_metadata(false).cargo_warnings(false).opt_level(3).debug(false).warnings(false);
        build
    };
    let mut archive = new();
    for KernelUnit { level, target, kernels } in units {
        let stem = level.as_deref().map_or_else(|| name.to_string(), |level| names::of_level(name, level));
        let write = |extension: &str, parts: &[Vec<u8>]| {
            let files = parts.iter().enumerate().map(|(i, bytes)| {
                let part = if i == 0 { String::new() } else { format!(".{i}") };
                let path = dir.join(format!("{stem}{part}.{extension}"));
                crate::settings::write(&path, bytes).map(|()| path)
            });
            files.collect::<Result<Vec<_>, _>>()
        };
        if target.kind == TargetKind::Llvm {
            let objects = emit_parts(kernels, target, EmitKind::Object).map_err(codegen)?;
            archive.objects(write("o", &objects)?);
            continue;
        }
        let mut build = new();
        let sources = emit_parts(kernels, target, EmitKind::C).map_err(codegen)?;
        let tool = build.try_get_compiler().map_err(failed)?;
        if let Some(message) = unfit(&tool, triple) {
            let (item, target) = (item.clone(), triple.to_string());
            return Err(BuildError::Compiler { item, target, message });
        }
        for flag in compile_flags(target, Options::current(), tool.is_like_clang()) {
            build.flag(flag);
        }
        build.files(write("c", &sources)?);
        archive.objects(build.try_compile_intermediates().map_err(failed)?);
    }
    archive.try_compile(name).map_err(failed)
}

/// The reason why the C compiler that was found cannot compile for `triple`; `None` if it can. For unknown triples, the
/// `cc` crate falls back to the compiler of the host.
fn unfit(tool: &cc::Tool, triple: &str) -> Option<String> {
    let path = tool.path().display();
    if tool.is_like_msvc() {
        return Some(format!(
            "{path} does not know the vector extensions of gcc and clang\n  help: set CC to gcc or clang, or turn on the feature `llvm` of tvm-build"
        ));
    }
    if tool.is_like_clang() {
        return None;
    }
    let output = tool.to_command().arg("-dumpmachine").output().ok()?;
    let machine = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let variable = triple.replace('-', "_");
    (!machine.is_empty() && family(&machine) != family(triple)).then(|| {
        format!("{path} compiles for {machine}\n  help: name a cross compiler by CC_{variable}, or turn on the feature `llvm` of tvm-build")
    })
}

/// The processor family of a triple: the shortest prefix that distinguishes families.
fn family(triple: &str) -> &str {
    let is_x86 = ["i386", "i486", "i586", "i686", "x86_64"].iter().any(|it| triple.starts_with(it));
    if is_x86 { "x86" } else { triple.get(..3).unwrap_or(triple) }
}
