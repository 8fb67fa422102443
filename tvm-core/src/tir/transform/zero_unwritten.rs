//! Fills memory that may be read before it is written with zeros.
//!
//! TVM counterpart: none; there such reads are undefined.
//! Requires: no blocks. Ensures: every element of an allocated buffer (except in memory that GPU threads share) is written
//! before it is read, by the program or by a loop nest that stores zeros first. No nest is added if all elements are
//! proven to be written before they are read ([`is_covered`](super::coverage::is_covered)).

use super::context::{analyzer_for, enter_loop};
use super::coverage::{is_covered, writes_all};
use super::util::BlockNames;
use super::whole_write::writes_whole;
use super::{convert_blocks_to_opaque, lower_init_block, lower_match_buffer, lower_opaque_block, simplify};
use crate::arith::Analyzer;
use crate::ir::{IRModule, Var};
use crate::pass::{Pass, PassContext, prim_func_pass};
use crate::tir::{
    Block, BlockRealize, Buffer, For, IfThenElse, IterKind, IterVar, Mutator, Param, PrimExpr, PrimFunc,
    Range, Scope, Stmt,
};

/// Fills allocations with zeros, unless they are proven to be written before they are read.
pub fn zero_unwritten() -> Pass {
    prim_func_pass("ZeroUnwritten", |func, _, ctx| {
        let mut pass = ZeroUnwritten { analyzer: analyzer_for(func), fused: ctx.target.is_gpu() };
        Ok(pass.mutate_stmt(&func.body).map(|body| PrimFunc { body, ..func.clone() }))
    })
}

struct ZeroUnwritten {
    analyzer: Analyzer,
    /// True for GPUs, for which loops are fused and split again: then proofs about such loops are tried as well.
    fused: bool,
}

impl ZeroUnwritten {
    /// The statement that fills `buffer` with zeros before `rest`, which uses it; `None` if not needed.
    fn zeros(&self, buffer: &Buffer, rest: &Stmt) -> Option<Stmt> {
        let own = match buffer.scope {
            Scope::Global | Scope::Local => true,
            // Threads fill such a buffer together.
            Scope::Shared | Scope::SharedDyn | Scope::Warp => false,
        };
        if !own || is_covered(&self.analyzer, buffer, rest) {
            return None;
        }
        if let Stmt::SeqStmt(stmts) = rest
            && self.fused
            && writes_whole(&self.analyzer, buffer, stmts)
        {
            return None;
        }
        Some(fill(buffer, |indices, zero| Stmt::store(buffer, indices, zero)))
    }
}

impl Mutator for ZeroUnwritten {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::For(node) => {
                enter_loop(&mut self.analyzer, node);
                self.walk_stmt(stmt)
            }
            Stmt::SeqStmt(stmts) => {
                let mut changed = false;
                let mut new = Vec::with_capacity(stmts.len());
                for (i, stmt) in stmts.iter().enumerate() {
                    let walked = self.mutate_stmt(stmt);
                    changed |= walked.is_some();
                    new.push(walked.unwrap_or_else(|| stmt.clone()));
                    if let Stmt::AllocBuffer(alloc) = stmt {
                        let rest = Stmt::SeqStmt(stmts[i + 1..].into());
                        let zeros = self.zeros(&alloc.buffer, &rest);
                        changed |= zeros.is_some();
                        new.extend(zeros);
                    }
                }
                changed.then(|| Stmt::seq(new))
            }
            Stmt::IfThenElse(node) => {
                let outer = self.analyzer.clone();
                self.analyzer.enter_constraint(&node.condition);
                let then_case = self.mutate_stmt(&node.then_case);
                self.analyzer = outer;
                let else_case = node.else_case.as_ref().and_then(|stmt| self.mutate_stmt(stmt));
                (then_case.is_some() || else_case.is_some()).then(|| {
                    let then_case = then_case.unwrap_or_else(|| node.then_case.clone());
                    let else_case = else_case.or_else(|| node.else_case.clone());
                    IfThenElse { then_case, else_case, ..(**node).clone() }.folded()
                })
            }
            Stmt::BlockRealize(_) | Stmt::While(_) => self.walk_stmt(stmt),
            Stmt::BufferStore(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => None,
        }
    }
}

