//! Models of real operators through the whole pipeline: optimised and unoptimised programs agree.

use std::sync::Arc;

use tvm_runtime::vm::Vm;
use tvm_runtime::{DataType, Tensor, Value};

use crate::ir::{Attrs, IRModule, IrError, Op, Span, Type, Var};
use crate::pass::PassContext;
use crate::relax::testing::{elements, f32s};
use crate::relax::vm::{compile, interpreted_kernels};
use crate::relax::{Arg, BlockBuilder, Expr};
use crate::tir::PrimExpr;
use tvm_testing::Rng;

fn n(n: i64) -> PrimExpr {
    PrimExpr::index(n)
}

fn op(builder: &mut BlockBuilder, name: &str, args: &[Arg], attrs: Attrs) -> Result<Var, IrError> {
    builder.emit_op(name, Op::get(name)?, args, attrs, &Span::none())
}

fn random(rng: &mut Rng, shape: &[i64]) -> Tensor {
    let len: i64 = shape.iter().product();
    Tensor::from_vec((0..len).map(|_| rng.below(17) as f32 / 8.0 - 1.0).collect(), shape).unwrap()
}

/// Values near a constant, away from zero.
fn positive(rng: &mut Rng, len: i64) -> Tensor {
    Tensor::from_vec((0..len).map(|_| rng.below(8) as f32 / 8.0 + 0.5).collect(), &[len]).unwrap()
}

/// conv, batch norm, relu, residual, pool, flatten, dense, softmax; `n` is symbolic, the weights are constants.
fn cnn() -> IRModule {
    let mut rng = Rng::new(7);
    let batch = PrimExpr::from(&Var::index("n"));
    let x = Var::new("x", f32s(&[batch, n(2), n(6), n(6)]));
    let weights = [random(&mut rng, &[3, 2, 3, 3]), random(&mut rng, &[3, 3, 3, 3])].map(Arg::Const);
    let norm = [positive(&mut rng, 3), random(&mut rng, &[3]), random(&mut rng, &[3]), positive(&mut rng, 3)];
    let dense = Arg::Const(random(&mut rng, &[27, 4]));
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", std::slice::from_ref(&x), |b| {
            let pad = || Attrs::new().with("padding", vec![1i64, 1]);
            let conv = op(b, "nn.conv2d", &[(&x).into(), weights[0].clone()], pad())?;
            let mut args = vec![Arg::from(&conv)];
            args.extend(norm.iter().cloned().map(Arg::Const));
            let norm = op(b, "nn.batch_norm", &args, Attrs::new())?;
            let relu = op(b, "nn.relu", &[norm.into()], Attrs::new())?;
            let conv = op(b, "nn.conv2d", &[(&relu).into(), weights[1].clone()], pad())?;
            let sum = op(b, "add", &[conv.into(), (&relu).into()], Attrs::new())?;
            let pool = Attrs::new().with("pool_size", vec![2i64, 2]).with("strides", vec![2i64, 2]);
            let pool = op(b, "nn.max_pool2d", &[sum.into()], pool)?;
            let flat = op(b, "nn.batch_flatten", &[pool.into()], Attrs::new())?;
            let dense = op(b, "matmul", &[flat.into(), dense], Attrs::new())?;
            Ok(op(b, "nn.softmax", &[dense.into()], Attrs::new().with("axis", -1i64))?.into())
        })
        .unwrap_or_else(|err| panic!("{err}"));
    builder.into_module()
}

fn vm_at(module: &IRModule, opt_level: u8) -> Vm {
    let ctx = PassContext { opt_level, ..PassContext::default() };
    let (kernels, exe) = ctx.scope(|| compile(module.clone())).unwrap_or_else(|err| panic!("{err}"));
    Vm::new(exe, &interpreted_kernels(&kernels).unwrap()).unwrap()
}

fn close(a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} and {b}");
    }
}

