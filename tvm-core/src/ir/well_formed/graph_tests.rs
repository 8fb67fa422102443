//! Tests: a valid graph module passes; each corruption of it is rejected with the number of the violated rule.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::well_formed;
use crate::ir::graph::*;
use crate::ir::tensor_program::PrimExpr;
use crate::ir::{AdtType, ConstructorDef, GlobalVar, IRModule, Span, Type, TypeDef, Var};
use crate::relax::testing::{add, add_prim, bind, body, call, call_tir, f32s, fixed, function, map};

fn list_type() -> Type {
    Type::Adt(AdtType { name: "List".into(), args: [].into() })
}

fn constructor(name: &str, tag: usize) -> Constructor {
    Constructor { ty: "List".into(), name: name.into(), tag }
}

/// The parts of the module that a corruption may change before the module is built.
struct Parts {
    tir_args: Vec<Arg>,
    tir_type: Type,
    tir_dataflow: bool,
    pattern: Constructor,
    clauses: usize,
    extra: Vec<Binding>,
    ret: Option<Arg>,
    ret_type: Type,
    callee: Option<GlobalVar>,
    param_type: Option<Type>,
}

/// `main(x, l) = { y = call_tir(neg, (x,)); t = (y, x); z = t.0; m = match l { Cons(h, _) => h, Nil => z }; m }`
fn module(change: impl Fn(&mut Parts, &Var)) -> IRModule {
    let mut module = IRModule::new();
    let cons = ConstructorDef { name: "Cons".into(), fields: [fixed(&[4]), list_type()].into() };
    let nil = ConstructorDef { name: "Nil".into(), fields: [].into() };
    module.add_type(Arc::new(TypeDef {
        name: "List".into(),
        params: [].into(),
        constructors: [cons, nil].into(),
    }));
    let dim = PrimExpr::from(Var::index("n"));
    let neg = add_prim(&mut module, map("neg", vec![dim], |x| -x));
    let x = Var::new("x", fixed(&[4]));
    let mut parts = Parts {
        tir_args: vec![(&x).into()],
        tir_type: fixed(&[4]),
        tir_dataflow: true,
        pattern: constructor("Cons", 0),
        clauses: 2,
        extra: vec![],
        ret: None,
        ret_type: fixed(&[4]),
        callee: None,
        param_type: None,
    };
    change(&mut parts, &x);
    let l = Var::new("l", parts.param_type.unwrap_or_else(list_type));
    let (y, make_y) =
        bind("y", fixed(&[4]), call_tir(&parts.callee.unwrap_or(neg), &parts.tir_args, parts.tir_type));
    let pair = Type::Tuple([fixed(&[4]), fixed(&[4])].into());
    let (t, make_t) = bind("t", pair, Expr::Arg(Arg::Tuple([(&y).into(), (&x).into()].into())));
    let (z, make_z) = bind("z", fixed(&[4]), Expr::TupleGetItem((&t).into(), 0));
    let (h, rest) = (Var::new("h", fixed(&[4])), Var::new("rest", list_type()));
    let fields = [Pattern::Var(h.clone()), Pattern::Var(rest)].into();
    let clauses = [
        Clause { pattern: Pattern::Constructor(parts.pattern, fields), body: Body::value(h.into()) },
        Clause {
            pattern: Pattern::Constructor(constructor("Nil", 1), [].into()),
            body: Body::value((&z).into()),
        },
    ];
    let clauses = clauses[..parts.clauses].to_vec().into();
    let matched = Match { value: (&l).into(), clauses, span: Span::rust("model.rs", 3, 5) };
    let (m, make_m) = bind("m", fixed(&[4]), Expr::Match(matched.into()));
    let mut func = function("main", &[&x, &l], vec![], m);
    let block = |dataflow, bindings: Vec<Binding>| BindingBlock { dataflow, bindings: bindings.into() };
    let first = [vec![make_y, make_t, make_z], parts.extra].concat();
    func.body.blocks = [block(parts.tir_dataflow, first), block(false, vec![make_m])].into();
    func.ret = parts.ret_type;
    func.span = Span::rust("model.rs", 1, 1);
    if let Some(ret) = parts.ret {
        func.body.ret = ret;
    }
    add(&mut module, func);
    module
}

