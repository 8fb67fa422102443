//! Updates at places that come from data: which of them are atomic, and that threads compute what one after the other does.

use tvm_runtime::{DataType, Tensor};
use tvm_testing::Rng;

use crate::arith::dims::simplify_dim;
use crate::dlight::gpu::schedule_for_gpu;
use crate::ir::{IRModule, Var};
use crate::pass::{PassContext, Pipelines};
use crate::target::{GpuArch, Target};
use crate::te;
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::{Program, Value};
use crate::tir::{PrimExpr, PrimFunc, substitute_expr};
use crate::topi;

const I64: DataType = DataType::I64;

type Combine = fn(PrimExpr, PrimExpr) -> PrimExpr;

const OPERATIONS: [(&str, Combine); 4] = [
    ("atomic_add", |old, new| old + new),
    ("atomic_mul", |old, new| old * new),
    ("atomic_min", |old, new| old.min(new)),
    ("atomic_max", |old: PrimExpr, new| old.max(new)),
];

/// `y = x` of `shape`, of which the elements that `at`, of `count` rows, selects along `axis` are combined with `u`.
fn elements(
    shape: [&PrimExpr; 2],
    count: &PrimExpr,
    axis: usize,
    dtype: DataType,
    combine: Combine,
) -> PrimFunc {
    let shape = shape.map(Clone::clone);
    let mut of_updates = shape.clone();
    of_updates[axis] = count.clone();
    let x = te::placeholder("x", shape, dtype);
    let at = te::placeholder("at", of_updates.clone(), I64);
    let u = te::placeholder("u", of_updates, dtype);
    let y = topi::scatter_elements(&x, &at, &u, axis, combine);
    te::create_prim_func("elements", &[x, at, u], &[y]).unwrap()
}

/// `y = x` of `shape`, of which the slices that the rows of `at` select are combined with `u`.
fn slices(shape: &[PrimExpr], count: &PrimExpr, depth: usize, dtype: DataType, combine: Combine) -> PrimFunc {
    let x = te::placeholder("x", shape.to_vec(), dtype);
    let at = te::placeholder("at", [count.clone(), PrimExpr::index(depth as i64)], I64);
    let u = te::placeholder("u", [std::slice::from_ref(count), &shape[depth..]].concat(), dtype);
    let y = topi::scatter_nd(&x, &at, &u, depth, combine);
    te::create_prim_func("slices", &[x, at, u], &[y]).unwrap()
}

/// A tensor of small numbers, or of numbers of all sizes.
fn tensor(shape: &[i64], dtype: DataType, small: bool, rng: &mut Rng) -> Value {
    macro_rules! of {
        ($ty:ty) => {{
            let number = |_| {
                let of = if small { rng.below(9) as i128 - 4 } else { rng.next() as i128 };
                of as $ty
            };
            Tensor::from_vec((0..shape.iter().product()).map(number).collect::<Vec<$ty>>(), shape).unwrap()
        }};
    }
    Value::Tensor(match dtype {
        DataType::I32 => of!(i32),
        DataType::U32 => of!(u32),
        DataType::I64 => of!(i64),
        DataType::U64 => of!(u64),
        DataType::F32 => of!(f32),
        DataType::F64 => of!(f64),
        DataType::I8 => of!(i8),
        DataType::U16 => of!(u16),
        other => panic!("{other}"),
    })
}

/// Arguments of `func`, whose indices are small: several are the same, and some count from the end.
fn args(func: &PrimFunc, dims: &[i64], small: bool, rng: &mut Rng) -> Vec<Value> {
    let values = func.symbolic_dims().into_iter().zip(dims);
    let values = values.map(|(var, value)| (var.id(), PrimExpr::index(*value))).collect();
    let buffers = func.params.iter().filter_map(|it| it.buffer());
    let value = |(at, buffer): (usize, &crate::tir::Buffer)| {
        let extent = |it: &PrimExpr| simplify_dim(&substitute_expr(it, &values)).as_int().unwrap();
        let shape: Vec<i64> = buffer.shape.iter().map(extent).collect();
        tensor(&shape, buffer.dtype, small || at == 1, rng)
    };
    buffers.enumerate().map(value).collect()
}

