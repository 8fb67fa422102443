//! `FuseTIR`: merges the tensor programs that each function made by `FuseOps` calls into one.
//!
//! Intermediate results are computed where they are read, or live in buffers that the root block allocates. Variable
//! identities and block names are unique. Ensures that no function marked `Primitive` is left.
//!
//! TVM counterpart: `relax.transform.FuseTIR`.

mod inline;

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::{Attrs, BaseFunc, GlobalVar, IRModule, IrError, Type, Var, VarId};
use crate::pass::{Pass, module_pass};
use crate::relax::mutator::walk_binding;
use crate::relax::{Arg, Binding, Call, Callee, Expr, ExprMutator, Function};
use crate::tir::transform::{bind_buffer, inline_body, renew_defs};
use crate::tir::{self, Block, BlockRealize, Buffer, Param, PrimExpr, PrimFunc, Stmt, Substitute};

/// The pass.
pub fn fuse_tir() -> Pass {
    module_pass("FuseTIR", |mut module, _| {
        let merged = primitive_functions(&module).into_iter().map(|(gv, func)| {
            let prim = merge(&gv, &func, &module).map_err(|err| err.at(&func.span))?;
            Ok((gv, prim))
        });
        let merged: IndexMap<GlobalVar, PrimFunc> = merged.collect::<Result<_, IrError>>()?;
        // The tensor programs take over the names of the functions.
        module.retain(|gv, _| !merged.contains_key(gv));
        let mut fused: IndexMap<GlobalVar, GlobalVar> = IndexMap::new();
        for (gv, prim) in merged {
            let new = module.add(gv.name(), BaseFunc::Prim(Arc::new(prim)));
            fused.insert(gv, new);
        }
        let functions: Vec<(GlobalVar, Arc<Function>)> = module
            .functions()
            .filter_map(|(gv, _)| Some((gv.clone(), module.relax_func(gv)?.clone())))
            .collect();
        let mut calls = Calls { fused };
        for (gv, func) in functions {
            if let Some(new) = calls.mutate_function(&func) {
                module.update(gv, BaseFunc::Relax(Arc::new(new)));
            }
        }
        Ok(module)
    })
    .opt_level(1)
}

fn primitive_functions(module: &IRModule) -> Vec<(GlobalVar, Arc<Function>)> {
    let functions =
        module.functions().filter_map(|(gv, _)| Some((gv.clone(), module.relax_func(gv)?.clone())));
    functions.filter(|(_, func)| func.attrs.bool("Primitive") == Some(true)).collect()
}

/// Replaces calls of fused functions with `call_tir`.
struct Calls {
    fused: IndexMap<GlobalVar, GlobalVar>,
}

impl ExprMutator for Calls {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        if let Expr::Call(call) = &binding.value
            && let Callee::Global(gv) = &call.callee
            && let Some(prim) = self.fused.get(gv)
        {
            let ret = Some(binding.var.ty().clone());
            // Tensors first, then scalars.
            let mut args = call.args.to_vec();
            args.sort_by_key(|arg| {
                matches!(arg, Arg::Prim(_))
                    || arg.as_var().is_some_and(|var| matches!(var.ty(), Type::Prim(_)))
            });
            let (callee, args) = (Callee::Tir(prim.clone()), args.into());
            let value = Call { callee, args, ret, ..(**call).clone() }.into();
            return Some(vec![Binding { value, ..binding.clone() }]);
        }
        walk_binding(self, binding).map(|it| vec![it])
    }
}

