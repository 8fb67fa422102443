//! `LambdaLift`: local functions become private functions of the module; the variables that they capture become their
//! first parameters.
//!
//! Ensures that no local function is left:
//!
//! ```text
//! f = fn(a) { a + x };  y = f(b)
//! // becomes
//! f = vm.alloc_closure(main_f, (x,));  y = main_f(x, b)      with  fn main_f(x, a) { a + x }
//! ```
//!
//! A call of a closure whose function is known becomes a direct call. A local function may call itself.
//!
//! TVM counterpart: `relax.transform.LambdaLift`, Relay's `LambdaLift`.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ir::{BaseFunc, FirstError, GlobalVar, IRModule, IrError, Type, Var, VarId};
use crate::pass::{Pass, module_pass};
use crate::relax::analysis::{bound_dims, captures, type_dims};
use crate::relax::mutator::{walk_binding, walk_expr, walk_function};
use crate::relax::op::memory;
use crate::relax::{
    Arg, Binding, BindingBlock, Body, Call, Callee, Expr, ExprMutator, ExprSubstitute, Function,
};
use crate::tir::PrimExpr;

/// The pass.
pub fn lambda_lift() -> Pass {
    module_pass("LambdaLift", |module, _| {
        let functions: Vec<(GlobalVar, Arc<Function>)> = module
            .functions()
            .filter_map(|(gv, _)| Some((gv.clone(), module.relax_func(gv)?.clone())))
            .collect();
        let mut lift =
            Lift { module, outer: String::new(), known: Known::default(), err: FirstError::default() };
        for (gv, func) in functions {
            lift.outer = gv.name().to_string();
            if let Some(new) = walk_function(&mut lift, &func) {
                lift.module.update(gv, BaseFunc::Relax(Arc::new(new)));
            }
        }
        lift.err.finish(lift.module)
    })
}

/// Variables that hold a closure of a known function, with the captured arguments.
#[derive(Default)]
struct Known(FxHashMap<VarId, (GlobalVar, Arc<[Arg]>)>);

impl Known {
    /// The direct call that is equivalent to a call of a known closure.
    fn direct(&self, call: &Call) -> Option<Call> {
        let Callee::Var(var) = &call.callee else { return None };
        let (gv, captured) = self.0.get(&var.id())?;
        let args = captured.iter().chain(call.args.iter()).cloned().collect();
        Some(Call { callee: Callee::Global(gv.clone()), args, ..call.clone() })
    }
}

impl ExprMutator for Known {
    fn mutate_expr(&mut self, expr: &Expr) -> Option<Expr> {
        if let Expr::Call(call) = expr {
            return self.direct(call).map(Expr::from);
        }
        walk_expr(self, expr)
    }
}

struct Lift {
    module: IRModule,
    outer: String,
    known: Known,
    err: FirstError,
}

impl ExprMutator for Lift {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let Expr::Function(func) = &binding.value else {
            return walk_binding(self, binding).map(|it| vec![it]);
        };
        let lifted = self.lift(&binding.var, func);
        let value = self.err.keep(lifted)?;
        Some(vec![Binding { value, ..binding.clone() }])
    }

    fn mutate_expr(&mut self, expr: &Expr) -> Option<Expr> {
        if let Expr::Call(call) = expr {
            return self.known.direct(call).map(Expr::from);
        }
        walk_expr(self, expr)
    }
}

impl Lift {
    /// Moves `func`, which is bound to `var`, to the module; returns the value that replaces it.
    fn lift(&mut self, var: &Var, func: &Arc<Function>) -> Result<Expr, IrError> {
        let func = walk_function(self, func).unwrap_or_else(|| (**func).clone());
        let captured = captured(var, &func);
        let outside: Arc<[Arg]> = captured.iter().map(as_arg).collect();

        let name = format!("{}_{}", self.outer, var.name());
        let gv = self.module.add(name, BaseFunc::Relax(Arc::new(func.clone())));
        let mut inside = Known::default();
        inside.0.insert(var.id(), (gv.clone(), outside.clone()));
        let func = walk_function(&mut inside, &func).unwrap_or(func);
        let func = self_reference(var, &gv, &outside, func)?;
        let func = close(&captured, &func);
        self.module.update(gv.clone(), BaseFunc::Relax(Arc::new(func)));

        self.known.0.insert(var.id(), (gv.clone(), outside.clone()));
        closure(&gv, &outside)
    }
}

