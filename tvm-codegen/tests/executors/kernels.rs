//! Tests of kernels that models contain, plain and scheduled, with constant and symbolic extents.

use tvm_core::ir::Var;
use tvm_core::te;
use tvm_core::tir::IterKind::Spatial;
use tvm_core::tir::schedule::Schedule;
use tvm_core::tir::{
    AllocBuffer, Bind, BufferRegion, ForKind, Intrinsic, MatchBufferRegion, Param, PrimExpr, PrimFunc, Range,
    Scope, Stmt, While,
};
use tvm_runtime::{DataType, Tensor, Value};

use super::data::Rng;
use super::programs::{block, buffer, f32, func, loops};
use super::suite::{Case, check, check_at, tensor};

const F32: DataType = DataType::F32;

fn dim(n: i64) -> PrimExpr {
    PrimExpr::index(n)
}

fn symbol(name: &str) -> PrimExpr {
    PrimExpr::from(Var::index(name))
}

fn dense(m: PrimExpr, n: PrimExpr, k: PrimExpr, input: DataType, sum: DataType) -> PrimFunc {
    let x = te::placeholder("x", [m.clone(), k.clone()], input);
    let w = te::placeholder("w", [k.clone(), n.clone()], input);
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [m.clone(), n.clone()], &[&x, &w], |i: &[PrimExpr]| {
        let (a, b) = (x.at([i[0].clone(), r.expr()]), w.at([r.expr(), i[1].clone()]));
        te::sum(a.cast(sum) * b.cast(sum), &[&r])
    });
    te::create_prim_func("dense", &[x, w], &[y]).unwrap()
}

fn softmax(m: PrimExpr, n: PrimExpr) -> PrimFunc {
    let x = te::placeholder("x", [m.clone(), n.clone()], F32);
    let (r, q) = (te::reduce_axis("r", n.clone()), te::reduce_axis("q", n.clone()));
    let top = te::compute("top", [m.clone()], &[&x], |i: &[PrimExpr]| {
        te::max(x.at([i[0].clone(), r.expr()]), &[&r])
    });
    let e = te::compute("e", [m.clone(), n.clone()], &[&x, &top], |i: &[PrimExpr]| {
        (x.at(i.to_vec()) - top.at([i[0].clone()])).unary(Intrinsic::Exp)
    });
    let total = te::compute("total", [m.clone()], &[&e], |i: &[PrimExpr]| {
        te::sum(e.at([i[0].clone(), q.expr()]), &[&q])
    });
    let y =
        te::compute("y", [m, n], &[&e, &total], |i: &[PrimExpr]| e.at(i.to_vec()) / total.at([i[0].clone()]));
    te::create_prim_func("softmax", &[x], &[y]).unwrap()
}

/// A 3 × 3 convolution with padding 1, channels last.
fn conv(h: i64, w: i64, c: i64, o: i64) -> PrimFunc {
    let x = te::placeholder("x", [dim(h), dim(w), dim(c)], F32);
    let k = te::placeholder("k", [dim(3), dim(3), dim(c), dim(o)], F32);
    let p = te::compute("p", [dim(h + 2), dim(w + 2), dim(c)], &[&x], |i: &[PrimExpr]| {
        let inside = |e: &PrimExpr, n: i64| e.clone().greater_equal(1).and(e.clone().less(n + 1));
        let load = x.at([i[0].clone() - 1, i[1].clone() - 1, i[2].clone()]);
        PrimExpr::call(Intrinsic::IfThenElse, [inside(&i[0], h).and(inside(&i[1], w)), load, f32(0.0)], F32)
    });
    let (a, b, r) = (te::reduce_axis("a", 3), te::reduce_axis("b", 3), te::reduce_axis("r", c));
    let y = te::compute("y", [dim(h), dim(w), dim(o)], &[&p, &k], |i: &[PrimExpr]| {
        let at = p.at([&i[0] + a.expr(), &i[1] + b.expr(), r.expr()]);
        te::sum(at * k.at([a.expr(), b.expr(), r.expr(), i[2].clone()]), &[&a, &b, &r])
    });
    te::create_prim_func("conv", &[x, k], &[y]).unwrap()
}

