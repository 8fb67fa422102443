//! Loops in which tiles are copied while the threads compute: what they become, what they compute, and that each barrier is needed.

use tvm_runtime::Tensor;

use super::super::unify_thread_binding::tests::{Without, barriers, check, tiled_with};
use super::SOFTWARE_PIPELINE;
use crate::ir::Var;
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::{InterpErrorKind, Program, Value};
use crate::tir::{Mutator, PrimExpr, PrimFunc};

fn pipelined([m, n, k]: [PrimExpr; 3]) -> PrimFunc {
    tiled_with(m, n, k, &[SOFTWARE_PIPELINE])
}

fn count(func: &PrimFunc, what: &str) -> usize {
    func.to_string().matches(what).count()
}

/// Two stages of both tiles, and one barrier for each of the two steps in the loop.
#[test]
fn a_step_has_one_barrier() {
    for k in [12, 13, 16, 21] {
        let lowered = check(&pipelined([5, 8, k].map(PrimExpr::index)), &[]);
        let kernels = DeviceKernel::all(&lowered);
        assert_eq!(kernels[0].shared.len(), 4, "{lowered}");
        assert_eq!(barriers(&lowered), 2, "{lowered}");
        // The first copies, those of the odd steps, and those of the even ones, of two operands each.
        assert_eq!(count(&lowered, "async_copy("), 6, "{lowered}");
    }
}

#[test]
fn extents_that_are_not_known() {
    let free = pipelined(["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name))));
    for [m, n, k] in [[4, 4, 4], [5, 3, 7], [1, 2, 9], [9, 8, 16], [2, 2, 1], [3, 0, 5]] {
        let lowered = check(&free, &[m, k, n]);
        assert_eq!(barriers(&lowered), 2, "{lowered}");
        assert_eq!(count(&lowered, "async_copy("), 6, "{lowered}");
    }
}

#[test]
fn one_step_is_no_pipeline() {
    let lowered = check(&pipelined([4, 8, 3].map(PrimExpr::index)), &[]);
    assert_eq!(DeviceKernel::all(&lowered)[0].shared.len(), 2, "{lowered}");
    assert_eq!(count(&lowered, "async_copy("), 0, "{lowered}");
}

/// Without one of the barriers, the interpreter finds a race.
#[test]
fn each_barrier_is_needed() {
    let lowered = check(&pipelined([4, 8, 20].map(PrimExpr::index)), &[]);
    for left in 0..barriers(&lowered) {
        let mut seen = 0;
        let body = Without { left, seen: &mut seen }.mutate_stmt(&lowered.body).unwrap();
        let mutant = Program::compile(&PrimFunc { body, ..lowered.clone() }).unwrap();
        let tensor = |shape: [i64; 2]| {
            let data: Vec<i64> = (0..shape[0] * shape[1]).collect();
            Value::Tensor(Tensor::from_slice(&data, &shape).unwrap())
        };
        let mut args = [[4, 20], [20, 8], [4, 8]].map(tensor).to_vec();
        let err = mutant.strict(1).run(&mut args).unwrap_err();
        assert!(matches!(err.kind, InterpErrorKind::Race { .. }), "barrier {left}: {err}");
    }
}
