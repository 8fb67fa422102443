//! `decompose_padding`: what it gives, and blocks that it refuses.

use super::*;
use crate::ir::Var;
use crate::tir::{Intrinsic, ThreadTag};

type Change = fn(&mut Schedule) -> Result<()>;

/// `x` with `before` and `after` rows of 7 around it, times 2.
fn padded(h: PrimExpr, w: PrimExpr, [before, after]: [i64; 2]) -> PrimFunc {
    let x = te::placeholder("x", [h.clone(), w.clone()], I64);
    let p = te::compute("p", [&h + (before + after), w.clone()], &[&x], |i: &[PrimExpr]| {
        let inside = i[0].clone().greater_equal(before).and(i[0].clone().less(&h + before));
        let at = x.at([i[0].clone() - before, i[1].clone()]);
        PrimExpr::call(Intrinsic::IfThenElse, [inside, at, PrimExpr::index(7)], I64)
    });
    let o = te::compute("o", [&h + (before + after), w], &[&p], |i: &[PrimExpr]| p.at(i.to_vec()) * 2);
    te::create_prim_func("padded", &[x], &[o]).unwrap()
}

fn symbols() -> [PrimExpr; 2] {
    ["h", "w"].map(|name| PrimExpr::from(Var::index(name)))
}

#[test]
fn bounds_narrow_the_loop() {
    let [h, w] = symbols();
    let mut sch = Schedule::new(padded(h, w, [1, 2])).unwrap();
    let p = sch.block("p").unwrap();
    let [i, _] = sch.loops(p).unwrap();
    let constant = sch.decompose_padding(p, i).unwrap();
    assert_eq!(sch.loops::<2>(constant).unwrap().len(), 2);
    expect_test::expect![[r##"
        #[prim_func]
        fn padded(x: &Tensor<i64, h, w>, o: &mut Tensor<i64, { h + 3 }, w>) {
            let mut p = alloc::<i64>([h + 3, w]);
            for [i0, i1] in grid([h + 3, w]) {
                block("p_pad_const", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    p[[v_i0, v_i1]] = 7;
                });
            }
            for [i0, i1] in grid([h, w]) {
                block("p", [S(i0 + 1).within(0..h + 3), S(i1)], |[v_i0, v_i1]| {
                    p[[v_i0, v_i1]] = x[[v_i0 - 1, v_i1]];
                });
            }
            for [i0, i1] in grid([h + 3, w]) {
                block("o", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    o[[v_i0, v_i1]] = p[[v_i0, v_i1]] * 2;
                });
            }
        }"##]]
    .assert_eq(&sch.func().to_string());
    assert!(
        sch.trace()
            .to_string()
            .ends_with("let v3 = s.decompose_padding(v0, v1)?;\nlet [v4, v5] = s.loops(v3)?;\n"),
        "{}",
        sch.trace()
    );
}

#[test]
fn results_stay_in_all_loops() {
    let changes: [Change; 6] = [
        |s| {
            let p = s.block("p")?;
            let [i, _] = s.loops(p)?;
            s.decompose_padding(p, i).map(drop)
        },
        |s| {
            let p = s.block("p")?;
            let [_, j] = s.loops(p)?;
            s.decompose_padding(p, j).map(drop)
        },
        |s| {
            let p = s.block("p")?;
            let [i, j] = s.loops(p)?;
            let [i0, i1] = s.split(i, [None, Some(4)])?;
            s.reorder([i0, j, i1])?;
            s.parallel(i0)?;
            s.decompose_padding(p, j).map(drop)
        },
        |s| {
            let p = s.block("p")?;
            let [i, j] = s.loops(p)?;
            let fused = s.fuse([i, j])?;
            s.decompose_padding(p, fused).map(drop)
        },
        |s| {
            let p = s.block("p")?;
            let [i, j] = s.loops(p)?;
            let constant = s.decompose_padding(p, i)?;
            s.parallel(i)?;
            let [row, _] = s.loops(constant)?;
            s.parallel(row)?;
            s.split(j, [None, Some(4)]).map(drop)
        },
        |s| {
            let (p, o) = (s.block("p")?, s.block("o")?);
            let [i, _] = s.loops(o)?;
            s.compute_at(p, i)?;
            let loops = s.get_loops(p)?;
            s.decompose_padding(p, loops[1]).map(drop)
        },
    ];
    for rows in [[1, 2], [0, 3], [2, 0], [0, 0]] {
        let [h, w] = symbols();
        let program = padded(h, w, rows);
        for change in changes {
            let mut sch = Schedule::new(program.clone()).unwrap();
            change(&mut sch).unwrap_or_else(|err| panic!("{err}"));
            well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
            assert!(sch.state().verify());
            for dims in [[5, 3], [1, 1], [8, 0], [0, 3]] {
                // The shape of the result is an expression of the dimensions.
                let values = |func: &PrimFunc| {
                    let mut args = arguments_of(func, dims, dims[0] + rows[0] + rows[1]);
                    let res = crate::tir::interp::run(func, &mut args);
                    assert!(res.is_ok(), "{res:?}\n{func}");
                    args.pop().and_then(|it| it.as_tensor().and_then(|it| it.to_vec::<i64>().ok()))
                };
                assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
            }
            let mut again = Schedule::new(program.clone()).unwrap();
            Trace::from_json(&sch.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
            structural_equal(sch.func(), again.func()).unwrap();
        }
    }
}

fn arguments_of(_: &PrimFunc, [h, w]: [i64; 2], rows: i64) -> Vec<crate::tir::interp::Value> {
    let tensor = |data: Vec<i64>, shape: [i64; 2]| {
        crate::tir::interp::Value::Tensor(tvm_runtime::Tensor::from_vec(data, &shape).unwrap())
    };
    let x = (0..h * w).map(|it| it * 3 % 17 - 5).collect();
    vec![tensor(x, [h, w]), tensor(vec![-77; (rows * w) as usize], [rows, w])]
}

#[test]
fn refusals_name_the_reason() {
    let [h, w] = symbols();
    let program = padded(h, w, [1, 1]);
    let cases: [(Change, &str); 4] = [
        (
            |s| {
                let o = s.block("o")?;
                let [i, _] = s.loops(o)?;
                s.decompose_padding(o, i).map(drop)
            },
            "writes no choice between a value and a constant",
        ),
        (
            |s| {
                let (p, o) = (s.block("p")?, s.block("o")?);
                let [i, _] = s.loops(o)?;
                s.decompose_padding(p, i).map(drop)
            },
            "is not around block `p`",
        ),
        (
            |s| {
                let (p, o) = (s.block("p")?, s.block("o")?);
                let [i, _] = s.loops(o)?;
                s.compute_at(p, i)?;
                s.decompose_padding(p, i).map(drop)
            },
            "is not the whole body",
        ),
        (
            |s| {
                let p = s.block("p")?;
                let [i, _] = s.loops(p)?;
                s.bind(i, ThreadTag::BlockIdxX)?;
                s.decompose_padding(p, i).map(drop)
            },
            "is bound to a thread",
        ),
    ];
    for (change, why) in cases {
        let mut sch = Schedule::new(program.clone()).unwrap();
        let err = change(&mut sch).unwrap_err().to_string();
        assert!(err.contains(why), "{why} is missing in\n{err}");
        assert!(sch.state().verify());
    }
}