fn copy(value: &Value) -> Value {
    let tensor = value.as_tensor().unwrap();
    Value::Tensor(Tensor::from_bytes(tensor.bytes().unwrap(), tensor.shape(), tensor.dtype()).unwrap())
}

/// Runs the threads of `func` with its default schedule, which must give the bits of `func` itself.
fn check(func: &PrimFunc, dims: &[i64], fast_math: bool, rng: &mut Rng) -> Vec<DeviceKernel> {
    let context = PassContext::new().target(Target::cuda()).configure(|config| config.fast_math = fast_math);
    let pipeline = Pipelines::for_target(&Target::cuda()).tir;
    let lowered = pipeline.apply_in(IRModule::from_prim_func(func.clone()), &context).unwrap();
    let lowered = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
    let given = args(func, dims, fast_math, rng);
    let again = || given.iter().map(copy).collect::<Vec<_>>();
    let mut want = again();
    Program::compile(func).unwrap().run(&mut want).unwrap();
    for seed in 0..3 {
        let mut got = again();
        let threads = Program::compile(lowered).unwrap();
        threads.strict(seed).run(&mut got).unwrap_or_else(|err| panic!("{err}\n{lowered}"));
        for (got, want) in got.iter().zip(&want) {
            let (got, want) = (got.as_tensor().unwrap(), want.as_tensor().unwrap());
            assert_eq!(got.bytes().unwrap(), want.bytes().unwrap(), "{dims:?}\n{func}\n{lowered}");
        }
    }
    DeviceKernel::all(lowered)
}

/// The rule of the updates, and what it says.
fn applied(func: &PrimFunc, fast_math: bool) -> (&'static str, String) {
    let limits = GpuArch::DEFAULT.limits().with_float_atomics(fast_math);
    let (_, mut applied) = schedule_for_gpu(func, &limits).unwrap();
    let updates = applied.pop().unwrap();
    (updates.rule, updates.parameters)
}

fn symbols() -> [PrimExpr; 3] {
    ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)))
}

#[test]
fn a_thread_does_each_update_of_integers() {
    let mut rng = Rng::new(91);
    let [m, n, k] = symbols();
    let int = PrimExpr::index;
    for dtype in [DataType::I32, DataType::U32, DataType::I64, DataType::U64] {
        for (name, combine) in OPERATIONS {
            let fixed = elements([&int(7), &int(33)], &int(20), 0, dtype, combine);
            assert_eq!(applied(&fixed, false), ("atomic", "atomic updates, 165 threads in a block".into()));
            let kernels = check(&fixed, &[], false, &mut rng);
            let text = kernels.iter().map(|it| it.body.to_string()).collect::<String>();
            assert!(text.contains(name), "{name}: {text}");
            let free = elements([&m, &n], &k, 1, dtype, combine);
            for dims in [[3, 5, 40], [1, 1, 1], [4, 3, 0], [0, 3, 2], [2, 700, 9]] {
                check(&free, &dims, false, &mut rng);
            }
            let all = slices(&[m.clone(), n.clone()], &k, 2, dtype, combine);
            assert_eq!(applied(&all, false), ("atomic", "atomic updates, 256 threads in a block".into()));
            for dims in [[3, 5, 300], [1, 1, 7], [2, 2, 0]] {
                check(&all, &dims, false, &mut rng);
            }
            let rows = slices(&[int(5), int(3), int(11)], &int(13), 1, dtype, combine);
            assert_eq!(applied(&rows, false).0, "atomic");
            check(&rows, &[], false, &mut rng);
        }
    }
}

