//! Operators without a schedule by hand: median times of interleaved runs with default schedules and without, and of the
//! `gemm` crate for products. `TVM_NUM_THREADS=1 cargo bench -p tvm-benches --features llvm --bench untuned [-- FILTER]`
//! `EXPLAIN=1` prints the schedules, `EMIT=asm` the assembly, `EMIT=c` C code.
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark that prints a table")]

use std::time::Instant;

use tvm::codegen::{Compiled, EmitKind, compile_module};
use tvm::ir::{BaseFunc, IRModule};
use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::runtime::Value;
use tvm::runtime::vm::{Vm, Workspace};

#[relax::func]
fn matmul_128(a: Tensor<f32, 128, 128>, b: Tensor<f32, 128, 128>) -> Tensor<f32, 128, 128> {
    matmul(a, b)
}
#[relax::func]
fn matmul_512(a: Tensor<f32, 512, 512>, b: Tensor<f32, 512, 512>) -> Tensor<f32, 512, 512> {
    matmul(a, b)
}
#[relax::func]
fn matmul_1024(a: Tensor<f32, 1024, 1024>, b: Tensor<f32, 1024, 1024>) -> Tensor<f32, 1024, 1024> {
    matmul(a, b)
}
#[relax::func]
fn matmul_1000(a: Tensor<f32, 1000, 1001>, b: Tensor<f32, 1001, 1003>) -> Tensor<f32, 1000, 1003> {
    matmul(a, b)
}
#[relax::func]
fn matmul_m_512(a: Tensor<f32, m, 512>, b: Tensor<f32, 512, 512>) -> Tensor<f32, m, 512> {
    matmul(a, b)
}
#[relax::func]
fn matmul_bert(a: Tensor<f32, 512, 384>, b: Tensor<f32, 384, 1536>) -> Tensor<f32, 512, 1536> {
    matmul(a, b)
}
#[relax::func]
fn matmul_16(a: Tensor<f32, 16, 4096>, b: Tensor<f32, 4096, 4096>) -> Tensor<f32, 16, 4096> {
    matmul(a, b)
}
#[relax::func]
fn matmul_m16(a: Tensor<f32, m, 4096>, b: Tensor<f32, 4096, 4096>) -> Tensor<f32, m, 4096> {
    matmul(a, b)
}
#[relax::func]
fn matmul_m1(a: Tensor<f32, m, 4096>, b: Tensor<f32, 4096, 4096>) -> Tensor<f32, m, 4096> {
    matmul(a, b)
}
#[relax::func]
fn few_16(a: Tensor<f32, 16, 1536>, b: Tensor<f32, 1536, 384>) -> Tensor<f32, 16, 384> {
    matmul(a, b)
}
#[relax::func]
fn few_1(a: Tensor<f32, 1, 1536>, b: Tensor<f32, 1536, 384>) -> Tensor<f32, 1, 384> {
    matmul(a, b)
}
#[relax::func]
fn few_m16(a: Tensor<f32, m, 1536>, b: Tensor<f32, 1536, 384>) -> Tensor<f32, m, 384> {
    matmul(a, b)
}
#[relax::func]
fn few_m1(a: Tensor<f32, m, 1536>, b: Tensor<f32, 1536, 384>) -> Tensor<f32, m, 384> {
    matmul(a, b)
}
#[relax::func]
fn few_odd(a: Tensor<f32, 7, 1000>, b: Tensor<f32, 1000, 1003>) -> Tensor<f32, 7, 1003> {
    matmul(a, b)
}
#[relax::func]
fn matmul_1(a: Tensor<f32, 1, 4096>, b: Tensor<f32, 4096, 4096>) -> Tensor<f32, 1, 4096> {
    matmul(a, b)
}
#[relax::func]
fn scores(q: Tensor<f32, 12, 128, 64>, k: Tensor<f32, 12, 128, 64>) -> Tensor<f32, 12, 128, 128> {
    matmul(q, permute_dims(k, axes = [0, 2, 1]))
}
#[relax::func]
fn bias_relu(
    a: Tensor<f32, 512, 512>,
    b: Tensor<f32, 512, 512>,
    c: Tensor<f32, 512>,
) -> Tensor<f32, 512, 512> {
    relu(matmul(a, b) + c)
}
#[relax::func]
fn chain(
    a: Tensor<f32, 16777216>,
    b: Tensor<f32, 16777216>,
    c: Tensor<f32, 16777216>,
) -> Tensor<f32, 16777216> {
    relu(a * b + c)
}
#[relax::func]
fn softmax_1024(x: Tensor<f32, 1024, 1024>) -> Tensor<f32, 1024, 1024> {
    softmax(x, axis = 1)
}
#[relax::func]
fn exp_1m(x: Tensor<f32, 1048576>) -> Tensor<f32, 1048576> {
    exp(x)
}
#[relax::func]
fn log_1m(x: Tensor<f32, 1048576>) -> Tensor<f32, 1048576> {
    log(x)
}
#[relax::func]
fn tanh_1m(x: Tensor<f32, 1048576>) -> Tensor<f32, 1048576> {
    tanh(x)
}
#[relax::func]
fn erf_1m(x: Tensor<f32, 1048576>) -> Tensor<f32, 1048576> {
    erf(x)
}
#[relax::func]
fn sigmoid_1m(x: Tensor<f32, 1048576>) -> Tensor<f32, 1048576> {
    sigmoid(x)
}
#[relax::func]
fn gelu_1m(x: Tensor<f32, 1048576>) -> Tensor<f32, 1048576> {
    gelu(x)
}
#[relax::func]
fn layer_norm_768(
    x: Tensor<f32, 512, 768>,
    g: Tensor<f32, 768>,
    b: Tensor<f32, 768>,
) -> Tensor<f32, 512, 768> {
    layer_norm(x, g, b, axes = [1])
}
#[relax::func]
fn row_sums(x: Tensor<f32, 4096, 4096>) -> Tensor<f32, 4096> {
    sum(x, axis = [1])
}
#[relax::func]
fn column_sums(x: Tensor<f32, 4096, 4096>) -> Tensor<f32, 4096> {
    sum(x, axis = [0])
}
#[relax::func]
fn transposed(x: Tensor<f32, 4096, 4096>) -> Tensor<f32, 4096, 4096> {
    permute_dims(x, axes = [1, 0])
}
#[relax::func]
fn conv_56(x: Tensor<f32, 1, 64, 56, 56>, w: Tensor<f32, 64, 64, 3, 3>) -> Tensor<f32, 1, 64, 56, 56> {
    conv2d(x, w, padding = [1, 1, 1, 1])
}
#[relax::func]
fn conv_7(x: Tensor<f32, 1, 512, 7, 7>, w: Tensor<f32, 512, 512, 3, 3>) -> Tensor<f32, 1, 512, 7, 7> {
    conv2d(x, w, padding = [1, 1, 1, 1])
}
#[relax::func]
fn conv_1x1(x: Tensor<f32, 1, 64, 56, 56>, w: Tensor<f32, 256, 64, 1, 1>) -> Tensor<f32, 1, 256, 56, 56> {
    conv2d(x, w)
}
#[relax::func]
fn conv_stride(x: Tensor<f32, 1, 3, 224, 224>, w: Tensor<f32, 64, 3, 7, 7>) -> Tensor<f32, 1, 64, 112, 112> {
    conv2d(x, w, padding = [3, 3, 3, 3], strides = [2, 2])
}

