//! Helpers for the tests of schedules and of lowering: small programs of several stages, random schedules of them, and
//! running both on the interpreter.

use tvm_runtime::{DataType, Tensor};

use super::interp::{self, Value};
use super::schedule::{BlockRV, Factor, LoopRV, SRef, Schedule, ScheduleError};
use super::transform::PRAGMA_UNROLL;
use super::{
    Block, BlockRealize, Buffer, For, ForKind, IndexMap, Param, PrimExpr, PrimFunc, Scope, Stmt,
    TensorIntrin, substitute_expr,
};
use crate::arith::dims::simplify_dim;
use crate::ir::Var;
use crate::te;
use tvm_testing::Rng;

pub(crate) const I64: DataType = DataType::I64;

/// `relu(x @ w + b)` in three stages.
pub(crate) fn dense(m: PrimExpr, n: PrimExpr, k: PrimExpr) -> PrimFunc {
    let x = te::placeholder("x", [m.clone(), k.clone()], I64);
    let w = te::placeholder("w", [k.clone(), n.clone()], I64);
    let b = te::placeholder("b", [n.clone()], I64);
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [m.clone(), n.clone()], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[0].clone(), r.expr()]) * w.at([r.expr(), i[1].clone()]), &[&r])
    });
    let z = te::compute("z", [m.clone(), n.clone()], &[&y, &b], |i: &[PrimExpr]| {
        y.at(i.to_vec()) + b.at([i[1].clone()])
    });
    let o = te::compute("o", [m, n], &[&z], |i: &[PrimExpr]| z.at(i.to_vec()).max(0));
    te::create_prim_func("dense", &[x, w, b], &[o]).unwrap()
}

/// A padded window sum, then a scaled transpose.
pub(crate) fn stencil(h: PrimExpr, w: PrimExpr) -> PrimFunc {
    let x = te::placeholder("x", [h.clone(), w.clone()], I64);
    let p = te::compute("p", [&h + 2, w.clone()], &[&x], |i: &[PrimExpr]| {
        let inside = i[0].clone().greater_equal(1).and(i[0].clone().less(&h + 1));
        let at = x.at([(i[0].clone() - 1).max(0).min(&h - 1), i[1].clone()]);
        inside.select(at, PrimExpr::index(0))
    });
    let r = te::reduce_axis("r", 3);
    let s = te::compute("s", [h.clone(), w.clone()], &[&p], |i: &[PrimExpr]| {
        te::sum(p.at([&i[0] + r.expr(), i[1].clone()]), &[&r])
    });
    let t = te::compute("t", [w, h.clone()], &[&s], |i: &[PrimExpr]| s.at([i[1].clone(), i[0].clone()]) * 3);
    te::create_prim_func("stencil", &[x], &[t]).unwrap()
}

/// Arguments for `func`; `dims` are the extents of its symbolic dimensions, in order.
pub(crate) fn arguments(func: &PrimFunc, dims: &[i64]) -> Vec<Value> {
    let values = func.symbolic_dims().into_iter().zip(dims);
    let values = values.map(|(var, value)| (var.id(), PrimExpr::index(*value))).collect();
    let extent = |expr: &PrimExpr| simplify_dim(&substitute_expr(expr, &values)).as_int().unwrap();
    let value = |(i, param): (usize, &Param)| {
        let shape: Vec<i64> = param.buffer().unwrap().shape.iter().map(extent).collect();
        let len: i64 = shape.iter().product();
        let data = match param {
            Param::In(_) => (0..len).map(|j| (j * 7 + i as i64 * 13) % 11 - 5).collect(),
            Param::Out(_) | Param::Scalar(_) => vec![-77; len as usize],
        };
        Value::Tensor(Tensor::from_vec(data, &shape).unwrap())
    };
    func.params.iter().enumerate().map(value).collect()
}

