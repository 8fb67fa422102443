//! Models compiled by a build script, for applications that depend on this crate instead of `tvm-runtime`.

/// Includes the typed wrapper of a model that the build script compiled with `tvm_build::Model`: a struct that is named
/// after the model, with one method per entry point.
///
/// ```ignore
/// tvm::include_model!("digits");
/// let out = Digits::new()?.run(&images)?;
/// println!("{:?}", out.probabilities.view());
/// ```
#[macro_export]
macro_rules! include_model {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".facade.rs"));
    };
}
