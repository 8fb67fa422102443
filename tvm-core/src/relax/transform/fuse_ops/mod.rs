//! `FuseOps`: groups calls of tensor programs that can be computed together into private functions marked `Primitive`.
//!
//! Requires fusion patterns (`AnnotateTIROpPattern`). Ensures that equal groups become one function:
//!
//! ```text
//! a = call_tir(matmul, (x, w));  b = call_tir(relu, (a,))
//! // becomes
//! b = fused_matmul_relu(x, w)
//! ```
//!
//! TVM counterpart: `relax.transform.FuseOps`.

mod graph;
mod widen;

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxHashMap;

use super::annotate_tir_op_pattern::annotated_pattern;
use crate::ir::{
    Attrs, BaseFunc, GlobalVar, IRModule, OpPattern, Span, Type, Var, VarId, structural_equal,
    structural_hash,
};
use crate::pass::{Choices, Pass, module_pass};
use crate::relax::analysis::{bound_dims, captures, type_of_arg};
use crate::relax::mutator::{walk_body, walk_function};
use crate::relax::visitor::walk_arg;
use crate::relax::{
    Arg, Binding, BindingBlock, Body, Call, Callee, Expr, ExprMutator, ExprSubstitute, ExprVisitor, Function,
};
use crate::tir::PrimExpr;
use graph::{Node, partition};

/// Name of the pass.
const NAME: &str = "FuseOps";

/// The pass.
pub fn fuse_ops() -> Pass {
    module_pass(NAME, |module, ctx| {
        let functions: Vec<(GlobalVar, Arc<Function>)> = module
            .functions()
            .filter_map(|(gv, _)| Some((gv.clone(), module.relax_func(gv)?.clone())))
            .collect();
        let (max_size, choices) = (ctx.config.fuse_max_depth, ctx.choices.clone());
        let mut fuse = Fuse { module, max_size, known: FxHashMap::default(), choices };
        for (gv, func) in functions {
            if func.attrs.bool("Primitive") == Some(true) {
                continue;
            }
            if let Some(new) = walk_function(&mut fuse, &func) {
                fuse.module.update(gv, BaseFunc::Relax(Arc::new(new)));
            }
        }
        Ok(fuse.module)
    })
    .opt_level(1)
}

struct Fuse {
    module: IRModule,
    max_size: usize,
    /// Fused functions by hash.
    known: FxHashMap<u64, Vec<GlobalVar>>,
    choices: Choices,
}

impl ExprMutator for Fuse {
    fn mutate_body(&mut self, body: &Body) -> Option<Body> {
        let inner = walk_body(self, body);
        let body = inner.as_ref().unwrap_or(body);
        self.fuse_body(body).or(inner)
    }
}

/// Collects the variables that an expression uses.
#[derive(Default)]
struct Uses(IndexSet<VarId>);

impl ExprVisitor for Uses {
    fn visit_arg(&mut self, arg: &Arg) {
        if let Arg::Var(var) = arg {
            self.0.insert(var.id());
        }
        walk_arg(self, arg);
    }
}

