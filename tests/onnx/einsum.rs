//! The operator `Einsum`: sums of products, specified by index labels.

use tvm_core::target::Target;
use tvm_runtime::Tensor;

use crate::build::{Build, assert_near, compiled, floats, model, node, refusal, run, string};

fn einsum(equation: &'static str, operands: &[Tensor]) -> Tensor {
    let names: Vec<String> = (0..operands.len()).map(|i| format!("c{i}")).collect();
    let node = node("Einsum", &names.join(" "), "y", vec![string("equation", equation)]);
    let mut model = model(17, vec![node]).output("y");
    for (name, operand) in names.iter().zip(operands) {
        model = model.constant(name, operand);
    }
    run(&compiled(&model, &Target::interpreter()).unwrap(), &[]).remove(0)
}

#[test]
fn sums_of_products() {
    let a = || floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let square = || floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let b = || floats(&[1.0, 0.0, 2.0, 1.0, 0.0, 3.0], &[3, 2]);
    let v = || floats(&[1.0, 10.0], &[2]);
    let cases: &[(&str, Vec<Tensor>, Tensor)] = &[
        ("ij->ji", vec![a()], floats(&[1.0, 4.0, 2.0, 5.0, 3.0, 6.0], &[3, 2])),
        ("ij->i", vec![a()], floats(&[6.0, 15.0], &[2])),
        ("ij", vec![a()], a()),
        ("ij->", vec![a()], floats(&[21.0], &[])),
        ("ii->i", vec![square()], floats(&[1.0, 4.0], &[2])),
        ("ii", vec![square()], floats(&[5.0], &[])),
        ("ij, jk -> ik", vec![a(), b()], floats(&[5.0, 11.0, 14.0, 23.0], &[2, 2])),
        ("ij,jk", vec![a(), b()], floats(&[5.0, 11.0, 14.0, 23.0], &[2, 2])),
        ("i,j->ij", vec![v(), v()], floats(&[1.0, 10.0, 10.0, 100.0], &[2, 2])),
        ("ij,jk,k->i", vec![a(), b(), v()], floats(&[115.0, 244.0], &[2])),
        ("i,ij,i->ij", vec![v(), a(), v()], floats(&[1.0, 2.0, 3.0, 400.0, 500.0, 600.0], &[2, 3])),
        ("...j->...", vec![a()], floats(&[6.0, 15.0], &[2])),
        ("...ij,jk->...ik", vec![a(), b()], floats(&[5.0, 11.0, 14.0, 23.0], &[2, 2])),
    ];
    for (equation, operands, want) in cases {
        assert_near(&einsum(equation, operands), want, equation);
    }
    for (equation, message) in [
        ("ij->k", "names an axis that no input has"),
        ("ij->ii", "names an axis twice"),
        ("ijk->i", "rank 2"),
        ("i1->i", "'1' in it"),
        ("i,j->i", "2 inputs"),
    ] {
        let node = node("Einsum", "c", "y", vec![string("equation", equation)]);
        let err = refusal(&model(17, vec![node]).output("y").constant("c", &a()));
        assert!(err.contains(message), "{equation}: {err}");
    }
}
