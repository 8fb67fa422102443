//! Radix sort of a row: a stable pass for each byte of the keys, from the lowest to the highest.
//!
//! All counters are made in one sweep over the row. A pass in which all keys have the same byte moves nothing and is left
//! out. The work is linear in the length of the row. A byte at a time, because its counters (1 KiB or 2 KiB for each byte of
//! the key) and the 256 places that a pass writes to stay in the first-level cache.

use tvm_runtime::DataType;

use super::{Row, bind, each, key, local};
use crate::te::{Routine, TensorExpr, routine};
use crate::tir::{BinaryOp, Buffer, PrimExpr, Stmt, binary};

/// Bits of a digit.
const DIGIT: i64 = 8;

/// Values of a digit.
const DIGITS: i64 = 1 << DIGIT;

/// The memory of a run.
struct Memory {
    /// Two copies of the keys.
    keys: Buffer,
    /// The positions of the elements of which these are the keys.
    places: Buffer,
    /// For each digit of a key, how many keys have which value of it; during a pass, where the next of them goes.
    counts: Buffer,
    /// The number of keys before those with the next value of a digit.
    before: Buffer,
    /// Which of the copies holds the keys.
    side: Buffer,
}

/// The sorted positions of each row.
pub(super) fn positions(row: &Row<'_>) -> TensorExpr {
    let extent = row.x.dim(row.axis);
    let key_type = key::dtype(row.x.dtype());
    // Unsigned, so that they are known to be no negative numbers; four bytes, where that is enough, to move less.
    let short = extent.as_int().is_some_and(|extent| extent < i64::from(u32::MAX));
    let place_type = if short { DataType::U32 } else { DataType::U64 };
    let digits = i64::from(key_type.bits()) / DIGIT;
    let copies = [PrimExpr::index(2), extent.clone()];
    let memory = Memory {
        keys: Buffer::new("keys", copies.to_vec(), key_type),
        places: Buffer::new("places", copies.to_vec(), place_type),
        counts: local("counts", &[digits, DIGITS], place_type),
        before: local("before", &[1], place_type),
        side: local("side", &[1], DataType::I64),
    };
    routine("sorted_positions", &row.others(), (row.shape, DataType::I64), &[row.x], |point, out| {
        let passes = Stmt::seq((0..digits).map(|digit| pass(&memory, &extent, digit)));
        // An empty row has no first key.
        let passes = match extent.as_int() {
            Some(_) => passes,
            None => Stmt::if_then_else(PrimExpr::index(0).less(&extent), passes, None),
        };
        let mut body = vec![counters(row, point, &memory, &extent, digits), passes];
        let side = bind(&mut body, "last", side_of(&memory.side));
        body.push(each("i", &row.shape[row.axis], |i| {
            let place = memory.places.load([side, i.clone()]).cast(DataType::I64);
            vec![Stmt::store(out, row.indices(point, i), place)]
        }));
        let Memory { keys, places, counts, before, side } = memory;
        Routine { scratch: vec![keys, places, counts, before, side], body: Stmt::seq(body) }
    })
}

/// The value of a digit.
fn digit_of(key: PrimExpr, digit: i64) -> PrimExpr {
    let dtype = key.dtype();
    let shifted = binary(BinaryOp::Shr, key, PrimExpr::int(digit * DIGIT, dtype));
    binary(BinaryOp::BitAnd, shifted, PrimExpr::int(DIGITS - 1, dtype)).cast(DataType::I64)
}

/// The copy that holds the keys: 0 or 1.
fn side_of(side: &Buffer) -> PrimExpr {
    binary(BinaryOp::BitAnd, side.load([PrimExpr::index(0)]), PrimExpr::index(1))
}

/// Computes the keys and counts their digits.
fn counters(row: &Row<'_>, point: &[PrimExpr], memory: &Memory, extent: &PrimExpr, digits: i64) -> Stmt {
    let Memory { keys, places, counts, side, .. } = memory;
    let (zero, one) = (PrimExpr::int(0, counts.dtype), PrimExpr::int(1, counts.dtype));
    let clear = each("digit", &digits.into(), |digit| {
        vec![each("value", &DIGITS.into(), |value| vec![Stmt::store(counts, [digit, value], zero)])]
    });
    let count = each("i", extent, |i| {
        let mut stmts = Vec::new();
        let key = bind(&mut stmts, "key", row.key(point, i.clone()));
        let at = [PrimExpr::index(0), i.clone()];
        stmts.push(Stmt::store(keys, at.clone(), key.clone()));
        stmts.push(Stmt::store(places, at, i.cast(places.dtype)));
        for digit in 0..digits {
            let at = [PrimExpr::index(digit), digit_of(key.clone(), digit)];
            stmts.push(Stmt::store(counts, at.clone(), counts.load(at) + &one));
        }
        stmts
    });
    Stmt::seq([clear, Stmt::store(side, [PrimExpr::index(0)], PrimExpr::index(0)), count])
}

/// Moves the keys into the order of a digit, if they have different ones.
fn pass(memory: &Memory, extent: &PrimExpr, digit: i64) -> Stmt {
    let Memory { keys, places, counts, before, side } = memory;
    let zero = [PrimExpr::index(0)];
    let of_value = |value: PrimExpr| [PrimExpr::index(digit), value];
    let first = digit_of(keys.load([PrimExpr::index(0), PrimExpr::index(0)]), digit);
    let differ = counts.load(of_value(first)).cast(DataType::I64).not_equal(extent);
    let starts = each("value", &DIGITS.into(), |value| {
        let mut stmts = Vec::new();
        let count = bind(&mut stmts, "count", counts.load(of_value(value.clone())));
        let start = bind(&mut stmts, "start", before.load(zero.clone()));
        stmts.push(Stmt::store(counts, of_value(value), start.clone()));
        stmts.push(Stmt::store(before, zero.clone(), start + count));
        stmts
    });
    let mut stmts = vec![Stmt::store(before, zero.clone(), PrimExpr::int(0, before.dtype)), starts];
    let from = bind(&mut stmts, "from", side_of(side));
    let to = PrimExpr::index(1) - &from;
    stmts.push(each("i", extent, |i| {
        let mut stmts = Vec::new();
        let key = bind(&mut stmts, "key", keys.load([from.clone(), i.clone()]));
        let value = bind(&mut stmts, "value", digit_of(key.clone(), digit));
        let next = bind(&mut stmts, "next", counts.load(of_value(value.clone())));
        // It is inside of the row, which the program does not prove otherwise.
        let inside = next.clone().cast(DataType::I64).min(extent - 1i64).max(0);
        let at = bind(&mut stmts, "at", inside);
        stmts.push(Stmt::store(counts, of_value(value), next + PrimExpr::int(1, counts.dtype)));
        stmts.push(Stmt::store(keys, [to.clone(), at.clone()], key));
        stmts.push(Stmt::store(places, [to.clone(), at], places.load([from.clone(), i])));
        stmts
    }));
    stmts.push(Stmt::store(side, zero, to));
    Stmt::if_then_else(differ, Stmt::seq(stmts), None)
}
