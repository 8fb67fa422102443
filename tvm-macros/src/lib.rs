//! Procedural macros.

#![forbid(unsafe_code)]
