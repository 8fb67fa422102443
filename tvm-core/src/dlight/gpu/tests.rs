//! Which loops the rules bind, and that the programs compute what they did.

mod atomic;
mod conv;
mod long_rows;
mod pairs;

use tvm_runtime::DataType;

use crate::ir::{IRModule, Var};
use crate::pass::{PassContext, Pipelines};
use crate::target::{GpuArch, Target};
use crate::te;
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::Program;
use crate::tir::testing::{arguments, dense, stencil};
use crate::tir::{PrimExpr, PrimFunc};

use super::schedule_for_gpu;

/// Lowers `func` with its default schedule, and compares a run of its threads with a run of `func`.
fn check(func: &PrimFunc, dims: &[i64]) -> Vec<DeviceKernel> {
    let context = PassContext::new().target(Target::cuda());
    let pipeline = Pipelines::for_target(&Target::cuda()).tir;
    let lowered = pipeline.apply_in(IRModule::from_prim_func(func.clone()), &context).unwrap();
    let lowered = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
    let mut want = arguments(func, dims);
    Program::compile(func).unwrap().run(&mut want).unwrap();
    for seed in 0..1 {
        let mut got = arguments(func, dims);
        Program::compile(lowered)
            .unwrap()
            .strict(seed)
            .run(&mut got)
            .unwrap_or_else(|err| panic!("{err}\n{lowered}"));
        for (got, want) in got.iter().zip(&want) {
            let (got, want) = (got.as_tensor().unwrap(), want.as_tensor().unwrap());
            assert_eq!(got.bytes().unwrap(), want.bytes().unwrap(), "{lowered}");
        }
    }
    DeviceKernel::all(lowered)
}

fn threads(kernel: &DeviceKernel) -> Option<i64> {
    kernel.block().iter().try_fold(1, |count, it| Some(count * it.as_int()?))
}

#[test]
fn every_block_becomes_a_kernel_of_many_threads() {
    let [m, n, k] = [20, 30, 4].map(PrimExpr::index);
    let kernels = check(&dense(m, n, k), &[]);
    assert!(kernels.len() == 2 && kernels.iter().all(|it| threads(it) == Some(150)), "{kernels:?}");
    let free = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let [m, n, k] = free;
    let free = dense(m, n, k);
    for [m, n, k] in [[1, 1, 1], [17, 33, 3], [3, 0, 2]] {
        let kernels = check(&free, &[m, k, n]);
        let counts: Vec<_> = kernels.iter().map(threads).collect();
        assert!(!counts.is_empty() && counts.iter().all(|it| *it == Some(256)), "{counts:?}");
    }
    let kernels = check(&stencil(PrimExpr::index(7), PrimExpr::index(5)), &[]);
    assert!(kernels.iter().all(|it| threads(it) > Some(30)), "{kernels:?}");
}

#[test]
fn the_rule_says_what_it_chose() {
    let [m, n, k] = [20, 30, 4].map(PrimExpr::index);
    let (func, applied) = schedule_for_gpu(&dense(m, n, k), GpuArch::DEFAULT.limits()).unwrap();
    let text: Vec<String> =
        applied.iter().map(|it| format!("{}: {} ({})", it.block, it.rule, it.parameters)).collect();
    assert_eq!(
        text,
        [
            "y: fallback (2 of 3 loops spatial, 150 threads in a block)",
            "o: fallback (2 of 2 loops spatial, 150 threads in a block)",
        ]
    );
    assert!(schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).is_none(), "it has a schedule now");
}

/// Axes of known length inside of one of any length are threads, the other one is blocks.
#[test]
fn loops_of_any_length_are_blocks() {
    let n = PrimExpr::from(Var::index("n"));
    let shape = [n, PrimExpr::index(5), PrimExpr::index(60)];
    let x = te::placeholder("x", shape.clone(), DataType::I64);
    let y = te::compute("y", shape, &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * 3);
    let func = te::create_prim_func("f", &[x], &[y]).unwrap();
    for n in [0, 1, 7] {
        let kernels = check(&func, &[n]);
        let [kernel] = &kernels[..] else { unreachable!("there is one block: {kernels:?}") };
        assert_eq!(threads(kernel), Some(240));
    }
}

/// A sum of few elements has no independent iterations, and not enough for threads to divide: one thread computes it.
#[test]
fn what_cannot_be_divided_runs_in_one_thread() {
    let n = PrimExpr::index(20);
    let x = te::placeholder("x", [n.clone()], DataType::I64);
    let r = te::reduce_axis("r", n);
    let y = te::compute("y", [PrimExpr::index(1)], &[&x], |_: &[PrimExpr]| te::sum(x.at([r.expr()]), &[&r]));
    let func = te::create_prim_func("f", &[x], &[y]).unwrap();
    assert_eq!(check(&func, &[]).iter().map(threads).collect::<Vec<_>>(), [Some(1)]);
}

