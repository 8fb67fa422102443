//! Narrow element types: conversions in both directions, operators that refuse them, and reinterpretation of bits.

use tvm_core::target::Target;
use tvm_onnx::proto::{AttributeProto, ElemType, TensorProto};
use tvm_runtime::Tensor;

use crate::build::{Build, assert_near, compiled, floats, int, longs, model, node, refusal, run};

/// Converts `x` to the type `elem` and back.
fn there_and_back(elem: ElemType, more: Vec<AttributeProto>, values: &[f32]) -> Vec<f32> {
    let len = values.len().to_string();
    let there = node("Cast", "x", "n", [vec![int("to", elem as i64)], more].concat());
    let nodes = vec![there, node("Identity", "n", "m", vec![]), node("Cast", "m", "y", vec![int("to", 1)])];
    let model = model(25, nodes).input("x", &len).output("y");
    let x = floats(values, &[values.len() as i64]);
    let results = [Target::interpreter(), Target::host()].map(|target| {
        run(&compiled(&model, &target).unwrap(), std::slice::from_ref(&x)).remove(0).to_vec::<f32>().unwrap()
    });
    let bits = |values: &[f32]| values.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&results[0]), bits(&results[1]));
    results[0].clone()
}

#[test]
fn conversions() {
    let inf = f32::INFINITY;
    let x = [0.0, -0.0, 1.0, -1.06, 0.0009, 447.0, 1e6, -1e6, inf, -inf, f32::NAN];
    let cases: &[(ElemType, i64, [f32; 11])] = &[
        (
            ElemType::Float8E4m3fn,
            1,
            [0.0, -0.0, 1.0, -1.0, 0.0, 448.0, 448.0, -448.0, 448.0, -448.0, f32::NAN],
        ),
        (
            ElemType::Float8E5m2,
            1,
            [0.0, -0.0, 1.0, -1.0, 0.000_854_492_2, 448.0, 57344.0, -57344.0, 57344.0, -57344.0, f32::NAN],
        ),
        (
            ElemType::Float8E5m2,
            0,
            [0.0, -0.0, 1.0, -1.0, 0.000_854_492_2, 448.0, inf, -inf, inf, -inf, f32::NAN],
        ),
        (
            ElemType::Float8E4m3fnuz,
            1,
            [0.0, 0.0, 1.0, -1.0, 0.000_976_562_5, 240.0, 240.0, -240.0, 240.0, -240.0, f32::NAN],
        ),
        (ElemType::Float4E2m1, 1, [0.0, -0.0, 1.0, -1.0, 0.0, 6.0, 6.0, -6.0, 6.0, -6.0, -0.0]),
    ];
    for (elem, saturate, want) in cases {
        let got = there_and_back(*elem, vec![int("saturate", *saturate)], &x);
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(got.iter().zip(want).all(same), "{elem:?}: {got:?}");
    }
    // Exponents are rounded up; integers keep their low bits.
    assert_eq!(there_and_back(ElemType::Float8E8m0, vec![], &[1.0, 1.1, 0.25]), [1.0, 2.0, 0.25]);
    assert_eq!(
        there_and_back(ElemType::Int4, vec![], &[7.0, 8.0, -8.0, -9.0, 3.7]),
        [7.0, -8.0, -8.0, 7.0, 3.0]
    );
    assert_eq!(there_and_back(ElemType::Uint2, vec![], &[3.0, 4.0, -1.0]), [3.0, 0.0, 3.0]);
}

/// Every value of an 8-bit float is unchanged by a conversion to `f32` and back.
#[test]
fn every_element_is_its_own_nearest() {
    for elem in [ElemType::Float8E4m3fn, ElemType::Float8E5m2, ElemType::Float8E5m2fnuz, ElemType::Float4E2m1]
    {
        let proto = TensorProto {
            dims: vec![if elem == ElemType::Float4E2m1 { 16 } else { 256 }],
            data_type: elem as i32,
            name: "c".into(),
            raw_data: match elem {
                ElemType::Float4E2m1 => {
                    (0..8).map(|it| (it * 2) | ((it * 2 + 1) << 4)).collect::<Vec<u8>>().into()
                }
                _ => (0..=255).collect::<Vec<u8>>().into(),
            },
            ..TensorProto::default()
        };
        let nodes = vec![
            node("Cast", "c", "wide", vec![int("to", 1)]),
            node("CastLike", "wide c", "narrow", vec![]),
            node("Cast", "narrow", "again", vec![int("to", 1)]),
        ];
        let mut model = model(25, nodes).output("wide").output("again");
        model.graph.as_mut().unwrap().initializer.push(proto);
        let got = run(&compiled(&model, &Target::interpreter()).unwrap(), &[]);
        let [wide, again] = [0, 1].map(|i| got[i].to_vec::<f32>().unwrap());
        for (a, b) in wide.iter().zip(&again) {
            // Infinities saturate.
            assert!(a == b || a.is_nan() && b.is_nan() || a.is_infinite(), "{elem:?}: {a} became {b}");
        }
    }
}

#[test]
fn quantised_narrow_numbers() {
    let x = floats(&[-30.0, -1.1, 0.4, 2.6, 40.0], &[5]);
    let scale = Tensor::scalar(2.0f32);
    let nodes = vec![
        node("QuantizeLinear", "x s", "q", vec![int("output_dtype", ElemType::Int4 as i64)]),
        node("DequantizeLinear", "q s", "y", vec![]),
    ];
    let model = model(21, nodes).input("x", "5").output("q").output("y").constant("s", &scale);
    let got = run(&compiled(&model, &Target::interpreter()).unwrap(), &[x]);
    assert_eq!(got[0].to_vec::<i8>().unwrap(), [-8, -1, 0, 1, 7]);
    assert_near(&got[1], &floats(&[-16.0, -2.0, 0.0, 2.0, 14.0], &[5]), "back");
}

#[test]
fn scales_per_block() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let scales = floats(&[1.0, 0.5, 2.0, 1.0], &[2, 2]);
    let attrs = vec![int("axis", 1), int("block_size", 2)];
    let quantize = node("QuantizeLinear", "x s", "y", attrs);
    let model = model(21, vec![quantize]).input("x", "2 3").output("y").constant("s", &scales);
    let got = run(&compiled(&model, &Target::interpreter()).unwrap(), &[x]);
    assert_eq!(got[0].to_vec::<u8>().unwrap(), [1, 2, 6, 2, 2, 6]);
}

#[test]
fn bits_are_not_taken_for_numbers() {
    let cast = |op: &str| {
        let nodes = vec![
            node("Cast", "x", "n", vec![int("to", ElemType::Float8E4m3fn as i64)]),
            node(op, if op == "Add" { "n n" } else { "n c" }, "y", vec![]),
        ];
        model(21, nodes).input("x", "2").output("y").constant("c", &longs(&[2, 1]))
    };
    let err = refusal(&cast("Add"));
    assert!(err.contains("Add: elements of type float8_e4m3fn"), "{err}");
    assert!(compiled(&cast("Reshape"), &Target::interpreter()).is_ok());
}

#[test]
fn bits() {
    let x = floats(&[1.0, -0.0], &[2]);
    let model =
        |to: i64| model(26, vec![node("BitCast", "x", "y", vec![int("to", to)])]).input("x", "2").output("y");
    for target in [Target::interpreter(), Target::host()] {
        let got = run(&compiled(&model(6), &target).unwrap(), std::slice::from_ref(&x)).remove(0);
        assert_eq!(got.to_vec::<i32>().unwrap(), [0x3f80_0000, i32::MIN]);
    }
    assert!(refusal(&model(7)).contains("not as large as"));
}
