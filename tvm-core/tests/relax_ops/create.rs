//! Tensors from shapes and scalars, conversions, shapes as values.

use tvm_core::ir::{Attrs, Type};
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::support::{Nd, Rng, call1, infer, shape, tensor, try_call};

fn dtype(dtype: DataType) -> Attrs {
    Attrs::new().with("dtype", dtype)
}

#[test]
fn constants() {
    let x = Nd::random(&mut Rng::new(1), &[2, 3]);
    let filled = |value: f32| Nd::build(&[2, 3], |_| value);
    filled(1.0).assert_is("ones", &call1("ones", [shape(&[2, 3])], dtype(DataType::F32)));
    filled(0.0).assert_is("zeros", &call1("zeros", [shape(&[2, 3])], dtype(DataType::F32)));
    filled(0.0).assert_is("zeros_like", &call1("zeros_like", [x.arg()], Attrs::new()));
    filled(2.5)
        .assert_is("full", &call1("full", [shape(&[2, 3]), tensor(&[2.5f32], &[]).into()], Attrs::new()));
    let prim = Arg::Prim(PrimExpr::float(2.5, DataType::F32));
    filled(2.5).assert_is("full_like", &call1("full_like", [x.arg(), prim], Attrs::new()));
    let ones = call1("ones_like", [x.arg()], dtype(DataType::BOOL));
    assert_eq!(ones.to_vec::<bool>().unwrap(), [true; 6]);
    assert!(try_call("full", [shape(&[2]), x.arg()], Attrs::new()).is_err());
    assert!(try_call("ones", [shape(&[2])], Attrs::new()).is_err());
}

#[test]
fn ranges() {
    let int = |value: i64| Arg::Prim(PrimExpr::index(value));
    for (start, end, step) in [(0, 5, 1), (2, 11, 3), (5, 0, -2), (3, 3, 1), (5, 2, 1)] {
        let want: Vec<i64> = (0..).map(|i| start + i * step).take_while(|it| (end - it) * step > 0).collect();
        let got = call1("arange", [int(start), int(end), int(step)], Attrs::new());
        assert_eq!(got.to_vec::<i64>().unwrap(), want);
    }
    let float = |value: f64| Arg::Prim(PrimExpr::float(value, DataType::F32));
    let got = call1("arange", [float(1.0), float(2.2), float(0.5)], Attrs::new());
    assert_eq!(got.to_vec::<f32>().unwrap(), [1.0, 1.5, 2.0]);
    assert!(try_call("arange", [int(0), int(5), int(0)], Attrs::new()).is_err());
}

#[test]
fn diagonals() {
    let x = Nd::random(&mut Rng::new(2), &[2, 3, 4]);
    for k in [-1i64, 0, 2] {
        let diagonal = Arg::Prim(k.into());
        let keep = |upper: bool| {
            Nd::build(&[2, 3, 4], |i| {
                let kept = if upper { i[2] >= i[1] + k } else { i[2] <= i[1] + k };
                if kept { x.at(i) } else { 0.0 }
            })
        };
        keep(false).assert_is("tril", &call1("tril", [x.arg(), diagonal.clone()], Attrs::new()));
        keep(true).assert_is("triu", &call1("triu", [x.arg(), diagonal.clone()], Attrs::new()));
        let eye = Nd::build(&[3, 4], |i| if i[1] == i[0] + k { 1.0 } else { 0.0 });
        eye.assert_is(
            "eye",
            &call1("eye", [Arg::Prim(3.into()), Arg::Prim(4.into()), diagonal], dtype(DataType::F32)),
        );
    }
}

#[test]
fn one_hot() {
    let picked = [1i64, -1, 5, 0];
    let value = |value: f64| Arg::Prim(PrimExpr::float(value, DataType::F32));
    for (axis, dims) in [(-1i64, [4, 3]), (0, [3, 4])] {
        let want = Nd::build(&dims, |i| {
            let (which, at) = if axis == 0 { (i[1], i[0]) } else { (i[0], i[1]) };
            let index = picked[which as usize];
            if at == if index < 0 { index + 3 } else { index } { 2.0 } else { -1.0 }
        });
        let attrs = Attrs::new().with("depth", 3i64).with("axis", axis);
        let got = call1("one_hot", [tensor(&picked, &[4]).into(), value(2.0), value(-1.0)], attrs);
        want.assert_is("one_hot", &got);
    }
}

#[test]
fn conversions() {
    let values = [0.0f32, -1.7, 2.9, 300.0, f32::NAN, f32::INFINITY];
    let x: Arg = tensor(&values, &[6]).into();
    let got = call1("astype", [x.clone()], dtype(DataType::I32));
    assert_eq!(got.to_vec::<i32>().unwrap(), [0, -1, 2, 300, 0, i32::MAX]);
    let got = call1("astype", [x.clone()], dtype(DataType::U8));
    assert_eq!(got.to_vec::<u8>().unwrap(), [0, 0, 2, 255, 0, 255]);
    let got = call1("bitcast", [x.clone()], dtype(DataType::U32));
    assert_eq!(got.to_vec::<u32>().unwrap(), values.map(f32::to_bits));
    let got = call1("astype", [x], dtype(DataType::BOOL));
    assert_eq!(got.to_vec::<bool>().unwrap(), [false, true, true, true, true, true]);
    let got = call1("astype", [tensor(&[true, false], &[2]).into()], dtype(DataType::F32));
    assert_eq!(got.to_vec::<f32>().unwrap(), [1.0, 0.0]);
    assert!(try_call("astype", [tensor(&[1.0f32], &[1]).into()], Attrs::new()).is_err());
    assert!(try_call("bitcast", [tensor(&[1.0f32], &[1]).into()], dtype(DataType::F64)).is_err());
}

#[test]
fn shapes_as_values() {
    let got = call1("shape_to_tensor", [shape(&[4, 0, 7])], Attrs::new());
    assert_eq!(got.to_vec::<i64>().unwrap(), [4, 0, 7]);
    let x = Nd::random(&mut Rng::new(3), &[2, 5]);
    assert_eq!(call1("size", [x.arg()], Attrs::new()).to_vec::<i64>().unwrap(), [10]);
    let Type::Shape(ty) = infer("shape_of", [x.arg()], Attrs::new()).unwrap() else { panic!() };
    let values: Vec<i64> = ty.values.unwrap().iter().map(|it| it.as_int().unwrap()).collect();
    assert_eq!(values, [2, 5]);
    let ty = infer("tensor_to_shape", [tensor(&[1i64, 2, 3], &[3]).into()], Attrs::new()).unwrap();
    let Type::Shape(ty) = ty else { panic!() };
    assert_eq!((ty.ndim, ty.values.is_none()), (Some(3), true));
}
