//! Reductions by the threads of a block, as the default schedules for GPUs make them: their values, and mutants of their source
//! that must be found.

use tvm_codegen::cuda as generator;
use tvm_core::ir::{IRModule, Var};
use tvm_core::te::{self, Combiner};
use tvm_core::tir::{Intrinsic, PrimExpr, PrimFunc};
use tvm_core::topi;
use tvm_runtime::{DataType, Value};

use super::cuda::{emulate_source, interpret, lower};
use super::data::{Rng, random};
use super::suite::{Case, check, tensor};

/// `y[i] = combine(x[i, ..]) + b[i]`.
fn reduced(shape: [PrimExpr; 2], dtype: DataType, combiner: Combiner) -> PrimFunc {
    let [m, n] = shape;
    let x = te::placeholder("x", [m.clone(), n.clone()], dtype);
    let b = te::placeholder("b", [m.clone()], dtype);
    let r = te::reduce_axis("r", n);
    let s = te::compute("s", [m.clone()], &[&x], |i: &[PrimExpr]| {
        te::reduce(combiner.clone(), vec![x.at([i[0].clone(), r.expr()])], &[&r])
    });
    let y = te::compute("y", [m], &[&s, &b], |i: &[PrimExpr]| s.at(i.to_vec()) + b.at(i.to_vec()));
    te::create_prim_func("reduced", &[x, b], &[y]).unwrap()
}

/// `exp(x - max)` of each row, over its sum, plus `max`.
fn softmax(shape: [PrimExpr; 2], dtype: DataType) -> PrimFunc {
    let [m, n] = shape;
    let x = te::placeholder("x", [m.clone(), n.clone()], dtype);
    let r = te::reduce_axis("r", n.clone());
    let top = te::compute("top", [m.clone()], &[&x], |i: &[PrimExpr]| {
        te::max(x.at([i[0].clone(), r.expr()]), &[&r])
    });
    let e = te::compute("e", [m.clone(), n.clone()], &[&x, &top], |i: &[PrimExpr]| {
        (x.at(i.to_vec()) - top.at([i[0].clone()])).unary(Intrinsic::Exp)
    });
    let r = te::reduce_axis("r", n.clone());
    let sum = te::compute("sum", [m.clone()], &[&e], |i: &[PrimExpr]| {
        te::sum(e.at([i[0].clone(), r.expr()]), &[&r])
    });
    let y = te::compute("y", [m, n], &[&e, &sum, &top], |i: &[PrimExpr]| {
        e.at(i.to_vec()) / sum.at([i[0].clone()]) + top.at([i[0].clone()])
    });
    te::create_prim_func("softmax", &[x], &[y]).unwrap()
}

/// Each row less its mean, over the root of its variance, times `g` plus `b`.
fn layer_norm(m: PrimExpr, n: i64) -> PrimFunc {
    let f32 = |value: f64| PrimExpr::float(value, DataType::F32);
    let (width, count) = (PrimExpr::index(n), f32(n as f64));
    let x = te::placeholder("x", [m.clone(), width.clone()], DataType::F32);
    let [g, b] = ["g", "b"].map(|name| te::placeholder(name, [width.clone()], DataType::F32));
    let r = te::reduce_axis("r", width.clone());
    let sum = te::compute("sum", [m.clone()], &[&x], |i: &[PrimExpr]| {
        te::sum(x.at([i[0].clone(), r.expr()]), &[&r])
    });
    let mean = te::compute("mean", [m.clone()], &[&sum], |i: &[PrimExpr]| sum.at(i.to_vec()) / count.clone());
    let r = te::reduce_axis("r", width.clone());
    let square = te::compute("square", [m.clone()], &[&x, &mean], |i: &[PrimExpr]| {
        let far = x.at([i[0].clone(), r.expr()]) - mean.at(i.to_vec());
        te::sum(far.clone() * far, &[&r])
    });
    let y = te::compute("y", [m, width], &[&x, &mean, &square, &g, &b], |i: &[PrimExpr]| {
        let root = (square.at([i[0].clone()]) / count.clone() + f32(1e-5)).unary(Intrinsic::Sqrt);
        (x.at(i.to_vec()) - mean.at([i[0].clone()])) / root * g.at([i[1].clone()]) + b.at([i[1].clone()])
    });
    te::create_prim_func("layer_norm", &[x, g, b], &[y]).unwrap()
}

fn free() -> [PrimExpr; 2] {
    ["m", "n"].map(|name| PrimExpr::from(Var::index(name)))
}

const SIZES: [[i64; 2]; 8] = [[1, 1], [3, 70], [2, 0], [0, 5], [5, 33], [1, 700], [9, 256], [2, 31]];

#[test]
fn sums_of_all_types() {
    let mut rng = Rng(31);
    let types = [
        DataType::F32,
        DataType::F64,
        DataType::F16,
        DataType::I32,
        DataType::BF16,
        DataType::I8,
        DataType::U16,
    ];
    let mut cases = Vec::new();
    for (at, dtype) in types.into_iter().enumerate() {
        let combiner = [Combiner::sum, Combiner::max, Combiner::min][at % 3](dtype);
        let args = |[m, n]: [i64; 2], rng: &mut Rng| {
            [vec![m, n], vec![m], vec![m]].map(|shape| tensor(&shape, dtype, rng)).to_vec()
        };
        let calls = SIZES.map(|sizes| args(sizes, &mut rng)).to_vec();
        let tolerance = if dtype.bits() < 32 { 5e-2 } else { 1e-5 };
        cases.push(Case { func: reduced(free(), dtype, combiner.clone()), args: calls, tolerance });
        for sizes in [[6, 96], [2, 45]] {
            let func = reduced(sizes.map(PrimExpr::index), dtype, combiner.clone());
            cases.push(Case { func, args: vec![args(sizes, &mut rng)], tolerance });
        }
    }
    check(&cases);
}

