//! Products of narrow operands that nobody scheduled: medians of runs with and without the default schedule, whose results
//! are compared. `TVM_NUM_THREADS=1 cargo bench -p tvm-benches --features llvm --bench narrow [-- FILTER]`
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark that prints a table")]

use std::time::Instant;

use tvm::codegen::{Compiled, EmitKind, compile};
use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::runtime::{HostArg, Kernel, TensorView, TensorViewMut};
use tvm::te::{compute, create_prim_func, placeholder, reduce_axis, sum};
use tvm::tir::{PrimExpr, PrimFunc};

const TYPES: [[DataType; 3]; 6] = [
    [DataType::U8, DataType::I8, DataType::I32],
    [DataType::I8, DataType::I8, DataType::I32],
    [DataType::I8, DataType::U8, DataType::I32],
    [DataType::U8, DataType::U8, DataType::I32],
    [DataType::BF16, DataType::BF16, DataType::F32],
    [DataType::F16, DataType::F16, DataType::F32],
];

const SHAPES: [[i64; 3]; 7] = [
    [1024, 1024, 1024],
    [512, 1536, 384],
    [128, 128, 128],
    [16, 1024, 1024],
    [1, 1024, 1024],
    [333, 335, 337],
    [1024, 64, 1024],
];

fn product([m, n, k]: [i64; 3], [a, b, c]: [DataType; 3], transposed: bool) -> PrimFunc {
    let shape = |x: i64, y: i64| vec![PrimExpr::index(x), PrimExpr::index(y)];
    let a = placeholder("a", shape(m, k), a);
    let b = placeholder("b", if transposed { shape(n, k) } else { shape(k, n) }, b);
    let k = reduce_axis("k", PrimExpr::index(k));
    let y = compute("y", shape(m, n), &[&a, &b], |i: &[PrimExpr]| {
        let at = if transposed { [i[1].clone(), k.expr()] } else { [k.expr(), i[1].clone()] };
        sum(a.at([i[0].clone(), k.expr()]).cast(c) * b.at(at).cast(c), &[&k])
    });
    create_prim_func("product", &[a, b], &[y]).expect("a program")
}

fn data(count: usize, dtype: DataType, seed: u64) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as u32
    };
    let bytes = (0..count).flat_map(|_| match dtype {
        // Floats between 1 and 2, of either sign.
        DataType::BF16 => (0x3f80 | (next() & 0x807f) as u16).to_le_bytes().to_vec(),
        DataType::F16 => (0x3c00 | (next() & 0x83ff) as u16).to_le_bytes().to_vec(),
        _ => vec![next() as u8],
    });
    bytes.collect()
}

fn tensor(bytes: &[u8], shape: &[i64], dtype: DataType) -> Tensor {
    let pairs = || bytes.chunks_exact(2).map(|it| u16::from_le_bytes([it[0], it[1]]));
    let made = match dtype {
        DataType::I8 => Tensor::from_slice(&bytes.iter().map(|&it| it as i8).collect::<Vec<_>>(), shape),
        DataType::BF16 => Tensor::from_slice(&pairs().map(bf16::from_bits).collect::<Vec<_>>(), shape),
        DataType::F16 => Tensor::from_slice(&pairs().map(f16::from_bits).collect::<Vec<_>>(), shape),
        _ => Tensor::from_slice(bytes, shape),
    };
    made.expect("a tensor")
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let target = std::env::var("TVM_TARGET").map_or(Target::host(), |it| it.parse().expect("a target"));
    for types in TYPES {
        for shape in SHAPES {
            for transposed in [false, true] {
                let [m, n, k] = shape;
                let t = if transposed { " transposed" } else { "" };
                let name = format!("{}x{} {m}x{n}x{k}{t}", types[0], types[1]);
                if name.contains(&filter) {
                    run(&name, &product(shape, types, transposed), shape, types, transposed, &target);
                }
            }
        }
    }
}

fn run(
    name: &str,
    func: &PrimFunc,
    [m, n, k]: [i64; 3],
    types: [DataType; 3],
    transposed: bool,
    target: &Target,
) {
    if std::env::var_os("EXPLAIN").is_some()
        && let Some((func, applied)) = tvm::dlight::schedule(func, &target.machine)
    {
        println!("{applied:?}\n{func}");
        let compiled = Compiled::new(IRModule::from_prim_func(func), target).expect("it compiles");
        let text = compiled.emit(EmitKind::Asm).expect("assembly");
        println!("{}", String::from_utf8_lossy(&text));
    }
    let fast = compile(func, target).expect("it compiles");
    let plain =
        PassContext::new().disable("DefaultSchedule").scope(|| compile(func, target)).expect("it compiles");
    let [a, b] =
        [(m * k, types[0], 1), (k * n, types[1], 2)].map(|(len, it, seed)| data(len as usize, it, seed));
    let (a, b) =
        (tensor(&a, &[m, k], types[0]), tensor(&b, &if transposed { [n, k] } else { [k, n] }, types[1]));
    let zeros = |_| match types[2] {
        DataType::I32 => Tensor::from_slice(&vec![0i32; (m * n) as usize], &[m, n]).expect("a tensor"),
        _ => Tensor::from_slice(&vec![0f32; (m * n) as usize], &[m, n]).expect("a tensor"),
    };
    let mut outs = [0, 1].map(zeros);
    let call = |kernel: &Kernel, out: &mut Tensor| {
        let mut shape = Vec::new();
        let mut views = [
            HostArg::In(TensorView::of(&a).expect("a view")),
            HostArg::In(TensorView::of(&b).expect("a view")),
            HostArg::Out(TensorViewMut::of(out, &mut shape).expect("a view")),
        ];
        let start = Instant::now();
        kernel.call(&mut views, None).expect("it runs");
        start.elapsed().as_secs_f64()
    };
    call(&plain, &mut outs[0]);
    call(&fast, &mut outs[1]);
    let worst = match types[2] {
        DataType::I32 => {
            let [x, y] = outs.each_ref().map(|it| it.as_slice::<i32>().expect("i32"));
            x.iter().zip(y).map(|(x, y)| (x - y).abs() as f32).fold(0.0, f32::max)
        }
        _ => {
            let [x, y] = outs.each_ref().map(|it| it.as_slice::<f32>().expect("f32"));
            x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max)
        }
    };
    let (mut times, begin) = (Vec::new(), Instant::now());
    while times.len() < 5 || begin.elapsed().as_secs_f64() < 0.6 {
        times.push(call(&fast, &mut outs[1]));
    }
    times.sort_by(f64::total_cmp);
    let (least, median) = (times[0], times[times.len() / 2]);
    let rate = 2.0 * (m * n * k) as f64 / least / 1e9;
    println!(
        "{name:38} least {:9.4} ms, median {:9.4} ms, {rate:7.1} G/s, worst {worst}",
        least * 1e3,
        median * 1e3
    );
}
