//! Runs `tvmc` as a process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub(crate) fn digits() -> String {
    root().join("examples/data/digits_cnn").display().to_string()
}

/// The model of the digits.
pub(crate) fn model() -> String {
    format!("{}/model.onnx", digits())
}

/// Runs `tvmc` with `input` as its standard input.
pub(crate) fn tvmc_with(args: &[&str], input: impl AsRef<[u8]>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tvmc"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A process that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    child.wait_with_output().unwrap()
}

/// Returns the standard output of a run that must succeed.
pub(crate) fn tvmc(args: &[&str]) -> String {
    let output = tvmc_with(args, "");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns exit status and standard error of a run that must fail.
pub(crate) fn refused(args: &[&str]) -> (i32, String) {
    let output = tvmc_with(args, "");
    assert!(!output.status.success(), "{args:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}
