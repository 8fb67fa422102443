//! Tests of very deeply nested expressions.

use tvm_codegen::build;
use tvm_core::ir::{IRModule, Var};
use tvm_core::target::Target;
use tvm_core::tir::{Block, BlockRealize, Buffer, For, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::{DataType, Tensor, Value};

use super::data::call;
use super::suite::targets;

/// Operations of each expression. With several times as many, the compilers of C and LLVM take minutes, but do not crash.
const DEPTH: usize = 3_000;

/// `for i in 0..4 { y[[i]] = value(x[[i]]) }`
fn each(value: impl Fn(PrimExpr) -> PrimExpr) -> PrimFunc {
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(4)], DataType::F32));
    let i = Var::index("i");
    let store = Stmt::store(&y, [PrimExpr::from(&i)], value(x.load([PrimExpr::from(&i)])));
    let body = For::serial(i, 4, store).into();
    PrimFunc::new("f", vec![Param::In(x), Param::Out(y)], BlockRealize::opaque(Block::root(vec![], body)))
}

/// Adds one operation to an expression, given an element and the number of the operation.
type Level = fn(PrimExpr, PrimExpr, usize) -> PrimExpr;

#[test]
fn very_deep_expressions_are_compiled() {
    let levels: [(&str, Level); 3] = [
        ("left", |e, x, _| e + x),
        ("right", |e, x, _| x * 3 + e),
        ("mixed", |e, x, k| if k % 2 == 0 { (-e).max(x) } else { e.less(&x).select(x.clone(), x - 1) }),
    ];
    for (name, level) in levels {
        let func = each(|x| (0..DEPTH).fold(x.clone(), |e, k| level(e, x.clone(), k)));
        let module = IRModule::from_prim_func(func);
        let run = |target: &Target| -> Vec<f32> {
            let built = build(&module, target).unwrap_or_else(|err| panic!("{name} on {target}: {err}"));
            let tensor = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[4]).unwrap());
            let mut args = vec![tensor(&[1.0, 0.5, -2.0, 0.0]), tensor(&[9.0; 4])];
            call(built.get("f").unwrap(), &mut args).unwrap();
            args[1].as_tensor().unwrap().to_vec().unwrap()
        };
        let want = run(&Target::interpreter());
        targets().iter().for_each(|target| assert_eq!(run(target), want, "{name} on {target}"));
    }
}