/// Loops over `buffer` around the statement that `store` makes from the indices of an element and a zero.
fn fill(buffer: &Buffer, store: impl FnOnce(Vec<PrimExpr>, PrimExpr) -> Stmt) -> Stmt {
    let vars: Vec<Var> = (0..buffer.ndim()).map(|axis| Var::index(format!("z{axis}"))).collect();
    let zero = PrimExpr::constant(0.0, buffer.dtype.scalar());
    let zero = if buffer.dtype.is_scalar() { zero } else { zero.broadcast(buffer.dtype.lanes()) };
    let body = store(vars.iter().map(PrimExpr::from).collect(), zero);
    let loops = vars.into_iter().zip(buffer.shape.iter());
    loops.rev().fold(body, |body, (var, extent)| For::serial(var, extent.clone(), body).into())
}

/// `func`, changed so that it writes every element of its outputs, and before reading it: outputs for which this is not
/// proven are zeroed first. `None` when this holds already, and when `func` does not lower: lowering reports that.
pub fn zero_outputs(func: &PrimFunc) -> Option<PrimFunc> {
    let mut module = IRModule::from_prim_func(func.clone());
    let passes = [
        lower_init_block(),
        convert_blocks_to_opaque(),
        lower_match_buffer(),
        lower_opaque_block(),
        simplify(),
    ];
    for pass in passes {
        module = pass.apply_in(module, &PassContext::default()).ok()?;
    }
    let lowered = module.functions().next().and_then(|(name, _)| module.prim_func(name))?;
    let lowered = lowered.clone();
    let analyzer = analyzer_for(&lowered);
    let outputs = func.params.iter().filter_map(|param| match param {
        Param::Out(buffer) => Some(buffer),
        Param::In(_) | Param::Scalar(_) => None,
    });
    let zeroed: Vec<&Buffer> =
        outputs.filter(|buffer| !writes_all(&analyzer, buffer, &lowered.body)).collect();
    let Stmt::BlockRealize(root) = &func.body else { return None };
    if zeroed.is_empty() {
        return None;
    }
    let mut names = BlockNames::of(&func.body);
    let zeros = zeroed.into_iter().map(|buffer| {
        let name = names.fresh(&format!("{}_zero", buffer.name));
        zero_block(buffer, name)
    });
    let body = Stmt::seq(zeros.chain([root.block.body.clone()]));
    let block = Block { body, ..(*root.block).clone() };
    let body = BlockRealize { block: block.into(), ..(**root).clone() }.into();
    Some(PrimFunc { body, ..func.clone() })
}

/// A block that stores zeros to all of `buffer`.
fn zero_block(buffer: &Buffer, name: String) -> Stmt {
    fill(buffer, |indices, zero| {
        let axes: Vec<Var> = (0..indices.len()).map(|axis| Var::index(format!("v_z{axis}"))).collect();
        let store = Stmt::store(buffer, axes.iter().map(PrimExpr::from).collect::<Vec<_>>(), zero);
        let iter_vars = axes.into_iter().zip(buffer.shape.iter()).map(|(var, extent)| IterVar {
            var,
            dom: Range::from_extent(extent.clone()),
            kind: IterKind::Spatial,
        });
        let block =
            Block { iter_vars: iter_vars.collect(), span: buffer.span.clone(), ..Block::new(name, store) };
        let block = crate::tir::analysis::with_access_regions(block).into();
        BlockRealize { iter_values: indices.into(), predicate: PrimExpr::bool(true), block }.into()
    })
}

#[cfg(test)]
mod tests {
    use tvm_runtime::{DataType, Tensor};

    use super::*;
    use crate::ir::structural_equal;
    use crate::pipeline::lower_tir;
    use crate::te;
    use crate::tir::interp::{InterpError, InterpErrorKind, Program, Value};
    use crate::tir::testing::{dense, stencil};
    use crate::tir::{AllocBuffer, ForKind, Intrinsic};

