//! The prelude: `List`, `Option`, `Tree`, and polymorphic functions over them.
//!
//! TVM counterpart: `relay/std/prelude.rly`, `tvm.relay.prelude`.

use std::sync::Arc;

use crate::ir::{
    AdtType, Attrs, BaseFunc, ConstructorDef, FuncType, GlobalVar, IRModule, IrError, Span, Type, TypeDef,
    TypeParam, Var,
};
use crate::relax::{
    Arg, BlockBuilder, Body, Call, Callee, Clause, Constructor, Expr, Function, Match, Pattern,
};

fn param(name: &str) -> Type {
    Type::Param(TypeParam(name.into()))
}

fn adt(name: &str, arg: Type) -> Type {
    Type::Adt(AdtType { name: name.into(), args: Arc::new([arg]) })
}

fn list(elem: Type) -> Type {
    adt("List", elem)
}

fn tree(elem: Type) -> Type {
    adt("Tree", elem)
}

fn func(params: &[Type], ret: Type) -> Type {
    Type::Func(Arc::new(FuncType { type_params: Arc::new([]), params: params.into(), ret, pure: true }))
}

/// The type definitions of the prelude:
///
/// ```text
/// enum List<A> { Nil, Cons(A, List<A>) }
/// enum Option<A> { None, Some(A) }
/// enum Tree<A> { Rose(A, List<Tree<A>>) }
/// ```
pub fn prelude_types() -> Vec<TypeDef> {
    let a = || param("A");
    let def = |name: &str, constructors: &[(&str, Vec<Type>)]| TypeDef {
        name: name.into(),
        params: Arc::new([TypeParam("A".into())]),
        constructors: constructors
            .iter()
            .map(|(name, fields)| ConstructorDef { name: (*name).into(), fields: fields.clone().into() })
            .collect(),
    };
    vec![
        def("List", &[("Nil", vec![]), ("Cons", vec![a(), list(a())])]),
        def("Option", &[("None", vec![]), ("Some", vec![a()])]),
        def("Tree", &[("Rose", vec![a(), list(tree(a()))])]),
    ]
}

/// Adds the types and functions of the prelude to `module`: `map`, `foldl`, `foldr`, `concat`, `rev`, `filter`, `tmap`.
///
/// # Errors
/// When the module has other functions or types of these names that do not fit.
pub fn add_prelude(module: IRModule) -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::new(module);
    prelude_types().into_iter().for_each(|def| builder.module_mut().add_type(Arc::new(def)));
    let map = add_map(&mut builder)?;
    let foldl = add_foldl(&mut builder)?;
    add_foldr(&mut builder)?;
    add_concat(&mut builder)?;
    add_rev(&mut builder, &foldl)?;
    add_filter(&mut builder)?;
    add_tmap(&mut builder, &map)?;
    Ok(builder.into_module())
}

/// `map(f, l) = match l { Nil => Nil, Cons(h, t) => Cons(f(h), map(f, t)) }`
fn add_map(builder: &mut BlockBuilder) -> Result<GlobalVar, IrError> {
    let (a, b) = (param("A"), param("B"));
    let (f, l) = (Var::new("f", func(std::slice::from_ref(&a), b.clone())), Var::new("l", list(a.clone())));
    define(builder, "map", &["A", "B"], &[&f, &l], list(b.clone()), |builder, map| {
        on_list(
            builder,
            &l,
            |builder| emit(builder, nil(b.clone())),
            |builder, h, t| {
                let head = emit(builder, call(Callee::Var(f.clone()), &[h.into()]))?;
                let tail = emit(builder, call(Callee::Global(map.clone()), &[(&f).into(), t.into()]))?;
                emit(builder, cons(head, tail, b.clone()))
            },
        )
    })
}

