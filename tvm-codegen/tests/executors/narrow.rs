//! Products of narrow operands: all executors, on CPUs with and without an instruction for four products of bytes, give
//! the results of the interpreter.

use tvm_codegen::build;
use tvm_core::ir::{BaseFunc, IRModule, Var};
use tvm_core::pass::PassContext;
use tvm_core::target::Target;
use tvm_core::te::{compute, create_prim_func, placeholder, reduce_axis, sum};
use tvm_core::tir::{ForKind, Intrinsic, PrimExpr, PrimFunc};
use tvm_runtime::{DataType, Tensor, Value};

use super::data::{Rng, assert_close, call};
use super::elementwise::map;
use super::suite::targets;

/// The targets of this build, for this CPU and for levels that lack `vpdpbusd`.
pub(crate) fn levels() -> Vec<Target> {
    let mut res = targets();
    if cfg!(target_arch = "x86_64") {
        let has = |name: &str| tvm_runtime::cpu_features().contains(&name);
        let mut texts = vec!["-cpu=x86-64"];
        texts.extend(has("avx2").then_some("-cpu=x86-64-v3"));
        texts.extend(has("avx512bw").then_some("-cpu=x86-64-v4"));
        texts
            .extend((has("avx512vnni") && has("avx512vl")).then_some("-cpu=x86-64-v4 -features=+avx512vnni"));
        texts.extend(has("avxvnni").then_some("-cpu=x86-64-v3 -features=+avxvnni"));
        for kind in targets() {
            res.extend(
                texts.iter().map(|text| format!("{} {text}", kind.kind.name()).parse::<Target>().unwrap()),
            );
        }
    }
    res
}

/// Bytes, many of which are the least and the greatest ones.
fn bytes(count: i64, rng: &mut Rng) -> Vec<u8> {
    let byte = |rng: &mut Rng| match rng.next() % 3 {
        0 => [0x80, 0x7f, 0xff, 0x00, 0x81][(rng.next() % 5) as usize],
        _ => (rng.next() >> 7) as u8,
    };
    (0..count).map(|_| byte(rng)).collect()
}

pub(crate) fn tensor(shape: &[i64], dtype: DataType, rng: &mut Rng) -> Value {
    let size = shape.iter().product::<i64>() * dtype.bytes() as i64;
    let mut data = bytes(size, rng);
    if dtype.is_float() {
        // Floats between 1 and 2, of either sign: sums of their products differ with their order only a little.
        let high = if dtype == DataType::BF16 { [0x3f, 0x80] } else { [0x3c, 0] };
        for pair in data.chunks_exact_mut(2) {
            (pair[0], pair[1]) = (pair[0] | high[1], high[0] | pair[1] & 0x80);
        }
    }
    Value::Tensor(Tensor::from_bytes(&data, shape, dtype).unwrap())
}

fn compare(module: &IRModule, runs: &[(&str, Vec<Value>)], targets: &[Target]) {
    compare_with(module, module, runs, targets);
}

/// Compares what the programs of `module` compute on `targets` with what those of `oracle` compute in the interpreter.
pub(crate) fn compare_with(
    oracle: &IRModule,
    module: &IRModule,
    runs: &[(&str, Vec<Value>)],
    targets: &[Target],
) {
    let run = |built: &tvm_runtime::Module, name: &str, args: &[Value]| {
        let copy = |value: &Value| {
            let it = value.as_tensor().unwrap();
            Value::Tensor(Tensor::from_bytes(it.bytes().unwrap(), it.shape(), it.dtype()).unwrap())
        };
        let mut args: Vec<Value> = args.iter().map(copy).collect();
        call(built.get(name).unwrap(), &mut args).unwrap();
        args.pop().unwrap()
    };
    let exact = build(oracle, &Target::interpreter()).unwrap();
    let want: Vec<Value> = runs.iter().map(|(name, args)| run(&exact, name, args)).collect();
    for target in targets {
        let built = build(module, target).unwrap_or_else(|err| panic!("{target}: {err}"));
        for ((name, args), want) in runs.iter().zip(&want) {
            let got = run(&built, name, args);
            let shapes: Vec<_> = args.iter().map(|it| it.as_tensor().unwrap().shape().to_vec()).collect();
            let what = format!("{name} of {shapes:?} on {target}");
            assert_close(got.as_tensor().unwrap(), want.as_tensor().unwrap(), 1e-4, &what);
        }
    }
}

