//! The printer's output is source of the DSL: `tests/generated/kernels.rs` is what the programs of the corpus print as,
//! and compiling it gives programs structurally equal to them.
//!
//! `UPDATE_EXPECT=1 cargo test --test roundtrip` writes the file.

mod corpus;
#[path = "../generated/kernels.rs"]
#[rustfmt::skip]
mod generated;

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::expect_file;
use tvm::ir::{Attrs, structural_equal};
use tvm::tir::{Block, Mutator, PrimFunc};

const HEADER: &str = "//! Printed tensor programs of the round-trip test; written by `UPDATE_EXPECT=1 cargo test --test roundtrip`.
#![allow(warnings, clippy::all, reason = \"printed code\")]

use tvm::prelude::*;
";

#[test]
fn the_corpus_is_up_to_date() {
    let programs = corpus::programs();
    let mut text = HEADER.to_string();
    for func in &programs {
        let _ = write!(text, "\n{func}\n");
    }
    text.push_str("\n/// All programs in order.\npub(crate) fn all() -> Vec<Result<tvm::tir::PrimFunc, IrError>> {\n    vec![\n");
    for func in &programs {
        let _ = writeln!(text, "        {}::prim_func(),", func.name);
    }
    text.push_str("    ]\n}\n");
    expect_file!["../generated/kernels.rs"].assert_eq(&text);
}

#[test]
fn compiling_what_is_printed_gives_the_same_programs() {
    let (programs, compiled) = (corpus::programs(), generated::all());
    assert_eq!(programs.len(), compiled.len());
    let mut failures = Vec::new();
    for (program, compiled) in programs.iter().zip(compiled) {
        let compiled = compiled.unwrap_or_else(|err| panic!("{}: {err}", program.name));
        let (program_said, compiled) = (sayable(program), sayable(&compiled));
        let mut equal = structural_equal(&program_said, &compiled);
        if equal.as_ref().is_err_and(|it| it.path.contains(".reads[") || it.path.contains(".writes[")) {
            // Regions are derived when the source is compiled; another derivation may write them differently.
            equal = structural_equal(&without_regions(&program_said), &without_regions(&compiled));
        }
        if let Err(mismatch) = equal {
            failures.push(format!("{}: {mismatch}", program.name));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What the source says: attributes and annotations are not part of it, they are printed as comments.
fn sayable(func: &PrimFunc) -> PrimFunc {
    let func = with_blocks(func, |block| Block { annotations: Attrs::new(), ..block });
    PrimFunc { attrs: Attrs::new(), ..func }
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
