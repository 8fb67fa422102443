//! Tests of linked models and of typed calls of them.

use ndarray::{Array2, ArrayD};

use super::*;
use crate::abi::{ABI_VERSION, CallContext, KernelArg};
use crate::kernel::{DimSig, KernelSig, ParamKind, ParamSig};
use crate::vm::{Constant, Instruction, KernelIdx, Reg, ValueType, VmFunction, VmParam};
use crate::{DataType, Device, DimBound, ModelInput, Tensor, TypedTensor};

/// `c[i] = a[i] + b[i]` over two rows of three.
unsafe extern "C" fn add(args: *const KernelArg, _: i32, _: *mut CallContext) -> i32 {
    // SAFETY: called with three tensors of six elements, as the signature says.
    unsafe {
        let [a, b, c] = [0, 1, 2].map(|i| (*(*args.add(i)).tensor).data.cast::<f32>());
        (0..6).for_each(|i| *c.add(i) = *a.add(i) + *b.add(i));
    }
    0
}

static TABLE: KernelTable = KernelTable { abi_version: ABI_VERSION, entries: &[("add", add)] };

fn program() -> Executable {
    let dims = |n: DimSig| vec![n, DimSig::Const(3)];
    let sym = || DimSig::Var("n".into());
    let ty = |n| ValueType::Tensor { dtype: Some(DataType::F32), shape: Some(dims(n)) };
    let param = |name: &str, kind| ParamSig {
        name: name.into(),
        kind,
        dtype: DataType::F32,
        shape: dims(DimSig::Const(2)),
    };
    let param_of = |name: &str| VmParam { name: name.into(), ty: ty(sym()) };
    let code = vec![
        Instruction::ShapeDim { dst: Reg(2), src: Reg(0), axis: 0 },
        Instruction::CheckBound {
            src: Reg(2),
            bound: DimBound::between(2, 4).unwrap(),
            dim: "n".into(),
            arg: "a".into(),
            axis: Some(0),
        },
        Instruction::AllocStorage { dst: Reg(2), size: 24.into(), align: 64, device: Device::cpu() },
        Instruction::AllocTensor {
            dst: Reg(3),
            storage: Reg(2),
            offset: 0.into(),
            dtype: DataType::F32,
            shape: [2, 3].into(),
        },
        Instruction::InvokeKernel { kernel: KernelIdx(0), args: [Reg(0), Reg(1), Reg(3)].into() },
        Instruction::Ret { src: Reg(3) },
    ];
    let main = VmFunction {
        name: "main".into(),
        params: vec![param_of("a"), param_of("b")],
        ret: ty(sym()),
        num_regs: 4,
        public: true,
        code,
    };
    let sig = KernelSig {
        name: "add".into(),
        params: vec![param("a", ParamKind::In), param("b", ParamKind::In), param("c", ParamKind::Out)],
    };
    let constant = Constant::Tensor(Tensor::from_slice(&[1f32], &[1]).unwrap());
    Executable { functions: vec![main], kernels: vec![sig], constants: vec![constant], ..Default::default() }
}

fn load(bytes: Vec<u8>, table: &KernelTable) -> Result<LinkedModel, RuntimeError> {
    // SAFETY: `add` does what the program's signature says.
    unsafe { LinkedModel::load(bytes.leak(), table, VmConfig::default()) }
}

fn run<A: ModelInput<f32, 2>, B: ModelInput<f32, 2>>(a: A, b: B) -> Result<Vec<f32>, RuntimeError> {
    let model = load(program().save()?, &TABLE)?;
    let mut outputs = model.call("main")?.input::<f32, 2>(a)?.input::<f32, 2>(b)?.run()?;
    let out: TypedTensor<f32, 2> = outputs.typed()?;
    assert_eq!((out.shape(), out.view().dim()), ([2, 3], (2, 3)));
    assert!(outputs.value().is_err());
    Ok(out.as_slice().to_vec())
}

