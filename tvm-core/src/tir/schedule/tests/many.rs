//! Many primitives on one loop.

use std::time::{Duration, Instant};

use super::*;

/// Time of `count` splits, each of the outer loop that the last one gave.
fn split_many(count: usize) -> Duration {
    let mut s = Schedule::new(dense(dim(1 << 20), dim(4), dim(4))).unwrap();
    let y = s.block("y").unwrap();
    let [mut outer, ..] = s.loops::<3>(y).unwrap();
    let start = Instant::now();
    for i in 0..count {
        let factor = if i % 100 == 0 { 2 } else { 1 };
        [outer, _] = s.split(outer, [None, Some(factor)]).unwrap();
    }
    start.elapsed()
}

#[test]
fn splits_of_one_loop_do_not_explode() {
    let (some, many) = (split_many(200), split_many(800));
    println!("200 splits: {some:?}, 800 splits: {many:?}");
    assert!(many < some * 60 + Duration::from_secs(1), "{some:?} for 200 splits, {many:?} for 800");
}

#[test]
fn loops_of_one_name_are_told_apart() {
    let mut s = Schedule::new(small_dense()).unwrap();
    let y = s.block("y").unwrap();
    let [i, ..] = s.loops::<3>(y).unwrap();
    let [outer, _] = s.split(i, [None, Some(4)]).unwrap();
    let nest = s.outline();
    for line in ["for i0_0 in 0..2", "for i0 in 0..7", "for i0#2 in 0..7", "if i0_0 * 4 + i0_1 < 7"] {
        assert!(nest.contains(line), "{line} is missing in\n{nest}");
    }
    let z = s.block("z").unwrap();
    let [other, _] = s.loops(z).unwrap();
    let err = s.fuse([outer, other]).unwrap_err().to_string();
    assert!(err.contains("loop `i0`"), "{err}");
}
