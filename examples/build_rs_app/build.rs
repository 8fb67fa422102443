//! Compiles the digits model into the application. For the tests, it also compiles it for several CPU levels, with each code
//! generator that there is.

use tvm_build::{BuildError, Codegen, Model};

fn main() -> Result<(), BuildError> {
    let digits = || Model::onnx("../data/digits_cnn/model.onnx").name("digits").dim("n", 1..=360);
    digits().compile()?;
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|it| it == "x86_64") {
        let levels = || digits().cpu_levels(["x86-64", "x86-64-v3", "x86-64-v4"]);
        levels().name("digits_c").codegen(Codegen::C).compile()?;
        if cfg!(feature = "llvm") {
            levels().name("digits_llvm").codegen(Codegen::Llvm).compile()?;
        }
    }
    Ok(())
}
