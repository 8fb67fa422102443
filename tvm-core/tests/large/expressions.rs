//! Expressions of 100,000 operations: checked, printed, compared, saved, run, lowered, dropped.

use tvm_core::ir::{IRModule, Var, json, structural_equal, structural_hash};
use tvm_core::pass::PassContext;
use tvm_core::pipeline::lower_tir;
use tvm_core::tir::analysis::well_formed;
use tvm_core::tir::interp::{self, Value};
use tvm_core::tir::{Block, BlockRealize, Buffer, For, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::{DataType, Tensor};

const SIZE: usize = 100_000;

/// `for i in 0..4 { y[[i]] = value(x[[i]], i) }`
fn each(value: impl Fn(PrimExpr, &PrimExpr, &Buffer) -> PrimExpr) -> PrimFunc {
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(4)], DataType::F32));
    let i = Var::index("i");
    let at = PrimExpr::from(&i);
    let store = Stmt::store(&y, [at.clone()], value(x.load([at.clone()]), &at, &x));
    let body = For::serial(i, 4, store).into();
    PrimFunc::new("f", vec![Param::In(x), Param::Out(y)], BlockRealize::opaque(Block::root(vec![], body)))
}

fn left() -> PrimFunc {
    each(|x, _, _| (0..SIZE).fold(x.clone(), |e, _| e + &x))
}

fn mixed() -> PrimFunc {
    each(|x, _, _| (0..SIZE).fold(x.clone(), |e, k| if k % 2 == 0 { -e } else { x.clone().max(e) }))
}

fn index() -> PrimFunc {
    each(|_, i, x| x.load([(0..SIZE as i64).fold(i.clone(), |e, k| (e + i * (k % 7)).floormod(4))]))
}

fn wide() -> PrimFunc {
    each(|x, _, _| {
        let mut terms = vec![x; SIZE];
        while terms.len() > 1 {
            let sum = |pair: &[PrimExpr]| pair.iter().cloned().reduce(|a, b| a + b);
            terms = terms.chunks(2).filter_map(sum).collect();
        }
        terms.swap_remove(0)
    })
}

fn run(func: &PrimFunc) -> Vec<f32> {
    let tensor = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[4]).unwrap());
    let mut args = vec![tensor(&[1.0, 0.5, -2.0, 0.0]), tensor(&[9.0; 4])];
    interp::run(func, &mut args).unwrap();
    let Some(Value::Tensor(out)) = args.pop() else { unreachable!("the last argument is the output") };
    out.to_vec().unwrap()
}

/// Does all checks but lowering; returns the module.
fn check(make: fn() -> PrimFunc, want: [f32; 4]) -> IRModule {
    let (a, b) = (make(), make());
    well_formed(&a).unwrap();
    assert!(a.to_string().len() > SIZE);
    structural_equal(&a, &b).unwrap();
    assert_eq!(structural_hash(&a), structural_hash(&b));
    drop(b);
    assert_eq!(run(&a), want);
    let module = IRModule::from_prim_func(a);
    let text = json::to_json(&module).unwrap();
    match json::from_json(&text) {
        Ok(back) => structural_equal(&module, &back).unwrap(),
        Err(err) => assert!(err.to_string().contains("too deep"), "{err}"),
    }
    module
}

#[test]
fn sums_on_the_left() {
    let sum = |x: f32| (0..SIZE).fold(x, |sum, _| sum + x);
    let module = check(left, [1.0, 0.5, -2.0, 0.0].map(sum));
    let lowered = PassContext::new().without_instruments().scope(|| lower_tir().apply(module));
    assert_eq!(lowered.unwrap().functions().count(), 1);
}

#[test]
fn mixed_operations() {
    let value = |x: f32| (0..SIZE).fold(x, |e, k| if k % 2 == 0 { -e } else { x.max(e) });
    check(mixed, [1.0, 0.5, -2.0, 0.0].map(value));
}

#[test]
fn indices() {
    let x = [1.0, 0.5, -2.0, 0.0];
    let at = |i: i64| (0..SIZE as i64).fold(i, |e, k| (e + i * (k % 7)).rem_euclid(4));
    check(index, [0, 1, 2, 3].map(|i| x[at(i) as usize]));
}

#[test]
fn a_wide_sum() {
    check(wide, [1.0, 0.5, -2.0, 0.0].map(|x| x * SIZE as f32));
}
