//! Kernels written as plain loops, as a user writes them first: medians of interleaved runs as Rust (the function that
//! `#[prim_func]` leaves beside the kernel) and compiled. `TVM_NUM_THREADS=1 cargo bench -p tvm-benches --features llvm
//! --bench plain_kernels [-- FILTER]`
#![allow(missing_docs, clippy::print_stdout, reason = "a benchmark that prints a table")]

use std::time::Instant;

use tvm::prelude::*;

#[prim_func]
fn product(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        for j in 0..n {
            c[[i, j]] = 0.0;
            for p in 0..k {
                c[[i, j]] += a[[i, p]] * b[[p, j]];
            }
        }
    }
}

#[prim_func]
fn product_nt(a: &Tensor<f32, m, k>, b: &Tensor<f32, n, k>, c: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        for j in 0..n {
            c[[i, j]] = 0.0;
            for p in 0..k {
                c[[i, j]] += a[[i, p]] * b[[j, p]];
            }
        }
    }
}

#[prim_func]
fn product_local(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        for j in 0..n {
            let mut sum = 0.0;
            for p in 0..k {
                sum += a[[i, p]] * b[[p, j]];
            }
            c[[i, j]] = sum;
        }
    }
}

#[prim_func]
fn product_rows(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        for j in 0..n {
            c[[i, j]] = 0.0;
        }
        for p in 0..k {
            for j in 0..n {
                c[[i, j]] += a[[i, p]] * b[[p, j]];
            }
        }
    }
}

#[prim_func]
fn product_block(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, p] in grid([m, n, k]) {
        block("c", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func]
fn matvec(a: &Tensor<f32, m, n>, x: &Tensor<f32, n>, y: &mut Tensor<f32, m>) {
    for i in 0..m {
        y[[i]] = 0.0;
        for j in 0..n {
            y[[i]] += a[[i, j]] * x[[j]];
        }
    }
}

#[prim_func]
fn saxpy(a: f32, x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = a * x[[i]] + y[[i]];
    }
}

#[prim_func]
fn softmax(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        let mut top = f32::NEG_INFINITY;
        let mut total = 0.0;
        for j in 0..n {
            top = top.max(x[[i, j]]);
        }
        for j in 0..n {
            y[[i, j]] = (x[[i, j]] - top).exp();
            total += y[[i, j]];
        }
        for j in 0..n {
            y[[i, j]] = y[[i, j]] / total;
        }
    }
}

#[prim_func]
fn convolution(x: &Tensor<f32, 58, 58, 64>, w: &Tensor<f32, 3, 3, 64, 64>, y: &mut Tensor<f32, 56, 56, 64>) {
    for h in 0..56 {
        for v in 0..56 {
            for o in 0..64 {
                y[[h, v, o]] = 0.0;
                for r in 0..3 {
                    for s in 0..3 {
                        for c in 0..64 {
                            y[[h, v, o]] += x[[h + r, v + s, c]] * w[[r, s, c, o]];
                        }
                    }
                }
            }
        }
    }
}

#[prim_func]
fn blur(x: &Tensor<f32, 1026, 1026>, y: &mut Tensor<f32, 1024, 1024>) {
    for i in 0..1024 {
        for j in 0..1024 {
            y[[i, j]] = (x[[i, j]]
                + x[[i, j + 1]]
                + x[[i, j + 2]]
                + x[[i + 1, j]]
                + x[[i + 1, j + 1]]
                + x[[i + 1, j + 2]]
                + x[[i + 2, j]]
                + x[[i + 2, j + 1]]
                + x[[i + 2, j + 2]])
                / 9.0;
        }
    }
}

#[prim_func]
fn cumsum(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        y[[i, 0]] = x[[i, 0]];
        for j in 1..n {
            y[[i, j]] = y[[i, j - 1]] + x[[i, j]];
        }
    }
}

#[prim_func]
fn life(x: &Tensor<u8, 1026, 1026>, y: &mut Tensor<u8, 1026, 1026>) {
    for i in 1..1025 {
        for j in 1..1025 {
            let n = x[[i - 1, j - 1]]
                + x[[i - 1, j]]
                + x[[i - 1, j + 1]]
                + x[[i, j - 1]]
                + x[[i, j + 1]]
                + x[[i + 1, j - 1]]
                + x[[i + 1, j]]
                + x[[i + 1, j + 1]];
            y[[i, j]] = if n == 3 || n == 2 && x[[i, j]] == 1 { 1 } else { 0 };
        }
    }
}

