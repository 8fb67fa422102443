//! Passes over graph functions, one per file.