/// Tiles, caches and vectorises the block `y` of a dense product. Partial tiles leave conditions on the lanes.
fn tiled(func: PrimFunc) -> PrimFunc {
    let mut s = Schedule::new(func).unwrap();
    let y = s.block("y").unwrap();
    let tile = s.cache_write(y, 0, Scope::Local).unwrap();
    let [i, j, k] = s.loops(y).unwrap();
    let [io, ii] = s.split(i, [None, Some(4)]).unwrap();
    let [jo, ji] = s.split(j, [None, Some(32)]).unwrap();
    s.reorder([io, jo, k, ii, ji]).unwrap();
    s.reverse_compute_at(tile, jo).unwrap();
    let init = s.decompose_reduction(y, k).unwrap();
    for block in [init, y, tile] {
        let loops = s.get_loops(block).unwrap();
        s.vectorize(loops[loops.len() - 1]).unwrap();
        s.unroll(loops[loops.len() - 2]).unwrap();
    }
    s.parallel(io).unwrap();
    s.into_func()
}

/// Vectorises the innermost spatial loop of every block, whatever its access pattern, and runs the outermost loop in
/// parallel.
fn vectorised(func: PrimFunc) -> PrimFunc {
    let mut s = Schedule::new(func).unwrap();
    let names: Vec<String> = s.state().blocks().iter().map(|it| it.block.name.to_string()).collect();
    for name in names.iter().filter(|name| *name != "root") {
        let block = s.block(name).unwrap();
        let loops = s.get_loops(block).unwrap();
        if let [first, .., last] = loops[..] {
            let _ = s.vectorize(last).or_else(|_| s.vectorize(loops[loops.len() - 2]));
            let _ = s.parallel(first);
        }
    }
    s.into_func()
}

fn case(func: PrimFunc, shapes: &[Vec<Vec<i64>>], rng: &mut Rng, tolerance: f64) -> Case {
    let dtypes: Vec<DataType> = func.params.iter().map(|it| it.buffer().unwrap().dtype).collect();
    let args = shapes
        .iter()
        .map(|shapes| shapes.iter().zip(&dtypes).map(|(shape, dtype)| tensor(shape, *dtype, rng)).collect())
        .collect();
    Case { func, args, tolerance }
}

#[test]
fn products() {
    let mut rng = Rng(11);
    let sizes = |sizes: &[[i64; 3]]| -> Vec<Vec<Vec<i64>>> {
        sizes.iter().map(|&[m, n, k]| vec![vec![m, k], vec![k, n], vec![m, n]]).collect()
    };
    let mut cases = Vec::new();
    for (input, sum, tolerance) in [
        (F32, F32, 1e-5),
        (DataType::F64, DataType::F64, 1e-13),
        (DataType::F16, F32, 1e-5),
        (DataType::BF16, F32, 1e-5),
        (DataType::I8, DataType::I32, 0.0),
        (DataType::U8, DataType::I32, 0.0),
        (DataType::I64, DataType::I64, 0.0),
    ] {
        let fixed = dense(dim(12), dim(64), dim(33), input, sum);
        let ragged = dense(dim(7), dim(45), dim(9), input, sum);
        let free = dense(symbol("m"), symbol("n"), symbol("k"), input, sum);
        for (func, sizes) in [
            (fixed, sizes(&[[12, 64, 33]])),
            (ragged, sizes(&[[7, 45, 9]])),
            (free, sizes(&[[1, 1, 1], [9, 70, 5], [4, 32, 8]])),
        ] {
            cases.push(case(tiled(func.clone()), &sizes, &mut rng, tolerance));
            cases.push(case(vectorised(func), &sizes, &mut rng, tolerance));
        }
    }
    check(&cases);
}

