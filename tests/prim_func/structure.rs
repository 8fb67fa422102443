//! The IR that kernels build.

use tvm::ir::{Var, structural_equal};
use tvm::prelude::*;
use tvm::tir::{
    Block, BlockRealize, Buffer, BufferRegion, For, IterKind, IterVar, Param, PrimExpr, PrimFunc, Range, Stmt,
};

use crate::kernels::*;

/// `matmul`, built by hand.
fn matmul_by_hand() -> PrimFunc {
    let [m, n, k] = ["m", "n", "k"].map(Var::index);
    let dims = |a: &Var, b: &Var| [PrimExpr::from(a), PrimExpr::from(b)];
    let a = Buffer::new("a", dims(&m, &k), DataType::F32);
    let b = Buffer::new("b", dims(&k, &n), DataType::F32);
    let c = Buffer::new("c", dims(&m, &n), DataType::F32);
    let axes = [("vi", IterKind::Spatial, &m), ("vj", IterKind::Spatial, &n), ("vp", IterKind::Reduce, &k)];
    let iters =
        axes.map(|(name, kind, dim)| IterVar { var: Var::index(name), dom: Range::from_extent(dim), kind });
    let [vi, vj, vp] = [0, 1, 2].map(|i: usize| PrimExpr::from(&iters[i].var));
    let product = a.load([vi.clone(), vp.clone()]) * b.load([vp.clone(), vj.clone()]);
    let body = Stmt::store(&c, [vi.clone(), vj.clone()], c.load([vi.clone(), vj.clone()]) + product);
    let block = Block {
        iter_vars: iters.to_vec().into(),
        reads: [
            BufferRegion::point(&a, &[vi.clone(), vp.clone()]),
            BufferRegion::point(&b, &[vp, vj.clone()]),
        ]
        .into(),
        writes: [BufferRegion::point(&c, &[vi.clone(), vj.clone()])].into(),
        init: Some(Stmt::store(&c, [vi, vj], PrimExpr::float(0.0, DataType::F32))),
        ..Block::new("C", body)
    };
    let loops = ["i", "j", "p"].map(Var::index);
    let iter_values = loops.iter().map(PrimExpr::from).collect();
    let realize = BlockRealize { iter_values, predicate: PrimExpr::bool(true), block: block.into() };
    let nest = [&m, &n, &k].into_iter().zip(loops).rev();
    let body = nest.fold(realize.into(), |body, (dim, var)| For::serial(var, dim, body).into());
    let params = [Param::In(a), Param::In(b), Param::Out(c)];
    PrimFunc::new("matmul", params, BlockRealize::opaque(Block::root(vec![], body)))
}

#[test]
fn the_macro_builds_what_a_hand_builds() {
    structural_equal(&matmul::prim_func().unwrap(), &matmul_by_hand()).unwrap();
}

#[test]
fn every_kernel_is_well_formed() {
    let funcs = [
        matmul::prim_func(),
        matmul_plain::prim_func(),
        tiled::prim_func(),
        scale::prim_func(),
        softmax::prim_func(),
        conv::prim_func(),
        blur::prim_func(),
        prefix_sum::prim_func(),
        axpy::<bf16>::prim_func(),
        gelu::<f64>::prim_func(),
        block_sum::<5>::prim_func(),
        total::prim_func(),
        collatz::prim_func(),
        gather::prim_func(),
        two_stages::prim_func(),
        bounded::prim_func(),
        half_precision::prim_func(),
    ];
    for func in funcs {
        let func = func.unwrap();
        tvm::tir::analysis::well_formed(&func).unwrap_or_else(|err| panic!("{err}\n{func}"));
        structural_equal(&func, &func).unwrap();
    }
    let dims = bounded::prim_func().unwrap().symbolic_dims();
    assert_eq!(dims[0].bound().unwrap().to_string(), "8..=64 in steps of 8");
    assert_eq!(matmul::module().unwrap().len(), 1);
    let Stmt::BlockRealize(root) = two_stages::prim_func().unwrap().body else { panic!("a root block") };
    assert_eq!(root.block.alloc_buffers[0].scope, tvm::tir::Scope::Local);
}

#[test]
fn nodes_know_their_place() {
    let func = scale::prim_func().unwrap();
    let (file, line, column) = func.span.location().unwrap();
    assert!(file.ends_with("tests/prim_func/kernels.rs"), "{file}");
    assert!(line > 40 && column == 8, "{line}:{column}");
    let Stmt::BlockRealize(root) = &func.body else { panic!("a root block") };
    let Stmt::For(outer) = &root.block.body else { panic!("a loop") };
    assert_eq!(outer.span.location().map(|it| (it.1 - line, it.2)), Some((1, 5)));
    let Stmt::BlockRealize(inner) = &outer.body else { panic!("a block") };
    assert_eq!(inner.block.span.location().map(|it| (it.1 - line, it.2)), Some((2, 9)));
}

#[test]
fn signatures() {
    assert_eq!(
        block_sum::<4>::signature().to_string(),
        "fn block_sum(x: &Tensor<f32, n, 4>, y: &mut Tensor<f32, n>)"
    );
    assert_eq!(
        axpy::<f16>::signature().to_string(),
        "fn axpy(x: &Tensor<f16, n>, a: f16, y: &mut Tensor<f16, n>)"
    );
    assert_eq!(blur::signature().to_string(), "fn blur(x: &Tensor<f32, { n + 2 }>, y: &mut Tensor<f32, n>)");
}
