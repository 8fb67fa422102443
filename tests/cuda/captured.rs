//! Captured calls: the same bits as plain calls, memory of their own, and errors for what cannot be captured.

use std::sync::Arc;

use tvm::codegen::{Compiled, compile_module};
use tvm::prelude::*;
use tvm::runtime::vm::{CapturedCall, Instruction, IntOperand, Vm, VmConfig};
use tvm::runtime::{PackedFunc, Value};
use tvm_testing::fake_gpu;

use super::child::{log, on_any_gpu, on_gpu, on_gpu_with};
use super::models::{floats, numbers, tensor, there};

/// Writes to memory that was freed end the process.
const WATCH: &str = "watch=1";

#[relax::func(name = "main")]
fn mlp(x: Tensor<f32, n, 3>) -> (Tensor<f32, n, 2>, Tensor<f32, n, 3>) {
    let w = constant::<f32, 3, 2>([1.0, -1.0, 0.5, 2.0, 3.0, 0.25]);
    let h = relu(matmul(x, w)) + constant::<f32, 2>([0.5, -0.5]);
    (softmax(h, axis = 1), x + x)
}

#[relax::func(name = "main")]
fn attention(
    q: Tensor<f32, 2, 6, 8>,
    kt: Tensor<f32, 2, 8, 6>,
    v: Tensor<f32, 2, 6, 8>,
) -> Tensor<f32, 2, 6, 8> {
    let p = softmax(matmul(q, kt) * 0.35, axis = 2);
    matmul(p, v) + q
}

const ATTENTION: [[i64; 3]; 3] = [[2, 6, 8], [2, 8, 6], [2, 6, 8]];

/// Its parts are added by a second kernel, through memory between kernels.
#[relax::func(name = "main")]
fn long_sums(x: Tensor<f32, 2, 60000>) -> Tensor<f32, 2> {
    sum(x * 2.0, axis = 1)
}

#[relax::func(name = "main")]
fn lookup(x: Tensor<f32, 3, 2>, at: Tensor<i64, k>) -> Tensor<f32, k, 2> {
    take(x, at, axis = 0) + constant::<f32, 2>([0.5, 1.5])
}

fn vm(module: &IRModule, target: &Target) -> Arc<Vm> {
    Arc::new(compile_module(module, target).unwrap())
}

fn gpu(module: Result<IRModule, tvm::ir::IrError>) -> Arc<Vm> {
    vm(&module.unwrap(), &Target::cuda())
}

/// The elements of all tensors of a result.
fn all(result: &Value) -> Vec<Vec<f32>> {
    match result.as_adt() {
        Some(tuple) => tuple.fields().iter().map(floats).collect(),
        None => vec![floats(result)],
    }
}

fn capture(vm: &Arc<Vm>, args: &[Value]) -> CapturedCall {
    vm.capture("main", args).unwrap()
}

#[test]
fn runs_are_those_of_plain_calls() {
    on_gpu("captured::runs_are_those_of_plain_calls", WATCH, || {
        let (mlp, attention) = (gpu(mlp::module()), gpu(attention::module()));
        let cases: [(&Arc<Vm>, &[&[i64]]); 2] =
            [(&mlp, &[&[4, 3]]), (&attention, &[&ATTENTION[0], &ATTENTION[1], &ATTENTION[2]])];
        for (vm, shapes) in cases {
            let args = |seed| shapes.iter().map(|it| numbers(it, seed)).collect::<Vec<_>>();
            let mut call = capture(vm, &args(0));
            assert!(call.launches().unwrap() >= 2, "{call:?}");
            let mut kept = Vec::new();
            for seed in 1..5 {
                let args = args(seed);
                let want = all(&vm.invoke("main", &args).unwrap());
                let before = (log("launch").len(), log("graph").len());
                let got = call.run(&args).unwrap();
                assert_eq!((log("launch").len(), log("graph").len()), (before.0, before.1 + 1));
                assert_eq!(all(&got), want);
                kept.push((got, want.clone()));
                // From the device, and to the host.
                let args: Vec<Value> = args.iter().map(there).collect();
                assert_eq!(all(&call.run(&args).unwrap()), want);
                let got = call.run_to(Device::cpu(), &args).unwrap();
                let first = got.as_adt().map_or(&got, |it| &it.fields()[0]).as_tensor().unwrap();
                assert_eq!(first.device(), Device::cpu());
                assert_eq!(all(&got), want);
            }
            // Later runs leave results alone.
            assert!(kept.iter().all(|(got, want)| all(got) == *want));
        }
    });
}

