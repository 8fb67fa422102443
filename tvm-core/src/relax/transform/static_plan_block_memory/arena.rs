//! Offsets of tensors in one block of memory, the arena.
//!
//! Greedy by size (Y. Pisarchyk and J. Lee, "Efficient memory management for deep neural net inference", 2020): the largest
//! tensor comes first, and each gets the lowest offset at which it overlaps no tensor that is alive at the same time.

use std::cmp::Reverse;

/// A tensor in an arena: its size in bytes, and the times of its allocation and of its last use.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRange {
    pub(super) size: u64,
    pub(super) first: usize,
    pub(super) last: usize,
}

impl LiveRange {
    fn meets(&self, other: &LiveRange) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The offset of each tensor, and the size of the arena: at most the sum of the sizes, which must fit in a `u64`, because
/// each tensor that is not at offset 0 begins where another one ends. Offsets are sums of sizes.
pub(super) fn pack(ranges: &[LiveRange]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&i| Reverse(ranges[i].size));
    let mut offsets = vec![0; ranges.len()];
    let mut total = 0;
    // Ordered by offset.
    let mut placed: Vec<usize> = Vec::with_capacity(ranges.len());
    for i in order {
        let size = ranges[i].size;
        let mut offset = 0;
        for &other in placed.iter().filter(|&&other| ranges[i].meets(&ranges[other])) {
            if offset + size <= offsets[other] {
                break;
            }
            offset = offset.max(offsets[other] + ranges[other].size);
        }
        offsets[i] = offset;
        total = total.max(offset + size);
        placed.insert(placed.partition_point(|&other| offsets[other] <= offset), i);
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvm_testing::Rng;

    #[test]
    fn tensors_take_the_lowest_gap_between_those_alive_at_the_same_time() {
        let range = |size, first, last| LiveRange { size, first, last };
        let cases: [(&[LiveRange], &[u64], u64); 4] = [
            (&[], &[], 0),
            // One after the other.
            (&[range(64, 0, 1), range(192, 2, 3), range(128, 4, 5)], &[0, 0, 0], 192),
            // A chain: each meets its neighbours.
            (&[range(64, 0, 1), range(64, 1, 2), range(64, 2, 3)], &[0, 64, 0], 128),
            // The last one fits between the first and the third.
            (
                &[range(256, 0, 9), range(192, 0, 3), range(128, 2, 9), range(64, 5, 9)],
                &[0, 256, 448, 256],
                576,
            ),
        ];
        for (ranges, offsets, size) in cases {
            assert_eq!(pack(ranges), (offsets.to_vec(), size), "{ranges:?}");
        }
    }

    #[test]
    fn random_tensors_that_meet_do_not_overlap() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let (count, times) = (rng.below(40), 1 + rng.below(60));
            let ranges: Vec<LiveRange> = (0..count)
                .map(|_| {
                    let (size, first) = (64 * rng.below(20) as u64, rng.below(times));
                    LiveRange { size, first, last: first + rng.below(8) }
                })
                .collect();
            let (offsets, size) = pack(&ranges);
            for i in 0..count {
                assert!(offsets[i] + ranges[i].size <= size && offsets[i] % 64 == 0, "seed {seed}");
                for j in 0..i {
                    let apart = offsets[i] + ranges[i].size <= offsets[j]
                        || offsets[j] + ranges[j].size <= offsets[i];
                    assert!(apart || !ranges[i].meets(&ranges[j]), "seed {seed}: {ranges:?} {offsets:?}");
                }
            }
            let alive = |time| ranges.iter().filter(move |it| it.first <= time && time <= it.last);
            let peak = (0..times + 8).map(|time| alive(time).map(|it| it.size).sum::<u64>()).max();
            let sum: u64 = ranges.iter().map(|it| it.size).sum();
            assert!(peak.unwrap_or(0) <= size && size <= sum, "seed {seed}: {peak:?} {size} {sum}");
        }
    }
}
