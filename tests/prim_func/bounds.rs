//! No kernel accesses memory outside its buffers: unproven accesses are checked early, proven ones cost nothing.

use std::error::Error;

use ndarray::{Array1, Array2, array};
use tvm::ir::{BaseFunc, IRModule};
use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::runtime::abi::Status;
use tvm::script::PrimFuncDef;
use tvm::tir::{PrimFunc, Stmt, Visitor, walk_stmt};

use crate::kernels::{conv, matmul, matmul_plain, softmax};
use crate::{data, targets};

/// The extents of the operands have different names.
#[prim_func]
fn add(x: &Tensor<f32, n>, w: &Tensor<f32, k>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = x[[i]] + w[[i]];
    }
}

#[prim_func]
fn shift(x: &Tensor<f32, n>, by: i64, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[(i as i64 + by) as usize]];
    }
}

#[prim_func]
fn gather(x: &Tensor<f32, n>, at: &Tensor<i32, k>, y: &mut Tensor<f32, k>) {
    for i in 0..k {
        y[[i]] = x[[at[[i]] as usize]];
    }
}

#[prim_func]
fn scatter(x: &Tensor<f32, k>, at: &Tensor<i64, k>, y: &mut Tensor<f32, n>) {
    for i in 0..k {
        let to = at[[i]] as usize;
        y[[to]] = x[[i]];
    }
}

#[prim_func]
fn rises(x: &Tensor<f32, n>, y: &mut Tensor<i32, n>) {
    for i in 0..n {
        y[[i]] = if i + 1 < n && x[[i + 1]] > x[[i]] { 1 } else { 0 };
    }
}

#[prim_func]
fn triangle(x: &Tensor<f32, n>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = 0.0;
        for j in 0..i {
            y[[i]] += x[[j]];
        }
    }
}

#[prim_func]
fn reversed(x: &Tensor<f32, n>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = x[[m - 1 - i]];
    }
}

/// Restricted to extents from 8 to 64 that are multiples of 8.
#[prim_func(dims(n = 8..=64, n % 8 == 0))]
fn vectors(x: &Tensor<f32, n>, y: &mut Tensor<f32, 64>) {
    for i in 0..n {
        y[[i]] = x[[i / 8 * 8]];
    }
}

#[prim_func]
fn flat(x: &Tensor<f32, l>, y: &mut Tensor<f32, m, n>) {
    for [i, j] in grid([m, n]) {
        y[[i, j]] = x[[i * n + j]];
    }
}

// The macro sees only their names.
const AHEAD: usize = 1;
const BEHIND: usize = 5;

#[prim_func]
fn too_far(x: &Tensor<f32, 10>, y: &mut Tensor<f32, 10>) {
    for i in 0..10 {
        y[[i]] = x[[i + AHEAD]];
    }
}

#[prim_func]
fn before_the_first(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..4 {
        y[[0]] = x[[i - BEHIND]];
    }
}

/// `add`, with its loop split into vectors of 8 and a parallel outer loop.
fn add_vectorized(target: &Target) -> Result<CompiledFn<<add as PrimFuncDef>::Args>, Box<dyn Error>> {
    let mut s = Schedule::new(add::prim_func()?)?;
    let y = s.block("y")?;
    let [i] = s.loops(y)?;
    let [io, ii] = s.split(i, [None, Some(8)])?;
    s.parallel(io)?;
    s.vectorize(ii)?;
    Ok(CompiledFn::new(tvm::codegen::compile(s.func(), target)?)?)
}

/// Index, axis, parameter and extent of the refused access.
fn refused(res: Result<(), RuntimeError>) -> (i64, i64, Option<String>, i64) {
    match res {
        Err(RuntimeError::OutOfBounds { buffer, axis, index, extent, .. }) => {
            (index, axis, buffer.map(|name| name.to_string()), extent)
        }
        other => panic!("{other:?}"),
    }
}

/// The targets that compile kernels to machine code.
fn native() -> impl Iterator<Item = Target> {
    targets().into_iter().filter(|target| target != &Target::interpreter())
}

fn x() -> Option<String> {
    Some("x".into())
}

#[test]
fn an_extent_that_does_not_fit_is_found_before_anything_is_written() {
    let (x5, x8) = (Array1::from_vec(data(5, 1)), Array1::from_vec(data(8, 2)));
    for target in native() {
        let f = add::compile(&target).unwrap();
        let g = add_vectorized(&target).unwrap();
        for f in [f, g] {
            let mut y = Array1::from_elem(5, 7.0);
            f.call(&x5, &x8, &mut y).unwrap();
            assert!(y.iter().zip(&x5).zip(&x8).all(|((y, a), b)| *y == a + b));
            let mut y = Array1::from_elem(8, 7.0);
            assert_eq!(refused(f.call(&x5, &x8, &mut y)), (7, 0, x(), 5));
            assert_eq!(refused(f.call(&x8, &x5, &mut y)), (7, 0, Some("w".into()), 5));
            assert!(y.iter().all(|y| *y == 7.0));
            f.call(&Array1::zeros(0), &Array1::zeros(0), &mut Array1::zeros(0)).unwrap();
        }
        let f = reversed::compile(&target).unwrap();
        let mut y = Array1::from_elem(8, 7.0);
        assert_eq!(refused(f.call(&x5, &mut y)), (7, 0, x(), 5));
        f.call(&x8, &mut y).unwrap();
        assert_eq!((y[0], y[7]), (x8[7], x8[0]));
        let f = flat::compile(&target).unwrap();
        let mut y = Array2::from_elem((2, 4), 7.0);
        f.call(&x8, &mut y).unwrap();
        assert_eq!(y[[1, 3]], x8[7]);
        assert_eq!(refused(f.call(&x5, &mut y)), (7, 0, x(), 5));
        f.call(&x5, &mut Array2::zeros((9, 0))).unwrap();
    }
}

