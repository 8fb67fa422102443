//! The ONNX importer from outside: real models on several targets, small graphs with known results, malformed and
//! hostile models.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod build;
mod errors;
mod models;
mod mutate;
mod operators;
mod shapes;
