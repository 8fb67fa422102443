//! Schedules of which one iteration computes, or copies, part of a buffer: what is used there is there.

use tvm::prelude::*;
use tvm::script::{check_equivalent, check_schedule};
use tvm::tir::interp::{Program, Value};
use tvm::tir::schedule::ScheduleError;

#[prim_func]
fn two_stages(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let t = alloc::<f32>([n]);
    for i in 0..n {
        block("t", [S(i)], |[vi]| t[[vi]] = x[[vi]] + 1.0);
    }
    for i in 0..n {
        block("y", [S(i)], |[vi]| y[[vi]] = t[[vi]] * 2.0);
    }
}

/// Splits the producer's loop by `factors`, one after the other, and moves the consumer under the `at`-th loop.
fn consume_at(factors: &[i64], at: usize) -> Result<Schedule, ScheduleError> {
    let mut s = Schedule::new(two_stages::prim_func().expect("well formed"))?;
    let (t, y) = (s.block("t")?, s.block("y")?);
    for &factor in factors {
        let last = s.get_loops(t)?.len() - 1;
        let inner = s.get_loops(t)?[last];
        s.split(inner, [None, Some(factor)])?;
    }
    let target = s.get_loops(t)?[at];
    s.reverse_compute_at(y, target)?;
    Ok(s)
}

#[test]
fn a_consumer_moves_where_a_predicate_leaves_nothing_out() {
    for (factors, at, legal) in [
        (&[2][..], 0, true),
        (&[4, 2], 0, true),
        (&[4, 2], 1, true),
        // Only two of six iterations run.
        (&[2, 6], 0, false),
        (&[2, 6], 1, false),
        (&[5, 3], 0, false),
        (&[5, 3], 1, false),
    ] {
        match consume_at(factors, at) {
            Ok(s) => {
                assert!(legal, "{factors:?} {at}:\n{}", s.func());
                check_equivalent(&two_stages::prim_func().unwrap(), s.func()).unwrap();
            }
            Err(err) => {
                let text = err.to_string();
                assert!(!legal && text.contains("does not write all of"), "{factors:?} {at}: {text}");
            }
        }
    }
}

#[prim_func]
fn rows(x: &Tensor<f32, n, 8>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("row", [S(i)], |[vi]| {
            let mut row = alloc::<f32>([8]);
            for j in 0..8 {
                block("r", [S(j)], |[vj]| row[[vj]] = x[[vi, 7 - vj]] * 2.0);
            }
            block("y", [], |[]| y[[vi]] = row[[0]] - row[[7]]);
        });
    }
}

/// The rows that an index names.
#[prim_func]
fn picked(x: &Tensor<f32, n, 8>, at: &Tensor<i64, m>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            let mut row = alloc::<f32>([8]);
            for j in 0..8 {
                block("r", [S(j)], |[vj]| row[[vj]] = x[[at[[vi]] as usize, 7 - vj]] * 2.0);
            }
            block("y", [], |[]| y[[vi]] = row[[0]] - row[[7]]);
        });
    }
}

/// Copies what block `r` reads inside of the row, then what the row reads, under the loop of the rows.
fn copied_twice(s: &mut Schedule) -> Result<(), ScheduleError> {
    let r = s.block("r")?;
    s.cache_read(r, "x", Scope::Global)?;
    let row = s.block("row")?;
    let outer = s.cache_read(row, "x", Scope::Local)?;
    let [i] = s.loops(row)?;
    s.compute_at(outer, i)
}

#[test]
fn a_copy_in_a_block_is_of_what_the_block_reads() {
    let schedule = |func| {
        let mut s = Schedule::new(func)?;
        copied_twice(&mut s)?;
        Ok(s.into_func())
    };
    check_schedule::<rows>(schedule).unwrap();
    let mut s = Schedule::new(rows::prim_func().unwrap()).unwrap();
    copied_twice(&mut s).unwrap();
    let text = s.func().to_string();
    assert!(!text.contains("grid([n, 8])"), "one row is copied for each:\n{text}");
}

#[test]
fn a_copy_of_rows_that_memory_names_is_of_all() {
    let mut s = Schedule::new(picked::prim_func().unwrap()).unwrap();
    copied_twice(&mut s).unwrap();
    let (x, at) = ([0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0_f32], [0_i64, 0]);
    let run = |func: &tvm::tir::PrimFunc| {
        let mut args = [
            Value::from(Tensor::from_slice(&x, &[1, 8]).unwrap()),
            Value::from(Tensor::from_slice(&at, &[2]).unwrap()),
            Value::from(Tensor::from_slice(&[0.0_f32; 2], &[2]).unwrap()),
        ];
        Program::compile(func).unwrap().strict(1).run(&mut args).unwrap();
        args[2].as_tensor().unwrap().to_f64s().unwrap()
    };
    assert_eq!(run(&picked::prim_func().unwrap()), [41.0, 41.0]);
    assert_eq!(run(s.func()), [41.0, 41.0]);
}

/// The second row of `t` is not written; both blocks run in the first step only.
#[prim_func]
fn other_row(x: &Tensor<f32, n>, y: &mut Tensor<f32, n, 8>) {
    let mut t = alloc::<f32>([2, 8]);
    for i in 0..n {
        for k in 0..2 {
            for j in 0..8 {
                if k < 1 {
                    block("t", [S(k), S(j), S(i)], |[vk, vj, vi]| t[[vk, vj]] = x[[vi]]);
                }
            }
            for j in 0..8 {
                if k < 1 {
                    block("y", [S(i), S(j), S(k)], |[vi, vj, vk]| y[[vi, vj]] = t[[1 - vk, vj]]);
                }
            }
        }
    }
}

#[test]
fn rows_that_a_predicate_leaves_out_are_not_handed_over() {
    let mut s = Schedule::new(other_row::prim_func().unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let i = s.get_loops(y).unwrap()[0];
    let err = s.parallel(i).unwrap_err().to_string();
    assert!(err.contains('t'), "{err}");
}
