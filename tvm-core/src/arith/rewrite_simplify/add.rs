//! Rules of addition that the linear form does not cover: it cancels and collects terms by itself.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] ADD {
    Int add_min_max: min(x, y) + max(x, y) => x + y;
    Int add_selects: select(x, y, z) + select(x, w, z) => select(x, y + w, z + z);
    Exact add_min_difference: min(x, y - z) + z => min(x + z, y);
    Exact add_max_difference: max(x, y - z) + z => max(x + z, y);
} }
