//! Turns the inits of blocks into separate statements.
//!
//! TVM counterpart: `LowerInitBlock` (which guards the init by the first iteration instead).
//! Ensures: no block has an init. The init becomes a separate loop nest ([`init_nest`]) before the outermost loop that
//! drives a reduction axis of its block, so it runs before the first iteration that reaches a result, and also if there
//! is no iteration. Without such a loop the init is placed before the body.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::util::{BlockNames, body_pass};
use crate::ir::VarId;
use crate::pass::Pass;
use crate::tir::analysis::{Frame, init_nest, reduction_loop};
use crate::tir::{BlockRealize, IfThenElse, Mutator, PrimExpr, Stmt};

/// `for k { block { init { a }; b } }` becomes `a; for k { block { b } }`.
pub fn lower_init_block() -> Pass {
    body_pass("LowerInitBlock", |func| without_inits(&func.body))
}

/// `body` with the inits as separate statements; `None` when there is no init.
pub(super) fn without_inits(body: &Stmt) -> Option<Stmt> {
    let names = BlockNames::of(body);
    has_init(body).then(|| {
        let mut pass = LowerInitBlock { names, frames: Vec::new(), before: FxHashMap::default() };
        pass.mutate_stmt(body)
    })?
}

/// True when a block in `stmt` has an init.
fn has_init(stmt: &Stmt) -> bool {
    let own = stmt.as_block_realize().is_some_and(|it| it.block.init.is_some());
    own || stmt.children().into_iter().any(has_init)
}

struct LowerInitBlock {
    names: BlockNames,
    /// The constructs around the current statement, outermost first.
    frames: Vec<Frame>,
    /// Statements to insert before a loop, by its variable.
    before: FxHashMap<VarId, Vec<Stmt>>,
}

impl LowerInitBlock {
    /// Rewrites `stmt` inside `frame`.
    fn inside(&mut self, frame: Frame, stmt: &Stmt) -> Option<Stmt> {
        let depth = self.frames.len();
        self.frames.push(frame);
        let new = self.mutate_stmt(stmt);
        self.frames.truncate(depth);
        new
    }

    fn realize(&mut self, realize: &Arc<BlockRealize>) -> Option<Stmt> {
        let block = &realize.block;
        let depth = self.frames.len();
        let mut new = (**block).clone();
        if let Some(init) = &block.init {
            match reduction_loop(&self.frames, realize, init) {
                Some(at) => {
                    let name = self.names.fresh(&format!("{}_init", block.name));
                    let nest = init_nest(realize, init, &self.frames[at..], name);
                    if let Frame::Loop(node) = &self.frames[at] {
                        self.before.entry(node.loop_var.id()).or_default().push(nest);
                    }
                }
                None => new.body = Stmt::seq([init.clone(), new.body]),
            }
            new.init = None;
        }
        self.frames.push(Frame::Block(realize.clone()));
        let body = self.mutate_stmt(&new.body);
        self.frames.truncate(depth);
        if body.is_none() && block.init.is_none() {
            return None;
        }
        new.body = body.unwrap_or(new.body);
        Some(BlockRealize { block: new.into(), ..(**realize).clone() }.into())
    }
}

