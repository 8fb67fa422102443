//! Rules of flooring division. Sums are divided in linear form, see `canonical.rs`.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] FLOORDIV {
    Exact floordiv_self: floordiv(x, x) => 1, if p.nonzero(x);
    Exact floordiv_negative_const: floordiv(x, c1) => floordiv(x * (-1), c1 * (-1)), if c1 < 0;
    Exact floordiv_floordiv: floordiv(floordiv(x, c1), c2) => floordiv(x, c1 * c2),
        if c1 > 0 && c2 > 0;
    Exact floordiv_floordiv_symbolic: floordiv(floordiv(x, y), z) => floordiv(x, y * z),
        if p.positive(y) && p.positive(z);
    Exact floordiv_floormod: floordiv(floormod(x, c1), c2) => floormod(floordiv(x, c2), floordiv(c1, c2)),
        if c1 > 0 && c2 > 0 && c1 % c2 == 0;
    Exact floordiv_floormod_symbolic: floordiv(floormod(x, y * z), z) => floormod(floordiv(x, z), y),
        if p.positive(y) && p.positive(z);
    Exact floordiv_min_mul: floordiv(min(x * c1, y), c2) => min(x * floordiv(c1, c2), floordiv(y, c2)),
        if c2 > 0 && c1 % c2 == 0;
    Exact floordiv_max_mul: floordiv(max(x * c1, y), c2) => max(x * floordiv(c1, c2), floordiv(y, c2)),
        if c2 > 0 && c1 % c2 == 0;
    Exact floordiv_min_const: floordiv(min(x, c1), c2) => min(floordiv(x, c2), floordiv(c1, c2)), if c2 > 0;
    Exact floordiv_max_const: floordiv(max(x, c1), c2) => max(floordiv(x, c2), floordiv(c1, c2)), if c2 > 0;
} }
