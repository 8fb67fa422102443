//! Seeded corruptions of valid programs: the rules, lowering or run-time checks refuse almost all, the others run
//! without leaving their memory. No valid program is refused.

use std::sync::Arc;

use tvm_runtime::DataType;
use tvm_testing::{Budget, Rng};

use crate::ir::structural::sample::{matmul, random_prim_func};
use crate::ir::{IRModule, Var};
use crate::pipeline::lower_tir;
use crate::tir::analysis::{lowered_form, well_formed};
use crate::tir::interp::{InterpError, InterpErrorKind, Program};
use crate::tir::schedule::Schedule;
use crate::tir::testing::{arguments, dense, random_step, stencil};
use crate::tir::*;

/// Rewrites node number `at` of the nodes that the corruption `kind` fits.
struct Corrupt<'a> {
    kind: usize,
    rng: &'a mut Rng,
    func: &'a PrimFunc,
    at: usize,
    seen: usize,
}

const KINDS: usize = 30;

fn raw(op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    PrimExpr::Binary(Arc::new(Binary { op, a, b }))
}

impl Corrupt<'_> {
    fn of_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let PrimExpr::BufferLoad(it) = expr {
            let with = |indices: Vec<PrimExpr>| Some(PrimExpr::BufferLoad(it.with_indices(indices).into()));
            let indices = it.indices.to_vec();
            return match self.kind {
                0 => with(indices[1..].to_vec()),
                1 => with([indices, vec![PrimExpr::index(0)]].concat()),
                2 => with(indices.into_iter().map(|index| index.cast(DataType::I32)).collect()),
                3 => with(vec![Var::index("undefined").into(); indices.len()]),
                4 => {
                    let buffer = it.buffer.renew(|_| {});
                    Some(PrimExpr::BufferLoad(
                        BufferLoad {
                            buffer,
                            indices: it.indices.clone(),
                            predicate: None,
                            span: it.span.clone(),
                        }
                        .into(),
                    ))
                }
                5 => Some(raw(BinaryOp::Add, expr.clone(), PrimExpr::int(1, DataType::I8))),
                6 => with(indices.into_iter().map(|index| index + (1i64 << 40)).collect()),
                7 => with(vec![PrimExpr::float(1.0, DataType::F32); indices.len()]),
                8 => {
                    let args = [expr.clone(), expr.clone(), expr.clone()];
                    Some(PrimExpr::call(Intrinsic::Abs, args, expr.dtype()))
                }
                _ => None,
            };
        }
        match (self.kind, expr) {
            (9, PrimExpr::IntImm(_)) => Some(PrimExpr::int(1 << 40, DataType::I8)),
            (10, PrimExpr::Binary(it)) => Some(raw(it.op, it.a.clone(), PrimExpr::bool(true))),
            _ => None,
        }
    }

    fn of_store(&mut self, it: &BufferStore) -> Option<BufferStore> {
        let input = self.func.inputs().next();
        match self.kind {
            11 => Some(BufferStore { indices: it.indices[1..].into(), ..it.clone() }),
            12 => Some(BufferStore { value: it.value.clone().cast(DataType::I8), ..it.clone() }),
            13 => Some(BufferStore { buffer: input?.clone(), ..it.clone() }),
            14 => {
                let vector = Broadcast { value: it.value.clone(), lanes: 4 };
                Some(BufferStore { value: PrimExpr::Broadcast(vector.into()), ..it.clone() })
            }
            15 => {
                let far: Vec<PrimExpr> = it.indices.iter().map(|index| index - (1i64 << 40)).collect();
                Some(BufferStore { indices: far.into(), ..it.clone() })
            }
            _ => None,
        }
    }

    fn of_for(&mut self, it: &For) -> Option<For> {
        match self.kind {
            16 => Some(For { extent: it.extent.clone().cast(DataType::I32), ..it.clone() }),
            17 => Some(For { loop_var: Var::prim("i", DataType::I32), ..it.clone() }),
            18 => Some(For { body: it.clone().into(), ..it.clone() }),
            19 => Some(For { extent: (&it.loop_var).into(), ..it.clone() }),
            20 => Some(For {
                body: Stmt::SeqStmt([Stmt::SeqStmt([it.body.clone()].into())].into()),
                ..it.clone()
            }),
            21 => Some(For { extent: &it.extent + self.rng.range(50, 90), ..it.clone() }),
            _ => None,
        }
    }

    fn of_realize(&mut self, it: &BlockRealize) -> Option<BlockRealize> {
        let block = &it.block;
        let with = |block: Block| Some(BlockRealize { block: block.into(), ..it.clone() });
        let bound = !it.iter_values.is_empty();
        match self.kind {
            22 if bound => Some(BlockRealize { iter_values: it.iter_values[1..].into(), ..it.clone() }),
            23 => {
                let values = it.iter_values.iter().chain([&PrimExpr::index(0)]).cloned().collect();
                Some(BlockRealize { iter_values: values, ..it.clone() })
            }
            24 => Some(BlockRealize { predicate: PrimExpr::index(1), ..it.clone() }),
            25 if bound => with(Block { iter_vars: block.iter_vars[1..].into(), ..(**block).clone() }),
            26 if !block.writes.is_empty() => {
                let region = &block.writes[0];
                let region = BufferRegion { region: region.region[1..].into(), ..region.clone() };
                with(Block { writes: [region].into(), ..(**block).clone() })
            }
            27 if !block.alloc_buffers.is_empty() => match self.rng.below(3) {
                0 => with(Block { alloc_buffers: block.alloc_buffers[1..].into(), ..(**block).clone() }),
                _ => {
                    let negative = Buffer::new("negative", [PrimExpr::index(-4)], DataType::F32);
                    let buffers = block.alloc_buffers.iter().cloned().chain([negative]);
                    with(Block { alloc_buffers: buffers.collect(), ..(**block).clone() })
                }
            },
            28 if !block.reads.is_empty() => {
                let source = block.reads[0].clone();
                let node = |shape: Vec<PrimExpr>, dtype| Buffer::new("view", shape, dtype);
                let extents: Vec<PrimExpr> = source.region.iter().map(|range| range.extent.clone()).collect();
                let dtype = source.buffer.dtype;
                let view = match self.rng.below(4) {
                    0 => node([extents, vec![PrimExpr::index(1)]].concat(), dtype),
                    1 => node(extents, DataType::I8),
                    2 => node(vec![PrimExpr::index(-1); extents.len()], dtype),
                    _ => node(extents, dtype).renew(|it| it.strides = vec![PrimExpr::index(1); 9].into()),
                };
                let matched = MatchBufferRegion { buffer: view, source };
                with(Block { match_buffers: [matched].into(), ..(**block).clone() })
            }
            29 if bound => {
                let by = self.rng.range(90, 120);
                let values = it.iter_values.iter().map(|value| value + by).collect();
                Some(BlockRealize { iter_values: values, ..it.clone() })
            }
            _ => None,
        }
    }

    fn take<T>(&mut self, new: Option<T>) -> Option<T> {
        let new = new?;
        self.seen += 1;
        (self.seen - 1 == self.at).then_some(new)
    }
}