/// `foldl(f, acc, l) = match l { Nil => acc, Cons(h, t) => foldl(f, f(acc, h), t) }`
fn add_foldl(builder: &mut BlockBuilder) -> Result<GlobalVar, IrError> {
    let (a, b) = (param("A"), param("B"));
    let (f, acc) = (Var::new("f", func(&[a.clone(), b.clone()], a.clone())), Var::new("acc", a.clone()));
    let l = Var::new("l", list(b.clone()));
    define(builder, "foldl", &["A", "B"], &[&f, &acc, &l], a.clone(), |builder, foldl| {
        on_list(
            builder,
            &l,
            |_| Ok((&acc).into()),
            |builder, h, t| {
                let next = emit(builder, call(Callee::Var(f.clone()), &[(&acc).into(), h.into()]))?;
                emit(builder, call(Callee::Global(foldl.clone()), &[(&f).into(), next, t.into()]))
            },
        )
    })
}

/// `foldr(f, acc, l) = match l { Nil => acc, Cons(h, t) => f(h, foldr(f, acc, t)) }`
fn add_foldr(builder: &mut BlockBuilder) -> Result<GlobalVar, IrError> {
    let (a, b) = (param("A"), param("B"));
    let (f, acc) = (Var::new("f", func(&[a.clone(), b.clone()], b.clone())), Var::new("acc", b.clone()));
    let l = Var::new("l", list(a.clone()));
    define(builder, "foldr", &["A", "B"], &[&f, &acc, &l], b.clone(), |builder, foldr| {
        on_list(
            builder,
            &l,
            |_| Ok((&acc).into()),
            |builder, h, t| {
                let rest = [(&f).into(), (&acc).into(), t.into()];
                let rest = emit(builder, call(Callee::Global(foldr.clone()), &rest))?;
                emit(builder, call(Callee::Var(f.clone()), &[h.into(), rest]))
            },
        )
    })
}

/// `concat(l, m) = match l { Nil => m, Cons(h, t) => Cons(h, concat(t, m)) }`
fn add_concat(builder: &mut BlockBuilder) -> Result<GlobalVar, IrError> {
    let a = param("A");
    let (l, m) = (Var::new("l", list(a.clone())), Var::new("m", list(a.clone())));
    define(builder, "concat", &["A"], &[&l, &m], list(a.clone()), |builder, concat| {
        on_list(
            builder,
            &l,
            |_| Ok((&m).into()),
            |builder, h, t| {
                let tail = emit(builder, call(Callee::Global(concat.clone()), &[t.into(), (&m).into()]))?;
                emit(builder, cons(h.into(), tail, a.clone()))
            },
        )
    })
}

/// `rev(l) = foldl(|acc, x| Cons(x, acc), Nil, l)`
fn add_rev(builder: &mut BlockBuilder, foldl: &GlobalVar) -> Result<GlobalVar, IrError> {
    let a = param("A");
    let l = Var::new("l", list(a.clone()));
    define(builder, "rev", &["A"], &[&l], list(a.clone()), |builder, _| {
        let (acc, x) = (Var::new("acc", list(a.clone())), Var::new("x", a.clone()));
        let params = [acc.clone(), x.clone()];
        let push = builder.emit_function(
            "push",
            &params,
            list(a.clone()),
            |builder, _| emit(builder, cons((&x).into(), (&acc).into(), a.clone())),
            &Span::none(),
        )?;
        let nil = emit(builder, nil(a.clone()))?;
        emit(builder, call(Callee::Global(foldl.clone()), &[push.into(), nil, (&l).into()]))
    })
}

/// `filter(f, l) = match l { Nil => Nil, Cons(h, t) => if f(h) { Cons(h, filter(f, t)) } else { filter(f, t) } }`
fn add_filter(builder: &mut BlockBuilder) -> Result<GlobalVar, IrError> {
    let a = param("A");
    let keep = Type::tensor(vec![], tvm_runtime::DataType::BOOL);
    let (f, l) = (Var::new("f", func(std::slice::from_ref(&a), keep)), Var::new("l", list(a.clone())));
    define(builder, "filter", &["A"], &[&f, &l], list(a.clone()), |builder, filter| {
        on_list(
            builder,
            &l,
            |builder| emit(builder, nil(a.clone())),
            |builder, h, t| {
                let cond = emit(builder, call(Callee::Var(f.clone()), &[h.into()]))?;
                let rest = || call(Callee::Global(filter.clone()), &[(&f).into(), t.into()]);
                let kept = builder.emit_if(
                    "kept",
                    cond,
                    |builder| {
                        let tail = emit(builder, rest())?;
                        emit(builder, cons(h.into(), tail, a.clone()))
                    },
                    |builder| emit(builder, rest()),
                    &Span::none(),
                )?;
                Ok(kept.into())
            },
        )
    })
}