/// A module with a data type, a match, a tensor program and a tuple.
pub(crate) fn graph_sample() -> IRModule {
    module(|_, _| {})
}

fn extra(parts: &mut Parts, ty: Type, value: Expr) {
    parts.extra.push(bind("e", ty, value).1);
}

#[test]
fn corruptions_are_refused() {
    well_formed(&module(|_, _| {})).unwrap();
    type Change = fn(&mut Parts, &Var);
    let cases: &[(&str, &str, Change)] = &[
        ("unbound variable", "W1", |p, _| p.tir_args = vec![Var::new("q", fixed(&[4])).into()]),
        ("unbound dimension", "W1", |p, _| p.tir_type = f32s(&[Var::index("k").into()])),
        ("pattern variable outside its clause", "W1", |p, _| p.ret = Some(Var::new("h", fixed(&[4])).into())),
        ("variable bound twice", "W2", |p, x| p.extra.push(Binding::new(x.clone(), Expr::Arg(x.into())))),
        ("extent of another type", "W3", |p, _| {
            p.param_type = Some(f32s(&[PrimExpr::int(4, DataType::I32)]))
        }),
        ("scalar out of range", "W3", |p, _| {
            extra(p, Type::Prim(DataType::I8), Expr::Arg(Arg::Prim(PrimExpr::int(300, DataType::I8))));
        }),
        ("unknown function", "W9", |p, _| p.callee = Some(GlobalVar::new("nge"))),
        ("number of arguments", "W9", |p, x| p.tir_args = vec![x.into(), x.into()]),
        ("argument type", "W9", |p, _| p.tir_args = vec![Arg::Prim(PrimExpr::index(1))]),
        ("tag of a constructor", "W9", |p, _| p.pattern = constructor("Cons", 1)),
        ("arity of a pattern", "W9", |p, _| p.pattern = constructor("Nil", 1)),
        ("missing clause", "W9", |p, _| p.clauses = 1),
        ("tuple index", "W9", |p, x| extra(p, fixed(&[4]), Expr::TupleGetItem(x.into(), 1))),
        ("type of a variable", "W10", |p, x| extra(p, fixed(&[5]), Expr::Arg(x.into()))),
        ("type of the result", "W11", |p, _| p.ret_type = fixed(&[5])),
        ("effect in a dataflow block", "W12", |p, _| {
            extra(p, Type::Object, call(Callee::Packed("log".into()), &[]));
        }),
        ("branch in a dataflow block", "W12", |p, x| {
            let arm = || body(vec![], x);
            let cond = Arg::Prim(PrimExpr::bool(true));
            let branch = If { cond, then_branch: arm(), else_branch: arm(), span: Span::none() };
            extra(p, fixed(&[4]), Expr::If(branch.into()));
        }),
        ("effect in a pure function", "W13", |p, _| {
            p.tir_dataflow = false;
            extra(p, Type::Object, call(Callee::Packed("log".into()), &[]));
        }),
        ("unknown type", "W14", |p, _| {
            p.param_type = Some(Type::Adt(AdtType { name: "Tree".into(), args: [].into() }));
        }),
        ("arguments of a type", "W14", |p, _| {
            p.param_type = Some(Type::Adt(AdtType { name: "List".into(), args: [Type::Object].into() }));
        }),
    ];
    for (name, rule, change) in cases {
        let err = well_formed(&module(change)).expect_err(name);
        assert!(err.0.iter().any(|it| it.message.starts_with(&format!("{rule}:"))), "{name}: {err}");
    }
    let err = well_formed(&module(|p, _| p.clauses = 1)).unwrap_err();
    assert_eq!(err.0[0].span.location(), Some(("model.rs", 3, 5)), "{err}");
}
