//! Analyses of tensor programs.
