//! Fuzz test of reductions: loops in any order, triangular, fused, empty, under conditions, in nested blocks. The
//! interpreter computes what the definition says, before lowering and after every pass of it.

use std::collections::BTreeMap;

use tvm_runtime::{DataType, Tensor};
use tvm_testing::{Budget, Rng};

use crate::ir::{IRModule, Span, Var};
use crate::pass::PassContext;
use crate::pipeline::lower_tir;
use crate::tir::analysis::{well_formed, with_access_regions};
use crate::tir::interp::{Program, Value};
use crate::tir::{
    Block, BlockRealize, Buffer, For, ForKind, IterKind, IterVar, Param, PrimExpr, PrimFunc, Range, Stmt,
};

/// Greater than any value of a loop variable.
const BASE: i64 = 20;
/// Extent of the output, and of every domain.
const SIZE: i64 = BASE * BASE;
const OLD: i64 = -1_000_000;
const INIT: i64 = 5;

/// A loop of a random program; its range may depend on the loops outside it.
#[derive(Clone)]
struct Loop {
    var: Var,
    reduce: bool,
    /// The outer loop whose variable is the first value, and the one whose variable modulo 2 is added to the extent.
    from: Option<usize>,
    plus: Option<usize>,
    /// Number of its extent in `Case::extents`.
    extent: usize,
}

struct Case {
    loops: Vec<Loop>,
    extents: Vec<i64>,
    /// Extents that are parameters; the others are constants.
    symbolic: Vec<bool>,
    /// Two loops and the limit of the sum of their variables.
    condition: Option<(usize, usize, i64)>,
    /// If set, the first loop drives both axes: with its quotient and its remainder by this number.
    fused: Option<i64>,
    /// Number of loops of the outer block; 0 if there is none.
    outer: usize,
}

impl Case {
    fn random(rng: &mut Rng) -> Case {
        let count = 2 + rng.below(3);
        let extents: Vec<i64> = (0..count).map(|_| rng.below(5) as i64).collect();
        let symbolic = (0..count).map(|_| rng.below(2) == 0).collect();
        let mut loops: Vec<Loop> = Vec::new();
        for at in 0..count {
            let spatial = loops.iter().enumerate().filter(|(at, it)| !it.reduce || *at == 0).count();
            let outside = |rng: &mut Rng| (at > 0 && rng.below(4) == 0).then(|| rng.below(at));
            loops.push(Loop {
                var: Var::index(format!("l{at}")),
                reduce: rng.below(2) == 0 || spatial == 2,
                from: outside(rng),
                plus: outside(rng),
                extent: at,
            });
        }
        let condition =
            (rng.below(3) == 0).then(|| (rng.below(count), rng.below(count), rng.below(6) as i64));
        let fused = (rng.below(4) == 0).then(|| 1 + rng.below(3) as i64);
        let outer = if rng.below(3) == 0 { rng.below(count) } else { 0 };
        Case { loops, extents, symbolic, condition, fused, outer }
    }

    /// The values of the spatial and the reduction axis, from the values of the loops: spatial loops are digits in base
    /// `BASE`, reduction loops are added.
    fn axes<T: Clone>(
        &self,
        of: &[T],
        add: impl Fn(T, T, i64) -> T,
        parts: impl Fn(&T, i64) -> (T, T),
    ) -> [Option<T>; 2] {
        let mut axes: [Option<T>; 2] = [None, None];
        let mut put = |reduce: bool, value: T| {
            let axis = &mut axes[usize::from(reduce)];
            let by = if reduce { 1 } else { BASE };
            *axis = Some(axis.take().map_or(value.clone(), |sum| add(value, sum, by)));
        };
        for (at, it) in self.loops.iter().enumerate() {
            match self.fused {
                Some(by) if at == 0 => {
                    let (quotient, remainder) = parts(&of[at], by);
                    put(false, quotient);
                    put(true, remainder);
                }
                _ => put(it.reduce, of[at].clone()),
            }
        }
        axes
    }

    /// The expected sum of each element that an iteration reaches, by the definition.
    fn sums(&self) -> BTreeMap<i64, i64> {
        fn go(case: &Case, values: &mut Vec<i64>, sums: &mut BTreeMap<i64, i64>) {
            let Some(it) = case.loops.get(values.len()) else {
                let holds = case.condition.is_none_or(|(a, b, limit)| values[a] + values[b] < limit);
                let parts = |v: &i64, by| (v.div_euclid(by), v.rem_euclid(by));
                let [s, r] = case.axes(values, |a, b, by| a + b * by, parts).map(Option::unwrap_or_default);
                if holds {
                    *sums.entry(s).or_insert(INIT) += s * 31 + r * 7 + 1;
                }
                return;
            };
            let min = it.from.map_or(0, |at| values[at]);
            let extent = case.extents[it.extent] + it.plus.map_or(0, |at| values[at] % 2);
            for value in min..min + extent {
                values.push(value);
                go(case, values, sums);
                values.pop();
            }
        }
        let mut sums = BTreeMap::new();
        go(self, &mut Vec::new(), &mut sums);
        sums
    }

