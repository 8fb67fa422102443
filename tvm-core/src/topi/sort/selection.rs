//! Selection of the few first elements of a row: a sorted list of the best keys so far, and their positions.
//!
//! Of a block of elements, the smallest key is computed first, in vectors; only blocks with a key that comes before the last
//! of the list are looked at one by one. Among elements in no order, few blocks have one: about `k ln(n / k)` elements of `n`
//! enter a list of `k`. If the elements come in the worst order, each of them moves the whole list, hence the limits below.

use tvm_runtime::DataType;

use super::{Row, bind, each, key, local};
use crate::te::{Routine, TensorExpr, routine};
use crate::tir::{Buffer, PrimExpr, Stmt};

/// The longest list: in the worst order, moving it costs about as much as the passes of a radix sort.
const MAX_FEW: i64 = 64;

/// How many times longer the row is at least: else most elements enter the list.
const TIMES: i64 = 4;

/// Elements of a block: two to four vectors of 512 bits, so that the test of a block costs little beside its loads, and
/// elements that do not enter are looked at rarely.
const BLOCK: i64 = 64;

/// True if the first `few` elements of a row of length `extent` are found faster in this way than by sorting the row.
pub(super) fn is_fast(few: i64, extent: Option<i64>) -> bool {
    (1..=MAX_FEW).contains(&few) && extent.is_none_or(|extent| extent / TIMES >= few)
}

/// The best keys so far, in order, and the positions of their elements.
struct Best {
    few: i64,
    keys: Buffer,
    places: Buffer,
    /// How many of them come before an element.
    before: Buffer,
}

impl Best {
    fn store(&self, at: &PrimExpr, [key, place]: [PrimExpr; 2]) -> [Stmt; 2] {
        [Stmt::store(&self.keys, [at.clone()], key), Stmt::store(&self.places, [at.clone()], place)]
    }

    fn last_key(&self) -> PrimExpr {
        self.keys.load([PrimExpr::index(self.few - 1)])
    }

    /// Makes the first elements of the row the list.
    fn fill(&self, row: &Row<'_>, point: &[PrimExpr]) -> Stmt {
        each("i", &self.few.into(), |i| {
            let mut stmts = Vec::new();
            let key = bind(&mut stmts, "key", row.key(point, i.clone()));
            stmts.push(self.enter(&key, &i, &i));
            stmts
        })
    }

    /// Puts an element into the list that comes after all elements that were looked at before: behind those of the `last`
    /// entries that are not larger. The others of these move by one, over the entry `last`.
    fn enter(&self, key: &PrimExpr, place: &PrimExpr, last: &PrimExpr) -> Stmt {
        let zero = [PrimExpr::index(0)];
        let mut stmts = vec![Stmt::store(&self.before, zero.clone(), PrimExpr::int(0, DataType::I32))];
        stmts.push(each("j", last, |j| {
            let before = self.keys.load([j]).less_equal(key).cast(DataType::I32);
            vec![Stmt::store(&self.before, zero.clone(), self.before.load(zero.clone()) + before)]
        }));
        let before = self.before.load(zero.clone()).cast(DataType::I64);
        let at = bind(&mut stmts, "at", before.max(0).min(last));
        for list in [&self.keys, &self.places] {
            stmts.push(each("j", &(last - &at), |j| {
                vec![Stmt::store(list, [last - &j], list.load([last - j - 1i64]))]
            }));
        }
        stmts.extend(self.store(&at, [key.clone(), place.clone()]));
        Stmt::seq(stmts)
    }
}

/// The first `few` sorted positions of each row.
pub(super) fn positions(row: &Row<'_>, few: i64) -> TensorExpr {
    let extent = row.x.dim(row.axis);
    let key_type = key::dtype(row.x.dtype());
    let keys = local("best", &[few], key_type);
    let [places, before] = [("places", few, DataType::I64), ("before", 1, DataType::I32)]
        .map(|(name, len, dtype)| local(name, &[len], dtype));
    let best = Best { few, keys, places, before };
    let (block, least) = (local("block", &[BLOCK], key_type), local("least", &[1], key_type));
    routine("sorted_positions", &row.others(), (row.shape, DataType::I64), &[row.x], |point, out| {
        let zero = [PrimExpr::index(0)];
        let rest = &extent - few;
        let blocks = each("b", &crate::topi::ceil_div(rest.clone(), &PrimExpr::index(BLOCK)), |b| {
            let mut stmts = Vec::new();
            let begin = bind(&mut stmts, "begin", b * BLOCK);
            let len = bind(&mut stmts, "len", (&rest - &begin).min(BLOCK));
            let place = |i: &PrimExpr| &begin + i + few;
            stmts
                .push(each("i", &len, |i| vec![Stmt::store(&block, [i.clone()], row.key(point, place(&i)))]));
            stmts.push(Stmt::store(&least, zero.clone(), block.load(zero.clone())));
            stmts.push(each("i", &len, |i| {
                let smaller = least.load(zero.clone()).min(block.load([i]));
                vec![Stmt::store(&least, zero.clone(), smaller)]
            }));
            let one_by_one = each("i", &len, |i| {
                let mut stmts = Vec::new();
                let key = bind(&mut stmts, "key", block.load([i.clone()]));
                let enter = best.enter(&key, &place(&i), &PrimExpr::index(few - 1));
                stmts.push(Stmt::if_then_else(key.less(best.last_key()), enter, None));
                stmts
            });
            let any = least.load(zero.clone()).less(best.last_key());
            stmts.push(Stmt::if_then_else(any, one_by_one, None));
            stmts
        });
        let write = each("i", &few.into(), |i| {
            vec![Stmt::store(out, row.indices(point, i.clone()), best.places.load([i]))]
        });
        let body = Stmt::seq([best.fill(row, point), blocks, write]);
        let Best { keys, places, before, .. } = best;
        Routine { scratch: vec![keys, places, before, block, least], body }
    })
}
