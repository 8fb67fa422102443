//! Every graph operator against plain Rust: type inference, legalisation and the interpreter together.

mod attention;
mod binary;
mod conv;
mod create;
mod dense;
mod index;
mod inference;
mod layout;
mod linear_algebra;
mod manipulate;
mod norm;
mod pool;
mod sort;
mod statistical;
mod support;
mod unary;
mod winograd;
