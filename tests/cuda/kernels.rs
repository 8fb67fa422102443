//! Typed calls of kernels.

use tvm::prelude::*;
use tvm::runtime::Backend;

use super::child::{log, on_any_gpu, on_gpu, on_gpu_with};

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

#[prim_func]
fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j] in grid([m, n]) {
        c[[i, j]] = 0.0;
        for r in 0..k {
            c[[i, j]] += a[[i, r]] * b[[r, j]];
        }
    }
}

#[prim_func]
fn gather(x: &Tensor<f32, n>, at: &Tensor<i64, m>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = x[[at[[i]] as usize]];
    }
}

#[prim_func]
fn histogram(at: &Tensor<i64, m>, counts: &mut Tensor<i32, n>) {
    for i in 0..n {
        counts[[i]] = 0;
    }
    for i in 0..m {
        counts[[at[[i]] as usize]] += 1;
    }
}

/// The threads of many blocks count in the same few elements; a value without a place is an error.
#[test]
fn values_are_counted_by_all_threads() {
    on_any_gpu("kernels::values_are_counted_by_all_threads", "", || {
        let histogram = histogram::compile(&Target::cuda()).unwrap();
        for count in [0usize, 1, 255, 70_000] {
            let at: Vec<i64> = (0..count as i64).map(|i| i * i % 7).collect();
            let mut want = [0i32; 7];
            at.iter().for_each(|&at| want[at as usize] += 1);
            let mut counts = [-1i32; 7];
            histogram.call(&at, &mut counts).unwrap();
            assert_eq!(counts, want);
        }
        let err = histogram.call(&[3i64, 7], &mut [0i32; 7]).unwrap_err();
        assert!(err.to_string().contains("counts"), "{err}");
    });
}

#[test]
fn calls_with_arguments_of_the_host() {
    on_gpu("kernels::calls_with_arguments_of_the_host", "", || {
        let scale = scale::compile(&Target::cuda()).unwrap();
        assert_eq!(scale.backend(), Backend::Device);
        assert!(log("load").is_empty(), "code is loaded when it is called");
        for n in [1usize, 5, 1000, 70_000] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let mut y = vec![0.0f32; n];
            scale.call(&x, 0.5, &mut y).unwrap();
            assert!(y.iter().zip(&x).all(|(y, x)| *y == x * 0.5));
        }
        assert_eq!((log("load").len(), log("launch").len()), (1, 4));
        let (x, mut y): ([f32; 0], [f32; 0]) = ([], []);
        scale.call(&x, 0.5, &mut y).unwrap();
        assert_eq!(log("launch").len(), 4, "nothing is launched for nothing");
    });
}

#[test]
fn calls_with_tensors_on_the_device() {
    on_gpu("kernels::calls_with_tensors_on_the_device", "", || {
        let matmul = matmul::compile(&Target::cuda()).unwrap();
        let (m, n, k) = (33usize, 70, 20);
        let a: Vec<f32> = (0..m * k).map(|i| (i % 7) as f32 - 3.0).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i % 5) as f32 - 2.0).collect();
        let there = |data: &[f32], shape: [usize; 2]| {
            let shape = shape.map(|it| it as i64);
            Tensor::from_slice(data, &shape).unwrap().to_device(Device::cuda(0)).unwrap()
        };
        let (a_there, b_there) = (there(&a, [m, k]), there(&b, [k, n]));
        let mut c = Tensor::empty(&[m as i64, n as i64], DataType::F32, Device::cuda(0)).unwrap();
        matmul.call(&a_there, &b_there, &mut c).unwrap();
        assert!(log("download").is_empty(), "results stay on the device");
        let c = c.to_device(Device::cpu()).unwrap();
        for (at, c) in c.as_slice::<f32>().unwrap().iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let want: f32 = (0..k).map(|r| a[i * k + r] * b[r * n + j]).sum();
            assert_eq!(*c, want, "{i}, {j}");
        }
    });
}

#[prim_func]
fn product(a: &Tensor<f32, 64, 48>, b: &Tensor<f32, 48, 64>, c: &mut Tensor<f32, 64, 64>) {
    for [i, j] in grid([64, 64]) {
        c[[i, j]] = 0.0;
        for r in 0..48 {
            c[[i, j]] += a[[i, r]] * b[[r, j]];
        }
    }
}

