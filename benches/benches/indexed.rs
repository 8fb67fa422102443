//! Gathers, scatters, running sums and sorts: medians of interleaved runs beside plain Rust loops and the sorts of the
//! standard library, on one thread. `TVM_NUM_THREADS=1 cargo bench -p tvm-benches --features llvm --bench indexed [-- FILTER]`
//! `EXPLAIN=1` prints the schedules.
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark that prints a table")]

use std::collections::HashMap;
use std::time::Instant;

use tvm::codegen::{Compiled, compile_module};
use tvm::ir::{Attrs, BaseFunc, IRModule, Op, Span, Type, Var};
use tvm::prelude::*;
use tvm::relax::{Arg, BlockBuilder};
use tvm::runtime::Value;
use tvm::runtime::vm::Workspace;
use tvm::tir::PrimExpr;

struct Case<'a> {
    name: &'a str,
    op: &'a str,
    args: &'a [Tensor],
    attrs: Attrs,
    /// Writes the first result.
    peer: &'a mut dyn FnMut(&mut Vec<f32>),
    /// Extents that are symbolic dimensions.
    symbolic: bool,
}

fn module(case: &Case<'_>) -> IRModule {
    let mut names: HashMap<i64, PrimExpr> = HashMap::new();
    let mut dim = |extent: i64| -> PrimExpr {
        if !case.symbolic {
            return extent.into();
        }
        names.entry(extent).or_insert_with(|| Var::index(format!("n{extent}")).into()).clone()
    };
    let params: Vec<Var> = (case.args.iter().enumerate())
        .map(|(i, it)| {
            let dims: Vec<PrimExpr> = it.shape().iter().map(|&extent| dim(extent)).collect();
            Var::new(format!("x{i}"), Type::tensor(dims, it.dtype()))
        })
        .collect();
    let args: Vec<Arg> = params.iter().cloned().map(Arg::Var).collect();
    let mut builder = BlockBuilder::new(IRModule::new());
    let op = Op::get(case.op).expect("an operator");
    builder
        .add_function("main", &params, |builder| {
            Ok(builder.emit_op("y", op, args, case.attrs.clone(), &Span::none())?.into())
        })
        .expect("well formed");
    builder.into_module()
}

fn run(filter: &str, case: Case<'_>) {
    if !case.name.contains(filter) {
        return;
    }
    let target = std::env::var("TVM_TARGET").map_or(Target::host(), |it| it.parse().expect("a target"));
    let module = module(&case);
    if std::env::var_os("EXPLAIN").is_some() {
        let compiled = Compiled::new(module.clone(), &target).expect("it compiles");
        for (name, func) in compiled.programs.functions() {
            if let BaseFunc::Prim(func) = func {
                let scheduled = tvm::dlight::schedule(func, &target.machine);
                println!("{}: {:?}", name.name(), scheduled.as_ref().map(|(_, applied)| applied));
                println!("{}", scheduled.map_or((**func).clone(), |it| it.0));
            }
        }
    }
    let start = Instant::now();
    let vm = compile_module(&module, &target).expect("it compiles");
    let build = start.elapsed().as_secs_f64();
    let args: Vec<Value> = case.args.iter().cloned().map(Value::Tensor).collect();
    let mut work = Workspace::new();
    let mut times: [Vec<f64>; 2] = Default::default();
    let mut want = Vec::new();
    let mut worst = 0.0f32;
    let begin = Instant::now();
    while times[0].len() < 3 || begin.elapsed().as_secs_f64() < 1.0 && times[0].len() < 200 {
        let start = Instant::now();
        let y = vm.invoke_in(&mut work, "main", &args).expect("it runs");
        times[0].push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        (case.peer)(&mut want);
        times[1].push(start.elapsed().as_secs_f64());
        if times[0].len() == 1 {
            let first = match &y {
                Value::Adt(tuple) => tuple.fields()[0].clone(),
                other => other.clone(),
            };
            let first = first.try_tensor("a result").expect("a tensor");
            let got = first.to_f64s().expect("numbers");
            assert_eq!(got.len(), want.len());
            worst = got
                .iter()
                .zip(&want)
                .map(|(a, b)| (*a as f32 - b).abs() / (1.0 + b.abs()))
                .fold(0.0, f32::max);
        } else {
            work.recycle(y);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] * 1e3
    };
    let [ours, peer] = &mut times;
    let (ours, peer) = (median(ours), median(peer));
    println!(
        "{:24} {ours:>9.3} ms {peer:>9.3} ms {:>6.2}x {:>5.0} ms  off by {worst:.1e}",
        case.name,
        peer / ours,
        build * 1e3
    );
}

/// Numbers in no order.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2) + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..len).map(|_| next()).collect()
}

fn positions(len: usize, below: usize, seed: u64) -> Vec<i64> {
    numbers(len, seed).iter().map(|it| ((it + 0.5) * below as f32) as i64 % below as i64).collect()
}

fn tensor<T: Element>(data: &[T], shape: &[i64]) -> Tensor {
    Tensor::from_slice(data, shape).expect("a tensor")
}

