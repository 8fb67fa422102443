//! Turns a graph of stages into a tensor program: one block per stage, in a root block that allocates intermediates.
//!
//! TVM counterpart: `src/te/operation/create_primfunc.cc`.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::tensor::{ComputeBody, Scatter, Stage, TensorExpr};
use super::{Reduce, compute};
use crate::ir::{BufferId, IrError, Span, Var, VarId};
use crate::tir::analysis::with_access_regions;
use crate::tir::{
    Bind, Block, BlockRealize, Evaluate, For, IterVar, Param, PrimExpr, PrimFunc, Stmt, Visitor,
    for_each_load, substitute_expr, walk_block, walk_expr,
};

/// The tensor program that computes `outputs` from `inputs`: a parameter per input, a parameter per output, then a
/// scalar parameter for every free variable that is not an extent of a parameter.
///
/// The program shares variables and buffers with the tensors; a second program of the same tensors needs
/// [`renew_defs`](crate::tir::transform::renew_defs) before both may be in one module.
///
/// # Errors
/// When a stage reads a tensor that is neither an input nor one of the tensors it declares.
pub fn create_prim_func(
    name: &str,
    inputs: &[TensorExpr],
    outputs: &[TensorExpr],
) -> Result<PrimFunc, IrError> {
    let mut results: Vec<TensorExpr> = Vec::new();
    let mut is_output: FxHashSet<BufferId> = FxHashSet::default();
    for output in outputs {
        // An output has memory of its own: a tensor that is already an input or another output is copied.
        let taken = !is_output.insert(output.buffer().id);
        results.push(if output.stage().is_none() || taken {
            compute("copy", output.shape(), &[output], |i| output.at(i))
        } else {
            output.clone()
        });
    }
    is_output.extend(results.iter().map(|it| it.buffer().id));
    let mut builder = Builder {
        inputs: inputs.iter().map(|it| it.buffer().id).collect(),
        stages: Vec::new(),
        seen: FxHashSet::default(),
    };
    results.iter().try_for_each(|output| builder.visit(output))?;

    let mut names = Names::default();
    names.unique("root");
    let blocks: Vec<Stmt> = builder.stages.iter().map(|stage| block(stage, &mut names)).collect();
    let between = builder.stages.iter().flat_map(|stage| &stage.outputs);
    let alloc = between.filter(|buffer| !is_output.contains(&buffer.id)).cloned().collect();
    let root = Block::root(alloc, Stmt::seq(blocks));

    let mut params: Vec<Param> = inputs.iter().map(|it| Param::In(it.buffer().clone())).collect();
    params.extend(results.iter().map(|it| Param::Out(it.buffer().clone())));
    params.extend(free_vars(&params, &root).into_iter().map(Param::Scalar));
    Ok(PrimFunc::new(name, params, BlockRealize::opaque(root)))
}

/// Puts the stages in order: each comes after the stages that it reads.
struct Builder {
    inputs: FxHashSet<BufferId>,
    stages: Vec<Arc<Stage>>,
    seen: FxHashSet<BufferId>,
}

impl Builder {
    fn visit(&mut self, tensor: &TensorExpr) -> Result<(), IrError> {
        if self.inputs.contains(&tensor.buffer().id) {
            return Ok(());
        }
        let Some(stage) = tensor.stage() else {
            let message = format!("tensor `{}` is read but is not an input", tensor.buffer().name);
            return Err(IrError::new(message, &Span::none()).help("pass it among the inputs"));
        };
        if !self.seen.insert(stage.outputs[0].id) {
            return Ok(());
        }
        let inputs = stage.inputs.iter().map(TensorExpr::buffer);
        let scratch = match &stage.body {
            ComputeBody::Routine(routine) => &routine.scratch[..],
            ComputeBody::Values(_) | ComputeBody::Reduce(_) | ComputeBody::Scatter(_) => &[],
        };
        let known = stage.outputs.iter().chain(inputs).chain(scratch);
        let declared: FxHashSet<BufferId> = known.map(|it| it.id).collect();
        let mut unknown = None;
        for_each_load(&evaluated(stage), &mut |load| {
            if !declared.contains(&load.buffer.id) {
                unknown.get_or_insert_with(|| load.buffer.clone());
            }
        });
        if let Some(buffer) = unknown {
            let message =
                format!("stage `{}` reads tensor `{}`, which it does not declare", stage.name, buffer.name);
            return Err(IrError::new(message, &Span::none()).help("name it among the inputs of `compute`"));
        }
        crate::support::with_stack(|| stage.inputs.iter().try_for_each(|input| self.visit(input)))?;
        self.stages.push(stage.clone());
        Ok(())
    }
}

/// A statement with all expressions that a stage evaluates.
fn evaluated(stage: &Stage) -> Stmt {
    let values = match &stage.body {
        ComputeBody::Values(values) => values.clone(),
        ComputeBody::Reduce(reduce) => [&reduce.sources[..], &reduce.init].concat(),
        ComputeBody::Scatter(scatter) => {
            [&scatter.indices[..], &[scatter.value.clone(), scatter.init.clone()]].concat()
        }
        ComputeBody::Routine(routine) => return routine.body.clone(),
    };
    Stmt::seq(values.into_iter().map(|value| Evaluate { value }.into()))
}

