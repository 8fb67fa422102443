//! Built-in intrinsics compute what they describe; others are registered by name, if they are well made.

use std::slice::from_ref;

use tvm_runtime::DataType;

use super::build::{add_to, buffer, each};
use super::*;
use crate::ir::Var;
use crate::tir::{
    Block, BlockRealize, Buffer, DeclBuffer, ForKind, Intrinsic, PrimExpr, Scope, Stmt, ThreadTag,
};

const I64: DataType = DataType::I64;

#[test]
fn built_in_intrinsics_compute_what_they_describe() {
    let names: Vec<&str> = built_in().map(|(name, _)| *name).collect();
    assert!(names.len() >= 8);
    for name in &names {
        let intrin = TensorIntrin::get(name).unwrap_or_else(|err| panic!("{name}: {err}"));
        assert_eq!((intrin.name(), &*intrin.desc().name), (*name, *name));
        for seed in 0..8 {
            intrin.check_values(seed).unwrap();
        }
        assert!(TensorIntrin::names().iter().any(|it| **it == **name));
    }
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
}

/// `c[i] += a[i]` for four `i`, with another body and other buffers if these are given.
fn func(params: impl FnOnce([Buffer; 2]) -> Vec<Param>, body: impl FnOnce([&Buffer; 2]) -> Stmt) -> PrimFunc {
    let (a, c) = (buffer("a", &[4], I64), buffer("c", &[4], I64));
    let body = BlockRealize::opaque(Block::root(vec![], body([&a, &c])));
    PrimFunc::new("f", params([a, c]), body)
}

fn both([a, c]: [Buffer; 2]) -> Vec<Param> {
    vec![Param::In(a), Param::Out(c)]
}

fn sums(kind: ForKind, n: i64, step: i64, by: fn(PrimExpr) -> PrimExpr) -> PrimFunc {
    func(both, |[a, c]| each("i", n, kind, |i| add_to(c, &[i.clone() * step], by(a.load([i * step])))))
}

fn plain() -> PrimFunc {
    sums(ForKind::Serial, 4, 1, |it| it)
}

#[test]
fn names_are_registered_once() {
    TensorIntrin::new("registered_once", plain(), plain()).unwrap().register().unwrap();
    for name in ["registered_once", "fma_8x16_f32"] {
        let again = TensorIntrin::new(name, plain(), plain()).unwrap();
        let err = again.register().unwrap_err().to_string();
        assert!(err.contains("is registered already"), "{err}");
    }
    let err = TensorIntrin::get("registered_onze").unwrap_err().to_string();
    assert!(err.contains("did you mean `registered_once`?"), "{err}");
    let err = TensorIntrin::get("?").unwrap_err().to_string();
    assert!(err.contains("dot_16x4_vnni"), "{err}");
}

#[test]
fn other_values_are_found() {
    let wrong = TensorIntrin::new("wrong", plain(), sums(ForKind::Serial, 4, 1, |it| it + 1)).unwrap();
    let err = wrong.check_values(0).unwrap_err().to_string();
    assert!(err.contains("by the implementation"), "{err}");
    let part = TensorIntrin::new("part", plain(), sums(ForKind::Serial, 3, 1, |it| it)).unwrap();
    assert!(part.check_values(0).is_err());
    let outside = TensorIntrin::new("outside", plain(), sums(ForKind::Serial, 5, 1, |it| it)).unwrap();
    let err = outside.check_values(0).unwrap_err().to_string();
    assert!(err.contains("the implementation"), "{err}");
}

