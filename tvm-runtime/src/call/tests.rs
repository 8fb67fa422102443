//! Tests of the typed call.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use ndarray::{Array1, Array2, ArrayD, IxDyn, array, s};

use super::*;
use crate::abi::{CallContext, Status};
use crate::kernel::{DimSig, HostFn};
use crate::tensor::Tensor;
use crate::{HostArg, WorkerPool};

fn var(name: &str) -> DimSig {
    DimSig::Var(name.into())
}

fn param(name: &str, kind: ParamKind, shape: &[&str]) -> ParamSig {
    ParamSig {
        name: name.into(),
        kind,
        dtype: DataType::F32,
        shape: shape.iter().map(|dim| var(dim)).collect(),
    }
}

/// `y = x * s`, as a code generator would write it.
unsafe extern "C" fn scale(args: *const KernelArg, n_args: i32, ctx: *mut CallContext) -> i32 {
    struct Env {
        x: *const f32,
        s: f32,
        y: *mut f32,
    }
    unsafe extern "C" fn body(_: *mut CallContext, begin: i64, end: i64, env: *mut c_void) -> i32 {
        // SAFETY: `env` is the `Env` below; the range is within the extents checked there.
        unsafe {
            let env = &*env.cast::<Env>();
            for i in begin as usize..end as usize {
                *env.y.add(i) = *env.x.add(i) * env.s;
            }
        }
        0
    }
    // SAFETY: called with three arguments of the kinds of `scale_sig`.
    unsafe {
        assert_eq!(n_args, 3);
        let (x, s, y) = (&*(*args).tensor, (*args.add(1)).float as f32, &*(*args.add(2)).tensor);
        let (n, m) = (*x.shape, *y.shape);
        if n != m {
            let error = &mut (*ctx).error;
            (error.status, error.arg, error.axis) = (Status::Extent as i32, 2, 0);
            (error.expected, error.got) = (n, m);
            return Status::Extent as i32;
        }
        let scratch = ((*ctx).alloc)(ctx, 100);
        assert_eq!(scratch as usize % 64, 0);
        ((*ctx).free)(ctx, scratch);
        let mut env = Env { x: x.data.cast(), s, y: y.data.cast() };
        ((*ctx).parallel_for)(ctx, body, n, 1 << 20, (&raw mut env).cast())
    }
}

type Scale = CompiledFn<(In<f32, 1>, f32, Out<f32, 1>)>;

fn scale_kernel() -> Kernel {
    let s = ParamSig { name: "s".into(), kind: ParamKind::Scalar, dtype: DataType::F32, shape: vec![] };
    let params = vec![param("x", ParamKind::In, &["n"]), s, param("y", ParamKind::Out, &["n"])];
    // SAFETY: `scale` does what the signature says.
    unsafe { Kernel::native(KernelSig { name: "scale".into(), params }, scale, Arc::new(())) }
}

/// `c = a + b` on matrices, as a host function.
fn add_kernel() -> Kernel {
    let params = ["a", "b", "c"]
        .map(|name| param(name, if name == "c" { ParamKind::Out } else { ParamKind::In }, &["m", "n"]));
    Kernel::host(KernelSig { name: "add".into(), params: params.to_vec() }, |args| {
        let [HostArg::In(a), HostArg::In(b), HostArg::Out(c)] = args else {
            return Err(RuntimeError::other("kinds"));
        };
        for ((c, a), b) in
            c.as_mut_slice::<f32>()?.iter_mut().zip(a.as_slice::<f32>()?).zip(b.as_slice::<f32>()?)
        {
            *c = a + b;
        }
        Ok(())
    })
}

type Add = CompiledFn<(In<f32, 2>, In<f32, 2>, Out<f32, 2>)>;

#[test]
fn all_kinds_of_arguments() {
    let f = Add::new(add_kernel()).unwrap();
    let a = array![[1f32, 2.], [3., 4.]];
    let tensor = Tensor::from_array(a.clone()).unwrap();
    let expected = &a + &a;
    let mut c = Array2::zeros((2, 2));
    f.call(&a, &tensor, &mut c).unwrap();
    assert_eq!(c, expected);
    let mut c = ArrayD::zeros(IxDyn(&[2, 2]));
    f.call(&a.view(), a.view(), &mut c).unwrap();
    assert_eq!(c, expected.clone().into_dyn());
    let mut c = Tensor::zeros(&[2, 2], DataType::F32).unwrap();
    let before = c.clone();
    f.call(&tensor, &a.clone().into_dyn(), &mut c).unwrap();
    assert_eq!(c.view::<f32, ndarray::Ix2>().unwrap(), expected);
    assert_eq!(before, Tensor::zeros(&[2, 2], DataType::F32).unwrap(), "a shared output is copied first");
    let mut c = Array2::zeros((4, 2));
    f.call(&a, &a, c.slice_mut(s![1..3, ..])).unwrap();
    assert_eq!(c.slice(s![1..3, ..]), expected);

    let f = Scale::new(scale_kernel()).unwrap();
    let mut y = [0f32; 3];
    f.call(&[1f32, 2., 3.], 2., &mut y).unwrap();
    assert_eq!(y, [2., 4., 6.]);
    let (x, mut y) = (vec![1f32; 4], vec![0f32; 4]);
    f.call(&x, 3., &mut y).unwrap();
    f.call(&x[..2], 5., &mut y[1..3]).unwrap();
    assert_eq!(y, [3., 5., 5., 3.]);
    f.call(&[0f32; 0], 1., &mut [0f32; 0]).unwrap();
}

