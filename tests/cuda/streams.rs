//! Calls in several workspaces: each has a stream of the GPU, so they overlap, and results are right whatever goes from one to another.
//!
//! The driver does what nobody waits for as late as it may, or in a random order (`order`).

use std::sync::Arc;

use tvm::codegen::{Compiled, compile_module};
use tvm::prelude::*;
use tvm::runtime::vm::{Vm, VmConfig, Workspace};
use tvm::runtime::{PackedFunc, RuntimeError, Value};
use tvm::{In, Out};
use tvm_testing::fake_gpu;

use super::child::{log, on_any_gpu, on_gpu};
use super::models::{floats, numbers, tensor, there};

/// Two kernels with memory between them, and weights.
#[relax::func(name = "main")]
fn step(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 3> {
    let w = constant::<f32, 3, 3>([1.0, -1.0, 0.5, 2.0, 3.0, 0.25, -0.5, 0.75, 1.5]);
    softmax(matmul(relu(matmul(x, w)), w), axis = 1) + x
}

/// Its parts are added by a second kernel, through memory that the stream keeps.
#[relax::func(name = "main")]
fn long_sums(x: Tensor<f32, 2, 60000>) -> Tensor<f32, 2> {
    sum(x * 2.0, axis = 1)
}

#[relax::func(name = "main")]
fn negate(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 3> {
    x.negative()
}

/// The application gets a tensor that the call goes on with.
#[relax::func(name = "main", impure)]
fn shows(x: Tensor<f32, n, 3>) -> Tensor<f32, n, 3> {
    let y = x + x;
    let seen = call_packed("test.see", (y,), Tensor::<f32, n, 3>);
    seen + y
}

#[prim_func]
fn halve(x: &Tensor<f32, n, 3>, y: &mut Tensor<f32, n, 3>) {
    for i in 0..n {
        for j in 0..3 {
            y[[i, j]] = x[[i, j]] * 0.5;
        }
    }
}

type Halve = CompiledFn<(In<f32, 2>, Out<f32, 2>)>;

fn gpu(module: Result<IRModule, tvm::ir::IrError>) -> Arc<Vm> {
    Arc::new(compile_module(&module.unwrap(), &Target::cuda()).unwrap())
}

/// What a call gives while nothing else is done.
fn alone(vm: &Vm, x: &Value) -> Vec<f32> {
    let y = floats(&vm.invoke("main", std::slice::from_ref(x)).unwrap());
    Device::cuda(0).synchronize().unwrap();
    y
}

/// Runs `body` for the test `name` with each of these options of the driver.
fn with_options(name: &str, all: &[&str], body: impl Fn()) {
    // A child runs once, with the options that it has.
    let own = std::env::var(fake_gpu::OPTIONS).is_ok();
    for options in if own { &all[..1] } else { all } {
        on_any_gpu(name, options, &body);
    }
}

const ORDERS: &[&str] = &["watch=1", "watch=1 order=1", "watch=1 order=2", "order=3 pools=0"];

#[test]
fn calls_with_the_same_weights_overlap() {
    on_gpu("streams::calls_with_the_same_weights_overlap", "", || {
        let vm = gpu(step::module());
        let xs = [0, 1].map(|seed| there(&numbers(&[4, 3], seed)));
        let wants = [0, 1].map(|seed| alone(&vm, &numbers(&[4, 3], seed)));
        let mut both = [Workspace::new(), Workspace::new()];
        for _ in 0..4 {
            let before = log("run").len();
            let [mut first, mut second] = [0, 1].map(|i| {
                let y = vm.invoke_in(&mut both[i], "main", std::slice::from_ref(&xs[i])).unwrap();
                (y, log("launch").len())
            });
            assert_eq!(log("run").len(), before, "nothing was waited for");
            std::mem::swap(&mut first, &mut second);
            // What came last is fetched, and nothing else was done for it.
            assert_eq!(floats(&first.0), wants[1]);
            let ran = log("run");
            let ran: Vec<_> = ran[before..].iter().filter_map(|it| it.rsplit(' ').next()).collect();
            assert!(ran.len() == first.1 - second.1 && ran.iter().all(|it| *it == ran[0]), "{ran:?}");
            assert_eq!(floats(&second.0), wants[0]);
            let [a, b] = &mut both;
            a.recycle(second.0);
            b.recycle(first.0);
            // An argument of one call is freed in its stream.
            let x = there(&numbers(&[4, 3], 0));
            let y = vm.invoke_in(a, "main", std::slice::from_ref(&x)).unwrap();
            drop(x);
            assert_eq!(floats(&y), wants[0]);
        }
        assert_eq!(log("wait"), [""; 0], "no stream waits for another one");
        // The weights are freed after what both do.
        let ys = [0, 1].map(|i| vm.invoke_in(&mut both[i], "main", std::slice::from_ref(&xs[i])).unwrap());
        drop((vm, xs, both));
        assert_eq!(ys.map(|it| floats(&it)), wants);
    });
}

#[test]
fn tensors_go_from_one_workspace_to_another() {
    with_options("streams::tensors_go_from_one_workspace_to_another", ORDERS, || {
        let (vm, halve) = (gpu(step::module()), halve::compile(&Target::cuda()).unwrap());
        let x = |seed| numbers(&[5, 3], seed);
        let mut spaces = [Workspace::new(), Workspace::new(), Workspace::new()];
        for round in 0..24 {
            let want = [0, 1].map(|seed| alone(&vm, &x(round + seed)));
            let next = alone(&vm, &tensor(&want[0], &[5, 3]));
            let half: Vec<f32> = next.iter().map(|it| it * 0.5).collect();
            let last = alone(&vm, &tensor(&half, &[5, 3]));
            let [a, b, c] = &mut spaces;
            let y = vm.invoke_in(a, "main", &[x(round)]).unwrap();
            let z = vm.invoke_in(b, "main", std::slice::from_ref(&y)).unwrap();
            // Two read it at once.
            let same = (round % 2 == 0).then(|| vm.invoke_in(c, "main", std::slice::from_ref(&y)).unwrap());
            match round % 4 {
                0 => a.recycle(y),
                1 => b.recycle(y),
                2 => c.recycle(y),
                _ => drop(y),
            }
            // Its memory is used again.
            let other = vm.invoke_in(if round % 3 == 0 { b } else { a }, "main", &[x(round + 1)]).unwrap();
            let mut check = vec![(other, want[1].clone()), (z.clone(), next.clone())];
            check.extend(same.map(|it| (it, next.clone())));
            if round % 4 == 3 {
                // A kernel outside of a workspace reads a result, and another call what it writes.
                let mut there = Tensor::empty(&[5, 3], DataType::F32, Device::cuda(0)).unwrap();
                halve.call(z.as_tensor().unwrap(), &mut there).unwrap();
                let again = vm.invoke_in(c, "main", &[there.clone().into()]).unwrap();
                check.extend([(again, last), (there.into(), half)]);
            }
            drop(z);
            // What is fetched first is done first.
            let len = check.len();
            check.rotate_left(round as usize / 4 % len);
            for (got, want) in check {
                assert_eq!(floats(&got), want, "in round {round}");
            }
        }
        Device::cuda(0).synchronize().unwrap();
    });
}

/// An in-place kernel outside of a workspace, between calls in two workspaces.
#[test]
fn a_kernel_of_its_own_comes_after_everything() {
    with_options("streams::a_kernel_of_its_own_comes_after_everything", ORDERS, || {
        let (vm, halve): (_, Halve) = (gpu(step::module()), halve::compile(&Target::cuda()).unwrap());
        let (mut a, mut b) = (Workspace::new(), Workspace::new());
        for round in 0..8 {
            let x = numbers(&[5, 3], round);
            let want = alone(&vm, &x);
            let half: Vec<f32> = want.iter().map(|it| it * 0.5).collect();
            let next = alone(&vm, &tensor(&half, &[5, 3]));
            let y = vm.invoke_in(&mut a, "main", std::slice::from_ref(&x)).unwrap();
            // The memory of a result that `b` still computes: the write comes after it.
            let old = vm.invoke_in(&mut b, "main", &[x]).unwrap();
            let Value::Tensor(mut target) = old else { panic!("a tensor") };
            halve.call(y.as_tensor().unwrap(), &mut target).unwrap();
            drop(y);
            let z = vm.invoke_in(&mut b, "main", &[target.into()]).unwrap();
            let other = vm.invoke_in(&mut a, "main", &[numbers(&[5, 3], round + 1)]).unwrap();
            let other = floats(&other);
            assert_eq!(floats(&z), next);
            assert_eq!(other, alone(&vm, &numbers(&[5, 3], round + 1)));
        }
    });
}

#[test]
fn threads_call_one_virtual_machine() {
    with_options("streams::threads_call_one_virtual_machine", ORDERS, || {
        let (vm, sums) = (gpu(step::module()), gpu(long_sums::module()));
        let wants: Vec<_> = (0..8).map(|seed| alone(&vm, &numbers(&[4, 3], seed))).collect();
        let long = |seed| numbers(&[2, 60_000], seed);
        let long_wants: Vec<_> = (0..2).map(|seed| alone(&sums, &long(seed))).collect();
        // What all of them read, and take from each other.
        let shared = vm.invoke("main", &[numbers(&[4, 3], 0)]).unwrap();
        let shared_want = alone(&vm, &tensor(&wants[0], &[4, 3]));
        let hands = std::sync::Mutex::new(vec![(shared.clone(), wants[0].clone())]);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (vm, sums, wants, shared, hands) = (&vm, &sums, &wants, &shared, &hands);
                let (long_wants, shared_want) = (&long_wants, &shared_want);
                scope.spawn(move || {
                    for round in 0..10 {
                        let seed = (thread + round) % 8;
                        let mut x = numbers(&[4, 3], seed as i64);
                        if round % 2 == 0 {
                            x = there(&x);
                        }
                        let y = vm.invoke("main", &[x]).unwrap();
                        let z = vm.invoke("main", std::slice::from_ref(shared)).unwrap();
                        let given = hands.lock().unwrap().pop();
                        if let Some((value, want)) = given {
                            // The argument is given away: its memory may be that of the result.
                            let negated = vm.invoke("main", [value]).unwrap();
                            assert_eq!(floats(&negated), alone(vm, &tensor(&want, &[4, 3])));
                        }
                        assert_eq!(floats(&z), *shared_want);
                        if round % 3 == 0 {
                            hands.lock().unwrap().push((y, wants[seed].clone()));
                        } else {
                            assert_eq!(floats(&y), wants[seed]);
                        }
                        if round % 5 == thread {
                            let seed = round % 2;
                            let y = sums.invoke("main", &[long(seed as i64)]).unwrap();
                            assert_eq!(floats(&y), long_wants[seed]);
                        }
                    }
                });
            }
        });
        drop((vm, sums, shared));
        Device::cuda(0).synchronize().unwrap();
    });
}

