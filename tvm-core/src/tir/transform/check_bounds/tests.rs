//! Fuzz test: lowers and interprets random programs that sometimes leave their buffers. If the original program runs,
//! the lowered one computes the same; if it leaves a buffer or a domain, the lowered one returns an error of its own; no
//! access of the lowered one is outside its memory.

use tvm_runtime::{DataType, Tensor};
use tvm_testing::{Budget, Rng};

use crate::ir::{IRModule, Var};
use crate::pipeline::lower_tir;
use crate::tir::analysis::{well_formed, with_access_regions};
use crate::tir::interp::{InterpError, InterpErrorKind, Program, Value};
use crate::tir::*;

const I64: DataType = DataType::I64;
const STEPS: u64 = 20_000;

struct Generator {
    rng: Rng,
    /// Dimensions, loop variables, axes and bound variables in scope.
    vars: Vec<Var>,
    dims: Vec<Var>,
    /// A table of indices, a matrix, the result.
    table: Buffer,
    matrix: Buffer,
    out: Buffer,
    locals: Vec<Buffer>,
    blocks: usize,
    names: usize,
}

impl Generator {
    fn new(seed: u64) -> Generator {
        let dims = ["n", "m", "k"].map(Var::index).to_vec();
        let dim = |i: usize| PrimExpr::from(&dims[i]);
        let table = Buffer::new("table", [dim(2)], I64);
        let matrix = Buffer::new("matrix", [dim(0), dim(1)], I64);
        let out = Buffer::new("out", [dim(0)], I64);
        let vars = dims.clone();
        Generator { rng: Rng::new(seed), vars, dims, table, matrix, out, locals: vec![], blocks: 0, names: 0 }
    }

    fn fresh(&mut self, name: &str) -> Var {
        self.names += 1;
        Var::index(format!("{name}{}", self.names).as_str())
    }

    fn constant(&mut self) -> i64 {
        match self.rng.below(24) {
            0 => 1 << 61,
            1 => i64::MAX,
            2 => i64::MIN,
            _ => self.rng.range(-2, 5),
        }
    }

    /// A random integer; it may load from memory if `loads` is set.
    fn int(&mut self, depth: u32, loads: bool) -> PrimExpr {
        if depth == 0 || self.rng.one_in(3) {
            return match self.rng.below(4) {
                0 => PrimExpr::index(self.constant()),
                _ => PrimExpr::from(self.rng.pick(&self.vars.clone())),
            };
        }
        let a = self.int(depth - 1, loads);
        match self.rng.below(if loads { 11 } else { 8 }) {
            0 | 1 => a + self.int(depth - 1, loads),
            2 => a - self.int(depth - 1, loads),
            3 => a * self.rng.range(-1, 4),
            4 => a * PrimExpr::from(self.rng.pick(&self.dims.clone())),
            5 => a.floordiv(self.rng.range(1, 4)),
            6 => a.floormod(self.rng.range(1, 4)),
            7 if self.rng.one_in(2) => a.min(self.int(depth - 1, loads)),
            7 => a.max(self.int(depth - 1, loads)),
            8 => a * PrimExpr::index(8),
            _ => self.table.load([a]),
        }
    }

    fn condition(&mut self, loads: bool) -> PrimExpr {
        let (a, b) = (self.int(2, loads), self.int(1, loads));
        let first = if self.rng.one_in(2) { a.less(b) } else { a.greater_equal(b) };
        if self.rng.one_in(2) { first.and(self.condition(loads)) } else { first }
    }

    fn table_at(&mut self) -> PrimExpr {
        let index = self.int(2, true);
        self.table.load([index])
    }

    fn element(&mut self) -> PrimExpr {
        match self.rng.below(4) {
            0 => self.table_at(),
            1 if !self.locals.is_empty() => {
                let (local, index) = (self.rng.pick(&self.locals).clone(), self.int(2, true));
                local.load([index])
            }
            2 => {
                let (condition, element) = (self.condition(true), self.table_at());
                PrimExpr::call(Intrinsic::IfThenElse, [condition, element, PrimExpr::index(3)], I64)
            }
            _ => {
                let indices = [self.int(2, true), self.int(2, true)];
                self.matrix.load(indices)
            }
        }
    }

