//! Vectors of which some lanes are computed: conditions and remainders, for all types, on CPUs with and without masked
//! instructions.

use tvm_core::ir::Var;
use tvm_core::target::Target;
use tvm_core::tir::{ForKind, Intrinsic, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::{DataType, Value};

use super::data::Rng;
use super::programs::{buffer, func, loops};
use super::suite::{Case, check_on, targets, tensor};

const TYPES: [DataType; 11] = [
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::U8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::U64,
    DataType::BOOL,
];

/// The targets of this build with masked vectors, for this CPU and for levels with and without such instructions.
fn masking() -> Vec<Target> {
    let mut texts = vec!["-masked-vectors=1"];
    if cfg!(target_arch = "x86_64") {
        let has = |name: &str| tvm_runtime::cpu_features().contains(&name);
        texts.extend(has("avx2").then_some("-cpu=x86-64-v3 -masked-vectors=1"));
        texts.extend(has("avx512bw").then_some("-cpu=x86-64-v4"));
    }
    let with = |kind: &Target| {
        texts.iter().map(|text| format!("{} {text}", kind.kind.name()).parse().unwrap()).collect::<Vec<_>>()
    };
    targets().iter().flat_map(with).collect()
}

/// `y[i, j] = x[i, j - 2]` where that exists and `j` is less than `limit`, else `fill`; in vectors of `lanes`, of which the
/// last one is stored in part.
fn shifted(name: &str, dtype: DataType, [rows, columns]: [i64; 2], lanes: i64, symbolic: bool) -> PrimFunc {
    let width = if symbolic { PrimExpr::from(Var::index("n")) } else { PrimExpr::index(columns) };
    let shape = [PrimExpr::index(rows), width.clone()];
    let [x, y] = ["x", "y"].map(|name| buffer(name, &shape, dtype));
    let extents = [
        (ForKind::Serial, PrimExpr::index(rows)),
        (ForKind::Serial, (width.clone() + (lanes - 1)).floordiv(lanes)),
        (ForKind::Vectorized, PrimExpr::index(lanes)),
    ];
    let body = loops(&extents, |v| {
        let j = v[1].clone() * lanes + &v[2];
        let from = j.clone() - 2i64;
        let inside = from.clone().greater_equal(0).and(v[0].clone().greater_equal(1));
        let args = [inside, x.load([v[0].clone(), from]), PrimExpr::constant(0.0, dtype)];
        let value = PrimExpr::call(Intrinsic::IfThenElse, args, dtype);
        Stmt::if_then_else(j.clone().less(width.clone()), Stmt::store(&y, [v[0].clone(), j], value), None)
    });
    func(name, vec![Param::In(x), Param::Out(y)], vec![], body)
}

/// `y = max(x, z)` in vectors and a remainder.
fn maximum(name: &str, dtype: DataType, columns: i64) -> PrimFunc {
    let shape = [3, columns].map(PrimExpr::index);
    let [x, y, z] = ["x", "y", "z"].map(|name| buffer(name, &shape, dtype));
    let extents = [(ForKind::Serial, PrimExpr::index(3)), (ForKind::Vectorized, PrimExpr::index(columns))];
    let body = loops(&extents, |v| Stmt::store(&y, v.to_vec(), x.load(v.to_vec()).max(z.load(v.to_vec()))));
    func(name, vec![Param::In(x), Param::In(z), Param::Out(y)], vec![], body)
}

#[test]
fn all_executors_compute_some_lanes() {
    let mut rng = Rng(31);
    let mut cases = Vec::new();
    for dtype in TYPES {
        for (columns, lanes) in [(7, 8), (14, 16), (45, 32)] {
            let args = |inputs: usize, rows: i64, columns: i64, rng: &mut Rng| -> Vec<Value> {
                (0..=inputs).map(|_| tensor(&[rows, columns], dtype, rng)).collect()
            };
            let func = maximum(&format!("maximum_{dtype}_{columns}"), dtype, columns);
            cases.push(Case { func, args: vec![args(2, 3, columns, &mut rng)], tolerance: 0.0 });
            for symbolic in [false, true] {
                let name = format!("shifted_{dtype}_{columns}_{symbolic}");
                let func = shifted(&name, dtype, [3, columns], lanes, symbolic);
                let mut runs = vec![args(1, 3, columns, &mut rng)];
                runs.extend(symbolic.then(|| args(1, 3, 1, &mut rng)));
                cases.push(Case { func, args: runs, tolerance: 0.0 });
            }
        }
    }
    check_on(1, &cases, &masking());
}