#[test]
fn softmax_and_convolution() {
    let mut rng = Rng(12);
    let sizes =
        [vec![vec![5, 37], vec![5, 37]], vec![vec![1, 1], vec![1, 1]], vec![vec![64, 16], vec![64, 16]]];
    let free = softmax(symbol("m"), symbol("n"));
    let fixed = softmax(dim(64), dim(16));
    let images = [vec![vec![9, 11, 3], vec![3, 3, 3, 20], vec![9, 11, 20]]];
    let image = conv(9, 11, 3, 20);
    check(&[
        case(free.clone(), &sizes, &mut rng, 1e-6),
        case(vectorised(free), &sizes, &mut rng, 1e-6),
        case(vectorised(fixed), &sizes[2..], &mut rng, 1e-6),
        case(image.clone(), &images, &mut rng, 1e-5),
        case(vectorised(image), &images, &mut rng, 1e-5),
    ]);
}

/// `t[j, i] = x[i, j]`, and its inverse through indices: strided, gathered and scattered vectors.
#[test]
fn awkward_accesses() {
    let mut rng = Rng(13);
    let (m, n) = (symbol("m"), symbol("n"));
    let x = buffer("x", &[m.clone(), n.clone()], F32);
    let t = buffer("t", &[n.clone(), m.clone()], F32);
    let store = |i: &[PrimExpr]| Stmt::store(&t, [i[1].clone(), i[0].clone()], x.load(i.to_vec()));
    let transpose = |kinds: [ForKind; 2]| {
        let body = loops(&[(kinds[0], m.clone()), (kinds[1], n.clone())], store);
        func("transpose", vec![Param::In(x.clone()), Param::Out(t.clone())], vec![], body)
    };
    let index = buffer("index", std::slice::from_ref(&m), DataType::I32);
    let table = buffer("table", &[dim(7), n.clone()], F32);
    let rows = buffer("rows", &[m.clone(), n.clone()], F32);
    let gather = |kinds: [ForKind; 2]| {
        let body = loops(&[(kinds[0], m.clone()), (kinds[1], n.clone())], |i| {
            let row = index.load([i[0].clone()]).cast(DataType::I64).floormod(7);
            Stmt::store(&rows, i.to_vec(), table.load([row, i[1].clone()]))
        });
        let params = vec![Param::In(index.clone()), Param::In(table.clone()), Param::Out(rows.clone())];
        func("gather", params, vec![], body)
    };
    use ForKind::{Parallel, Serial, Vectorized};
    let shapes = [vec![vec![19, 33], vec![33, 19]], vec![vec![1, 0], vec![0, 1]]];
    let tables = [vec![vec![40], vec![7, 19], vec![40, 19]]];
    check(&[
        case(transpose([Serial, Vectorized]), &shapes, &mut rng, 0.0),
        case(transpose([Vectorized, Serial]), &shapes, &mut rng, 0.0),
        case(gather([Serial, Vectorized]), &tables, &mut rng, 0.0),
        case(gather([Vectorized, Parallel]), &tables, &mut rng, 0.0),
        case(gather([Vectorized, Serial]), &tables, &mut rng, 0.0),
    ]);
}

