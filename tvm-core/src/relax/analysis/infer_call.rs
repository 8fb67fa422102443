//! Type inference of calls, one function per kind of callee.
//!
//! TVM counterpart: `DeriveCallRetStructInfo`, the inference of `call_tir`.

use rustc_hash::FxHashSet;

use super::captures::type_dims;
use super::infer::{error, type_of_arg};
use super::show_type;
use super::unify::Unifier;
use crate::ir::{
    BaseFunc, FuncType, GlobalVar, IRModule, InferContext, IrError, TensorType, Type, Var, VarId,
};
use crate::relax::{Call, Callee, Constructor};
use crate::tir::{Param, PrimFunc};

pub(super) fn infer_call(call: &Call, module: &IRModule) -> Result<Type, IrError> {
    let types: Vec<Type> = call.args.iter().map(|arg| type_of_arg(arg, module)).collect();
    match &call.callee {
        Callee::Op(op) => {
            let attrs = &call.attrs;
            let ctx = InferContext { op: *op, args: &call.args, types: &types, attrs, span: &call.span };
            crate::relax::op::check_call(&ctx)?;
            (op.infer)(&ctx)
        }
        Callee::Global(gv) => match module.get(gv) {
            Some(BaseFunc::Relax(func)) => call_func(gv.name(), &func.ty(), &types),
            Some(BaseFunc::Extern(_)) => Ok(call.ret.clone().unwrap_or(Type::Object)),
            Some(BaseFunc::Prim(_)) => Err(error(format!("`{}` is a tensor program", gv.name()))
                .help(format!("call it as `call_tir({}, (inputs))`", gv.name()))),
            None => Err(unknown_function(gv.name(), module)),
        },
        Callee::Var(var) => match var.ty() {
            Type::Func(ty) => call_func(var.name(), ty, &types),
            Type::Object => Ok(call.ret.clone().unwrap_or(Type::Object)),
            ty => Err(error(format!("`{}` is not a function, it is {}", var.name(), show_type(ty)))),
        },
        Callee::Tir(gv) => match module.get(gv) {
            Some(BaseFunc::Prim(func)) => call_tir(func, gv.name(), false, &types, call.ret.as_ref()),
            Some(BaseFunc::Extern(_)) => declared(call, gv.name()),
            Some(BaseFunc::Relax(_)) => Err(graph_function(gv)),
            None => Err(unknown_function(gv.name(), module)),
        },
        Callee::TirInplace(gv) => match module.get(gv) {
            Some(BaseFunc::Prim(func)) => {
                let ret = declared(call, gv.name())?;
                call_tir(func, gv.name(), true, &types, Some(&ret))
            }
            Some(BaseFunc::Extern(_)) => {
                Err(error(format!("`{}` is an external function, its parameters are not known", gv.name())))
            }
            Some(BaseFunc::Relax(_)) => Err(graph_function(gv)),
            None => Err(unknown_function(gv.name(), module)),
        },
        Callee::DpsPacked(name) => declared(call, name),
        Callee::Packed(_) => Ok(call.ret.clone().unwrap_or(Type::Object)),
        Callee::Constructor(constructor) => call_constructor(constructor, &types, call.ret.as_ref(), module),
    }
}

fn graph_function(gv: &GlobalVar) -> IrError {
    error(format!("`{}` is a graph function", gv.name())).help(format!("call it as `{}(..)`", gv.name()))
}

fn unknown_function(name: &str, module: &IRModule) -> IrError {
    let err = error(format!("the module has no function `{name}`"));
    match crate::support::nearest(name, module.functions().map(|(gv, _)| gv.name())) {
        Some(near) => err.help(format!("did you mean `{near}`?")),
        None => err,
    }
}

/// The declared result type of a call that allocates its outputs.
fn declared(call: &Call, name: &str) -> Result<Type, IrError> {
    let ret = call.ret.clone().ok_or_else(|| {
        error(format!("the call of `{name}` must say the type of its result: its memory is allocated first"))
    })?;
    Ok(ret)
}

fn check_count(name: &str, expected: usize, got: usize) -> Result<(), IrError> {
    if expected == got {
        return Ok(());
    }
    Err(error(format!("`{name}` takes {expected} arguments, got {got}")))
}

/// Result type of a call of a function of type `func`: its dimensions and type parameters bind to the arguments.
fn call_func(name: &str, func: &FuncType, types: &[Type]) -> Result<Type, IrError> {
    check_count(name, func.params.len(), types.len())?;
    let mut unifier = Unifier::default();
    for (i, (param, arg)) in func.params.iter().zip(types).enumerate() {
        unifier.unify(param, arg).map_err(|why| {
            let (param, arg) = (show_type(param), show_type(arg));
            error(format!("argument {i} of `{name}` is {param}, got {arg}: {}", why.0))
        })?;
    }
    // Dimensions that no parameter mentions come from the scope around a local function.
    let mut outer: FxHashSet<VarId> = FxHashSet::default();
    outer.extend(type_dims(&func.ret).iter().map(Var::id));
    for param in func.params.iter() {
        let mut bound: FxHashSet<VarId> = FxHashSet::default();
        bound.extend(type_dims(param).iter().map(Var::id));
        outer.retain(|var| !bound.contains(var));
    }
    Ok(unifier.apply_closed(&func.ret, &outer))
}

