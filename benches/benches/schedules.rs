//! Cost of scheduling a function of 64 blocks: a fork of the schedule, and each primitive on a fork.
#![allow(missing_docs, reason = "criterion's macros")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use tvm::runtime::DataType;
use tvm::te;
use tvm::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use tvm::tir::{PrimExpr, PrimFunc, Scope, ThreadTag};

const BLOCKS: usize = 64;

/// A chain of 63 element-wise stages over 128 × 96 elements, with a reduction over rows of 96 elements in the middle.
fn chain() -> PrimFunc {
    let dims = [PrimExpr::index(128), PrimExpr::index(96)];
    let x = te::placeholder("x", dims.clone(), DataType::F32);
    let mut last = x.clone();
    for i in 0..BLOCKS {
        let input = last.clone();
        last = if i == BLOCKS / 2 {
            let r = te::reduce_axis("r", 96);
            te::compute("sums", dims.clone(), &[&input], |at: &[PrimExpr]| {
                te::sum(input.at([at[0].clone(), r.expr()]) * input.at(at.to_vec()), &[&r])
            })
        } else {
            te::compute(&format!("b{i}"), dims.clone(), &[&input], |at: &[PrimExpr]| {
                input.at(at.to_vec()) + 1
            })
        };
    }
    te::create_prim_func("chain", &[x], &[last]).unwrap_or_else(|err| panic!("{err}"))
}

/// Applies one primitive to the sums, to their producer or to their consumers.
type Step = fn(&mut Schedule, &Handles) -> Result<(), ScheduleError>;

/// The blocks and loops to which the steps apply primitives.
struct Handles {
    producer: BlockRV,
    sums: BlockRV,
    consumer: BlockRV,
    /// Consumer of the consumer.
    next: BlockRV,
    /// Loops of the sums, outermost first.
    loops: [LoopRV; 3],
    /// Inner loop of the consumer.
    inner: LoopRV,
}

fn steps() -> Vec<(&'static str, Step)> {
    vec![
        ("split", |s, h| s.split(h.loops[0], [None, Some(8)]).map(drop)),
        ("fuse", |s, h| s.fuse([h.loops[0], h.loops[1]]).map(drop)),
        ("reorder", |s, h| s.reorder([h.loops[1], h.loops[0]])),
        ("parallel", |s, h| s.parallel(h.loops[0])),
        ("vectorize", |s, h| s.vectorize(h.inner)),
        ("unroll", |s, h| s.unroll(h.loops[2])),
        ("bind", |s, h| s.bind(h.loops[0], ThreadTag::BlockIdxX)),
        ("cache_read", |s, h| s.cache_read(h.sums, 0, Scope::Global).map(drop)),
        ("cache_write", |s, h| s.cache_write(h.sums, 0, Scope::Global).map(drop)),
        ("transform_layout", |s, h| s.transform_layout(h.producer, 0, "IJ", "JI")),
        ("compute_at", |s, h| s.compute_at(h.producer, h.loops[0])),
        ("reverse_compute_at", |s, h| s.reverse_compute_at(h.consumer, h.loops[0])),
        ("compute_inline", |s, h| s.compute_inline(h.producer)),
        ("reverse_compute_inline", |s, h| s.reverse_compute_inline(h.next)),
        ("decompose_reduction", |s, h| s.decompose_reduction(h.sums, h.loops[2]).map(drop)),
        ("rfactor", |s, h| s.rfactor(h.loops[2], 0).map(drop)),
        ("annotate", |s, h| s.annotate(h.sums, "hint", 1)),
    ]
}

fn schedules(c: &mut Criterion) {
    let mut schedule = Schedule::new(chain()).expect("it can be scheduled");
    let handles = handles(&mut schedule).unwrap_or_else(|err| panic!("{err}"));
    let mut group = c.benchmark_group("schedules");
    group.bench_function("fork", |b| b.iter_with_large_drop(|| schedule.clone()));
    for (name, step) in steps() {
        step(&mut schedule.clone(), &handles).unwrap_or_else(|err| panic!("{name}: {err}"));
        group.bench_function(name, |b| {
            b.iter_batched(
                || schedule.clone(),
                |mut fork| {
                    let _done = step(&mut fork, &handles);
                    fork
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn handles(s: &mut Schedule) -> Result<Handles, ScheduleError> {
    let middle = BLOCKS / 2;
    let (producer, sums) = (s.block(&format!("b{}", middle - 1))?, s.block("sums")?);
    let (consumer, next) = (s.block(&format!("b{}", middle + 1))?, s.block(&format!("b{}", middle + 2))?);
    let loops = s.loops(sums)?;
    let [_, inner] = s.loops(consumer)?;
    Ok(Handles { producer, sums, consumer, next, loops, inner })
}

criterion_group!(benches, schedules);
criterion_main!(benches);
