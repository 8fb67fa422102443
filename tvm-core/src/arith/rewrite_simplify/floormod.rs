//! Rules of the remainder of flooring division. Sums are reduced in linear form, see `canonical.rs`.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

rules! { [x, y, z, w; c1, c2, c3; p] FLOORMOD {
    Int floormod_self: floormod(x, x) => 0;
    Exact floormod_minus_one: floormod(x, -1) => 0;
    Exact floormod_floormod: floormod(floormod(x, c1), c2) => floormod(x, c2), if c2 > 0 && c1 != 0 && c1 % c2 == 0;
    Int floormod_floormod_same: floormod(floormod(x, y), y) => floormod(x, y);
    Exact floormod_floormod_symbolic: floormod(floormod(x, y * z), z) => floormod(x, z),
        if p.positive(y) && p.positive(z);
} }
