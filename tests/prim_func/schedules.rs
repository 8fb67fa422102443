//! Schedules of the kernels; each generates a test of its own.

use tvm::prelude::*;

use crate::kernels::{gelu, matmul, matmul_plain, scale, softmax};
use crate::{close, matrix, targets};

#[schedule(matmul)]
fn tiled(s: &mut Schedule) -> Result<(), ScheduleError> {
    let c = s.block("C")?;
    let [i, j, k] = s.loops(c)?;
    let [io, ii] = s.split(i, [None, Some(32)])?;
    s.reorder([io, j, k, ii])?;
    s.parallel(io)?;
    s.vectorize(ii)
}

#[schedule(matmul_plain)]
fn plain_tiled(s: &mut Schedule) -> Result<(), ScheduleError> {
    let c = s.block("c")?;
    let [i, _, k] = s.loops(c)?;
    s.parallel(i)?;
    let [_, ki] = s.split(k, [None, Some(4)])?;
    s.unroll(ki)
}

#[schedule(scale)]
fn scale_vectorized(s: &mut Schedule) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let [i] = s.loops(y)?;
    let [io, ii] = s.split(i, [None, Some(8)])?;
    s.parallel(io)?;
    s.vectorize(ii)
}

#[schedule(gelu::<f64>)]
fn gelu_parallel(s: &mut Schedule) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let [i] = s.loops(y)?;
    s.parallel(i)
}

#[schedule(softmax)]
fn unchanged(_: &mut Schedule) -> Result<(), ScheduleError> {
    Ok(())
}

#[test]
fn scheduled_kernels_run() {
    let (a, b) = (matrix(37, 9, 1), matrix(9, 5, 2));
    let expected = a.dot(&b);
    for target in targets() {
        let mut c = ndarray::Array2::zeros((37, 5));
        tiled::compile(&target).unwrap().call(&a, &b, &mut c).unwrap();
        let same = c.iter().zip(&expected).all(|(x, y): (&f32, &f32)| close((*x).into(), (*y).into(), 1e-5));
        assert!(same, "{target}");
    }
    assert!(tiled::prim_func().unwrap().to_string().contains("#[parallel]"));
}

/// A schedule that names a block that the kernel does not have.
#[test]
fn a_block_that_does_not_exist() {
    let err = tvm::script::check_schedule::<matmul>(|func| {
        let mut s = Schedule::new(func)?;
        s.block("D")?;
        Ok(s.into_func())
    });
    assert_eq!(err.unwrap_err().to_string(), "no block is named `D`; the blocks are `root`, `C`");
}

/// A transformation that is not equivalent.
#[test]
fn a_difference_is_found() {
    let err = tvm::script::check_schedule::<scale>(|_| Ok(twice::prim_func().unwrap()));
    let text = err.unwrap_err().to_string();
    assert!(text.starts_with("`y` differs at element 0 for n = 1: the schedule gives "), "{text}");
}

#[prim_func]
fn twice(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s * 2.0;
    }
}