impl Mutator for Corrupt<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let new = self.of_expr(expr);
        self.take(new).or_else(|| self.walk_expr(expr))
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let new: Option<Stmt> = match stmt {
            Stmt::BufferStore(it) => self.of_store(it).map(Stmt::from),
            Stmt::For(it) => self.of_for(it).map(Stmt::from),
            Stmt::BlockRealize(it) => self.of_realize(it).map(Stmt::from),
            _ => None,
        };
        self.take(new).or_else(|| self.walk_stmt(stmt))
    }
}

/// A valid program and the dimensions to run it with; `None` if it is not run.
fn valid(rng: &mut Rng, seed: u64) -> (PrimFunc, Option<Vec<i64>>) {
    let dim = PrimExpr::index;
    let symbol = |name| PrimExpr::from(Var::index(name));
    let (func, dims) = match rng.below(7) {
        0 => (dense(dim(7), dim(9), dim(5)), vec![]),
        1 => (dense(symbol("m"), symbol("n"), symbol("k")), vec![7, 5, 6]),
        2 => (stencil(dim(8), dim(6)), vec![]),
        3 => (stencil(symbol("h"), symbol("w")), vec![9, 7]),
        4 => return (matmul(), None),
        _ => return (random_prim_func(seed), None),
    };
    let mut schedule = Schedule::new(func).unwrap();
    for _ in 0..rng.below(8) {
        let _ = random_step(&mut schedule, rng);
    }
    (schedule.into_func(), Some(dims))
}

#[test]
fn fuzz_verifier() {
    let (mut made, mut by_rules, mut by_lowering, mut by_checks, mut ran) = (0u64, 0u64, 0u64, 0u64, 0u64);
    let mut cases = 0;
    for seed in Budget::new("verifier", 1500) {
        cases += 1;
        let mut rng = Rng::new(seed);
        let (func, dims) = valid(&mut rng, seed);
        well_formed(&func).unwrap_or_else(|err| panic!("a valid program is refused: {err}\n{func}"));
        let lower = |func: &PrimFunc| {
            let module = lower_tir().apply(IRModule::from_prim_func(func.clone()))?;
            let func = module.functions().find_map(|(gv, _)| module.prim_func(gv).cloned());
            Ok::<_, crate::pass::PassError>(func.expect("the module has one function"))
        };
        if seed % 8 == 0 && dims.is_some() {
            let lowered = lower(&func).unwrap_or_else(|err| panic!("{err}\n{func}"));
            lowered_form(&lowered).unwrap_or_else(|err| panic!("{err}\n{lowered}"));
        }
        let kind = rng.below(KINDS);
        let mut count = Corrupt { kind, rng: &mut rng.clone(), func: &func, at: usize::MAX, seen: 0 };
        count.mutate_stmt(&func.body);
        let places = count.seen;
        if places == 0 {
            continue;
        }
        let at = rng.below(places);
        let mut corrupt = Corrupt { kind, rng: &mut rng, func: &func, at, seen: 0 };
        let Some(body) = corrupt.mutate_stmt(&func.body) else { continue };
        let mutant = PrimFunc { body, ..func.clone() };
        made += 1;
        if well_formed(&mutant).is_err() {
            by_rules += 1;
            continue;
        }
        let Ok(lowered) = lower(&mutant) else {
            by_lowering += 1;
            continue;
        };
        let Some(dims) = dims else { continue };
        let mut args = arguments(&mutant, &dims);
        match Program::compile(&lowered).and_then(|program| program.run_limited(&mut args, 2_000_000)) {
            Ok(()) => ran += 1,
            Err(
                err @ InterpError {
                    kind: InterpErrorKind::OutOfBounds { .. } | InterpErrorKind::OutOfMemory { .. },
                    ..
                },
            ) => {
                panic!("corruption {kind} (seed {seed}) leaves its memory: {err}\n{mutant}\n{lowered}")
            }
            Err(_) => by_checks += 1,
        }
    }
    let caught = by_rules + by_lowering + by_checks;
    assert!(made * 2 > cases, "{made} corruptions of {cases} programs");
    assert!(caught * 100 >= made * 95, "{caught} of {made} were caught, {ran} ran");
}
