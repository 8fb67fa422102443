//! Helpers of the tests of graph passes: they build small tensor programs and graph functions, and run both on the
//! interpreter.

use std::sync::Arc;

use tvm_runtime::vm::Vm;
use tvm_runtime::{DataType, Device, RuntimeError, Tensor, Value};

use super::vm::{compile, interpreted_kernels, vm_codegen};
use super::{Arg, Binding, BindingBlock, Body, Call, Callee, Expr, Function};
use crate::ir::{Attrs, BaseFunc, GlobalVar, IRModule, IrError, Span, Type, Var};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferRegion, For, IterKind, IterVar, Param, PrimExpr, PrimFunc, Range, Stmt,
};

/// `f32` tensor type.
pub(crate) fn f32s(shape: &[PrimExpr]) -> Type {
    Type::tensor(shape.to_vec(), DataType::F32)
}

/// `f32` tensor type of constant shape.
pub(crate) fn fixed(shape: &[i64]) -> Type {
    f32s(&shape.iter().map(|&n| PrimExpr::index(n)).collect::<Vec<_>>())
}

/// A function of one block of bindings.
pub(crate) fn function(name: &str, params: &[&Var], bindings: Vec<Binding>, ret: impl Into<Arg>) -> Function {
    Function {
        name: name.into(),
        type_params: Arc::new([]),
        params: params.iter().map(|&it| it.clone()).collect(),
        body: body(bindings, ret),
        ret: Type::Object,
        pure: true,
        attrs: Attrs::new(),
        span: Span::none(),
    }
}

/// A body of one block of bindings.
pub(crate) fn body(bindings: Vec<Binding>, ret: impl Into<Arg>) -> Body {
    let blocks = if bindings.is_empty() {
        Arc::new([]) as Arc<[_]>
    } else {
        Arc::new([BindingBlock { dataflow: false, bindings: bindings.into() }])
    };
    Body { blocks, ret: ret.into() }
}

/// `let name: ty = value`: the binding and its variable.
pub(crate) fn bind(name: &str, ty: Type, value: Expr) -> (Var, Binding) {
    let var = Var::new(name, ty);
    (var.clone(), Binding::new(var, value))
}

/// A call.
pub(crate) fn call(callee: Callee, args: &[Arg]) -> Expr {
    Call { callee, args: args.into(), attrs: Attrs::new(), ret: None, span: Span::none() }.into()
}

/// `call_tir`.
pub(crate) fn call_tir(gv: &GlobalVar, args: &[Arg], ret: Type) -> Expr {
    let callee = Callee::Tir(gv.clone());
    Call { callee, args: args.into(), attrs: Attrs::new(), ret: Some(ret), span: Span::none() }.into()
}

/// Adds a graph function under its own name.
pub(crate) fn add(module: &mut IRModule, func: Function) -> GlobalVar {
    module.add(func.name.clone(), BaseFunc::Relax(Arc::new(func)))
}

/// Adds a tensor program under its own name.
pub(crate) fn add_prim(module: &mut IRModule, func: PrimFunc) -> GlobalVar {
    module.add(func.name.clone(), BaseFunc::Prim(Arc::new(func)))
}

/// One output element per point of `shape`, computed by `value` from the inputs at the axes.
pub(crate) fn compute(
    name: &str,
    inputs: &[(&str, Vec<PrimExpr>)],
    shape: Vec<PrimExpr>,
    value: impl Fn(&[Buffer], &[PrimExpr]) -> PrimExpr,
) -> PrimFunc {
    let inputs: Vec<Buffer> =
        inputs.iter().map(|(name, shape)| Buffer::new(*name, shape.clone(), DataType::F32)).collect();
    let out = Buffer::new("out", shape.clone(), DataType::F32);
    let axes: Vec<Var> = (0..shape.len()).map(|i| Var::index(format!("v{i}"))).collect();
    let points: Vec<PrimExpr> = axes.iter().map(PrimExpr::from).collect();
    let value = value(&inputs, &points);
    let nest =
        block_nest("compute", &out, &axes, &shape, &[], None, Stmt::store(&out, points.clone(), value));
    prim_func(name, inputs, out, nest)
}

