//! Binary operators: broadcasting, special values, integers that would trap.

use tvm_core::ir::{Attrs, BaseFunc, IRModule, Op, Span, Var};
use tvm_core::relax::transform::legalize_ops;
use tvm_core::relax::{Arg, BlockBuilder};
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use crate::support::{Rng, assert_close, call1, param, run, tensor};

/// Position in a tensor of extents `shape`, broadcast to `out`, of the element at the position `flat` of the result.
fn source(flat: usize, out: &[i64], shape: &[i64]) -> usize {
    let (mut rest, mut stride, mut at) = (flat, 1, 0);
    for axis in (0..out.len()).rev() {
        let i = rest % out[axis] as usize;
        rest /= out[axis] as usize;
        if let Some(k) = (axis + shape.len()).checked_sub(out.len()) {
            at += if shape[k] == 1 { 0 } else { i * stride };
            stride *= shape[k] as usize;
        }
    }
    at
}

#[test]
fn broadcasting_follows_numpy() {
    let cases: &[(&[i64], &[i64], &[i64])] = &[
        (&[2, 3], &[2, 3], &[2, 3]),
        (&[2, 3], &[3], &[2, 3]),
        (&[3], &[2, 1], &[2, 3]),
        (&[], &[2, 2], &[2, 2]),
        (&[], &[], &[]),
        (&[4, 1, 3], &[5, 1], &[4, 5, 3]),
        (&[0, 3], &[1, 3], &[0, 3]),
        (&[2, 0], &[1], &[2, 0]),
    ];
    let mut rng = Rng::new(2);
    for (a, b, out) in cases {
        let (x, y) = (rng.tensor(a), rng.tensor(b));
        let (xs, ys): (Vec<f32>, Vec<f32>) = (x.to_vec().unwrap(), y.to_vec().unwrap());
        let n = out.iter().product::<i64>() as usize;
        let want: Vec<f32> = (0..n).map(|i| xs[source(i, out, a)] - ys[source(i, out, b)]).collect();
        let got = call1("subtract", [x.into(), y.into()], Attrs::new());
        assert_close(&format!("{a:?} - {b:?}"), &got, out, &want, 0.0);
    }
}

#[test]
fn floats() {
    type Reference = fn(f64, f64) -> f64;
    let cases: &[(&str, Reference)] = &[
        ("add", |a, b| a + b),
        ("multiply", |a, b| a * b),
        ("divide", |a, b| a / b),
        ("floor_divide", |a, b| (a / b).floor()),
        ("mod", |a, b| a % b),
        ("floor_mod", |a, b| if a % b != 0.0 && (a % b < 0.0) != (b < 0.0) { a % b + b } else { a % b }),
        ("power", f64::powf),
        ("maximum", |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }),
        ("minimum", |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }),
        ("atan2", f64::atan2),
        (
            "log_add_exp",
            |a, b| if a == b { a + 2f64.ln() } else { a.max(b) + (-(a - b).abs()).exp().ln_1p() },
        ),
    ];
    let specials = [0.0f32, 1.0, -1.5, f32::INFINITY, f32::NAN];
    let mut rng = Rng::new(3);
    for (op, reference) in cases {
        let mut pairs: Vec<(f32, f32)> = (0..20).map(|_| (rng.float(4.0), rng.float(4.0))).collect();
        pairs.extend(specials.iter().flat_map(|&a| specials.iter().map(move |&b| (a, b))));
        let (a, b): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
        let want: Vec<f32> =
            pairs.iter().map(|&(a, b)| reference(f64::from(a), f64::from(b)) as f32).collect();
        let n = a.len() as i64;
        let got = call1(op, [tensor(&a, &[n]).into(), tensor(&b, &[n]).into()], Attrs::new());
        assert_close(op, &got, &[n], &want, 1e-5);
    }
}

