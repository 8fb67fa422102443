//! `cargo xtask test | ci | bless`: lists of cargo commands, ordered so that a mistake is found early.
//!
//! There are few feature sets on purpose, because each of them compiles packages again: `rayon`, `cuda` (a test of a GPU brings a driver
//! that runs kernels on the CPU) and `llvm` together, for all packages at once: with fewer of them, Cargo chooses other features for
//! what they share. Without `llvm`, only the tests of what is different then run, and those of `tvm-runtime` run without features as
//! well. Programs and examples are built beside the tests, so that they share libraries, and are started afterwards.
//!
//! Tests spend most of their time in the compiler's passes and in the interpreter, so the libraries of these are optimised a
//! little (`xtask/tests.toml`). That takes too long to build for everyday work.

use std::process::Command;

use crate::setup;
use crate::step::{Steps, run, target_dir, workspace_root};

/// How tests are compiled, in place of Cargo's defaults.
const PROFILE: [&str; 2] = ["--config", "xtask/tests.toml"];

/// What tests are built with. They load LLVM's shared library: so the many test programs are small and linked soon.
const FEATURES: &str = "rayon,cuda,llvm,llvm-dynamic";

/// Tests of models, graphs, build scripts and programs for the default target, which is C without LLVM, and of what is refused then.
const WITHOUT_LLVM: [&str; 7] = ["app", "cli", "compile_module", "cpu_levels", "graph", "kernels", "model"];

/// Programs that are run, of packages that have no integration tests, for which Cargo would build them.
const PROGRAMS: [&str; 3] = ["voice_activity", "file_type", "semantic_search"];

/// Runs all tests.
///
/// # Errors
/// The error of the first step that fails.
pub(crate) fn test() -> Result<(), String> {
    let mut steps = Steps::new();
    set_up(&mut steps)?;
    tests(&mut steps)?;
    steps.summary();
    Ok(())
}

/// Runs everything that CI checks.
///
/// # Errors
/// The error of the first step that fails.
pub(crate) fn ci() -> Result<(), String> {
    let mut steps = Steps::new();
    steps.cargo("format", &[], &["fmt", "--all", "--check"])?;
    steps.run("tidy", "tests/tidy", tidy)?;
    set_up(&mut steps)?;
    // What depends on the absence of a feature is in libraries, and all of them belong to the façade.
    let deny = ["--", "-D", "warnings"];
    let facade = ["clippy", "-p", "tvm", "--no-default-features"];
    steps.cargo("façade, no features", &[], &with(&facade, &deny))?;
    let features = ["--workspace", "--all-targets", "--features", FEATURES];
    steps.cargo("clippy, all features", &[], &with(&with(&["clippy"], &features), &deny))?;
    let rustdoc = [("RUSTDOCFLAGS", "-D warnings")];
    // With the features of clippy, so that packages from outside are checked once.
    let docs = ["doc", "--workspace", "--no-deps", "--features", FEATURES];
    steps.cargo("docs", &rustdoc, &docs)?;
    tests(&mut steps)?;
    steps.summary();
    Ok(())
}

/// Runs the tests of `tests/tidy` alone. They need the standard library only, so rustc builds them in a second;
/// `cargo test` runs them as well.
///
/// # Errors
/// When they do not compile or one fails.
pub(crate) fn tidy() -> Result<(), String> {
    let root = workspace_root();
    let program = root.join("target").join("tidy");
    let mut compile = Command::new("rustc");
    compile.args(["--test", "--edition", "2024", "tests/tidy/main.rs", "-o"]).arg(&program);
    run(compile.env("CARGO_MANIFEST_DIR", &root).current_dir(&root), "rustc --test tests/tidy/main.rs")?;
    run(Command::new(&program).arg("--quiet").env("RUST_BACKTRACE", "0").current_dir(&root), "target/tidy")
}

/// Rewrites all expected outputs with the current output of the tests; a person then reviews the diff.
///
/// # Errors
/// When a test fails for another reason than its snapshot.
pub(crate) fn bless() -> Result<(), String> {
    let mut steps = Steps::new();
    let env = [("UPDATE_EXPECT", "1"), ("TRYBUILD", "overwrite")];
    let mut test = vec!["test", "--workspace", "--no-fail-fast"];
    if setup::llvm().is_some() {
        test.extend(["--features", FEATURES]);
    }
    steps.cargo("bless", &env, &test)?;
    steps.summary();
    println!("now read the diff: git diff");
    Ok(())
}