/// `tmap(f, t) = match t { Rose(v, children) => Rose(f(v), map(|c| tmap(f, c), children)) }`
fn add_tmap(builder: &mut BlockBuilder, map: &GlobalVar) -> Result<GlobalVar, IrError> {
    let (a, b) = (param("A"), param("B"));
    let (f, t) = (Var::new("f", func(std::slice::from_ref(&a), b.clone())), Var::new("t", tree(a.clone())));
    define(builder, "tmap", &["A", "B"], &[&f, &t], tree(b.clone()), |builder, tmap| {
        let (v, children) = (Var::new("v", a.clone()), Var::new("children", list(tree(a.clone()))));
        let body = builder.scope(|builder| {
            let root = emit(builder, call(Callee::Var(f.clone()), &[(&v).into()]))?;
            let c = Var::new("c", tree(a.clone()));
            let recurse = builder.emit_function(
                "recurse",
                std::slice::from_ref(&c),
                tree(b.clone()),
                |builder, _| emit(builder, call(Callee::Global(tmap.clone()), &[(&f).into(), (&c).into()])),
                &Span::none(),
            )?;
            let children = [recurse.into(), (&children).into()];
            let children = emit(builder, call(Callee::Global(map.clone()), &children))?;
            emit(builder, constructor("Tree", "Rose", 0, &[root, children], tree(b.clone())))
        })?;
        let fields = Arc::new([Pattern::Var(v), Pattern::Var(children)]);
        let rose = Constructor { ty: "Tree".into(), name: "Rose".into(), tag: 0 };
        emit_match(builder, &t, vec![Clause { pattern: Pattern::Constructor(rose, fields), body }])
    })
}

/// The empty list of `elem`.
fn nil(elem: Type) -> Expr {
    constructor("List", "Nil", 0, &[], list(elem))
}

/// `Cons(head, tail)` of a list of `elem`.
fn cons(head: Arg, tail: Arg, elem: Type) -> Expr {
    constructor("List", "Cons", 1, &[head, tail], list(elem))
}

fn call(callee: Callee, args: &[Arg]) -> Expr {
    Call { callee, args: args.into(), attrs: Attrs::new(), ret: None, span: Span::none() }.into()
}

fn constructor(ty: &str, name: &str, tag: usize, args: &[Arg], ret: Type) -> Expr {
    let callee = Callee::Constructor(Constructor { ty: ty.into(), name: name.into(), tag });
    Call { callee, args: args.into(), attrs: Attrs::new(), ret: Some(ret), span: Span::none() }.into()
}

fn emit(builder: &mut BlockBuilder, expr: Expr) -> Result<Arg, IrError> {
    Ok(builder.emit("it", expr, &Span::none())?.into())
}

fn emit_match(builder: &mut BlockBuilder, value: &Var, clauses: Vec<Clause>) -> Result<Arg, IrError> {
    emit(
        builder,
        Expr::Match(Arc::new(Match { value: value.into(), clauses: clauses.into(), span: Span::none() })),
    )
}

