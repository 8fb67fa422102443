//! Reductions over nothing: where no iteration of the reduction loops runs, the init runs alone.
//!
//! A block runs its init in the first iteration of its reduction axes, so never where there is none. The result of a
//! tensor expression is defined all the same: its blocks ask by an annotation, and the init is repeated before the
//! outermost reduction loop, `if k <= 0 { init }; for r in 0..k ..`. A kernel written as loops means what its loops do.
//! Loops that drive spatial and reduction axes at once (fused) are left as they are.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::context::{analyzer_for, enter_loop};
use crate::arith::Analyzer;
use crate::ir::{Var, VarId};
use crate::tir::analysis::{add_predicate, drives, init_nest};
use crate::tir::{BlockRealize, For, Mutator, PrimExpr, PrimFunc, Stmt, any_expr};

/// Annotation of a block whose init runs also when its reduction loops do not.
pub const INIT_IF_EMPTY: &str = "init_if_empty";

/// The body of `func` with inits for reductions over nothing; `None` when there can be none.
pub(in crate::tir) fn init_empty_reductions(func: &PrimFunc) -> Option<Stmt> {
    let mut pass = EmptyReductions {
        analyzer: analyzer_for(func),
        loops: Vec::new(),
        before: FxHashMap::default(),
        constants: func.param_vars(),
    };
    pass.mutate_stmt(&func.body)
}

struct EmptyReductions {
    analyzer: Analyzer,
    /// The loops from the enclosing block inwards, with nothing but sequences in between.
    loops: Vec<Arc<For>>,
    /// What stands before a loop.
    before: FxHashMap<VarId, Vec<Stmt>>,
    /// Variables of the parameters.
    constants: Vec<Var>,
}

impl EmptyReductions {
    /// The init of `realize` for the case that it never runs, and the loop that it stands before.
    fn init(&self, realize: &BlockRealize) -> Option<(VarId, Stmt)> {
        let block = &realize.block;
        let init = block.init.as_ref()?;
        block.annotations.get(INIT_IF_EMPTY)?;
        let at = self.loops.iter().position(|node| drives(realize, node, true))?;
        let inner = &self.loops[at..];
        let may_be_empty = |node: &&Arc<For>| {
            drives(realize, node, true) && self.analyzer.const_int_bound(&node.extent).min < 1
        };
        let empty = inner.iter().filter(may_be_empty).map(|node| node.extent.clone().less_equal(0));
        let empty = empty.reduce(PrimExpr::or)?;
        let inside = |expr: &PrimExpr| {
            any_expr(expr, &mut |it| inner.iter().any(|node| it.as_var() == Some(&node.loop_var)))
        };
        if inside(&empty) {
            return None;
        }
        let (_, nest) =
            init_nest(realize, init, inner, &self.constants, format!("{}_empty", block.name)).ok()?;
        Some((inner[0].loop_var.id(), add_predicate(&nest, &empty)))
    }

    /// Walks `stmt` as the beginning of new loops.
    fn fresh(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let outer = std::mem::take(&mut self.loops);
        let res = self.walk_stmt(stmt);
        self.loops = outer;
        res
    }
}

impl Mutator for EmptyReductions {
    fn mutate_expr(&mut self, _expr: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                enter_loop(&mut self.analyzer, node);
                self.loops.push(node.clone());
                let walked = self.walk_stmt(stmt);
                self.loops.pop();
                match self.before.remove(&node.loop_var.id()) {
                    Some(mut stmts) => {
                        stmts.push(walked.unwrap_or_else(|| stmt.clone()));
                        Some(Stmt::seq(stmts))
                    }
                    None => walked,
                }
            }
            Stmt::BlockRealize(realize) => {
                if let Some((before, init)) = self.init(realize) {
                    self.before.entry(before).or_default().push(init);
                }
                self.fresh(stmt)
            }
            Stmt::SeqStmt(_) => self.walk_stmt(stmt),
            Stmt::IfThenElse(_) | Stmt::While(_) => self.fresh(stmt),
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
    use tvm_runtime::{DataType, Tensor};

    use crate::ir::{IRModule, Var};
    use crate::pass::PassContext;
    use crate::pipeline::lower_tir_passes;
    use crate::te::{self, ReduceAxis};
    use crate::tir::interp::{self, Value};
    use crate::tir::schedule::{Schedule, ScheduleError};
    use crate::tir::{PrimExpr, PrimFunc};

    const F32: DataType = DataType::F32;

    /// Reduces the columns of `[3, n]`.
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
    fn a_reduction_over_nothing_gives_its_start() {
        type Change = fn(&mut Schedule) -> Result<(), ScheduleError>;
        let changes: [Change; 4] = [
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
                for pass in lower_tir_passes() {
                    module = pass.apply_in(module, &PassContext::default()).unwrap();
                    let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
                    assert_eq!(run(func, n), want, "{}:\n{func}", pass.info.name);
                }
            }
        }
    }
}