#[test]
fn signatures_agree() {
    let other = |params: fn([Buffer; 2]) -> Vec<Param>| func(params, |_| Stmt::nop());
    let refuse = |imp: PrimFunc| TensorIntrin::new("f", plain(), imp).unwrap_err().to_string();
    for (imp, why) in [
        (other(|[a, _]| vec![Param::In(a)]), "has 2 parameters, the implementation 1"),
        (other(|[a, c]| vec![Param::Out(a), Param::In(c)]), "parameter 0 is an input"),
        (other(|[a, _]| vec![Param::In(a), Param::Out(buffer("c", &[5], I64))]), "[5] in the implementation"),
        (other(|[a, _]| vec![Param::In(a), Param::Out(buffer("c", &[4, 1], I64))]), "[4, 1]"),
        (other(|[a, _]| vec![Param::In(a), Param::Out(buffer("c", &[4], DataType::I32))]), "i32"),
        (other(|[a, c]| vec![Param::In(a), Param::Out(c), Param::Scalar(Var::index("n"))]), "no buffer"),
        (
            other(|[a, _]| {
                let n = PrimExpr::from(&Var::index("n"));
                vec![Param::In(a), Param::Out(Buffer::new("c", [n], I64))]
            }),
            "no buffer of constant shape",
        ),
    ] {
        let err = refuse(imp);
        assert!(err.contains(why), "{why} is missing in {err}");
    }
}

#[test]
fn descriptions_are_one_nest_that_touches_all() {
    let symbolic = func(both, |[a, c]| {
        each("i", 4, ForKind::Serial, |i| {
            let at = [a.load([i.clone()])];
            Stmt::store(c, at.clone(), c.load(at) + a.load([i]))
        })
    });
    let two = func(both, |[a, c]| {
        let sum = || each("i", 4, ForKind::Serial, |i| add_to(c, from_ref(&i), a.load([i.clone()])));
        Stmt::seq([sum(), sum()])
    });
    let threads = sums(ForKind::ThreadBinding(ThreadTag::ThreadIdxX), 4, 1, |it| it);
    let values = func(both, |[a, c]| {
        each("i", 4, ForKind::Serial, |i| add_to(c, from_ref(&i), a.load([i.clone()]) * i.clone()))
    });
    for (desc, why) in [
        (sums(ForKind::Serial, 3, 1, |it| it), "does not touch all of `a`"),
        (sums(ForKind::Serial, 2, 2, |it| it), "does not touch all of `a`"),
        (sums(ForKind::Serial, 0, 1, |it| it), "has no iteration"),
        (func(both, |_| Stmt::nop()), "stores nothing"),
        (symbolic, "reads memory"),
        (two, "more than one nest"),
        (threads, "bound to threads"),
        (values, "operations that are not compared"),
    ] {
        let err = TensorIntrin::new("f", desc, plain()).unwrap_err().to_string();
        assert!(err.contains(why), "{why} is missing in {err}");
    }
}

#[test]
fn implementations_only_access_elements() {
    let address = func(both, |[a, c]| {
        let first = a.load([PrimExpr::index(0)]);
        let view = buffer("view", &[4], I64);
        let data = PrimExpr::call(Intrinsic::AddressOf, [first], DataType::HANDLE);
        let sum = each("i", 4, ForKind::Serial, |i| add_to(c, from_ref(&i), view.load([i.clone()])));
        Stmt::seq([Stmt::DeclBuffer(DeclBuffer { buffer: view.clone(), data }.into()), sum])
    });
    let shared = {
        let (a, c) = (buffer("a", &[4], I64), buffer("c", &[4], I64));
        let own = Buffer::with_scope("own", [PrimExpr::index(4)], I64, Scope::Shared);
        let body = each("i", 4, ForKind::Serial, |i| add_to(&c, from_ref(&i), a.load([i.clone()])));
        let body = BlockRealize::opaque(Block::root(vec![own], body));
        PrimFunc::new("f", both([a, c]), body)
    };
    for (imp, why) in [
        (sums(ForKind::Parallel, 4, 1, |it| it), "on several threads"),
        (address, "declares `view`"),
        (shared, "memory that threads share"),
    ] {
        let err = TensorIntrin::new("f", plain(), imp).unwrap_err().to_string();
        assert!(err.contains(why), "{why} is missing in {err}");
    }
    let writes_input = func(both, |[a, _]| Stmt::store(a, [PrimExpr::index(0)], PrimExpr::index(1)));
    assert!(TensorIntrin::new("f", plain(), writes_input).is_err());
}
