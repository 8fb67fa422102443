//! Tests of in-place calls: a tensor that nobody else has is written where it is, any other is copied first.

use super::*;

/// `z = z + x` in the memory of `z`.
fn accumulate() -> Module {
    let mut sig = sig("accumulate");
    sig.params.remove(1);
    let kernel = Kernel::host(sig, |args| {
        let [HostArg::In(x), HostArg::Out(z)] = args else { return Err(RuntimeError::other("kinds")) };
        z.as_mut_slice::<f32>()?.iter_mut().zip(x.as_slice::<f32>()?).for_each(|(z, x)| *z += x);
        Ok(())
    });
    Module::new([kernel]).unwrap()
}

fn program(num_params: usize, code: Vec<Instruction>, config: VmConfig) -> Vm {
    let kernels = accumulate().iter().map(|kernel| kernel.signature().clone()).collect();
    let exe = Executable { kernels, ..exe(vec![func("main", num_params, 8, code)]) };
    Vm::with_config(exe, &accumulate(), config).unwrap()
}

/// `main(z, x)` = `z + x`, in the memory of `z` if nobody else has it.
fn in_place() -> Vec<Instruction> {
    vec![
        I::MakeUnique { dst: r(2), src: r(0) },
        I::InvokeKernel { kernel: KernelIdx(0), args: regs([1, 2]) },
        I::Ret { src: r(2) },
    ]
}

fn data(value: &Value) -> Vec<f32> {
    value.as_tensor().unwrap().to_vec().unwrap()
}

fn address(value: &Value) -> usize {
    value.as_tensor().unwrap().data_ptr().addr()
}

#[test]
fn an_argument_that_is_given_away_is_written_in_place() {
    let vm = program(2, in_place(), VmConfig::default());
    let x = floats(&[1., 2.]);
    let mut z = floats(&[0., 0.]);
    let at = address(&z);
    for _ in 0..3 {
        z = vm.invoke("main", [z, x.clone()]).unwrap();
        assert_eq!(address(&z), at);
    }
    assert_eq!(data(&z), [3., 6.]);
    // Also in another virtual machine, and after a view of it.
    let view = z.as_tensor().unwrap().reshape(&[1, 2]).unwrap();
    let z = program(2, in_place(), VmConfig::default()).invoke("main", [z, x.clone()]).unwrap();
    assert_eq!((data(&z), view.to_vec::<f32>().unwrap()), (vec![4., 8.], vec![3., 6.]));
    assert_ne!(address(&z), at);
}

#[test]
fn what_others_have_is_copied() {
    let vm = program(2, in_place(), VmConfig::default());
    let (z, x) = (floats(&[1., 1.]), floats(&[1., 2.]));
    let kept = z.clone();
    let sum = vm.invoke("main", [z, x.clone()]).unwrap();
    assert_eq!((data(&sum), data(&kept)), (vec![2., 3.], vec![1., 1.]));
    let sum = vm.invoke("main", &[kept.clone(), x.clone()]).unwrap();
    assert_eq!((data(&sum), data(&kept)), (vec![2., 3.], vec![1., 1.]));
    // z + z reads what it writes.
    let err = vm.invoke("main", [Value::Int(1), x.clone()]).unwrap_err().to_string();
    assert!(err.contains("expected a tensor"), "{err}");
    let fixed = Tensor::from_storage(crate::Storage::from_static(&[0; 8]), 0, &[4], DataType::U16);
    let err = vm.invoke("main", [Value::from(fixed.unwrap()), x.clone()]).unwrap_err().to_string();
    assert!(
        err.contains("element type"),
        "memory of the program is copied, then the kernel looks at it: {err}"
    );
    let small = program(2, in_place(), VmConfig { max_bytes: 7, ..VmConfig::default() });
    let err = small.invoke("main", &[kept, x]).unwrap_err().to_string();
    assert!(err.contains("memory limit of 7"), "{err}");
}

