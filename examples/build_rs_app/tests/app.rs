//! End-to-end tests of the application, and of the libraries that it links.

use std::process::Command;

#[test]
fn it_classifies_the_held_out_digits() {
    let output = Command::new(env!("CARGO_BIN_EXE_build_rs_app")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let accuracy = text.lines().find_map(|line| line.strip_prefix("accuracy"));
    let accuracy: f64 = accuracy.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap();
    assert!(accuracy >= 0.97, "{text}");
}

#[test]
fn it_links_the_runtime_and_no_compiler() {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let args = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--format", "{p}"];
    let output = Command::new(cargo).args(args).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let ours = |line: &&str| line.starts_with("tvm");
    let mut names: Vec<&str> = text.lines().filter(ours).filter_map(|line| line.split(' ').next()).collect();
    names.dedup();
    assert_eq!(names, ["tvm-runtime"], "{text}");
}
