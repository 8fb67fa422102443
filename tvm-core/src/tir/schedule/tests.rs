//! Random schedules of small programs: accepted primitives keep the results, refused ones leave the program unchanged.

use super::*;
use crate::ir::{structural_equal, structural_hash};
use crate::te;
use crate::tir::testing::{I64, arguments, dense, random_step, register, run, stencil};
use crate::tir::{PrimExpr, analysis::well_formed};
use tvm_testing::Rng;

mod align;
mod atomic;
mod block_layout;
mod blockize;
mod cache_index;
mod fuse_reduction_epilogue;
mod handles;
mod kernels;
mod legality;
mod many;
mod module;
mod pad_einsum;
mod padding;
mod partition;
mod predicates;
mod reduce_at;
mod reindex;
mod rfactor;
mod sampling;
mod small;
mod symbolic;
mod tensorize;
mod tiles;

/// Checks that the program of `sch` is well-formed, and that its trace makes it of `program` again.
fn replayed(program: &PrimFunc, sch: &Schedule) {
    well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
    assert!(sch.state().verify());
    let mut again = Schedule::new(program.clone()).unwrap();
    Trace::from_json(&sch.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
    structural_equal(sch.func(), again.func()).unwrap();
}

fn dim(n: i64) -> PrimExpr {
    PrimExpr::index(n)
}

fn small_dense() -> PrimFunc {
    dense(dim(7), dim(9), dim(5))
}

/// Row maximum, difference, row sum, product: two reductions with readers in between.
fn rows() -> PrimFunc {
    let (m, n) = (6, 10);
    let x = te::placeholder("x", [dim(m), dim(n)], I64);
    let (r, q) = (te::reduce_axis("r", n), te::reduce_axis("q", n));
    let top =
        te::compute("top", [dim(m)], &[&x], |i: &[PrimExpr]| te::max(x.at([i[0].clone(), r.expr()]), &[&r]));
    let d = te::compute("d", [dim(m), dim(n)], &[&x, &top], |i: &[PrimExpr]| {
        x.at(i.to_vec()) - top.at([i[0].clone()])
    });
    let total = te::compute("total", [dim(m)], &[&d], |i: &[PrimExpr]| {
        te::sum(d.at([i[0].clone(), q.expr()]), &[&q])
    });
    let o = te::compute("o", [dim(m), dim(n)], &[&d, &total], |i: &[PrimExpr]| {
        d.at(i.to_vec()) * total.at([i[0].clone()])
    });
    te::create_prim_func("rows", &[x], &[o]).unwrap()
}

/// Positions and values of the smallest elements of rows, with readers of both.
fn positions() -> PrimFunc {
    let x = te::placeholder("x", [dim(6), dim(10)], I64);
    let few = te::compute("few", [dim(6), dim(10)], &[&x], |i: &[PrimExpr]| x.at(i.to_vec()).floormod(4));
    let r = te::reduce_axis("r", 10);
    let y = te::compute_many("y", vec![dim(6)], &[&few], |i: &[PrimExpr]| {
        let least = te::Combiner::arg_extreme(I64, false, true);
        te::reduce(least, vec![r.expr(), few.at([i[0].clone(), r.expr()])], &[&r])
    });
    let z = te::compute("z", [dim(6)], &[&y[0], &y[1]], |i: &[PrimExpr]| {
        y[0].at(i.to_vec()) * 100 + y[1].at(i.to_vec())
    });
    te::create_prim_func("positions", &[x], &[z]).unwrap()
}

#[test]
fn random_schedules_keep_results() {
    register();
    let mut rng = Rng::new(2024);
    let mut applied: std::collections::BTreeMap<&str, (u32, u32)> = Default::default();
    let fixed = [small_dense(), stencil(dim(8), dim(6)), rows()].map(|it| (it, vec![], 250));
    let others = [(symbolic::program(), vec![7, 5, 3], 120), (positions(), vec![], 150)];
    for (program, dims, count) in fixed.into_iter().chain(others) {
        let want = run(&program, arguments(&program, &dims));
        for _ in 0..count {
            let mut s = Schedule::new(program.clone()).unwrap();
            for _ in 0..1 + rng.below(10) {
                let before = s.clone();
                let (name, res) = random_step(&mut s, &mut rng);
                let count = applied.entry(name).or_default();
                match res {
                    Ok(()) => {
                        count.0 += 1;
                        assert_eq!(
                            run(s.func(), arguments(s.func(), &dims)),
                            want,
                            "{name}: {}\n{}",
                            before.func(),
                            s.func()
                        );
                    }
                    Err(err) => {
                        count.1 += 1;
                        assert!(!err.to_string().is_empty());
                        structural_equal(before.func(), s.func()).unwrap();
                    }
                }
                assert!(s.state().verify() && before.state().verify());
                well_formed(s.func())
                    .unwrap_or_else(|err| panic!("{name}: {err}\n{}\n{}", s.trace(), s.func()));
            }
            let trace = Trace::from_json(&s.trace().to_json()).unwrap();
            let mut again = Schedule::new(program.clone()).unwrap();
            trace.apply_to_schedule(&mut again).unwrap();
            structural_equal(s.func(), again.func()).unwrap();
            assert_eq!(structural_hash(s.func()), structural_hash(again.func()));
        }
    }
    for (name, (accepted, refused)) in applied {
        assert!(accepted > 5, "{name} was accepted {accepted} times and refused {refused} times");
    }
}

#[test]
fn refusals_say_why_and_show_the_nest() {
    let mut s = Schedule::new(small_dense()).unwrap();
    let y = s.block("y").unwrap();
    let [_, _, r] = s.loops(y).unwrap();
    let err = s.parallel(r).unwrap_err().to_string();
    for part in ["parallel", "Reduce axis", "block \"y\"", "^^^", "help:"] {
        assert!(err.contains(part), "{part} is missing in\n{err}");
    }
    let err = s.block("nope").unwrap_err().to_string();
    assert!(err.contains("`y`") && err.contains("`nope`"), "{err}");
    assert!(s.loops::<2>(y).is_err());
    let [i, _, _] = s.loops(y).unwrap();
    for factors in [[Some(0), None], [None, None], [Some(2), Some(2)]] {
        assert!(matches!(s.split(i, factors), Err(ScheduleError::BadArgument { .. })), "{factors:?}");
    }
}

#[test]
fn traces_print_as_rust_and_refuse_what_does_not_fit() {
    let mut s = Schedule::new(small_dense()).unwrap();
    let y = s.block("y").unwrap();
    let [i, _, _] = s.loops(y).unwrap();
    s.split(i, [None, Some(4)]).unwrap();
    assert_eq!(
        s.trace().to_string(),
        "let v0 = s.block(\"y\")?;\nlet [v1, v2, v3] = s.loops(v0)?;\nlet [v4, v5] = s.split(v1, [None, Some(4)])?;\n"
    );
    let mut other = Schedule::new(rows()).unwrap();
    assert!(s.trace().apply_to_schedule(&mut other).is_err());
    for bad in [
        "",
        "{}",
        "{\"version\":2,\"instructions\":[]}",
        "{\"version\":1,\"instructions\":[{\"kind\":\"split\"}]}",
    ] {
        assert!(matches!(Trace::from_json(bad), Err(ScheduleError::Trace(_))), "{bad}");
    }
}