/// Merges the tensor programs that `func` calls into one.
fn merge(gv: &GlobalVar, func: &Function, module: &IRModule) -> Result<PrimFunc, IrError> {
    let malformed = |what: &str| IrError::new(format!("fused function `{}`: {what}", gv.name()), &func.span);
    let mut buffers: FxHashMap<VarId, Buffer> = FxHashMap::default();
    let mut params = Vec::new();
    let mut names = UniqueNames::default();
    for param in func.params.iter() {
        params.push(match param.ty() {
            Type::Prim(_) => Param::Scalar(param.clone()),
            _ => {
                let buffer = buffer_of(param, &mut names)
                    .ok_or_else(|| malformed("a parameter has no known shape"))?;
                buffers.insert(param.id(), buffer.clone());
                Param::In(buffer)
            }
        });
    }
    let mut allocs: Vec<Buffer> = Vec::new();
    let mut stmts: Vec<Stmt> = Vec::new();
    let mut intermediates: Vec<Buffer> = Vec::new();
    let mut output = None;
    for binding in func.body.bindings() {
        let out =
            buffer_of(&binding.var, &mut names).ok_or_else(|| malformed("a result has no known shape"))?;
        let Expr::Call(call) = &binding.value else {
            return Err(malformed("it does more than call tensor programs"));
        };
        let Callee::Tir(callee) = &call.callee else {
            return Err(malformed("it does more than call tensor programs"));
        };
        let callee =
            module.prim_func(callee).ok_or_else(|| malformed("it calls an unknown tensor program"))?;
        let (alloc, stmt) = inline(callee, call, &out, &buffers)?;
        allocs.extend(alloc);
        stmts.push(stmt);
        if func.body.ret.as_var() == Some(&binding.var) {
            output = Some(out.clone());
        } else {
            intermediates.push(out.clone());
        }
        buffers.insert(binding.var.id(), out);
    }
    params.push(Param::Out(output.ok_or_else(|| malformed("its result is not one of its calls"))?));
    let body = Stmt::seq(stmts);
    let body = tir::Mutator::mutate_stmt(&mut UniqueNames::default(), &body).unwrap_or(body);
    allocs.extend(intermediates.iter().cloned());
    let root = BlockRealize::opaque(Block::root(allocs, body));
    let attrs = Attrs::new().with("private", true);
    let merged = PrimFunc { attrs, span: func.span.clone(), ..PrimFunc::new(gv.name(), params, root) };
    Ok(inline::inline_intermediates(merged, &intermediates))
}

fn buffer_of(var: &Var, names: &mut UniqueNames) -> Option<Buffer> {
    let ty = var.ty().as_tensor()?;
    Some(Buffer::new(names.unique(var.name()), ty.known_shape()?.to_vec(), ty.dtype?))
}

/// The body of `callee` on the buffers of `call`, and the buffers of its root block.
fn inline(
    callee: &PrimFunc,
    call: &Call,
    out: &Buffer,
    known: &FxHashMap<VarId, Buffer>,
) -> Result<(Vec<Buffer>, Stmt), IrError> {
    let callee = renew_defs(callee);
    let malformed = || IrError::new(format!("the arguments do not fit `{}`", callee.name), &call.span);
    let num_inputs = callee.inputs().count();
    let (inputs, scalars) = call.args.split_at_checked(num_inputs).ok_or_else(malformed)?;
    let (mut inputs, mut scalars) = (inputs.iter(), scalars.iter());
    let mut map = Substitute::default();
    for param in callee.params.iter() {
        match param {
            Param::In(buffer) => {
                let arg = inputs.next().and_then(Arg::as_var).and_then(|var| known.get(&var.id()));
                bind_buffer(buffer, arg.ok_or_else(malformed)?, &mut map);
            }
            Param::Out(buffer) => bind_buffer(buffer, out, &mut map),
            Param::Scalar(var) => {
                let value = match scalars.next().ok_or_else(malformed)? {
                    Arg::Prim(value) => value.clone(),
                    Arg::Var(var) => PrimExpr::Var(var.clone()),
                    Arg::Const(_)
                    | Arg::Global(_)
                    | Arg::Tuple(_)
                    | Arg::Shape(_)
                    | Arg::DType(_)
                    | Arg::Str(_) => {
                        return Err(malformed());
                    }
                };
                map.vars.insert(var.id(), value);
            }
        }
    }
    Ok(inline_body(&callee, map))
}

/// Gives each block, or each buffer, a unique name.
#[derive(Default)]
struct UniqueNames(FxHashSet<Arc<str>>);

impl UniqueNames {
    fn unique(&mut self, name: &str) -> Arc<str> {
        let mut new: Arc<str> = name.into();
        let mut i = 0;
        while !self.0.insert(new.clone()) {
            i += 1;
            new = format!("{name}_{i}").into();
        }
        new
    }
}

impl tir::Mutator for UniqueNames {
    fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
        self.0.insert("root".into());
        let name = self.unique(&block.name);
        let walked = self.walk_block(block);
        if name == block.name {
            return walked;
        }
        Some(Block { name, ..walked.unwrap_or_else(|| (**block).clone()) })
    }
}