/// `x w`, of `batch` matrices each.
fn product(batch: Option<i64>, [m, n, k]: [PrimExpr; 3]) -> PrimFunc {
    let lead: Vec<PrimExpr> = batch.into_iter().map(PrimExpr::index).collect();
    let shape = |rest: [&PrimExpr; 2]| [&lead[..], &rest.map(Clone::clone)].concat();
    let x = te::placeholder("x", shape([&m, &k]), DataType::I64);
    let w = te::placeholder("w", shape([&k, &n]), DataType::I64);
    let r = te::reduce_axis("r", k.clone());
    let y = te::compute("y", shape([&m, &n]), &[&x, &w], |i: &[PrimExpr]| {
        let (lead, last) = i.split_at(i.len() - 2);
        let (row, column) = (&last[0], &last[1]);
        let at = |a: PrimExpr, b: PrimExpr| [lead, &[a, b]].concat();
        te::sum(x.at(at(row.clone(), r.expr())) * w.at(at(r.expr(), column.clone())), &[&r])
    });
    te::create_prim_func("product", &[x, w], &[y]).unwrap()
}

#[test]
fn products_have_tiles() {
    let rules = |func: &PrimFunc| {
        let (_, applied) = schedule_for_gpu(func, GpuArch::DEFAULT.limits()).unwrap();
        applied.iter().map(|it| format!("{} {}", it.rule, it.parameters)).collect::<Vec<_>>()
    };
    let tiles = ["matmul tiles of 64x64x16, 4x4 in a thread"];
    let small = ["matmul tiles of 32x32x16, 2x2 in a thread"];
    for (batch, sizes) in [(None, [40, 33, 35]), (Some(2), [33, 32, 37])] {
        let func = product(batch, sizes.map(PrimExpr::index));
        assert_eq!(rules(&func), small, "{sizes:?}");
        let kernels = check(&func, &[]);
        assert!(kernels.iter().any(|it| it.shared.len() == 4), "{kernels:?}");
    }
    let large = product(None, [2048, 2048, 64].map(PrimExpr::index));
    assert_eq!(rules(&large), ["matmul tiles of 128x128x16, 8x8 in a thread"]);
    let free = product(None, ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name))));
    assert_eq!(rules(&free), tiles);
    for [m, n, k] in [[1, 1, 1], [7, 70, 18], [0, 3, 2]] {
        check(&free, &[m, k, n]);
    }
}

#[test]
fn few_results_of_many_terms_are_summed_in_parts() {
    for (batch, sizes, parts) in [(None, [33, 32, 192], 3), (Some(2), [32, 33, 128], 2)] {
        let func = product(batch, sizes.map(PrimExpr::index));
        let (_, applied) = schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).unwrap();
        let text = &applied[0].parameters;
        let end = format!(", {parts} parts of the terms");
        assert!(applied.len() == 1 && text.contains("32x32x16") && text.ends_with(&end), "{text}");
        let kernels = check(&func, &[]);
        assert_eq!(kernels.len(), 2, "{kernels:?}");
    }
    let func = product(None, [256, 1024, 2048].map(PrimExpr::index));
    let (_, applied) = schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).unwrap();
    let text = &applied[0].parameters;
    assert!(text.contains("128x64x16") && text.ends_with(", 4 parts of the terms"), "{text}");
}

#[test]
fn rows_have_a_block_of_threads() {
    let rows = |shape: &[PrimExpr]| {
        let x = te::placeholder("x", shape.to_vec(), DataType::I64);
        let (last, lead) = shape.split_last().unwrap();
        let r = te::reduce_axis("r", last.clone());
        let lead = if lead.is_empty() { vec![PrimExpr::index(1)] } else { lead.to_vec() };
        let count = shape.len() - 1;
        let y = te::compute("y", lead, &[&x], |i: &[PrimExpr]| {
            te::max(x.at([&i[..count], &[r.expr()]].concat()), &[&r])
        });
        te::create_prim_func("rows", &[x], &[y]).unwrap()
    };
    let [m, n] = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let fixed = |shape: &[i64]| rows(&shape.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>());
    let free = rows(&[m, n]);
    /// The threads of the kernels, and the dimensions of the calls.
    type Expected<'a> = (&'a [i64], &'a [&'a [i64]]);
    let cases: [(PrimFunc, Expected<'_>); 7] = [
        (fixed(&[3, 512]), (&[128], &[&[]])),
        (fixed(&[2, 3, 1000]), (&[256], &[&[]])),
        (fixed(&[700]), (&[256], &[&[]])),
        (fixed(&[1024]), (&[256], &[&[]])),
        (fixed(&[70, 33]), (&[256], &[&[]])),
        (fixed(&[2, 40001]), (&[1024, 32], &[&[]])),
        (free, (&[256], &[&[3, 5], &[1, 1], &[2, 700], &[0, 2]])),
    ];
    for (func, (want, dims)) in cases {
        let (_, applied) = schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).unwrap();
        assert_eq!(applied[0].rule, "reduction", "{func}");
        for dims in dims {
            let kernels = check(&func, dims);
            let got: Vec<i64> = kernels.iter().filter_map(threads).collect();
            assert_eq!(got, want, "{applied:?}");
        }
    }
}