#[test]
fn errors_name_the_argument() {
    let add = Add::new(add_kernel()).unwrap();
    let scale = Scale::new(scale_kernel()).unwrap();
    let a = Array2::<f32>::zeros((2, 3));
    let square = Array2::<f32>::zeros((3, 3));
    let flat = ArrayD::<f32>::zeros(IxDyn(&[6]));
    let f64s = Tensor::zeros(&[2, 3], DataType::F64).unwrap();
    let mut c = Array2::<f32>::zeros((2, 3));
    let err = |res: Result<(), RuntimeError>| res.unwrap_err().to_string();
    assert_eq!(err(add.call(&a, &square, &mut c)), "`add`: argument `b`: axis 0 is 3, expected 2 (= m)");
    assert_eq!(err(add.call(&a, &flat, &mut c)), "`add`: argument `b`: rank is 1, expected 2");
    assert_eq!(err(add.call(&f64s, &a, &mut c)), "`add`: argument `a`: element type is f64, expected f32");
    assert!(err(add.call(&a, &a, &mut c.slice_mut(s![.., ..2]))).starts_with(
        "`add`: argument `c`: not contiguous: the stride of axis 0 is 3, expected 2; pass a row-major copy"
    ));
    assert!(err(add.call(&a.t(), &a.t(), &mut Array2::zeros((3, 2)))).contains("not contiguous"));
    assert_eq!(
        err(scale.call(&[1f32; 3], 1., &mut [0f32; 4])),
        "`scale`: argument `y`: axis 0 is 4, expected 3 (= n)"
    );
}

#[test]
fn types_must_fit_the_signature() {
    let err = CompiledFn::<(In<f32, 1>, f64, Out<f32, 1>)>::new(scale_kernel()).unwrap_err();
    assert_eq!(err.to_string(), "`scale`: signature mismatch: parameter `s` is f32, the Rust type has f64");
    let err = CompiledFn::<(In<f32, 2>, f32, Out<f32, 1>)>::new(scale_kernel()).unwrap_err();
    assert!(err.to_string().ends_with("parameter `x` is In<f32, 1>, the Rust type has In<f32, 2>"));
    let err = CompiledFn::<(In<f32, 1>, f32, In<f32, 1>)>::new(scale_kernel()).unwrap_err();
    assert!(err.to_string().ends_with("parameter `y` is Out<f32, 1>, the Rust type has In<f32, 1>"));
    let err = CompiledFn::<(In<f32, 1>,)>::new(scale_kernel()).unwrap_err();
    assert!(err.to_string().contains("it has 3 parameter(s), the Rust type has 1"), "{err}");
}

#[test]
fn host_functions_are_contained() {
    let sig = || add_kernel().signature().clone();
    let a = Array2::<f32>::zeros((2, 3));
    let mut c = a.clone();
    let panics: Box<HostFn> = Box::new(|_, _| panic!("no {}", 1));
    let f = Add::new(Kernel::cancellable_host(sig(), panics)).unwrap();
    assert_eq!(f.call(&a, &a, &mut c).unwrap_err().to_string(), "`add` panicked: no 1");
    // Through the safe untyped call, kinds are checked.
    let shape = [2, 3];
    let view = || crate::TensorView::new(a.as_slice().unwrap(), &shape).unwrap();
    let err = add_kernel().call(&mut [HostArg::In(view()), HostArg::Int(1), HostArg::In(view())], None);
    assert_eq!(err.unwrap_err().to_string(), "`add`: argument `b`: expected an input tensor, got an integer");
    let err = add_kernel().call(&mut [HostArg::In(view())], None);
    assert_eq!(err.unwrap_err().to_string(), "`add`: expected 3 argument(s), got 1");
    let out = crate::TensorViewMut::new(c.as_slice_mut().unwrap(), &shape).unwrap();
    add_kernel().call(&mut [HostArg::In(view()), HostArg::In(view()), HostArg::Out(out)], None).unwrap();
}

#[test]
fn an_input_that_an_output_overlaps_is_copied() {
    let kernel = add_kernel();
    let data = [1f32, 2., 3., 4.];
    let mut tensor = Tensor::from_slice(&data, &[2, 2]).unwrap();
    let out = tensor.as_mut_slice::<f32>().unwrap().as_mut_ptr();
    let mut shape = [2i64, 2];
    let describe = DLTensor { shape: shape.as_mut_ptr(), data: out.cast(), ..tensor.to_dltensor() };
    let arg = || KernelArg { tensor: &raw const describe };
    // SAFETY: valid tensors of the signature's kinds, all the same memory.
    unsafe { kernel.call_raw(&[arg(), arg(), arg()], None) }.unwrap();
    assert_eq!(tensor.as_slice::<f32>().unwrap(), [2., 4., 6., 8.]);
}

#[test]
fn eight_threads_share_one_function() {
    let f = Scale::new(scale_kernel()).unwrap().with_pool(Arc::new(WorkerPool::new(4)));
    const ROUNDS: usize = if cfg!(miri) { 3 } else { 200 };
    let runs = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for t in 0..8 {
            let (f, runs) = (&f, &runs);
            scope.spawn(move || {
                for i in 0..ROUNDS {
                    let n = 1 + (i * 37 + t) % 999;
                    let x = Array1::from_iter((0..n).map(|v| v as f32));
                    let mut y = Array1::zeros(n);
                    f.call(&x, t as f32, &mut y).unwrap();
                    assert_eq!(y, x * t as f32);
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(runs.into_inner(), 8 * ROUNDS);
}