#[prim_func]
fn edit_distance(a: &Tensor<u8, m>, b: &Tensor<u8, n>, d: &mut Tensor<i32, { m + 1 }, { n + 1 }>) {
    for i in 0..m + 1 {
        d[[i, 0]] = i as i32;
    }
    for j in 0..n + 1 {
        d[[0, j]] = j as i32;
    }
    for i in 0..m {
        for j in 0..n {
            let cost = if a[[i]] == b[[j]] { 0 } else { 1 };
            d[[i + 1, j + 1]] = (d[[i, j]] + cost).min(d[[i, j + 1]] + 1).min(d[[i + 1, j]] + 1);
        }
    }
}

fn f32s(shape: &[i64], seed: usize) -> Tensor {
    let len: i64 = shape.iter().product();
    let data: Vec<f32> =
        (0..len as usize).map(|i| ((i * (seed * 2 + 7919)) % 1009) as f32 / 1009.0 - 0.5).collect();
    Tensor::from_slice(&data, shape).expect("a tensor")
}

fn u8s(shape: &[i64], most: usize) -> Tensor {
    let len: i64 = shape.iter().product();
    let data: Vec<u8> = (0..len as usize).map(|i| ((i * 7919) % 1009 % most) as u8).collect();
    Tensor::from_slice(&data, shape).expect("a tensor")
}

fn main() {
    let filter = std::env::args().skip(1).find(|arg| !arg.starts_with("--")).unwrap_or_default();
    let target = std::env::var("TVM_TARGET").map_or(Target::host(), |it| it.parse().expect("a target"));
    println!("{:16} {:>12} {:>12} {:>8}", "", "Rust", "compiled", "build");
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2] * 1e3
    };
    macro_rules! row {
        ($kernel:ident($($arg:expr),*) -> $out:expr) => {
            if stringify!($kernel).contains(&filter) {
                let start = Instant::now();
                let compiled = $kernel::compile(&target).expect("it compiles");
                let build = start.elapsed().as_secs_f64();
                if std::env::var_os("EXPLAIN").is_some() {
                    let func = $kernel::prim_func().expect("well formed");
                    let scheduled = tvm::dlight::schedule(&func, &target.machine);
                    println!("{:?}", scheduled.as_ref().map(|(_, applied)| applied));
                    println!("{}", scheduled.map_or(func, |it| it.0));
                }
                let (mut out, mut reference) = ($out, $out);
                let mut times = [Vec::new(), Vec::new()];
                let begin = Instant::now();
                while times[0].len() < 3 || begin.elapsed().as_secs_f64() < 1.5 && times[1].len() < 200 {
                    if times[0].len() < 3 {
                        let start = Instant::now();
                        $kernel::reference($($arg),*, &mut reference).expect("it runs");
                        times[0].push(start.elapsed().as_secs_f64());
                    }
                    let start = Instant::now();
                    compiled.call($($arg),*, &mut out).expect("it runs");
                    times[1].push(start.elapsed().as_secs_f64());
                }
                let [rust, ours] = &mut times;
                println!("{:16} {:>9.3} ms {:>9.3} ms {:>5.0} ms", stringify!($kernel), median(rust), median(ours), build * 1e3);
            }
        };
    }
    let (a, b) = (f32s(&[512, 512], 0), f32s(&[512, 512], 1));
    row!(product(&a, &b) -> f32s(&[512, 512], 2));
    row!(product_nt(&a, &b) -> f32s(&[512, 512], 2));
    row!(product_local(&a, &b) -> f32s(&[512, 512], 2));
    row!(product_rows(&a, &b) -> f32s(&[512, 512], 2));
    row!(product_block(&a, &b) -> f32s(&[512, 512], 2));
    let (a, x) = (f32s(&[2048, 2048], 0), f32s(&[2048], 1));
    row!(matvec(&a, &x) -> f32s(&[2048], 2));
    row!(saxpy(2.0f32, &x) -> f32s(&[2048], 2));
    let x = f32s(&[1024, 1024], 0);
    row!(softmax(&x) -> f32s(&[1024, 1024], 2));
    row!(cumsum(&x) -> f32s(&[1024, 1024], 2));
    let (x, w) = (f32s(&[58, 58, 64], 0), f32s(&[3, 3, 64, 64], 1));
    row!(convolution(&x, &w) -> f32s(&[56, 56, 64], 2));
    let x = f32s(&[1026, 1026], 0);
    row!(blur(&x) -> f32s(&[1024, 1024], 2));
    let x = u8s(&[1026, 1026], 2);
    row!(life(&x) -> u8s(&[1026, 1026], 2));
    let (a, b) = (u8s(&[2000], 26), u8s(&[2000], 25));
    row!(edit_distance(&a, &b) -> Tensor::from_vec(vec![0i32; 2001 * 2001], &[2001, 2001]).expect("a tensor"));
}