    fn store(&mut self) -> Stmt {
        let value = self.element();
        let local = self.locals.last().cloned().filter(|_| self.rng.one_in(2));
        let buffer = local.unwrap_or_else(|| self.out.clone());
        let index = self.int(2, true);
        Stmt::store(&buffer, [index.clone()], buffer.load([index]) + value)
    }

    fn range(&mut self, loads: bool) -> Range {
        match self.rng.below(if loads { 7 } else { 4 }) {
            0 => Range::from_extent(self.rng.range(0, 4)),
            1 | 2 => Range::from_extent(self.rng.pick(&self.dims.clone())),
            3 => {
                let min = self.int(1, false);
                // Keep ends within i64: a program with a larger one may be rejected.
                let large =
                    any_expr(&min, &mut |it| it.as_int().is_some_and(|it| it.unsigned_abs() > 1 << 40));
                let min = if large { PrimExpr::index(0) } else { min };
                Range { min, extent: PrimExpr::index(self.rng.range(0, 3)) }
            }
            4 => Range::from_extent(self.table_at()),
            5 => Range { min: self.table_at(), extent: PrimExpr::index(1) },
            _ => {
                let at = self.int(1, true);
                let (low, high) = (self.table.load([at.clone()]), self.table.load([at + 1]));
                Range { min: low.clone(), extent: high - low }
            }
        }
    }

    /// Random statements inside a block.
    fn body(&mut self, depth: u32) -> Stmt {
        let (vars, locals) = (self.vars.len(), self.locals.len());
        let mut stmts = Vec::new();
        for _ in 0..=self.rng.below(2) {
            match self.rng.below(if depth == 0 { 3 } else { 7 }) {
                0 | 1 => stmts.push(self.store()),
                2 => {
                    let value = if self.rng.one_in(3) { self.int(2, false) } else { self.element() };
                    let var = self.fresh("v");
                    stmts.push(Bind { var: var.clone(), value }.into());
                    self.vars.push(var);
                }
                3 => {
                    let (condition, then_case) = (self.condition(true), self.body(depth - 1));
                    stmts.push(Stmt::if_then_else(condition, then_case, None));
                }
                4 => {
                    let extent =
                        if self.rng.one_in(2) { self.range(false).extent } else { self.int(1, false) };
                    let extent = extent.as_int().map_or(extent, |extent| extent.clamp(0, 4).into());
                    let t = Buffer::new("t", [extent.clone()], I64);
                    let j = self.fresh("j");
                    let zero = Stmt::store(&t, [PrimExpr::from(&j)], PrimExpr::index(0));
                    stmts.push(AllocBuffer::new(t.clone()).into());
                    stmts.push(For::serial(j, extent, zero).into());
                    self.locals.push(t);
                }
                _ => {
                    let (range, var) = (self.range(true), self.fresh("e"));
                    self.vars.push(var.clone());
                    let body = self.body(depth - 1);
                    self.vars.pop();
                    stmts.push(For { min: range.min, ..For::serial(var, range.extent, body) }.into());
                }
            }
        }
        stmts.push(self.store());
        self.vars.truncate(vars);
        self.locals.truncate(locals);
        Stmt::seq(stmts)
    }

    /// Random loops around a block.
    fn nest(&mut self) -> Stmt {
        let vars = self.vars.len();
        let loops: Vec<(Var, Range)> = (0..self.rng.below(3))
            .map(|_| {
                let (range, var) = (self.range(false), self.fresh("i"));
                self.vars.push(var.clone());
                (var, range)
            })
            .collect();
        let mut iters = Vec::new();
        let mut values = Vec::new();
        for _ in 0..self.rng.below(3) {
            let plain = loops.get(self.rng.below(loops.len().max(1))).filter(|_| !self.rng.one_in(3));
            let value = plain.map_or_else(|| self.int(2, false), |(var, _)| var.into());
            let dom = match self.rng.below(4) {
                0 => Range::from_extent(self.rng.range(0, 5)),
                1 => Range::from_extent(self.rng.pick(&self.dims.clone())),
                _ => plain.map_or_else(|| Range::from_extent(40), |(_, range)| range.clone()),
            };
            iters.push(IterVar { var: self.fresh("a"), dom, kind: IterKind::Opaque });
            values.push(value);
        }
        let predicate = if self.rng.one_in(3) { self.condition(false) } else { PrimExpr::bool(true) };
        self.vars.extend(iters.iter().map(|iter| iter.var.clone()));
        let body = self.body(2);
        self.vars.truncate(vars);
        self.blocks += 1;
        let block = Block { iter_vars: iters.into(), ..Block::new(format!("b{}", self.blocks), body) };
        let block = with_access_regions(block).into();
        let realize = BlockRealize { iter_values: values.into(), predicate, block };
        loops.into_iter().rev().fold(realize.into(), |body, (var, range)| {
            For { min: range.min, ..For::serial(var, range.extent, body) }.into()
        })
    }

