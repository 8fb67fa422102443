//! `split` by symbolic dimensions.

use tvm_runtime::DimBound;

use super::*;
use crate::ir::Var;

type Change = fn(&mut Schedule) -> Result<()>;

/// The dense layer of extents `m`, `n` and `k`, of which `n` and `k` are at least 1.
pub(super) fn program() -> PrimFunc {
    let positive = DimBound::between(1, i64::MAX).unwrap();
    let [n, k] = ["n", "k"].map(|name| PrimExpr::from(&Var::index(name).within(Some(positive))));
    dense(PrimExpr::from(Var::index("m")), n, k)
}

#[test]
fn a_dimension_is_a_factor() {
    let mut sch = Schedule::new(program()).unwrap();
    let o = sch.block("o").unwrap();
    let [i, j] = sch.loops(o).unwrap();
    sch.split(i, [None, Some(4)].map(Factor::from)).unwrap();
    let [_, inner] = sch.split(j, [Factor::Infer, "k".into()]).unwrap();
    sch.parallel(inner).unwrap();
    expect_test::expect![[r##"
        #[prim_func(dims(k = 1.., n = 1..))]
        fn dense(x: &Tensor<i64, m, k>, w: &Tensor<i64, k, n>, b: &Tensor<i64, n>, o: &mut Tensor<i64, m, n>) {
            let mut y = alloc::<i64>([m, n]);
            let mut z = alloc::<i64>([m, n]);
            for [i0, i1, r] in grid([m, n, k]) {
                block("y", [S(i0), S(i1), R(r)], |[v_i0, v_i1, v_r]| {
                    init(|| y[[v_i0, v_i1]] = 0);
                    y[[v_i0, v_i1]] += x[[v_i0, v_r]] * w[[v_r, v_i1]];
                });
            }
            for [i0, i1] in grid([m, n]) {
                block("z", [S(i0), S(i1)], |[v_i0, v_i1]| {
                    z[[v_i0, v_i1]] = y[[v_i0, v_i1]] + b[[v_i1]];
                });
            }
            for [i0_0, i0_1, i1_0] in grid([(m + 3) / 4, 4, (n - 1) / k + 1]) {
                #[parallel]
                for i1_1 in 0..k {
                    if i0_0 * 4 + i0_1 < m && i1_0 * k + i1_1 < n {
                        block("o", [S(i0_0 * 4 + i0_1).within(0..m), S(i1_0 * k + i1_1).within(0..n)], |[v_i0, v_i1]| {
                            o[[v_i0, v_i1]] = max(z[[v_i0, v_i1]], 0);
                        });
                    }
                }
            }
        }"##]].assert_eq(&sch.func().to_string());
    let trace = sch.trace().to_string();
    assert!(
        trace.ends_with(
            "let [v5, v6] = s.split(v2, [Factor::Infer, Factor::from(\"k\")])?;\ns.parallel(v6)?;\n"
        ),
        "{trace}"
    );
}

#[test]
fn a_dimension_that_divides_the_extent_needs_no_condition() {
    let mut sch = Schedule::new(program()).unwrap();
    let o = sch.block("o").unwrap();
    let [i, j] = sch.loops(o).unwrap();
    let fused = sch.fuse([i, j]).unwrap();
    let loops = sch.split(fused, [Factor::Infer, "n".into()]).unwrap();
    let extents = loops.map(|it| sch.state().get_for(it.id()).unwrap().extent.to_string());
    assert_eq!(extents, ["m", "n"]);
    assert!(sch.state().get_block(o.id()).unwrap().predicate.is_const(1), "{}", sch.func());
    // One factor that is the extent.
    sch.split(loops[1], ["n"]).unwrap();
}

#[test]
fn results_stay() {
    let changes: [Change; 6] = [
        |s| {
            let y = s.block("y")?;
            let [i, j, k] = s.loops(y)?;
            let [_, rows] = s.split(i, [Factor::Infer, "k".into()])?;
            s.split(j, [Factor::from("k"), Factor::Infer])?;
            s.split(k, [Factor::Infer, "n".into(), Factor::Int(2)])?;
            s.parallel(rows)
        },
        |s| {
            let z = s.block("z")?;
            let [i, j] = s.loops(z)?;
            let fused = s.fuse([i, j])?;
            let [row, _] = s.split(fused, [Factor::Infer, "n".into()])?;
            s.loop_partition_n(row, &[2]).map(drop)
        },
        |s| {
            let z = s.block("z")?;
            let [i, j] = s.loops(z)?;
            let fused = s.fuse([i, j])?;
            s.split(fused, [Factor::Infer, "k".into(), "n".into()]).map(drop)
        },
        |s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            let [_, j] = s.loops(z)?;
            let [outer, _] = s.split(j, [Factor::Infer, "k".into()])?;
            s.compute_at(y, outer)
        },
        |s| {
            let y = s.block("y")?;
            let [i, _, k] = s.loops(y)?;
            let [outer, _] = s.split(k, [Factor::from("n"), Factor::Infer])?;
            s.reorder([outer, i])?;
            s.decompose_reduction(y, outer).map(drop)
        },
        |s| {
            let y = s.block("y")?;
            let [_, _, k] = s.loops(y)?;
            let [_, inner] = s.split(k, [Factor::Infer, "n".into()])?;
            s.rfactor(inner, 0).map(drop)
        },
    ];
    for change in changes {
        let program = program();
        let mut sch = Schedule::new(program.clone()).unwrap();
        change(&mut sch).unwrap_or_else(|err| panic!("{err}"));
        well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
        assert!(sch.state().verify());
        // Extents of `m`, `k` and `n`.
        for dims in [[7, 5, 3], [1, 1, 1], [2, 3, 7], [0, 3, 2], [6, 2, 3]] {
            let values = |func: &PrimFunc| run(func, arguments(func, &dims));
            assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
        }
        let mut again = Schedule::new(program).unwrap();
        Trace::from_json(&sch.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
        structural_equal(sch.func(), again.func()).unwrap();
    }
}

#[test]
fn refusals_name_the_reason() {
    let huge = Factor::Int(1 << 40);
    let cases: [(Vec<Factor>, &str); 7] = [
        (vec![Factor::Infer, "m".into()], "factor `m` is not known to be positive"),
        (vec![Factor::Infer, "no such".into()], "the dimensions are `m`, `k`, `n`"),
        (vec!["n".into(), Factor::Infer, Factor::Infer], "at most one factor can be inferred"),
        (vec!["n".into(), "k".into()], "None must stand for one of the factors"),
        (vec![Factor::Infer, "n".into(), Factor::Int(0)], "a factor must be positive"),
        (vec![Factor::Infer, "n".into(), huge.clone()], "may not fit an i64"),
        (vec![Factor::Infer, "n".into(), huge.clone(), huge], "does not fit an i64"),
    ];
    let mut sch = Schedule::new(program()).unwrap();
    let y = sch.block("y").unwrap();
    let [i, _, _] = sch.loops(y).unwrap();
    for (factors, why) in cases {
        let before = sch.func().clone();
        let err = sch.split_n(i, &factors).unwrap_err().to_string();
        assert!(err.contains(why), "{why} is missing in\n{err}");
        structural_equal(&before, sch.func()).unwrap();
    }
    // Each factor of 2^32 multiplies the index.
    let mut outer = i;
    let steps = (0..8).take_while(|_| {
        let factors = [Factor::Infer, "n".into(), Factor::Int(1 << 20)];
        sch.split(outer, factors).map(|loops| outer = loops[0]).is_ok()
    });
    assert!(steps.count() < 4, "{}", sch.func());
}

#[test]
fn loops_longer_than_a_symbolic_extent_run_no_block_beyond_it() {
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let program = dense(m, n, k);
    let mut sch = Schedule::new(program.clone()).unwrap();
    let o = sch.block("o").unwrap();
    let [i, j] = sch.loops(o).unwrap();
    let fused = sch.fuse([i, j]).unwrap();
    let [first, _] = sch.loop_partition(fused, &[4]).unwrap();
    // The axes are quotients and remainders by `n`.
    sch.split(first, [Some(3), Some(2)]).unwrap();
    for dims in [[2, 3, 0], [0, 3, 2], [2, 0, 2], [3, 2, 1], [3, 4, 5]] {
        let values = |func: &PrimFunc| run(func, arguments(func, &dims));
        assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
    }
}