#[test]
fn arguments_of_every_kind() {
    fn shared<T: Send + Sync>() {}
    shared::<LinkedModel>();
    let values = [1f32, 2., 3., 4., 5., 6.];
    let array = Array2::from_shape_vec((2, 3), values.to_vec()).unwrap();
    let tensor = Tensor::from_slice(&values, &[2, 3]).unwrap();
    let transposed = Array2::from_shape_fn((3, 2), |(j, i)| array[[i, j]]);
    let typed = TypedTensor::<f32, 2>::try_from(tensor.clone()).unwrap();
    let (list, dynamic) = (values.to_vec(), array.clone().into_dyn());
    let expected = values.map(|it| 2. * it);
    for got in [
        run(&array, array.view()),
        run(array.clone(), transposed.t()),
        run(&tensor, tensor.clone()),
        run(&typed, typed.clone()),
        run(&values, &values[..]),
        run(list.clone(), &list),
        run(&dynamic, &tensor),
    ] {
        assert_eq!(got.unwrap(), expected);
    }
}

#[test]
fn arguments_that_do_not_fit() {
    let good = [0f32; 6];
    let tensor = |shape: &[i64], dtype| Tensor::zeros(shape, dtype).unwrap();
    let f32s = |shape: &[i64]| tensor(shape, DataType::F32);
    let cases = [
        (
            run(f32s(&[5, 3]), f32s(&[5, 3])),
            "argument `a`: axis 0 is 5, dimension `n` was compiled for 2..=4",
        ),
        (
            run(f32s(&[1, 3]), f32s(&[1, 3])),
            "argument `a`: axis 0 is 1, dimension `n` was compiled for 2..=4",
        ),
        (run(f32s(&[2, 4]), &good), "argument `a`: axis 1 is 4, expected 3"),
        (run(&good, f32s(&[3, 3])), "argument `b`: axis 0 is 3, expected 2 (= n)"),
        (run(&good, f32s(&[6])), "argument `b`: rank is 1, expected 2"),
        (run(&good, tensor(&[2, 3], DataType::F64)), "argument `b`: element type is f64, expected f32"),
        (run(&good, ArrayD::zeros(vec![2, 3, 1])), "argument `b`: rank is 3, expected 2"),
        (run(&[0f32; 7], &good), "argument `a`: 7 element(s) do not make a Tensor<f32, n, 3>"),
        (run(&good, &[0f32; 9]), "argument `b`: 9 element(s) do not make a Tensor<f32, n, 3>"),
    ];
    for (got, expected) in cases {
        let message = got.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}\nexpected: {expected}");
    }
    let model = load(program().save().unwrap(), &TABLE).unwrap();
    assert!(matches!(model.call("other").err(), Some(RuntimeError::NotFound { .. })));
    let call = model.call("main").unwrap().input::<f32, 2>(&good).unwrap();
    assert!(matches!(call.run().err(), Some(RuntimeError::ArgCount { expected: 2, got: 1, .. })));
}

#[test]
fn constants_stay_in_the_application() {
    let bytes = program().save().unwrap();
    let aligned = Box::leak(Box::new(Aligned([0u8; 4096])));
    aligned.0[..bytes.len()].copy_from_slice(&bytes);
    let bytes: &'static [u8] = &aligned.0[..bytes.len()];
    // SAFETY: as in `load`.
    let model = unsafe { LinkedModel::load(bytes, &TABLE, VmConfig::default()) }.unwrap();
    let Constant::Tensor(tensor) = &model.vm().executable().constants[0] else { panic!("a tensor") };
    assert!(bytes.as_ptr_range().contains(&tensor.data_ptr().cast_const()));
}