fn set_up(steps: &mut Steps) -> Result<(), String> {
    steps.run("setup", "LLVM 19, tools for 64-bit ARM", setup::setup)
}

fn tests(steps: &mut Steps) -> Result<(), String> {
    let features = ["--workspace", "--features", FEATURES];
    let test = |features: &'static str| with(&PROFILE, &["test", "--workspace", "--features", features]);
    let programs: Vec<&str> = PROGRAMS.iter().flat_map(|it| ["--bin", it]).collect();
    let all = with(&with(&["build"], &features), &["--tests", "--examples"]);
    steps.cargo("build", &[], &with(&PROFILE, &with(&all, &programs)))?;
    steps.cargo("tests", &[], &test(FEATURES))?;
    steps.cargo("tests, runtime without features", &[], &with(&PROFILE, &["test", "-p", "tvm-runtime"]))?;
    if cfg!(target_os = "linux") {
        models_on_a_fake_gpu(steps, &features)?;
    }
    // Without a GPU they run on the CPU.
    for example in ["quickstart", "gpu_matmul", "relay_list", "custom_pass"] {
        program(steps, example, &format!("examples/{example}"), &[])?;
    }
    // They check what they find, and say `SKIPPED` where there is no model.
    for name in PROGRAMS {
        program(steps, name, name, &[])?;
    }
    let few: Vec<&str> = WITHOUT_LLVM.iter().flat_map(|it| ["--test", it]).collect();
    steps.cargo("tests, without LLVM", &[], &with(&test("rayon,cuda"), &few))?;
    // A newcomer runs it first, on C.
    let example = ["build", "--workspace", "--features", "rayon,cuda", "--example", "quickstart"];
    steps.cargo("build, quickstart without LLVM", &[], &with(&PROFILE, &example))?;
    program(steps, "quickstart without LLVM", "examples/quickstart", &[])?;
    // `llvm` alone makes LLVM a part of the program, which need not find a shared library.
    let inside = ["--test", "profile", "--no-run"];
    steps.cargo("build, LLVM inside", &[], &with(&test("rayon,cuda,llvm"), &inside))?;
    program(steps, "tvmc, LLVM inside", "tvmc", &["doctor"])
}

/// Runs a program that was built before.
fn program(steps: &mut Steps, name: &str, file: &str, args: &[&str]) -> Result<(), String> {
    let path = target_dir().join("debug").join(format!("{file}{}", std::env::consts::EXE_SUFFIX));
    let shown = [&[&*path.display().to_string()], args].concat().join(" ");
    steps.run(name, &shown, || run(Command::new(&path).args(args).current_dir(workspace_root()), &shown))
}

/// Runs random graphs, and small ONNX models with control flow, sequences, strings and extents of their own, on a GPU whose driver and
/// kernels run on the CPU.
fn models_on_a_fake_gpu(steps: &mut Steps, features: &[&str]) -> Result<(), String> {
    let dir = target_dir().join("fake_gpu");
    steps.run("fake driver", "cc tvm-runtime/tests/fake_cuda.c", || {
        std::fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-w", "-O1", "-pthread", "-o"]).arg(dir.join("libcuda.so"));
        run(cc.args(["tvm-runtime/tests/fake_cuda.c", "-ldl"]).current_dir(workspace_root()), "cc")
    })?;
    let dir = dir.display().to_string();
    let env = [("LD_LIBRARY_PATH", &*dir), ("TVM_TEST_FAKE_GPU", "1")];
    let test = with(&with(&["test"], features), &["--test", "onnx", "--"]);
    let models = [
        "control::",
        "recurrent::",
        "sampling::",
        "scan::",
        "scatter::",
        "selection::",
        "sequences::",
        "shapes::",
        "strings::",
    ];
    steps.cargo("ONNX models, fake GPU", &env, &with(&PROFILE, &with(&test, &models)))?;
    let test = with(&with(&["test"], features), &["--test", "fuzz", "--", "fuzz_compiled_graphs"]);
    steps.cargo("random graphs, fake GPU", &env, &with(&PROFILE, &test))
}

fn with<'a>(head: &[&'a str], tail: &[&'a str]) -> Vec<&'a str> {
    head.iter().chain(tail).copied().collect()
}
