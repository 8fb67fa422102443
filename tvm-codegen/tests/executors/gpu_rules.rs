//! Programs for the rules of the default schedules for GPUs that have no file of their own here: sums of columns, transposes,
//! products with an epilogue.

use tvm_core::ir::Var;
use tvm_core::te;
use tvm_core::tir::{PrimExpr, PrimFunc};
use tvm_runtime::DataType;

use super::data::Rng;
use super::suite::{Case, check, tensor};

const F32: DataType = DataType::F32;

fn symbol(name: &str) -> PrimExpr {
    Var::index(name).into()
}

/// The case of `func`, called with tensors of these shapes.
fn case(func: PrimFunc, calls: &[&[&[i64]]], rng: &mut Rng) -> Case {
    let mut args = |shapes: &&[&[i64]]| shapes.iter().map(|shape| tensor(shape, F32, rng)).collect();
    Case { args: calls.iter().map(&mut args).collect(), func, tolerance: 1e-5 }
}

fn columns(m: PrimExpr, n: PrimExpr) -> PrimFunc {
    let x = te::placeholder("x", [m.clone(), n.clone()], F32);
    let r = te::reduce_axis("r", m);
    let y = te::compute("y", [n], &[&x], |i: &[PrimExpr]| te::sum(x.at([r.expr(), i[0].clone()]), &[&r]));
    te::create_prim_func("columns", &[x], &[y]).unwrap()
}

#[test]
fn sums_of_columns() {
    let mut rng = Rng(41);
    let sizes: [&[&[i64]]; 5] =
        [&[&[100, 33], &[33]], &[&[3, 1], &[1]], &[&[0, 5], &[5]], &[&[9, 0], &[0]], &[&[64, 64], &[64]]];
    check(&[
        case(columns(symbol("m"), symbol("n")), &sizes, &mut rng),
        case(columns(70.into(), 45.into()), &[&[&[70, 45], &[45]]], &mut rng),
    ]);
}

/// `y[.., j, i] = 2 x[.., i, j] + b[i]`.
fn turned(lead: Option<i64>, m: PrimExpr, n: PrimExpr) -> PrimFunc {
    let lead: Vec<PrimExpr> = lead.into_iter().map(PrimExpr::index).collect();
    let shape = |rest: [&PrimExpr; 2]| [&lead[..], &rest.map(Clone::clone)].concat();
    let x = te::placeholder("x", shape([&m, &n]), F32);
    let b = te::placeholder("b", [m.clone()], F32);
    let y = te::compute("y", shape([&n, &m]), &[&x, &b], |i: &[PrimExpr]| {
        let (lead, last) = i.split_at(i.len() - 2);
        x.at([lead, &[last[1].clone(), last[0].clone()]].concat()) * PrimExpr::float(2.0, F32)
            + b.at([last[1].clone()])
    });
    te::create_prim_func("turned", &[x, b], &[y]).unwrap()
}

#[test]
fn transposes_in_tiles() {
    let mut rng = Rng(42);
    let sizes: [&[&[i64]]; 4] = [
        &[&[33, 70], &[33], &[70, 33]],
        &[&[1, 5], &[1], &[5, 1]],
        &[&[0, 5], &[0], &[5, 0]],
        &[&[64, 32], &[64], &[32, 64]],
    ];
    check(&[
        case(turned(None, symbol("m"), symbol("n")), &sizes, &mut rng),
        case(turned(Some(3), 40.into(), 37.into()), &[&[&[3, 40, 37], &[40], &[3, 37, 40]]], &mut rng),
    ]);
}

/// `max(x wᵀ + b, 0) + z`.
fn layer([m, n, k]: [PrimExpr; 3]) -> PrimFunc {
    let x = te::placeholder("x", [m.clone(), k.clone()], F32);
    let w = te::placeholder("w", [n.clone(), k.clone()], F32);
    let b = te::placeholder("b", [n.clone()], F32);
    let z = te::placeholder("z", [m.clone(), n.clone()], F32);
    let r = te::reduce_axis("r", k);
    let p = te::compute("p", [m.clone(), n.clone()], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[0].clone(), r.expr()]) * w.at([i[1].clone(), r.expr()]), &[&r])
    });
    let y = te::compute("y", [m, n], &[&p, &b, &z], |i: &[PrimExpr]| {
        (p.at(i.to_vec()) + b.at([i[1].clone()])).max(PrimExpr::float(0.0, F32)) + z.at(i.to_vec())
    });
    te::create_prim_func("layer", &[x, w, b, z], &[y]).unwrap()
}

#[test]
fn products_with_an_epilogue() {
    let mut rng = Rng(43);
    let call = |[m, n, k]: [i64; 3], rng: &mut Rng| {
        [vec![m, k], vec![n, k], vec![n], vec![m, n], vec![m, n]]
            .map(|shape| tensor(&shape, F32, rng))
            .to_vec()
    };
    let free = ["m", "n", "k"].map(symbol);
    let calls = [[40, 33, 50], [1, 1, 1], [0, 3, 2], [65, 7, 0]].map(|sizes| call(sizes, &mut rng)).to_vec();
    let fixed = layer([70, 65, 33].map(PrimExpr::index));
    check(&[
        Case { func: layer(free), args: calls, tolerance: 1e-4 },
        Case { func: fixed, args: vec![call([70, 65, 33], &mut rng)], tolerance: 1e-4 },
    ]);
}
