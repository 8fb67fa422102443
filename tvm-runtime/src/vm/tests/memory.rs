//! Tests of memory: which run may write to which memory, and when memory is reused.

use super::*;

#[test]
fn kernels_write_only_to_memory_of_their_run() {
    // main(x, y): scale(x, 2, y)
    let into = func(
        "into",
        2,
        3,
        vec![
            I::LoadConst { dst: r(2), index: ConstIdx(0) },
            I::InvokeKernel { kernel: KernelIdx(0), args: regs([0, 2, 1]) },
            I::Ret { src: r(1) },
        ],
    );
    let constant = func(
        "constant",
        1,
        3,
        vec![
            I::LoadConst { dst: r(1), index: ConstIdx(1) },
            I::TailInvoke { func: FuncIdx(1), args: regs([0, 1]) },
        ],
    );
    let mut exe = scale_exe();
    exe.functions.extend([into, constant]);
    exe.constants.push(Constant::Tensor(Tensor::zeros(&[2], DataType::F32).unwrap()));
    let vm = vm(exe);
    let x = floats(&[1., 2.]);
    let earlier = vm.invoke("main", std::slice::from_ref(&x)).unwrap();
    for (name, args) in [
        ("into", vec![x.clone(), floats(&[0., 0.])]),
        ("into", vec![x.clone(), earlier.clone()]),
        ("constant", vec![x.clone()]),
    ] {
        let err = vm.invoke(name, &args).unwrap_err().to_string();
        assert!(err.contains("argument `y` would be written to, but"), "{name}: {err}");
    }
    assert_eq!(earlier.as_tensor().unwrap().as_slice::<f32>().unwrap(), [2., 4.]);
}

#[test]
fn memory_that_was_handed_out_is_not_written_again() {
    use std::sync::Mutex;
    let kept: Arc<Mutex<Vec<Value>>> = Arc::default();
    let keep = kept.clone();
    register_global_func(
        "tvm.test.vm.keep",
        PackedFunc::new(move |args| {
            keep.lock().unwrap().extend_from_slice(args);
            Ok(Value::unit())
        }),
    )
    .unwrap();
    register_global_func(
        "tvm.test.vm.look",
        PackedFunc::typed(|x: Value| x.try_tensor("x")?.as_slice::<f32>().map(|x| f64::from(x[0]))),
    )
    .unwrap();
    let program = |call: Vec<Instruction>| {
        let mut exe = scale_exe();
        exe.packed = vec!["tvm.test.vm.keep".into(), "tvm.test.vm.look".into()];
        let main = &mut exe.functions[0];
        main.num_regs = 10;
        main.code.splice(7..8, call.into_iter().chain([main.code[6].clone()]));
        vm(exe)
    };
    let x = floats(&[1., 2.]);
    let look = I::InvokePacked { dst: r(7), func: PackedIdx(1), args: regs([5]) };
    program(vec![look]).invoke("main", std::slice::from_ref(&x)).unwrap();
    let keep = |reg| I::InvokePacked { dst: r(7), func: PackedIdx(0), args: regs([reg]) };
    let nested = vec![I::AllocADT { dst: r(8), tag: 1, fields: regs([5]) }, keep(8)];
    let cell = vec![I::RefNew { dst: r(8), src: r(6) }, I::RefSet { cell: r(8), src: r(5) }];
    for call in [vec![keep(5)], nested, cell] {
        let err = program(call).invoke("main", std::slice::from_ref(&x)).unwrap_err().to_string();
        assert!(err.contains("was not allocated by this run, or was handed out"), "{err}");
    }
    kept.lock().unwrap().clear();
}

#[test]
fn storages_are_reused_between_calls() {
    let vm = vm(scale_exe());
    let mut workspace = Workspace::new();
    let x = floats(&[1.; 100]);
    let mut call = || {
        let y = vm.invoke_in(&mut workspace, "main", std::slice::from_ref(&x)).unwrap();
        (y.as_tensor().unwrap().data_ptr(), y, workspace.bytes())
    };
    let (_, first, bytes) = call();
    assert_eq!(bytes, 0, "what left with the result is the caller's");
    let (second, y, _) = call();
    assert_ne!(first.as_tensor().unwrap().data_ptr(), second);
    drop(y);
    // A workspace keeps the memory that a program allocates and drops.
    let mut exe = scale_exe();
    exe.functions[0].code.splice(8..9, [I::KillRegister { reg: r(5) }, I::Ret { src: r(1) }]);
    let vm = self::vm(exe);
    for _ in 0..3 {
        vm.invoke_in(&mut workspace, "main", std::slice::from_ref(&x)).unwrap();
        assert_eq!(workspace.bytes(), 400);
    }
    vm.invoke_in(&mut workspace, "main", &[floats(&[1.; 10])]).unwrap();
    assert_eq!(workspace.bytes(), 40, "what the last run had no use for is given back");
    let small = VmConfig { max_bytes: 399, ..VmConfig::default() };
    let err =
        Vm::with_config(scale_exe(), &module(), small).unwrap().invoke("main", std::slice::from_ref(&x));
    assert_eq!(err.unwrap_err().to_string(), "in `main` at 2: memory limit of 399 reached");
}