#[test]
fn threads_run_captured_calls() {
    with_options("streams::threads_run_captured_calls", ORDERS, || {
        let (vm, sums) = (gpu(step::module()), gpu(long_sums::module()));
        let wants: Vec<_> = (0..6).map(|seed| alone(&vm, &numbers(&[4, 3], seed))).collect();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (vm, sums, wants) = (&vm, &sums, &wants);
                scope.spawn(move || {
                    let mut call = vm.capture("main", &[numbers(&[4, 3], 0)]).unwrap();
                    let long = [numbers(&[2, 60_000], thread)];
                    let mut long_call = sums.capture("main", &long).unwrap();
                    let long_want = alone(sums, &long[0]);
                    let mut kept = Vec::new();
                    for round in 0..6 {
                        let seed = (thread as usize + round) % 6;
                        let y = call.run(&[numbers(&[4, 3], seed as i64)]).unwrap();
                        let sum = long_call.run(&long).unwrap();
                        // A plain call reads the result, in another stream, while the captured one goes on.
                        let plain = vm.invoke("main", std::slice::from_ref(&y)).unwrap();
                        let again = call.run(std::slice::from_ref(&y)).unwrap();
                        let want = alone(vm, &tensor(&wants[seed], &[4, 3]));
                        assert_eq!([floats(&again), floats(&plain)], [want.clone(), want]);
                        assert_eq!(floats(&sum), long_want);
                        kept.push((y, seed));
                    }
                    // Dropped while others run.
                    drop((call, long_call));
                    assert!(kept.iter().all(|(y, seed)| floats(y) == wants[*seed]));
                });
            }
        });
        Device::cuda(0).synchronize().unwrap();
    });
}

