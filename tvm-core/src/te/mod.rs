//! Tensor expressions: operators are written as compute over index space.
