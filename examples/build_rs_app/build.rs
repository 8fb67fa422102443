//! Compiles the digits model into the application.

fn main() -> Result<(), tvm_build::BuildError> {
    tvm_build::Model::onnx("../data/digits_cnn/model.onnx").name("digits").dim("n", 1..=360).compile()?;
    Ok(())
}
