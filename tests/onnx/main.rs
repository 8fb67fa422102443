//! Tests of the ONNX importer through its public API: real models on several targets, small graphs with known results,
//! malformed and hostile models.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod attention;
mod build;
mod control;
mod depthwise;
mod einsum;
mod errors;
mod extensions;
mod fused_attention;
#[path = "../cuda/gpu.rs"]
mod gpu;
mod images;
mod integer;
mod models;
mod mutate;
mod narrow;
mod ngrams;
mod operators;
mod random;
mod recurrent;
mod sampling;
mod scan;
mod scatter;
mod selection;
mod sequences;
mod shapes;
mod signals;
mod strings;
mod training;
mod trees;
