//! What a build script says to Cargo. Nothing is printed outside of one.

#![allow(clippy::print_stdout, reason = "Cargo reads a build script's directives from its standard output")]

use std::path::Path;

/// Variables that change what the C compiler makes; `{}` is the target with `_` for `-`.
const VARIABLES: [&str; 8] =
    ["CC", "CC_{}", "TARGET_CC", "HOST_CC", "CFLAGS", "CFLAGS_{}", "TARGET_CFLAGS", "CRATE_CC_NO_DEFAULTS"];

/// True in a build script.
fn in_build_script() -> bool {
    ["OUT_DIR", "CARGO_MANIFEST_DIR", "TARGET"].iter().all(|name| std::env::var_os(name).is_some())
}

fn say(directive: &str, value: impl std::fmt::Display) {
    if in_build_script() {
        println!("cargo::{directive}={value}");
    }
}

/// Run the build script again when `path` changes.
pub(crate) fn rerun_if_changed(path: &Path) {
    say("rerun-if-changed", path.display());
}

/// Where the library is, and that the C compiler may be named by variables.
pub(crate) fn library(dir: &Path, triple: &str) {
    say("rustc-link-search", format_args!("native={}", dir.display()));
    for name in VARIABLES {
        say("rerun-if-env-changed", name.replace("{}", &triple.replace('-', "_")));
    }
}

/// Shows an error, line by line, because a directive ends with its line.
pub(crate) fn error(message: &str) {
    message.lines().for_each(|line| say("error", line));
}