    fn program(&self) -> PrimFunc {
        let y = Buffer::new("y", [PrimExpr::index(SIZE)], DataType::I64);
        let scalars: Vec<Var> = (0..self.extents.len()).map(|at| Var::index(format!("n{at}"))).collect();
        let vars: Vec<PrimExpr> = self.loops.iter().map(|it| PrimExpr::from(&it.var)).collect();
        let axis = |name: &str, kind| IterVar {
            var: Var::index(name),
            dom: Range::from_extent(PrimExpr::index(SIZE)),
            kind,
        };
        let realize = |block: Block, values: Vec<PrimExpr>, predicate: PrimExpr| {
            let block = with_access_regions(block).into();
            Stmt::from(BlockRealize { iter_values: values.into(), predicate, block })
        };
        // The inner block uses the loops of the outer block through the axes of the latter.
        let outer: Vec<IterVar> = self.loops[..self.outer]
            .iter()
            .enumerate()
            .map(|(at, it)| {
                let mixed = at == 0 && self.fused.is_some();
                axis(&format!("o{at}"), if it.reduce || mixed { IterKind::Reduce } else { IterKind::Spatial })
            })
            .collect();
        let seen: Vec<PrimExpr> = (vars.iter().enumerate())
            .map(|(at, var)| outer.get(at).map_or_else(|| var.clone(), |it| PrimExpr::from(&it.var)))
            .collect();
        let parts = |v: &PrimExpr, by| (v.clone().floordiv(by), v.clone().floormod(by));
        let [s, r] =
            self.axes(&seen, |a, b, by| a + b * by, parts).map(|axis| axis.unwrap_or(PrimExpr::index(0)));
        let predicate =
            self.condition.map_or(PrimExpr::bool(true), |(a, b, limit)| (&seen[a] + &seen[b]).less(limit));
        let axes = [axis("vs", IterKind::Spatial), axis("vr", IterKind::Reduce)];
        let (vs, vr) = (PrimExpr::from(&axes[0].var), PrimExpr::from(&axes[1].var));
        let value = y.load([vs.clone()]) + (&vs * 31 + &vr * 7 + 1);
        let block = Block {
            iter_vars: axes.into(),
            init: Some(Stmt::store(&y, [vs.clone()], PrimExpr::index(INIT))),
            ..Block::new("y", Stmt::store(&y, [vs], value))
        };
        let wrap = |body: Stmt, range: std::ops::Range<usize>, seen: &[PrimExpr]| {
            self.loops[range].iter().rev().fold(body, |body, it| {
                let min = it.from.map_or(PrimExpr::index(0), |at| seen[at].clone());
                let extent = match self.symbolic[it.extent] {
                    true => PrimExpr::from(&scalars[it.extent]),
                    false => PrimExpr::index(self.extents[it.extent]),
                };
                let extent = match it.plus {
                    Some(at) => extent + seen[at].clone().floormod(2),
                    None => extent,
                };
                For {
                    min,
                    kind: ForKind::Serial,
                    span: Span::none(),
                    ..For::serial(it.var.clone(), extent, body)
                }
                .into()
            })
        };
        let mut body = wrap(realize(block, vec![s, r], predicate), self.outer..self.loops.len(), &seen);
        if self.outer > 0 {
            let block = Block { iter_vars: outer.into(), ..Block::new("outer", body) };
            let values = vars[..self.outer].to_vec();
            body = wrap(realize(block, values, PrimExpr::bool(true)), 0..self.outer, &vars);
        }
        let params = [Param::Out(y)].into_iter().chain(scalars.into_iter().map(Param::Scalar));
        let root = BlockRealize::opaque(Block::root(vec![], body));
        PrimFunc::new("f", params.collect::<Vec<_>>(), root)
    }

    fn run(&self, func: &PrimFunc) -> Vec<i64> {
        let y = Value::Tensor(Tensor::from_vec(vec![OLD; SIZE as usize], &[SIZE]).unwrap());
        let mut args: Vec<Value> =
            std::iter::once(y).chain(self.extents.iter().map(|it| Value::Int(*it))).collect();
        let res = Program::compile(func).and_then(|it| it.strict(1).run(&mut args));
        assert!(res.is_ok(), "{res:?}\n{func}");
        args[0].as_tensor().unwrap().to_vec().unwrap()
    }
}

#[test]
fn fuzz_reductions() {
    for seed in Budget::new("reductions", 150) {
        let case = Case::random(&mut Rng::new(seed));
        let sums = case.sums();
        let mut module = IRModule::from_prim_func(case.program());
        let mut first = None;
        for pass in std::iter::once(None).chain(lower_tir().parts().iter().map(Some)) {
            let name = pass.as_ref().map_or("nothing", |pass| pass.info.name);
            if let Some(pass) = &pass {
                module = pass.apply_in(module, &PassContext::default()).unwrap();
            }
            let (gv, _) = module.functions().next().unwrap();
            let func = module.prim_func(gv).unwrap();
            if pass.is_none() {
                well_formed(func).unwrap();
            }
            let got = case.run(func);
            for (at, &got) in got.iter().enumerate() {
                match sums.get(&(at as i64)) {
                    Some(sum) => assert_eq!(got, *sum, "seed {seed}, element {at} after {name}:\n{func}"),
                    None => {
                        assert!(got == OLD || got == INIT, "seed {seed}, element {at} after {name}:\n{func}")
                    }
                }
            }
            let want = first.get_or_insert_with(|| got.clone());
            assert_eq!(got, *want, "seed {seed} after {name}:\n{func}");
        }
    }
}
