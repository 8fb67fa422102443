//! Rules of multiplication that the linear form does not cover: it multiplies constants by itself.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] MUL {
    Int mul_min_max: min(x, y) * max(x, y) => x * y;
    Exact mul_exact_floordiv: floordiv(x, y) * y => x, if p.is_multiple(x, y);
    Int mul_select_consts: select(x, c1, c2) * c3 => select(x, c1 * c3, c2 * c3);
} }