/// `match l { Nil => nil, Cons(h, t) => cons(h, t) }`
fn on_list(
    builder: &mut BlockBuilder,
    l: &Var,
    nil: impl FnOnce(&mut BlockBuilder) -> Result<Arg, IrError>,
    cons: impl FnOnce(&mut BlockBuilder, &Var, &Var) -> Result<Arg, IrError>,
) -> Result<Arg, IrError> {
    let Type::Adt(ty) = l.ty() else {
        return Err(IrError::new(format!("`{}` is not a list", l.name()), l.span()));
    };
    let (h, t) = (Var::new("h", ty.args[0].clone()), Var::new("t", l.ty().clone()));
    let nil_body = builder.scope(nil)?;
    let cons_body = builder.scope(|builder| cons(builder, &h, &t))?;
    let tag = |name: &str, tag| Constructor { ty: "List".into(), name: name.into(), tag };
    let nil = Pattern::Constructor(tag("Nil", 0), Arc::new([]));
    let cons = Pattern::Constructor(tag("Cons", 1), Arc::new([Pattern::Var(h), Pattern::Var(t)]));
    let clauses = vec![Clause { pattern: nil, body: nil_body }, Clause { pattern: cons, body: cons_body }];
    emit_match(builder, l, clauses)
}

/// Adds a private function that may call itself: its signature is known before its body.
fn define(
    builder: &mut BlockBuilder,
    name: &str,
    type_params: &[&str],
    params: &[&Var],
    ret: Type,
    body: impl FnOnce(&mut BlockBuilder, &GlobalVar) -> Result<Arg, IrError>,
) -> Result<GlobalVar, IrError> {
    let mut func = Function {
        name: name.into(),
        type_params: type_params.iter().map(|&it| TypeParam(it.into())).collect(),
        params: params.iter().map(|&it| it.clone()).collect(),
        body: Body::value(Arg::Tuple(Arc::new([]))),
        ret,
        pure: true,
        attrs: Attrs::new().with("private", true),
        span: Span::none(),
    };
    let gv = builder.module_mut().add(name, BaseFunc::Relax(Arc::new(func.clone())));
    func.body = builder.scope(|builder| body(builder, &gv))?;
    builder.module_mut().update(gv.clone(), BaseFunc::Relax(Arc::new(func)));
    Ok(gv)
}

#[cfg(test)]
mod tests {
    use tvm_runtime::{Adt, DataType, Tensor, Value};

    use super::*;
    use crate::ir::well_formed;
    use crate::relax::testing::*;
    use crate::tir::PrimExpr;

    fn elem() -> Type {
        fixed(&[])
    }

    fn scalar(value: f32) -> Value {
        Tensor::scalar(value).into()
    }

    fn items(values: impl IntoIterator<Item = Value, IntoIter: DoubleEndedIterator>) -> Value {
        let nil = Value::Adt(Adt::new(0, []));
        values.into_iter().rev().fold(nil, |tail, head| Value::Adt(Adt::new(1, [head, tail])))
    }

    fn floats(list: &Value) -> Vec<f32> {
        let (mut out, mut list) = (Vec::new(), list.clone());
        while let [head, tail] = list.as_adt().unwrap().fields() {
            out.push(elements(head)[0]);
            list = tail.clone();
        }
        out
    }

