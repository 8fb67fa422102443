//! Every graph operator against plain Rust: type inference, legalisation and the interpreter together.

mod binary;
mod inference;
mod support;
mod unary;