    const F32: DataType = DataType::F32;

    fn value(data: &[f32]) -> Value {
        Value::Tensor(Tensor::from_slice(data, &[data.len() as i64]).unwrap())
    }

    /// Runs a program of one input and one output, in strict mode or not.
    fn run(func: &PrimFunc, strict: bool) -> Result<Vec<f32>, InterpError> {
        let mut args = [value(&[1.0, 2.0, 3.0, 4.0]), value(&[-7.0; 4])];
        let program = Program::compile(func)?;
        if strict {
            program.strict(3).run(&mut args)?
        } else {
            program.run(&mut args)?
        }
        Ok(args[1].as_tensor().unwrap().to_vec().unwrap())
    }

    /// `for i in 0..4 { t = alloc([2]); body }`
    fn scratch(scope: Scope, body: impl FnOnce(&Buffer, &Buffer, &Buffer, &PrimExpr) -> Stmt) -> PrimFunc {
        let four = || [PrimExpr::index(4)];
        let (x, y) = (Buffer::new("x", four(), F32), Buffer::new("y", four(), F32));
        let t = Buffer::with_scope("t", [PrimExpr::index(2)], F32, scope);
        let i = Var::index("i");
        let body = body(&x, &y, &t, &PrimExpr::from(&i));
        let body = Stmt::seq([AllocBuffer::new(t).into(), body]);
        let root = BlockRealize::opaque(Block::root(vec![], For::serial(i, 4, body).into()));
        PrimFunc::new("scratch", [Param::In(x), Param::Out(y)], root)
    }

    /// Runs `func` after every pass, from `ZeroUnwritten` on in strict mode. Returns whether that pass changed it.
    fn check(func: PrimFunc, want: &[f32]) -> bool {
        let mut module = IRModule::from_prim_func(func);
        let (mut zeroed, mut strict) = (false, false);
        for pass in lower_tir().parts() {
            let before = module.clone();
            module = pass.apply_in(module, &PassContext::default()).unwrap();
            let program = |module: &IRModule| {
                let (gv, _) = module.functions().next().unwrap();
                module.prim_func(gv).unwrap().clone()
            };
            if pass.info.name == "ZeroUnwritten" {
                strict = true;
                zeroed = structural_equal(&*program(&before), &*program(&module)).is_err();
            }
            let func = program(&module);
            let got =
                run(&func, strict).unwrap_or_else(|err| panic!("{err} after {}\n{func}", pass.info.name));
            assert_eq!(got, want, "after {}:\n{func}", pass.info.name);
        }
        zeroed
    }

    #[test]
    fn what_was_not_written_is_zero_in_every_iteration() {
        for scope in [Scope::Global, Scope::Local] {
            let half = scratch(scope, |x, y, t, i| {
                let store = Stmt::store(t, [i.clone().floormod(2)], x.load([i.clone()]));
                let sum = t.load([PrimExpr::index(0)]) - t.load([PrimExpr::index(1)]);
                Stmt::seq([store, Stmt::store(y, [i.clone()], sum)])
            });
            assert!(matches!(
                run(&half, true),
                Err(InterpError { kind: InterpErrorKind::Uninitialised { .. }, .. })
            ));
            assert!(check(half, &[1.0, -2.0, 3.0, -4.0]));
            let guarded = scratch(scope, |x, y, t, i| {
                let zero = || PrimExpr::index(0);
                let store = Stmt::store(t, [zero()], x.load([i.clone()]));
                let store = Stmt::if_then_else(i.clone().less(2), store, None);
                Stmt::seq([store, Stmt::store(y, [i.clone()], t.load([zero()]))])
            });
            assert!(check(guarded, &[1.0, 2.0, 0.0, 0.0]));
            let whole = scratch(scope, |x, y, t, i| {
                let j = Var::index("j");
                let at = || [PrimExpr::from(&j)];
                let store = For::serial(j.clone(), 2, Stmt::store(t, at(), x.load([i.clone()])));
                // The index of the element that is read is unknown.
                let read = t.load([x.load([i.clone()]).cast(DataType::I64).floormod(2)]);
                Stmt::seq([store.into(), Stmt::store(y, [i.clone()], read)])
            });
            assert!(!check(whole, &[1.0, 2.0, 3.0, 4.0]));
        }
    }

