//! Programs on two devices: the host and a virtual device, whose memory the runtime keeps apart.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tvm::codegen::{Compiled, compile_module};
use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::runtime::{Device, Value};

#[relax::func(name = "main")]
fn there_and_back(x: Tensor<f32, n, m>, w: Tensor<f32, m, k>) -> Tensor<f32, n, k> {
    let h = relu(matmul(x, w));
    let there = to_vdevice(h, device = "cpu:1");
    let scaled = (there + there) * 0.5;
    let y = exp(scaled) + constant::<f32, 3>([1.0, 2.0, 3.0]);
    to_vdevice(y, device = "cpu") + h
}

#[relax::func(name = "main")]
fn on_the_host(x: Tensor<f32, n, m>, w: Tensor<f32, m, k>) -> Tensor<f32, n, k> {
    let h = relu(matmul(x, w));
    let scaled = (h + h) * 0.5;
    exp(scaled) + constant::<f32, 3>([1.0, 2.0, 3.0]) + h
}

#[relax::func(name = "main")]
fn stays_there(x: Tensor<f32, n, m>, at: Tensor<i64, k>, turn: Tensor<bool>) -> Tensor<f32, k, m> {
    let there = to_vdevice(x, device = "cpu:1");
    let rows = take(there, to_vdevice(at, device = "cpu:1"), axis = 0);
    if to_vdevice(turn, device = "cpu:1") { rows.negative() } else { rows + rows }
}

#[relax::func(name = "main")]
fn placed(x: Tensor<f32, n>) -> (Tensor<f32, n>, Tensor<f32, n>, Tensor<f32, n>) {
    let a = exp(x, place = "cpu:1");
    let b = sqrt(add(a, constant::<f32, 1>([3.0]), place = "cpu:1"), place = "cpu:1");
    let c = negative(x, place = "cpu:1");
    let made = add(arange(0, prim(n), 1, dtype = f32, place = "cpu:1"), c, place = "cpu:1");
    let inner = if match_cast(max(x, axis = [0]), Tensor::<f32>) > 0.0 { a + x } else { a * 2.0 };
    (inner, b + (a - x), made)
}

#[relax::func(name = "main")]
fn unplaced(x: Tensor<f32, n>) -> (Tensor<f32, n>, Tensor<f32, n>, Tensor<f32, n>) {
    let a = exp(x);
    let b = sqrt(add(a, constant::<f32, 1>([3.0])));
    let made = add(arange(0, prim(n), 1, dtype = f32), negative(x));
    let inner = if match_cast(max(x, axis = [0]), Tensor::<f32>) > 0.0 { a + x } else { a * 2.0 };
    (inner, b + (a - x), made)
}

fn tensor(data: &[f32], shape: &[i64]) -> Value {
    Tensor::from_slice(data, shape).unwrap().into()
}

#[test]
fn a_program_runs_on_two_devices() {
    let x = tensor(&[1., -2., 0.5, 3.], &[2, 2]);
    let w = tensor(&[1., 0., 2., -1., 1., 0.25], &[2, 3]);
    let compiled = Compiled::new(there_and_back::module().unwrap(), &Target::host()).unwrap();
    let code = compiled.executable.to_string();
    assert!(code.contains(" on cpu:1") && code.contains("to cpu:1") && code.contains("to cpu:0"), "{code}");
    let there = compiled.into_vm(Default::default()).unwrap();
    let here = compile_module(&on_the_host::module().unwrap(), &Target::host()).unwrap();
    for _ in 0..3 {
        let [got, want] = [&there, &here].map(|vm| vm.invoke("main", &[x.clone(), w.clone()]).unwrap());
        let [got, want] = [&got, &want].map(|it| it.as_tensor().unwrap());
        assert_eq!((got, got.device()), (want, Device::cpu()));
    }
}

/// `x` and the constant go there once, what neighbours hand on stays, what is needed here comes back, and a result stays.
#[test]
fn placed_operators_share_copies() {
    let compiled = Compiled::new(placed::module().unwrap(), &Target::host()).unwrap();
    let code = compiled.executable.to_string();
    let count =
        |text: &str| code.lines().filter(|it| it.contains("device_copy") && it.ends_with(text)).count();
    // What `arange` makes is there already. Each arm of the branch has a copy of `a` of its own, as the code after it has.
    assert_eq!((count("to cpu:1"), count("to cpu:0")), (3, 4), "{code}");
    let there = compiled.into_vm(Default::default()).unwrap();
    let here = compile_module(&unplaced::module().unwrap(), &Target::host()).unwrap();
    for x in [[1.0, -2.0, 0.5], [-1.0, -2.0, -0.5]] {
        let x = tensor(&x, &[3]);
        let [got, want] = [&there, &here].map(|vm| vm.invoke("main", std::slice::from_ref(&x)).unwrap());
        for (i, (got, want)) in
            got.as_adt().unwrap().fields().iter().zip(want.as_adt().unwrap().fields()).enumerate()
        {
            let got = got.as_tensor().unwrap();
            assert_eq!(got.device(), if i == 2 { Device::virtual_cpu(1) } else { Device::cpu() });
            assert_eq!(&got.to_device(Device::cpu()).unwrap(), want.as_tensor().unwrap());
        }
    }
}

/// What comes from no tensor goes elsewhere in one place, and is a result in another.
#[relax::func(name = "main")]
fn made_and_moved(x: Tensor<f32, n>) -> (Tensor<f32, n>, (Tensor<f32, 3>, Tensor<f32, n>)) {
    let made = arange(0, prim(n), 1, dtype = f32);
    let there = to_vdevice(made, device = "cpu:1");
    let held = constant::<f32, 3>([1.0, 2.0, 3.0]);
    let moved = to_vdevice(held, device = "cpu:1");
    let back = to_vdevice(there + max(moved, axis = [0]), device = "cpu");
    (made.negative(), (clip(held, -1, 1), x + back))
}

