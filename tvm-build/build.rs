//! Records the target triple of this crate, which is the default target outside of Cargo build scripts.
#![allow(clippy::print_stdout, reason = "Cargo reads directives from the standard output")]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=TVM_BUILD_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