#[test]
fn other_versions_are_named() {
    let other = crate::artifact::with_abi(program().save().unwrap(), ABI_VERSION + 1);
    let message = load(other, &TABLE).unwrap_err().to_string();
    let (theirs, ours, version) = (ABI_VERSION + 1, ABI_VERSION, env!("CARGO_PKG_VERSION"));
    assert_eq!(
        message,
        format!(
            "artifact for ABI version {theirs} (made by tvm {version}), this runtime has version {ours}; compile it again"
        )
    );
    let table = KernelTable { abi_version: theirs, ..TABLE };
    let err = load(program().save().unwrap(), &table).unwrap_err();
    assert!(
        matches!(err, RuntimeError::AbiVersion { expected, got, .. } if (expected, got) == (ours, theirs))
    );
    let none = KernelTable { entries: &[], ..TABLE };
    assert_eq!(load(program().save().unwrap(), &none).unwrap_err().to_string(), "not found: kernel `add`");
}

/// Where a model runs; `gpu` says whether a program for GPUs is embedded.
fn load_on(gpu: bool, device: Option<Device>, config: VmConfig) -> Result<LinkedModel, RuntimeError> {
    let on_host = KernelTable { entries: &[], ..TABLE };
    let gpu = gpu.then_some(EmbeddedGpu { artifact: b"damaged", on_host });
    let tables = Box::leak(Box::new([(None, TABLE)]));
    let model = EmbeddedModel { artifact: program().save()?.leak(), tables, gpu };
    // SAFETY: `add` does what the program's signature says.
    unsafe { LinkedModel::load_on(&model, device, config) }
}

#[test]
fn a_device_is_chosen() {
    let config = VmConfig::default;
    for (gpu, device) in [(false, None), (false, Some(Device::cpu())), (true, Some(Device::cpu()))] {
        let model = load_on(gpu, device, config()).unwrap();
        assert!(model.device() == Device::cpu() && model.no_gpu().is_none());
    }
    let elsewhere = [Device::cuda(0), Device::cuda(1), Device::cuda(-1), Device::virtual_cpu(1)];
    for (gpu, device) in
        elsewhere.map(|it| (false, it)).into_iter().chain(elsewhere[1..].iter().map(|it| (true, *it)))
    {
        let err = load_on(gpu, Some(device), config()).unwrap_err();
        let has: &[Device] = if gpu { &[Device::cpu(), Device::cuda(0)] } else { &[Device::cpu()] };
        assert!(
            matches!(&err, RuntimeError::NoCode { device: it, has: all } if (*it, &all[..]) == (device, has)),
            "{err}"
        );
    }
    let message = load_on(false, Some(Device::cuda(0)), config()).unwrap_err().to_string();
    let expected = "the application has no code for cuda:0, only for cpu:0\n  help: a build script embeds code for GPUs by \
                    `.gpu([\"sm_80\"])`; it runs on cuda:0";
    assert_eq!(message, expected);
    // A CPU level asks for the host, and this program has none.
    let level = VmConfig { cpu_level: Some("x86-64".into()), ..config() };
    assert!(matches!(load_on(true, None, level), Err(RuntimeError::CpuLevel { .. })));
}

/// Code for GPUs that cannot be used because of how the application was built is an error, and one of the machine is none.
#[test]
fn what_hides_code_for_gpus() {
    for device in [None, Some(Device::cuda(0))] {
        let res = load_on(true, device, VmConfig::default());
        if cfg!(not(feature = "cuda")) {
            let err = res.unwrap_err();
            assert!(matches!(err, RuntimeError::Unsupported { feature: "cuda", .. }), "{err}");
        } else if Device::cuda(0).exists() {
            assert!(matches!(res, Err(RuntimeError::Artifact(_))), "{res:?}");
        } else if device.is_some() {
            assert!(matches!(res, Err(RuntimeError::DeviceFailure { .. })), "{res:?}");
        } else {
            assert!(matches!(res.unwrap().no_gpu(), Some(RuntimeError::DeviceFailure { .. })));
        }
    }
}