struct Case {
    name: &'static str,
    module: IRModule,
    /// Shapes of the arguments.
    shapes: &'static [&'static [i64]],
    /// Extents of a product, which the `gemm` crate computes too.
    product: Option<[usize; 3]>,
}

fn values(shape: &[i64], seed: usize) -> Vec<f32> {
    let len: i64 = shape.iter().product();
    (0..len as usize).map(|i| ((i * (seed * 2 + 7919)) % 1009) as f32 / 1009.0 - 0.5).collect()
}

fn gemm(m: usize, n: usize, k: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    let one = gemm::Parallelism::None;
    // SAFETY: the matrices are m by k, k by n, and m by n, row-major, and do not overlap.
    #[allow(unsafe_code, reason = "the peer takes pointers")]
    unsafe {
        gemm::gemm(
            m, n, k, c, 1, n as isize, false, a, 1, k as isize, b, 1, n as isize, 0.0, 1.0, false, false,
            false, one,
        );
    }
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    macro_rules! cases {
        ($($name:ident $shapes:expr, $product:expr;)*) => {
            [$(Case { name: stringify!($name), module: $name::module().expect("well formed"), shapes: &$shapes, product: $product },)*]
        };
    }
    let cases = cases! {
        matmul_128 [&[128, 128], &[128, 128]], Some([128, 128, 128]);
        matmul_512 [&[512, 512], &[512, 512]], Some([512, 512, 512]);
        matmul_1024 [&[1024, 1024], &[1024, 1024]], Some([1024, 1024, 1024]);
        matmul_1000 [&[1000, 1001], &[1001, 1003]], Some([1000, 1003, 1001]);
        matmul_m_512 [&[300, 512], &[512, 512]], Some([300, 512, 512]);
        matmul_bert [&[512, 384], &[384, 1536]], Some([512, 1536, 384]);
        matmul_16 [&[16, 4096], &[4096, 4096]], Some([16, 4096, 4096]);
        matmul_m16 [&[16, 4096], &[4096, 4096]], Some([16, 4096, 4096]);
        few_16 [&[16, 1536], &[1536, 384]], Some([16, 384, 1536]);
        few_1 [&[1, 1536], &[1536, 384]], Some([1, 384, 1536]);
        few_m16 [&[16, 1536], &[1536, 384]], Some([16, 384, 1536]);
        few_m1 [&[1, 1536], &[1536, 384]], Some([1, 384, 1536]);
        few_odd [&[7, 1000], &[1000, 1003]], Some([7, 1003, 1000]);
        matmul_1 [&[1, 4096], &[4096, 4096]], Some([1, 4096, 4096]);
        matmul_m1 [&[1, 4096], &[4096, 4096]], Some([1, 4096, 4096]);
        scores [&[12, 128, 64], &[12, 128, 64]], None;
        bias_relu [&[512, 512], &[512, 512], &[512]], Some([512, 512, 512]);
        chain [&[16777216], &[16777216], &[16777216]], None;
        softmax_1024 [&[1024, 1024]], None;
        exp_1m [&[1048576]], None;
        log_1m [&[1048576]], None;
        tanh_1m [&[1048576]], None;
        erf_1m [&[1048576]], None;
        sigmoid_1m [&[1048576]], None;
        gelu_1m [&[1048576]], None;
        layer_norm_768 [&[512, 768], &[768], &[768]], None;
        row_sums [&[4096, 4096]], None;
        column_sums [&[4096, 4096]], None;
        transposed [&[4096, 4096]], None;
        conv_56 [&[1, 64, 56, 56], &[64, 64, 3, 3]], None;
        conv_7 [&[1, 512, 7, 7], &[512, 512, 3, 3]], None;
        conv_1x1 [&[1, 64, 56, 56], &[256, 64, 1, 1]], None;
        conv_stride [&[1, 3, 224, 224], &[64, 3, 7, 7]], None;
    };
    println!("{:16} {:>12} {:>12} {:>12} {:>10} {:>8}", "", "plain", "default", "gemm", "GFLOP/s", "build");
    for case in cases.into_iter().filter(|it| it.name.contains(&filter)) {
        run(&case);
    }
}

