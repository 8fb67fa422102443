//! Loops bound to the same thread index inside a loop over threads: their threads are not synchronised.

use tvm::prelude::*;
use tvm::script::check_schedule;
use tvm::tir::PrimFunc;
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

/// Binds the row loop to one index and both loops inside to another, in the order of `blocks`.
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
    // Loops that are separate kernels are launched one after the other.
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

/// Each step overwrites what the previous steps wrote, shifted by one element.
#[prim_func]
fn steps(y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            for k in 0..4 {
                for j in 0..n - 3 {
                    block("y", [O(k), S(j)], |[vk, vj]| y[[vi, vj + vk]] = vk as f32);
                }
            }
        });
    }
}

/// As `steps`, with a separate place for each step.
#[prim_func]
fn columns(y: &mut Tensor<f32, m, n, 4>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            for k in 0..4 {
                for j in 0..n {
                    block("y", [O(k), S(j)], |[vk, vj]| y[[vi, vj, vk]] = vk as f32);
                }
            }
        });
    }
}

/// As `columns`, in one dimension.
#[prim_func]
fn flat(y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            for k in 0..4 {
                for j in 0..n / 4 {
                    block("y", [O(k), S(j)], |[vk, vj]| y[[vi, vj * 4 + vk]] = vk as f32);
                }
            }
        });
    }
}

/// Binds the rows, and inside them the loop over elements, which every step runs.
fn bind_steps(func: PrimFunc, row_first: bool) -> Result<PrimFunc, ScheduleError> {
    let mut s = Schedule::new(func)?;
    let y = s.block("y")?;
    let [_, j] = s.loops(y)?;
    let row = loop_of(&mut s, "row")?;
    let mut binds = [(row, ThreadTag::BlockIdxX), (j, ThreadTag::ThreadIdxX)];
    if !row_first {
        binds.reverse();
    }
    for (it, tag) in binds {
        s.bind(it, tag)?;
    }
    Ok(s.into_func())
}

#[test]
fn threads_do_not_wait_between_the_steps_of_a_loop_in_their_kernel() {
    for row_first in [true, false] {
        let text = bind_steps(steps::prim_func().unwrap(), row_first).unwrap_err().to_string();
        for part in ["threads run loop `j` several times", "`y`", "help:"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        check_schedule::<columns>(|func| bind_steps(func, row_first)).unwrap();
        check_schedule::<flat>(|func| bind_steps(func, row_first)).unwrap();
    }
    // If only the elements are bound, each step is a kernel of its own.
    check_schedule::<steps>(|func| {
        let mut s = Schedule::new(func)?;
        let y = s.block("y")?;
        let [_, j] = s.loops(y)?;
        s.bind(j, ThreadTag::ThreadIdxX)?;
        Ok(s.into_func())
    })
    .unwrap();
}

#[prim_func]
fn turned_by_attributes(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>, t: &mut Tensor<f32, m, n>) {
    #[bind("blockIdx.x")]
    for i in 0..m {
        #[bind("threadIdx.x")]
        for j in 0..n {
            t[[i, j]] = x[[i, j]] + 1.0;
        }
        #[bind("threadIdx.x")]
        for j in 0..n {
            y[[i, j]] = t[[i, n - 1 - j]];
        }
    }
}

#[prim_func]
fn steps_by_attributes(y: &mut Tensor<f32, m, n>) {
    #[bind("blockIdx.x")]
    for i in 0..m {
        for k in 0..4 {
            #[bind("threadIdx.x")]
            for j in 0..n - 3 {
                block("y", [S(i), O(k), S(j)], |[vi, vk, vj]| y[[vi, vj + vk]] = vk as f32);
            }
        }
    }
}

#[prim_func]
fn straight_by_attributes(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>, t: &mut Tensor<f32, m, n>) {
    #[bind("blockIdx.x")]
    for i in 0..m {
        #[bind("threadIdx.x")]
        for j in 0..n {
            t[[i, j]] = x[[i, j]] + 1.0;
        }
        #[bind("threadIdx.x")]
        for j in 0..n {
            y[[i, j]] = t[[i, j]];
        }
    }
}

#[test]
fn the_same_holds_for_attributes() {
    let two = turned_by_attributes::prim_func().unwrap_err().to_string();
    assert!(two.contains("are run by the same threads") && two.contains("`t`"), "{two}");
    let steps = steps_by_attributes::prim_func().unwrap_err().to_string();
    assert!(steps.contains("several times") && steps.contains("`y`"), "{steps}");
    straight_by_attributes::prim_func().unwrap();
}

/// A code generator for CPUs names the kernel and the line of what it does not support.
#[test]
fn threads_are_not_for_a_cpu() {
    let mut s = Schedule::new(straight::prim_func().unwrap()).unwrap();
    bind(&mut s, ["row", "t", "y"]).unwrap();
    let func = s.func().clone();
    let mut targets = vec![Target::c()];
    if cfg!(feature = "llvm") {
        targets.push(Target::llvm());
    }
    for target in targets {
        let err = tvm::codegen::compile(&func, &target).unwrap_err();
        let text = err.to_string();
        for part in ["kernel `straight`: ", "\n  --> tests/prim_func/threads.rs:", "ThreadBinding"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
