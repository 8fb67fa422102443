//! Loops that are bound to one thread index inside of a loop over threads: their threads do not wait for each other.

use tvm::prelude::*;
use tvm::script::check_schedule;
use tvm::tir::schedule::{LoopRV, ScheduleError};

#[prim_func]
fn turned(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            let mut t = alloc::<f32>([n]);
            for j in 0..n {
                block("t", [S(j)], |[vj]| t[[vj]] = x[[vi, vj]] + 1.0);
            }
            for j in 0..n {
                block("y", [S(j)], |[vj]| y[[vi, vj]] = t[[n - 1 - vj]] * 2.0);
            }
        });
    }
}

#[prim_func]
fn straight(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            let mut t = alloc::<f32>([n]);
            for j in 0..n {
                block("t", [S(j)], |[vj]| t[[vj]] = x[[vi, vj]] + 1.0);
            }
            for j in 0..n {
                block("y", [S(j)], |[vj]| y[[vi, vj]] = t[[vj]] * 2.0);
            }
        });
    }
}

fn loop_of(s: &mut Schedule, block: &str) -> Result<LoopRV, ScheduleError> {
    let block = s.block(block)?;
    let [it] = s.loops(block)?;
    Ok(it)
}

/// Binds rows to one index and both loops inside to another, in the order of `blocks`.
fn bind(s: &mut Schedule, blocks: [&str; 3]) -> Result<(), ScheduleError> {
    for block in blocks {
        let tag = if block == "row" { ThreadTag::BlockIdxX } else { ThreadTag::ThreadIdxX };
        let it = loop_of(s, block)?;
        s.bind(it, tag)?;
    }
    Ok(())
}

#[test]
fn what_another_thread_wrote_is_not_read_without_a_barrier() {
    for blocks in [["row", "t", "y"], ["t", "y", "row"], ["y", "row", "t"]] {
        let mut s = Schedule::new(turned::prim_func().unwrap()).unwrap();
        let text = bind(&mut s, blocks).unwrap_err().to_string();
        for part in ["the same threads", "`t`", "help:"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        check_schedule::<straight>(|func| {
            let mut s = Schedule::new(func)?;
            bind(&mut s, blocks)?;
            Ok(s.into_func())
        })
        .unwrap();
    }
    // Kernels of their own are launched one after the other.
    check_schedule::<turned>(|func| {
        let mut s = Schedule::new(func)?;
        for block in ["t", "y"] {
            let it = loop_of(&mut s, block)?;
            s.bind(it, ThreadTag::ThreadIdxX)?;
        }
        Ok(s.into_func())
    })
    .unwrap();
}
