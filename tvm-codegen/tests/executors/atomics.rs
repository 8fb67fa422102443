//! Atomic updates: their values on every executor, and mutants of their source that must be found.

use tvm_codegen::{EmitKind, cuda as generator};
use tvm_core::ir::{IRModule, Var};
use tvm_core::pass::PassContext;
use tvm_core::target::Target;
use tvm_core::te;
use tvm_core::tir::schedule::Schedule;
use tvm_core::tir::{PrimExpr, PrimFunc, ThreadTag};
use tvm_core::topi;
use tvm_runtime::{DataType, Tensor, Value};

use super::cuda::{emulate, emulate_source, interpret, lower};
use super::data::{Rng, random};
use super::suite::{Case, check};

type Combine = fn(PrimExpr, PrimExpr) -> PrimExpr;

const OPERATIONS: [(&str, Combine); 4] = [
    ("add", |old, new| old + new),
    ("mul", |old, new| old * new),
    ("min", |old, new| old.min(new)),
    ("max", |old: PrimExpr, new| old.max(new)),
];

/// `y = x`, of which the slices at `at` are combined with `u`.
fn updated(name: &str, shape: [PrimExpr; 2], depth: usize, dtype: DataType, combine: Combine) -> PrimFunc {
    let count = PrimExpr::from(Var::index("count"));
    let x = te::placeholder("x", shape.clone(), dtype);
    let at = te::placeholder("at", [count.clone(), PrimExpr::index(depth as i64)], DataType::I64);
    let u = te::placeholder("u", [&[count], &shape[depth..]].concat(), dtype);
    let y = topi::scatter_nd(&x, &at, &u, depth, combine);
    te::create_prim_func(name, &[x, at, u], &[y]).unwrap()
}

/// The same updates, whose block says that they are atomic; CPUs do them one after the other.
fn atomic(func: PrimFunc) -> PrimFunc {
    let mut s = Schedule::new(func).unwrap();
    let block = s.block("scatter_nd").unwrap();
    s.atomic(block, true).unwrap();
    let PrimFunc { name, .. } = s.func();
    PrimFunc { name: format!("{name}_atomic").into(), ..s.func().clone() }
}

/// Arguments: few places, some of them from the end. Numbers of all sizes, or small whole ones.
fn args([m, n, count]: [i64; 3], depth: usize, dtype: DataType, small: bool, rng: &mut Rng) -> Vec<Value> {
    let numbers = |shape: &[i64], rng: &mut Rng| {
        let of = random(shape, if small { DataType::I8 } else { dtype }, rng, false);
        if !small {
            return of;
        }
        let few = of.to_vec::<i8>().unwrap().into_iter().map(|it| f64::from(it % 3));
        match dtype {
            DataType::F32 => Tensor::from_vec(few.map(|it| it as f32).collect(), shape),
            _ => Tensor::from_vec(few.collect::<Vec<f64>>(), shape),
        }
        .unwrap()
    };
    let at = (0..count).flat_map(|_| [m, n].into_iter().take(depth)).map(|extent| {
        let extent = extent.min(4);
        rng.next() as i64 % extent
    });
    let at = Tensor::from_vec(at.collect::<Vec<i64>>(), &[count, depth as i64]).unwrap();
    let of_updates = if depth == 1 { vec![count, n] } else { vec![count] };
    let (x, u) = (numbers(&[m, n], rng), numbers(&of_updates, rng));
    [x.clone(), at, u, x].map(Value::Tensor).to_vec()
}

const SIZES: [[i64; 3]; 5] = [[5, 33, 40], [1, 1, 1], [3, 2, 0], [700, 3, 9], [2, 60, 300]];

#[test]
fn updates_of_integers() {
    let mut rng = Rng(51);
    let mut cases = Vec::new();
    for (dtype, depth) in [(DataType::I32, 1), (DataType::U32, 2), (DataType::I64, 2), (DataType::U64, 1)] {
        for (name, combine) in OPERATIONS {
            let shape = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
            let func = updated(&format!("{name}_{dtype}"), shape, depth, dtype, combine);
            let args: Vec<_> = SIZES.iter().map(|it| args(*it, depth, dtype, false, &mut rng)).collect();
            let marked = Case { func: atomic(func.clone()), args: args.clone(), tolerance: 0.0 };
            cases.extend([Case { func, args, tolerance: 0.0 }, marked]);
        }
    }
    check(&cases);
}