#[test]
fn tensors_of_the_run_are_written_in_place_unless_they_are_used_again() {
    let (storage, shape) = (r(3), || [2].into());
    let (dtype, device) = (DataType::F32, Device::cpu());
    let alloc = |dst| I::AllocTensor { dst, storage, offset: 0.into(), dtype, shape: shape() };
    let begin = || {
        vec![
            I::AllocStorage { dst: storage, size: 8.into(), align: 64, device },
            alloc(r(4)),
            I::KillRegister { reg: storage },
            I::InvokeKernel { kernel: KernelIdx(0), args: regs([0, 4]) },
        ]
    };
    let pair = |first, second| {
        vec![I::AllocADT { dst: r(7), tag: 0, fields: regs([first, second]) }, I::Ret { src: r(7) }]
    };
    let x = floats(&[1., 2.]);
    let run = |code| {
        let vm = program(1, code, VmConfig::default());
        let res = vm.invoke("main", std::slice::from_ref(&x)).unwrap();
        let fields = res.as_adt().unwrap().fields().to_vec();
        (address(&fields[0]) == address(&fields[1]), data(&fields[0]), data(&fields[1]))
    };
    // b = (a in place) + x; (b, b)
    let mut code = begin();
    code.extend([
        I::MakeUnique { dst: r(5), src: r(4) },
        I::InvokeKernel { kernel: KernelIdx(0), args: regs([0, 5]) },
    ]);
    code.extend(pair(5, 5));
    let (same, b, _) = run(code);
    assert!(same);
    // b = (a in place) + x; (a, b): `a` is used again.
    let mut code = begin();
    code.extend([
        I::Move { dst: r(6), src: r(4) },
        I::MakeUnique { dst: r(5), src: r(6) },
        I::InvokeKernel { kernel: KernelIdx(0), args: regs([0, 5]) },
    ]);
    code.extend(pair(4, 5));
    let (same, a, b_again) = run(code);
    assert!(!same);
    assert_eq!((&b, b_again[0] - a[0], b_again[1] - a[1]), (&vec![b[0], b[1]], 1., 2.));
}

#[test]
fn a_tensor_that_replaces_its_storage_has_it_alone() {
    let (reg, dtype) = (r(3), DataType::F32);
    let alloc = |dst| I::AllocTensor { dst, storage: reg, offset: 0.into(), dtype, shape: [2].into() };
    let storage = I::AllocStorage { dst: reg, size: 8.into(), align: 64, device: Device::cpu() };
    let update = |dst, src| {
        let call = I::InvokeKernel { kernel: KernelIdx(0), args: regs([0, dst]) };
        vec![I::MakeUnique { dst: r(dst), src: r(src) }, call, I::Ret { src: r(dst) }]
    };
    let run = |code: Vec<I>| {
        let mut workspace = Workspace::new();
        let vm = program(1, code, VmConfig::default());
        let sum = vm.invoke_in(&mut workspace, "main", &[floats(&[1., 2.])])?;
        Ok::<_, RuntimeError>((data(&sum).len(), workspace.bytes()))
    };
    // The result is in the storage; a copy of it would leave the storage in the workspace.
    assert_eq!(run([vec![storage.clone(), alloc(reg)], update(4, 3)].concat()).unwrap(), (2, 0));
    assert_eq!(run([vec![storage.clone(), alloc(r(5))], update(4, 5)].concat()).unwrap(), (2, 8));
    let err = run(vec![storage, alloc(reg), alloc(reg), I::Ret { src: reg }]).unwrap_err().to_string();
    assert!(err.contains("alloc_tensor: expected a storage, got a tensor"), "{err}");
}

#[test]
fn a_result_that_somebody_has_is_not_recycled() {
    let vm = vm(scale_exe());
    let mut workspace = Workspace::new();
    let mut call = |x: f32| vm.invoke_in(&mut workspace, "main", [floats(&[x])]).unwrap();
    let first = call(1.);
    let kept = first.clone();
    let view = kept.as_tensor().unwrap().reshape(&[1, 1]).unwrap();
    workspace.recycle(first);
    assert_eq!(workspace.bytes(), 0);
    workspace.recycle(kept);
    assert_eq!(workspace.bytes(), 0, "the view still has it");
    assert_eq!(view.to_vec::<f32>().unwrap(), [2.]);
    let text = Value::from("text");
    workspace.recycle(text);
    let list = Value::tuple([floats(&[1.; 8]), Value::tuple([floats(&[1.; 8])]), Value::from(vec![1, 2])]);
    workspace.recycle(list);
    assert_eq!(workspace.bytes(), 32, "what is nested more deeply is dropped");
    let again = vm.invoke_in(&mut workspace, "main", [floats(&[3.; 8])]).unwrap();
    assert_eq!(data(&again), [6.; 8]);
}