/// As [`compute`], summed over a last axis of extent `reduce`.
pub(crate) fn sum_over(
    name: &str,
    inputs: &[(&str, Vec<PrimExpr>)],
    shape: Vec<PrimExpr>,
    reduce: PrimExpr,
    value: impl Fn(&[Buffer], &[PrimExpr]) -> PrimExpr,
) -> PrimFunc {
    let inputs: Vec<Buffer> =
        inputs.iter().map(|(name, shape)| Buffer::new(*name, shape.clone(), DataType::F32)).collect();
    let out = Buffer::new("out", shape.clone(), DataType::F32);
    let axes: Vec<Var> = (0..=shape.len()).map(|i| Var::index(format!("v{i}"))).collect();
    let points: Vec<PrimExpr> = axes.iter().map(PrimExpr::from).collect();
    let value = out.load(points[..shape.len()].to_vec()) + value(&inputs, &points);
    let at = points[..shape.len()].to_vec();
    let init = Stmt::store(&out, at.clone(), PrimExpr::float(0.0, DataType::F32));
    let store = Stmt::store(&out, at, value);
    let nest = block_nest("sum", &out, &axes, &shape, &[reduce], Some(init), store);
    prim_func(name, inputs, out, nest)
}

fn prim_func(name: &str, inputs: Vec<Buffer>, out: Buffer, nest: Stmt) -> PrimFunc {
    let params: Vec<Param> = inputs.into_iter().map(Param::In).chain([Param::Out(out)]).collect();
    PrimFunc::new(name, params, BlockRealize::opaque(Block::root(Vec::new(), nest)))
}

fn block_nest(
    name: &str,
    out: &Buffer,
    axes: &[Var],
    spatial: &[PrimExpr],
    reduce: &[PrimExpr],
    init: Option<Stmt>,
    body: Stmt,
) -> Stmt {
    let extents: Vec<PrimExpr> = spatial.iter().chain(reduce).cloned().collect();
    let points: Vec<PrimExpr> = axes[..spatial.len()].iter().map(PrimExpr::from).collect();
    let iter_vars = axes.iter().zip(&extents).enumerate().map(|(i, (var, extent))| IterVar {
        var: var.clone(),
        dom: Range::from_extent(extent.clone()),
        kind: if i < spatial.len() { IterKind::Spatial } else { IterKind::Reduce },
    });
    let block = Block {
        iter_vars: iter_vars.collect(),
        writes: Arc::new([BufferRegion::point(out, &points)]),
        init,
        ..Block::new(name, body)
    };
    let loops: Vec<Var> = (0..extents.len()).map(|i| Var::index(format!("i{i}"))).collect();
    let realize = Stmt::BlockRealize(Arc::new(BlockRealize {
        iter_values: loops.iter().map(PrimExpr::from).collect(),
        predicate: PrimExpr::bool(true),
        block: Arc::new(block),
    }));
    loops.into_iter().zip(extents).rev().fold(realize, |stmt, (var, n)| For::serial(var, n, stmt).into())
}

/// Element-wise `value` of one input.
pub(crate) fn map(name: &str, shape: Vec<PrimExpr>, value: impl Fn(PrimExpr) -> PrimExpr) -> PrimFunc {
    compute(name, &[("x", shape.clone())], shape, |bufs, at| value(bufs[0].load(at.to_vec())))
}

/// Element-wise `value` of two inputs.
pub(crate) fn zip(
    name: &str,
    shape: Vec<PrimExpr>,
    value: impl Fn(PrimExpr, PrimExpr) -> PrimExpr,
) -> PrimFunc {
    compute(name, &[("x", shape.clone()), ("y", shape.clone())], shape, |bufs, at| {
        value(bufs[0].load(at.to_vec()), bufs[1].load(at.to_vec()))
    })
}

/// A vector.
pub(crate) fn vector(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, &[data.len() as i64]).unwrap()
}

/// The elements of a tensor value.
pub(crate) fn elements(value: &Value) -> Vec<f32> {
    value.as_tensor().unwrap().to_vec::<f32>().unwrap()
}

/// The module compiled through the default pipeline, on the interpreter.
pub(crate) fn vm(module: &IRModule) -> Vm {
    let (kernels, exe) = compile(module.clone()).expect("it compiles");
    Vm::new(exe, &interpreted_kernels(&kernels).expect("kernels are well-formed")).expect("it verifies")
}

/// Runs a function of a module.
pub(crate) fn run(module: &IRModule, name: &str, args: &[Value]) -> Result<Value, RuntimeError> {
    vm(module).invoke(name, args)
}

/// Bytecode of a lowered module, in readable form.
pub(crate) fn disassemble(module: &IRModule) -> Result<String, IrError> {
    Ok(vm_codegen(module, Device::cpu())?.1.to_string())
}