#[test]
fn a_cnn_computes_the_same_at_every_level() {
    let module = cnn();
    let (plain, optimised) = (vm_at(&module, 0), vm_at(&module, 2));
    let kernels = |vm: &Vm| vm.executable().kernels.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    // One image and many have kernels of their own.
    assert!(kernels(&optimised).len() < 2 * kernels(&plain).len(), "{:?}", kernels(&optimised));
    let mut rng = Rng::new(11);
    for batch in [1, 2] {
        let x = random(&mut rng, &[batch, 2, 6, 6]);
        let results = [&plain, &optimised].map(|vm| vm.invoke("main", &[(&x).into()]).unwrap());
        assert_eq!(results[0].as_tensor().unwrap().shape(), [batch, 4]);
        close(&elements(&results[0]), &elements(&results[1]));
        let sums: Vec<f32> = elements(&results[1]).chunks(4).map(|row| row.iter().sum()).collect();
        close(&sums, &vec![1.0; batch as usize]);
    }
}

#[test]
fn tuples_views_and_shapes() {
    // main(x: [n, 4]) = { (a, b) = split(x, 2, axis = 1); (reshape(a + b, [n * 2]), shape_of(x)) }
    let dim = PrimExpr::from(&Var::index("n"));
    let x = Var::new("x", f32s(&[dim.clone(), n(4)]));
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", std::slice::from_ref(&x), |b| {
            let attrs = Attrs::new().with("indices_or_sections", vec![2i64]).with("axis", 1i64);
            let parts = op(b, "split", &[(&x).into()], attrs)?;
            let mut part = |i| b.emit("part", Expr::TupleGetItem((&parts).into(), i), &Span::none());
            let (first, second) = (part(0)?, part(1)?);
            let sum = op(b, "add", &[first.into(), second.into()], Attrs::new())?;
            let flat = Arg::Shape(Arc::new([dim.clone() * 2i64]));
            let view = op(b, "reshape", &[sum.into(), flat], Attrs::new())?;
            let shape = op(b, "shape_of", &[(&x).into()], Attrs::new())?;
            Ok(Arg::Tuple(Arc::new([view.into(), shape.into()])))
        })
        .unwrap_or_else(|err| panic!("{err}"));
    let module = builder.into_module();
    for opt_level in [0, 2] {
        let vm = vm_at(&module, opt_level);
        let x = Tensor::from_vec((0..12).map(|i| i as f32).collect(), &[3, 4]).unwrap();
        let got = vm.invoke("main", &[x.into()]).unwrap();
        let fields = got.as_adt().unwrap().fields();
        assert_eq!(fields[0].as_tensor().unwrap().shape(), [6]);
        assert_eq!(elements(&fields[0]), [2.0, 4.0, 10.0, 12.0, 18.0, 20.0]);
        assert_eq!(fields[1].as_shape().unwrap(), [3, 4]);
    }
}

#[test]
fn shapes_computed_at_run_time() {
    // main(x, s) = reshape(x, tensor_to_shape(s))
    let (x, s) = (
        Var::new("x", f32s(&[Var::index("n").into()])),
        Var::new("s", Type::tensor(vec![n(2)], DataType::I64)),
    );
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", &[x.clone(), s.clone()], |b| {
            let shape = op(b, "tensor_to_shape", &[(&s).into()], Attrs::new())?;
            Ok(op(b, "reshape", &[(&x).into(), shape.into()], Attrs::new())?.into())
        })
        .unwrap_or_else(|err| panic!("{err}"));
    let vm = vm_at(&builder.into_module(), 2);
    let x = Value::from(Tensor::from_vec(vec![1f32; 6], &[6]).unwrap());
    for (shape, ok) in [([2i64, 3], true), ([6, 1], true), ([4, 2], false)] {
        let got = vm.invoke("main", &[x.clone(), Tensor::from_slice(&shape, &[2]).unwrap().into()]);
        assert_eq!(got.is_ok(), ok, "{shape:?}");
        if let Ok(got) = got {
            assert_eq!(got.as_tensor().unwrap().shape(), shape);
        }
    }
}

#[test]
fn a_program_of_a_thousand_operators_compiles() {
    let x = Var::new("x", f32s(&[n(4)]));
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", std::slice::from_ref(&x), |b| {
            let mut last = x.clone();
            for i in 0..1000 {
                let name = if i % 2 == 0 { "negative" } else { "nn.softmax" };
                last = op(b, name, &[last.into()], Attrs::new())?;
            }
            Ok(last.into())
        })
        .unwrap_or_else(|err| panic!("{err}"));
    let (_, exe) = compile(builder.into_module()).unwrap();
    assert!(exe.kernels.len() < 10, "equal operators share their kernels: {}", exe.kernels.len());
}