impl Fuse {
    /// The call of a tensor program that may be fused, and its pattern.
    fn fusible<'a>(&self, binding: &'a Binding) -> Option<(&'a Call, OpPattern)> {
        let Expr::Call(call) = &binding.value else { return None };
        let Callee::Tir(gv) = &call.callee else { return None };
        let func = self.module.prim_func(gv)?;
        let known = |ty: &Type| match ty.as_tensor() {
            Some(ty) => ty.known_shape().is_some() && ty.dtype.is_some(),
            None => matches!(ty, Type::Prim(_)),
        };
        let typed = call.ret.iter().all(|ty| matches!(ty, Type::Tensor(_)) && known(ty))
            && call.args.iter().all(|arg| known(&type_of_arg(arg, &self.module)));
        typed.then(|| (&**call, annotated_pattern(func)))
    }

    fn fuse_body(&mut self, body: &Body) -> Option<Body> {
        let bindings: Vec<&Binding> = body.bindings().collect();
        let index: FxHashMap<VarId, usize> =
            bindings.iter().enumerate().map(|(i, binding)| (binding.var.id(), i)).collect();
        let patterns: Vec<OpPattern> = bindings
            .iter()
            .map(|binding| self.fusible(binding).map_or(OpPattern::Opaque, |(_, pattern)| pattern))
            .collect();
        let mut nodes: Vec<Node> =
            patterns.iter().map(|&pattern| Node { pattern, external: false, outputs: Vec::new() }).collect();
        for (i, binding) in bindings.iter().enumerate() {
            let mut uses = Uses::default();
            uses.visit_expr(&binding.value);
            for producer in uses.0.iter().filter_map(|id| index.get(id)) {
                nodes[*producer].outputs.push((i, patterns[i]));
            }
        }
        let mut returned = Uses::default();
        returned.visit_arg(&body.ret);
        returned.0.iter().filter_map(|id| index.get(id)).for_each(|&i| nodes[i].external = true);

        let mut groups = partition(&nodes, self.max_size);
        widen::widen_where_read(&bindings, &index, &nodes, &mut groups, self.max_size);
        let mut members: IndexMap<usize, Vec<usize>> = IndexMap::new();
        for (i, &group) in groups.iter().enumerate() {
            members.entry(group).or_default().push(i);
        }
        // What replaces each binding of a group: the call replaces the last one; the others are removed.
        let mut replaced: FxHashMap<usize, Option<Binding>> = FxHashMap::default();
        for members in members.values().filter(|members| members.len() > 1) {
            let escapes = |&i: &usize| {
                nodes[i].external || nodes[i].outputs.iter().any(|(to, _)| !members.contains(to))
            };
            let (last, rest) = members.split_last()?;
            if rest.iter().any(escapes) {
                continue;
            }
            let group: Vec<&Binding> = members.iter().map(|&i| bindings[i]).collect();
            replaced.insert(*last, Some(self.call_of_group(&group)));
            replaced.extend(rest.iter().map(|&i| (i, None)));
        }
        if replaced.is_empty() {
            return None;
        }
        let mut i = 0;
        let blocks = body.blocks.iter().map(|block| {
            let mut out = Vec::new();
            for binding in block.bindings.iter() {
                match replaced.remove(&i) {
                    Some(new) => out.extend(new),
                    None => out.push(binding.clone()),
                }
                i += 1;
            }
            BindingBlock { dataflow: block.dataflow, bindings: out.into() }
        });
        let blocks = blocks.filter(|block| !block.bindings.is_empty()).collect();
        Some(Body { blocks, ret: body.ret.clone() })
    }

    /// A call of the function that computes `group`, bound to the group's last variable.
    fn call_of_group(&mut self, group: &[&Binding]) -> Binding {
        let result = &group[group.len() - 1].var;
        let (func, args) = group_function(group, &self.module);
        let hash = structural_hash(&func);
        let known = self.known.entry(hash).or_default();
        let same = known
            .iter()
            .find(|gv| self.module.relax_func(gv).is_some_and(|it| structural_equal(&**it, &func).is_ok()));
        let gv = match same {
            Some(gv) => gv.clone(),
            None => {
                let gv = self.module.add(func.name.clone(), BaseFunc::Relax(Arc::new(func)));
                self.choices.note(NAME, || {
                    let calls = group.iter().filter_map(|it| callee(it)).collect::<Vec<_>>().join(", ");
                    let reason = "what one hands on to the next is not stored, or stays in a near cache";
                    [gv.name().to_string(), format!("one kernel for {calls}"), reason.into()]
                });
                known.push(gv.clone());
                gv
            }
        };
        let callee = Callee::Global(gv);
        let span = group.iter().map(|it| span_of(it)).find(|span| !span.is_none()).unwrap_or_default();
        let call = Call { callee, args: args.into(), attrs: Attrs::new(), ret: None, span };
        Binding::new(result.clone(), call.into())
    }
}

/// The tensor program that is called.
fn callee(binding: &Binding) -> Option<&str> {
    let Expr::Call(call) = &binding.value else { return None };
    if let Callee::Tir(gv) = &call.callee { Some(gv.name()) } else { None }
}