fn gathers(filter: &str) {
    let (rows, columns, picked) = (50_000, 256, 8192);
    let x = numbers(rows * columns, 1);
    let i = positions(picked, rows, 2);
    let args = [tensor(&x, &[rows as i64, columns as i64]), tensor(&i, &[picked as i64])];
    for (name, symbolic) in [("take rows", false), ("take rows n", true)] {
        let mut peer = |out: &mut Vec<f32>| {
            out.resize(picked * columns, 0.0);
            for (out, &i) in out.chunks_exact_mut(columns).zip(&i) {
                out.copy_from_slice(&x[i as usize * columns..][..columns]);
            }
        };
        let attrs = Attrs::new().with("axis", 0i64);
        run(filter, Case { name, op: "take", args: &args, attrs, peer: &mut peer, symbolic });
    }
    let (rows, columns, picked) = (1000, 2048, 1024);
    let x = numbers(rows * columns, 1);
    let i = positions(picked, columns, 2);
    let args = [tensor(&x, &[rows as i64, columns as i64]), tensor(&i, &[picked as i64])];
    let mut peer = |out: &mut Vec<f32>| {
        out.resize(picked * rows, 0.0);
        for (out, x) in out.chunks_exact_mut(picked).zip(x.chunks_exact(columns)) {
            out.iter_mut().zip(&i).for_each(|(out, &i)| *out = x[i as usize]);
        }
    };
    let attrs = Attrs::new().with("axis", 1i64);
    run(
        filter,
        Case { name: "take columns", op: "take", args: &args, attrs, peer: &mut peer, symbolic: false },
    );
    let n = 1 << 20;
    let x = numbers(n, 1);
    let i = positions(n, n, 2);
    let args = [tensor(&x, &[n as i64]), tensor(&i, &[n as i64])];
    let mut peer = |out: &mut Vec<f32>| {
        out.resize(n, 0.0);
        out.iter_mut().zip(&i).for_each(|(out, &i)| *out = x[i as usize]);
    };
    let attrs = Attrs::new().with("axis", 0i64);
    run(
        filter,
        Case { name: "take elements", op: "take", args: &args, attrs, peer: &mut peer, symbolic: false },
    );
    let (rows, columns) = (1024, 1024);
    for axis in [0, 1] {
        let i = positions(rows * columns, 1024, 2);
        let x = &x[..rows * columns];
        let args = [x, &i.iter().map(|_| 0f32).collect::<Vec<_>>()].map(|it| tensor(it, &[1024, 1024]));
        let args = [args[0].clone(), tensor(&i, &[1024, 1024])];
        let mut peer = |out: &mut Vec<f32>| {
            out.resize(rows * columns, 0.0);
            for r in 0..rows {
                for c in 0..columns {
                    let k = i[r * columns + c] as usize;
                    out[r * columns + c] = if axis == 0 { x[k * columns + c] } else { x[r * columns + k] };
                }
            }
        };
        let attrs = Attrs::new().with("axis", axis as i64);
        let name = ["gather elements 0", "gather elements 1"][axis];
        run(
            filter,
            Case { name, op: "gather_elements", args: &args, attrs, peer: &mut peer, symbolic: false },
        );
    }
    let (rows, columns, picked) = (50_000, 64, 65_536);
    let x = numbers(rows * columns, 1);
    let i = positions(picked, rows, 2);
    let args = [tensor(&x, &[rows as i64, columns as i64]), tensor(&i, &[picked as i64, 1])];
    let mut peer = |out: &mut Vec<f32>| {
        out.resize(picked * columns, 0.0);
        for (out, &i) in out.chunks_exact_mut(columns).zip(&i) {
            out.copy_from_slice(&x[i as usize * columns..][..columns]);
        }
    };
    run(
        filter,
        Case {
            name: "gather nd",
            op: "gather_nd",
            args: &args,
            attrs: Attrs::new(),
            peer: &mut peer,
            symbolic: false,
        },
    );
}

