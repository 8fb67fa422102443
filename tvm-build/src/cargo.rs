//! Directives from a build script to Cargo. Outside of build scripts, nothing is printed.

#![allow(clippy::print_stdout, reason = "Cargo reads a build script's directives from its standard output")]

use std::path::Path;

/// Environment variables that affect the C compiler; `{}` stands for the target with `_` for `-`.
const VARIABLES: [&str; 8] =
    ["CC", "CC_{}", "TARGET_CC", "HOST_CC", "CFLAGS", "CFLAGS_{}", "TARGET_CFLAGS", "CRATE_CC_NO_DEFAULTS"];

/// True if this process is a build script.
fn in_build_script() -> bool {
    ["OUT_DIR", "CARGO_MANIFEST_DIR", "TARGET"].iter().all(|name| std::env::var_os(name).is_some())
}

fn say(directive: &str, value: impl std::fmt::Display) {
    if in_build_script() {
        println!("cargo::{directive}={value}");
    }
}

/// Tells Cargo to run the build script again when `path` changes.
pub(crate) fn rerun_if_changed(path: &Path) {
    say("rerun-if-changed", path.display());
}

/// Tells Cargo where the library is, and which environment variables select the C compiler.
pub(crate) fn library(dir: &Path, triple: &str) {
    say("rustc-link-search", format_args!("native={}", dir.display()));
    for name in VARIABLES {
        say("rerun-if-env-changed", name.replace("{}", &triple.replace('-', "_")));
    }
}

/// Tells Cargo that the build script loads libnvrtc, which the dynamic linker finds in the folders of this variable.
pub(crate) fn rerun_if_library_path_changed() {
    say("rerun-if-env-changed", if cfg!(windows) { "PATH" } else { "LD_LIBRARY_PATH" });
}

/// Reports an error to Cargo, line by line, because a directive ends with its line.
pub(crate) fn error(message: &str) {
    message.lines().for_each(|line| say("error", line));
}

/// Shows a warning to whoever builds the package.
pub(crate) fn warning(message: &str) {
    say("warning", message);
}
