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
}

impl Best {
    /// Entry `at`: its key, and its position.
    fn load(&self, at: &PrimExpr) -> [PrimExpr; 2] {
        [&self.keys, &self.places].map(|it| it.load([at.clone()]))
    }

    fn store(&self, at: &PrimExpr, [key, place]: [PrimExpr; 2]) -> [Stmt; 2] {
        [Stmt::store(&self.keys, [at.clone()], key), Stmt::store(&self.places, [at.clone()], place)]
    }

    fn last_key(&self) -> PrimExpr {
        self.keys.load([PrimExpr::index(self.few - 1)])
    }

    /// Makes the first elements of the row the list: each moves to the front while it comes before its neighbour.
    fn fill(&self, row: &Row<'_>, point: &[PrimExpr]) -> Stmt {
        each("i", &self.few.into(), |i| {
            let mut stmts = self.store(&i, [row.key(point, i.clone()), i.clone()]).to_vec();
            stmts.push(each("j", &i, |j| {
                let (mut stmts, after) = (Vec::new(), &i - j);
                let before = &after - 1i64;
                let [key, place] = self.load(&before);
                let [left, left_place] =
                    [bind(&mut stmts, "left", key), bind(&mut stmts, "left_place", place)];
                let [key, place] = self.load(&after);
                let [right, right_place] =
                    [bind(&mut stmts, "right", key), bind(&mut stmts, "right_place", place)];
                let swap = bind(&mut stmts, "swap", right.clone().less(&left));
                let choose = |a: &PrimExpr, b: &PrimExpr| swap.clone().select(a.clone(), b.clone());
                stmts.extend(self.store(&before, [choose(&right, &left), choose(&right_place, &left_place)]));
                stmts.extend(self.store(&after, [choose(&left, &right), choose(&left_place, &right_place)]));
                stmts
            }));
            stmts
        })
    }

    /// Puts an element that comes before the last of the list, and after all elements that were looked at before, into the
    /// list: what comes after it moves by one.
    fn enter(&self, key: &PrimExpr, place: &PrimExpr) -> Stmt {
        let last = self.few - 1;
        let moves = each("j", &last.into(), |j| {
            let (mut stmts, at) = (Vec::new(), PrimExpr::index(last) - j);
            let before = &at - 1i64;
            let [left, left_place] = self.load(&before);
            let left = bind(&mut stmts, "left", left);
            let [here, here_place] = self.load(&at);
            let here = bind(&mut stmts, "here", here);
            let moves = bind(&mut stmts, "moves", key.clone().less(&left));
            let enters = bind(&mut stmts, "enters", key.clone().less(&here));
            let choose = |left: PrimExpr, new: &PrimExpr, here: PrimExpr| {
                moves.clone().select(left, enters.clone().select(new.clone(), here))
            };
            let place = choose(left_place, place, here_place);
            stmts.extend(self.store(&at, [choose(left, key, here.clone()), place]));
            stmts
        });
        let first = PrimExpr::index(0);
        let enters = key.clone().less(self.keys.load([first.clone()]));
        let enter = Stmt::seq(self.store(&first, [key.clone(), place.clone()]));
        Stmt::seq([moves, Stmt::if_then_else(enters, enter, None)])
    }
}

/// The first `few` sorted positions of each row.
pub(super) fn positions(row: &Row<'_>, few: i64) -> TensorExpr {
    let extent = row.x.dim(row.axis);
    let key_type = key::dtype(row.x.dtype());
    let keys = local("best", &[few], key_type);
    let best = Best { few, keys, places: local("places", &[few], DataType::I64) };
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
                let enter = best.enter(&key, &place(&i));
                stmts.push(Stmt::if_then_else(key.less(best.last_key()), enter, None));
                stmts
            });
            let any = least.load(zero.clone()).less(best.last_key());
            stmts.push(Stmt::if_then_else(any, one_by_one, None));
            stmts
        });
        let write = each("i", &few.into(), |i| {
            vec![Stmt::store(out, row.indices(point, i.clone()), best.load(&i)[1].clone())]
        });
        let body = Stmt::seq([best.fill(row, point), blocks, write]);
        let Best { keys, places, .. } = best;
        Routine { scratch: vec![keys, places, block, least], body }
    })
}