    fn func(mut self) -> PrimFunc {
        let nests: Vec<Stmt> = (0..=self.rng.below(2)).map(|_| self.nest()).collect();
        let params =
            [Param::Out(self.table.clone()), Param::In(self.matrix.clone()), Param::Out(self.out.clone())];
        PrimFunc::new("random", params, BlockRealize::opaque(Block::root(vec![], Stmt::seq(nests))))
    }
}

fn arguments(rng: &mut Rng) -> Vec<Value> {
    let [n, m, k] = [0; 3].map(|_: i64| rng.range(0, 5));
    let mut tensor = |shape: &[i64], wild: bool| {
        let value = |_| match rng.below(40) {
            0 if wild => i64::MIN,
            1 if wild => i64::MAX,
            2 if wild => 1 << 61,
            _ => rng.range(-1, 5),
        };
        let data: Vec<i64> = (0..shape.iter().product()).map(value).collect();
        Value::Tensor(Tensor::from_vec(data, shape).unwrap())
    };
    vec![tensor(&[k], true), tensor(&[n, m], false), tensor(&[n], false)]
}

fn run(func: &PrimFunc, args: &[Value]) -> Result<Vec<Vec<i64>>, InterpError> {
    let mut args = args.to_vec();
    Program::compile(func)?.run_limited(&mut args, STEPS)?;
    Ok(args.iter().map(|arg| arg.as_tensor().unwrap().to_vec().unwrap()).collect())
}

#[test]
fn fuzz_check_bounds() {
    let mut counts = [0u64; 4];
    for seed in Budget::new("check_bounds", 40) {
        let func = Generator::new(seed).func();
        well_formed(&func).unwrap_or_else(|err| panic!("{seed}: {err}\n{func}"));
        let mut rng = Rng::new(seed + 1);
        let lowered = lower_tir().apply(IRModule::from_prim_func(func.clone()));
        let lowered =
            lowered.as_ref().map(|module| module.prim_func(module.functions().next().unwrap().0).unwrap());
        for _ in 0..6 {
            let args = arguments(&mut rng);
            let plain = run(&func, &args);
            if matches!(plain, Err(InterpError { kind: InterpErrorKind::StepLimit, .. })) {
                continue;
            }
            let show = || format!("seed {seed}, {args:?}\n{func}");
            let lowered = match &lowered {
                Ok(lowered) => lowered,
                Err(err) => {
                    assert!(plain.is_err(), "refused: {err}\n{}", show());
                    counts[2] += 1;
                    continue;
                }
            };
            match (plain, run(lowered, &args)) {
                (
                    _,
                    Err(
                        err @ InterpError {
                            kind: InterpErrorKind::OutOfBounds { .. } | InterpErrorKind::OutOfMemory { .. },
                            ..
                        },
                    ),
                ) => {
                    panic!("left its memory: {err}\n{}\n{lowered}", show())
                }
                (Ok(want), Ok(got)) => {
                    assert_eq!(got, want, "{}\n{lowered}", show());
                    counts[0] += 1;
                }
                (Ok(_), Err(InterpError { kind: InterpErrorKind::StepLimit, .. })) => {}
                (Ok(_), Err(err)) => panic!("a valid program failed: {err}\n{}\n{lowered}", show()),
                (
                    Err(InterpError {
                        kind: InterpErrorKind::Allocation { .. } | InterpErrorKind::LoopRange { .. },
                        ..
                    }),
                    Ok(_),
                ) => {}
                (Err(err), Ok(_)) => panic!("nothing failed, expected {err}\n{}\n{lowered}", show()),
                (Err(_), Err(_)) => counts[1] += 1,
            }
            counts[3] += 1;
        }
    }
    let [ran, failed, _, all] = counts;
    assert!(
        ran * 8 > all && failed * 8 > all,
        "few of {all} runs end in a result, or few in an error: {counts:?}"
    );
}