#[test]
fn captured_calls_overlap() {
    on_gpu("streams::captured_calls_overlap", "", || {
        let vm = gpu(step::module());
        let xs = [0, 1].map(|seed| there(&numbers(&[4, 3], seed)));
        let wants = [0, 1].map(|seed| alone(&vm, &numbers(&[4, 3], seed)));
        let mut calls = [0, 1].map(|i| vm.capture("main", std::slice::from_ref(&xs[i])).unwrap());
        for _ in 0..3 {
            let before = log("run").len();
            let ys = [0, 1].map(|i| calls[i].run(std::slice::from_ref(&xs[i])).unwrap());
            assert_eq!(log("run").len(), before, "nothing was waited for");
            assert_eq!(floats(&ys[1]), wants[1]);
            let ran = log("run").split_off(before);
            let ran: Vec<_> = ran.iter().filter_map(|it| it.rsplit(' ').next()).collect();
            assert!(!ran.is_empty() && ran.iter().all(|it| *it == ran[0]), "{ran:?}");
            assert_eq!(floats(&ys[0]), wants[0]);
            assert_eq!(log("run").len(), before + 2 * ran.len());
        }
    });
}

/// The function of the application keeps a tensor of the call, and calls in the middle of it.
#[test]
fn calls_inside_of_calls() {
    with_options("streams::calls_inside_of_calls", &ORDERS[..2], || {
        let inner = gpu(step::module());
        let (own, halve): (_, Halve) = (inner.clone(), halve::compile(&Target::cuda()).unwrap());
        let see = PackedFunc::typed(move |x: Tensor| {
            let y = own.invoke("main", &[x.into()])?;
            let mut half =
                y.as_tensor().ok_or(RuntimeError::BadData("a tensor"))?.deep_copy(Device::cuda(0))?;
            halve.call(y.as_tensor().ok_or(RuntimeError::BadData("a tensor"))?, &mut half)?;
            Ok(half)
        });
        let compiled = Compiled::new(shows::module().unwrap(), &Target::cuda()).unwrap();
        let config = VmConfig { functions: [("test.see".to_string(), see)].into(), ..VmConfig::default() };
        let vm = compiled.into_vm(config).unwrap();
        for seed in 0..4 {
            let x = numbers(&[4, 3], seed);
            let twice: Vec<f32> = floats(&x).iter().map(|it| it + it).collect();
            let seen = alone(&inner, &tensor(&twice, &[4, 3]));
            let want: Vec<f32> = seen.iter().zip(&twice).map(|(seen, it)| seen * 0.5 + it).collect();
            let y = vm.invoke("main", &[x]).unwrap();
            let later = inner.invoke("main", std::slice::from_ref(&y)).unwrap();
            let later = floats(&later);
            assert_eq!(floats(&y), want);
            assert_eq!(later, alone(&inner, &tensor(&want, &[4, 3])));
        }
    });
}

