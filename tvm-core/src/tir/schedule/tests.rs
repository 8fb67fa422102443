//! Random schedules of small programs: every accepted primitive keeps the results, every refused one keeps the program.

use tvm_runtime::{DataType, Tensor};

use super::*;
use crate::ir::{structural_equal, structural_hash};
use crate::te;
use crate::tir::interp::{self, Value};
use crate::tir::{Param, PrimExpr, analysis::well_formed};

const I64: DataType = DataType::I64;

fn dim(n: i64) -> PrimExpr {
    PrimExpr::index(n)
}

/// `relu(x @ w + b)` in three stages.
fn dense() -> PrimFunc {
    let (m, n, k) = (7, 9, 5);
    let (x, w) = (te::placeholder("x", [dim(m), dim(k)], I64), te::placeholder("w", [dim(k), dim(n)], I64));
    let b = te::placeholder("b", [dim(n)], I64);
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [dim(m), dim(n)], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[0].clone(), r.expr()]) * w.at([r.expr(), i[1].clone()]), &[&r])
    });
    let z = te::compute("z", [dim(m), dim(n)], &[&y, &b], |i: &[PrimExpr]| {
        y.at(i.to_vec()) + b.at([i[1].clone()])
    });
    let o = te::compute("o", [dim(m), dim(n)], &[&z], |i: &[PrimExpr]| z.at(i.to_vec()).max(0));
    te::create_prim_func("dense", &[x, w, b], &[o]).unwrap()
}

/// A padded window sum, then a scaled transpose.
fn stencil() -> PrimFunc {
    let (h, w) = (8, 6);
    let x = te::placeholder("x", [dim(h), dim(w)], I64);
    let p = te::compute("p", [dim(h + 2), dim(w)], &[&x], |i: &[PrimExpr]| {
        let inside = i[0].clone().greater_equal(1).and(i[0].clone().less(h + 1));
        let at = x.at([(i[0].clone() - 1).max(0).min(h - 1), i[1].clone()]);
        inside.select(at, PrimExpr::index(0))
    });
    let r = te::reduce_axis("r", 3);
    let s = te::compute("s", [dim(h), dim(w)], &[&p], |i: &[PrimExpr]| {
        te::sum(p.at([&i[0] + r.expr(), i[1].clone()]), &[&r])
    });
    let t =
        te::compute("t", [dim(w), dim(h)], &[&s], |i: &[PrimExpr]| s.at([i[1].clone(), i[0].clone()]) * 3);
    te::create_prim_func("stencil", &[x], &[t]).unwrap()
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

fn run(func: &PrimFunc) -> Vec<i64> {
    let mut args: Vec<Value> = Vec::new();
    for (i, param) in func.params.iter().enumerate() {
        let shape = param.buffer().unwrap().const_shape().unwrap();
        let len: i64 = shape.iter().product();
        let data = match param {
            Param::In(_) => (0..len).map(|j| (j * 7 + i as i64 * 13) % 11 - 5).collect(),
            Param::Out(_) | Param::Scalar(_) => vec![-77; len as usize],
        };
        args.push(Value::Tensor(Tensor::from_vec(data, &shape).unwrap()));
    }
    interp::run(func, &mut args).unwrap_or_else(|err| panic!("{err}\n{func}"));
    match args.pop() {
        Some(Value::Tensor(out)) => out.to_vec().unwrap(),
        _ => panic!("the last argument is the output"),
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n.max(1)
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

fn random_step(
    s: &mut Schedule,
    random: &mut Random,
) -> (&'static str, std::result::Result<(), ScheduleError>) {
    let blocks: Vec<String> = s.state().blocks().iter().map(|it| it.block.name.to_string()).collect();
    let block = s.block(&blocks[random.below(blocks.len())]).unwrap();
    let other = s.block(&blocks[random.below(blocks.len())]).unwrap();
    let (mine, others) = (s.get_loops(block).unwrap(), s.get_loops(other).unwrap());
    let any = |random: &mut Random, loops: &[LoopRV]| {
        if loops.is_empty() { LoopRV(crate::ir::VarId::fresh()) } else { random.pick(loops) }
    };
    let (a, b, far) = (any(random, &mine), any(random, &mine), any(random, &others));
    let scope = random.pick(&[Scope::Global, Scope::Local]);
    let factor = random.pick(&[2, 3, 4, 5]);
    match random.below(16) {
        0 | 1 => ("split", s.split(a, [None, Some(factor)]).map(|_| ())),
        2 => ("fuse", s.fuse([a, b]).map(|_| ())),
        3 => ("reorder", s.reorder([a, b])),
        4 => ("parallel", s.parallel(a)),
        5 => ("vectorize", s.vectorize(a)),
        6 => ("unroll", s.unroll(a)),
        7 => ("cache_read", s.cache_read(block, random.below(3), scope).map(|_| ())),
        8 => ("cache_write", s.cache_write(block, 0, scope).map(|_| ())),
        9 | 10 => ("compute_at", s.compute_at(block, far)),
        11 | 12 => ("reverse_compute_at", s.reverse_compute_at(block, far)),
        13 => ("compute_inline", s.compute_inline(block)),
        14 => ("reverse_compute_inline", s.reverse_compute_inline(block)),
        _ => ("decompose_reduction", s.decompose_reduction(block, a).map(|_| ())),
    }
}

#[test]
fn random_schedules_keep_results() {
    let mut random = Random(2024);
    let mut applied: std::collections::BTreeMap<&str, (u32, u32)> = Default::default();
    for program in [dense(), stencil(), rows()] {
        let want = run(&program);
        for _ in 0..150 {
            let mut s = Schedule::new(program.clone()).unwrap();
            for _ in 0..1 + random.below(10) {
                let before = s.clone();
                let (name, res) = random_step(&mut s, &mut random);
                let count = applied.entry(name).or_default();
                match res {
                    Ok(()) => {
                        count.0 += 1;
                        assert_eq!(run(s.func()), want, "{name}: {}\n{}", before.func(), s.func());
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
    let mut s = Schedule::new(dense()).unwrap();
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
    let mut s = Schedule::new(dense()).unwrap();
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
