//! Checks that printed schedules compile to the programs that were printed.
//!
//! `PrimFunc::source` must refuse a program that the DSL cannot express. The long form compiles what is printed, many
//! programs in one crate; the short form only prints (the test `roundtrip` compiles a fixed corpus).

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use tvm::ir::IRModule;
use tvm::ir::json::to_json;
use tvm::tir::PrimFunc;
use tvm::tir::schedule::Schedule;
use tvm_testing::{Budget, Rng};

use crate::kernels;
use crate::steps::{Handles, step};

/// Number of programs in one crate.
const BATCH: usize = 120;

/// Program that compares compiled with printed programs; regions are ignored, because compiling source derives them.
const MAIN: &str = r##"
use std::sync::Arc;
use tvm::ir::{BaseFunc, IRModule, IrError, json, structural_equal};
use tvm::tir::{Block, Mutator, PrimFunc};

struct NoRegions;

impl Mutator for NoRegions {
    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        let block = self.walk_block(block).unwrap_or_else(|| (**block).clone());
        Some(Block { reads: [].into(), writes: [].into(), ..block })
    }
}

fn bare(func: &PrimFunc) -> PrimFunc {
    let body = NoRegions.mutate_stmt(&func.body).unwrap_or_else(|| func.body.clone());
    PrimFunc { body, ..func.clone() }
}

fn main() {
    let mut wrong = 0;
    for (i, (got, text)) in all().into_iter().enumerate() {
        let module: IRModule = json::from_json(text).expect("a module");
        let Some((_, BaseFunc::Prim(want))) = module.functions().next() else { panic!("no program") };
        let why = match got {
            Err(err) => Some(err.to_string()),
            Ok(got) => structural_equal(&bare(want), &bare(&got)).err().map(|it| it.to_string()),
        };
        if let Some(why) = why {
            wrong += 1;
            println!("program {i}: {why}\n{want}");
        }
    }
    assert_eq!(wrong, 0, "{wrong} programs are others");
}
"##;

/// Applies a random schedule to a random kernel.
fn scheduled(seed: u64, kernels: &[&'static kernels::Kernel]) -> PrimFunc {
    let mut rng = Rng::new(seed);
    let func = (rng.pick(kernels).build)().unwrap_or_else(|err| panic!("{err}"));
    let mut s = Schedule::new(func).unwrap_or_else(|err| panic!("{err}"));
    let mut handles = Handles::default();
    for _ in 0..rng.range(1, 12) {
        step(&mut s, &mut handles, rng.next());
    }
    s.into_func()
}

/// Compiles `programs`, each with its seed, and runs the comparison.
fn compile(programs: &[(u64, PrimFunc, String)]) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("roundtrip");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir_all(dir.join("src")).expect("a directory");
    let manifest = format!(
        "[package]\nname = \"roundtrip\"\nversion = \"0.0.0\"\nedition = \"2024\"\npublish = false\n\n[dependencies]\n\
         tvm = {{ path = {root:?} }}\n\n[profile.dev]\ndebug = false\n\n[workspace]\n"
    );
    let mut main = format!("#![allow(warnings, reason = \"printed code\")]\n{MAIN}");
    let mut all = String::new();
    for (i, (_, func, source)) in programs.iter().enumerate() {
        let name = &func.name;
        let get =
            format!("pub(crate) fn get() -> Result<tvm::tir::PrimFunc, IrError> {{ {name}::prim_func() }}");
        let _ = write!(main, "\nmod p{i} {{\nuse tvm::prelude::*;\n{get}\n{source}\n}}\n");
        let json = to_json(&IRModule::from_prim_func(func.clone())).expect("JSON");
        std::fs::write(dir.join(format!("src/p{i}.json")), json).expect("a file");
        let _ = writeln!(all, "(p{i}::get(), include_str!(\"p{i}.json\")),");
    }
    let _ =
        write!(main, "\nfn all() -> Vec<(Result<PrimFunc, IrError>, &'static str)> {{\nvec![{all}]\n}}\n");
    std::fs::write(dir.join("Cargo.toml"), manifest).expect("a file");
    std::fs::write(dir.join("src/main.rs"), main).expect("a file");
    std::fs::copy(root.join("Cargo.lock"), dir.join("Cargo.lock")).expect("the lock file");
    let run = Command::new(env!("CARGO"))
        .args(["run", "--offline", "--quiet"])
        .current_dir(&dir)
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .expect("cargo runs");
    let seeds: Vec<u64> = programs.iter().map(|(seed, ..)| *seed).collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&run.stdout), text(&run.stderr));
    assert!(run.status.success(), "{}, seeds {seeds:?}\n{out}\n{err}", dir.display());
}

#[test]
fn fuzz_roundtrip() {
    let long = ["TVM_FUZZ_SECONDS", "TVM_FUZZ_CASES"].iter().any(|name| std::env::var_os(name).is_some());
    let kernels: Vec<&'static kernels::Kernel> = kernels::all().collect();
    let (mut said, mut refused, mut compiled) = (0, Vec::new(), 0);
    let mut batch = Vec::new();
    for seed in Budget::new("roundtrip", 60) {
        let func = scheduled(seed, &kernels);
        match func.source() {
            Ok(source) => {
                said += 1;
                batch.push((seed, func, source));
            }
            Err(err) => refused.push(format!("seed {seed}: {err}")),
        }
        if long && batch.len() == BATCH {
            compile(&batch);
            compiled += batch.len();
            batch.clear();
        }
    }
    if long && !batch.is_empty() {
        compile(&batch);
        compiled += batch.len();
    }
    println!(
        "roundtrip: {said} programs have source, {compiled} of them compiled, {} refused",
        refused.len()
    );
    // The only result of schedules without a form in source: an `if` over memory is always a separate block.
    let known = |it: &&String| it.contains("the predicate of block `") && it.contains("which reads memory");
    let unknown: Vec<&String> = refused.iter().filter(|it| !known(it)).collect();
    assert!(unknown.is_empty(), "schedules make what has no source: {unknown:#?}");
    assert!(
        refused.len() * 10 <= said,
        "{} of {} programs have no source",
        refused.len(),
        said + refused.len()
    );
}