#[test]
fn integers_never_trap() {
    let pairs: Vec<(i32, i32)> =
        [-7, -1, 0, 1, 7, 40].iter().flat_map(|&a| [-2, 0, 2, 3, 40].iter().map(move |&b| (a, b))).collect();
    let (a, b): (Vec<i32>, Vec<i32>) = pairs.iter().copied().unzip();
    let floor_div = |a: i32, b: i32| if b == 0 { 0 } else { (f64::from(a) / f64::from(b)).floor() as i32 };
    type Reference<'a> = &'a dyn Fn(i32, i32) -> i32;
    let cases: &[(&str, Reference<'_>)] = &[
        ("add", &|a, b| a.wrapping_add(b)),
        ("divide", &|a, b| a.checked_div(b).unwrap_or(0)),
        ("mod", &|a, b| a.checked_rem(b).unwrap_or(0)),
        ("floor_divide", &floor_div),
        ("floor_mod", &|a, b| if b == 0 { 0 } else { a - floor_div(a, b) * b }),
        ("maximum", &i32::max),
        ("bitwise_and", &|a, b| a & b),
        ("bitwise_xor", &|a, b| a ^ b),
        ("left_shift", &|a, b| if (0..32).contains(&b) { a << b } else { 0 }),
        ("right_shift", &|a, b| a >> if (0..32).contains(&b) { b } else { 31 }),
    ];
    let n = a.len() as i64;
    for (op, reference) in cases {
        let got = call1(op, [tensor(&a, &[n]).into(), tensor(&b, &[n]).into()], Attrs::new());
        let want: Vec<i32> = pairs.iter().map(|&(a, b)| reference(a, b)).collect();
        assert_eq!(got.to_vec::<i32>().unwrap(), want, "{op}");
    }
}

#[test]
fn comparisons_and_logic() {
    let (a, b) = ([1.0f32, 2.0, f32::NAN, 3.0], [1.0f32, 3.0, f32::NAN, 2.0]);
    type Compare = fn(&f32, &f32) -> bool;
    let cases: &[(&str, Compare)] = &[
        ("equal", f32::eq),
        ("not_equal", f32::ne),
        ("less", f32::lt),
        ("less_equal", f32::le),
        ("greater", f32::gt),
        ("greater_equal", f32::ge),
    ];
    for (op, reference) in cases {
        let got = call1(op, [tensor(&a, &[4]).into(), tensor(&b, &[4]).into()], Attrs::new());
        let want: Vec<bool> = a.iter().zip(&b).map(|(a, b)| reference(a, b)).collect();
        assert_eq!(got.to_vec::<bool>().unwrap(), want, "{op}");
    }
    let (p, q) = ([true, true, false, false], [true, false, true, false]);
    type Logic = fn(bool, bool) -> bool;
    let cases: &[(&str, Logic)] = &[
        ("logical_and", |a, b| a & b),
        ("logical_or", |a, b| a | b),
        ("logical_xor", |a, b| a ^ b),
        ("bitwise_or", |a, b| a | b),
    ];
    for (op, reference) in cases {
        let got = call1(op, [tensor(&p, &[4]).into(), tensor(&q, &[4]).into()], Attrs::new());
        let want: Vec<bool> = p.iter().zip(&q).map(|(&a, &b)| reference(a, b)).collect();
        assert_eq!(got.to_vec::<bool>().unwrap(), want, "{op}");
    }
}

#[test]
fn a_scalar_operand_needs_no_tensor() {
    let two = Arg::Prim(PrimExpr::float(2.0, DataType::F32));
    let got = call1("multiply", [tensor(&[1.0f32, 2.5], &[2]).into(), two], Attrs::new());
    assert_close("x * 2", &got, &[2], &[2.0, 5.0], 0.0);
}

/// `x + y + y` over symbolic extents; equal programs are shared, a free dimension becomes an argument.
#[test]
fn symbolic_shapes_and_sharing() {
    let n = PrimExpr::from(Var::index("n"));
    let (x, y) = (param(&[n.clone(), 3.into()], DataType::F32), param(&[3.into()], DataType::F32));
    let mut builder = BlockBuilder::new(IRModule::new());
    let add = Op::get("add").unwrap();
    builder
        .add_function("main", &[x.clone(), y.clone()], |builder| {
            let none = Span::none();
            let a = builder.emit_op("a", add, [x.into(), (&y).into()], Attrs::new(), &none)?;
            let b = builder.emit_op("b", add, [a.into(), (&y).into()], Attrs::new(), &none)?;
            Ok(b.into())
        })
        .unwrap();
    let module = builder.into_module();
    let legal = legalize_ops().apply(module.clone()).unwrap();
    assert_eq!(legal.functions().filter(|(_, func)| matches!(func, BaseFunc::Prim(_))).count(), 1);
    for n in [0i64, 1, 5] {
        let x: Tensor = Rng::new(4).tensor(&[n, 3]);
        let y = tensor(&[1.0f32, 2.0, 3.0], &[3]);
        let want: Vec<f32> = x
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .enumerate()
            .map(|(i, x)| x + 2.0 * (i % 3 + 1) as f32)
            .collect();
        let got = run(module.clone(), &[x, y]).unwrap();
        assert_close("x + y + y", &got[0], &[n, 3], &want, 1e-6);
    }
}

#[test]
fn constants_of_rank_0_are_part_of_the_program() {
    let dims = [PrimExpr::index(2)];
    for (constant, params) in [
        (Tensor::scalar(0.5f32), 2),
        (Tensor::scalar(-3i32), 2),
        (Tensor::scalar(7u8), 2),
        // An immediate does not represent these, and a constant of rank 1 is not a scalar.
        (Tensor::scalar(f32::INFINITY), 3),
        (Tensor::scalar(f32::NAN), 3),
        (Tensor::scalar(u64::MAX), 3),
        (tensor(&[0.5f32], &[1]), 3),
    ] {
        let dtype = constant.dtype();
        let x = param(&dims, dtype);
        let mut builder = BlockBuilder::new(IRModule::new());
        let args = [(&x).into(), Arg::Const(constant.clone())];
        builder
            .add_function("main", &[x], |builder| {
                let multiply = Op::get("multiply").expect("registered");
                Ok(builder.emit_op("y", multiply, args, Attrs::new(), &Span::none())?.into())
            })
            .unwrap();
        let module = builder.into_module();
        let legal = legalize_ops().apply(module.clone()).unwrap();
        let programs = legal.functions().filter_map(|(_, func)| match func {
            BaseFunc::Prim(func) => Some(func.params.len()),
            BaseFunc::Relax(_) | BaseFunc::Extern(_) => None,
        });
        assert_eq!(programs.collect::<Vec<_>>(), [params], "{constant:?}");
        if dtype == DataType::F32 && params == 2 {
            let got = run(module, &[tensor(&[4.0f32, -1.0], &[2])]).unwrap();
            assert_close("x * 0.5", &got[0], &[2], &[2.0, -0.5], 0.0);
        }
    }
}
