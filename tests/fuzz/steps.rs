//! Random schedule primitives, with valid and invalid arguments.

use tvm::tir::schedule::{BlockRV, Factor, LoopRV, Schedule, ScheduleError};
use tvm::tir::transform::PRAGMA_UNROLL;
use tvm::tir::{IndexMap, Scope, ThreadTag};
use tvm_testing::Rng;

/// Handles that steps may use in addition to those of the current program.
#[derive(Clone, Default)]
pub(crate) struct Handles {
    /// Handles from earlier steps; they may be invalid by now.
    old: Vec<LoopRV>,
    old_blocks: Vec<BlockRV>,
}

/// Outcome of a step.
pub(crate) struct Done {
    /// Text of the call.
    pub(crate) call: String,
    pub(crate) result: Result<(), ScheduleError>,
    /// True if a handle belongs to another schedule; the call must then be refused.
    pub(crate) foreign: bool,
}

const FACTORS: [i64; 9] = [2, 3, 4, 5, 8, 1, 7, 16, 6];
const BAD_FACTORS: [i64; 7] = [0, -1, -4, 1 << 20, 1 << 40, i64::MAX, i64::MIN];
const SCOPES: [Scope; 4] = [Scope::Global, Scope::Local, Scope::Local, Scope::Shared];
const MAPS: [&str; 9] = [
    "|i| [i / 2, i % 2]",
    "|i| [i + 3]",
    "|i, j| [j, i]",
    "|i, j| [j / 4, i, j % 4]",
    "|i, j| [i * 8 + j]",
    "|i, j| [i * 16 + j, i * 0]",
    "|i, j, k| [k, j, i]",
    "|i, j, k| [i / 2, j / 2, k, j % 2, i % 2]",
    "|i, j, k, l| [l, k, i, j]",
];
/// Tensor intrinsics, with the rows, columns and terms of their products.
const INTRINSICS: [(&str, [i64; 3]); 11] = [
    ("fma_1x8_f32", [1, 8, 1]),
    ("fma_1x16_f32", [1, 16, 1]),
    ("fma_4x16_f32", [4, 16, 1]),
    ("fma_8x16_f32", [8, 16, 1]),
    ("dot_8x4_vnni", [1, 8, 4]),
    ("dot_16x4_vnni", [1, 16, 4]),
    ("dot_8x2_bf16", [1, 8, 2]),
    ("dot_16x2_bf16", [1, 16, 2]),
    ("dot_4x4_i8i8s32_sdot", [1, 4, 4]),
    ("dot_4x4_u8u8u32_udot", [1, 4, 4]),
    ("no such", [1, 4, 4]),
];
const TAGS: [ThreadTag; 3] = [ThreadTag::BlockIdxX, ThreadTag::ThreadIdxX, ThreadTag::Vthread];

