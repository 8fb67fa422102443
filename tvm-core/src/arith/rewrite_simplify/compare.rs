//! Rules of comparisons. The linear form combines the sums on the two sides, see `canonical.rs`; `>` and `>=` become
//! `<` and `<=`.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] EQ {
    Int eq_self: eq(x, x) => true;
    Exact eq_floordiv_zero: eq(floordiv(x, c1), 0) => lt(x, c1), if c1 > 0 && p.nonneg(x);
    Int eq_select_const: eq(select(x, c1, c2), c1) => x, if c1 != c2;
    Int eq_max_const: eq(max(x, c1), c2) => eq(x, c2), if c1 < c2;
    Int eq_min_const: eq(min(x, c1), c2) => eq(x, c2), if c1 > c2;
} }

rules! { [x, y, z, w; c1, c2, c3; p] NE {
    Int ne_self: ne(x, x) => false;
} }

rules! { [x, y, z, w; c1, c2, c3; p] LT {
    Any lt_self: lt(x, x) => false;
    Int lt_min_self: lt(x, min(x, y)) => false;
    Int lt_max_self: lt(max(x, y), x) => false;
    Int lt_min: lt(min(x, y), x) => lt(y, x);
    Int lt_max: lt(x, max(x, y)) => lt(x, y);
    Int lt_min_both: lt(x, min(y, z)) => and(lt(x, y), lt(x, z));
    Int lt_max_both: lt(max(x, y), z) => and(lt(x, z), lt(y, z));
    Int lt_min_either: lt(min(x, y), z) => or(lt(x, z), lt(y, z));
    Int lt_max_either: lt(x, max(y, z)) => or(lt(x, y), lt(x, z));
    Exact lt_floordiv_left: lt(floordiv(x, c1), c2) => lt(x, c1 * c2), if c1 > 0;
    Exact lt_floordiv_right: lt(c2, floordiv(x, c1)) => le(c1 * (c2 + 1), x), if c1 > 0;
    Exact lt_floordiv_symbolic: lt(floordiv(x, y), z) => lt(x, z * y), if p.positive(y);
} }

rules! { [x, y, z, w; c1, c2, c3; p] LE {
    Int le_self: le(x, x) => true;
    Int le_min_self: le(min(x, y), x) => true;
    Int le_max_self: le(x, max(x, y)) => true;
    Int le_min: le(x, min(x, y)) => le(x, y);
    Int le_max: le(max(x, y), x) => le(y, x);
    Int le_min_both: le(x, min(y, z)) => and(le(x, y), le(x, z));
    Int le_max_both: le(max(x, y), z) => and(le(x, z), le(y, z));
    Int le_min_either: le(min(x, y), z) => or(le(x, z), le(y, z));
    Int le_max_either: le(x, max(y, z)) => or(le(x, y), le(x, z));
    Exact le_floordiv_right: le(c2, floordiv(x, c1)) => le(c1 * c2, x), if c1 > 0;
    Exact le_floordiv_left: le(floordiv(x, c1), c2) => lt(x, c1 * (c2 + 1)), if c1 > 0;
    Exact le_floordiv_symbolic: le(z, floordiv(x, y)) => le(z * y, x), if p.positive(y);
} }

rules! { [x, y, z, w; c1, c2, c3; p] GT {
    Any gt_is_lt: gt(x, y) => lt(y, x);
} }

rules! { [x, y, z, w; c1, c2, c3; p] GE {
    Any ge_is_le: ge(x, y) => le(y, x);
} }
