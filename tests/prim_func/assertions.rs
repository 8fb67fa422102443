//! `assert!` in kernels: the condition is checked in every executor, and the error has the message and the place.

use tvm::prelude::*;
use tvm::tir::interp::{Program, Value};

use crate::targets;

/// `y[i] = x[at[i]]`; the positions must be below the length.
#[prim_func]
fn gathered(x: &Tensor<f32, n>, at: &Tensor<i64, m>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        assert!(at[[i]] >= 0 && (at[[i]] as usize) < n, "a position is {{outside}} of \"x\"?");
        y[[i]] = x[[at[[i]] as usize]];
    }
}

/// In a block, in a branch, in an init, over integers that wrap, and without a message.
#[prim_func]
fn sums(x: &Tensor<u8, m, n>, limit: u8, y: &mut Tensor<u8, m>) {
    for [i, k] in grid([m, n]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            init(|| {
                assert!(n > 0);
                y[[vi]] = 0;
            });
            if vk % 2 == 0 {
                assert!(x[[vi, vk]] + 1 != 0, "a term is too large");
            }
            y[[vi]] += x[[vi, vk]];
            assert!(y[[vi]].max(limit) <= limit, "a sum is too large",);
        });
    }
}

/// Only an assertion, as the last expression.
#[prim_func]
fn sorted(x: &Tensor<f16, n>, y: &mut Tensor<i32, 1>) {
    y[[0]] = 1;
    for i in 1..n {
        assert!(x[[i - 1]] <= x[[i]] * 1.0, "the elements are not sorted")
    }
}

#[test]
fn a_failed_assertion_is_an_error_with_its_message_and_place() {
    let x = [1.0f32, 2.0, 3.0];
    for target in targets() {
        let f = gathered::compile(&target).unwrap();
        let mut y = [0.0f32; 2];
        f.call(&x, &[2i64, 0], &mut y).unwrap();
        assert_eq!(y, [3.0, 1.0]);
        for bad in [-1i64, 3, i64::MIN] {
            let err = f.call(&x, &[0i64, bad], &mut y).unwrap_err().to_string();
            let want =
                "assertion failed: a position is {outside} of \"x\"? (at tests/prim_func/assertions.rs:12:9)";
            assert!(err.contains(want), "{target}: {err}");
            let reference = gathered(&x, &[0i64, bad], &mut y).unwrap_err().to_string();
            assert!(reference.contains("assertion failed: a position is {outside}"), "{reference}");
        }
    }
}

#[test]
fn assertions_stand_in_blocks_branches_and_inits() {
    let (ones, large) = ([1u8; 6], [1u8, 1, 255, 0, 0, 0]);
    for target in targets() {
        let f = sums::compile(&target).unwrap();
        let call = |x: &[u8], rows: usize, limit: u8| {
            let x = ndarray::ArrayView2::from_shape((rows, x.len() / rows), x).unwrap();
            let (mut y, mut expected) = (vec![9u8; rows], vec![9u8; rows]);
            let res = f.call(&x, limit, &mut y).map_err(|err| err.to_string());
            let reference = sums(&x, limit, &mut expected).map_err(|err| err.to_string());
            let fails = |res: &Result<(), String>, message: &str| {
                res.as_ref().is_err_and(|err| err.contains(&format!("assertion failed: {message}")))
            };
            match &res {
                Ok(()) => assert_eq!((&reference, y), (&Ok(()), expected), "{target}"),
                Err(err) => {
                    let of = ["a term is too large", "a sum is too large", "n > 0"];
                    let message =
                        of.into_iter().find(|it| err.contains(it)).unwrap_or_else(|| panic!("{err}"));
                    assert!(fails(&res, message) && fails(&reference, message), "{err} {reference:?}");
                }
            }
            res
        };
        call(&ones, 2, 3).unwrap();
        assert!(call(&ones, 2, 2).unwrap_err().contains("a sum is too large"));
        assert!(call(&large, 2, 255).unwrap_err().contains("a term is too large"));
    }
}

#[test]
fn a_kernel_may_only_check() {
    let f16 = |values: &[f32]| values.iter().map(|it| half::f16::from_f32(*it)).collect::<Vec<_>>();
    for target in targets() {
        let f = sorted::compile(&target).unwrap();
        let mut y = [0i32];
        f.call(&f16(&[1.0, 2.0, 2.0]), &mut y).unwrap();
        assert_eq!(y, [1]);
        let err = f.call(&f16(&[1.0, 2.0, 0.5]), &mut y).unwrap_err().to_string();
        assert!(err.contains("`sorted`") && err.contains("the elements are not sorted"), "{target}: {err}");
        assert!(sorted(&f16(&[1.0, f32::NAN]), &mut y).is_err());
        assert!(f.call(&f16(&[1.0, f32::NAN]), &mut y).is_err());
    }
}

/// A program of schedules computes the same, or fails with the same assertion.
#[test]
fn schedules_keep_assertions() {
    type Change = fn(&mut Schedule) -> Result<(), Box<dyn std::error::Error>>;
    let changes: [Change; 3] = [
        |s| {
            let block = s.block("sum")?;
            let [i, k] = s.loops(block)?;
            s.split(k, [None, Some(2)])?;
            Ok(s.parallel(i)?)
        },
        |s| {
            let block = s.block("sum")?;
            let [i, k] = s.loops(block)?;
            s.reorder([k, i])?;
            Ok(s.unroll(i)?)
        },
        |s| {
            let block = s.block("sum")?;
            let [_, k] = s.loops(block)?;
            Ok(s.decompose_reduction(block, k).map(drop)?)
        },
    ];
    let (good, large) = ([1u8; 6], [1u8, 1, 255, 0, 0, 0]);
    for (number, change) in changes.into_iter().enumerate() {
        let mut s = Schedule::new(sums::prim_func().unwrap()).unwrap();
        change(&mut s).unwrap_or_else(|err| panic!("{number}: {err}"));
        let lowered = tvm::pipeline::lower_tir().apply(IRModule::from_prim_func(s.into_func())).unwrap();
        let func = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
        for (x, limit, message) in [
            (&good, 3, None),
            (&good, 2, Some("a sum is too large")),
            (&large, 255, Some("a term is too large")),
        ] {
            let tensor = |data: &[u8], shape: &[i64]| Value::Tensor(Tensor::from_slice(data, shape).unwrap());
            let mut args = [tensor(x, &[2, 3]), Value::Int(limit), tensor(&[9, 9], &[2])];
            let res = Program::compile(func).unwrap().run(&mut args).map_err(|err| err.to_string());
            match message {
                None => res.unwrap(),
                Some(message) => {
                    let err = res.unwrap_err();
                    assert!(err.contains(message) && err.contains("assertions.rs"), "{number}: {err}");
                }
            }
        }
    }
}
