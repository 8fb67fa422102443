//! Rules of select.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] SELECT {
    Any select_same_arms: select(x, y, y) => y;
    Any select_not: select(not(x), y, z) => select(x, z, y);
    Any select_nested_true: select(x, select(x, y, z), w) => select(x, y, w);
    Any select_nested_false: select(x, w, select(x, y, z)) => select(x, w, z);
    Int select_less_is_min: select(lt(x, y), x, y) => min(x, y);
    Int select_less_equal_is_min: select(le(x, y), x, y) => min(x, y);
    Int select_greater_is_max: select(gt(x, y), x, y) => max(x, y);
    Int select_greater_equal_is_max: select(ge(x, y), x, y) => max(x, y);
    Int select_less_is_max: select(lt(x, y), y, x) => max(x, y);
    Int select_less_equal_is_max: select(le(x, y), y, x) => max(x, y);
    Int select_greater_is_min: select(gt(x, y), y, x) => min(x, y);
    Int select_greater_equal_is_min: select(ge(x, y), y, x) => min(x, y);
    Int select_equal: select(eq(x, y), x, y) => y;
    Int select_not_equal: select(ne(x, y), x, y) => x;
} }

rules! { [x, y, z, w; c1, c2, c3; p] SELECT_BOOL {
    Any select_truth: select(x, true, false) => x;
    Any select_falsehood: select(x, false, true) => not(x);
    Any select_true_or: select(x, true, y) => or(x, y);
    Any select_and_false: select(x, y, false) => and(x, y);
} }
