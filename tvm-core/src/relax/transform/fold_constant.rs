//! `FoldConstant`: evaluates calls of tensor programs on constants, and replaces them with the results.
//!
//! Requires legalised operators. A result of more than `MAX_BYTES` bytes that is also larger than all arguments
//! together is left to run time, as is a program that runs for too long or fails.
//!
//! TVM counterpart: `relax.transform.FoldConstant`.

use rustc_hash::FxHashMap;
use tvm_runtime::{Tensor, Value};

use crate::ir::{IRModule, MemoryEffect, Type, VarId};
use crate::pass::{Pass, function_pass};
use crate::relax::mutator::{walk_arg, walk_binding};
use crate::relax::{Arg, Binding, Call, Callee, Expr, ExprMutator};
use crate::tir::interp::Program;
use crate::tir::{Param, PrimExpr, PrimFunc};

/// Larger results are not folded unless they save memory.
const MAX_BYTES: usize = 16 << 20;
/// Longer programs are left to run time.
const MAX_STEPS: u64 = 50_000_000;

/// The pass.
pub fn fold_constant() -> Pass {
    function_pass("FoldConstant", |func, module, _| {
        Ok(Fold { module, known: FxHashMap::default() }.mutate_function(func))
    })
}

struct Fold<'a> {
    module: &'a IRModule,
    /// Variables that hold constants.
    known: FxHashMap<VarId, Arg>,
}

impl ExprMutator for Fold<'_> {
    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        match arg.as_var() {
            Some(var) => self.known.get(&var.id()).cloned(),
            None => walk_arg(self, arg),
        }
    }

    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        let new = walk_binding(self, binding);
        let binding = new.as_ref().unwrap_or(binding);
        let folded = match &binding.value {
            Expr::Call(call) => self.call(call, binding.var.ty()),
            Expr::TupleGetItem(Arg::Tuple(fields), index) => {
                fields.get(*index).filter(|it| is_const(it)).cloned()
            }
            Expr::Arg(arg) if is_const(arg) => Some(arg.clone()),
            Expr::Arg(_)
            | Expr::TupleGetItem(..)
            | Expr::If(_)
            | Expr::Match(_)
            | Expr::Function(_)
            | Expr::RefCreate(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..) => None,
        };
        if let (Some(value), false) = (folded, binding.match_cast) {
            self.known.insert(binding.var.id(), value.clone());
            return Some(vec![Binding { value: Expr::Arg(value), ..binding.clone() }]);
        }
        new.map(|it| vec![it])
    }
}

/// True for constant tensors and tuples of them.
fn is_const(arg: &Arg) -> bool {
    match arg {
        Arg::Const(_) => true,
        Arg::Tuple(fields) => !fields.is_empty() && fields.iter().all(is_const),
        Arg::Var(_) | Arg::Global(_) | Arg::Shape(_) | Arg::Prim(_) | Arg::DType(_) | Arg::Str(_) => false,
    }
}

impl Fold<'_> {
    fn call(&self, call: &Call, ty: &Type) -> Option<Arg> {
        match &call.callee {
            Callee::Tir(gv) => evaluate(self.module.prim_func(gv)?, call, call.ret.as_ref()?),
            Callee::Op(op) => {
                // Views of constants: operators that change the shape only.
                let tensor = call.args.first()?.as_const()?;
                let view = op.memory == MemoryEffect::Reshapes;
                let shape = ty.as_tensor()?.const_shape().filter(|_| view)?;
                tensor.reshape(&shape).ok().map(Arg::Const)
            }
            Callee::Global(_)
            | Callee::Var(_)
            | Callee::TirInplace(_)
            | Callee::DpsPacked(_)
            | Callee::Packed(_)
            | Callee::Constructor(_) => None,
        }
    }
}

