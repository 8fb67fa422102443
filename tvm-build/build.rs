//! Remembers for which machine this crate is compiled: what it compiles for outside of Cargo.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=TVM_BUILD_TARGET={}", std::env::var("TARGET").unwrap_or_default());
}