/// Rows of `x` minus their largest element, over their sums; in `i64`, so that the order of a sum does not matter.
fn softmax(shape: &[PrimExpr]) -> PrimFunc {
    let x = te::placeholder("x", shape.to_vec(), DataType::I64);
    let (last, lead) = shape.split_last().unwrap();
    let count = lead.len();
    let at = |i: &[PrimExpr], last: PrimExpr| [&i[..count], &[last]].concat();
    let r = te::reduce_axis("r", last.clone());
    let top =
        te::compute("top", lead.to_vec(), &[&x], |i: &[PrimExpr]| te::max(x.at(at(i, r.expr())), &[&r]));
    let e = te::compute("e", shape.to_vec(), &[&x, &top], |i: &[PrimExpr]| {
        let far = top.at(i[..count].to_vec()) - x.at(i.to_vec());
        far.clone() * &far * &far - far.clone() * &far * 3 + far * 7 + 1
    });
    let r = te::reduce_axis("r", last.clone());
    let sum =
        te::compute("sum", lead.to_vec(), &[&e], |i: &[PrimExpr]| te::sum(e.at(at(i, r.expr())), &[&r]));
    let y = te::compute("y", shape.to_vec(), &[&e, &sum], |i: &[PrimExpr]| {
        e.at(i.to_vec()) * 1000 + sum.at(i[..count].to_vec()) * 3
    });
    te::create_prim_func("softmax", &[x], &[y]).unwrap()
}

#[test]
fn chains_of_rows_are_one_kernel() {
    let free = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let fixed = |shape: &[i64]| softmax(&shape.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>());
    let [m, _] = free.clone();
    let cases: [(PrimFunc, i64, &[&[i64]]); 8] = [
        (fixed(&[3, 300]), 128, &[&[]]),
        (fixed(&[2, 5, 33]), 32, &[&[]]),
        (fixed(&[3, 4, 33]), 128, &[&[]]),
        (fixed(&[40, 1, 12]), 256, &[&[]]),
        (fixed(&[2, 3000]), 1024, &[&[]]),
        (softmax(&[m.clone(), PrimExpr::index(70)]), 32, &[&[5], &[0], &[1]]),
        (softmax(&[m, PrimExpr::index(5), PrimExpr::index(64)]), 32, &[&[3]]),
        (softmax(&free), 256, &[&[3, 5], &[1, 1], &[2, 700], &[0, 2], &[2, 0]]),
    ];
    for (func, want, dims) in cases {
        let (_, applied) = schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).unwrap();
        assert_eq!(applied.iter().map(|it| it.rule).collect::<Vec<_>>(), ["rows"], "{applied:?}");
        for dims in dims {
            let kernels = check(&func, dims);
            assert_eq!(kernels.iter().filter_map(threads).collect::<Vec<_>>(), [want], "{applied:?}");
        }
    }
}

/// The rule that takes each block of `func`.
fn rules(func: &PrimFunc) -> Vec<&'static str> {
    let (_, applied) = schedule_for_gpu(func, GpuArch::DEFAULT.limits()).unwrap();
    applied.iter().map(|it| it.rule).collect()
}

