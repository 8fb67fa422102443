//! The test that comes with a schedule finds errors, whatever the extents of the kernel.

use tvm::prelude::*;
use tvm::script::{CheckError, check_equivalent, check_schedule};
use tvm::tir::PrimFunc;

const N: usize = 1024;

/// A kernel with more steps than the interpreter can run in a test.
#[prim_func]
fn large(a: &Tensor<f32, N, N>, b: &Tensor<f32, N, N>, c: &mut Tensor<f32, N, N>) {
    for [i, j, k] in grid([N, N, N]) {
        block("C", [S(i), S(j), R(k)], |[vi, vj, vk]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vk]] * b[[vk, vj]];
        });
    }
}

/// A copy with an offset of 1; the first element is written even if `n` is 0.
#[prim_func]
fn elements(x: &Tensor<i64, n>, y: &mut Tensor<i64, { n + 1 }>) {
    y[[0]] = 1;
    for i in 0..n {
        y[[i + 1]] = x[[i]];
    }
}

/// As `elements`, but the first element is written only if `n` is not 0.
#[prim_func]
fn elements_but_none(x: &Tensor<i64, n>, y: &mut Tensor<i64, { n + 1 }>) {
    for i in 0..n {
        y[[0]] = 1;
        y[[i + 1]] = x[[i]];
    }
}

#[test]
fn a_kernel_too_large_to_interpret_is_checked_on_smaller_extents() {
    check_schedule::<large>(|func| {
        let mut s = Schedule::new(func)?;
        let c = s.block("C")?;
        let [i, _, _] = s.loops(c)?;
        s.split(i, [None, Some(8)])?;
        Ok(s.into_func())
    })
    .unwrap();
    let swapped = |func: PrimFunc| {
        let mut params = func.params.to_vec();
        params.swap(0, 1);
        Ok(PrimFunc { params: params.into(), ..func })
    };
    assert!(matches!(check_schedule::<large>(swapped), Err(CheckError::Differs { .. })));
}

#[test]
fn nothing_checked_is_an_error() {
    let func = large::prim_func().unwrap();
    let err = check_equivalent(&func, &func).unwrap_err();
    assert!(matches!(err, CheckError::NotChecked { .. }), "{err}");
    // A schedule that accepts only these extents.
    let only = |func: PrimFunc| {
        let mut s = Schedule::new(func)?;
        if s.func().params[0].buffer().is_some_and(|it| !it.shape[0].is_const(N as i64)) {
            s.block("no such block")?;
        }
        Ok(s.into_func())
    };
    assert!(matches!(check_schedule::<large>(only), Err(CheckError::NotChecked { .. })));
}

#[test]
fn no_elements_are_a_case() {
    let res = check_schedule::<elements>(|_| Ok(elements_but_none::prim_func().unwrap()));
    let text = res.unwrap_err().to_string();
    assert!(text.starts_with("`y` differs at element 0 for n = 0"), "{text}");
}