#[test]
fn streams_are_used_again_and_shared() {
    on_gpu("streams::streams_are_used_again_and_shared", "watch=1", || {
        let vm = gpu(step::module());
        let x = |seed| numbers(&[4, 3], seed);
        let want = alone(&vm, &x(0));
        let before = log("stream").len();
        for _ in 0..10 {
            let mut own = Workspace::new();
            let y = vm.invoke_in(&mut own, "main", &[x(0)]).unwrap();
            drop(own);
            assert_eq!(floats(&y), want);
        }
        assert_eq!(log("stream").len(), before + 1, "a workspace that is dropped gives its stream back");
        let mut many: Vec<_> = (0..70).map(|_| Workspace::new()).collect();
        let got: Vec<_> = many.iter_mut().map(|it| vm.invoke_in(it, "main", &[x(0)]).unwrap()).collect();
        assert_eq!(log("stream").len(), 32);
        assert!(got.iter().rev().all(|it| floats(it) == want));
        drop((many, got));
        Device::cuda(0).synchronize().unwrap();
    });
}

#[test]
fn the_time_of_a_call_is_that_of_its_stream() {
    on_gpu("streams::the_time_of_a_call_is_that_of_its_stream", "", || {
        let vm = gpu(step::module());
        let (mut own, x) = (Workspace::new(), there(&numbers(&[4, 3], 0)));
        vm.invoke_in(&mut own, "main", std::slice::from_ref(&x)).unwrap();
        let before = (log("launch").len(), log("run").len());
        let run = || vm.invoke_in(&mut own, "main", std::slice::from_ref(&x)).map(drop);
        let time = Device::cuda(0).timed(run).unwrap();
        // The clock of the fake GPU: a launch takes a millisecond.
        let (launches, runs) = (log("launch").len() - before.0, log("run").len() - before.1);
        assert!(launches > 1 && time.as_millis() == launches as u128, "{time:?}");
        assert!(runs > 0 && log("run").len() == log("launch").len(), "all was waited for");
    });
}

#[test]
fn a_fault_names_the_kernels_of_its_stream() {
    on_gpu("streams::a_fault_names_the_kernels_of_its_stream", "fault=8", || {
        let (vm, other) = (gpu(step::module()), gpu(negate::module()));
        let (mut a, mut b) = (Workspace::new(), Workspace::new());
        let x = there(&numbers(&[4, 3], 0));
        let y = vm.invoke_in(&mut a, "main", std::slice::from_ref(&x)).unwrap();
        // Not waited for so far: it is the one of eight that fails.
        let mut bad = None;
        while log("launch").len() < 8 {
            bad = Some(other.invoke_in(&mut b, "main", std::slice::from_ref(&x)).unwrap());
        }
        // The other stream goes on, and waits for nothing.
        assert_eq!(floats(&y).len(), 12);
        let err = bad.unwrap().as_tensor().unwrap().to_device(Device::cpu()).unwrap_err();
        assert!(matches!(err, RuntimeError::DeviceFault { .. }), "{err}");
        assert!(err.to_string().contains("in the kernel `negative`"), "{err}");
        let text = vm.invoke_in(&mut a, "main", &[x]).unwrap_err().to_string();
        assert!(text.contains("in the kernel `negative`"), "{text}");
        // Nothing fails while it is dropped.
        drop((a, b, y, vm, other));
    });
}