/// The result of `func` on constant arguments.
fn evaluate(func: &PrimFunc, call: &Call, ret: &Type) -> Option<Arg> {
    let mut inputs = Vec::new();
    let mut scalars = Vec::new();
    for arg in call.args.iter() {
        match arg {
            Arg::Const(tensor) => inputs.push(tensor.clone()),
            Arg::Prim(PrimExpr::IntImm(value)) => scalars.push(Value::Int(value.value)),
            Arg::Prim(PrimExpr::FloatImm(value)) => scalars.push(Value::Float(value.value)),
            _ => return None,
        }
    }
    let types = match ret {
        Type::Tuple(fields) => fields.to_vec(),
        _ => vec![ret.clone()],
    };
    let given: usize = inputs.iter().map(Tensor::byte_len).sum();
    let mut outputs = Vec::new();
    for ty in &types {
        let ty = ty.as_tensor()?;
        let (shape, dtype) = (ty.const_shape()?, ty.dtype?);
        let bytes = tvm_runtime::byte_size(&shape, dtype)?;
        if bytes > MAX_BYTES.max(given) {
            return None;
        }
        outputs.push(Tensor::zeros(&shape, dtype).ok()?);
    }
    let (mut inputs, mut scalars) = (inputs.into_iter(), scalars.into_iter());
    let mut outputs = outputs.into_iter();
    let mut args = func.params.iter().map(|param| match param {
        Param::In(_) => inputs.next().map(Value::Tensor),
        Param::Out(_) => outputs.next().map(Value::Tensor),
        Param::Scalar(_) => scalars.next(),
    });
    let mut args = args.by_ref().collect::<Option<Vec<Value>>>()?;
    Program::compile(func).ok()?.run_limited(&mut args, MAX_STEPS).ok()?;
    let results = func.params.iter().zip(args).filter(|(param, _)| matches!(param, Param::Out(_)));
    let mut results = results.filter_map(|(_, value)| Some(Arg::Const(value.as_tensor()?.clone())));
    match ret {
        Type::Tuple(_) => Some(Arg::Tuple(results.collect())),
        _ => results.next(),
    }
}

#[cfg(test)]
mod tests {
    use tvm_runtime::DataType;

    use super::*;
    use crate::ir::Var;
    use crate::relax::testing::*;

    #[test]
    fn chains_on_constants_are_computed_once() {
        let mut module = IRModule::new();
        let n = Var::index("n");
        let sum = add_prim(&mut module, zip("add", vec![(&n).into()], |a, b| a + b));
        let ty = fixed(&[2]);
        let x = Var::new("x", ty.clone());
        let (one, two) = (Arg::Const(vector(&[1.0, 2.0])), Arg::Const(vector(&[10.0, 20.0])));
        let (a, first) = bind("a", ty.clone(), call_tir(&sum, &[one.clone(), two], ty.clone()));
        let (b, second) = bind("b", ty.clone(), call_tir(&sum, &[a.into(), one], ty.clone()));
        let (c, third) = bind("c", ty.clone(), call_tir(&sum, &[(&x).into(), b.into()], ty));
        add(&mut module, function("main", &[&x], vec![first, second, third], c));
        let after = fold_constant().apply(module.clone()).unwrap();
        let func = after.relax_func(after.global_var("main").unwrap()).unwrap().clone();
        let last = func.body.bindings().last().unwrap();
        let Expr::Call(call) = &last.value else { panic!("{last:?}") };
        let folded = call.args[1].as_const().unwrap();
        assert_eq!(folded.to_vec::<f32>().unwrap(), [12.0, 24.0]);
        for module in [module, after] {
            let got = run(&module, "main", &[vector(&[0.5, 0.5]).into()]).unwrap();
            assert_eq!(elements(&got), [12.5, 24.5]);
        }
    }

    #[test]
    fn what_is_too_large_stays() {
        let mut module = IRModule::new();
        let extent = PrimExpr::index(1 << 23);
        let spread = compute("spread", &[("x", vec![PrimExpr::index(1)])], vec![extent], |bufs, _| {
            bufs[0].load([PrimExpr::index(0)])
        });
        let spread = add_prim(&mut module, spread);
        let ty = fixed(&[1 << 23]);
        let value = Arg::Const(Tensor::zeros(&[1], DataType::F32).unwrap());
        let (y, binding) = bind("y", ty.clone(), call_tir(&spread, &[value], ty));
        add(&mut module, function("main", &[], vec![binding], y));
        let after = fold_constant().apply(module).unwrap();
        let func = after.relax_func(after.global_var("main").unwrap()).unwrap();
        assert!(matches!(func.body.bindings().next().unwrap().value, Expr::Call(_)));
    }
}
