//! Graph functions and ONNX models on the device.

use tvm::codegen::{Compiled, compile_module};
use tvm::prelude::*;
use tvm::runtime::vm::VmConfig;
use tvm::runtime::{Backend, PackedFunc, Value};

use super::child::{log, on_any_gpu, on_gpu};

#[relax::func(name = "main")]
fn dense(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 2> {
    let w = constant::<f32, 3, 2>([1.0, -1.0, 0.5, 2.0, 3.0, 0.25]);
    let h = relu(matmul(x, w)) + constant::<f32, 2>([0.5, -0.5]);
    softmax(h, axis = 1)
}

#[relax::func(name = "main", impure)]
fn with_host_functions(x: Tensor<f32, n>) -> (Tensor<f32, n>, Tensor<f32, n>) {
    let y = x + x;
    let filled = call_dps_packed("test.negate", (y,), Tensor::<f32, n>);
    let made = call_packed("test.same", (filled * 2.0,), Tensor::<f32, n>);
    (filled + x, made + y)
}

#[relax::func(name = "main")]
fn pick(x: Tensor<f32, n, m>, at: Tensor<i64, k>, turn: Tensor<bool>) -> Tensor<f32, k, m> {
    let rows = take(x, at, axis = 0);
    if turn { rows.negative() } else { rows + rows }
}

#[relax::func(name = "main")]
fn in_tuples(pair: (Tensor<f32, n>, Tensor<f32, n>)) -> (Tensor<f32, n>, Tensor<f32, n>) {
    (pair.0 + pair.1, pair.0 * pair.1)
}

pub(crate) fn tensor(data: &[f32], shape: &[i64]) -> Value {
    Tensor::from_slice(data, shape).unwrap().into()
}

/// Numbers that differ with `seed`.
pub(crate) fn numbers(shape: &[i64], seed: i64) -> Value {
    let len = shape.iter().product::<i64>();
    let data: Vec<f32> = (0..len).map(|i| ((i * 7 + seed * 13) % 29) as f32 / 8.0 - 1.5).collect();
    tensor(&data, shape)
}

/// The tensor on the GPU.
pub(crate) fn there(value: &Value) -> Value {
    value.as_tensor().unwrap().to_device(Device::cuda(0)).unwrap().into()
}

pub(crate) fn floats(value: &Value) -> Vec<f32> {
    value.as_tensor().unwrap().to_device(Device::cpu()).unwrap().to_vec().unwrap()
}

pub(crate) fn assert_close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() <= 1e-5 * want.abs().max(1.0), "{got} instead of {want}");
    }
}

#[relax::func(name = "main")]
fn long_rows(x: Tensor<f32, 3, 20000>) -> Tensor<f32, 3, 20000> {
    softmax(x, axis = 1)
}

#[relax::func(name = "main")]
fn sorted(x: Tensor<f32, n>) -> Tensor<f32, n> {
    call_op("sort", clip(x, -8.0, 8.0), axis = 0, descending = true)
}

/// One thread sorts the positions, and then many take the elements: values that the first reads from memory are its own.
#[test]
fn a_vector_is_sorted() {
    on_any_gpu("models::a_vector_is_sorted", "", || {
        let vm = compile_module(&sorted::module().unwrap(), &Target::cuda()).unwrap();
        for n in [0, 1, 5, 700] {
            let mut data: Vec<f32> = (0..n).map(|i| (i * 37 % 101) as f32 / 8.0 - 5.0).collect();
            let got = vm.invoke("main", &[tensor(&data, &[n])]).unwrap();
            data.iter_mut().for_each(|it| *it = it.clamp(-8.0, 8.0));
            data.sort_by(|a, b| b.total_cmp(a));
            assert_eq!(floats(&got), data);
        }
    });
}

/// A row has 80 kB in the shared memory of a block, which the driver is asked for once.
#[test]
fn long_rows_are_in_shared_memory() {
    on_gpu("models::long_rows_are_in_shared_memory", "", || {
        let vm = compile_module(&long_rows::module().unwrap(), &Target::cuda()).unwrap();
        let data: Vec<f32> = (0..60_000).map(|i| (i * 7 % 1000) as f32 / 100.0).collect();
        for _ in 0..2 {
            let y = vm.invoke("main", &[tensor(&data, &[3, 20_000])]).unwrap();
            for (row, got) in data.chunks(20_000).zip(floats(&y).chunks(20_000)) {
                let sum: f64 = row.iter().map(|it| f64::from(*it).exp()).sum();
                let want: Vec<f32> = row.iter().map(|it| (f64::from(*it).exp() / sum) as f32).collect();
                assert!(want.iter().zip(got).all(|(want, got)| (want - got).abs() <= 1e-4 * want));
            }
        }
        assert_eq!(log("launch").len(), 2);
        let asked = log("shared");
        assert!(asked.len() == 1 && asked[0].ends_with("softmax_k0 80000"), "{asked:?}");
    });
}

