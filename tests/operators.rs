//! Operators that a user adds: type inference, and lowering to graphs of other calls.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::LazyLock;

use tvm::ir::{
    AttrKind, Attrs, IRModule, IrError, LegalizeContext, MemoryEffect, Op, OpDef, OpRegistry, TensorShape,
    TensorType, Type,
};
use tvm::prelude::*;
use tvm::relax::op::def::{attr, tensor};
use tvm::relax::transform::legalize_ops;
use tvm::relax::{Arg, BlockBuilder, Call, Callee, Expr, vm};
use tvm::runtime::{DataType, PackedFunc, RuntimeError, Value, register_global_func, vm::Vm};

static OPS: &[OpDef] = &[
    OpDef::new("my.attention", "softmax(q kᵀ scale) v", |cx| {
        let (q, v) = (cx.tensor(0)?, cx.tensor(2)?);
        let dims = q.known_shape().zip(v.known_shape());
        let dims = dims.map(|(q, v)| TensorShape::Known([q[0].clone(), v[1].clone()].into()));
        let shape = dims.unwrap_or(TensorShape::Rank(2));
        Ok(Type::Tensor(TensorType { shape, dtype: cx.same_dtype()?, vdevice: None }))
    })
    .args(&[tensor("q"), tensor("k"), tensor("v")])
    .attrs(&[attr("scale", AttrKind::Float)])
    .graph(attention),
    OpDef::new("my.nonzero", "positions of the elements other than 0", |_| {
        Ok(Type::Tensor(TensorType::ranked(1, Some(DataType::I64))))
    })
    .args(&[tensor("x")])
    .memory(MemoryEffect::Fresh)
    .graph(|cx, _| {
        Ok(Some(call(Callee::Packed("my.nonzero".into()), cx, Attrs::new(), Some(cx.out.clone()))))
    }),
    OpDef::new("my.endless", "itself", |cx| Ok(Type::Tensor(cx.tensor(0)?.clone())))
        .args(&[tensor("x")])
        .graph(|cx, _| Ok(Some(call(Callee::Op(cx.op), cx, Attrs::new(), None)))),
    OpDef::new("my.wrong", "x, it says", |cx| Ok(Type::Tensor(cx.tensor(0)?.clone())))
        .args(&[tensor("x")])
        .graph(|cx, _| {
            let attrs = Attrs::new().with("dtype", DataType::F64);
            Ok(Some(call(Callee::Op(Op::get("astype")?), cx, attrs, None)))
        }),
    OpDef::new("my.later", "x, if its shape is known", |cx| Ok(Type::Tensor(cx.tensor(0)?.clone())))
        .args(&[tensor("x")])
        .graph(|cx, _| Ok(cx.infer().tensor(0)?.known_shape().map(|_| cx.args[0].clone().into()))),
];

/// The operators are registered once, by whichever test comes first.
static REGISTERED: LazyLock<()> = LazyLock::new(|| {
    for op in OPS {
        OpRegistry::register(op).unwrap();
    }
});

fn call(callee: Callee, cx: &LegalizeContext<'_>, attrs: Attrs, ret: Option<Type>) -> Expr {
    Call { callee, args: cx.args.into(), attrs, ret, span: cx.span.clone() }.into()
}

fn attention(cx: &LegalizeContext<'_>, builder: &mut BlockBuilder) -> Result<Option<Expr>, IrError> {
    let mut emit = |op: &str, args: &[&Arg], attrs: Attrs| -> Result<Arg, IrError> {
        let args: Vec<Arg> = args.iter().map(|&it| it.clone()).collect();
        Ok(builder.emit_op("a", Op::get(op)?, args, attrs, cx.span)?.into())
    };
    let [q, k, v] = cx.args else { return Ok(None) };
    let turned = emit("permute_dims", &[k], Attrs::new())?;
    let scores = emit("matmul", &[q, &turned], Attrs::new())?;
    let scale = Arg::Prim(tvm::tir::PrimExpr::float(cx.infer().float("scale", 1.0), DataType::F32));
    let scaled = emit("multiply", &[&scores, &scale], Attrs::new())?;
    let weights = emit("nn.softmax", &[&scaled], Attrs::new().with("axis", -1))?;
    Ok(Some(emit("matmul", &[&weights, v], Attrs::new())?.into()))
}

fn run(module: IRModule, args: &[Value]) -> Value {
    let (kernels, exe) = vm::compile(module).unwrap_or_else(|err| panic!("{err}"));
    let kernels = vm::interpreted_kernels(&kernels).unwrap();
    Vm::new(exe, &kernels).unwrap().invoke("main", args).unwrap_or_else(|err| panic!("{err}"))
}

