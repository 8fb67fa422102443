//! One number for the lanes of a vector: all types, numbers of lanes and operations, on all executors, with the same bits.

use tvm_core::ir::Var;
use tvm_core::tir::{For, Intrinsic, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::{DataType, Tensor, Value};

use super::data::{Rng, random};
use super::programs::{buffer, func};
use super::suite::{Case, check_at};

const ROWS: i64 = 6;

/// `y[r] = reduce(x[r * lanes..])`
fn reduce(intrinsic: Intrinsic, dtype: DataType, lanes: u16) -> PrimFunc {
    let x = buffer("x", &[PrimExpr::index(ROWS * i64::from(lanes))], dtype);
    let y = buffer("y", &[PrimExpr::index(ROWS)], dtype);
    let r = Var::index("r");
    let row = (&r * i64::from(lanes)).ramp(PrimExpr::index(1), lanes);
    let value = PrimExpr::call(intrinsic, [x.load([row])], dtype);
    let body = For::serial(r.clone(), ROWS, Stmt::store(&y, [PrimExpr::from(&r)], value)).into();
    func(&format!("{}_{dtype}_{lanes}", intrinsic.name()), vec![Param::In(x), Param::Out(y)], vec![], body)
}

#[test]
fn all_executors_reduce_lanes_in_halves() {
    let mut rng = Rng(5);
    let types = [
        DataType::F32,
        DataType::F64,
        DataType::I8,
        DataType::U8,
        DataType::I16,
        DataType::I32,
        DataType::U32,
        DataType::I64,
        DataType::U64,
    ];
    let all = [Intrinsic::ReduceAdd, Intrinsic::ReduceMul, Intrinsic::ReduceMin, Intrinsic::ReduceMax];
    let mut cases = Vec::new();
    for dtype in types {
        for lanes in [2, 4, 8, 16, 32] {
            let args: Vec<Vec<Value>> = [false, true]
                .map(|special| {
                    let x = random(&[ROWS * i64::from(lanes)], dtype, &mut rng, special);
                    vec![Value::Tensor(x), Value::Tensor(random(&[ROWS], dtype, &mut rng, false))]
                })
                .into();
            for intrinsic in all {
                let args = args.iter().map(|it| it.iter().map(copy).collect()).collect();
                cases.push(Case { func: reduce(intrinsic, dtype, lanes), args, tolerance: 0.0 });
            }
        }
    }
    check_at(1, &cases);
}

fn copy(value: &Value) -> Value {
    let tensor = value.as_tensor().unwrap();
    Value::Tensor(Tensor::from_bytes(tensor.bytes().unwrap(), tensor.shape(), tensor.dtype()).unwrap())
}
