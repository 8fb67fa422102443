//! Rules of subtraction that the linear form does not cover: it cancels and collects terms by itself.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] SUB {
    Exact sub_min_self: x - min(x, y) => max(x - y, 0);
    Exact sub_max_self: x - max(x, y) => min(x - y, 0);
    Exact min_sub_self: min(x, y) - x => min(y - x, 0);
    Exact max_sub_self: max(x, y) - x => max(y - x, 0);
    Exact min_sub_part: min(x + y, z) - x => min(y, z - x);
    Exact max_sub_part: max(x + y, z) - x => max(y, z - x);
    Exact min_sub_max: min(x, y) - max(x, y) => min(x - y, y - x);
    Exact max_sub_min: max(x, y) - min(x, y) => max(x - y, y - x);
    Int sub_floormod: x - floormod(x, c1) => floordiv(x, c1) * c1, if c1 != 0;
    Int sub_floor_multiple: x - floordiv(x, c1) * c1 => floormod(x, c1), if c1 != 0;
    Int sub_floormod_symbolic: x - floormod(x, y) => floordiv(x, y) * y, if p.nonzero(y);
    Int sub_floor_multiple_symbolic: x - floordiv(x, y) * y => floormod(x, y), if p.nonzero(y);
} }