#[test]
fn memory_is_its_own() {
    on_gpu("captured::memory_is_its_own", WATCH, || {
        let (sums, mlp) = (gpu(long_sums::module()), gpu(mlp::module()));
        let x = |seed| [numbers(&[2, 60_000], seed)];
        let mut first = capture(&sums, &x(0));
        let mut second = capture(&sums, &x(1));
        let mut other = capture(&mlp, &[numbers(&[4, 3], 0)]);
        for seed in 2..5 {
            let want = [seed, seed + 1].map(|seed| all(&sums.invoke("main", x(seed)).unwrap()));
            // Nothing waits between them.
            let got = [first.run(x(seed)).unwrap(), second.run(x(seed + 1)).unwrap()];
            let plain = sums.invoke("main", x(9)).unwrap();
            let small = other.run(&[numbers(&[4, 3], seed)]).unwrap();
            let again = first.run(x(seed)).unwrap();
            assert_eq!(got.map(|it| all(&it)), want);
            assert_eq!(all(&again), want[0]);
            assert_eq!(all(&plain), all(&sums.invoke("main", x(9)).unwrap()));
            assert_eq!(all(&small), all(&mlp.invoke("main", &[numbers(&[4, 3], seed)]).unwrap()));
        }
        // Without the virtual machine, and dropped while it runs.
        let want = all(&sums.invoke("main", x(3)).unwrap());
        drop((sums, second));
        let result = first.run(x(3)).unwrap();
        drop(first);
        assert_eq!(all(&result), want);
        assert_eq!(log("destroy").len(), 2);
    });
}

#[relax::func(name = "main")]
fn narrow_and_wide(
    x: Tensor<f32, n, 4>,
    a: Tensor<f32, 4, 64>,
    b: Tensor<f32, 64, 2>,
    c: Tensor<f32, 2, 200>,
    d: Tensor<f32, 200, 3>,
) -> Tensor<f32, n, 3> {
    matmul(matmul(matmul(matmul(x, a), b), c), d)
}

/// The memory of the first product is given back to allocate that of the third; the recorded kernels still use it.
#[test]
fn memory_that_is_given_back_stays() {
    on_any_gpu("captured::memory_that_is_given_back_stays", WATCH, || {
        let compiled = Compiled::new(narrow_and_wide::module().unwrap(), &Target::cuda()).unwrap();
        let config = VmConfig { max_bytes: 9000, ..VmConfig::default() };
        let vm = Arc::new(compiled.into_vm(config).unwrap());
        let shapes = [[10, 4], [4, 64], [64, 2], [2, 200], [200, 3]];
        let args = |seed| shapes.map(|it| there(&numbers(&it, seed)));
        let mut call = capture(&vm, &args(0));
        for seed in 1..4 {
            let want = all(&vm.invoke("main", args(seed)).unwrap());
            assert_eq!(all(&call.run(args(seed)).unwrap()), want);
        }
    });
}

/// Tensors in the middle of a call, and its result, do not begin at 16 bytes: kernels run on copies of them, and the copies are recorded.
#[test]
fn tensors_in_the_middle_begin_anywhere() {
    on_gpu("captured::tensors_in_the_middle_begin_anywhere", WATCH, || {
        let compiled = Compiled::new(attention::module().unwrap(), &Target::cuda()).unwrap();
        let vm = |shift: i64| {
            let mut compiled = compiled.clone();
            let mut tensors = 0;
            for instruction in compiled.executable.functions.iter_mut().flat_map(|it| &mut it.code) {
                match instruction {
                    Instruction::AllocStorage { size: IntOperand::Const(size), .. } => *size += shift,
                    Instruction::AllocTensor { offset: IntOperand::Const(offset), .. } => {
                        *offset += shift;
                        tensors += 1;
                    }
                    _ => {}
                }
            }
            assert_eq!(tensors, 3, "a product, a softmax and the result");
            Arc::new(compiled.into_vm(VmConfig::default()).unwrap())
        };
        let args = |seed| ATTENTION.map(|it| numbers(&it, seed));
        let plain = vm(0);
        let kernels = capture(&plain, &args(0)).launches().unwrap();
        for (shift, copies) in [(4, true), (8, true), (12, true), (16, false)] {
            let shifted = vm(shift);
            let mut call = capture(&shifted, &args(0));
            assert_eq!(call.launches().unwrap() > kernels, copies, "{shift} bytes: {call:?}");
            for seed in 1..4 {
                let want = all(&plain.invoke("main", args(seed)).unwrap());
                assert_eq!(all(&shifted.invoke("main", args(seed)).unwrap()), want, "{shift} bytes");
                let launches = log("launch").len();
                assert_eq!(all(&call.run(args(seed)).unwrap()), want, "{shift} bytes");
                assert_eq!(log("launch").len(), launches, "all of it is one graph");
            }
        }
    });
}