#[test]
fn four_products_of_bytes_wrap() {
    let (i32, mut rng) = (DataType::I32, Rng(21));
    let mut module = IRModule::new();
    let mut runs = Vec::new();
    for (name, kind) in [("scalar", ForKind::Serial), ("vector", ForKind::Vectorized)] {
        let dot = |x: &[PrimExpr]| PrimExpr::call(Intrinsic::Dot4, x.to_vec(), i32);
        module.add(name, BaseFunc::Prim(map(name, kind, &[i32; 3], i32, dot).into()));
        for n in [0, 1, 7, 64, 203] {
            runs.push((name, (0..4).map(|_| tensor(&[n], i32, &mut rng)).collect()));
        }
    }
    compare(&module, &runs, &levels());
}

#[test]
fn pairs_of_bf16_are_summed() {
    let ([i32, f32], mut rng) = ([DataType::I32, DataType::F32], Rng(24));
    let mut module = IRModule::new();
    let mut runs = Vec::new();
    for (name, kind) in [("scalar", ForKind::Serial), ("vector", ForKind::Vectorized)] {
        let dot = |x: &[PrimExpr]| PrimExpr::call(Intrinsic::Dot2, x.to_vec(), f32);
        module.add(name, BaseFunc::Prim(map(name, kind, &[i32, i32, f32], f32, dot).into()));
        for n in [0, 1, 7, 64, 203] {
            let pairs = |rng: &mut Rng| {
                let halves = tensor(&[2 * n], DataType::BF16, rng);
                Value::Tensor(
                    Tensor::from_bytes(halves.as_tensor().unwrap().bytes().unwrap(), &[n], i32).unwrap(),
                )
            };
            let sums = |it: f32| {
                Value::Tensor(Tensor::from_bytes(&it.to_le_bytes().repeat(n as usize), &[n], f32).unwrap())
            };
            runs.push((name, vec![pairs(&mut rng), pairs(&mut rng), sums(-7.5), sums(0.0)]));
        }
    }
    compare(&module, &runs, &levels());
}

/// Products of `bf16` in words, which only programs with `fast_math` have.
#[test]
fn products_of_pairs_of_bf16() {
    let (bf16, f32) = (DataType::BF16, DataType::F32);
    let mut rng = Rng(25);
    let mut module = IRModule::new();
    let mut runs: Vec<(String, Vec<Value>)> = Vec::new();
    for [m, n, k] in [[8, 16, 8], [9, 33, 15], [40, 70, 33], [64, 32, 1], [17, 5, 64]] {
        for transposed in [false, true] {
            let name = format!("product_{m}_{n}_{k}_{transposed}");
            let func = product(&name, [m, n, k].map(PrimExpr::index), [bf16, bf16, f32], transposed);
            module.add(name.as_str(), BaseFunc::Prim(func.into()));
            let b = if transposed { [n, k] } else { [k, n] };
            let [a, b] = [[m, k], b].map(|shape| tensor(&shape, bf16, &mut rng));
            let y = Tensor::from_bytes(&vec![7; (4 * m * n) as usize], &[m, n], f32).unwrap();
            runs.push((name, vec![a, b, Value::Tensor(y)]));
        }
    }
    let runs: Vec<(&str, Vec<Value>)> =
        runs.iter().map(|(name, args)| (name.as_str(), args.clone())).collect();
    let mut context = PassContext::default();
    context.config.fast_math = true;
    let mut targets = targets();
    // Without the instruction as well: its sums round otherwise, but as closely.
    targets.iter_mut().for_each(|it| it.machine.bf16_dot = true);
    targets.extend(levels().into_iter().map(|mut it| {
        it.machine.bf16_dot = true;
        it
    }));
    let words = |target: &Target| {
        let func = module.prim_func(module.global_var("product_40_70_33_false").unwrap()).unwrap();
        let (func, _) = tvm_core::dlight::schedule(func, &target.machine).unwrap();
        func.to_string().contains("dot2")
    };
    assert!(targets.iter().all(words));
    context.scope(|| compare(&module, &runs, &targets));
}