    #[test]
    fn outputs_are_defined() {
        let four = || [PrimExpr::index(4)];
        let (x, y) = (Buffer::new("x", four(), F32), Buffer::new("y", four(), F32));
        let i = Var::index("i");
        let at = || [PrimExpr::from(&i)];
        let program = |extent: i64, value: PrimExpr| {
            let nest = For::serial(i.clone(), extent, Stmt::store(&y, at(), value)).into();
            let params = [Param::In(x.clone()), Param::Out(y.clone())];
            PrimFunc::new("f", params, BlockRealize::opaque(Block::root(vec![], nest)))
        };
        assert!(zero_outputs(&program(4, x.load(at()))).is_none());
        let half = zero_outputs(&program(2, x.load(at()))).unwrap();
        assert_eq!(run(&half, false).unwrap(), [1.0, 2.0, 0.0, 0.0]);
        let update = zero_outputs(&program(4, y.load(at()) + x.load(at()))).unwrap();
        assert_eq!(run(&update, false).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        let n = || PrimExpr::from(Var::index("n"));
        for func in [dense(n(), n(), n()), stencil(n(), n()), dense(7.into(), 9.into(), 5.into())] {
            assert!(zero_outputs(&func).is_none(), "{func}");
        }
        let x = te::placeholder("x", [n()], F32);
        let y = te::compute("y", x.shape(), &[&x], |i: &[PrimExpr]| x.at(i.to_vec()));
        assert!(zero_outputs(&te::create_prim_func("copy", &[x], &[y]).unwrap()).is_none());
    }
    #[test]
    fn a_scan_reads_what_it_has_written() {
        // y[i] = if i == 0 { x[0] } else { y[i + step] + x[i] }
        let scan = |step: i64, kind: ForKind, around: fn(Stmt) -> Stmt| {
            let n = [PrimExpr::from(Var::index("n"))];
            let (x, y) = (Buffer::new("x", n.clone(), F32), Buffer::new("y", n.clone(), F32));
            let i = Var::index("i");
            let at = || PrimExpr::from(&i);
            let sum = y.load([at() + step]) + x.load([at()]);
            let args = [at().equal(0), x.load([at()]), sum];
            let store = Stmt::store(&y, [at()], PrimExpr::call(Intrinsic::IfThenElse, args, F32));
            let [extent] = n;
            let nest = For { kind, ..For::serial(i.clone(), extent, around(store)) };
            let root = BlockRealize::opaque(Block::root(vec![], nest.into()));
            PrimFunc::new("f", [Param::In(x), Param::Out(y)], root)
        };
        let sum = scan(-1, ForKind::Serial, |store| store);
        assert!(zero_outputs(&sum).is_none(), "{sum}");
        assert_eq!(run(&sum, true).unwrap(), [1.0, 3.0, 6.0, 10.0]);
        let once = |store: Stmt| {
            Stmt::While(
                crate::tir::While { condition: PrimExpr::bool(true), body: store, span: Default::default() }
                    .into(),
            )
        };
        let later = scan(1, ForKind::Serial, |store| store);
        let together = scan(-1, ForKind::Parallel, |store| store);
        for func in [later, together, scan(-1, ForKind::Serial, once)] {
            assert!(zero_outputs(&func).is_some(), "{func}");
        }
    }

    #[test]
    fn what_is_empty_is_covered() {
        let shape = || [PrimExpr::from(Var::index("n")), PrimExpr::index(0)];
        let x = te::placeholder("x", shape(), F32);
        let y = te::compute("y", x.shape(), &[&x], |i: &[PrimExpr]| x.at(i.to_vec()));
        assert!(zero_outputs(&te::create_prim_func("copy", &[x], &[y]).unwrap()).is_none());
    }
}
