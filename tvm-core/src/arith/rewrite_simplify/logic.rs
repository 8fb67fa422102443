//! Rules of logical operators.

use crate::arith::pattern::*;
use crate::ir::tensor_program::PrimExpr;

// A conjunction is a set of conditions: no rule merges conjuncts that bound different expressions, so that conditions
// on one variable only stay separate.
rules! { [x, y, z, w; c1, c2, c3; p] AND {
    Any and_self: and(x, x) => x;
    Any and_opposite: and(x, not(x)) => false;
    Any and_absorbs_or: and(x, or(x, y)) => x;
    Any and_twice: and(and(x, y), y) => and(x, y);
    Any and_or_opposite: and(x, or(not(x), y)) => and(x, y);
} }

rules! { [x, y, z, w; c1, c2, c3; p] OR {
    Any or_self: or(x, x) => x;
    Any or_opposite: or(x, not(x)) => true;
    Any or_absorbs_and: or(x, and(x, y)) => x;
    Any or_twice: or(or(x, y), y) => or(x, y);
    Any or_and_opposite: or(x, and(not(x), y)) => or(x, y);
    Any or_common: or(and(x, y), and(x, z)) => and(x, or(y, z));
} }

// The operands of these rules are comparisons of integers; the type of a rule is the type of the compared values.
rules! { [x, y, z, w; c1, c2, c3; p] AND_COMPARE {
    Int and_less_opposite: and(lt(x, y), lt(y, x)) => false;
    Int and_less_not_less: and(lt(x, y), le(y, x)) => false;
    Int and_not_greater: and(le(x, y), le(y, x)) => eq(x, y);
    Int and_less_less_equal: and(lt(x, y), le(x, y)) => lt(x, y);
    Int and_equal_not_equal: and(eq(x, y), ne(x, y)) => false;
    Int and_less_not_equal: and(lt(x, y), ne(x, y)) => lt(x, y);
    Int and_less_equal_not_equal: and(le(x, y), ne(x, y)) => lt(x, y);
    Int and_equal_consts: and(eq(x, c1), eq(x, c2)) => false, if c1 != c2;
    Int and_equal_other: and(eq(x, c1), ne(x, c2)) => eq(x, c1), if c1 != c2;
    Int and_less_consts: and(lt(x, c1), lt(x, c2)) => lt(x, min(c1, c2));
    Int and_less_equal_consts: and(le(x, c1), le(x, c2)) => le(x, min(c1, c2));
    Int and_greater_consts: and(lt(c1, x), lt(c2, x)) => lt(max(c1, c2), x);
    Int and_greater_equal_consts: and(le(c1, x), le(c2, x)) => le(max(c1, c2), x);
    Int and_less_empty: and(lt(x, c1), le(c2, x)) => false, if c1 <= c2;
} }

rules! { [x, y, z, w; c1, c2, c3; p] OR_COMPARE {
    Int or_less_not_less: or(lt(x, y), le(y, x)) => true;
    Int or_not_greater: or(le(x, y), le(y, x)) => true;
    Int or_less_less_equal: or(lt(x, y), le(x, y)) => le(x, y);
    Int or_less_equal: or(lt(x, y), eq(x, y)) => le(x, y);
    Int or_less_greater: or(lt(x, y), lt(y, x)) => ne(x, y);
    Int or_equal_not_equal: or(eq(x, y), ne(x, y)) => true;
    Int or_less_consts: or(lt(x, c1), lt(x, c2)) => lt(x, max(c1, c2));
    Int or_less_equal_consts: or(le(x, c1), le(x, c2)) => le(x, max(c1, c2));
    Int or_greater_consts: or(lt(c1, x), lt(c2, x)) => lt(min(c1, c2), x);
    Int or_greater_equal_consts: or(le(c1, x), le(c2, x)) => le(min(c1, c2), x);
    Int or_less_full: or(lt(x, c1), le(c2, x)) => true, if c2 <= c1;
} }

rules! { [x, y, z, w; c1, c2, c3; p] NOT {
    Int not_less: not(lt(x, y)) => le(y, x);
    Int not_less_equal: not(le(x, y)) => lt(y, x);
    Int not_greater: not(gt(x, y)) => le(x, y);
    Int not_greater_equal: not(ge(x, y)) => lt(x, y);
    Any not_equal: not(eq(x, y)) => ne(x, y);
    Any not_not_equal: not(ne(x, y)) => eq(x, y);
} }

rules! { [x, y, z, w; c1, c2, c3; p] NOT_BOOL {
    Any not_not: not(not(x)) => x;
    Any not_and: not(and(x, y)) => or(not(x), not(y));
    Any not_or: not(or(x, y)) => and(not(x), not(y));
} }