#[test]
fn columns_are_divided() {
    let columns = |lead: &[PrimExpr], m: PrimExpr, n: PrimExpr| {
        let shape = [lead, &[m.clone(), n.clone()]].concat();
        let x = te::placeholder("x", shape, DataType::I64);
        let r = te::reduce_axis("r", m);
        let y = te::compute("y", [lead, &[n]].concat(), &[&x], |i: &[PrimExpr]| {
            let (lead, column) = i.split_at(i.len() - 1);
            te::sum(x.at([lead, &[r.expr(), column[0].clone()]].concat()), &[&r])
        });
        te::create_prim_func("columns", &[x], &[y]).unwrap()
    };
    let [m, n] = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let int = PrimExpr::index;
    let cases: [(PrimFunc, &[&[i64]]); 4] = [
        (columns(&[], int(70), int(33)), &[&[]]),
        (columns(&[int(3)], int(64), int(5)), &[&[]]),
        (columns(&[], m.clone(), n.clone()), &[&[3, 5], &[0, 4], &[100, 64], &[9, 1], &[4, 0]]),
        (columns(&[n], m, int(40)), &[&[2, 70], &[3, 1]]),
    ];
    for (func, dims) in cases {
        assert_eq!(rules(&func), ["columns"], "{func}");
        for dims in dims {
            let kernels = check(&func, dims);
            assert_eq!(kernels.iter().filter_map(threads).collect::<Vec<_>>(), [256], "{kernels:?}");
        }
    }
    let few = columns(&[int(2)], int(700), int(64));
    let kernels = check(&few, &[]);
    assert_eq!(kernels.iter().filter_map(threads).collect::<Vec<_>>(), [256, 256], "{kernels:?}");
    // A thread for each result is enough, or there is not much to divide.
    assert_eq!(rules(&columns(&[], int(64), int(1 << 20))), ["fallback"]);
    assert_eq!(rules(&columns(&[], int(8), int(100))), ["fallback"]);
}

#[test]
fn turned_operands_go_through_tiles() {
    let turned = |shape: &[PrimExpr], order: &[usize]| {
        let x = te::placeholder("x", shape.to_vec(), DataType::I64);
        let out: Vec<PrimExpr> = order.iter().map(|&at| shape[at].clone()).collect();
        let y = te::compute("y", out, &[&x], |i: &[PrimExpr]| {
            let place = |at: usize| i[order.iter().position(|it| *it == at).unwrap()].clone();
            x.at((0..shape.len()).map(place).collect::<Vec<_>>()) * 2 + i[0].clone()
        });
        te::create_prim_func("turned", &[x], &[y]).unwrap()
    };
    let [m, n] = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let int = PrimExpr::index;
    let cases: [(PrimFunc, &[&[i64]]); 4] = [
        (turned(&[int(33), int(70)], &[1, 0]), &[&[]]),
        (turned(&[m.clone(), n.clone()], &[1, 0]), &[&[3, 5], &[32, 64], &[0, 4], &[1, 65]]),
        (turned(&[int(2), m.clone(), int(3), int(40)], &[0, 2, 3, 1]), &[&[1], &[35]]),
        (turned(&[n, int(32), m], &[2, 0, 1]), &[&[2, 33]]),
    ];
    for (func, dims) in cases {
        assert_eq!(rules(&func), ["transpose"], "{func}");
        for dims in dims {
            let kernels = check(&func, dims);
            assert!(kernels.iter().all(|it| threads(it) == Some(256) && it.shared.len() == 1), "{kernels:?}");
        }
    }
    assert_eq!(rules(&turned(&[int(16), int(700)], &[1, 0])), ["fallback"]);
}

#[test]
fn products_write_what_reads_them() {
    let [m, n, k] = [40, 66, 35].map(PrimExpr::index);
    let func = dense(m, n, k);
    let (_, applied) = schedule_for_gpu(&func, GpuArch::DEFAULT.limits()).unwrap();
    let text: Vec<&str> = applied.iter().map(|it| &*it.parameters).collect();
    assert_eq!(text, ["tiles of 32x32x16, 2x2 in a thread, with the block that reads it"]);
    assert_eq!(check(&func, &[]).len(), 1);
}

/// The products of one row and a matrix: along the terms, or along the columns, whichever is contiguous.
#[test]
fn products_of_one_row_are_reductions() {
    let func = product(None, [1, 70, 130].map(PrimExpr::index));
    assert_eq!(rules(&func), ["columns"]);
    check(&func, &[]);
    let turned = |n: PrimExpr, k: PrimExpr| {
        let x = te::placeholder("x", [k.clone()], DataType::I64);
        let w = te::placeholder("w", [n.clone(), k.clone()], DataType::I64);
        let r = te::reduce_axis("r", k);
        let y = te::compute("y", [n], &[&x, &w], |i: &[PrimExpr]| {
            te::sum(x.at([r.expr()]) * w.at([i[0].clone(), r.expr()]), &[&r])
        });
        te::create_prim_func("turned", &[x, w], &[y]).unwrap()
    };
    let [n, k] = ["n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    for (func, dims) in [(turned(70.into(), 130.into()), &[][..]), (turned(n, k), &[9, 300])] {
        assert_eq!(rules(&func), ["reduction"]);
        check(&func, dims);
    }
}
