//! Vectors whose indices and conditions are computed in 32 bits: gathers and scatters, comparisons of lanes with numbers of all
//! kinds, conversions.

use tvm_core::ir::Var;
use tvm_core::target::Target;
use tvm_core::tir::{BinaryOp, ForKind, Intrinsic, Param, PrimExpr, PrimFunc, Stmt, binary};
use tvm_runtime::{DataType, Value};

use super::data::Rng;
use super::programs::{buffer, f32, func, loops};
use super::suite::{Case, check_on, targets, tensor};

const F32: DataType = DataType::F32;
const LANES: i64 = 16;

/// `rows` rows of `strips` vectors; `body` gets row and column.
fn rows(rows: i64, strips: PrimExpr, body: impl FnOnce(PrimExpr, PrimExpr) -> Stmt) -> Stmt {
    let [rows, lanes] = [rows, LANES].map(PrimExpr::index);
    let extents = [(ForKind::Serial, rows), (ForKind::Serial, strips), (ForKind::Vectorized, lanes)];
    loops(&extents, |v| body(v[0].clone(), v[1].clone() * LANES + &v[2]))
}

/// `y[r, c] = x[r, c / 3 * 5 + c % 3]`.
fn gather(dtype: DataType) -> PrimFunc {
    let shape = [3, 160].map(PrimExpr::index);
    let [x, y] = ["x", "y"].map(|name| buffer(name, &shape, dtype));
    let body = rows(3, PrimExpr::index(6), |r, c| {
        let from = c.clone().floordiv(3) * 5 + c.clone().floormod(3);
        Stmt::store(&y, [r.clone(), c], x.load([r, from]))
    });
    func(&format!("gather_{dtype}"), vec![Param::In(x), Param::Out(y)], vec![], body)
}

/// `y[r, c] = c / 7 * 12 - r`, converted.
fn number(dtype: DataType) -> PrimFunc {
    let y = buffer("y", &[3, 160].map(PrimExpr::index), dtype);
    let body = rows(3, PrimExpr::index(10), |r, c| {
        let number = c.clone().floordiv(7) * 12 - &r;
        Stmt::store(&y, [r, c], number.cast(dtype))
    });
    func(&format!("number_{dtype}"), vec![Param::Out(y)], vec![], body)
}

/// `y[r, c / 3 * 5 + c % 3] = x[r, c]`.
fn scatter(dtype: DataType) -> PrimFunc {
    let shape = [3, 160].map(PrimExpr::index);
    let [x, y] = ["x", "y"].map(|name| buffer(name, &shape, dtype));
    let body = loops(&[(ForKind::Serial, PrimExpr::index(3)), (ForKind::Serial, PrimExpr::index(96))], |v| {
        let [r, c] = [v[0].clone(), v[1].clone()];
        let to = c.clone().floordiv(3) * 5 + c.clone().floormod(3);
        Stmt::store(&y, [r.clone(), to], x.load([r, c]))
    });
    func(&format!("scatter_{dtype}"), vec![Param::In(x), Param::Out(y)], vec![], body)
}

/// `y[r, c] = c op limit ? x[r, c] : 0` in vectors, as a selection or as a choice that does not read.
fn limited(op: BinaryOp, choice: bool, swapped: bool) -> PrimFunc {
    let n = PrimExpr::from(Var::index("n"));
    let limit = buffer("limit", std::slice::from_ref(&n), F32);
    let [x, y] = ["x", "y"].map(|name| buffer(name, &[3, 80].map(PrimExpr::index), F32));
    let body = rows(3, PrimExpr::index(5), |r, c| {
        let (a, b) = (c.clone(), n.clone() - &r);
        let condition = if swapped { binary(op, b, a) } else { binary(op, a, b) };
        let value = x.load([r.clone(), c.clone()]);
        let value = match choice {
            true => PrimExpr::call(Intrinsic::IfThenElse, [condition, value, f32(0.0)], F32),
            false => condition.select(value, f32(0.5)),
        };
        Stmt::store(&y, [r, c], value)
    });
    let name = format!("limited_{op:?}_{choice}_{swapped}");
    func(&name, vec![Param::In(limit), Param::In(x), Param::Out(y)], vec![], body)
}

#[test]
fn all_executors_gather_and_compare() {
    let mut rng = Rng(77);
    let mut cases = Vec::new();
    for dtype in [F32, DataType::F64, DataType::I8, DataType::BOOL, DataType::BF16] {
        let mut args =
            |n: usize| -> Vec<Value> { (0..n).map(|_| tensor(&[3, 160], dtype, &mut rng)).collect() };
        cases.push(Case { func: gather(dtype), args: vec![args(2)], tolerance: 0.0 });
        cases.push(Case { func: number(dtype), args: vec![args(1)], tolerance: 0.0 });
        cases.push(Case { func: scatter(dtype), args: vec![args(2)], tolerance: 0.0 });
    }
    let ops = [BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge, BinaryOp::Eq, BinaryOp::Ne];
    for op in ops {
        for (choice, swapped) in [(false, false), (false, true), (true, false), (true, true)] {
            let args = [0, 1, 15, 16, 17, 40, 79, 80, 81, 300].map(|n| {
                let shapes: [&[i64]; 3] = [&[n], &[3, 80], &[3, 80]];
                shapes.map(|shape| tensor(shape, F32, &mut rng)).to_vec()
            });
            let func = limited(op, choice, swapped);
            cases.push(Case { func, args: args.to_vec(), tolerance: 0.0 });
        }
    }
    let masked: Vec<Target> = (targets().iter())
        .flat_map(|it| {
            ["", " -masked-vectors=1"].map(|option| format!("{}{option}", it.kind.name()).parse().unwrap())
        })
        .collect();
    check_on(1, &cases, &masked);
}