#[test]
fn a_graph_runs_on_the_device() {
    on_gpu("models::a_graph_runs_on_the_device", "", || {
        let module = dense::module().unwrap();
        let there = compile_module(&module, &Target::cuda()).unwrap();
        assert_eq!(there.backend(), Backend::Device);
        let here = compile_module(&module, &Target::host()).unwrap();
        let mut uploads = 0;
        for n in [1i64, 4, 4, 0, 7] {
            let data: Vec<f32> = (0..3 * n).map(|i| i as f32 * 0.25 - 1.0).collect();
            let x = tensor(&data, &[n, 3]);
            let [got, want] = [&there, &here].map(|vm| vm.invoke("main", std::slice::from_ref(&x)).unwrap());
            assert_eq!(got.as_tensor().unwrap().device(), Device::cuda(0), "results stay there");
            assert_close(&floats(&got), &floats(&want));
            // An argument on the device is not copied.
            let x = Value::from(x.as_tensor().unwrap().to_device(Device::cuda(0)).unwrap());
            let before = log("upload").len();
            assert_close(&floats(&there.invoke("main", &[x]).unwrap()), &floats(&want));
            assert_eq!(log("upload").len(), before);
            uploads += usize::from(n > 0) * 2;
        }
        // The argument of each call, once for the call and once above, and both constants once.
        assert_eq!(log("upload").len(), uploads + 2);
    });
}

#[relax::func(name = "main")]
fn chain(x: Tensor<f32, n, m>) -> Tensor<f32, n, m> {
    let y = call_tir(half, (x,));
    call_tir(half, (call_tir(half, (y,)),))
}

#[prim_func]
fn half(x: &Tensor<f32, n, m>, y: &mut Tensor<f32, n, m>) {
    for [i, j] in grid([n, m]) {
        y[[i, j]] = x[[i, j]] / 2.0;
    }
}

#[test]
fn a_workspace_reuses_memory() {
    on_gpu("models::a_workspace_reuses_memory", "", || {
        let vm = compile_module(&chain::module().unwrap(), &Target::cuda()).unwrap();
        let mut workspace = tvm::runtime::vm::Workspace::new();
        let x = tensor(&[1.0; 12], &[4, 3]);
        let mut run = || {
            let result = vm.invoke_in(&mut workspace, "main", std::slice::from_ref(&x)).unwrap();
            let floats = floats(&result);
            workspace.recycle(result);
            floats
        };
        let first = run();
        run();
        let before = log("alloc").len();
        for _ in 0..5 {
            assert_eq!(run(), first);
        }
        assert_eq!(log("alloc").len(), before);
    });
}

#[test]
fn functions_of_the_host_get_copies() {
    on_any_gpu("models::functions_of_the_host_get_copies", "", || {
        let negate = PackedFunc::dps(|inputs, outputs| {
            let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
            outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y = -x);
            Ok(())
        });
        let same = PackedFunc::typed(|x: Tensor| {
            assert_eq!(x.device(), Device::cpu());
            Ok(x)
        });
        let functions = [("test.negate".to_string(), negate), ("test.same".to_string(), same)];
        let compiled = Compiled::new(with_host_functions::module().unwrap(), &Target::cuda()).unwrap();
        let config = VmConfig { functions: functions.into(), ..VmConfig::default() };
        let vm = compiled.into_vm(config).unwrap();
        for _ in 0..3 {
            let result = vm.invoke("main", &[tensor(&[1.0, -2.0, 3.0], &[3])]).unwrap();
            let fields = result.as_adt().unwrap().fields();
            assert!(fields.iter().all(|it| it.as_tensor().unwrap().device() == Device::cuda(0)));
            assert_eq!(floats(&fields[0]), [-1.0, 2.0, -3.0]);
            assert_eq!(floats(&fields[1]), [-2.0, 4.0, -6.0]);
        }
    });
}

#[test]
fn conditions_and_indices_are_read_from_the_device() {
    on_any_gpu("models::conditions_and_indices_are_read_from_the_device", "", || {
        let vm = compile_module(&pick::module().unwrap(), &Target::cuda()).unwrap();
        let x = tensor(&[1., 2., 3., 4.], &[2, 2]);
        let run = |index: i64, turn: bool| {
            let at = Tensor::from_slice(&[index], &[1]).unwrap();
            vm.invoke("main", &[x.clone(), at.into(), Tensor::scalar(turn).into()])
        };
        assert_eq!(floats(&run(-1, false).unwrap()), [6., 8.]);
        assert_eq!(floats(&run(0, true).unwrap()), [-1., -2.]);
        let err = run(2, false).unwrap_err().to_string();
        assert!(err.contains("take") && err.contains('2'), "{err}");
    });
}