/// Views that do not begin where a thread may access 16 bytes at once: the results are the same, and nothing beside them is written.
#[test]
fn views_begin_anywhere() {
    on_gpu("kernels::views_begin_anywhere", "", || {
        let product = product::compile(&Target::cuda()).unwrap();
        let gpu = Device::cuda(0);
        let numbers = |count: usize, by: usize| -> Vec<f32> {
            (0..count).map(|i| (i * by % 11) as f32 - 5.0).collect()
        };
        let mut results = Vec::new();
        for offset in [0usize, 1, 2, 4, 7] {
            let whole = |data: &[f32]| {
                let padded = [&vec![9.0f32; offset], data, &[9.0; 3]].concat();
                Tensor::from_slice(&padded, &[padded.len() as i64]).unwrap().to_device(gpu).unwrap()
            };
            let part = |of: &Tensor, shape: [i64; 2]| {
                Tensor::from_storage(of.storage().clone(), offset * 4, &shape, DataType::F32).unwrap()
            };
            let [a, b, c] =
                [numbers(64 * 48, 3), numbers(48 * 64, 7), vec![1.0; 64 * 64]].map(|it| whole(&it));
            let before = log("alloc").len();
            let len = c.shape()[0];
            // The only handle of its memory, which the call then writes in place.
            let mut out = part(&c, [64, 64]);
            drop(c);
            product.call(&part(&a, [64, 48]), &part(&b, [48, 64]), &mut out).unwrap();
            let copies = if offset % 4 == 0 { 0 } else { 3 };
            assert!((copies..=copies + 1).contains(&(log("alloc").len() - before)), "views at {offset}");
            let whole = Tensor::from_storage(out.storage().clone(), 0, &[len], DataType::F32).unwrap();
            let all = whole.to_device(Device::cpu()).unwrap().to_vec::<f32>().unwrap();
            let (before, rest) = all.split_at(offset);
            let (result, after) = rest.split_at(64 * 64);
            assert!(before.iter().chain(after).all(|it| *it == 9.0), "beside a view at {offset}");
            results.push(result.to_vec());
        }
        assert!(results.iter().all(|it| *it == results[0]));
        assert!(results[0].iter().any(|it| *it != 1.0));
    });
}

#[test]
fn many_threads_call_one_kernel() {
    on_gpu("kernels::many_threads_call_one_kernel", "", || {
        let scale = scale::compile(&Target::cuda()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let scale = &scale;
                scope.spawn(move || {
                    for n in 1..20 {
                        let x = vec![thread as f32; n];
                        let mut y = vec![0.0f32; n];
                        scale.call(&x, 2.0, &mut y).unwrap();
                        assert_eq!(y, vec![2.0 * thread as f32; n]);
                    }
                });
            }
        });
        assert_eq!(log("load").len(), 1);
    });
}

/// Writes as many elements as a float says.
#[prim_func]
fn some(s: f32, n_max: f64, y: &mut Tensor<f32, n>) {
    for i in 0..((s * 2.0).min(n_max as f32) as usize) {
        y[[i]] = 1.0;
    }
}

#[test]
fn launches_depend_on_floats() {
    on_any_gpu("kernels::launches_depend_on_floats", "", || {
        let some = some::compile(&Target::cuda()).unwrap();
        for (s, n_max, count) in
            [(1.75, 9.0, 3), (2.0, 9.0, 4), (9.0, 2.9, 2), (-3.0, 9.0, 0), (f32::NAN, 3.0, 3)]
        {
            let (mut y, mut want) = ([0.0f32; 4], [0.0f32; 4]);
            some.call(s, n_max, &mut y).unwrap();
            want[..count].fill(1.0);
            assert_eq!(y, want, "{s}, {n_max}");
        }
        let err = some.call(100.0, 1e30, &mut [0.0f32; 4]).unwrap_err();
        assert!(matches!(err, RuntimeError::OutOfBounds { .. }), "{err}");
    });
}

#[test]
fn failed_assertions_name_the_kernel_and_the_place() {
    on_any_gpu("kernels::failed_assertions_name_the_kernel_and_the_place", "", || {
        let gather = gather::compile(&Target::cuda()).unwrap();
        let x = [1.0f32, 2.0, 3.0];
        let mut y = [0.0f32; 2];
        gather.call(&x, &[2i64, 0], &mut y).unwrap();
        assert_eq!(y, [3.0, 1.0]);
        for index in [3, -1] {
            let err = gather.call(&x, &[0i64, index], &mut y).unwrap_err();
            assert!(matches!(err, RuntimeError::OutOfBounds { .. }), "{err}");
            let expected = format!(
                "`gather`: index {index} is outside of axis 0 of `x`, whose extent is 3 (at tests/cuda/"
            );
            assert!(err.to_string().starts_with(&expected), "{err}");
        }
        // The device can still be used.
        gather.call(&x, &[1i64, 1], &mut y).unwrap();
        assert_eq!(y, [2.0, 2.0]);
    });
}