/// LLVM 19 drops terms of such sums where it makes `vpdpbusd` of them.
#[test]
fn sums_of_few_products_of_bytes_keep_all_terms() {
    let ([i8, u8, i32], mut rng) = ([DataType::I8, DataType::U8, DataType::I32], Rng(23));
    let mut module = IRModule::new();
    let mut runs: Vec<(String, Vec<Value>)> = Vec::new();
    for (a, b) in [(u8, i8), (i8, u8), (u8, u8), (i8, i8)] {
        for k in [4, 8, 9, 16, 31, 32, 64, 65] {
            let name = format!("sum_{k}_{a}_{b}");
            let func = product(&name, [3, 5, k].map(PrimExpr::index), [a, b, i32], true);
            module.add(name.as_str(), BaseFunc::Prim(func.into()));
            let args =
                [([3, k], a), ([5, k], b), ([3, 5], i32)].map(|(shape, ty)| tensor(&shape, ty, &mut rng));
            runs.push((name, args.into()));
        }
    }
    let runs: Vec<(&str, Vec<Value>)> =
        runs.iter().map(|(name, args)| (name.as_str(), args.clone())).collect();
    for opt_level in [1, 3] {
        let context = PassContext { opt_level, ..PassContext::default() };
        context.scope(|| compare(&module, &runs, &levels()));
    }
}

pub(crate) fn product(
    name: &str,
    [m, n, k]: [PrimExpr; 3],
    [a, b, c]: [DataType; 3],
    transposed: bool,
) -> PrimFunc {
    let a = placeholder("a", vec![m.clone(), k.clone()], a);
    let shape = if transposed { vec![n.clone(), k.clone()] } else { vec![k.clone(), n.clone()] };
    let b = placeholder("b", shape, b);
    let k = reduce_axis("k", k);
    let y = compute("y", vec![m, n], &[&a, &b], |i: &[PrimExpr]| {
        let at = if transposed { [i[1].clone(), k.expr()] } else { [k.expr(), i[1].clone()] };
        sum(a.at([i[0].clone(), k.expr()]).cast(c) * b.at(at).cast(c), &[&k])
    });
    create_prim_func(name, &[a, b], &[y]).unwrap()
}

#[test]
fn products_are_those_of_the_interpreter() {
    use DataType as D;
    let types = [
        [D::U8, D::I8, D::I32],
        [D::I8, D::I8, D::I32],
        [D::I8, D::U8, D::I32],
        [D::U8, D::U8, D::I32],
        [D::BF16, D::BF16, D::F32],
        [D::F16, D::F16, D::F32],
    ];
    let mut rng = Rng(22);
    let mut module = IRModule::new();
    let mut runs: Vec<(String, Vec<Value>)> = Vec::new();
    for (i, types) in types.into_iter().enumerate() {
        for transposed in [false, true] {
            let mut add = |name: String, shape: [i64; 3], rng: &mut Rng| {
                let [m, n, k] = shape;
                let b = if transposed { [n, k] } else { [k, n] };
                let args = vec![
                    tensor(&[m, k], types[0], rng),
                    tensor(&b, types[1], rng),
                    Value::Tensor(
                        Tensor::from_bytes(&vec![7; (4 * m * n) as usize], &[m, n], types[2]).unwrap(),
                    ),
                ];
                runs.push((name, args));
            };
            let name = format!("symbolic_{i}_{transposed}");
            let dims = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
            module.add(name.clone(), BaseFunc::Prim(product(&name, dims, types, transposed).into()));
            for k in [0, 1, 3, 4, 5, 8, 67] {
                let (rows, columns) = ([1, 9, 40][(k % 3) as usize], [1, 33, 70][(k % 4 % 3) as usize]);
                add(name.clone(), [rows, columns, k], &mut rng);
            }
            for shape in [[8, 16, 8], [9, 33, 13], [40, 70, 67]] {
                let name = format!("constant_{i}_{transposed}_{}", shape[0]);
                let func = product(&name, shape.map(PrimExpr::index), types, transposed);
                module.add(name.clone(), BaseFunc::Prim(func.into()));
                add(name, shape, &mut rng);
            }
        }
    }
    let runs: Vec<(&str, Vec<Value>)> =
        runs.iter().map(|(name, args)| (name.as_str(), args.clone())).collect();
    compare(&module, &runs, &targets());
}
