//! tvm-build