fn scatters(filter: &str) {
    let (rows, columns) = (1024, 1024);
    let x = numbers(rows * columns, 1);
    let u = numbers(rows * columns, 3);
    let i = positions(rows * columns, 1024, 2);
    let args = [tensor(&x, &[1024, 1024]), tensor(&i, &[1024, 1024]), tensor(&u, &[1024, 1024])];
    for axis in [0, 1] {
        for reduction in ["update", "add"] {
            let mut peer = |out: &mut Vec<f32>| {
                out.clear();
                out.extend_from_slice(&x);
                for r in 0..rows {
                    for c in 0..columns {
                        let k = i[r * columns + c] as usize;
                        let at = if axis == 0 { k * columns + c } else { r * columns + k };
                        let value = u[r * columns + c];
                        out[at] = if reduction == "add" { out[at] + value } else { value };
                    }
                }
            };
            let attrs = Attrs::new().with("axis", axis).with("reduction", reduction);
            let name = format!("scatter {reduction} {axis}");
            run(
                filter,
                Case {
                    name: &name,
                    op: "scatter_elements",
                    args: &args,
                    attrs,
                    peer: &mut peer,
                    symbolic: false,
                },
            );
        }
    }
    let (rows, columns, picked) = (50_000, 64, 65_536);
    let x = numbers(rows * columns, 1);
    let u = numbers(picked * columns, 1);
    let i = positions(picked, rows, 2);
    let args = [
        tensor(&x, &[rows as i64, columns as i64]),
        tensor(&i, &[picked as i64, 1]),
        tensor(&u, &[picked as i64, columns as i64]),
    ];
    let mut peer = |out: &mut Vec<f32>| {
        out.clear();
        out.extend_from_slice(&x);
        for (u, &i) in u.chunks_exact(columns).zip(&i) {
            let out = &mut out[i as usize * columns..][..columns];
            out.iter_mut().zip(u).for_each(|(out, u)| *out += u);
        }
    };
    let attrs = Attrs::new().with("reduction", "add");
    run(
        filter,
        Case {
            name: "scatter nd add",
            op: "scatter_nd",
            args: &args,
            attrs,
            peer: &mut peer,
            symbolic: false,
        },
    );
}

fn sums(filter: &str) {
    for (name, shape, axis, symbolic) in [
        ("cumsum rows", [1024, 1024], 1, false),
        ("cumsum columns", [1024, 1024], 0, false),
        ("cumsum columns n", [1024, 1024], 0, true),
        ("cumsum rows large", [4096, 4096], 1, false),
        ("cumsum columns large", [4096, 4096], 0, false),
        ("cumsum one row", [1, 1 << 20], 1, false),
    ] {
        let [rows, columns] = shape;
        let x = numbers(rows * columns, 1);
        let args = [tensor(&x, &[rows as i64, columns as i64])];
        let mut peer = |out: &mut Vec<f32>| {
            out.resize(rows * columns, 0.0);
            if axis == 1 {
                for (out, x) in out.chunks_exact_mut(columns).zip(x.chunks_exact(columns)) {
                    let mut sum = 0.0;
                    out.iter_mut().zip(x).for_each(|(out, x)| {
                        sum += x;
                        *out = sum;
                    });
                }
            } else {
                out[..columns].copy_from_slice(&x[..columns]);
                for r in 1..rows {
                    let (before, out) = out.split_at_mut(r * columns);
                    let before = &before[(r - 1) * columns..];
                    for ((out, x), before) in out.iter_mut().zip(&x[r * columns..]).zip(before) {
                        *out = before + x;
                    }
                }
            }
        };
        let attrs = Attrs::new().with("axis", axis);
        run(filter, Case { name, op: "cumsum", args: &args, attrs, peer: &mut peer, symbolic });
    }
}

fn sorts(filter: &str) {
    for [rows, columns] in [[1, 1000], [1, 100_000], [1, 1 << 20], [1000, 100], [1000, 1000]] {
        if columns > 2000 && std::env::var_os("SMALL").is_some() {
            continue;
        }
        let x = numbers(rows * columns, 1);
        let args = [tensor(&x, &[rows as i64, columns as i64])];
        let name = format!("sort {rows}x{columns}");
        let mut peer = |out: &mut Vec<f32>| {
            out.clear();
            out.extend_from_slice(&x);
            out.chunks_exact_mut(columns).for_each(|row| row.sort_by(f32::total_cmp));
        };
        run(
            filter,
            Case {
                name: &name,
                op: "sort",
                args: &args,
                attrs: Attrs::new(),
                peer: &mut peer,
                symbolic: false,
            },
        );
        let name = format!("argsort {rows}x{columns}");
        let mut peer = |out: &mut Vec<f32>| {
            out.clear();
            for row in x.chunks_exact(columns) {
                let mut at: Vec<u32> = (0..columns as u32).collect();
                at.sort_by(|&a, &b| row[a as usize].total_cmp(&row[b as usize]));
                out.extend(at.iter().map(|&it| it as f32));
            }
        };
        run(
            filter,
            Case {
                name: &name,
                op: "argsort",
                args: &args,
                attrs: Attrs::new(),
                peer: &mut peer,
                symbolic: false,
            },
        );
        for k in [8, 50] {
            let name = format!("topk {k} of {rows}x{columns}");
            let mut peer = |out: &mut Vec<f32>| {
                out.clear();
                for row in x.chunks_exact(columns) {
                    let mut row: Vec<f32> = row.to_vec();
                    row.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
                    row[..k].sort_by(|a, b| b.total_cmp(a));
                    out.extend_from_slice(&row[..k]);
                }
            };
            let attrs = Attrs::new().with("k", k as i64);
            run(
                filter,
                Case { name: &name, op: "topk", args: &args, attrs, peer: &mut peer, symbolic: false },
            );
        }
    }
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    println!("{:24} {:>12} {:>12} {:>7} {:>8}", "", "compiled", "Rust", "ratio", "build");
    gathers(&filter);
    scatters(&filter);
    sums(&filter);
    sorts(&filter);
}
