//! Schedules keep when the init of a reduction runs: not more often than the reduction that follows it, and also before one of
//! no iteration.

use tvm::prelude::*;
use tvm::tir::PrimFunc;
use tvm::tir::interp::{Program, Value};

use crate::inits::{
    computed_again, first_terms, one_of_one, one_tile, overlapping, reduction_in_parts, reduction_of_none,
};

fn run(func: &PrimFunc, m: i64) -> Result<Vec<i64>, String> {
    let x: Vec<i64> = (1..=4 * m).collect();
    let tensor = |data: Vec<i64>, shape: &[i64]| {
        Tensor::from_vec(data, shape).map(Value::Tensor).map_err(|err| err.to_string())
    };
    let mut args = [tensor(x, &[4, m])?, tensor(vec![77; 4], &[4])?];
    Program::compile(func).and_then(|it| it.run(&mut args)).map_err(|err| err.to_string())?;
    match &args[1] {
        Value::Tensor(y) => y.to_vec().map_err(|err| err.to_string()),
        other => Err(format!("{other:?}")),
    }
}

/// All ways to split a loop, to fuse neighbours and to exchange two loops, once and twice.
#[test]
fn fused_and_reordered_loops_keep_the_init() {
    let kernels = [
        ("one_tile", one_tile::prim_func()),
        ("one_of_one", one_of_one::prim_func()),
        ("first_terms", first_terms::prim_func()),
        ("computed_again", computed_again::prim_func()),
        ("overlapping", overlapping::prim_func()),
        ("reduction_of_none", reduction_of_none::prim_func()),
        ("reduction_in_parts", reduction_in_parts::prim_func()),
    ];
    let (mut accepted, mut refused) = (0, 0);
    for (name, func) in kernels {
        let func = func.unwrap();
        let block = if name == "reduction_in_parts" { "part" } else { "y" };
        let start = Schedule::new(func.clone()).unwrap();
        let mut found: Vec<(String, Schedule)> = vec![(String::new(), start)];
        for at in 0.. {
            let Some((steps, s)) = found.get(at).cloned() else { break };
            if steps.matches(';').count() == 2 {
                continue;
            }
            let mut probe = s.clone();
            let id = probe.block(block).unwrap();
            let count = probe.get_loops(id).unwrap().len();
            for a in 0..count {
                let mut split = s.clone();
                let id = split.block(block).unwrap();
                let loops = split.get_loops(id).unwrap();
                if split.split(loops[a], [None, Some(3)]).is_ok() {
                    found.push((format!("{steps}split {a}; "), split));
                }
                let mut decomposed = s.clone();
                let id = decomposed.block(block).unwrap();
                let loops = decomposed.get_loops(id).unwrap();
                if decomposed.decompose_reduction(id, loops[a]).is_ok() {
                    found.push((format!("{steps}decompose {a}; "), decomposed));
                }
                for b in a + 1..count {
                    let reorder = |s: &mut Schedule| {
                        let id = s.block(block)?;
                        let loops = s.get_loops(id)?;
                        s.reorder([loops[b], loops[a]])
                    };
                    let fuse = |s: &mut Schedule| {
                        let id = s.block(block)?;
                        let loops = s.get_loops(id)?;
                        s.fuse_n(&loops[a..=b]).map(drop)
                    };
                    let (mut reordered, mut fused) = (s.clone(), s.clone());
                    let results = [("reorder", reorder(&mut reordered)), ("fuse", fuse(&mut fused))];
                    for ((what, result), changed) in results.into_iter().zip([reordered, fused]) {
                        match result {
                            Ok(()) => found.push((format!("{steps}{what} {a} {b}; "), changed)),
                            Err(_) => refused += 1,
                        }
                    }
                }
            }
        }
        for (steps, s) in &found {
            accepted += 1;
            for m in [0, 1, 3, 8] {
                let want = run(&func, m).unwrap();
                let got = run(s.func(), m);
                assert_eq!(got, Ok(want), "{name}, m = {m}: {steps}\n{}", s.func());
            }
        }
    }
    // Most of the changes are legal for most of the kernels.
    assert!(accepted > 20 && refused > 20, "{accepted} {refused}");
}

/// The last of several inits of an element counts, so the loops around it do not change places.
#[test]
fn inits_without_a_reduction_keep_their_order() {
    let mut s = Schedule::new(first_terms::prim_func().unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [i, a, _] = s.loops(y).unwrap();
    let both = s.fuse([i, a]).unwrap();
    let [outer, inner] = s.split(both, [None, Some(3)]).unwrap();
    let err = s.reorder([inner, outer]).unwrap_err().to_string();
    assert!(err.contains("more than once for an element: the last run counts"), "{err}");
}
