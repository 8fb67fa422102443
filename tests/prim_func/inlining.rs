//! Tests of inlining: the operands of a value must still be available at the place that the value moves to.

use tvm::prelude::*;
use tvm::script::{CheckError, check_schedule};

#[prim_func]
fn prefix_sum(x: &Tensor<i32, n>, y: &mut Tensor<i32, n>) {
    let mut sum = 0;
    for i in 0..n {
        sum += x[[i]];
        y[[i]] = sum;
    }
}

#[prim_func]
fn local_row(x: &Tensor<f32, n, 8>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("row_scope", [S(i)], |[vi]| {
            let mut row = alloc::<f32>([8]);
            for j in 0..8 {
                block("row", [S(j)], |[vj]| {
                    row[[vj]] = x[[vi, 7 - vj]] * 2.0;
                });
            }
            block("y", [], |[]| {
                y[[vi]] = row[[0]] - row[[7]];
            });
        });
    }
}

#[prim_func]
fn gather_staged(x: &Tensor<i32, n>, y: &mut Tensor<i32, m, n>) {
    let mut t = alloc::<i32>([n]);
    for i in 0..n {
        t[[i]] = x[[i]] * 3;
    }
    for [i, j] in grid([m, n]) {
        y[[i, j]] = t[[n - 1 - j]] + 1;
    }
}

/// After the loop, only the last value of a running sum is available.
#[test]
fn a_running_sum_stays_in_its_loop() {
    for inlined in [true, false] {
        let res = check_schedule::<prefix_sum>(|func| {
            let mut s = Schedule::new(func)?;
            let y = s.block("y")?;
            let copy = s.cache_write(y, 0, Scope::Local)?;
            if inlined {
                s.compute_inline(y)?;
            } else {
                let [i] = s.loops(copy)?;
                s.compute_at(y, i)?;
            }
            Ok(s.into_func())
        });
        let Err(CheckError::Schedule(err)) = res else { panic!("{res:?}") };
        assert!(err.to_string().contains("buffer `sum` is written again by block `sum`"), "{err}");
    }
}

#[test]
fn a_copy_inside_of_a_block_is_not_made_outside() {
    let res = check_schedule::<local_row>(|func| {
        let mut s = Schedule::new(func)?;
        let row = s.block("row")?;
        let inner = s.cache_read(row, 0, Scope::Local)?;
        let scope = s.block("row_scope")?;
        s.cache_read(scope, 0, Scope::Local)?;
        s.reverse_compute_inline(inner)?;
        Ok(s.into_func())
    });
    let Err(CheckError::Schedule(err)) = res else { panic!("{res:?}") };
    assert!(err.to_string().contains("is in another scope than block"), "{err}");
}

/// Iterations that a predicate excludes neither write nor read their private memory.
#[test]
fn memory_of_one_iteration() {
    check_schedule::<gather_staged>(|func| {
        let mut s = Schedule::new(func)?;
        let (t, y) = (s.block("t")?, s.block("y")?);
        let [i, _] = s.loops(y)?;
        s.compute_at(t, i)?;
        s.parallel(i)?;
        s.split(i, [Some(8), None, Some(1)])?;
        Ok(s.into_func())
    })
    .unwrap_or_else(|err| panic!("{err}"));
}