fn random(shape: &[i64]) -> Value {
    let len: i64 = shape.iter().product();
    let data: Vec<f32> = (0..len).map(|i| ((i * 37 + 11) % 23) as f32 / 11.5 - 1.0).collect();
    Value::Tensor(Tensor::from_slice(&data, shape).unwrap())
}

mod added {
    use super::*;

    #[relax::func(name = "main")]
    fn attend(q: Tensor<f32, n, 4>, k: Tensor<f32, m, 4>, v: Tensor<f32, m, 3>) -> Tensor<f32, n, 3> {
        call_op("my.attention", q, k, v, scale = 0.5)
    }

    #[relax::func(name = "main")]
    fn by_hand(q: Tensor<f32, n, 4>, k: Tensor<f32, m, 4>, v: Tensor<f32, m, 3>) -> Tensor<f32, n, 3> {
        matmul(softmax(matmul(q, permute_dims(k)) * 0.5, axis = -1), v)
    }

    #[test]
    fn an_operator_becomes_a_graph_of_others() {
        LazyLock::force(&REGISTERED);
        for (n, m) in [(5, 7), (1, 1), (3, 2), (0, 4)] {
            let args = [random(&[n, 4]), random(&[m, 4]), random(&[m, 3])];
            let [got, want] = [attend::module(), by_hand::module()].map(|it| run(it.unwrap(), &args));
            let [got, want] = [got, want].map(|it| it.as_tensor().unwrap().to_vec::<f32>().unwrap());
            assert_eq!(got, want, "{n} {m}");
        }
        // The programs of the graph are those of the operators in it.
        let programs = |module: IRModule| {
            let module = legalize_ops().apply(module).unwrap();
            module.functions().filter(|(gv, _)| module.prim_func(gv).is_some()).count()
        };
        assert_eq!(programs(attend::module().unwrap()), programs(by_hand::module().unwrap()));
    }
}

mod data_dependent {
    use super::*;

    #[relax::func(name = "main", impure)]
    fn doubled_positions(x: Tensor<f32, n>) -> TensorRank<i64, 1> {
        let at = call_op("my.nonzero", x);
        let at = match_cast(at, Tensor::<i64, k>);
        at + at
    }

    #[test]
    fn a_result_may_depend_on_data() {
        LazyLock::force(&REGISTERED);
        let nonzero = PackedFunc::typed(|x: Tensor| -> Result<Tensor, RuntimeError> {
            let data = x.to_vec::<f32>()?;
            let at: Vec<i64> =
                data.iter().enumerate().filter(|(_, it)| **it != 0.0).map(|(i, _)| i as i64).collect();
            Tensor::from_slice(&at, &[at.len() as i64])
        });
        register_global_func("my.nonzero", nonzero).unwrap();
        let x = Value::Tensor(Tensor::from_slice(&[0.0_f32, 2.0, 0.0, -1.0, 3.0], &[5]).unwrap());
        let got = run(doubled_positions::module().unwrap(), &[x]);
        assert_eq!(got.as_tensor().unwrap().to_vec::<i64>().unwrap(), [2, 6, 8]);
    }
}

mod refused {
    use super::*;

    #[relax::func]
    fn endless(x: Tensor<f32, n>) -> Tensor<f32, n> {
        call_op("my.endless", x)
    }

    #[relax::func]
    fn wrong(x: Tensor<f32, n>) -> Tensor<f32, n> {
        call_op("my.wrong", x)
    }

    #[test]
    fn graphs_that_do_not_end_or_have_another_type() {
        LazyLock::force(&REGISTERED);
        for (module, parts) in [
            (endless::module(), ["`my.endless`", "graphs of operators are in each other"]),
            (wrong::module(), ["its graph gives Tensor<f64, n>", "type inference says Tensor<f32, n>"]),
        ] {
            let text = legalize_ops().apply(module.unwrap()).unwrap_err().to_string();
            for part in parts {
                assert!(text.contains(part), "{part} is missing in\n{text}");
            }
            assert!(text.contains("tests/operators.rs"), "{text}");
        }
        assert!(OpRegistry::register(&OPS[0]).is_err(), "the name is taken");
    }
}

mod left_alone {
    use super::*;

    #[relax::func]
    fn later(x: Tensor<f32, n>) -> Tensor<f32, n> {
        call_op("my.later", x)
    }

    #[relax::func]
    fn unknown(x: TensorRank<f32, 1>) -> TensorRank<f32, 1> {
        call_op("my.later", x)
    }

    #[test]
    fn a_graph_may_wait_for_more_to_be_known() {
        LazyLock::force(&REGISTERED);
        for (module, left) in [(later::module(), false), (unknown::module(), true)] {
            let text = legalize_ops().apply(module.unwrap()).unwrap().to_string();
            assert_eq!(text.contains("my.later"), left, "{text}");
        }
    }
}
