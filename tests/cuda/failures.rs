//! What cannot be run is an error with the name of the kernel or of the device.

use tvm::prelude::*;
use tvm::{In, Out};

use super::child::{on_gpu, without_gpu};

#[prim_func]
fn double(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] + x[[i]];
    }
}

/// The error of a call, which leaves no output.
fn error(n: usize) -> RuntimeError {
    let kernel = double::compile(&Target::cuda()).unwrap();
    kernel.call(&vec![1.0f32; n], &mut vec![0.0f32; n]).unwrap_err()
}

#[test]
fn no_driver() {
    without_gpu("failures::no_driver", || {
        let expected = "cuda:0: libcuda.so.1 was not found\n  help: install NVIDIA's driver";
        assert_eq!(error(3).to_string(), expected);
        assert_eq!(Device::best(), Device::cpu());
    });
}

#[test]
fn no_device() {
    on_gpu("failures::no_device", "init=100", || {
        assert!(error(3).to_string().contains("CUDA_ERROR_NO_DEVICE"), "{}", error(3));
        assert_eq!(Device::best(), Device::cpu());
    });
}

#[test]
fn out_of_memory() {
    on_gpu("failures::out_of_memory", "memory=4096", || {
        let err = error(1000);
        assert!(matches!(err, RuntimeError::OutOfMemory { .. }));
        assert_eq!(err.to_string(), "out of memory: cannot allocate 4000 bytes on cuda:0");
        // What was allocated for the failed call is free again.
        let kernel = double::compile(&Target::cuda()).unwrap();
        for _ in 0..10 {
            let mut y = [0.0f32; 400];
            kernel.call(&[1.0f32; 400], &mut y).unwrap();
            assert_eq!(y, [2.0; 400]);
        }
    });
}

#[test]
fn a_kernel_that_faults() {
    on_gpu("failures::a_kernel_that_faults", "fault=2", || {
        let kernel = double::compile(&Target::cuda()).unwrap();
        let x = Tensor::from_slice(&[1.0f32; 4], &[4]).unwrap().to_device(Device::cuda(0)).unwrap();
        let mut y = Tensor::empty(&[4], DataType::F32, Device::cuda(0)).unwrap();
        kernel.call(&x, &mut y).unwrap();
        assert_eq!(y.to_device(Device::cpu()).unwrap().to_vec::<f32>().unwrap(), [2.0; 4]);
        kernel.call(&x, &mut y).unwrap();
        let fault = y.to_device(Device::cpu()).unwrap_err();
        assert!(matches!(fault, RuntimeError::DeviceFault { .. }), "{fault}");
        assert!(fault.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{fault}");
        assert!(fault.to_string().contains("in the kernel `double`"), "{fault}");
        assert_eq!(kernel.call(&x, &mut y).unwrap_err().to_string(), fault.to_string());
        assert_eq!(error(3).to_string(), fault.to_string());
    });
}

#[test]
fn a_launch_that_is_refused() {
    on_gpu("failures::a_launch_that_is_refused", "launch=701", || {
        let err = error(3).to_string();
        assert!(
            err.starts_with("`double` cannot be launched: cuda:0: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
            "{err}"
        );
    });
}

#[test]
fn arguments_that_do_not_fit() {
    on_gpu("failures::arguments_that_do_not_fit", "", || {
        let kernel = double::compile(&Target::cuda()).unwrap();
        let err = kernel.call(&[1.0f32; 3], &mut [0.0f32; 4]).unwrap_err();
        assert_eq!(err.to_string(), "`double`: argument `y`: axis 0 is 4, expected 3 (= n)");
        let there = |device| Tensor::from_slice(&[1.0f32], &[1]).unwrap().to_device(device).unwrap();
        let mut y = [0.0f32];
        let err = kernel.call(&there(Device::virtual_cpu(1)), &mut y).unwrap_err();
        assert_eq!(err.to_string(), "`double`: argument `x` is on cpu:1, the arguments before it on cuda:0");
        // A kernel for the CPU does not take tensors of the GPU.
        let kernel = double::compile(&Target::host()).unwrap();
        let err = kernel.call(&there(Device::cuda(0)), &mut y).unwrap_err();
        assert_eq!(err.to_string(), "the tensor is on cuda:0; copy it to cpu:0 first (`to_device`)");
        let mut there = there(Device::cuda(0));
        let err = kernel.call(&[1.0f32], &mut there).unwrap_err();
        assert!(matches!(err, RuntimeError::NotOnHost { .. }), "{err}");
    });
}

/// The extents of a launch depend on those of the arguments.
#[prim_func]
fn tall(x: &Tensor<u8, n>, y: &mut Tensor<u8, n>) {
    #[bind("blockIdx.y")]
    for i in 0..n {
        y[[i]] = x[[i]];
    }
}

#[prim_func]
fn wide(x: &Tensor<u8, n>, y: &mut Tensor<u8, n>) {
    #[bind("threadIdx.x")]
    for i in 0..n {
        y[[i]] = x[[i]];
    }
}

#[test]
fn launches_that_are_too_large() {
    on_gpu("failures::launches_that_are_too_large", "", || {
        let call = |kernel: &CompiledFn<(In<u8, 1>, Out<u8, 1>)>, n: usize| {
            let (x, mut y) = (vec![7u8; n], vec![0u8; n]);
            kernel.call(&x, &mut y).map(|()| assert_eq!(x, y))
        };
        let (tall, wide) = (tall::compile(&Target::cuda()).unwrap(), wide::compile(&Target::cuda()).unwrap());
        call(&tall, 65_535).unwrap();
        let err = call(&tall, 65_536).unwrap_err();
        assert!(matches!(err, RuntimeError::Assert { .. }), "{err}");
        let expected =
            "`tall`: assertion failed: a GPU runs at most 65535 iterations of a loop over blockIdx.y";
        assert!(err.to_string().starts_with(expected), "{err}");
        call(&wide, 1024).unwrap();
        let err = call(&wide, 1025).unwrap_err().to_string();
        assert!(err.starts_with("`wide`: assertion failed: a GPU runs at most 1024"), "{err}");
    });
}

#[test]
fn what_does_not_fit_a_block_is_not_compiled() {
    #[prim_func]
    fn block(x: &Tensor<f32, 2048>, y: &mut Tensor<f32, 2048>) {
        #[bind("threadIdx.x")]
        for i in 0..2048 {
            y[[i]] = x[[i]];
        }
    }
    on_gpu("failures::what_does_not_fit_a_block_is_not_compiled", "", || {
        let err = block::compile(&Target::cuda()).unwrap_err().to_string();
        assert!(err.contains("threadIdx.x has 2048 values in this kernel, sm_90 has at most 1024"), "{err}");
        assert!(err.contains("split"), "{err}");
    });
}
