//! `cargo xtask test | ci | bless`: lists of cargo commands, ordered so that a mistake is found early.
//!
//! There are few feature sets on purpose, because each of them compiles packages again: `rayon` and `cuda` together (a test of a
//! GPU brings a driver that runs kernels on the CPU), then `llvm` with them. Code that depends on the feature `llvm` is in five
//! packages; only their tests run with it. The tests of `tvm-runtime` run without features as well. Programs and examples are
//! built beside the tests, so that they share libraries, and are started afterwards.
//!
//! Tests spend most of their time in the compiler's passes and in the interpreter, so the libraries of these are optimised a
//! little (`xtask/tests.toml`). That takes too long to build for everyday work.

use std::process::Command;

use crate::setup;
use crate::step::{Steps, run, target_dir, workspace_root};

/// The packages that have the feature `llvm`.
const WITH_LLVM: [&str; 10] =
    ["-p", "tvm", "-p", "tvm-codegen", "-p", "tvm-build", "-p", "tvm-cli", "-p", "build_rs_app"];

/// How tests are compiled, in place of Cargo's defaults.
const PROFILE: [&str; 2] = ["--config", "xtask/tests.toml"];

/// Tests that compile no kernel, or only for GPUs: the feature `llvm` changes nothing in them. (The harness counts them as
/// filtered out.)
const THE_SAME_WITH_LLVM: [&str; 7] = [
    "wrong_programs_are_refused_in_these_words",
    "short::fuzz_short_schedules",
    "gpu_schedules::fuzz_gpu_schedules",
    "gpu_schedules::programs_without_a_schedule_become_kernels",
    "default_schedules::gpu::fuzz_default_gpu",
    "graphs::fuzz_graphs",
    "roundtrip::fuzz_roundtrip",
];

/// What tests are built with besides.
const FEATURES: &str = "rayon,cuda";

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
    let features = ["--workspace", "--all-targets", "--features", "llvm,llvm-dynamic,cuda,rayon"];
    steps.cargo("clippy, all features", &[], &with(&with(&["clippy"], &features), &deny))?;
    let rustdoc = [("RUSTDOCFLAGS", "-D warnings")];
    steps.cargo("docs", &rustdoc, &["doc", "--workspace", "--no-deps"])?;
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
    steps.cargo("bless", &env, &["test", "--workspace", "--no-fail-fast"])?;
    if setup::llvm().is_some() {
        steps.cargo("bless, llvm", &env, &with(&llvm_tests(), &["--no-fail-fast"]))?;
    }
    steps.summary();
    println!("now read the diff: git diff");
    Ok(())
}

fn set_up(steps: &mut Steps) -> Result<(), String> {
    steps.run("setup", "LLVM 19, tools for 64-bit ARM", setup::setup)
}

fn tests(steps: &mut Steps) -> Result<(), String> {
    let features = ["--workspace", "--features", FEATURES];
    let programs: Vec<&str> = PROGRAMS.iter().flat_map(|it| ["--bin", it]).collect();
    let all = with(&with(&["build"], &features), &["--tests", "--examples"]);
    steps.cargo("build", &[], &with(&PROFILE, &with(&all, &programs)))?;
    steps.cargo("tests", &[], &with(&PROFILE, &with(&["test"], &features)))?;
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
    let skip: Vec<&str> = THE_SAME_WITH_LLVM.iter().flat_map(|it| ["--skip", it]).collect();
    let test = with(&with(&llvm_tests(), &["--"]), &skip);
    steps.cargo("tests, llvm", &[("TVM_TEST_LLVM_ALONE", "1")], &with(&PROFILE, &test))?;
    program(steps, "quickstart, llvm", "examples/quickstart", &[])?;
    // `llvm` alone makes LLVM a part of the program, which need not find a shared library. A test of it has libraries in common
    // with the tests before.
    let inside = ["--features", "llvm", "--features", FEATURES, "--test", "profile", "--no-run"];
    steps.cargo("build, llvm inside", &[], &with(&PROFILE, &with(&with(&["test"], &WITH_LLVM), &inside)))?;
    program(steps, "tvmc, llvm inside", "tvmc", &["doctor"])
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

/// The many test programs load LLVM's shared library: they are small and linked soon.
fn llvm_tests() -> Vec<&'static str> {
    with(&with(&["test"], &WITH_LLVM), &["--features", "llvm,llvm-dynamic", "--features", FEATURES])
}

fn with<'a>(head: &[&'a str], tail: &[&'a str]) -> Vec<&'a str> {
    head.iter().chain(tail).copied().collect()
}
