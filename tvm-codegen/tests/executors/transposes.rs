//! Tiles that are transposed in vector registers, for all sizes of tiles and of elements.

use tvm_core::ir::{BaseFunc, IRModule, Var};
use tvm_core::pass::{Pass, PassContext};
use tvm_core::target::Target;
use tvm_core::tir::pipeline::lower_tir;
use tvm_core::tir::transform::{renew_defs, vectorize_transposes};
use tvm_core::tir::{ForKind, Param, PrimExpr, PrimFunc, Stmt};
use tvm_runtime::{DataType, Value};

use super::data::Rng;
use super::programs::{buffer, func, loops};
use super::suite::{Case, check, tensor};

const TYPES: [DataType; 10] = [
    DataType::F32,
    DataType::F64,
    DataType::F16,
    DataType::BF16,
    DataType::I8,
    DataType::U8,
    DataType::I16,
    DataType::I32,
    DataType::I64,
    DataType::BOOL,
];

/// `y = xᵀ` in tiles of `size` squared; with `more`, `y = max(xᵀ, z) + xᵀ`, where `x` has a symbolic number of columns.
fn transpose(name: &str, size: i64, dtype: DataType, more: bool) -> PrimFunc {
    let columns = if more { PrimExpr::from(Var::index("n")) } else { PrimExpr::index(2 * size) };
    let shape = [PrimExpr::index(3 * size), columns.clone()];
    let x = buffer("x", &shape, dtype);
    let [y, z] = ["y", "z"].map(|name| buffer(name, &[shape[1].clone(), shape[0].clone()], dtype));
    let extents = [
        (ForKind::Serial, columns.floordiv(size)),
        (ForKind::Serial, PrimExpr::index(3)),
        (ForKind::Serial, PrimExpr::index(size)),
        (ForKind::Vectorized, PrimExpr::index(size)),
    ];
    let body = loops(&extents, |v| {
        let at = [v[0].clone() * size + &v[2], v[1].clone() * size + &v[3]];
        let turned = || x.load([at[1].clone(), at[0].clone()]);
        let value = if more { turned().max(z.load(at.to_vec())) + turned() } else { turned() };
        Stmt::store(&y, at, value)
    });
    let inputs = [x].into_iter().chain(more.then_some(z)).map(Param::In);
    func(name, inputs.chain([Param::Out(y)]).collect(), vec![], body)
}

/// The text of a program after `pass`.
fn text(func: &PrimFunc, pass: Pass) -> String {
    let mut module = IRModule::new();
    module.add(func.name.clone(), BaseFunc::Prim(renew_defs(func).into()));
    format!("{:?}", PassContext::new().target(Target::c()).scope(|| pass.apply(module)).unwrap())
}

#[test]
fn all_executors_transpose_tiles() {
    let mut rng = Rng(5);
    let mut cases = Vec::new();
    for (dtype, size) in TYPES.into_iter().flat_map(|dtype| [4, 8, 16].map(|size| (dtype, size))) {
        for more in [false, true] {
            if more && dtype.is_bool() {
                continue;
            }
            let func = transpose(&format!("transpose_{dtype}_{size}_{more}"), size, dtype, more);
            assert_eq!(text(&func, lower_tir()).contains("tile:"), !dtype.is_bool(), "{func}");
            let mut args = |columns: i64| -> Vec<Value> {
                let shapes = [[3 * size, columns], [columns, 3 * size], [columns, 3 * size]];
                let shapes = if more { &shapes[..] } else { &shapes[..2] };
                shapes.iter().map(|shape| tensor(shape, dtype, &mut rng)).collect()
            };
            let args = vec![args(2 * size)];
            cases.push(Case { func, args, tolerance: 0.0 });
        }
    }
    check(&cases);
}

/// A tile of a buffer that is also written stays a loop.
#[test]
fn tiles_in_place_stay_loops() {
    let tiles = |in_place: bool| {
        let [x, y] = ["x", "y"].map(|name| buffer(name, &[PrimExpr::index(128)], DataType::F32));
        let to = if in_place { &x } else { &y };
        let extents = [(ForKind::Serial, PrimExpr::index(8)), (ForKind::Vectorized, PrimExpr::index(8))];
        let body = loops(&extents, |v| {
            let from = x.load([v[1].clone() * 8 + &v[0] + 64]);
            Stmt::store(to, [v[0].clone() * 8 + &v[1]], from)
        });
        let func = PrimFunc::new("tiles", vec![Param::Out(x.clone()), Param::Out(y.clone())], body);
        text(&func, vectorize_transposes()).contains("tile:")
    };
    assert!(tiles(false));
    assert!(!tiles(true));
}