#[test]
fn other_updates_keep_their_order_and_say_why() {
    let mut rng = Rng::new(92);
    let int = PrimExpr::index;
    let [(_, add), (_, mul), (_, min), (_, max)] = OPERATIONS;
    let replace: Combine = |_, new| new;
    let twice: Combine = |old, new| old.clone() + (new + old);
    let cases: [(DataType, Combine, &str); 8] = [
        (DataType::F32, add, "the result of f32 depends on the order of the updates (its rounding)"),
        (DataType::F64, mul, "the result of f64 depends on the order of the updates (its rounding)"),
        (
            DataType::F32,
            min,
            "the result of f32 depends on the order of the updates (which zero or NaN it is)",
        ),
        (
            DataType::F64,
            max,
            "the result of f64 depends on the order of the updates (which zero or NaN it is)",
        ),
        (DataType::I8, add, "elements of i8 have no atomic updates, only numbers of 32 and 64 bits do"),
        (DataType::U16, max, "elements of u16 have no atomic updates, only numbers of 32 and 64 bits do"),
        (DataType::I32, replace, "the new element of `scatter_nd` is not the old one plus, minus, times,"),
        (DataType::I32, twice, "the new element of `scatter_nd` is not the old one plus, minus, times,"),
    ];
    for (dtype, combine, why) in cases {
        for (shape, threads) in
            [(&[9, 40][..], "1 of 2 loops spatial, 40 threads in a block"), (&[9], "one thread")]
        {
            let shape: Vec<PrimExpr> = shape.iter().map(|it| int(*it)).collect();
            let func = slices(&shape, &int(30), 1, dtype, combine);
            let (rule, text) = applied(&func, false);
            let want = format!(
                "{threads}, updates in order: the update of block `scatter_nd` cannot be atomic: {why}"
            );
            assert!(rule == "fallback" && text.starts_with(&want), "{text}\ninstead of\n{want}");
            check(&func, &[], false, &mut rng);
        }
    }
    // One update has nobody to wait for.
    let one = slices(&[int(9), int(40)], &int(1), 1, DataType::I32, add);
    assert_eq!(applied(&one, false), ("fallback", "1 of 2 loops spatial, 40 threads in a block".into()));
    check(&one, &[], false, &mut rng);
}

/// Small whole numbers, whose sums and products are exact in any order.
#[test]
fn floats_are_updated_in_any_order_on_request() {
    let mut rng = Rng::new(93);
    let [m, n, k] = symbols();
    for dtype in [DataType::F32, DataType::F64] {
        for (name, combine) in OPERATIONS {
            let func = elements([&m, &n], &k, 0, dtype, combine);
            assert_eq!(applied(&func, true).0, "atomic");
            for dims in [[3, 5, 4], [4, 70, 6], [2, 3, 0]] {
                let kernels = check(&func, &dims, true, &mut rng);
                assert!(kernels.iter().any(|it| it.body.to_string().contains(name)), "{name}");
                let kernels = check(&func, &dims, false, &mut rng);
                assert!(!kernels.iter().any(|it| it.body.to_string().contains(name)), "{name}");
            }
        }
    }
}

/// Counts of values, in a vector of them: no input has the form of the output.
#[test]
fn counts_are_updates() {
    let mut rng = Rng::new(94);
    let [n, ..] = symbols();
    let x = te::placeholder("x", [n.clone()], DataType::I32);
    let at = te::placeholder("at", [n.clone()], I64);
    let zero = |_: &[PrimExpr]| PrimExpr::int(0, DataType::I32);
    let y = te::scatter("counts", [PrimExpr::index(6)], &[n], &[&x, &at], zero, |i, counts| {
        let place = at.at(i.to_vec()).max(0).min(5);
        let int = |it| PrimExpr::int(it, DataType::I32);
        let count = counts.at([place.clone()]) + x.at(i.to_vec()).equal(0).select(int(1), int(2));
        (vec![place], count)
    });
    let func = te::create_prim_func("counts", &[x, at], &[y]).unwrap();
    assert_eq!(applied(&func, false).0, "atomic");
    for dims in [[0], [1], [700]] {
        check(&func, &dims, false, &mut rng);
    }
}