/// Scratch memory in parallel iterations, `let`s, loops until convergence, scalar parameters, branches, a matched buffer.
#[test]
fn statements() {
    let mut rng = Rng(14);
    let n = symbol("n");
    let (x, y) = (buffer("x", &[n.clone(), dim(70)], F32), buffer("y", &[n.clone(), dim(70)], F32));
    let scale = Var::prim("scale", F32);
    let count = Var::prim("count", DataType::I32);
    let body = loops(&[(ForKind::Parallel, n.clone())], |i| {
        let row = i[0].clone();
        // Too large for the stack, together with the others.
        let scratch = buffer("scratch", &[dim(20_000)], F32);
        let step = buffer("step", &[dim(1)], DataType::I32);
        let at = |k: &PrimExpr| [row.clone(), k.clone()];
        let fill = loops(&[(ForKind::Vectorized, dim(70))], |k| {
            Stmt::store(&scratch, [k[0].clone()], x.load(at(&k[0])) * PrimExpr::from(&scale))
        });
        let zero = PrimExpr::int(0, DataType::I32);
        let more = step.load([dim(0)]).less(PrimExpr::from(&count));
        let halve = loops(&[(ForKind::Serial, dim(70))], |k| {
            let value = Var::prim("value", F32);
            Stmt::seq([
                Bind { var: value.clone(), value: scratch.load([k[0].clone()]) }.into(),
                Stmt::if_then_else(
                    PrimExpr::from(&value).greater(f32(1.0)),
                    Stmt::store(&scratch, [k[0].clone()], PrimExpr::from(&value) * f32(0.5)),
                    Some(Stmt::store(&scratch, [k[0].clone()], PrimExpr::from(&value) + f32(0.25))),
                ),
            ])
        });
        let next = Stmt::store(&step, [dim(0)], step.load([dim(0)]) + PrimExpr::int(1, DataType::I32));
        let repeat = While { condition: more, body: Stmt::seq([halve, next]), span: Default::default() };
        let out = loops(&[(ForKind::Serial, dim(70))], |k| {
            let value = scratch.load([k[0].clone()]);
            Stmt::store(&y, at(&k[0]), value)
        });
        Stmt::seq([
            AllocBuffer::new(scratch.clone()).into(),
            AllocBuffer::new(step.clone()).into(),
            fill,
            Stmt::store(&step, [dim(0)], zero),
            repeat.into(),
            out,
        ])
    });
    let params = vec![Param::In(x), Param::Scalar(scale), Param::Scalar(count), Param::Out(y)];
    let relax = func("relax", params, vec![], body);
    let args = [0, 1, 9].map(|n| {
        let x = tensor(&[n, 70], F32, &mut rng);
        vec![x, Value::Float(1.5), Value::Int(3), tensor(&[n, 70], F32, &mut rng)]
    });
    check(&[Case { func: relax, args: args.to_vec(), tolerance: 1e-6 }, matched()]);
}

/// Writes 2 × 4 tiles through a matched buffer.
fn matched() -> Case {
    let y = buffer("y", &[dim(6), dim(12)], F32);
    let body = loops(&[(ForKind::Serial, dim(3)), (ForKind::Serial, dim(3))], |i| {
        let axes = [(Spatial, dim(3), i[0].clone()), (Spatial, dim(3), i[1].clone())];
        let tile = buffer("tile", &[dim(2), dim(4)], F32);
        let stmt = block("tile", &axes, None, |v| {
            let fill = loops(&[(ForKind::Serial, dim(2)), (ForKind::Vectorized, dim(4))], |k| {
                let value = (&v[0] * 100 + &v[1] * 10 + &k[0] * 4 + &k[1]).cast(F32);
                Stmt::store(&tile, k.to_vec(), value)
            });
            (None, fill)
        });
        let Stmt::BlockRealize(realize) = &stmt else { return stmt };
        let at = |value: &PrimExpr, n| Range { min: value.clone() * n, extent: dim(n) };
        let axes: Vec<PrimExpr> = realize.block.iter_vars.iter().map(|it| PrimExpr::from(&it.var)).collect();
        let region = [at(&axes[0], 2), at(&axes[1], 4)];
        let source = BufferRegion { buffer: y.clone(), region: region.into() };
        let mut realize = (**realize).clone();
        let mut block = (*realize.block).clone();
        block.match_buffers = [MatchBufferRegion { buffer: tile, source }].into();
        realize.block = block.into();
        realize.into()
    });
    let y = Param::Out(y);
    let out = Value::Tensor(Tensor::zeros(&[6, 12], F32).unwrap());
    Case { func: func("matched", vec![y], vec![], body), args: vec![vec![out]], tolerance: 0.0 }
}

/// A sum of thousands of terms: recursion and the nesting of parentheses must be bounded in all executors.
#[test]
fn deep_expressions() {
    let mut rng = Rng(15);
    let n = symbol("n");
    let (x, y) = (
        buffer("x", std::slice::from_ref(&n), DataType::I32),
        buffer("y", std::slice::from_ref(&n), DataType::I32),
    );
    let body = loops(&[(ForKind::Serial, n)], |i| {
        let value = x.load([i[0].clone()]);
        let term = |k: i64| value.clone() * PrimExpr::int(k, DataType::I32);
        Stmt::store(&y, [i[0].clone()], (1..4000).map(term).fold(value.clone(), |a, b| a + b))
    });
    let deep = func("deep", vec![Param::In(x), Param::Out(y)], vec![], body);
    check_at(1, &[case(deep, &[vec![vec![5], vec![5]]], &mut rng, 0.0)]);
}