/// Result type of a call of a tensor program: the arguments are its inputs, then its scalars, then for an in-place call
/// the values that its outputs start with. The results have the types of its output buffers.
fn call_tir(
    func: &PrimFunc,
    name: &str,
    inplace: bool,
    types: &[Type],
    ret: Option<&Type>,
) -> Result<Type, IrError> {
    let scalars: Vec<_> = func.params.iter().filter(|param| matches!(param, Param::Scalar(_))).collect();
    let inputs: Vec<_> = func.inputs().collect();
    let initial = if inplace { func.outputs().count() } else { 0 };
    check_count(name, inputs.len() + scalars.len() + initial, types.len())?;
    let mut unifier = Unifier::default();
    let mut bind = |what: &str, expected: &Type, got: &Type| {
        unifier.unify(expected, got).map_err(|why| {
            let (expected, got) = (show_type(expected), show_type(got));
            error(format!("{what} of `{name}` is {expected}, got {got}: {}", why.0))
        })
    };
    for (buffer, ty) in inputs.iter().zip(types) {
        let expected = Type::Tensor(TensorType::new(buffer.shape.clone(), buffer.dtype));
        bind(&format!("argument `{}`", buffer.name), &expected, ty)?;
    }
    for (param, ty) in scalars.iter().zip(&types[inputs.len()..]) {
        if let Param::Scalar(var) = param {
            bind(&format!("argument `{}`", var.name()), var.ty(), ty)?;
        }
    }
    let outputs: Vec<Type> = func.outputs().map(|it| Type::tensor(it.shape.clone(), it.dtype)).collect();
    for ((buffer, expected), ty) in func.outputs().zip(&outputs).zip(&types[inputs.len() + scalars.len()..]) {
        bind(&format!("argument `{}`", buffer.name), expected, ty)?;
    }
    let results: Option<&[Type]> = ret.map(|ret| match ret {
        Type::Tuple(fields) => &fields[..],
        _ => std::slice::from_ref(ret),
    });
    if let Some(results) = results {
        if results.len() != outputs.len() {
            let (expected, got) = (outputs.len(), results.len());
            return Err(error(format!("`{name}` has {expected} outputs, the call expects {got}")));
        }
        for (output, result) in func.outputs().zip(results) {
            let expected = Type::tensor(output.shape.clone(), output.dtype);
            bind(&format!("output `{}`", output.name), &expected, result)?;
        }
    }
    if let Some(ret) = ret {
        return Ok(ret.clone());
    }
    let mut results: Vec<Type> =
        outputs.iter().map(|it| unifier.apply_closed(it, &FxHashSet::default())).collect();
    if results.iter().any(|ty| ty.as_tensor().is_none_or(|it| it.known_shape().is_none())) {
        let message = format!("the shape of an output of `{name}` does not follow from the arguments");
        return Err(error(message).help("say the type of the result"));
    }
    Ok(if results.len() == 1 { results.swap_remove(0) } else { Type::Tuple(results.into()) })
}

/// Type of a value of an algebraic data type; type parameters that the fields do not determine come from `ret` or stay
/// unknown.
fn call_constructor(
    constructor: &Constructor,
    types: &[Type],
    ret: Option<&Type>,
    module: &IRModule,
) -> Result<Type, IrError> {
    let (def, fields) = super::infer_match::constructor_def(constructor, module)?;
    let name = format!("{}::{}", constructor.ty, constructor.name);
    check_count(&name, fields.len(), types.len())?;
    let whole = Type::Adt(crate::ir::AdtType {
        name: def.name.clone(),
        args: def.params.iter().map(|param| Type::Param(param.clone())).collect(),
    });
    let mut unifier = Unifier::default();
    if let Some(ret) = ret {
        unifier.unify(&whole, ret).map_err(|why| error(format!("`{name}`: {}", why.0)))?;
    }
    for (i, (field, arg)) in fields.iter().zip(types).enumerate() {
        unifier.unify(field, arg).map_err(|why| {
            let (field, arg) = (show_type(field), show_type(arg));
            error(format!("field {i} of `{name}` is {field}, got {arg}: {}", why.0))
        })?;
    }
    def.params.iter().for_each(|param| unifier.default_type(param, Type::Object));
    Ok(unifier.apply(&whole))
}
