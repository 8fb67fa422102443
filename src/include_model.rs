//! Models and kernels compiled by a build script, for applications that depend on this crate instead of `tvm-runtime`.

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

/// Includes the typed wrapper of a kernel that the build script compiled with `tvm_build::Kernel`: a struct that is named
/// after the kernel, with the method `call`.
///
/// ```ignore
/// tvm::include_kernel!("scale");
/// Scale::new()?.call(&x, 2.0, &mut y)?;
/// ```
#[macro_export]
macro_rules! include_kernel {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".facade.rs"));
    };
}