impl Mutator for LowerInitBlock {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                let depth = self.frames.len();
                self.frames.push(Frame::Loop(node.clone()));
                let walked = self.walk_stmt(stmt);
                self.frames.truncate(depth);
                let Some(inits) = self.before.remove(&node.loop_var.id()) else { return walked };
                // An init may contain blocks with inits.
                let inits = inits.into_iter().map(|init| self.mutate_stmt(&init).unwrap_or(init));
                let inits: Vec<Stmt> = inits.collect();
                Some(Stmt::seq(inits.into_iter().chain([walked.unwrap_or_else(|| stmt.clone())])))
            }
            Stmt::BlockRealize(realize) => self.realize(realize),
            Stmt::SeqStmt(stmts) => {
                let depth = self.frames.len();
                let new = crate::tir::mutate_slice(stmts, |stmt| {
                    let new = self.mutate_stmt(stmt);
                    match stmt {
                        Stmt::Bind(it) => self.frames.push(Frame::Bind(it.var.clone(), it.value.clone())),
                        Stmt::AllocBuffer(it) => self.frames.push(Frame::Buffer(it.buffer.id)),
                        Stmt::DeclBuffer(it) => self.frames.push(Frame::Buffer(it.buffer.id)),
                        Stmt::BufferStore(_)
                        | Stmt::For(_)
                        | Stmt::BlockRealize(_)
                        | Stmt::SeqStmt(_)
                        | Stmt::IfThenElse(_)
                        | Stmt::While(_)
                        | Stmt::Evaluate(_)
                        | Stmt::AssertStmt(_) => {}
                    }
                    new
                });
                self.frames.truncate(depth);
                new.map(|stmts| Stmt::seq(stmts.iter().cloned()))
            }
            Stmt::IfThenElse(node) => {
                let then_case = self.inside(Frame::Condition(node.condition.clone()), &node.then_case);
                let other = Frame::Condition(!node.condition.clone());
                let else_case = node.else_case.as_ref().and_then(|stmt| self.inside(other, stmt));
                (then_case.is_some() || else_case.is_some()).then(|| {
                    let then_case = then_case.unwrap_or_else(|| node.then_case.clone());
                    let else_case = else_case.or_else(|| node.else_case.clone());
                    IfThenElse { then_case, else_case, ..(**node).clone() }.folded()
                })
            }
            Stmt::While(node) => {
                let depth = self.frames.len();
                self.frames.push(Frame::While);
                let body = self.mutate_stmt(&node.body);
                self.frames.truncate(depth);
                body.map(|body| crate::tir::While { body, ..(**node).clone() }.into())
            }
            Stmt::BufferStore(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => None,
        }
    }
}
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tvm_runtime::{DataType, Tensor};

    use crate::ir::{IRModule, Var};
    use crate::pass::PassContext;
    use crate::pipeline::lower_tir;
    use crate::te::{self, ReduceAxis};
    use crate::tir::interp::{self, Value};
    use crate::tir::schedule::{Schedule, ScheduleError};
    use crate::tir::transform::renew_defs;
    use crate::tir::{
        Block, BlockRealize, Buffer, BufferRegion, For, IterKind, IterVar, MatchBufferRegion, Param,
        PrimExpr, PrimFunc, Range, Stmt,
    };

    const F32: DataType = DataType::F32;

    /// Reduces an input of shape `[3, n]` over its columns.
    fn rows(reduce: impl Fn(PrimExpr, &ReduceAxis) -> te::Reduce) -> PrimFunc {
        let n = PrimExpr::from(Var::index("n"));
        let x = te::placeholder("x", [PrimExpr::index(3), n.clone()], F32);
        let r = te::reduce_axis("r", n);
        let y = te::compute("y", [PrimExpr::index(3)], &[&x], |i: &[PrimExpr]| {
            reduce(x.at([i[0].clone(), r.expr()]), &r)
        });
        te::create_prim_func("rows", &[x], &[y]).unwrap()
    }

    fn run(func: &PrimFunc, n: i64) -> Vec<f32> {
        let x = (0..3 * n).map(|i| (i % 5) as f32).collect();
        let mut args = [(x, vec![3, n]), (vec![-77.0; 3], vec![3])]
            .map(|(data, shape): (Vec<f32>, _)| Value::Tensor(Tensor::from_vec(data, &shape).unwrap()));
        interp::run(func, &mut args).unwrap_or_else(|err| panic!("{err}\n{func}"));
        args[1].as_tensor().unwrap().to_vec().unwrap()
    }

    #[test]
    fn one_loop_over_rows_and_columns() {
        let x = te::placeholder("x", [PrimExpr::index(3), PrimExpr::index(3)], F32);
        let r = te::reduce_axis("r", PrimExpr::index(3));
        let y = te::compute("y", [PrimExpr::index(3)], &[&x], |i: &[PrimExpr]| {
            te::sum(x.at([i[0].clone(), r.expr()]), &[&r])
        });
        let func = te::create_prim_func("rows", &[x], &[y]).unwrap();
        let want = run(&func, 3);
        for factor in [2, 3, 4, 5, 9, 10] {
            for swap in [false, true] {
                let mut s = Schedule::new(renew_defs(&func)).unwrap();
                let y = s.block("y").unwrap();
                let [i, r] = s.loops(y).unwrap();
                let both = s.fuse([i, r]).unwrap();
                let [a, b] = s.split(both, [None, Some(factor)]).unwrap();
                if swap {
                    s.reorder([b, a]).unwrap();
                }
                let mut module = IRModule::from_prim_func(s.into_func());
                for pass in lower_tir().parts() {
                    let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
                    assert_eq!(run(func, 3), want, "before {}:\n{func}", pass.info.name);
                    module = pass.apply_in(module, &PassContext::default()).unwrap();
                }
            }
        }
    }

    #[test]
    fn a_reduction_over_nothing_gives_its_start() {
        type Change = fn(&mut Schedule) -> Result<(), ScheduleError>;
        let changes: [Change; 5] = [
            |_| Ok(()),
            |s| {
                let y = s.block("y")?;
                let [_, r] = s.loops(y)?;
                s.split(r, [None, Some(4)]).map(|[_, _]| ())
            },
            |s| {
                let y = s.block("y")?;
                let [i, r] = s.loops(y)?;
                let [outer, inner] = s.split(r, [None, Some(4)])?;
                s.reorder([outer, i, inner])
            },
            |s| {
                let y = s.block("y")?;
                let [i, r] = s.loops(y)?;
                s.reorder([r, i])?;
                s.vectorize(i)
            },
            |s| {
                let y = s.block("y")?;
                let [i, r] = s.loops(y)?;
                s.parallel(i)?;
                s.decompose_reduction(y, r).map(|_| ())
            },
        ];
        let lowest = f32::NEG_INFINITY;
        for (func, n, want) in [
            (rows(|x, r| te::sum(x, &[r])), 0, [0.0; 3]),
            (rows(|x, r| te::max(x, &[r])), 0, [lowest; 3]),
            (rows(|x, r| te::sum(x, &[r])), 7, [11.0, 15.0, 14.0]),
        ] {
            for change in changes {
                let mut s = Schedule::new(func.clone()).unwrap();
                change(&mut s).unwrap();
                let func = s.into_func();
                assert_eq!(run(&func, n), want, "{func}");
                let mut module = IRModule::from_prim_func(func);
                for pass in lower_tir().parts() {
                    module = pass.apply_in(module, &PassContext::default()).unwrap();
                    let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
                    assert_eq!(run(func, n), want, "{}:\n{func}", pass.info.name);
                }
            }
        }
    }

    /// `y[i] = sum over k of x[i, k]` through a view of `y` at `place(i, k)`; the init stores to its element `at(k)`.
    fn through_a_view(
        place: fn(&PrimExpr, &PrimExpr) -> PrimExpr,
        at: fn(&PrimExpr) -> PrimExpr,
    ) -> PrimFunc {
        let x = Buffer::new("x", [PrimExpr::index(3), PrimExpr::index(3)], F32);
        let (y, view) =
            (Buffer::new("y", [PrimExpr::index(3)], F32), Buffer::new("v", [PrimExpr::index(1)], F32));
        let [i, k, vi, vk] = ["i", "k", "vi", "vk"].map(Var::index);
        let [i_, k_, vi_, vk_] = [&i, &k, &vi, &vk].map(PrimExpr::from);
        let zero = || [PrimExpr::index(0)];
        let axis = |var, kind| IterVar { var, dom: Range::from_extent(3), kind };
        let region = [Range { min: place(&vi_, &vk_), extent: 1.into() }].into();
        let sum = view.load(zero()) + x.load([vi_, vk_.clone()]);
        let block = Block {
            iter_vars: [axis(vi, IterKind::Spatial), axis(vk, IterKind::Reduce)].into(),
            init: Some(Stmt::store(&view, [at(&vk_)], PrimExpr::float(0.0, F32))),
            match_buffers: [MatchBufferRegion {
                buffer: view.clone(),
                source: BufferRegion { buffer: y.clone(), region },
            }]
            .into(),
            ..Block::new("y", Stmt::store(&view, zero(), sum))
        };
        let realize = BlockRealize {
            iter_values: [i_, k_].into(),
            predicate: PrimExpr::bool(true),
            block: Arc::new(crate::tir::analysis::with_access_regions(block)),
        };
        let nest = For::serial(i, 3, For::serial(k, 3, realize.into()).into()).into();
        let root = BlockRealize::opaque(Block::root(vec![], nest));
        PrimFunc::new("rows", [Param::In(x), Param::Out(y)], root)
    }

    #[test]
    fn an_init_stores_where_no_reduce_axis_matters() {
        let zero = |_: &PrimExpr| PrimExpr::index(0);
        let func = through_a_view(|i, _| i.clone(), zero);
        crate::tir::analysis::well_formed(&func).unwrap();
        let want = [3.0, 7.0, 6.0];
        assert_eq!(run(&func, 3), want);
        let mut module = IRModule::from_prim_func(func);
        for pass in lower_tir().parts() {
            module = pass.apply_in(module, &PassContext::default()).unwrap();
            let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
            assert_eq!(run(func, 3), want, "{}:\n{func}", pass.info.name);
        }
        for func in [through_a_view(|_, k| k.clone(), zero), through_a_view(|i, _| i.clone(), |k| k.clone())]
        {
            let err = crate::tir::analysis::well_formed(&func).unwrap_err().to_string();
            assert!(err.contains("W16: the init of block `y` depends on its reduce axis `vk`"), "{err}");
        }
    }
}
