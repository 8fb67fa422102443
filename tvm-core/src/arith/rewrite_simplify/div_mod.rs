//! Rules of truncating division and its remainder: if nothing is negative, they equal flooring division and its
//! remainder.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] DIV {
    Exact div_nonneg: div(x, y) => floordiv(x, y), if p.nonneg(x) && p.nonneg(y);
    Exact div_nonpos_by_const: div(x, c1) => floordiv(x * (-1), c1) * (-1), if c1 > 0 && p.nonpos(x);
    Exact div_negative_const: div(x, c1) => div(x, c1 * (-1)) * (-1), if c1 < 0;
} }

rules! { [x, y, z, w; c1, c2, c3; p] MOD {
    Exact mod_nonneg: rem(x, y) => floormod(x, y), if p.nonneg(x) && p.nonneg(y);
    Exact mod_nonpos_by_const: rem(x, c1) => floormod(x * (-1), c1) * (-1), if c1 > 0 && p.nonpos(x);
    Exact mod_negative_const: rem(x, c1) => rem(x, c1 * (-1)), if c1 < 0;
} }
