//! Tests of the programs that stages become, and of the errors.

use tvm_runtime::{DataType, Tensor, Value};

use super::*;
use crate::ir::Var;
use crate::tir::analysis::well_formed;
use crate::tir::{Block, IterKind, Param, PrimExpr, PrimFunc, Visitor, interp, walk_block};

fn placeholder_of(name: &str, shape: &[i64]) -> super::TensorExpr {
    placeholder(name, shape.iter().map(|&n| n.into()).collect::<Vec<PrimExpr>>(), DataType::F32)
}

/// For every block: name, kinds of the axes, number of buffers read and written, and whether there is an init.
fn blocks(func: &PrimFunc) -> Vec<(String, String, usize, usize, bool)> {
    struct Blocks(Vec<(String, String, usize, usize, bool)>);
    impl Visitor for Blocks {
        fn visit_block(&mut self, block: &Block) {
            let kind = |kind| match kind {
                IterKind::Spatial => 'S',
                IterKind::Reduce => 'R',
                IterKind::Ordered => 'O',
                IterKind::Opaque => '?',
            };
            let kinds = block.iter_vars.iter().map(|axis| kind(axis.kind)).collect();
            let (reads, writes) = (block.reads.len(), block.writes.len());
            self.0.push((block.name.to_string(), kinds, reads, writes, block.init.is_some()));
            walk_block(self, block);
        }
    }
    let mut found = Blocks(Vec::new());
    found.visit_stmt(&func.body);
    found.0
}

fn row(
    name: &str,
    kinds: &str,
    reads: usize,
    writes: usize,
    init: bool,
) -> (String, String, usize, usize, bool) {
    (name.to_string(), kinds.to_string(), reads, writes, init)
}

#[test]
fn stages_become_blocks_in_order() {
    let (a, b) = (placeholder_of("a", &[3, 4]), placeholder_of("b", &[4, 5]));
    let double = compute("double", a.shape(), &[&a], |i| a.at(i) * 2i64);
    let k = reduce_axis("k", 4);
    let c = compute("c", [3.into(), 5.into()], &[&double, &b], |i| {
        sum(double.at([i[0].clone(), k.expr()]) * b.at([k.expr(), i[1].clone()]), &[&k])
    });
    let d = compute("c", c.shape(), &[&c, &c], |i| c.at(i) + c.at(i));
    let func = create_prim_func("f", &[a, b], &[d]).unwrap();
    well_formed(&func).unwrap();
    let want = vec![
        row("root", "", 0, 0, false),
        row("double", "SS", 1, 1, false),
        row("c", "SSR", 2, 1, true),
        row("c_1", "SS", 1, 1, false),
    ];
    assert_eq!(blocks(&func), want);
    assert_eq!(func.params.iter().map(Param::name).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn tuple_reductions_scans_and_scatters() {
    let x = placeholder_of("x", &[5]);
    let k = reduce_axis("k", 5);
    let best = compute_many("best", [], &[&x], |_| {
        reduce(Combiner::arg_extreme(DataType::F32, true, false), vec![k.expr(), x.at([k.expr()])], &[&k])
    });
    let running = scan("running", x.shape(), DataType::F32, 0, &[&x], |i, so_far| {
        let before = so_far.at([&i[0] - 1i64]);
        let first = i[0].clone().equal(0);
        PrimExpr::call(crate::tir::Intrinsic::IfThenElse, [first, x.at(i), before + x.at(i)], DataType::F32)
    });
    let reversed = scatter(
        "reversed",
        x.shape(),
        x.shape(),
        &[&x],
        |_| PrimExpr::float(0.0, DataType::F32),
        |i, out| {
            let at = vec![PrimExpr::index(4) - &i[0]];
            let value = out.at(at.clone()) + x.at(i);
            (at, value)
        },
    );
    let outputs = [best, vec![running, reversed]].concat();
    let func = create_prim_func("f", &[x], &outputs).unwrap();
    well_formed(&func).unwrap();
    let want = vec![
        row("root", "", 0, 0, false),
        row("best", "R", 1, 2, true),
        row("running", "O", 2, 1, false),
        row("reversed_init", "S", 0, 1, false),
        row("reversed", "O", 2, 1, false),
    ];
    assert_eq!(blocks(&func), want);
    let out = |shape: &[i64], dtype| Value::Tensor(Tensor::zeros(shape, dtype).unwrap());
    let x = Tensor::from_slice(&[1.0f32, 5.0, 2.0, 5.0, 3.0], &[5]).unwrap();
    let mut args = [
        Value::Tensor(x),
        out(&[], DataType::I64),
        out(&[], DataType::F32),
        out(&[5], DataType::F32),
        out(&[5], DataType::F32),
    ];
    interp::run(&func, &mut args).unwrap();
    let floats = |value: &Value| value.as_tensor().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(args[1].as_tensor().unwrap().to_vec::<i64>().unwrap(), [1]);
    assert_eq!(floats(&args[2]), [5.0]);
    assert_eq!(floats(&args[3]), [1.0, 6.0, 8.0, 13.0, 16.0]);
    assert_eq!(floats(&args[4]), [3.0, 5.0, 2.0, 5.0, 1.0]);
}

#[test]
fn free_variables_are_parameters_and_outputs_have_their_own_memory() {
    let (n, s) = (Var::index("n"), Var::prim("s", DataType::F32));
    let x = placeholder("x", [PrimExpr::from(&n)], DataType::F32);
    let y = compute("y", [PrimExpr::from(&n) + 1i64], &[&x], |i| {
        x.at([i[0].clone().min(&n)]) * PrimExpr::from(&s)
    });
    let func = create_prim_func("f", std::slice::from_ref(&x), &[y.clone(), x.clone(), y]).unwrap();
    well_formed(&func).unwrap();
    assert_eq!(func.params.iter().map(Param::name).collect::<Vec<_>>(), ["x", "y", "copy", "copy", "s"]);
    assert_eq!(func.symbolic_dims(), [n]);
}

#[test]
fn undeclared_tensors_are_refused() {
    let (x, y) = (placeholder_of("x", &[2]), placeholder_of("y", &[2]));
    let z = compute("z", x.shape(), &[&x], |i| x.at(i) + y.at(i));
    let err = create_prim_func("f", &[x.clone(), y.clone()], std::slice::from_ref(&z)).unwrap_err();
    let want = "stage `z` reads tensor `y`, which it does not declare\n  help: name it among the inputs of `compute`";
    assert_eq!(err.to_string(), want);
    let z = compute("z", x.shape(), &[&x, &y], |i| x.at(i) + y.at(i));
    let err = create_prim_func("f", &[x], &[z]).unwrap_err();
    assert_eq!(err.to_string(), "tensor `y` is read but is not an input\n  help: pass it among the inputs");
}
