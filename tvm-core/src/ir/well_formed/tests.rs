//! Tests: valid programs pass; each seeded corruption is rejected with the number of the violated rule.

use std::sync::Arc;

use tvm_runtime::DataType;

use crate::ir::structural::sample::{matmul, random_prim_func};
use crate::ir::tensor_program::*;
use crate::ir::{BaseFunc, BlockId, IRModule, Var, well_formed};
use crate::tir::transform::renew_defs;

#[test]
fn valid_programs_pass() {
    well_formed(&IRModule::from_prim_func(matmul())).unwrap();
    for seed in 0..200 {
        well_formed(&IRModule::from_prim_func(random_prim_func(seed)))
            .unwrap_or_else(|err| panic!("{seed}: {err}"));
    }
}

/// Applies a rewrite once, to the first node that it matches.
struct Corrupt<'a> {
    expr: &'a dyn Fn(&PrimExpr) -> Option<PrimExpr>,
    stmt: &'a dyn Fn(&Stmt) -> Option<Stmt>,
    done: bool,
}

impl Mutator for Corrupt<'_> {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match (self.expr)(expr).filter(|_| !self.done) {
            Some(new) => {
                self.done = true;
                Some(new)
            }
            None => self.walk_expr(expr),
        }
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match (self.stmt)(stmt).filter(|_| !self.done) {
            Some(new) => {
                self.done = true;
                Some(new)
            }
            None => self.walk_stmt(stmt),
        }
    }
}

fn raw(op: BinaryOp, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    PrimExpr::Binary(Arc::new(Binary { op, a, b }))
}

fn load(expr: &PrimExpr, change: impl Fn(&BufferLoad) -> BufferLoad) -> Option<PrimExpr> {
    if let PrimExpr::BufferLoad(it) = expr { Some(PrimExpr::BufferLoad(change(it).into())) } else { None }
}

fn store(stmt: &Stmt, change: impl Fn(&BufferStore) -> BufferStore) -> Option<Stmt> {
    if let Stmt::BufferStore(it) = stmt { Some(change(it).into()) } else { None }
}

fn for_(stmt: &Stmt, change: impl Fn(&For) -> For) -> Option<Stmt> {
    if let Stmt::For(it) = stmt { Some(change(it).into()) } else { None }
}

fn realize(stmt: &Stmt, change: impl Fn(&BlockRealize) -> BlockRealize) -> Option<Stmt> {
    if let Stmt::BlockRealize(it) = stmt
        && &*it.block.name == "C"
    {
        Some(change(it).into())
    } else {
        None
    }
}

type OfExpr<'a> = dyn Fn(&PrimExpr) -> Option<PrimExpr> + 'a;
type OfStmt<'a> = dyn Fn(&Stmt) -> Option<Stmt> + 'a;

