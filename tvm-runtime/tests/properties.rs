//! Property tests of tensors, calls and artifacts on random input.

#![allow(clippy::unwrap_used, reason = "a test")]
use ndarray::{Array, ArrayD, IxDyn, Slice};
use proptest::prelude::*;
use tvm_runtime::vm::{Executable, Instruction, IntOpKind, Reg, ValueType, VmFunction, VmParam};
use tvm_runtime::{
    CompiledFn, DataType, DimSig, HostArg, In, Kernel, KernelSig, Out, ParamKind, ParamSig, Tensor,
};

/// An array whose axes are permuted, reversed and sliced: all layouts that ndarray supports.
fn layouts() -> impl Strategy<Value = ArrayD<i32>> {
    let axes = prop::collection::vec((0usize..5, any::<bool>(), 0usize..3, any::<u32>()), 0..4);
    axes.prop_map(|axes| {
        let shape: Vec<usize> = axes.iter().map(|(extent, _, cut, _)| extent + cut).collect();
        let len = shape.iter().product::<usize>() as i32;
        let mut array = Array::from_shape_vec(IxDyn(&shape), (0..len).collect()).expect("as many elements");
        for (axis, &(extent, reverse, ..)) in axes.iter().enumerate() {
            let range = Slice::new(0, Some(extent as isize), if reverse { -1 } else { 1 });
            array.slice_axis_inplace(ndarray::Axis(axis), range);
        }
        let mut order: Vec<usize> = (0..axes.len()).collect();
        order.sort_by_key(|&axis| axes[axis].3);
        array.permuted_axes(order)
    })
}

fn copy_kernel(rank: usize) -> Kernel {
    let dims: Vec<DimSig> = (0..rank).map(|axis| DimSig::Var(format!("n{axis}"))).collect();
    let param =
        |name: &str, kind| ParamSig { name: name.into(), kind, dtype: DataType::I32, shape: dims.clone() };
    let params = vec![param("x", ParamKind::In), param("y", ParamKind::Out)];
    Kernel::host(KernelSig { name: "copy".into(), params }, |args| {
        if let [HostArg::In(x), HostArg::Out(y)] = args {
            y.bytes_mut().copy_from_slice(x.bytes());
        }
        Ok(())
    })
}

fn value_types() -> impl Strategy<Value = ValueType> {
    let dims = prop_oneof![
        any::<i64>().prop_map(DimSig::Const),
        "[a-z]{1,3}".prop_map(DimSig::Var),
        ".{0,8}".prop_map(DimSig::Expr),
    ];
    let dtype = prop::sample::select(DataType::all().collect::<Vec<_>>());
    let shape = prop::option::of(prop::collection::vec(dims, 0..4));
    let leaf = prop_oneof![
        (prop::option::of(dtype), shape).prop_map(|(dtype, shape)| ValueType::Tensor { dtype, shape }),
        prop::option::of(any::<u32>()).prop_map(ValueType::Shape),
        Just(ValueType::Int),
        Just(ValueType::Object),
        ".{0,8}".prop_map(ValueType::Adt),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(ValueType::Tuple),
            (prop::collection::vec(inner.clone(), 0..3), inner.clone())
                .prop_map(|(params, ret)| ValueType::Func(params, Box::new(ret))),
            inner.prop_map(|inner| ValueType::Ref(Box::new(inner))),
        ]
    })
}

proptest! {
    #[test]
    fn any_array_becomes_an_equal_tensor(array in layouts()) {
        let tensor = Tensor::from_array(array.clone()).unwrap();
        prop_assert_eq!(&tensor.to_array::<i32>().unwrap(), &array);
        let bytes = tensor.bytes().unwrap();
        prop_assert_eq!(Tensor::from_bytes(bytes, tensor.shape(), tensor.dtype()).unwrap(), tensor.clone());
        let flat = tensor.reshape(&[tensor.len() as i64]).unwrap();
        prop_assert_eq!(flat.reshape(tensor.shape()).unwrap(), tensor);
    }

    #[test]
    fn calls_take_exactly_the_standard_layouts(array in layouts()) {
        macro_rules! check {
            ($rank:literal) => {{
                let copy = CompiledFn::<(In<i32, $rank>, Out<i32, $rank>)>::new(copy_kernel($rank)).unwrap();
                let mut y = ArrayD::zeros(array.raw_dim());
                let res = copy.call(&array, &mut y);
                prop_assert_eq!(res.is_ok(), array.is_standard_layout(), "{:?}", res);
                if res.is_ok() {
                    prop_assert_eq!(&y, &array);
                }
                let mut other = array.clone();
                let res = copy.call(&y, &mut other);
                prop_assert_eq!(res.is_ok(), other.is_standard_layout(), "{:?}", res);
            }};
        }
        match array.ndim() {
            0 => check!(0),
            1 => check!(1),
            2 => check!(2),
            _ => check!(3),
        }
    }

    #[test]
    fn integer_operations_agree_with_wide_ones(lhs: i64, rhs: i64, small in -9i64..10) {
        for (lhs, rhs) in [(lhs, rhs), (lhs, small), (small, rhs), (small, lhs % 10)] {
            let (a, b) = (i128::from(lhs), i128::from(rhs));
            let floor = |a: i128, b: i128| (b != 0).then(|| a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0));
            let div = floor(a, b).filter(|_| rhs != -1 || lhs != i64::MIN);
            for (op, expected) in [
                (IntOpKind::Add, Some(a + b)),
                (IntOpKind::Sub, Some(a - b)),
                (IntOpKind::Mul, Some(a * b)),
                (IntOpKind::FloorDiv, div),
                (IntOpKind::FloorMod, div.map(|div| a - div * b)),
                (IntOpKind::Min, Some(a.min(b))),
                (IntOpKind::Ge, Some((a >= b).into())),
            ] {
                let expected = expected.and_then(|value| i64::try_from(value).ok());
                prop_assert_eq!(op.eval(lhs, rhs), expected, "{:?} {} {}", op, lhs, rhs);
            }
        }
    }

    #[test]
    fn artifacts_keep_types_and_names(
        types in prop::collection::vec((".{0,12}", value_types()), 0..5),
        metadata in prop::collection::vec((".{0,12}", ".{0,12}"), 0..3),
        ret in value_types(),
    ) {
        let params: Vec<_> = types.into_iter().map(|(name, ty)| VmParam { name, ty }).collect();
        let num_regs = params.len() as u32 + 1;
        let code = vec![Instruction::Ret { src: Reg(num_regs - 1) }];
        let main = VmFunction { name: "main".into(), params, ret, num_regs, public: false, code };
        let exe = Executable { functions: vec![main], metadata, ..Executable::default() };
        prop_assert_eq!(Executable::load(&exe.save().unwrap()).unwrap(), exe);
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Executable::load(&bytes).is_err());
        prop_assert!(Executable::load_ignoring_checksums(&bytes).is_err());
    }
}
