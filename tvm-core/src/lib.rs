//! tvm-core