/// With `fast_math`, floats are updated in any order: sums and products of few whole numbers are exact.
#[test]
fn updates_of_floats_on_request() {
    let mut rng = Rng(52);
    let (mut module, mut calls) = (IRModule::new(), Vec::new());
    let mut names = Vec::new();
    for dtype in [DataType::F32, DataType::F64] {
        for (name, combine) in OPERATIONS {
            let shape = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
            let name = format!("{name}_{dtype}");
            let func = updated(&name, shape, 1, dtype, combine);
            module.add(func.name.clone(), tvm_core::ir::BaseFunc::Prim(func.into()));
            let args = [[5, 33, 6], [1, 1, 1], [3, 2, 0], [90, 3, 9]];
            calls.push(args.iter().map(|it| args_of(*it, dtype, &mut rng)).collect::<Vec<_>>());
            names.push(format!("tvm_atomic_{name}(&"));
        }
    }
    let context = PassContext::new().configure(|config| config.fast_math = true);
    let programs = context.scope(|| lower(&module));
    let text = generator::source(&programs).unwrap().text;
    for name in names {
        assert!(text.contains(&name), "{name} in {text}");
    }
    let in_order = lower(&module);
    assert!(!generator::source(&in_order).unwrap().text.contains("tvm_atomic_add_f32(&"));
    let want = interpret(&in_order, &calls);
    same(&interpret(&programs, &calls), &want);
    if let Some(got) = emulate(&programs, &calls) {
        same(&got, &want);
    }
}

/// Threads update 4 neighbours each, in a loop of vectors: an update is of one element. No CPU has threads.
#[test]
fn updates_are_no_vectors() {
    let mut rng = Rng(54);
    let shape = [9, 32].map(PrimExpr::index);
    let func = updated("neighbours", shape, 1, DataType::I32, OPERATIONS[0].1);
    let mut s = Schedule::new(func.clone()).unwrap();
    let block = s.block("scatter_nd").unwrap();
    s.atomic(block, false).unwrap();
    let [k, j] = s.loops(block).unwrap();
    let [outer, inner] = s.split(j, [None, Some(4)]).unwrap();
    s.vectorize(inner).unwrap();
    s.bind(k, ThreadTag::BlockIdxX).unwrap();
    s.bind(outer, ThreadTag::ThreadIdxX).unwrap();
    let module = IRModule::from_prim_func(s.into_func());
    let programs = lower(&module);
    let calls = [[30, 1, 0].map(|count| args([9, 32, count], 1, DataType::I32, false, &mut rng)).to_vec()];
    let want = interpret(&[("in order".into(), func)], &calls);
    same(&interpret(&programs, &calls), &want);
    if let Some(got) = emulate(&programs, &calls) {
        same(&got, &want);
    }
    let err = tvm_codegen::emit(&module, &Target::c(), EmitKind::C).unwrap_err().to_string();
    assert!(err.contains("does not support loop `i0` of kind ThreadBinding"), "{err}");
}

fn args_of(sizes: [i64; 3], dtype: DataType, rng: &mut Rng) -> Vec<Value> {
    args(sizes, 1, dtype, true, rng)
}

/// A difference between the tensors of two runs.
fn differ(got: &[Vec<Vec<Value>>], want: &[Vec<Vec<Value>>]) -> bool {
    let bytes = |all: &[Vec<Vec<Value>>]| -> Vec<Vec<u8>> {
        let values = all.iter().flatten().flatten();
        values.map(|it| it.as_tensor().unwrap().bytes().unwrap().to_vec()).collect()
    };
    bytes(got) != bytes(want)
}

fn same(got: &[Vec<Vec<Value>>], want: &[Vec<Vec<Value>>]) {
    assert!(!differ(got, want));
}

/// The source with one change that makes it wrong.
#[test]
fn mutants_of_updates_are_found() {
    let mut rng = Rng(53);
    let shape = [5, 33].map(PrimExpr::index);
    let func = updated("sums", shape, 1, DataType::I32, OPERATIONS[0].1);
    let calls = [vec![args([5, 33, 40], 1, DataType::I32, false, &mut rng)]];
    let programs = lower(&IRModule::from_prim_func(func));
    let source = generator::source(&programs).unwrap();
    let want = interpret(&programs, &calls);
    let Some(right) = emulate_source(&source, &calls) else { return };
    same(&right.unwrap(), &want);
    let update = source.text.rfind("tvm_atomic_add_i32(&").unwrap();
    let (before, after) = source.text.split_at(update);
    let first = after.find('[').unwrap();
    for (what, after) in [
        ("the largest", after.replacen("add", "max", 1)),
        ("the product", after.replacen("add", "mul", 1)),
        ("another place", format!("{}[1 + {}", &after[..first], &after[first + 1..])),
        ("nothing", after.replacen("tvm_atomic_add_i32", "(void)", 1)),
    ] {
        let mutant = generator::CudaSource { text: format!("{before}{after}"), ..source.clone() };
        let found = match emulate_source(&mutant, &calls).unwrap() {
            Ok(got) => differ(&got, &want),
            Err(_) => true,
        };
        assert!(found, "{what} is not found:\n{after}");
    }
}