#[test]
fn corruptions_are_refused() {
    let func = matmul();
    let Param::In(a) = func.params[0].clone() else { unreachable!() };
    let input = move |it: &BufferStore| BufferStore { buffer: a.clone(), ..it.clone() };
    let keep_expr: &OfExpr<'_> = &|_| None;
    let keep_stmt: &OfStmt<'_> = &|_| None;
    let cases: &[(&str, &str, &OfExpr<'_>, &OfStmt<'_>)] = &[
        (
            "unbound variable",
            "W1",
            &|e| load(e, |it| it.with_indices([Var::index("q").into(), Var::index("q").into()])),
            keep_stmt,
        ),
        ("loop variable outside its loop", "W1", keep_expr, &|s| {
            for_(s, |it| For { extent: (&it.loop_var).into(), ..it.clone() })
        }),
        ("end of a loop that does not fit", "W3", keep_expr, &|s| {
            for_(s, |it| For { min: i64::MAX.into(), extent: 1.into(), ..it.clone() })
        }),
        ("loop variable bound twice", "W2", keep_expr, &|s| {
            for_(s, |it| For { body: it.clone().into(), ..it.clone() })
        }),
        ("block twice", "W2", keep_expr, &|s| realize(s, |it| it.clone()).map(|s| Stmt::seq([s.clone(), s]))),
        (
            "mixed operand types",
            "W3",
            &|e| load(e, |it| it.clone()).map(|e| raw(BinaryOp::Add, e, PrimExpr::index(1))),
            keep_stmt,
        ),
        (
            "float index",
            "W3",
            &|e| load(e, |it| it.with_indices(vec![PrimExpr::float(1.0, DataType::F32); 2])),
            keep_stmt,
        ),
        (
            "i32 index",
            "W3",
            &|e| {
                load(e, |it| {
                    let narrow = it.indices.iter().map(|i| i.clone().cast(DataType::I32));
                    it.with_indices(narrow.collect::<Vec<_>>())
                })
            },
            keep_stmt,
        ),
        ("stored type", "W3", keep_expr, &|s| {
            store(s, |it| BufferStore { value: it.value.clone().cast(DataType::F64), ..it.clone() })
        }),
        ("integer predicate", "W3", keep_expr, &|s| {
            realize(s, |it| BlockRealize { predicate: PrimExpr::index(1), ..it.clone() })
        }),
        (
            "arity of an intrinsic",
            "W3",
            &|e| {
                load(e, |it| it.clone())
                    .map(|e| PrimExpr::call(Intrinsic::Exp, [e.clone(), e], DataType::F32))
            },
            keep_stmt,
        ),
        (
            "argument of an intrinsic",
            "W3",
            &|e| {
                load(e, |it| it.clone())
                    .map(|e| PrimExpr::call(Intrinsic::Exp, [e.cast(DataType::F64)], DataType::F32))
            },
            keep_stmt,
        ),
        (
            "bits of another size",
            "W3",
            &|e| load(e, |it| it.clone()).map(|e| PrimExpr::call(Intrinsic::Reinterpret, [e], DataType::I64)),
            keep_stmt,
        ),
        ("constant out of range", "W3", &|e| e.as_var().map(|_| PrimExpr::int(300, DataType::I8)), keep_stmt),
        ("rank of a load", "W4", &|e| load(e, |it| it.with_indices(&it.indices[..1])), keep_stmt),
        ("rank of a store", "W4", keep_expr, &|s| {
            store(s, |it| BufferStore { indices: it.indices[1..].into(), ..it.clone() })
        }),
        ("number of axis values", "W5", keep_expr, &|s| {
            realize(s, |it| BlockRealize { iter_values: it.iter_values[..2].into(), ..it.clone() })
        }),
        ("block name twice", "W5", keep_expr, &|s| {
            realize(s, |it| it.clone()).map(|s| Stmt::seq([s.clone(), crate::tir::transform::renew_stmt(&s)]))
        }),
        (
            "unknown buffer",
            "W6",
            &|e| {
                load(e, |it| BufferLoad {
                    buffer: it.buffer.renew(|_| {}),
                    indices: it.indices.clone(),
                    predicate: None,
                    span: it.span.clone(),
                })
            },
            keep_stmt,
        ),
        ("write to an input", "W7", keep_expr, &|s| store(s, &input)),
        ("nested sequence", "W8", keep_expr, &|s| {
            store(s, |it| it.clone()).map(|s| Stmt::SeqStmt([Stmt::SeqStmt([s].into())].into()))
        }),
    ];
    for (name, rule, expr, stmt) in cases {
        let body = Corrupt { expr, stmt, done: false }.mutate_stmt(&func.body).unwrap();
        let err = well_formed(&IRModule::from_prim_func(PrimFunc { body, ..func.clone() })).unwrap_err();
        assert!(err.0.iter().any(|it| it.message.starts_with(rule)), "{name}: {err}");
        assert!(!err.0[0].span.is_none() || *rule != "W4", "{name}: no span in {err}");
    }
}

#[test]
fn identities_are_unique_in_a_module() {
    let func = Arc::new(matmul());
    let mut module = IRModule::new();
    module.add("f", BaseFunc::Prim(func.clone()));
    module.add("f", BaseFunc::Prim(renew_defs(&func).into()));
    well_formed(&module).unwrap();
    module.add("f", BaseFunc::Prim(func));
    assert!(well_formed(&module).unwrap_err().to_string().starts_with("W2"));
    assert_ne!(BlockId::fresh(), BlockId::fresh());
}