fn run(case: &Case) {
    let target = std::env::var("TVM_TARGET").map_or(Target::host(), |it| it.parse().expect("a target"));
    if std::env::var_os("EXPLAIN").is_some() {
        let compiled = Compiled::new(case.module.clone(), &target).expect("it compiles");
        for (name, func) in compiled.programs.functions() {
            if let BaseFunc::Prim(func) = func {
                let scheduled = tvm::dlight::schedule(func, &target.machine);
                println!("{}: {:?}", name.name(), scheduled.as_ref().map(|(_, applied)| applied));
                println!("{}", scheduled.map_or((**func).clone(), |it| it.0));
            }
        }
    }
    if let Some(kind) = std::env::var_os("EMIT") {
        let kind = if kind == "c" { EmitKind::C } else { EmitKind::Asm };
        let compiled = Compiled::new(case.module.clone(), &target).expect("it compiles");
        println!("{}", String::from_utf8_lossy(&compiled.emit(kind).expect("it is emitted")));
    }
    let start = Instant::now();
    let fast = compile_module(&case.module, &target).expect("it compiles");
    let build = start.elapsed().as_secs_f64();
    let plain = PassContext::new().disable("DefaultSchedule").scope(|| compile_module(&case.module, &target));
    let plain = plain.expect("it compiles");
    let data: Vec<Vec<f32>> = case.shapes.iter().enumerate().map(|(i, shape)| values(shape, i)).collect();
    let args: Vec<Value> = case
        .shapes
        .iter()
        .zip(&data)
        .map(|(shape, data)| Value::Tensor(Tensor::from_slice(data, shape).expect("a tensor")))
        .collect();
    let mut out = case.product.map(|[m, n, _]| vec![0f32; m * n]);
    let mut work = [Workspace::new(), Workspace::new()];
    let mut times: [Vec<f64>; 3] = Default::default();
    let begin = Instant::now();
    let step = |vm: &Vm, work: &mut Workspace, check: Option<&[f32]>| {
        let start = Instant::now();
        let y = vm.invoke_in(work, case.name, &args).expect("it runs");
        let time = start.elapsed().as_secs_f64();
        let data = check
            .map(|_| y.try_tensor("the result").expect("a tensor").as_slice::<f32>().expect("f32").to_vec());
        work.recycle(y);
        (time, data)
    };
    let reference = step(&plain, &mut work[0], Some(&[])).1.expect("a copy");
    let got = step(&fast, &mut work[1], Some(&[])).1.expect("a copy");
    let worst = reference.iter().zip(&got).map(|(a, b)| (a - b).abs() / (1.0 + a.abs())).fold(0.0, f32::max);
    let mut rounds = 0;
    while rounds < 5 || begin.elapsed().as_secs_f64() < 1.5 && rounds < 200 {
        if rounds < 3 {
            times[0].push(step(&plain, &mut work[0], None).0);
        }
        times[1].push(step(&fast, &mut work[1], None).0);
        if let (Some([m, n, k]), Some(out)) = (case.product, &mut out) {
            let start = Instant::now();
            gemm(m, n, k, &data[0], &data[1], out);
            times[2].push(start.elapsed().as_secs_f64());
        }
        rounds += 1;
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let [plain, fast, peer] = &mut times;
    let (plain, fast, peer) = (median(plain), median(fast), median(peer));
    let rate = case.product.map_or(f64::NAN, |[m, n, k]| 2.0 * (m * n * k) as f64 / fast / 1e9);
    println!(
        "{:16} {:>9.3} ms {:>9.3} ms {:>9.3} ms {:>10.1} {:>5.0} ms  off by {worst:.1e}",
        case.name,
        plain * 1e3,
        fast * 1e3,
        peer * 1e3,
        rate,
        build * 1e3
    );
}
