//! Prints modules as DSL source.
