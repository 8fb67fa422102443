//! Vectors of every second, third or fourth element, and vectors of copies with padding around them.

use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::pass::PassContext;
use tvm_core::target::Target;
use tvm_core::tir::pipeline::lower_tir;
use tvm_core::tir::transform::renew_defs;
use tvm_core::tir::{ForKind, Intrinsic, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::{DataType, Value};

use super::data::Rng;
use super::programs::{buffer, func, loops};
use super::suite::{Case, check, tensor};

const TYPES: [DataType; 9] = [
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::U8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
];

/// `y[i, j] = x[i, stride * j]` in vectors of `lanes`; the last element of `x` is the last one read.
fn strided(name: &str, lanes: i64, stride: i64, dtype: DataType) -> PrimFunc {
    let x = buffer("x", &[3, (lanes - 1) * stride + 1].map(PrimExpr::index), dtype);
    let y = buffer("y", &[3, lanes].map(PrimExpr::index), dtype);
    let extents = [(ForKind::Serial, PrimExpr::index(3)), (ForKind::Vectorized, PrimExpr::index(lanes))];
    let body =
        loops(&extents, |v| Stmt::store(&y, v.to_vec(), x.load([v[0].clone(), v[1].clone() * stride])));
    func(name, vec![Param::In(x), Param::Out(y)], vec![], body)
}

/// `x`, every `stride`-th column of it, with zeros around the elements.
fn padded(name: &str, [rows, columns]: [i64; 2], stride: i64) -> PrimFunc {
    let x = buffer("x", &[rows, (columns - 1) * stride + 1].map(PrimExpr::index), DataType::F32);
    let y = buffer("y", &[rows + 2, columns + 3].map(PrimExpr::index), DataType::F32);
    let extents =
        [(ForKind::Serial, PrimExpr::index(rows + 2)), (ForKind::Vectorized, PrimExpr::index(columns + 3))];
    let body = loops(&extents, |v| {
        let [i, j] = [v[0].clone() - 1i64, v[1].clone() - 2i64];
        let inside = i.clone().greater_equal(0).and(i.clone().less(rows));
        let inside = inside.and(j.clone().greater_equal(0)).and(j.clone().less(columns));
        let zero = PrimExpr::float(0.0, DataType::F32);
        let args = [inside, x.load([i, j * stride]), zero];
        let value = PrimExpr::call(Intrinsic::IfThenElse, args, DataType::F32);
        Stmt::store(&y, v.to_vec(), value)
    });
    func(name, vec![Param::In(x), Param::Out(y)], vec![], body)
}

/// The text of the lowered program.
fn lowered(func: &PrimFunc) -> String {
    let mut module = IRModule::new();
    module.add(func.name.clone(), BaseFunc::Prim(renew_defs(func).into()));
    format!("{:?}", PassContext::new().target(Target::c()).scope(|| lower_tir().apply(module)).unwrap())
}

#[test]
fn all_executors_pick_strided_elements() {
    let mut rng = Rng(7);
    let mut cases = Vec::new();
    for dtype in TYPES {
        for (lanes, stride) in [(4, 2), (8, 2), (16, 2), (23, 2), (4, 3), (16, 3), (8, 4), (16, 4), (16, 5)] {
            let func = strided(&format!("strided_{dtype}_{lanes}_{stride}"), lanes, stride, dtype);
            assert_eq!(lowered(&func).contains("Shuffle("), stride <= 4, "{func}");
            let mut arg = |columns: i64| -> Value { tensor(&[3, columns], dtype, &mut rng) };
            let args = vec![vec![arg((lanes - 1) * stride + 1), arg(lanes)]];
            cases.push(Case { func, args, tolerance: 0.0 });
        }
    }
    check(&cases);
}

#[test]
fn all_executors_copy_between_zeros() {
    let mut rng = Rng(11);
    let mut cases = Vec::new();
    for (rows, columns, stride) in
        [(1, 1, 1), (2, 7, 1), (3, 16, 1), (4, 29, 1), (5, 112, 1), (3, 20, 2), (2, 5, 3)]
    {
        let func = padded(&format!("padded_{rows}_{columns}_{stride}"), [rows, columns], stride);
        let mut arg =
            |rows: i64, columns: i64| -> Value { tensor(&[rows, columns], DataType::F32, &mut rng) };
        let args = vec![vec![arg(rows, (columns - 1) * stride + 1), arg(rows + 2, columns + 3)]];
        cases.push(Case { func, args, tolerance: 0.0 });
    }
    check(&cases);
}