#[test]
fn tensors_in_tuples_are_copied() {
    on_any_gpu("models::tensors_in_tuples_are_copied", "", || {
        let vm = compile_module(&in_tuples::module().unwrap(), &Target::cuda()).unwrap();
        let pair = [tensor(&[1., 2.], &[2]), tensor(&[3., 4.], &[2])];
        let result = vm.invoke("main", &[Value::tuple(pair)]).unwrap();
        let fields = result.as_adt().unwrap().fields();
        assert_eq!((floats(&fields[0]), floats(&fields[1])), (vec![4., 6.], vec![3., 8.]));
    });
}

#[prim_func]
fn add_one(x: &mut Tensor<f32, n>) {
    for i in 0..n {
        x[[i]] += 1.0;
    }
}

#[relax::func(name = "main")]
fn in_place(x: Tensor<f32, n>) -> (Tensor<f32, n>, Tensor<f32, n>) {
    let y = x * 2.0;
    let z = call_tir_inplace(add_one, (), (y,));
    (call_tir_inplace(add_one, (), (x,)), z)
}

#[test]
fn calls_in_place_leave_arguments_alone() {
    on_any_gpu("models::calls_in_place_leave_arguments_alone", "", || {
        let vm = compile_module(&in_place::module().unwrap(), &Target::cuda()).unwrap();
        let x = tensor(&[1., 2.], &[2]);
        let there = Value::from(x.as_tensor().unwrap().to_device(Device::cuda(0)).unwrap());
        for x in [&x, &there] {
            let result = vm.invoke("main", std::slice::from_ref(x)).unwrap();
            let fields = result.as_adt().unwrap().fields();
            assert_eq!((floats(&fields[0]), floats(&fields[1])), (vec![2., 3.], vec![3., 5.]));
            assert_eq!(floats(x), [1., 2.]);
        }
    });
}

#[test]
fn many_threads_call_one_model() {
    on_any_gpu("models::many_threads_call_one_model", "", || {
        let vm = compile_module(&chain::module().unwrap(), &Target::cuda()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let vm = &vm;
                scope.spawn(move || {
                    for n in 1..10 {
                        let x = tensor(&vec![thread as f32; n], &[1, n as i64]);
                        let result = vm.invoke("main", std::slice::from_ref(&x)).unwrap();
                        assert_eq!(floats(&result), vec![thread as f32 / 8.0; n]);
                    }
                });
            }
        });
    });
}

#[test]
fn a_profile_waits_for_each_kernel() {
    on_gpu("models::a_profile_waits_for_each_kernel", "fault=1", || {
        let vm = compile_module(&chain::module().unwrap(), &Target::cuda()).unwrap();
        let mut profile = tvm::runtime::vm::Profile::default();
        let x = tensor(&[1.0; 4], &[2, 2]);
        // Without a wait, the error would come later or not at all.
        let err = vm.invoke_profiled(&mut profile, "main", std::slice::from_ref(&x)).unwrap_err().to_string();
        assert!(err.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && err.contains("half"), "{err}");
        assert_eq!(profile.entries().len(), 1, "{err}");
    });
}

#[test]
fn a_fault_names_the_kernels() {
    on_gpu("models::a_fault_names_the_kernels", "fault=2", || {
        let vm = compile_module(&dense::module().unwrap(), &Target::cuda()).unwrap();
        let result = vm.invoke("main", &[tensor(&[1.0; 3], &[1, 3])]);
        let err = result.and_then(|it| it.as_tensor().unwrap().to_device(Device::cpu())).unwrap_err();
        let (text, launched) = (err.to_string(), log("launch"));
        let names: Vec<&str> = launched.iter().filter_map(|line| line.split(' ').nth(1)).collect();
        assert!(text.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{text}");
        assert!(names.len() >= 2 && text.contains("kernel"), "{text}\n{names:?}");
        let named = |symbol: &&&str| {
            let name = symbol.trim_start_matches("tvm_kernel_");
            let name = name.rsplit_once("_k").map_or(name, |it| it.0);
            text.contains(&format!("`{name}`"))
        };
        assert_eq!(names.iter().filter(named).count(), names.len(), "{text}\n{names:?}");
    });
}

#[test]
fn an_onnx_model_runs_on_the_device() {
    on_any_gpu("models::an_onnx_model_runs_on_the_device", "", || {
        let file = "examples/data/digits_cnn/model.onnx";
        let there = Model::onnx(file).unwrap().target(Target::cuda()).compile().unwrap();
        let here = Model::onnx(file).unwrap().compile().unwrap();
        for batch in [1usize, 3] {
            let data = (0..batch * 64).map(|i| (i * 7 % 17) as f32 / 16.0).collect();
            let x = Tensor::from_vec::<f32>(data, &[batch as i64, 1, 8, 8]).unwrap();
            let [got, want] = [&there, &here].map(|model| model.run([&x]).unwrap());
            assert_eq!(got[0].device(), Device::cpu(), "outputs are on the host");
            assert_close(&got[0].to_vec::<f32>().unwrap(), &want[0].to_vec::<f32>().unwrap());
        }
    });
}