    /// The prelude with `add` and `positive`, and `main(l) = name(f, …, l)`.
    fn using(name: &str, kernel: &str, lead: &[Arg], value: Type, ret: Type) -> IRModule {
        let mut module = add_prelude(IRModule::new()).unwrap();
        let sum = add_prim(&mut module, zip("add", vec![], |a, b| a + b));
        let less = compute("positive", &[("x", vec![])], vec![], |bufs, _| bufs[0].load([]));
        let out = crate::tir::Buffer::new("out", [], DataType::BOOL);
        let zero = PrimExpr::float(0.0, DataType::F32);
        let x = less.inputs().next().unwrap().clone();
        let store = crate::tir::Stmt::store(&out, [], x.load([]).greater(zero));
        let params = [crate::tir::Param::In(x), crate::tir::Param::Out(out)];
        let positive = add_prim(&mut module, crate::tir::PrimFunc::new("positive", params, store));
        let callee = module.global_var(name).unwrap().clone();
        let mut builder = BlockBuilder::new(module);
        let l = Var::new("l", value);
        let (x, y) = (Var::new("x", elem()), Var::new("y", elem()));
        let none = Span::none();
        let params: &[Var] = if kernel == "add" { &[x.clone(), y.clone()] } else { std::slice::from_ref(&x) };
        builder
            .add_function("main", std::slice::from_ref(&l), |builder| {
                let mut args = Vec::new();
                if !kernel.is_empty() {
                    let bool_ty = Type::tensor(vec![], DataType::BOOL);
                    let ty = if kernel == "positive" { bool_ty } else { elem() };
                    let inputs: Vec<Arg> = match kernel {
                        "double" => vec![(&x).into(), (&x).into()],
                        _ => params.iter().map(Arg::from).collect(),
                    };
                    let gv = if kernel == "positive" { &positive } else { &sum };
                    let body = call_tir(gv, &inputs, ty.clone());
                    let f =
                        builder.emit_function("f", params, ty, |builder, _| emit(builder, body), &none)?;
                    args.push(f.into());
                }
                args.extend(lead.iter().cloned());
                args.push((&l).into());
                emit(builder, super::call(Callee::Global(callee), &args))
            })
            .unwrap();
        let module = builder.into_module();
        let Some(BaseFunc::Relax(main)) = module.lookup("main") else { panic!("no main") };
        crate::ir::structural_equal(&main.ret, &ret).unwrap_or_else(|err| panic!("{name}: {err}"));
        module
    }

    #[test]
    fn the_prelude_is_well_formed() {
        let module = add_prelude(IRModule::new()).unwrap();
        well_formed(&module).unwrap_or_else(|err| panic!("{err}"));
    }

    #[test]
    fn functions_over_lists() {
        let zero = Arg::Const(Tensor::scalar(0f32));
        let input = || items([1.0, -2.0, 3.0].map(scalar));
        let l = || list(elem());
        type Case<'a> = (&'a str, &'a str, &'a [Arg], Type, &'a [f32]);
        let cases: [Case<'_>; 5] = [
            ("map", "double", &[], l(), &[2.0, -4.0, 6.0]),
            ("foldl", "add", std::slice::from_ref(&zero), elem(), &[2.0]),
            ("foldr", "add", std::slice::from_ref(&zero), elem(), &[2.0]),
            ("rev", "", &[], l(), &[3.0, -2.0, 1.0]),
            ("filter", "positive", &[], l(), &[1.0, 3.0]),
        ];
        for (name, kernel, lead, ret, want) in cases {
            let is_list = matches!(ret, Type::Adt(_));
            let module = using(name, kernel, lead, l(), ret);
            let got = run(&module, "main", &[input()]).unwrap();
            assert_eq!(if is_list { floats(&got) } else { elements(&got) }, want, "{name}");
        }
    }

    #[test]
    fn functions_over_trees() {
        let rose =
            |value: f32, children: Vec<Value>| Value::Adt(Adt::new(0, [scalar(value), items(children)]));
        let input = rose(1.0, vec![rose(2.0, vec![]), rose(3.0, vec![rose(4.0, vec![])])]);
        let module = using("tmap", "double", &[], tree(elem()), tree(elem()));
        let got = run(&module, "main", &[input]).unwrap();
        fn flat(tree: &Value, out: &mut Vec<f32>) {
            let fields = tree.as_adt().unwrap().fields();
            out.extend(elements(&fields[0]));
            let mut children = fields[1].clone();
            while let [head, tail] = children.as_adt().unwrap().fields() {
                flat(head, out);
                children = tail.clone();
            }
        }
        let mut values = Vec::new();
        flat(&got, &mut values);
        assert_eq!(values, [2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    fn long_lists() {
        let module = using("foldl", "add", &[Arg::Const(Tensor::scalar(0f32))], list(elem()), elem());
        let vm = vm(&module);
        let got = vm.invoke("main", &[items((0..10_000).map(|_| scalar(1.0)))]).unwrap();
        assert_eq!(elements(&got), [10_000.0]);
    }
}