#[test]
fn repeated_runs_allocate_nothing() {
    on_gpu("captured::repeated_runs_allocate_nothing", "", || {
        let vm = gpu(mlp::module());
        let mut call = capture(&vm, &[numbers(&[4, 3], 0)]);
        call.run(&[numbers(&[4, 3], 1)]).unwrap();
        let before = (log("alloc").len(), log("instantiate").len());
        for seed in 0..5 {
            call.run(&[numbers(&[4, 3], seed)]).unwrap();
        }
        assert_eq!((log("alloc").len(), log("instantiate").len()), before);
        // A call goes to another thread.
        std::thread::spawn(move || call.run(&[numbers(&[4, 3], 7)]).map(drop)).join().unwrap().unwrap();
    });
}

#[test]
fn results_are_arguments_of_the_next_run() {
    on_any_gpu("captured::results_are_arguments_of_the_next_run", WATCH, || {
        let vm = gpu(mlp::module());
        let (mut x, mut own) = (numbers(&[4, 3], 0), numbers(&[4, 3], 0));
        let mut call = capture(&vm, std::slice::from_ref(&x));
        for _ in 0..4 {
            let want = vm.invoke("main", &[own]).unwrap();
            let got = call.run(std::slice::from_ref(&x)).unwrap();
            assert_eq!(all(&got), all(&want));
            [x, own] = [got, want].map(|it| it.as_adt().unwrap().fields()[1].clone());
        }
    });
}

#[test]
fn a_model_is_captured_in_two_lines() {
    on_any_gpu("captured::a_model_is_captured_in_two_lines", WATCH, || {
        for target in [Target::cuda(), Target::host()] {
            let model = Model::onnx("examples/data/digits_cnn/model.onnx").unwrap().target(target);
            let model = model.compile().unwrap();
            let image = |seed| numbers(&[2, 1, 8, 8], seed).as_tensor().unwrap().clone();
            let mut captured = model.capture(image(0)).unwrap();
            for seed in 1..4 {
                let got = captured.run(image(seed)).unwrap();
                assert_eq!(got[0].device(), Device::cpu());
                assert_eq!(got[0], model.run(image(seed)).unwrap()[0]);
            }
            let err = captured.run(numbers(&[1, 1, 8, 8], 0).as_tensor().unwrap().clone()).unwrap_err();
            let expected = "is f32[1, 1, 8, 8], the call was captured with f32[2, 1, 8, 8]";
            assert!(err.to_string().contains(expected), "{err}");
        }
    });
}

#[test]
fn arguments_differ_in_elements_alone() {
    on_gpu("captured::arguments_differ_in_elements_alone", "", || {
        for vm in [gpu(mlp::module()), vm(&mlp::module().unwrap(), &Target::host())] {
            let mut call = capture(&vm, &[numbers(&[4, 3], 0)]);
            let graphs = log("graph").len();
            let mut error = |args: &[Value]| call.run(args).unwrap_err().to_string();
            let expected =
                "`main`: argument `x` is f32[5, 3], the call was captured with f32[4, 3]\n  help: capture";
            let err = error(&[numbers(&[5, 3], 0)]);
            assert!(err.starts_with(expected), "{err}");
            let err = error(&[Tensor::zeros(&[4, 3], DataType::F64).unwrap().into()]);
            assert!(err.contains("`x` is f64[4, 3], the call"), "{err}");
            assert!(error(&[3i64.into()]).contains("`x` is 3, the call"));
            assert!(error(&["text".into()]).contains("`x` is a string, the call"));
            assert!(error(&[]).contains("expected 1 argument(s), got 0"));
            assert_eq!(log("graph").len(), graphs, "nothing was launched");
            // Tensors of another device are copied.
            let x = numbers(&[4, 3], 2);
            let elsewhere = x.as_tensor().unwrap().to_device(Device::virtual_cpu(1)).unwrap();
            let want = all(&vm.invoke("main", std::slice::from_ref(&x)).unwrap());
            if call.launches().is_some() {
                assert_eq!(all(&call.run(&[elsewhere.into()]).unwrap()), want);
            }
            assert_eq!(all(&call.run(&[x]).unwrap()), want, "it goes on after an error");
        }
    });
}

