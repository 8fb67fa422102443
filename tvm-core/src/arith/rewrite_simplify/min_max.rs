//! Rules of minimum and maximum.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] MIN {
    Any min_self: min(x, x) => x;
    Any min_twice: min(min(x, y), y) => min(x, y);
    Int min_absorbs_max: min(max(x, y), y) => y;
    Int min_consts: min(min(x, c1), c2) => min(x, min(c1, c2));
    Int min_max_consts: min(max(x, c1), c2) => c2, if c2 <= c1;
    Int min_of_max_common: min(max(x, y), max(x, z)) => max(min(y, z), x);
    Int min_of_min_common: min(min(x, y), min(x, z)) => min(min(y, z), x);
    Int min_left: min(x, y) => x, if p.le(x, y);
    Int min_right: min(x, y) => y, if p.le(y, x);
    Int min_nested_left: min(min(x, y), z) => min(y, z), if p.le(z, x) || p.le(y, x);
    Exact min_scale: min(x * c1, y * c1) => min(x, y) * c1, if c1 > 0;
    Exact min_scale_negative: min(x * c1, y * c1) => max(x, y) * c1, if c1 < 0;
    Exact min_scale_const: min(x * c1, c2) => min(x, floordiv(c2, c1)) * c1, if c1 > 0 && c2 % c1 == 0;
    Exact min_floordiv: min(floordiv(x, c1), floordiv(y, c1)) => floordiv(min(x, y), c1), if c1 > 0;
    Exact min_floor_multiple: min(floordiv(x, c1) * c1, x) => floordiv(x, c1) * c1, if c1 > 0;
    Exact min_ceil_multiple: min(floordiv(x + c2, c1) * c1, x) => x, if c1 > 0 && c2 == c1 - 1;
    Int min_select: min(select(x, y, z), select(x, y, w)) => select(x, y, min(z, w));
} }

rules! { [x, y, z, w; c1, c2, c3; p] MAX {
    Any max_self: max(x, x) => x;
    Any max_twice: max(max(x, y), y) => max(x, y);
    Int max_absorbs_min: max(min(x, y), y) => y;
    Int max_consts: max(max(x, c1), c2) => max(x, max(c1, c2));
    Int max_min_consts: max(min(x, c1), c2) => c2, if c1 <= c2;
    Int max_of_min_common: max(min(x, y), min(x, z)) => min(max(y, z), x);
    Int max_of_max_common: max(max(x, y), max(x, z)) => max(max(y, z), x);
    Int max_left: max(x, y) => x, if p.le(y, x);
    Int max_right: max(x, y) => y, if p.le(x, y);
    Int max_nested_left: max(max(x, y), z) => max(y, z), if p.le(x, z) || p.le(x, y);
    Exact max_scale: max(x * c1, y * c1) => max(x, y) * c1, if c1 > 0;
    Exact max_scale_negative: max(x * c1, y * c1) => min(x, y) * c1, if c1 < 0;
    Exact max_scale_const: max(x * c1, c2) => max(x, floordiv(c2, c1)) * c1, if c1 > 0 && c2 % c1 == 0;
    Exact max_floordiv: max(floordiv(x, c1), floordiv(y, c1)) => floordiv(max(x, y), c1), if c1 > 0;
    Exact max_floor_multiple: max(floordiv(x, c1) * c1, x) => x, if c1 > 0;
    Exact max_ceil_multiple: max(floordiv(x + c2, c1) * c1, x) => floordiv(x + c2, c1) * c1,
        if c1 > 0 && c2 == c1 - 1;
    Int max_select: max(select(x, y, z), select(x, y, w)) => select(x, y, max(z, w));
} }