#[test]
fn offsets_are_checked_at_both_ends() {
    let xs = Array1::from_vec(data(6, 3));
    for target in native() {
        let f = shift::compile(&target).unwrap();
        let mut y = Array1::zeros(6);
        f.call(&xs, 0i64, &mut y).unwrap();
        assert_eq!(y, xs);
        assert_eq!(refused(f.call(&xs, 1i64, &mut y)), (6, 0, x(), 6));
        assert_eq!(refused(f.call(&xs, -1i64, &mut y)), (-1, 0, x(), 6));
        assert_eq!(refused(f.call(&xs, i64::MAX - 3, &mut y)).2, x());
    }
}

#[test]
fn indices_from_tensors_are_checked() {
    let xs: Array1<f32> = array![1.0, 2.0, 3.0];
    for target in native() {
        let f = gather::compile(&target).unwrap();
        let mut y = Array1::zeros(3);
        f.call(&xs, &array![2, 0, 1], &mut y).unwrap();
        assert_eq!(y, array![3.0, 1.0, 2.0]);
        assert_eq!(refused(f.call(&xs, &array![2, 3, 1], &mut y)), (3, 0, x(), 3));
        assert_eq!(refused(f.call(&xs, &array![i32::MIN, 0, 1], &mut y)), (i64::from(i32::MIN), 0, x(), 3));
        let f = scatter::compile(&target).unwrap();
        f.call(&xs, &array![2, 1, 0], &mut y).unwrap();
        assert_eq!(y, array![3.0, 2.0, 1.0]);
        assert_eq!(refused(f.call(&xs, &array![0, i64::MAX, 1], &mut y)), (i64::MAX, 0, Some("y".into()), 3));
    }
}

#[test]
fn conditions_guard_accesses() {
    let xs: Array1<f32> = array![1.0, 3.0, 2.0, 2.5];
    for target in native() {
        let mut y = Array1::zeros(4);
        rises::compile(&target).unwrap().call(&xs, &mut y).unwrap();
        assert_eq!(y, array![1, 0, 1, 0]);
        let f = triangle::compile(&target).unwrap();
        let mut y = Array1::zeros(5);
        f.call(&xs, &mut y).unwrap();
        assert_eq!(y[4], xs.sum());
        assert_eq!(refused(f.call(&xs, &mut Array1::zeros(6))), (4, 0, x(), 4));
    }
}

#[test]
fn bounds_of_dimensions_are_checked_and_used() {
    for target in native() {
        let f = vectors::compile(&target).unwrap();
        let mut y = Array1::zeros(64);
        f.call(&Array1::from_vec(data(16, 4)), &mut y).unwrap();
        for n in [0, 72, 12] {
            let x = Array1::zeros(n);
            for err in [f.call(&x, &mut y), vectors::reference(&x, &mut y)].map(Result::unwrap_err) {
                assert_eq!(
                    err.to_string(),
                    format!(
                        "`vectors`: argument `x`: axis 0 is {n}, dimension `n` was compiled for 8..=64 in steps of 8"
                    )
                );
            }
        }
    }
}

#[test]
fn what_is_always_outside_does_not_compile() {
    let error = |res: Result<_, tvm::CompileError>| res.err().map(|err: tvm::CompileError| err.to_string());
    let text = error(too_far::compile(&Target::host()).map(drop)).unwrap();
    for part in ["this index reaches 10, but axis 0 of `x` has extent 10", "bounds.rs", "help:"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    let text = error(before_the_first::compile(&Target::host()).map(drop)).unwrap();
    assert!(text.contains("this index reaches -5,"), "{text}");
}

#[test]
fn what_is_proven_is_not_checked() {
    struct Count(usize);
    impl Visitor for Count {
        fn visit_stmt(&mut self, stmt: &Stmt) {
            let is_check =
                |status| [Status::OutOfBounds, Status::AxisDomain].iter().any(|&it| it as i32 == status);
            self.0 += usize::from(matches!(stmt, Stmt::AssertStmt(it) if is_check(it.failure.status)));
            walk_stmt(self, stmt);
        }
    }
    let checks = |func: PrimFunc| {
        let module = tvm::tir::transform::check_bounds().apply(IRModule::from_prim_func(func)).unwrap();
        let mut count = Count(0);
        for (_, func) in module.functions() {
            if let BaseFunc::Prim(func) = func {
                count.visit_stmt(&func.body);
            }
        }
        count.0
    };
    for func in [
        vectors::prim_func(),
        matmul::prim_func(),
        matmul_plain::prim_func(),
        softmax::prim_func(),
        conv::prim_func(),
        rises::prim_func(),
    ] {
        let func = func.unwrap();
        let name = func.name.clone();
        assert_eq!(checks(func), 0, "{name}");
    }
    assert_eq!(checks(add::prim_func().unwrap()), 2);
    assert_eq!(checks(gather::prim_func().unwrap()), 2);
    // SAFETY: no kernel is run.
    let trust = unsafe { tvm::runtime::Trust::none().unchecked_bounds() };
    let context = PassContext::new().configure(|config| config.trust = trust);
    assert_eq!(context.scope(|| checks(add::prim_func().unwrap())), 0);
}