/// Applies the step that `seed` determines to `s`.
pub(crate) fn step(s: &mut Schedule, handles: &mut Handles, seed: u64) -> Done {
    let mut rng = Rng::new(seed);
    let rng = &mut rng;
    let names: Vec<String> = s.state().blocks().iter().map(|it| it.block.name.to_string()).collect();
    // Pick the root block rarely.
    let name = |rng: &mut Rng| {
        if rng.one_in(25) {
            &names[0]
        } else {
            &names[names.len() - 1 - rng.below(names.len().max(2) - 1).min(names.len() - 1)]
        }
    };
    let (first, second) = (name(rng).clone(), name(rng).clone());
    let lookup = |s: &mut Schedule, name: &str| s.block(name).expect("the name of a block");
    let foreign = rng.one_in(40);
    let (mut block, mut loops, mut others, consumer);
    if foreign {
        let mut other = Schedule::new(s.func().clone()).expect("a program under schedule");
        block = lookup(&mut other, &first);
        loops = other.get_loops(block).expect("loops of a block");
        consumer = lookup(&mut other, &second);
        others = other.get_loops(consumer).expect("loops of a block");
    } else {
        block = lookup(s, &first);
        loops = s.get_loops(block).expect("loops of a block");
        consumer = lookup(s, &second);
        others = s.get_loops(consumer).expect("loops of a block");
        if rng.one_in(20) && !handles.old.is_empty() {
            loops.push(*rng.pick(&handles.old));
            others.push(*rng.pick(&handles.old));
            block = *rng.pick(&handles.old_blocks);
        }
        handles.old.extend(&loops);
        handles.old_blocks.push(block);
    }
    let no_loop = loops.is_empty() || others.is_empty();
    let op = rng.below(if no_loop { 15 } else { 73 });
    let pick = |rng: &mut Rng, loops: &[LoopRV]| *rng.pick(loops);
    let (call, result) = match op {
        7 => ("block(\"no such\")".to_string(), s.block("no such").map(drop)),
        15..=20 => split(s, pick(rng, &loops), rng),
        21 | 22 => {
            let at = rng.below(loops.len());
            let pair = match loops.get(at + 1) {
                Some(next) if !rng.one_in(5) => [loops[at], *next],
                _ => [pick(rng, &loops), pick(rng, &loops)],
            };
            ("fuse".into(), s.fuse(pair).map(drop))
        }
        23..=25 => {
            let order = [pick(rng, &loops), pick(rng, &loops), pick(rng, &loops)];
            if rng.one_in(3) {
                ("reorder of 3".into(), s.reorder(order))
            } else {
                ("reorder".into(), s.reorder([order[0], order[1]]))
            }
        }
        26 => ("parallel".into(), s.parallel(pick(rng, &loops))),
        27 => ("vectorize".into(), s.vectorize(pick(rng, &loops))),
        28 => ("vectorize".into(), s.vectorize(loops[loops.len() - 1])),
        29 => ("unroll".into(), s.unroll(pick(rng, &loops))),
        30 => {
            let tag = *rng.pick(&TAGS);
            (format!("bind(_, {tag:?})"), s.bind(pick(rng, &loops), tag))
        }
        31 | 32 => ("compute_at".into(), s.compute_at(block, pick(rng, &others))),
        33 | 34 => ("reverse_compute_at".into(), s.reverse_compute_at(block, pick(rng, &others))),
        35..=37 => ("decompose_reduction".into(), s.decompose_reduction(block, pick(rng, &loops)).map(drop)),
        38 | 39 => {
            let layouts =
                [("I", "I2i"), ("IJ", "JI"), ("IJ", "IJ3j"), ("IJK", "KI2iJ"), ("IJ", "K"), ("IJKL", "LKJI")];
            let (index, (from, to)) = (rng.below(3), *rng.pick(&layouts));
            let call = format!("transform_layout(_, {index}, {from:?}, {to:?})");
            (call, s.transform_layout(block, index, from, to))
        }
        40..=42 => {
            let axis = rng.below(5) as i64 - 2;
            (format!("rfactor(_, {axis})"), s.rfactor(pick(rng, &loops), axis).map(drop))
        }
        43 | 44 => ("decompose_padding".into(), s.decompose_padding(block, pick(rng, &loops)).map(drop)),
        45 => ("add_unit_loop".into(), s.add_unit_loop(pick(rng, &loops)).map(drop)),
        50 | 51 => {
            let dim = Factor::from(*rng.pick(&["m", "n", "k", "no such"]));
            let factors = match rng.below(3) {
                0 => [Factor::Infer, dim],
                1 => [dim, Factor::Infer],
                _ => [dim.clone(), dim],
            };
            (format!("split(_, {factors:?})"), s.split(pick(rng, &loops), factors).map(drop))
        }
        47..=49 => {
            let points: Vec<i64> = (0..1 + rng.below(2)).map(|_| *rng.pick(&FACTORS)).collect();
            let points = if rng.one_in(16) { vec![*rng.pick(&BAD_FACTORS)] } else { points };
            let call = format!("loop_partition(_, {points:?})");
            (call, s.loop_partition_n(pick(rng, &loops), &points).map(drop))
        }
        60..=62 => ("blockize".into(), s.blockize(pick(rng, &loops)).map(drop)),
        63 => {
            let intrin = rng.pick(&INTRINSICS).0;
            (format!("tensorize(_, {intrin:?})"), s.tensorize(pick(rng, &loops), intrin).map(drop))
        }
        64..=67 => tile(s, block, &loops, rng),
        46 => ("unannotate of a loop".into(), s.unannotate(pick(rng, &loops), "pragma")),
        72 => ("atomic".into(), s.atomic(block, false)),
        68 | 69 => ("fuse_reduction_epilogue".into(), s.fuse_reduction_epilogue(block, consumer)),
        70 => {
            let copies = *rng.pick(&[1i64, 2, 3, 4, 8, 1024]);
            ("annotate with `pragma_unroll`".into(), s.annotate(pick(rng, &loops), PRAGMA_UNROLL, copies))
        }
        0..=6 | 8..=14 | 52..=59 => block_step(s, block, rng, op),
        _ => ("annotate".into(), s.annotate(pick(rng, &loops), "pragma", true)),
    };
    let foreign = foreign && op != 7;
    Done { call: format!("{call} on `{first}`, `{second}`"), result, foreign }
}

/// Splits `target`, sometimes by factors that are refused.
fn split(s: &mut Schedule, target: LoopRV, rng: &mut Rng) -> (String, Result<(), ScheduleError>) {
    let factor = |rng: &mut Rng| match rng.below(16) {
        0 => Some(*rng.pick(&BAD_FACTORS)),
        1..8 => Some(*rng.pick(&FACTORS)),
        _ => None,
    };
    if rng.one_in(4) {
        let factors = [factor(rng), factor(rng), factor(rng)];
        return (format!("split(_, {factors:?})"), s.split(target, factors).map(drop));
    }
    let good = Some(*rng.pick(&FACTORS));
    let factors = match rng.below(3) {
        0 => [None, good],
        1 => [good, None],
        _ => [factor(rng), factor(rng)],
    };
    (format!("split(_, {factors:?})"), s.split(target, factors).map(drop))
}

