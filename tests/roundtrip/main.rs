//! The printer's output is source of the DSL. `tests/generated/kernels.rs` contains the printed programs of the corpus,
//! `tests/generated/graphs.rs` the printed modules. Compiling these files yields programs and modules that are
//! structurally equal to the corpus.
//!
//! `UPDATE_EXPECT=1 cargo test --test roundtrip` rewrites the files.

mod corpus;
mod digits;
mod graphs;
mod scheduled;
#[path = "../generated/graphs.rs"]
#[rustfmt::skip]
mod generated_graphs;
#[path = "../generated/kernels.rs"]
#[rustfmt::skip]
mod generated;

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect_file;
use tvm::ir::{BaseFunc, IRModule, structural_equal};
use tvm::prelude::*;
use tvm::relax::{BindingBlock, Body};
use tvm::tir::{Block, Mutator, PrimFunc};

const HEADER: &str = "//! Printed tensor programs of the round-trip test; written by `UPDATE_EXPECT=1 cargo test --test roundtrip`.
#![allow(warnings, clippy::all, reason = \"printed code\")]

use tvm::prelude::*;
";

#[test]
fn the_corpus_is_up_to_date() {
    let programs = all_programs();
    let mut text = HEADER.to_string();
    for func in &programs {
        let _ = write!(text, "\n{func}\n");
    }
    text.push_str("\n/// All programs in order.\npub(crate) fn all() -> Vec<Result<tvm::tir::PrimFunc, IrError>> {\n    vec![\n");
    for func in &programs {
        let name = if &*func.name == "self" { "self_" } else { &func.name };
        let _ = writeln!(text, "        {name}::prim_func(),");
    }
    text.push_str("    ]\n}\n");
    expect_file!["../generated/kernels.rs"].assert_eq(&text);
}

#[test]
fn compiling_what_is_printed_gives_the_same_programs() {
    let (programs, compiled) = (all_programs(), generated::all());
    assert_eq!(programs.len(), compiled.len());
    let mut failures = Vec::new();
    for (program, compiled) in programs.iter().zip(compiled) {
        let compiled = compiled.unwrap_or_else(|err| panic!("{}: {err}", program.name));
        let mut equal = structural_equal(program, &compiled);
        if equal.as_ref().is_err_and(|it| it.path.contains(".reads[") || it.path.contains(".writes[")) {
            // Compiling the source derives the regions; the derived ones may be written differently.
            equal = structural_equal(&without_regions(program), &without_regions(&compiled));
        }
        if let Err(mismatch) = equal {
            failures.push(format!("{}: {mismatch}", program.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn all_programs() -> Vec<PrimFunc> {
    corpus::programs().into_iter().chain(scheduled::programs()).collect()
}

fn without_regions(func: &PrimFunc) -> PrimFunc {
    with_blocks(func, |block| Block { reads: [].into(), writes: [].into(), ..block })
}

fn with_blocks(func: &PrimFunc, change: fn(Block) -> Block) -> PrimFunc {
    struct Change(fn(Block) -> Block);
    impl Mutator for Change {
        fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
            Some((self.0)(self.walk_block(block).unwrap_or_else(|| (**block).clone())))
        }
    }
    let body = Change(change).mutate_stmt(&func.body).unwrap_or_else(|| func.body.clone());
    PrimFunc { body, ..func.clone() }
}

/// A kernel with a scalar before an input: a call passes inputs first.
#[prim_func]
fn axpy(x: &Tensor<f32, n>, a: f32, y: &Tensor<f32, n>, z: &mut Tensor<f32, n>) {
    for i in 0..n {
        z[[i]] = a * x[[i]] + y[[i]];
    }
}

#[prim_func]
fn split(x: &Tensor<f32, n>, low: &mut Tensor<f32, n>, high: &mut Tensor<f32, n>) {
    for i in 0..n {
        low[[i]] = min(x[[i]], 0.0);
        high[[i]] = max(x[[i]], 0.0);
    }
}

const GRAPHS: &str =
    "//! Printed modules of the round-trip test; written by `UPDATE_EXPECT=1 cargo test --test roundtrip`.
#![allow(warnings, clippy::all, reason = \"printed code\")]

use tvm::prelude::*;
";

#[test]
fn the_printed_modules_are_up_to_date() {
    let modules = graphs::modules();
    let mut text = GRAPHS.to_string();
    for (name, module) in &modules {
        let _ = write!(text, "\n{}", module.source(name));
    }
    text.push_str("\n/// All modules in order.\npub(crate) fn all() -> Vec<Result<tvm::ir::IRModule, IrError>> {\n    vec![\n");
    for (name, _) in &modules {
        let _ = writeln!(text, "        {name}::module(),");
    }
    text.push_str("    ]\n}\n");
    expect_file!["../generated/graphs.rs"].assert_eq(&text);
}

#[test]
fn compiling_what_is_printed_gives_the_same_modules() {
    let (modules, compiled) = (graphs::modules(), generated_graphs::all());
    assert_eq!(modules.len(), compiled.len());
    let mut failures = Vec::new();
    for ((name, module), compiled) in modules.iter().zip(compiled) {
        match compiled {
            Err(err) => failures.push(format!("{name}: {err}")),
            Ok(compiled) => {
                if let Err(mismatch) = structural_equal(&sayable_module(module), &sayable_module(&compiled)) {
                    failures.push(format!("{name}: {mismatch}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Normalises a module to what the source expresses: consecutive bindings outside dataflow blocks form one block, and
/// regions are derived.
fn sayable_module(module: &IRModule) -> IRModule {
    struct OneBlock;
    impl tvm::relax::ExprMutator for OneBlock {
        fn mutate_body(&mut self, body: &Body) -> Option<Body> {
            let body = tvm::relax::mutator::walk_body(self, body).unwrap_or_else(|| body.clone());
            let mut blocks: Vec<BindingBlock> = Vec::new();
            for block in body.blocks.iter().filter(|block| !block.bindings.is_empty()) {
                match blocks.last_mut() {
                    Some(last) if !last.dataflow && !block.dataflow => {
                        last.bindings = last.bindings.iter().chain(block.bindings.iter()).cloned().collect();
                    }
                    _ => blocks.push(block.clone()),
                }
            }
            Some(Body { blocks: blocks.into(), ret: body.ret })
        }
    }
    let mut said = module.clone();
    for (gv, func) in module.functions() {
        let func = match func {
            BaseFunc::Relax(func) => {
                let func = tvm::relax::ExprMutator::mutate_function(&mut OneBlock, func);
                func.map(|it| BaseFunc::Relax(it.into()))
            }
            BaseFunc::Prim(func) => Some(BaseFunc::Prim(without_regions(func).into())),
            BaseFunc::Extern(_) => None,
        };
        if let Some(func) = func {
            said.update(gv.clone(), func);
        }
    }
    said
}