/// A closure of `gv`.
fn closure(gv: &GlobalVar, captured: &Arc<[Arg]>) -> Result<Expr, IrError> {
    if captured.is_empty() {
        return Ok(Expr::Arg(Arg::Global(gv.clone())));
    }
    let args = [Arg::Global(gv.clone()), Arg::Tuple(captured.clone())];
    memory::call(memory::ALLOC_CLOSURE, args, Default::default())
}

fn as_arg(var: &Var) -> Arg {
    if is_dim(var) { Arg::Prim(PrimExpr::Var(var.clone())) } else { Arg::Var(var.clone()) }
}

fn is_dim(var: &Var) -> bool {
    matches!(var.ty(), Type::Prim(_))
}

/// What `func` captures: first the dimensions that neither its parameters nor captured variables bind, then those
/// variables.
fn captured(var: &Var, func: &Function) -> Vec<Var> {
    let (mut dims, mut vars): (Vec<Var>, Vec<Var>) =
        captures(func).into_iter().filter(|it| it != var).partition(is_dim);
    for dim in vars.iter().flat_map(|it| type_dims(it.ty())).collect::<Vec<_>>() {
        if !dims.contains(&dim) {
            dims.push(dim);
        }
    }
    for ty in vars.iter().map(Var::ty).chain(func.params.iter().map(Var::ty)) {
        bound_dims(ty, &mut |dim| dims.retain(|it| it != dim));
    }
    dims.append(&mut vars);
    dims
}

/// If the function uses itself as a value, binds a closure of itself at the start of its body.
fn self_reference(
    var: &Var,
    gv: &GlobalVar,
    captured: &Arc<[Arg]>,
    func: Function,
) -> Result<Function, IrError> {
    if !captures(&func).contains(var) {
        return Ok(func);
    }
    let inner = var.renew();
    let mut substitute = ExprSubstitute::default();
    substitute.args.insert(var.id(), Arg::Var(inner.clone()));
    let func = walk_function(&mut substitute, &func).unwrap_or(func);
    let bindings = Arc::new([Binding::new(inner, closure(gv, captured)?)]);
    let head = BindingBlock { dataflow: false, bindings };
    let blocks = std::iter::once(head).chain(func.body.blocks.iter().cloned()).collect();
    Ok(Function { body: Body { blocks, ret: func.body.ret.clone() }, ..func })
}

/// `func` with parameters for what it captured; the variables and dimensions that it shared with the enclosing function get
/// fresh identities.
fn close(captured: &[Var], func: &Function) -> Function {
    let mut substitute = ExprSubstitute::default();
    let mut renew = |dim: &Var| {
        let new = substitute.prims.vars.entry(dim.id()).or_insert_with(|| PrimExpr::Var(dim.renew()));
        substitute.args.insert(dim.id(), Arg::Prim(new.clone()));
    };
    captured.iter().for_each(|var| bound_dims(var.ty(), &mut renew));
    func.params.iter().for_each(|var| bound_dims(var.ty(), &mut renew));
    captured.iter().filter(|var| is_dim(var)).for_each(renew);
    let mut params: Vec<Var> = Vec::new();
    for var in captured {
        let dim = substitute.prims.vars.get(&var.id()).and_then(|it| it.as_var().cloned());
        params.push(dim.unwrap_or_else(|| {
            let ty = substitute.mutate_type(var.ty()).unwrap_or_else(|| var.ty().clone());
            let new = Var::with_span(var.name(), ty, var.span().clone());
            substitute.args.insert(var.id(), Arg::Var(new.clone()));
            new
        }));
    }
    let func = walk_function(&mut substitute, func).unwrap_or_else(|| func.clone());
    params.extend(func.params.iter().cloned());
    Function { params: params.into(), attrs: func.attrs.clone().with("private", true), ..func }
}
