//! Tensor expressions of 20,000 stages, operations and inputs.

use tvm_core::te::{self, TensorExpr};
use tvm_core::tir::PrimExpr;
use tvm_core::tir::analysis::well_formed;
use tvm_runtime::DataType;

const SIZE: usize = 20_000;

fn placeholder() -> TensorExpr {
    te::placeholder("x", [PrimExpr::index(4)], DataType::F32)
}

#[test]
fn a_chain_of_stages() {
    let x = placeholder();
    let next = |t: TensorExpr| te::compute("t", t.shape().to_vec(), &[&t], |i| t.at(i) + 1);
    let y = (0..SIZE).fold(x.clone(), |t, _| next(t));
    let func = te::create_prim_func("f", &[x], &[y]).unwrap();
    well_formed(&func).unwrap();
    assert_eq!(func.to_string().matches("block(").count(), SIZE);
}

#[test]
fn one_stage_of_many_operations_and_inputs() {
    let inputs: Vec<TensorExpr> = (0..SIZE).map(|_| placeholder()).collect();
    let refs: Vec<&TensorExpr> = inputs.iter().collect();
    let y = te::compute("y", inputs[0].shape().to_vec(), &refs, |i| {
        inputs.iter().map(|x| x.at(i)).reduce(|a, b| a + b).unwrap()
    });
    let func = te::create_prim_func("f", &inputs, &[y]).unwrap();
    well_formed(&func).unwrap();
    assert_eq!(func.params.len(), SIZE + 1);
}