#[test]
fn results_of_no_tensor_are_on_the_default_device() {
    for level in [0, 3] {
        let compile = || compile_module(&made_and_moved::module().unwrap(), &Target::host()).unwrap();
        let vm = PassContext::new().opt_level(level).scope(compile);
        let result = vm.invoke("main", &[tensor(&[10.0, 20.0], &[2])]).unwrap();
        let [first, rest] = result.as_adt().unwrap().fields() else { panic!("a pair") };
        let all = std::iter::once(first).chain(rest.as_adt().unwrap().fields());
        let all: Vec<Vec<f32>> = all.map(|it| it.as_tensor().unwrap().to_vec().unwrap()).collect();
        assert_eq!(all, [vec![0.0, -1.0], vec![1.0, 1.0, 1.0], vec![13.0, 24.0]], "at level {level}");
    }
}

#[test]
fn results_stay_where_they_are() {
    let vm = compile_module(&stays_there::module().unwrap(), &Target::host()).unwrap();
    let (x, there) = (tensor(&[1., 2., 3., 4.], &[2, 2]), Device::virtual_cpu(1));
    let at = |index: i64| Value::from(Tensor::from_slice(&[index], &[1]).unwrap());
    let run = |x: &Value, index, turn: bool| {
        vm.invoke("main", &[x.clone(), at(index), Tensor::scalar(turn).into()])
    };
    let moved = Value::from(x.as_tensor().unwrap().to_device(there).unwrap());
    for x in [&x, &moved] {
        let res = run(x, -1, false).unwrap();
        let res = res.as_tensor().unwrap();
        assert_eq!(res.device(), there);
        let err = res.to_vec::<f32>().unwrap_err().to_string();
        assert!(err.contains("the tensor is on cpu:1"), "{err}");
        assert_eq!(res.to_device(Device::cpu()).unwrap().to_vec::<f32>().unwrap(), [6., 8.]);
    }
    let res = run(&x, 0, true).unwrap().as_tensor().unwrap().to_device(Device::cpu()).unwrap();
    assert_eq!(res.to_vec::<f32>().unwrap(), [-1., -2.]);
    let err = run(&x, 2, false).unwrap_err().to_string();
    assert!(err.contains("take") && err.contains('2'), "{err}");
}

#[test]
fn a_kernel_does_not_mix_devices() {
    #[prim_func]
    fn sum(a: &Tensor<f32, n>, b: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
        for i in 0..n {
            y[[i]] = a[[i]] + b[[i]];
        }
    }
    #[relax::func(name = "main")]
    fn two(a: Tensor<f32, n>, b: Tensor<f32, n>) -> Tensor<f32, n> {
        call_tir(sum, (a, b))
    }
    let vm = compile_module(&two::module().unwrap(), &Target::host()).unwrap();
    let a = tensor(&[1., 2.], &[2]);
    let b = Value::from(a.as_tensor().unwrap().to_device(Device::virtual_cpu(2)).unwrap());
    let err = vm.invoke("main", &[a, b]).unwrap_err().to_string();
    assert!(err.contains("`sum`: argument `b` is on cpu:2, the arguments before it on cpu:0"), "{err}");
}

mod refused {
    use super::*;

    #[relax::func(name = "main")]
    fn mixed(x: Tensor<f32, n>) -> Tensor<f32, n> {
        x + to_vdevice(x, device = "cpu:1")
    }

    #[relax::func(name = "main")]
    fn arms(x: Tensor<f32, n>, c: Tensor<bool>) -> Tensor<f32, n> {
        let y = if c { to_vdevice(x, device = "cpu:1") } else { x };
        y + y
    }

    #[relax::func(name = "main")]
    fn in_a_cell(x: Tensor<f32, n>) -> Tensor<f32, n> {
        let cell = ref_create(to_vdevice(x, device = "cpu:1"));
        ref_read(cell)
    }

    #[relax::func(name = "main")]
    fn no_device(x: Tensor<f32, n>) -> Tensor<f32, n> {
        to_vdevice(x, device = "gpu")
    }

    #[relax::func(name = "main")]
    fn no_place(x: Tensor<f32, n>) -> Tensor<f32, n> {
        exp(x, place = "gpu")
    }

    #[relax::func(name = "main")]
    fn no_kernels(x: Tensor<f32, n>) -> Tensor<f32, n> {
        exp(x, place = "cuda:0")
    }

    #[test]
    fn places_that_do_not_fit_are_errors_at_their_line() {
        for (module, parts) in [
            (mixed::module(), ["has tensors on different devices: cpu:0 and cpu:1", "add"]),
            (arms::module(), ["the arms of `if` have results on different devices", "cpu:1"]),
            (in_a_cell::module(), ["a reference cell takes tensors of the default device cpu:0", "cpu:1"]),
            (no_place::module(), ["attribute `place` is the name of a device", "gpu"]),
            (
                no_kernels::module(),
                ["placed on cuda:0, but the target computes on cpu:0", "place it on `cpu`"],
            ),
            (no_device::module(), ["`gpu` is not a device", "to_vdevice"]),
        ] {
            let res = module.map_err(|err| err.to_string()).and_then(|module| {
                compile_module(&module, &Target::host()).map(drop).map_err(|err| err.to_string())
            });
            let text = res.unwrap_err();
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            assert!(text.contains("tests/devices.rs"), "{text}");
        }
    }
}