#[test]
fn indices_are_checked_each_time() {
    on_any_gpu("captured::indices_are_checked_each_time", WATCH, || {
        let vm = gpu(lookup::module());
        let x = numbers(&[3, 2], 1);
        let at = |indices: [i64; 2]| Value::from(Tensor::from_slice(&indices, &[2]).unwrap());
        let mut call = capture(&vm, &[x.clone(), at([0, 1])]);
        for (indices, device) in [([2, 0], false), ([-1, 1], true), ([1, 1], false)] {
            let at = if device { there(&at(indices)) } else { at(indices) };
            let want = vm.invoke("main", &[x.clone(), at.clone()]).unwrap();
            assert_eq!(all(&call.run(&[x.clone(), at]).unwrap()), all(&want));
        }
        let plain = vm.invoke("main", &[x.clone(), at([0, 3])]).unwrap_err();
        for at in [at([0, 3]), there(&at([0, 3]))] {
            let err = call.run(&[x.clone(), at]).unwrap_err();
            assert_eq!(err.to_string(), plain.to_string());
        }
        let err = vm.capture("main", &[x, at([0, 3])]).unwrap_err();
        assert_eq!(err.to_string(), plain.to_string());
    });
}

#[relax::func(name = "main")]
fn branches(x: Tensor<f32, n>, turn: Tensor<bool>) -> Tensor<f32, n> {
    if turn { x.negative() } else { x + x }
}

#[relax::func(name = "main")]
fn computes_indices(x: Tensor<f32, 3, 2>, at: Tensor<i64, k>) -> Tensor<f32, k, 2> {
    take(x, at + at, axis = 0)
}

#[relax::func(name = "main", impure)]
fn calls_the_application(x: Tensor<f32, n>) -> Tensor<f32, n> {
    call_packed("test.same", (x + x,), Tensor::<f32, n>)
}

#[relax::func(name = "main", impure)]
fn fills_by_the_application(x: Tensor<f32, n>) -> Tensor<f32, n> {
    call_dps_packed("test.copy", (x + x,), Tensor::<f32, n>)
}

#[prim_func]
fn gather(x: &Tensor<f32, n>, at: &Tensor<i64, m>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = x[[at[[i]] as usize]];
    }
}

#[relax::func(name = "main")]
fn asserts(x: Tensor<f32, n>, at: Tensor<i64, m>) -> Tensor<f32, m> {
    call_tir(gather, (x, at), Tensor::<f32, m>)
}

#[test]
fn what_cannot_be_captured() {
    on_gpu("captured::what_cannot_be_captured", WATCH, || {
        let same = PackedFunc::typed(|x: Tensor| Ok(x));
        let copy = PackedFunc::dps(|inputs, outputs| {
            let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
            outputs[0].as_mut_slice::<f32>()?.copy_from_slice(x);
            Ok(())
        });
        let functions = [("test.same".to_string(), same), ("test.copy".to_string(), copy)];
        let vm = |module: Result<IRModule, _>, target: &Target| {
            let config = VmConfig { functions: functions.clone().into(), ..VmConfig::default() };
            let module: Result<IRModule, tvm::ir::IrError> = module;
            Arc::new(Compiled::new(module.unwrap(), target).unwrap().into_vm(config).unwrap())
        };
        let x = tensor(&[1.0, 2.0, 3.0], &[3]);
        let at = Value::from(Tensor::from_slice(&[1i64, 0], &[2]).unwrap());
        let table = numbers(&[3, 2], 0);
        let turn = Value::from(Tensor::scalar(true));
        let cases = [
            (
                branches::module(),
                vec![x.clone(), turn],
                "`if`: the host reads 1 bytes of cuda:0 in the middle of it",
            ),
            (
                computes_indices::module(),
                vec![table, at.clone()],
                "the host checks indices that the program computes",
            ),
            (
                calls_the_application::module(),
                vec![x.clone()],
                "it calls `test.same`, a function of the application",
            ),
            (
                fills_by_the_application::module(),
                vec![x.clone()],
                "it calls `test.copy`, a function of the application",
            ),
            (asserts::module(), vec![x.clone(), at], "the host waits for the checks in the kernel `gather`"),
        ];
        for (module, args, expected) in cases {
            let there = vm(module.clone(), &Target::cuda());
            let want = all(&there.invoke("main", &args).unwrap());
            let err = there.capture("main", &args).unwrap_err();
            let text = err.to_string();
            assert!(text.starts_with("in `main` at "), "{text}");
            assert!(text.contains("the call cannot be captured: ") && text.contains(expected), "{text}");
            assert!(text.contains("\n  help: "), "{text}");
            assert_eq!(all(&there.invoke("main", &args).unwrap()), want, "nothing has changed");
            // On the CPU, it is a plain call.
            let here = vm(module, &Target::host());
            assert_eq!(all(&capture(&here, &args).run(&args).unwrap()), want);
        }
        let there = vm(mlp::module(), &Target::cuda());
        let err = there.capture("main", &["text".into()]).unwrap_err().to_string();
        assert_eq!(err, "the call cannot be captured: argument `x` is a string");
        assert!(matches!(there.capture("none", &[]), Err(RuntimeError::NotFound { .. })));
        assert!(matches!(there.capture("main", &[]), Err(RuntimeError::ArgCount { .. })));
        assert!(log("instantiate").is_empty());
    });
}

