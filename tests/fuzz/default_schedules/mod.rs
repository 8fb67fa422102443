//! Default schedules: random programs of every family, on machines of random sizes, compared with the interpreter, which
//! runs them as they are written.
//!
//! Every kernel runs on 1, 2 and 7 threads, with its tensors behind and in front of pages that nobody may touch
//! (`guard.rs`), and has the same bits each time. How far it may be from the interpreter is stated with each family, as a
//! [`Bound`](program::Bound). Inputs hold NaN, infinities, zeros of both signs and subnormal numbers, too.

mod batch;
mod guard;
mod products;
mod program;
mod written;

use tvm_testing::Rng;

/// Extents at which tiles end: nothing, one, primes, a little less and more than a tile.
const EXTENTS: [i64; 20] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 47, 64, 67, 129];

/// Random extents, one of each list, with a product of at most `most`. Empty ones are rare.
fn below<const N: usize>(rng: &mut Rng, most: i64, lists: [&[i64]; N]) -> [i64; N] {
    loop {
        let res = lists.map(|list| *rng.pick(list));
        if res.iter().product::<i64>() <= most && (!res.contains(&0) || rng.one_in(6)) {
            return res;
        }
    }
}

#[test]
fn fuzz_default_products() {
    batch::fuzz("default_products", (3, 10), &["contraction", "reduction", "skinny product"], products::product);
}
