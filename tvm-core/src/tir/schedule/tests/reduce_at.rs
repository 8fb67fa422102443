//! `reverse_compute_at` of a reduction: it goes on from iteration to iteration of the loop that makes its terms.

use super::kernels::{AT, each, input, kernel, output, r, results, s};
use super::*;
use crate::script::{FuncBuilder, KernelValue};
use crate::tir::transform::IN_ORDER;
use crate::tir::{BinaryOp, Scope};

/// `e[i, k] = 2 x[i, k]`, made `times` times; then `y[i]` is 5 and the sum of the row of `e`.
fn sums(b: &FuncBuilder, times: i64) {
    let x = input(b, "x", &[3, 8]);
    let y = output(b, "y", &[3]);
    let e = b.alloc(AT, "e", I64, [3, 8].map(KernelValue::int), Scope::Global);
    each(b, "i", 3, |i| {
        each(b, "again", times, |_| {
            each(b, "k", 8, |k| {
                b.block(AT, "double", [s("vi", &i), s("vk", &k)], |[vi, vk]| {
                    let value = b.load(AT, &x, [vi.clone(), vk.clone()]);
                    b.store(AT, &e, [vi, vk], value.clone().binary(BinaryOp::Add, value));
                });
            });
        });
    });
    each(b, "i", 3, |i| {
        each(b, "k", 8, |k| {
            b.block(AT, "sum", [s("vi", &i), r("vk", &k)], |[vi, vk]| {
                b.init(AT, || b.store(AT, &y, [vi.clone()], KernelValue::int(5)));
                let sum = b.load(AT, &y, [vi.clone()]);
                b.store(AT, &y, [vi.clone()], sum.binary(BinaryOp::Add, b.load(AT, &e, [vi, vk])));
            });
        });
    });
}

type Change = fn(&mut Schedule, [BlockRV; 2]) -> Result<()>;

/// The schedule after `change`; the results are the same. `None` if it is refused, and then nothing has changed.
fn moved(
    program: &PrimFunc,
    change: impl FnOnce(&mut Schedule, [BlockRV; 2]) -> Result<()>,
) -> Option<Schedule> {
    let mut sch = Schedule::new(program.clone()).unwrap();
    let blocks = [sch.block("double").unwrap(), sch.block("sum").unwrap()];
    let refused = change(&mut sch, blocks).err().map(|err| err.to_string());
    // The trace has the steps that were accepted, and nothing else has changed the program.
    replayed(program, &sch);
    assert_eq!(results(sch.func()), results(program), "{}", sch.func());
    match refused {
        Some(err) => {
            assert!(err.contains("`reverse_compute_at` is not legal here"), "{err}");
            None
        }
        None => Some(sch),
    }
}

#[test]
fn a_sum_goes_on_where_its_terms_are_made() {
    let program = kernel(|b| sums(b, 1));
    let at_columns = moved(&program, |s, [double, sum]| {
        let [_, _, k] = s.loops(double)?;
        s.reverse_compute_at(sum, k)
    });
    let shown = at_columns.unwrap().func().to_string();
    let [double, sum] = ["block(\"double\"", "block(\"sum\""].map(|it| shown.find(it).unwrap());
    assert!(double < sum && shown.matches("for ").count() <= 2, "{shown}");
    let in_parts = moved(&program, |s, [double, sum]| {
        let [_, _, k] = s.loops(double)?;
        let [outer, _] = s.split(k, [None, Some(4)])?;
        s.reverse_compute_at(sum, outer)?;
        s.decompose_reduction(sum, outer).map(drop)
    });
    assert!(in_parts.unwrap().func().to_string().contains("sum_init"));
    // Rows are side by side, and each goes on by itself.
    let rows = moved(&program, |s, [double, sum]| {
        let [i, _, k] = s.loops(double)?;
        s.parallel(i)?;
        s.reverse_compute_at(sum, k)
    });
    assert!(rows.is_some());
}

#[test]
fn no_term_is_added_twice_or_out_of_turn() {
    // What is made again would be added again.
    let again = kernel(|b| sums(b, 2));
    let inner = moved(&again, |s, [double, sum]| {
        let [_, _, k] = s.loops(double)?;
        s.reverse_compute_at(sum, k)
    });
    assert!(inner.is_none());
    let program = kernel(|b| sums(b, 1));
    let refused: [Change; 4] = [
        // Terms side by side.
        |s, [double, sum]| {
            let [_, _, k] = s.loops(double)?;
            s.parallel(k)?;
            s.reverse_compute_at(sum, k)
        },
        |s, [double, sum]| {
            let [_, _, k] = s.loops(double)?;
            s.vectorize(k)?;
            s.reverse_compute_at(sum, k)
        },
        // The start of the sum has left the block.
        |s, [double, sum]| {
            let ([_, _, k], [_, terms]) = (s.loops(double)?, s.loops(sum)?);
            s.decompose_reduction(sum, terms)?;
            s.reverse_compute_at(sum, k)
        },
        |s, [double, sum]| {
            let [_, _, k] = s.loops(double)?;
            s.annotate(sum, IN_ORDER, true)?;
            s.reverse_compute_at(sum, k)
        },
    ];
    for (case, change) in refused.into_iter().enumerate() {
        assert!(moved(&program, change).is_none(), "{case}");
    }
}