/// The loops and the block of one stage.
fn block(stage: &Stage, names: &mut Names) -> Stmt {
    let indices: Vec<PrimExpr> = stage.axes.iter().map(|axis| PrimExpr::from(&axis.var)).collect();
    let store = |values: &[PrimExpr]| {
        let stores = stage.outputs.iter().zip(values);
        Stmt::seq(stores.map(|(buffer, value)| Stmt::store(buffer, indices.clone(), value.clone())))
    };
    let (axes, init, body) = match &stage.body {
        ComputeBody::Values(values) => (stage.axes.clone(), None, store(values)),
        ComputeBody::Routine(routine) => {
            let block = Block::new(names.unique(&stage.name), routine.body.clone());
            let (iter_vars, alloc_buffers) = (stage.axes.clone().into(), routine.scratch.clone().into());
            return nest(Block { iter_vars, alloc_buffers, ..block });
        }
        ComputeBody::Scatter(scatter) => return scatter_blocks(stage, scatter, names),
        ComputeBody::Reduce(reduce) => {
            let axes = stage.axes.iter().chain(&reduce.axes).cloned().collect();
            (axes, Some(store(&reduce.init)), update(stage, reduce, &indices, store))
        }
    };
    let name = names.unique(&stage.name);
    nest(Block { init, iter_vars: axes.into(), ..Block::new(name, body) })
}

/// A block that initialises the output, and one that applies the updates.
fn scatter_blocks(stage: &Stage, scatter: &Scatter, names: &mut Names) -> Stmt {
    let output = &stage.outputs[0];
    let indices: Vec<PrimExpr> = stage.axes.iter().map(|axis| PrimExpr::from(&axis.var)).collect();
    let fill = Block {
        iter_vars: stage.axes.clone().into(),
        ..Block::new(
            names.unique(&format!("{}_init", stage.name)),
            Stmt::store(output, indices.clone(), scatter.init.clone()),
        )
    };
    let update = Block {
        iter_vars: scatter.domain.clone().into(),
        ..Block::new(
            names.unique(&stage.name),
            Stmt::store(output, scatter.indices.clone(), scatter.value.clone()),
        )
    };
    Stmt::seq([nest(fill), nest(update)])
}

/// `output = combine(output, source)`; all components of a tuple are computed before any is stored.
fn update(stage: &Stage, reduce: &Reduce, indices: &[PrimExpr], store: impl Fn(&[PrimExpr]) -> Stmt) -> Stmt {
    let combiner = &reduce.combiner;
    let mut vars: FxHashMap<VarId, PrimExpr> = FxHashMap::default();
    for (i, buffer) in stage.outputs.iter().enumerate() {
        vars.insert(combiner.lhs[i].id(), buffer.load(indices.to_vec()));
        vars.insert(combiner.rhs[i].id(), reduce.sources[i].clone());
    }
    let results: Vec<PrimExpr> = combiner.result.iter().map(|it| substitute_expr(it, &vars)).collect();
    if results.len() == 1 {
        return store(&results);
    }
    let named: Vec<Var> = (stage.outputs.iter().zip(&results))
        .map(|(buffer, value)| Var::prim(format!("v_{}", buffer.name), value.dtype()))
        .collect();
    let binds = (named.iter().zip(&results))
        .map(|(var, value)| Stmt::from(Bind { var: var.clone(), value: value.clone() }));
    let values: Vec<PrimExpr> = named.iter().map(PrimExpr::from).collect();
    Stmt::seq(binds.chain([store(&values)]).collect::<Vec<_>>())
}

/// `block`, with the regions that it accesses, inside one serial loop per axis.
fn nest(block: Block) -> Stmt {
    let loops: Vec<(Var, PrimExpr)> = (block.iter_vars.iter())
        .map(|axis: &IterVar| {
            let name = axis.var.name().trim_start_matches("v_");
            (Var::index(name), axis.dom.extent.clone())
        })
        .collect();
    let realize = BlockRealize {
        iter_values: loops.iter().map(|(var, _)| PrimExpr::from(var)).collect(),
        predicate: PrimExpr::bool(true),
        block: Arc::new(with_access_regions(block)),
    };
    let innermost = Stmt::from(realize);
    loops.into_iter().rev().fold(innermost, |body, (var, extent)| For::serial(var, extent, body).into())
}

/// The variables that nothing binds, in order of first use.
fn free_vars(params: &[Param], root: &Block) -> Vec<Var> {
    struct Free {
        bound: FxHashSet<VarId>,
        free: Vec<Var>,
    }

    impl Visitor for Free {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::Var(var) = expr
                && self.bound.insert(var.id())
            {
                self.free.push(var.clone());
            }
            walk_expr(self, expr);
        }

        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::For(it) = stmt {
                self.bound.insert(it.loop_var.id());
            }
            if let Stmt::Bind(it) = stmt {
                self.bound.insert(it.var.id());
            }
            crate::tir::walk_stmt(self, stmt);
        }

        fn visit_block(&mut self, block: &Block) {
            self.bound.extend(block.iter_vars.iter().map(|axis| axis.var.id()));
            for extent in block.alloc_buffers.iter().flat_map(|buffer| buffer.shape.iter()) {
                self.visit_expr(extent);
            }
            walk_block(self, block);
        }
    }

    let extents = || params.iter().filter_map(Param::buffer).flat_map(|buffer| buffer.shape.iter());
    let bound = extents().filter_map(PrimExpr::as_var).map(Var::id).collect();
    let mut free = Free { bound, free: Vec::new() };
    extents().for_each(|extent| free.visit_expr(extent));
    free.visit_block(root);
    free.free
}

/// Makes block names unique in one function.
#[derive(Default)]
struct Names(FxHashMap<Arc<str>, usize>);

impl Names {
    fn unique(&mut self, hint: &str) -> Arc<str> {
        let count = self.0.entry(hint.into()).or_insert(0);
        *count += 1;
        if *count == 1 { hint.into() } else { format!("{hint}_{}", *count - 1).into() }
    }
}