/// The output of `func`.
pub(crate) fn run(func: &PrimFunc, mut args: Vec<Value>) -> Vec<i64> {
    let res = interp::run(func, &mut args);
    assert!(res.is_ok(), "{res:?}\n{func}");
    let Some(Value::Tensor(out)) = args.pop() else { unreachable!("the last argument is the output") };
    out.to_vec().unwrap()
}

/// Makes a tile of 1 column and some rows and terms, and replaces it by an intrinsic that adds one product to each of 3 elements.
fn random_tensorize(s: &mut Schedule, rng: &mut Rng, block: BlockRV) -> Result<(), ScheduleError> {
    let loops = s.get_loops(block)?;
    let Some(&last) = loops.last() else { return Err(ScheduleError::Trace("no loops".into())) };
    let chosen = if rng.one_in(2) { loops[loops.len() / 2] } else { *rng.pick(&loops) };
    let mut forked = s.clone();
    let target = if rng.one_in(4) {
        last
    } else {
        let [_, inner] = forked.split(chosen, [None, Some(3)])?;
        let rest: Vec<LoopRV> =
            forked.get_loops(block)?.into_iter().filter(|it| it.sref() != inner.sref()).collect();
        let order: Vec<LoopRV> = rest.into_iter().chain([inner]).collect();
        forked.reorder_n(&order)?;
        inner
    };
    let intrin = *rng.pick(&[AXPY, AXPY, AXPY, "fma_1x8_f32"]);
    if rng.one_in(2) {
        let block = forked.blockize(target)?;
        forked.tensorize(block, intrin)?;
    } else {
        forked.tensorize(target, intrin)?;
    }
    *s = forked;
    Ok(())
}

/// Name of an intrinsic that [`register`] makes known: `c[j] += a * b[j]` for three `j`, of `i64`.
const AXPY: &str = "axpy_3_i64";

/// Registers [`AXPY`].
pub(crate) fn register() {
    let make = |kind: ForKind| {
        let buffer = |name: &str, n: i64| Buffer::new(name, [PrimExpr::index(n)], I64);
        let (a, b, c) = (buffer("a", 1), buffer("b", 3), buffer("c", 3));
        let var = Var::index("j");
        let at = [PrimExpr::from(&var)];
        let value = c.load(at.clone()) + a.load([PrimExpr::index(0)]) * b.load(at.clone());
        let body = For { kind, ..For::serial(var, 3, Stmt::store(&c, at, value)) }.into();
        let body = BlockRealize::opaque(Block::root(vec![], body));
        PrimFunc::new("axpy", [Param::In(a), Param::In(b), Param::Out(c)], body)
    };
    if TensorIntrin::get(AXPY).is_err() {
        let intrin = TensorIntrin::new(AXPY, make(ForKind::Serial), make(ForKind::Vectorized)).unwrap();
        // Another test may have registered it since.
        let _ = intrin.register();
    }
}

const SCOPES: [Scope; 3] = [Scope::Global, Scope::Local, Scope::Shared];