/// The code for GPUs in the cache.
fn entries() -> Vec<std::path::PathBuf> {
    let dir = std::env::var_os("TVM_CACHE_DIR").unwrap();
    let files = std::fs::read_dir(dir).into_iter().flatten().map(|it| it.unwrap().path());
    files.filter(|it| it.extension().is_some_and(|it| it == "cubin")).collect()
}

#[test]
fn the_cache_can_be_switched_off() {
    on_gpu_with("kernels::the_cache_can_be_switched_off", &[("TVM_CACHE", "off")], || {
        let mut y = [0.0f32; 2];
        scale::compile(&Target::cuda()).unwrap().call(&[1.0f32, 2.0], 3.0, &mut y).unwrap();
        assert_eq!(y, [3.0, 6.0]);
        assert_eq!(entries(), <[std::path::PathBuf; 0]>::default());
    });
}

#[test]
fn code_is_compiled_once() {
    on_gpu("kernels::code_is_compiled_once", "", || {
        let call = || {
            let mut y = [0.0f32; 2];
            scale::compile(&Target::cuda()).unwrap().call(&[1.0f32, 2.0], 3.0, &mut y).unwrap();
            assert_eq!(y, [3.0, 6.0]);
        };
        call();
        let [entry] = &entries()[..] else { panic!("{:?}", entries()) };
        let whole = std::fs::read(entry).unwrap();
        let inode = || std::os::unix::fs::MetadataExt::ino(&entry.metadata().unwrap());
        let before = inode();
        call();
        assert_eq!(before, inode(), "the entry is used");
        std::fs::write(entry, &whole[..whole.len() / 2]).unwrap();
        call();
        assert_eq!(std::fs::read(entry).unwrap(), whole, "a damaged entry is made again");
    });
}

#[test]
fn the_device_times_what_it_does() {
    on_gpu("kernels::the_device_times_what_it_does", "", || {
        let scale = scale::compile(&Target::cuda()).unwrap();
        let gpu = Device::cuda(0);
        let x = Tensor::from_slice(&[1.0f32; 8], &[8]).unwrap().to_device(gpu).unwrap();
        let mut y = Tensor::empty(&[8], DataType::F32, gpu).unwrap();
        // This driver's clock counts launches.
        let time = gpu.timed(|| (0..3).try_for_each(|_| scale.call(&x, 0.5, &mut y))).unwrap();
        assert_eq!(time.as_millis(), 3);
        let err = gpu.timed(|| Device::cuda(9).synchronize()).unwrap_err();
        assert!(err.to_string().contains("cuda:9"), "{err}");
    });
}

/// The memory between the kernels of a call is the same in each call, and grows with it.
#[test]
fn memory_between_kernels_is_kept() {
    on_gpu("kernels::memory_between_kernels_is_kept", "", || {
        let twice = twice::compile(&Target::cuda()).unwrap();
        let gpu = Device::cuda(0);
        let mut counts = Vec::new();
        for n in [90usize, 90, 30, 300, 300] {
            let x: Vec<f32> = (0..n * n).map(|i| (i % 31) as f32).collect();
            let shape = [n as i64, n as i64];
            let there = Tensor::from_slice(&x, &shape).unwrap().to_device(gpu).unwrap();
            let mut y = Tensor::empty(&[n as i64], DataType::F32, gpu).unwrap();
            let before = log("alloc").len();
            twice.call(&there, &mut y).unwrap();
            counts.push(log("alloc").len() - before);
            let got = y.to_device(Device::cpu()).unwrap().to_vec::<f32>().unwrap();
            let want = |i: usize| (0..n).map(|j| x[i * n + j] + x[j * n + i]).sum::<f32>();
            assert!((0..n).step_by(97).all(|i| (got[i] - want(i)).abs() <= 1e-3 * want(i)));
        }
        assert_eq!(counts, [1, 0, 0, 1, 0]);
    });
}

#[prim_func]
fn twice(x: &Tensor<f32, n, n>, y: &mut Tensor<f32, n>) {
    let mut both = alloc::<f32>([n, n]);
    for [i, j] in grid([n, n]) {
        both[[i, j]] = x[[i, j]] + x[[j, i]];
    }
    for i in 0..n {
        y[[i]] = 0.0;
        for j in 0..n {
            y[[i]] += both[[i, j]];
        }
    }
}