/// Tiles the last three of `loops` for an intrinsic, and mostly replaces the tile by it.
fn tile(
    s: &mut Schedule,
    block: BlockRV,
    loops: &[LoopRV],
    rng: &mut Rng,
) -> (String, Result<(), ScheduleError>) {
    let (intrin, sizes) = *rng.pick(&INTRINSICS);
    let blockize = rng.one_in(3);
    let mut forked = s.clone();
    let mut apply = || {
        let (mut outer, mut inner) = (loops[..loops.len().saturating_sub(3)].to_vec(), Vec::new());
        for (target, size) in loops[outer.len()..].iter().zip(sizes) {
            let [a, b] = forked.split(*target, [None, Some(size)])?;
            outer.push(a);
            inner.push(b);
        }
        forked.reorder_n(&[outer, inner.clone()].concat())?;
        let at = inner[if sizes[0] == 1 { inner.len().min(2) - 1 } else { 0 }];
        let tile = if blockize { forked.blockize(at)? } else { forked.tensorize(at, intrin)? };
        if rng.one_in(3) {
            let around = forked.get_loops(tile)?;
            forked.decompose_reduction(tile, *rng.pick(&around))?;
        }
        Ok(())
    };
    let result = apply();
    if result.is_ok() {
        *s = forked;
    }
    let what = if blockize { "blockize" } else { "tensorize" };
    (format!("tile by {sizes:?}, {what}(_, {intrin:?}) of {block:?}"), result)
}

/// Steps of a block, without loops.
fn block_step(
    s: &mut Schedule,
    block: BlockRV,
    rng: &mut Rng,
    op: usize,
) -> (String, Result<(), ScheduleError>) {
    match op {
        0 => ("compute_inline".into(), s.compute_inline(block)),
        1 => ("reverse_compute_inline".into(), s.reverse_compute_inline(block)),
        2 | 3 => {
            let (index, scope) = (rng.below(3), *rng.pick(&SCOPES));
            (format!("cache_read(_, {index}, {scope:?})"), s.cache_read(block, index, scope).map(drop))
        }
        4 | 5 => {
            let (index, scope) = (rng.below(2), *rng.pick(&SCOPES));
            (format!("cache_write(_, {index}, {scope:?})"), s.cache_write(block, index, scope).map(drop))
        }
        6 => ("annotate".into(), s.annotate(block, "pragma", 3i64)),
        8 => ("add_unit_loop of a block".into(), s.add_unit_loop(block).map(drop)),
        9 | 10 => {
            let (index, scope) = (rng.below(3), *rng.pick(&SCOPES));
            (format!("set_scope(_, {index}, {scope:?})"), s.set_scope(block, index, scope))
        }
        11 => ("unannotate".into(), s.unannotate(block, "pragma")),
        12 => ("unannotate \"no such\"".into(), s.unannotate(block, "no such")),
        13 | 14 => {
            let (axis, factor, offset) = (rng.below(5) as i64 - 2, *rng.pick(&FACTORS), rng.below(3) as i64);
            let factor = if rng.one_in(16) { *rng.pick(&BAD_FACTORS) } else { factor };
            let call = format!("storage_align(_, 0, {axis}, {factor}, {offset})");
            (call, s.storage_align(block, 0, axis, factor, offset))
        }
        59 => {
            let intrin = rng.pick(&INTRINSICS).0;
            (format!("tensorize(block, {intrin:?})"), s.tensorize(block, intrin).map(drop))
        }
        52 | 53 => {
            let text = *rng.pick(&MAPS);
            let map: IndexMap = text.parse().expect("an index map");
            (format!("transform_block_layout(_, {text:?})"), s.transform_block_layout(block, map))
        }
        54 | 55 => {
            let index = rng.below(4);
            (format!("reindex(_, {index})"), s.reindex(block, index).map(drop))
        }
        56 | 57 => {
            let multiple = |rng: &mut Rng| {
                if rng.one_in(12) { *rng.pick(&BAD_FACTORS) } else { *rng.pick(&[1, 2, 4, 8]) }
            };
            let padding: Vec<i64> = (0..rng.range(1, 4)).map(|_| multiple(rng)).collect();
            (format!("pad_einsum(_, {padding:?})"), s.pad_einsum(block, &padding))
        }
        _ => {
            let (scope, uses) = (*rng.pick(&SCOPES), rng.below(4));
            let call = format!("cache_index(_, {scope:?}, {uses})");
            (call, s.cache_index(block, scope, uses).map(drop))
        }
    }
}
