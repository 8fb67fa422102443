//! A product of matrices without a hand-written schedule: prints the schedule for GPUs, and where there is a GPU the time of the
//! kernel beside cuBLAS. Without a GPU, the same kernel runs on the CPU. The result is checked in both cases.
//!
//! `cargo run --release --features cuda --example gpu_matmul [SIZE]`
#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use std::ffi::{c_int, c_void};
use std::time::Instant;

use libloading::{Library, Symbol};
use tvm::BestTarget;
use tvm::dlight::schedule_for_gpu;
use tvm::ir::BaseFunc;
use tvm::prelude::*;

#[prim_func]
fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, r] in grid([m, n, k]) {
        block("c", [S(i), S(j), R(r)], |[vi, vj, vr]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vr]] * b[[vr, vj]];
        });
    }
}

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    print_schedule()?;
    let size = std::env::args().nth(1).map(|it| it.parse::<usize>()).transpose()?;
    let best = BestTarget::find();
    match &best.no_gpu {
        Some(reason) => {
            println!("no GPU: {reason}; running on the CPU");
            on_cpu(&best.target, size.unwrap_or(512))?;
        }
        None => on_gpu(&best.target, size.unwrap_or(4096))?,
    }
    Ok(())
}

fn on_cpu(target: &Target, size: usize) -> Result<(), Error> {
    let shape = [size as i64; 2];
    let [a, b] = [operand(size, 1), operand(size, 2)];
    let [a_in, b_in] = [Tensor::from_slice(&a, &shape)?, Tensor::from_slice(&b, &shape)?];
    let mut c = Tensor::zeros(&shape, DataType::F32)?;
    let kernel = matmul::compile(target)?;
    let seconds = time(5, || kernel.call(&a_in, &b_in, &mut c), || Ok(()))?;
    check(&a, &b, c.as_slice()?, size)?;
    println!("{size}³ on the CPU: {}", speed(size, seconds));
    Ok(())
}

/// Runs the kernel on the first GPU, and cuBLAS.
fn on_gpu(target: &Target, size: usize) -> Result<(), Error> {
    let gpu = Device::cuda(0);
    let shape = [size as i64; 2];
    let [a, b] = [operand(size, 1), operand(size, 2)];
    let there = |data: &[f32]| Tensor::from_slice(data, &shape)?.to_device(gpu);
    let (a_there, b_there) = (there(&a)?, there(&b)?);
    let mut c = Tensor::empty(&shape, DataType::F32, gpu)?;
    let kernel = matmul::compile(target)?;
    let seconds = time(20, || kernel.call(&a_there, &b_there, &mut c), || gpu.synchronize())?;
    check(&a, &b, c.to_device(Device::cpu())?.as_slice()?, size)?;
    println!("{size}³ on {}: {}", gpu.properties()?.name, speed(size, seconds));
    match Cublas::load() {
        Err(reason) => println!("cuBLAS is not found, so there is nothing to compare with: {reason}"),
        Ok(cublas) => {
            let c = Tensor::empty(&shape, DataType::F32, gpu)?;
            let of_cublas = time(20, || cublas.product(&a_there, &b_there, &c, size), || gpu.synchronize())?;
            check(&a, &b, c.to_device(Device::cpu())?.as_slice()?, size)?;
            println!(
                "cuBLAS: {}; the kernel reaches {:.0} % of it",
                speed(size, of_cublas),
                100.0 * of_cublas / seconds
            );
        }
    }
    Ok(())
}

/// Prints the program as the default schedule for GPUs transforms it.
fn print_schedule() -> Result<(), Error> {
    let module = matmul::module()?;
    let limits = *Target::cuda().gpu_arch().ok_or("a target for GPUs has an architecture")?.limits();
    for (_, func) in module.functions() {
        let BaseFunc::Prim(func) = func else { continue };
        let (scheduled, applied) = schedule_for_gpu(func, &limits).ok_or("the program has a schedule")?;
        for it in &applied {
            println!("// block `{}`: {} ({}): {}", it.block, it.rule, it.parameters, it.why);
        }
        println!("{scheduled}\n");
    }
    Ok(())
}