#[test]
fn the_driver_refuses_a_graph() {
    on_gpu("captured::the_driver_refuses_a_graph", "graph=2", || {
        let vm = gpu(mlp::module());
        let x = [numbers(&[4, 3], 0)];
        let err = vm.capture("main", &x).unwrap_err();
        assert!(matches!(err, RuntimeError::DeviceFailure { .. }), "{err}");
        vm.invoke("main", &x).unwrap();
    });
}

#[test]
fn too_little_memory_for_a_captured_call() {
    on_gpu("captured::too_little_memory_for_a_captured_call", "memory=900000", || {
        let vm = gpu(long_sums::module());
        let x = [numbers(&[2, 60_000], 0)];
        let first = capture(&vm, &x);
        let err = vm.capture("main", &x).unwrap_err();
        assert!(matches!(err, RuntimeError::OutOfMemory { .. }), "{err}");
        drop(first);
        // What was allocated for it is free again.
        for _ in 0..3 {
            vm.invoke("main", &x).unwrap();
        }
    });
}

#[test]
fn a_fault_in_a_captured_call_names_its_kernels() {
    on_gpu("captured::a_fault_in_a_captured_call_names_its_kernels", "fault=7", || {
        let vm = gpu(attention::module());
        let args = ATTENTION.map(|it| numbers(&it, 0));
        let mut call = capture(&vm, &args);
        let launches = log("launch").len();
        assert!(launches < 7, "{launches}");
        let (mut runs, mut error) = (0, None);
        while error.is_none() && runs < 7 {
            error = call.run_to(Device::cpu(), &args).err();
            runs += 1;
        }
        let err = error.unwrap();
        assert!(matches!(err, RuntimeError::DeviceFault { .. }), "{err}");
        let text = err.to_string();
        assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && text.contains("matmul"), "{text}");
        // The error stays, and nothing fails while it is dropped.
        assert_eq!(call.run(&args).unwrap_err().to_string(), text);
        let plain = vm.invoke("main", &args).unwrap_err().to_string();
        assert!(plain.ends_with(&text), "{plain}");
    });
}

#[test]
fn a_driver_that_waits_names_the_one_kernel() {
    let variables = [("CUDA_LAUNCH_BLOCKING", "1"), (fake_gpu::OPTIONS, "fault=13")];
    on_gpu_with("captured::a_driver_that_waits_names_the_one_kernel", &variables, || {
        let vm = gpu(attention::module());
        let args = |seed| ATTENTION.map(|it| numbers(&it, seed));
        let mut call = capture(&vm, &args(0));
        assert_eq!(call.launches(), Some(5));
        let got = call.run(args(1)).unwrap();
        assert_eq!(log("launch").len(), 10);
        let err = call.run(args(1)).unwrap_err().to_string();
        assert!(err.contains("in the kernel `softmax`; this process"), "{err}");
        assert!(got.as_tensor().is_some() && log("graph").is_empty());
    });
}
