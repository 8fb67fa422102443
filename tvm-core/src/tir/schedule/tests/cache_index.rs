//! `cache_index`: what it gives, and blocks that it refuses.

use super::*;
use crate::ir::Var;
use crate::tir::Scope;

/// `y[i, j] = x[i / 2 + 1, j] * w[i / 2 + 1] + x[i / 2, j]`.
fn halves(n: PrimExpr, m: PrimExpr) -> PrimFunc {
    let x = te::placeholder("x", [n.clone() + 1, m.clone()], I64);
    let w = te::placeholder("w", [n.clone() + 1], I64);
    let y = te::compute("y", [n, m], &[&x, &w], |i: &[PrimExpr]| {
        let half = i[0].clone().floordiv(2);
        let next = half.clone() + 1;
        x.at([next.clone(), i[1].clone()]) * w.at([next]) + x.at([half, i[1].clone()])
    });
    te::create_prim_func("halves", &[x, w], &[y]).unwrap()
}

fn check(program: &PrimFunc, uses: usize, all: &[[i64; 2]]) -> Schedule {
    let mut sch = Schedule::new(program.clone()).unwrap();
    let y = sch.block("y").unwrap();
    sch.cache_index(y, Scope::Global, uses).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
    well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
    assert!(sch.state().verify());
    let args = |func: &PrimFunc, dims: &[i64]| -> Vec<crate::tir::interp::Value> {
        let tensor = |shape: &[i64], out: bool| {
            let value = |i: i64| if out { -77 } else { i * 7 % 11 - 5 };
            let data: Vec<i64> = (0..shape.iter().product()).map(value).collect();
            crate::tir::interp::Value::Tensor(tvm_runtime::Tensor::from_vec(data, shape).unwrap())
        };
        let [n, m] = [dims[0], dims[1]];
        assert_eq!(func.params.len(), 3);
        vec![tensor(&[n + 1, m], false), tensor(&[n + 1], false), tensor(&[n, m], true)]
    };
    for dims in all {
        assert_eq!(
            run(sch.func(), args(sch.func(), dims)),
            run(program, args(program, dims)),
            "{}",
            sch.func()
        );
    }
    let mut again = Schedule::new(program.clone()).unwrap();
    Trace::from_json(&sch.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
    structural_equal(sch.func(), again.func()).unwrap();
    sch
}

#[test]
fn indices_are_computed_once() {
    let sch = check(&halves(dim(6), dim(4)), 2, &[[6, 4]]);
    expect_test::expect![[r##"
        #[prim_func]
        fn halves(x: &Tensor<i64, 7, 4>, w: &Tensor<i64, 7>, y: &mut Tensor<i64, 6, 4>) {
            let mut index_var_0 = alloc::<i64>([6]);
            for ax0 in 0..6 {
                block("index_var_0", [S(ax0)], |[v0]| {
                    index_var_0[[v0]] = floordiv(v0 as i64, 2) + 1;
                });
            }
            for [i0, i1] in grid([6, 4]) {
                block("y", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    y[[v_i0, v_i1]] = x[[index_var_0[[v_i0]] as usize, v_i1]] * w[[index_var_0[[v_i0]] as usize]] + x[[v_i0 / 2, v_i1]];
                });
            }
        }"##]].assert_eq(&sch.func().to_string());
    let trace = sch.trace().to_string();
    let line = "let [v1] = s.cache_index(v0, Scope::Global, 2)?[..] else { unreachable!() };";
    assert!(trace.contains(line), "{trace}");
    // Printed traces are Rust.
    let mut s = Schedule::new(halves(dim(6), dim(4))).unwrap();
    let printed = |s: &mut Schedule| -> Result<BlockRV> {
        let v0 = s.block("y")?;
        let [v1] = s.cache_index(v0, Scope::Global, 2)?[..] else { unreachable!() };
        Ok(v1)
    };
    let block = printed(&mut s).unwrap();
    assert_eq!(s.loops::<1>(block).unwrap().len(), 1);
    structural_equal(s.func(), sch.func()).unwrap();
}

#[test]
fn results_stay_for_all_dimensions() {
    let [n, m] = ["n", "m"].map(|name| PrimExpr::from(Var::index(name)));
    for uses in [0, 1, 2, 3, usize::MAX] {
        check(&halves(n.clone(), m.clone()), uses, &[[5, 3], [1, 1], [0, 4], [4, 0], [8, 2]]);
        check(&halves(dim(1), dim(1)), uses, &[[1, 1]]);
        check(&halves(dim(0), dim(3)), uses, &[[0, 3]]);
    }
}

#[test]
fn refusals_name_the_reason() {
    let program = small_dense();
    let mut sch = Schedule::new(program.clone()).unwrap();
    let root = sch.block("root").unwrap();
    let err = sch.cache_index(root, Scope::Local, 1).unwrap_err().to_string();
    assert!(err.contains("root block"), "{err}");
    let y = sch.block("y").unwrap();
    assert!(sch.cache_index(y, Scope::Local, 1).unwrap().is_empty());
    structural_equal(sch.func(), &program).unwrap();
}
