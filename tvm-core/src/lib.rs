//! tvm-core

#![forbid(unsafe_code)]
