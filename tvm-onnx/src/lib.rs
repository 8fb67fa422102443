//! tvm-onnx

#![forbid(unsafe_code)]
