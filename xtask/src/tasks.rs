//! `cargo xtask test | ci | bless`: lists of cargo commands, ordered so that a mistake is found early.
//!
//! There are few feature sets on purpose, because each of them compiles the workspace again. Code that depends on the
//! feature `llvm` is in five packages; only their tests run a second time with it.

use std::process::Command;

use crate::setup;
use crate::step::{Steps, run, workspace_root};

/// The packages that have the feature `llvm`.
const WITH_LLVM: [&str; 10] =
    ["-p", "tvm", "-p", "tvm-codegen", "-p", "tvm-build", "-p", "tvm-cli", "-p", "build_rs_app"];

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
    steps.cargo("façade, no features", &[], &["check", "-p", "tvm", "--no-default-features"])?;
    let deny = ["--", "-D", "warnings"];
    steps.cargo("clippy", &[], &with(&["clippy", "--workspace", "--all-targets"], &deny))?;
    let features = ["--workspace", "--all-targets", "--features", "llvm,llvm-dynamic,cuda,rayon"];
    steps.cargo("clippy, all features", &[], &with(&with(&["clippy"], &features), &deny))?;
    steps.cargo("docs", &[("RUSTDOCFLAGS", "-D warnings")], &["doc", "--workspace", "--no-deps"])?;
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
    steps.cargo("cuda compiles", &[], &["check", "--workspace", "--all-targets", "--features", "cuda"])?;
    // On a fake driver, with kernels that run on the CPU.
    let cuda = [
        "test",
        "-p",
        "tvm",
        "-p",
        "tvm-runtime",
        "--features",
        "cuda",
        "--test",
        "cuda",
        "--test",
        "cuda_driver",
    ];
    steps.cargo("tests, cuda", &[], &cuda)?;
    if cfg!(target_os = "linux") {
        models_on_a_fake_gpu(steps)?;
    }
    steps.cargo("tests", &[], &["test", "--workspace", "--features", "rayon"])?;
    for example in ["quickstart", "relay_list", "custom_pass"] {
        steps.cargo(example, &[], &["run", "--quiet", "--example", example])?;
    }
    // Without a GPU they run on the CPU.
    for example in ["quickstart", "gpu_matmul"] {
        let run = ["run", "--quiet", "--features", "cuda", "--example", example];
        steps.cargo(&format!("{example}, cuda"), &[], &run)?;
    }
    // They check what they find, and say `SKIPPED` where there is no model.
    for example in ["voice_activity", "file_type", "semantic_search"] {
        steps.cargo(example, &[], &["run", "--quiet", "-p", example])?;
    }
    steps.cargo("tests, llvm", &[], &llvm_tests())?;
    // `llvm` alone makes LLVM a part of the program, which need not find a shared library.
    steps.cargo(
        "tvmc, llvm inside",
        &[],
        &["run", "--quiet", "-p", "tvm-cli", "--features", "llvm", "--", "doctor"],
    )
}

/// Runs small ONNX models with control flow, sequences, strings and extents of their own on a GPU whose driver and kernels run on
/// the CPU.
fn models_on_a_fake_gpu(steps: &mut Steps) -> Result<(), String> {
    let dir = workspace_root().join("target").join("fake_gpu");
    steps.run("fake driver", "cc tvm-runtime/tests/fake_cuda.c", || {
        std::fs::create_dir_all(&dir).map_err(|err| err.to_string())?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-w", "-O1", "-pthread", "-o"]).arg(dir.join("libcuda.so"));
        run(cc.args(["tvm-runtime/tests/fake_cuda.c", "-ldl"]).current_dir(workspace_root()), "cc")
    })?;
    let dir = dir.display().to_string();
    let env = [("LD_LIBRARY_PATH", &*dir), ("TVM_TEST_FAKE_GPU", "1")];
    let test = ["test", "-p", "tvm", "--features", "cuda", "--test", "onnx", "--"];
    let models = [
        "control::",
        "recurrent::",
        "sampling::",
        "scan::",
        "selection::",
        "sequences::",
        "shapes::",
        "strings::",
    ];
    steps.cargo("ONNX models, fake GPU", &env, &with(&test, &models))
}

/// The many test programs load LLVM's shared library: they are small and linked soon.
fn llvm_tests() -> Vec<&'static str> {
    with(&with(&["test"], &WITH_LLVM), &["--features", "llvm,llvm-dynamic"])
}

fn with<'a>(head: &[&'a str], tail: &[&'a str]) -> Vec<&'a str> {
    head.iter().chain(tail).copied().collect()
}