#[test]
fn rows_that_are_one_kernel() {
    let mut rng = Rng(32);
    let args =
        |shape: [i64; 2], rng: &mut Rng| [shape, shape].map(|it| tensor(&it, DataType::F32, rng)).to_vec();
    let calls = SIZES.map(|sizes| args(sizes, &mut rng)).to_vec();
    let mut cases = vec![Case { func: softmax(free(), DataType::F32), args: calls, tolerance: 1e-5 }];
    for sizes in [[3, 300], [16, 20], [2, 4500]] {
        let func = softmax(sizes.map(PrimExpr::index), DataType::F32);
        cases.push(Case { func, args: vec![args(sizes, &mut rng)], tolerance: 1e-5 });
    }
    for (rows, n) in [(None, 70), (Some(6), 768)] {
        let func = layer_norm(rows.map_or_else(|| free()[0].clone(), PrimExpr::index), n);
        let args = |m: i64, rng: &mut Rng| {
            [vec![m, n], vec![n], vec![n], vec![m, n]].map(|it| tensor(&it, DataType::F32, rng)).to_vec()
        };
        let calls = rows.map_or(vec![0, 1, 5], |rows| vec![rows]).into_iter();
        cases.push(Case { func, args: calls.map(|m| args(m, &mut rng)).collect(), tolerance: 1e-4 });
    }
    check(&cases);
}

/// Rows that fit no shared memory have their maximum and their sum in one sweep; a row that fits is copied there while no thread waits.
/// Logarithms, because quotients of such rows are smaller than the tolerance.
#[test]
fn maximum_and_sum_in_one_sweep() {
    let mut rng = Rng(33);
    let cases = [[2, 18_700], [5, 40_000]].map(|shape: [i64; 2]| {
        let x = te::placeholder("x", shape.map(PrimExpr::index), DataType::F32);
        let y = topi::log_softmax(&x, 1);
        let func = te::create_prim_func("log_softmax", &[x], &[y]).unwrap();
        let calls = [false, true].map(|special| {
            let x = Value::Tensor(random(&shape, DataType::F32, &mut rng, special));
            vec![x, tensor(&shape, DataType::F32, &mut rng)]
        });
        Case { func, args: calls.to_vec(), tolerance: 1e-5 }
    });
    let [near, far] = [0, 1]
        .map(|at: usize| lower(&IRModule::from_prim_func(cases[at].func.clone())).remove(0).1.to_string());
    assert!(far.contains("max_part") && far.contains("abs(") && !far.contains("async_copy("), "{far}");
    assert!(near.contains("async_copy(") && !near.contains("abs("), "{near}");
    check(&cases);
}

/// The source with one change that makes it wrong: the emulator must stop, or compute something else.
#[test]
fn mutants_are_found() {
    // Many rows: for some of them, it matters which thread has the largest element.
    let sizes = [24, 300];
    // Of symbolic length: no row is in shared memory, where a thread reads what it wrote itself, without need of a barrier.
    let programs = lower(&IRModule::from_prim_func(softmax(free(), DataType::F32)));
    let source = generator::source(&programs).unwrap();
    let calls = [vec![[sizes, sizes].map(|it| tensor(&it, DataType::F32, &mut Rng(5))).to_vec()]];
    let want = numbers(&interpret(&programs, &calls));
    let Some(right) = emulate_source(&source, &calls) else { return };
    assert!(close(&numbers(&right.unwrap()), &want));
    let (prelude, kernels) = source.text.split_at(source.text.find("// grid").unwrap());
    let mut mutants = Vec::new();
    for word in ["(void)tvm_barrier();", "tvm_shuffle_xor("] {
        let count = kernels.matches(word).count();
        assert!(count >= 4, "{count} times `{word}`: {kernels}");
        for (at, (place, _)) in kernels.match_indices(word).enumerate() {
            let (before, after) = kernels.split_at(place);
            let without = match word.strip_suffix('(') {
                // The thread takes its own value.
                Some(_) => after.replacen(word, "own_value(", 1),
                None => after.replacen(word, "", 1),
            };
            mutants.push((format!("{at}: without `{word}`"), format!("{before}{without}")));
        }
    }
    let own = "template <class T> static T own_value(T x, int) { return x; }\n";
    // A thread that does not take part.
    let place = kernels.find("tvm_shuffle_xor(").unwrap();
    let line = kernels[..place].rfind('\n').unwrap() + 1;
    let absent = format!("{}if (threadIdx.x != 5) {}", &kernels[..line], kernels[line..].trim_start());
    mutants.push(("one thread misses a shuffle".into(), absent));
    for (what, kernels) in mutants {
        let mutant = generator::CudaSource { text: format!("{prelude}{own}{kernels}"), ..source.clone() };
        let found = match emulate_source(&mutant, &calls).unwrap() {
            Ok(got) => !close(&numbers(&got), &want),
            Err(_) => true,
        };
        assert!(found, "{what} is not found:\n{kernels}");
    }
}

fn numbers(results: &[Vec<Vec<Value>>]) -> Vec<f32> {
    let outputs = results.iter().flatten().map(|args| args[1].as_tensor().unwrap());
    outputs.flat_map(|it| it.to_vec::<f32>().unwrap()).collect()
}

fn close(got: &[f32], want: &[f32]) -> bool {
    got.iter().zip(want).all(|(got, want)| (got - want).abs() <= 1e-5 * want.abs())
}
