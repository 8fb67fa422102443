//! tvm-codegen
