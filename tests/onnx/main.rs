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
#[path = "../cuda/fake_gpu.rs"]
mod fake_gpu;
mod fused_attention;
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
