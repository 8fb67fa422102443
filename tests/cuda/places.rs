//! Models of which a part runs on the host: their kernels, copies, artifacts and profiles.

use std::path::Path;
use std::sync::Arc;

use tvm::codegen::{Compiled, EmitKind, compile_module, export_module};
use tvm::pass::{PassContext, Pipelines, prim_func_pass};
use tvm::prelude::*;
use tvm::runtime::vm::{Executable, ObjectKind, Profile, VmConfig};
use tvm::runtime::{Backend, RuntimeError};

use super::artifacts::{in_two_processes, linked};
use super::child::{log, on_any_gpu, on_gpu};
use super::models::{assert_close, floats, tensor};

#[relax::func(name = "main")]
fn there_and_back(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 2> {
    let w = constant::<f32, 3, 2>([1.0, -1.0, 0.5, 2.0, 3.0, 0.25]);
    let h = relu(matmul(x, w));
    let there = to_vdevice(h, device = "cpu");
    let scaled = exp((there + there) * 0.25) + constant::<f32, 2>([0.5, -0.5]);
    let y = to_vdevice(scaled, device = "cuda:0");
    softmax(y + h, axis = 1)
}

#[relax::func(name = "main")]
fn in_one_place(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 2> {
    let w = constant::<f32, 3, 2>([1.0, -1.0, 0.5, 2.0, 3.0, 0.25]);
    let h = relu(matmul(x, w));
    let scaled = exp((h + h) * 0.25) + constant::<f32, 2>([0.5, -0.5]);
    softmax(scaled + h, axis = 1)
}

#[relax::func(name = "main")]
fn in_both_places(x: Tensor<f32, n>) -> (Tensor<f32, n>, Tensor<f32, n>) {
    let there = to_vdevice(x, device = "cpu");
    (exp(x), exp(there))
}

#[relax::func(name = "main")]
fn out_of_nothing(x: Tensor<i64, n>) -> (Tensor<i64, n>, Tensor<i64, n>) {
    let there = to_vdevice(x, device = "cpu");
    let y = there + arange(0, prim(n), 1, dtype = i64);
    let moved = to_vdevice(arange(0, prim(n * 2), 2, dtype = i64), device = "cpu") + there;
    (to_vdevice(y, device = "cuda"), moved)
}

#[relax::func(name = "main")]
fn placed(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 2> {
    let w = constant::<f32, 3, 2>([1.0, -1.0, 0.5, 2.0, 3.0, 0.25]);
    let h = relu(matmul(x, w));
    let doubled = add(h, h, place = "cpu");
    let scaled = add(exp(doubled * 0.25, place = "cpu"), constant::<f32, 2>([0.5, -0.5]), place = "cpu");
    softmax(scaled + h, axis = 1)
}

fn compare(there: &tvm::runtime::vm::Vm) {
    let here = compile_module(&in_one_place::module().unwrap(), &Target::host()).unwrap();
    for n in [1i64, 4, 4, 0, 7] {
        let data: Vec<f32> = (0..3 * n).map(|i| i as f32 * 0.25 - 1.0).collect();
        let x = tensor(&data, &[n, 3]);
        let [got, want] = [there, &here].map(|vm| vm.invoke("main", std::slice::from_ref(&x)).unwrap());
        assert_eq!(got.as_tensor().unwrap().device(), Device::cuda(0));
        assert_close(&floats(&got), &floats(&want));
    }
}

#[test]
fn a_part_runs_on_the_host() {
    on_gpu("places::a_part_runs_on_the_host", "", || {
        let compiled = Compiled::new(there_and_back::module().unwrap(), &Target::cuda()).unwrap();
        let source = String::from_utf8(compiled.emit(EmitKind::Cuda).unwrap()).unwrap();
        assert!(source.contains("tvm_kernel_softmax") && !source.contains("on_host"), "{source}");
        let vm = compiled.into_vm(VmConfig::default()).unwrap();
        compare(&vm);
        let launched = log("launch");
        assert!(launched.iter().any(|it| it.contains("softmax")), "{launched:?}");
        assert!(!launched.iter().any(|it| it.contains("exp")), "{launched:?}");
        // The argument and what comes from the host, four times; and one of the constants, once.
        assert_eq!(log("upload").len(), 9);
    });
}

/// `doubled * 0.25` has no place: it is on the GPU, between operators on the host.
#[test]
fn operators_say_where_they_compute() {
    on_any_gpu("places::operators_say_where_they_compute", "", || {
        let vm = compile_module(&placed::module().unwrap(), &Target::cuda()).unwrap();
        let names: Vec<&str> = vm.executable().kernels.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            ["fused_matmul_relu", "add_on_host", "multiply", "fused_exp_add_1_on_host", "add", "softmax"]
        );
        compare(&vm);
    });
}

#[test]
fn one_program_runs_in_both_places() {
    on_gpu("places::one_program_runs_in_both_places", "", || {
        let vm = compile_module(&in_both_places::module().unwrap(), &Target::cuda()).unwrap();
        let names: Vec<&str> = vm.executable().kernels.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["exp", "exp_on_host"]);
        let res = vm.invoke("main", &[tensor(&[0.0, 1.0], &[2])]).unwrap();
        let fields = res.as_adt().unwrap().fields();
        let devices = [0, 1].map(|i: usize| fields[i].as_tensor().unwrap().device());
        assert_eq!(devices, [Device::cuda(0), Device::cpu()]);
        for field in fields {
            assert_close(&floats(field), &[1.0, 1f32.exp()]);
        }
        assert_eq!(log("launch").len(), 1);
    });
}

#[test]
fn what_takes_no_tensor_runs_where_it_is_needed() {
    on_gpu("places::what_takes_no_tensor_runs_where_it_is_needed", "", || {
        let vm = compile_module(&out_of_nothing::module().unwrap(), &Target::cuda()).unwrap();
        let x = Tensor::from_slice(&[10i64, 20, 30], &[3]).unwrap();
        let res = vm.invoke("main", &[x.into()]).unwrap();
        let fields = res.as_adt().unwrap().fields();
        let numbers = |i: usize| {
            let tensor = fields[i].as_tensor().unwrap().to_device(Device::cpu()).unwrap();
            tensor.to_vec::<i64>().unwrap()
        };
        assert_eq!((numbers(0), numbers(1)), (vec![10, 21, 32], vec![10, 22, 34]));
        assert_eq!(log("launch").len(), 0);
    });
}

#[test]
fn a_profile_says_where_kernels_ran() {
    on_gpu("places::a_profile_says_where_kernels_ran", "", || {
        let vm = compile_module(&there_and_back::module().unwrap(), &Target::cuda()).unwrap();
        let mut profile = Profile::default();
        vm.invoke_profiled(&mut profile, "main", &[tensor(&[1.0; 6], &[2, 3])]).unwrap();
        for (_, name, entry) in profile.entries() {
            let expected = if name.ends_with("_on_host") { Device::cpu() } else { Device::cuda(0) };
            assert_eq!(entry.device, Some(expected), "{name}");
        }
        let text = profile.to_string();
        assert!(text.contains("softmax on cuda:0") && text.contains("_on_host on cpu:0"), "{text}");
    });
}

#[test]
fn a_call_with_kernels_on_the_host_is_not_captured() {
    on_any_gpu("places::a_call_with_kernels_on_the_host_is_not_captured", "", || {
        let vm = Arc::new(compile_module(&there_and_back::module().unwrap(), &Target::cuda()).unwrap());
        let x = tensor(&[1.0; 6], &[2, 3]);
        let err = vm.capture("main", std::slice::from_ref(&x)).unwrap_err();
        assert!(matches!(err, RuntimeError::Capture { .. }), "{err:?}");
        let text = err.to_string();
        assert!(text.contains("_on_host` runs on the host") && text.contains("without capturing"), "{text}");
        compare(&vm);
    });
}

#[test]
fn passes_of_the_user_see_the_programs_of_both_places() {
    on_any_gpu("places::passes_of_the_user_see_the_programs_of_both_places", "", || {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let names = seen.clone();
        let note = prim_func_pass("test.NotePrograms", move |func, _, context| {
            names.lock().unwrap().push((func.is_on_host(), context.target.is_gpu()));
            Ok(None)
        });
        let default = Pipelines::for_target(&Target::cuda());
        let tir = default.tir.insert_before("VerifySource", note).unwrap();
        let context = PassContext::new().pipelines(Pipelines { tir, ..default });
        let module = there_and_back::module().unwrap();
        let vm = context.scope(|| compile_module(&module, &Target::cuda())).unwrap();
        compare(&vm);
        let mut seen = std::mem::take(&mut *seen.lock().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [(false, true), (false, true), (false, true), (true, false)]);
    });
}

#[test]
fn an_artifact_has_kernels_for_both_places() {
    let save = |path: &Path| {
        let exe = export_module(&there_and_back::module().unwrap(), &"cuda -arch=sm_80".parse().unwrap());
        let exe = exe.unwrap();
        let libraries = exe.objects.iter().filter(|it| it.kind == ObjectKind::SharedLibrary);
        assert_eq!((libraries.count(), exe.gpu_archs()), (1, vec!["sm_80".into(), "PTX for sm_80".into()]));
        let features: Vec<&str> = exe.cpu_features().collect();
        assert_eq!(features.is_empty(), tvm::runtime::cpu_features().is_empty());
        let bytes = exe.save().unwrap();
        assert_eq!(Executable::load(&bytes).unwrap(), exe);
        std::fs::write(path, bytes).unwrap();
    };
    in_two_processes("places::an_artifact_has_kernels_for_both_places", &["major=8"], save, |path| {
        let vm = linked(path).unwrap();
        assert_eq!(vm.backend(), Backend::Device);
        compare(&vm);
        assert!(!log("launch").iter().any(|it| it.contains("exp")));
    });
}

#[test]
fn nodes_of_an_onnx_model_run_on_the_host() {
    on_gpu("places::nodes_of_an_onnx_model_run_on_the_host", "", || {
        let file = "examples/data/digits_cnn/model.onnx";
        let data = (0..2 * 64).map(|i| (i * 7 % 17) as f32 / 16.0).collect();
        let x = Tensor::from_vec::<f32>(data, &[2, 1, 8, 8]).unwrap();
        let want = Model::onnx(file).unwrap().compile().unwrap().run([&x]).unwrap();
        // Alone; neighbours; all nodes of an operator, between nodes on the GPU; all but the first nodes.
        let tail = ["conv3", "skip", "relu3", "flatten", "fc1", "relu4", "fc2", "softmax"];
        for places in [&["Softmax"][..], &["fc2", "softmax"], &["Relu", "Add"], &tail] {
            let mut model = Model::onnx(file).unwrap().target(Target::cuda());
            for name in places {
                model = model.place(name, Device::cpu());
            }
            let before = ["launch", "download"].map(|it| log(it).len());
            let got = model.compile().unwrap().run([&x]).unwrap();
            assert_eq!(got[0].device(), Device::cpu());
            assert_close(&got[0].to_vec::<f32>().unwrap(), &want[0].to_vec::<f32>().unwrap());
            let launched = &log("launch")[before[0]..];
            let downloads = log("download").len() - before[1];
            if places.contains(&"softmax") || places[0] == "Softmax" {
                assert!(!launched.iter().any(|it| it.contains("softmax")), "{launched:?}");
                // What the first node on the host takes: one tensor, or two for the last.
                assert!(downloads <= 2, "{places:?}: {downloads}");
            }
        }
    });
}
