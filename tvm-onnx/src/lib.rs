//! tvm-onnx