/// Numbers that are small and exact, so that sums are.
fn operand(size: usize, seed: usize) -> Vec<f32> {
    (0..size * size).map(|i| ((i * (2 * seed + 5) + seed) % 17) as f32 / 8.0 - 1.0).collect()
}

/// Compares elements of some rows with sums in `f64`.
fn check(a: &[f32], b: &[f32], c: &[f32], size: usize) -> Result<(), Error> {
    for i in [0, size / 3, size / 2, size - 1] {
        for j in 0..size {
            let want: f64 = (0..size).map(|r| f64::from(a[i * size + r]) * f64::from(b[r * size + j])).sum();
            let got = f64::from(c[i * size + j]);
            if (got - want).abs() > 1e-3 * want.abs().max(1.0) {
                return Err(format!("element ({i}, {j}) is {got}, expected {want}").into());
            }
        }
    }
    Ok(())
}

/// Seconds of one run, of `runs` after one that warms up; `wait` waits until what was launched has ended.
fn time(
    runs: u32,
    mut run: impl FnMut() -> Result<(), RuntimeError>,
    wait: impl Fn() -> Result<(), RuntimeError>,
) -> Result<f64, Error> {
    run()?;
    wait()?;
    let start = Instant::now();
    for _ in 0..runs {
        run()?;
    }
    wait()?;
    Ok(start.elapsed().as_secs_f64() / f64::from(runs))
}

fn speed(size: usize, seconds: f64) -> String {
    let operations = 2.0 * (size as f64).powi(3);
    format!("{:.3} ms, {:.1} GFLOP/s", seconds * 1e3, operations / seconds / 1e9)
}

type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;
type Sgemm = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const f32,
    *const c_void,
    c_int,
    *const c_void,
    c_int,
    *const f32,
    *mut c_void,
    c_int,
) -> c_int;

/// NVIDIA's library. By default it computes f32 without TF32.
struct Cublas {
    library: Library,
    handle: *mut c_void,
}

impl Cublas {
    fn load() -> Result<Cublas, Error> {
        let names = ["libcublas.so.13", "libcublas.so.12", "libcublas.so"];
        // SAFETY: NVIDIA's library may be loaded at any time.
        let found = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let library = found.ok_or_else(|| format!("none of {} is found", names.join(", ")))?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the function has this type.
        let create: Symbol<'_, Create> = unsafe { library.get(b"cublasCreate_v2")? };
        // SAFETY: the handle is written there; the context of the GPU is current, because a kernel ran before.
        let status = unsafe { create(&raw mut handle) };
        if status != 0 {
            return Err(format!("cublasCreate returned {status}").into());
        }
        Ok(Cublas { library, handle })
    }

    /// `c = a b`, all of `size` rows and columns on the first GPU.
    fn product(&self, a: &Tensor, b: &Tensor, c: &Tensor, size: usize) -> Result<(), RuntimeError> {
        let failed = |what: String| RuntimeError::other(format!("cublasSgemm: {what}"));
        // SAFETY: the function has this type.
        let sgemm = unsafe { self.library.get::<Sgemm>(b"cublasSgemm_v2") };
        let sgemm = sgemm.map_err(|err| failed(err.to_string()))?;
        let [a, b, c] = [a, b, c].map(|it| it.data_ptr().cast::<c_void>());
        let (n, one, zero) = (size as c_int, 1.0f32, 0.0f32);
        // cuBLAS has matrices by columns: to it, a matrix by rows is transposed, and `cᵀ = bᵀ aᵀ`.
        // SAFETY: three matrices of this size on the GPU, of which nobody else uses `c`.
        let status =
            unsafe { sgemm(self.handle, 0, 0, n, n, n, &raw const one, b, n, a, n, &raw const zero, c, n) };
        if status == 0 { Ok(()) } else { Err(failed(format!("it returned {status}"))) }
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: the function has this type.
        if let Ok(destroy) = unsafe { self.library.get::<Destroy>(b"cublasDestroy_v2") } {
            // SAFETY: made by `cublasCreate_v2`, and not used any more.
            unsafe { destroy(self.handle) };
        }
    }
}