/// Tries one random schedule primitive, which may be rejected; returns its name and result.
pub(crate) fn random_step(s: &mut Schedule, rng: &mut Rng) -> (&'static str, Result<(), ScheduleError>) {
    let blocks: Vec<String> = s.state().blocks().iter().map(|it| it.block.name.to_string()).collect();
    let block = s.block(rng.pick::<String>(&blocks)).unwrap();
    let other = s.block(rng.pick::<String>(&blocks)).unwrap();
    let (mine, others) = (s.get_loops(block).unwrap(), s.get_loops(other).unwrap());
    let any = |rng: &mut Rng, loops: &[LoopRV]| if loops.is_empty() { None } else { Some(*rng.pick(loops)) };
    let (Some(a), Some(b), Some(far)) = (any(rng, &mine), any(rng, &mine), any(rng, &others)) else {
        return ("unroll", Err(ScheduleError::Trace("no loops to choose from".into())));
    };
    let innermost = mine.last().copied().unwrap_or(a);
    let scope = *rng.pick(&[Scope::Global, Scope::Local]);
    let factor = *rng.pick(&[2, 3, 4, 5, 8]);
    match rng.below(45) {
        0 | 1 => ("split", s.split(a, [None, Some(factor)]).map(drop)),
        2 => ("fuse", s.fuse([a, b]).map(drop)),
        3 => ("reorder", s.reorder([a, b])),
        4 => ("parallel", s.parallel(a)),
        5 => ("vectorize", s.vectorize(a)),
        6 => ("vectorize", s.vectorize(innermost)),
        7 => ("unroll", s.unroll(a)),
        8 => ("cache_read", s.cache_read(block, rng.below(3), scope).map(drop)),
        9 => ("cache_write", s.cache_write(block, 0, scope).map(drop)),
        10 | 11 => ("compute_at", s.compute_at(block, far)),
        12 | 13 => ("reverse_compute_at", s.reverse_compute_at(block, far)),
        14 => ("compute_inline", s.compute_inline(block)),
        15 | 28 => ("reverse_compute_inline", s.reverse_compute_inline(block)),
        16 | 17 => {
            let to = *rng.pick(&["JI", "IJ2i", "JI3j", "I4iJ2j", "JJ"]);
            ("transform_layout", s.transform_layout(block, rng.below(3), "IJ", to))
        }
        18 | 19 => ("rfactor", s.rfactor(a, rng.below(4) as i64 - 1).map(drop)),
        20 | 21 => ("decompose_padding", s.decompose_padding(block, a).map(drop)),
        22 if rng.one_in(2) => ("annotate", s.annotate(a, PRAGMA_UNROLL, factor)),
        22 => ("add_unit_loop", s.add_unit_loop(a).map(drop)),
        23 => ("add_unit_loop", s.add_unit_loop(block).map(drop)),
        24 => ("set_scope", s.set_scope(block, rng.below(3), *rng.pick(&SCOPES))),
        25 => {
            let points = [[1, factor], [factor, factor + 3]];
            ("loop_partition", s.loop_partition_n(a, &rng.pick(&points)[..1 + rng.below(2)]).map(drop))
        }
        26 => ("split by a dimension", s.split(a, [Factor::Infer, Factor::from("n")]).map(drop)),
        27 => {
            let (axis, offset) = (rng.below(3) as i64 - 1, rng.below(2) as i64);
            ("storage_align", s.storage_align(block, 0, axis, factor, offset))
        }
        29 | 30 => {
            let maps = [
                "|i, j| [j, i]",
                "|i, j, k| [i, j, k]",
                "|i, j| [j / 3, i, j % 3]",
                "|i, j, k| [i * 9 + j, k]",
                "|i, j| [i * 6 + j]",
                "|i| [i / 2, i % 2]",
                "|i, j| [i / 4, j / 2, i % 4, j % 2]",
                "|i, j, k| [k, j, i]",
            ];
            let map: IndexMap = rng.pick(&maps).parse().unwrap();
            ("transform_block_layout", s.transform_block_layout(block, map))
        }
        31 | 32 => ("reindex", s.reindex(block, rng.below(3)).map(drop)),
        33 | 34 => {
            let padding: Vec<i64> = (0..3).map(|_| *rng.pick(&[1, 4, 8])).collect();
            ("pad_einsum", s.pad_einsum(block, &padding))
        }
        36 => ("blockize", s.blockize(a).map(drop)),
        37 => ("blockize", s.blockize(innermost).map(drop)),
        38..=41 => ("tensorize", random_tensorize(s, rng, block)),
        42 | 43 => ("fuse_reduction_epilogue", s.fuse_reduction_epilogue(block, other)),
        44 if factor > 4 => {
            let mut fork = s.clone();
            let res = fork.decompose_reduction(block, a).and_then(|_| fork.atomic(block, false));
            ("atomic", res.map(|()| *s = fork))
        }
        35 => ("cache_index", s.cache_index(block, scope, rng.below(3)).map(drop)),
        _ => ("decompose_reduction", s.decompose_reduction(block, a).map(drop)),
    }
}