fn span_of(binding: &Binding) -> Span {
    if let Expr::Call(call) = &binding.value { call.span.clone() } else { Span::none() }
}

/// The function that computes `group`, and its arguments: first the symbolic dimensions that the tensors do not bind, then
/// scalars, then tensors from outside.
fn group_function(group: &[&Binding], module: &IRModule) -> (Function, Vec<Arg>) {
    let result = &group[group.len() - 1].var;
    let inside: IndexSet<VarId> = group.iter().map(|binding| binding.var.id()).collect();
    let mut params: Vec<Var> = Vec::new();
    let mut args: Vec<Arg> = Vec::new();
    let mut outside = ExprSubstitute::default();
    let mut names: Vec<&str> = Vec::new();
    let mut bindings: Vec<Binding> = Vec::new();
    for binding in group {
        let Expr::Call(call) = &binding.value else { continue };
        names.extend(callee(binding));
        let new_args = call.args.iter().map(|arg| match arg {
            Arg::Var(var) if inside.contains(&var.id()) => arg.clone(),
            Arg::Var(var) => outside
                .args
                .entry(var.id())
                .or_insert_with(|| {
                    let param = var.renew();
                    params.push(param.clone());
                    args.push(arg.clone());
                    Arg::Var(param)
                })
                .clone(),
            Arg::Const(_) => {
                let param = Var::new("const", type_of_arg(arg, module));
                params.push(param.clone());
                args.push(arg.clone());
                Arg::Var(param)
            }
            Arg::Global(_) | Arg::Tuple(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => {
                arg.clone()
            }
        });
        let args = new_args.collect();
        let value = Call { args, span: Span::none(), ..(**call).clone() }.into();
        bindings.push(Binding { value, ..(*binding).clone() });
    }
    // Scalars bind before the types that use them.
    let scalar = |param: &Var| matches!(param.ty(), Type::Prim(_));
    let mut order: Vec<(Var, Arg)> = params.into_iter().zip(args).collect();
    order.sort_by_key(|(param, _)| !scalar(param));
    let (params, mut args): (Vec<Var>, Vec<Arg>) = order.into_iter().unzip();
    let mut name = format!("fused_{}", names.join("_"));
    if name.len() > 80 {
        name = format!("fused_{}_{}", names[0], names.len());
    }
    let blocks = Arc::new([BindingBlock { dataflow: true, bindings: bindings.into() }]);
    let func = Function {
        name: name.into(),
        type_params: Arc::new([]),
        params: params.into(),
        body: Body { blocks, ret: Arg::Var(result.clone()) },
        ret: result.ty().clone(),
        pure: true,
        attrs: Attrs::new().with("Primitive", true).with("private", true),
        span: Span::none(),
    };
    // Dimensions that occur only inside larger extents are passed as separate arguments.
    let mut free: Vec<Var> = captures(&func);
    func.params.iter().for_each(|param| bound_dims(param.ty(), &mut |dim| free.retain(|it| it != dim)));
    args.splice(0..0, free.iter().map(|dim| Arg::Prim(PrimExpr::Var(dim.clone()))));
    (renewed(&func, free), args)
}

/// `func` with parameters for `dims` in front, and fresh identities for everything that it binds.
fn renewed(func: &Function, dims: Vec<Var>) -> Function {
    let mut renew = ExprSubstitute { renew: true, ..ExprSubstitute::default() };
    let mut fresh = |dim: &Var| {
        renew.prims.vars.entry(dim.id()).or_insert_with(|| PrimExpr::Var(dim.renew()));
    };
    func.params.iter().for_each(|param| bound_dims(param.ty(), &mut fresh));
    dims.iter().for_each(fresh);
    let dims: Vec<Var> =
        dims.iter().filter_map(|dim| renew.prims.vars.get(&dim.id())?.as_var().cloned()).collect();
    let func = walk_function(&mut renew, func).unwrap_or_else(|| func.clone());
    let params = dims.into_iter().chain(func.params.iter().cloned()).collect();
    Function { params, ..func }
}

#[cfg(test)]
mod tests;
