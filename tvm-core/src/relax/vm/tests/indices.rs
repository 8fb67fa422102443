//! Out-of-bounds indices: errors name the operator, the index and the extent, whatever computes the indices.

use tvm_runtime::{DataType, RuntimeError, Tensor, Value};

use crate::ir::{AttrValue, Attrs, IRModule, Op, Span, Type, Var};
use crate::relax::testing::*;
use crate::relax::{Arg, BlockBuilder};
use crate::tir::PrimExpr;

fn floats(shape: &[i64]) -> Value {
    let n: i64 = shape.iter().product();
    Tensor::from_vec((0..n).map(|i| i as f32).collect(), shape).unwrap().into()
}

fn ints(data: &[i64], shape: &[i64], dtype: DataType) -> Value {
    let data: Vec<f64> = data.iter().map(|&it| it as f64).collect();
    Tensor::from_f64s(&data, shape, dtype).unwrap().into()
}

/// The error that ended a run.
fn cause(result: Result<Value, RuntimeError>) -> RuntimeError {
    match result {
        Err(RuntimeError::Vm { source, .. }) => *source,
        other => panic!("{other:?}"),
    }
}

/// An operator, extents and attributes of the call, and the extent that index `k` of a row is for.
struct Case {
    op: &'static str,
    data: &'static [i64],
    indices: &'static [i64],
    updates: Option<&'static [i64]>,
    attrs: &'static [(&'static str, i64)],
    extents: &'static [i64],
}

const CASES: &[Case] = &[
    Case { op: "take", data: &[4, 3], indices: &[2], updates: None, attrs: &[("axis", 0)], extents: &[4] },
    Case { op: "take", data: &[4, 3], indices: &[2, 2], updates: None, attrs: &[("axis", 1)], extents: &[3] },
    Case {
        op: "gather_elements",
        data: &[4, 3],
        indices: &[2, 3],
        updates: None,
        attrs: &[("axis", 0)],
        extents: &[4],
    },
    Case { op: "gather_nd", data: &[4, 3], indices: &[5, 2], updates: None, attrs: &[], extents: &[4, 3] },
    Case {
        op: "gather_nd",
        data: &[2, 4, 3],
        indices: &[2, 5, 1],
        updates: None,
        attrs: &[("batch_dims", 1)],
        extents: &[4],
    },
    Case {
        op: "scatter_elements",
        data: &[4, 3],
        indices: &[2, 3],
        updates: Some(&[2, 3]),
        attrs: &[("axis", 1)],
        extents: &[3],
    },
    Case {
        op: "scatter_nd",
        data: &[4, 3],
        indices: &[5, 1],
        updates: Some(&[5, 3]),
        attrs: &[],
        extents: &[4],
    },
];

/// The call of the operator alone; with `symbolic`, extents are dimensions. Indices are `i + 0`, computed in the graph.
fn module(case: &Case, dtype: DataType, symbolic: bool) -> IRModule {
    let mut dims: Vec<(i64, PrimExpr)> = Vec::new();
    let mut dim = |n: i64| match dims.iter().find(|it| it.0 == n) {
        Some((_, dim)) => dim.clone(),
        None => {
            let dim = if symbolic { Var::index(format!("n{n}")).into() } else { PrimExpr::index(n) };
            dims.push((n, dim.clone()));
            dim
        }
    };
    let mut shape = |extents: &[i64]| extents.iter().map(|&n| dim(n)).collect::<Vec<_>>();
    let mut indices = shape(case.indices);
    if let ("gather_nd" | "scatter_nd", Some(last)) = (case.op, indices.last_mut()) {
        *last = PrimExpr::index(case.indices[case.indices.len() - 1]);
    }
    let mut params =
        vec![Var::new("x", f32s(&shape(case.data))), Var::new("i", Type::tensor(indices, dtype))];
    params.extend(case.updates.map(|it| Var::new("u", f32s(&shape(it)))));
    let attrs: Attrs = case.attrs.iter().map(|&(name, value)| (name, AttrValue::from(value))).collect();
    let mut builder = BlockBuilder::new(IRModule::new());
    builder
        .add_function("main", &params, |b| {
            let mut call = |name: &str, args: Vec<Arg>, attrs: Attrs| {
                b.emit_op("y", Op::get(name).unwrap(), args, attrs, &Span::none())
            };
            let zero = Arg::Prim(PrimExpr::int(0, dtype));
            let computed = call("add", vec![(&params[1]).into(), zero], Attrs::new())?;
            let mut args = vec![(&params[0]).into(), computed.into()];
            args.extend(params.get(2).map(Arg::from));
            let y = call(case.op, args, attrs)?;
            Ok(call("negative", vec![y.into()], Attrs::new())?.into())
        })
        .unwrap_or_else(|err| panic!("{err}"));
    builder.into_module()
}

#[test]
fn indices_out_of_range_are_errors() {
    for (case, symbolic) in CASES.iter().flat_map(|case| [(case, false), (case, true)]) {
        for dtype in [DataType::I64, DataType::I32] {
            let vm = vm(&module(case, dtype, symbolic));
            let run = |indices: &[i64]| {
                let mut args = vec![floats(case.data), ints(indices, case.indices, dtype)];
                args.extend(case.updates.map(floats));
                vm.invoke("main", &args)
            };
            let n = case.indices.iter().product::<i64>() as usize;
            let columns = case.extents.len();
            let last: Vec<i64> = (0..n).map(|i| case.extents[i % columns] - 1).collect();
            let first: Vec<i64> = (0..n).map(|i| -case.extents[i % columns]).collect();
            assert!(run(&last).is_ok() && run(&first).is_ok(), "{}: {:?}", case.op, run(&last));
            for (at, bad) in [(0, 999_999_999), (n - 1, -999), (n - 1, case.extents[(n - 1) % columns])] {
                let mut indices = last.clone();
                indices[at] = bad;
                match cause(run(&indices)) {
                    RuntimeError::IndexOutOfRange { op, index, extent } => {
                        assert_eq!((&*op, index, extent), (case.op, bad, case.extents[at % columns]));
                    }
                    other => panic!("{} at {at}: {other:?}", case.op),
                }
            }
        }
    }
}

#[test]
fn an_axis_of_no_elements_has_no_index() {
    let case = Case {
        op: "take",
        data: &[0, 3],
        indices: &[2],
        updates: None,
        attrs: &[("axis", 0)],
        extents: &[0],
    };
    let vm = vm(&module(&case, DataType::I64, true));
    let run = |n: i64| {
        let indices = Tensor::zeros(&[n], DataType::I64).unwrap();
        vm.invoke("main", &[floats(&[0, 3]), indices.into()])
    };
    assert!(run(0).is_ok());
    assert!(matches!(cause(run(2)), RuntimeError::IndexOutOfRange { index: 0, extent: 0, .. }));
}
