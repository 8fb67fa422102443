//! Type inference of calls, closures, branches, matches and cells, and its error messages.

use std::sync::Arc;

use tvm_core::ir::{
    AdtType, Attrs, BaseFunc, ConstructorDef, FuncType, IRModule, IrError, Op, Span, TensorType, Type,
    TypeDef, TypeParam, Var,
};
use tvm_core::relax::analysis::{infer_type, show_type};
use tvm_core::relax::{
    Arg, BlockBuilder, Body, Call, Callee, Clause, Constructor, Expr, Function, Match, Pattern,
};
use tvm_core::te;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

fn dims(dims: &[PrimExpr]) -> Type {
    Type::tensor(dims.to_vec(), DataType::F32)
}

fn fixed(shape: &[i64]) -> Type {
    Type::Tensor(TensorType::fixed(shape, DataType::F32))
}

fn var(name: &str, ty: Type) -> Var {
    Var::new(name, ty)
}

fn sym(name: &str) -> PrimExpr {
    Var::index(name).into()
}

fn call(callee: Callee, args: &[&Var], ret: Option<Type>) -> Expr {
    let args = args.iter().map(|&arg| Arg::from(arg)).collect();
    Call { callee, args, attrs: Attrs::new(), ret, span: Span::none() }.into()
}

fn shown(res: Result<Type, IrError>) -> String {
    match res {
        Ok(ty) => show_type(&ty),
        Err(err) => err.to_string(),
    }
}

/// Declares a function whose body returns its last parameter.
fn declare(module: &mut IRModule, name: &str, type_params: &[&str], params: &[Type], ret: Type) -> Callee {
    let params: Arc<[Var]> = params.iter().map(|ty| var("p", ty.clone())).collect();
    let func = Function {
        name: name.into(),
        type_params: type_params.iter().map(|&name| TypeParam(name.into())).collect(),
        body: Body::value(Arg::Var(params[params.len() - 1].clone())),
        params,
        ret,
        pure: true,
        attrs: Attrs::new(),
        span: Span::none(),
    };
    Callee::Global(module.add(name, BaseFunc::Relax(Arc::new(func))))
}

#[test]
fn calls_bind_symbolic_dimensions() {
    let mut module = IRModule::new();
    let (n, m) = (sym("n"), sym("m"));
    let pair = [dims(&[n.clone(), m.clone()]), dims(std::slice::from_ref(&m))];
    let f = declare(&mut module, "f", &[], &pair, dims(&[&n * 2i64, m.clone()]));
    let k = sym("k");
    let cases = [
        (fixed(&[3, 4]), fixed(&[4]), "Tensor<f32, 6, 4>"),
        (dims(&[&k + 1i64, k.clone()]), dims(std::slice::from_ref(&k)), "Tensor<f32, k * 2 + 2, k>"),
        (
            fixed(&[3, 4]),
            fixed(&[5]),
            "argument 1 of `f` is Tensor<f32, m>, got Tensor<f32, 5>: expected extent 4 at axis 0, got 5 (m is 4)",
        ),
        (
            fixed(&[3]),
            fixed(&[3]),
            "argument 0 of `f` is Tensor<f32, n, m>, got Tensor<f32, 3>: expected rank 2, got rank 1",
        ),
        (
            Type::Tensor(TensorType::fixed(&[3, 4], DataType::I32)),
            fixed(&[4]),
            "argument 0 of `f` is Tensor<f32, n, m>, got Tensor<i32, 3, 4>: expected element type f32, got i32",
        ),
        // What is known only at run time is checked at run time.
        (Type::Tensor(TensorType::ranked(2, None)), fixed(&[4]), "Tensor<f32, _, _>"),
        (Type::Object, Type::Object, "Tensor<f32, _, _>"),
    ];
    for (a, b, want) in cases {
        let (a, b) = (var("a", a), var("b", b));
        assert_eq!(shown(infer_type(&call(f.clone(), &[&a, &b], None), &module)), want);
    }
    let a = var("a", fixed(&[1, 1]));
    let few = infer_type(&call(f, &[&a], None), &module);
    assert_eq!(shown(few), "`f` takes 2 arguments, got 1");
}

#[test]
fn polymorphic_and_higher_order_functions() {
    let mut module = IRModule::new();
    let param = |name: &str| Type::Param(TypeParam(name.into()));
    let func = |from: Type, to: Type| {
        Type::Func(Arc::new(FuncType { type_params: [].into(), params: [from].into(), ret: to, pure: true }))
    };
    let id = declare(&mut module, "id", &["A"], &[param("A")], param("A"));
    let apply =
        declare(&mut module, "apply", &["A", "B"], &[func(param("A"), param("B")), param("A")], param("B"));
    let x = var("x", fixed(&[2, 3]));
    assert_eq!(shown(infer_type(&call(id, &[&x], None), &module)), "Tensor<f32, 2, 3>");
    let f = var("f", func(fixed(&[2, 3]), Type::Prim(DataType::I64)));
    assert_eq!(shown(infer_type(&call(apply.clone(), &[&f, &x], None), &module)), "i64");
    let other = var("g", func(Type::Prim(DataType::BOOL), Type::Prim(DataType::I64)));
    let wrong = shown(infer_type(&call(apply, &[&other, &x], None), &module));
    assert!(wrong.contains("type parameter `A` is bool and cannot be Tensor<f32, 2, 3> as well"), "{wrong}");
    let not = shown(infer_type(&call(Callee::Var(x.clone()), &[&x], None), &module));
    assert_eq!(not, "`x` is not a function, it is Tensor<f32, 2, 3>");
}

#[test]
fn tensor_programs() {
    let mut module = IRModule::new();
    let (n, s) = (Var::index("n"), Var::prim("s", DataType::F32));
    let a = te::placeholder("a", [PrimExpr::from(&n)], DataType::F32);
    let b = te::compute("b", [PrimExpr::from(&n) * 2i64], &[&a], |i| {
        a.at([i[0].clone().floordiv(2)]) * PrimExpr::from(&s)
    });
    let func = te::create_prim_func("twice", &[a], &[b]).unwrap();
    let gv = module.add("twice", BaseFunc::Prim(Arc::new(func)));
    let (x, scale) = (var("x", fixed(&[5])), Var::prim("k", DataType::F32));
    let tir = |args: &[&Var], ret| shown(infer_type(&call(Callee::Tir(gv.clone()), args, ret), &module));
    assert_eq!(tir(&[&x, &scale], None), "Tensor<f32, 10>");
    assert_eq!(tir(&[&x, &scale], Some(fixed(&[10]))), "Tensor<f32, 10>");
    assert_eq!(tir(&[&x], None), "`twice` takes 2 arguments, got 1");
    assert_eq!(
        tir(&[&x, &scale], Some(fixed(&[9]))),
        "output `b` of `twice` is Tensor<f32, n * 2>, got Tensor<f32, 9>: expected extent 10 at axis 0, got 9 (n * 2 is 10)"
    );
    let wrong = shown(infer_type(&call(Callee::Global(gv), &[&x], None), &module));
    assert_eq!(wrong, "`twice` is a tensor program\n  help: call it as `call_tir(twice, (inputs))`");
    let packed = call(Callee::DpsPacked("f".into()), &[&x], None);
    assert!(shown(infer_type(&packed, &module)).contains("must say the type of its result"));
}

#[test]
fn branches_join() {
    let mut builder = BlockBuilder::new(IRModule::new());
    let n = sym("n");
    let cond = var("c", Type::Tensor(TensorType::fixed(&[], DataType::BOOL)));
    let mut join = |cond: &Var, a: Type, b: Type| {
        let (a, b) = (Arg::Var(var("a", a)), Arg::Var(var("b", b)));
        let res = builder.emit_if("y", cond.into(), |_| Ok(a), |_| Ok(b), &Span::none());
        shown(res.map(|var| var.ty().clone()))
    };
    assert_eq!(join(&cond, dims(&[&n + 1i64]), dims(&[&n + 1i64])), "Tensor<f32, n + 1>");
    assert_eq!(join(&cond, fixed(&[2, 3]), dims(&[n.clone(), 3.into()])), "Tensor<f32, _, _>");
    assert_eq!(join(&cond, fixed(&[2]), fixed(&[2, 3])), "TensorDyn<f32>");
    assert!(join(&cond, fixed(&[2]), Type::unit()).starts_with("the arms of `if` have different types"));
    let ints = Type::Tensor(TensorType::fixed(&[2], DataType::I64));
    assert!(join(&cond, fixed(&[2]), ints).starts_with("the arms of `if` have different types"));
    let wide = var("c", Type::Tensor(TensorType::fixed(&[2], DataType::BOOL)));
    let want = "a condition is Tensor<bool> or bool, got Tensor<bool, 2>\n  help: reduce the tensor to one bool first";
    assert_eq!(join(&wide, fixed(&[]), fixed(&[])), want);
}

/// A dimension that a branch itself introduces is not known outside.
#[test]
fn dimensions_do_not_leave_their_scope() {
    let mut builder = BlockBuilder::new(IRModule::new());
    let (cond, n) = (var("c", Type::Prim(DataType::BOOL)), sym("n"));
    let x = var("x", Type::Tensor(TensorType::unknown(Some(DataType::F32))));
    let y = var("y", dims(std::slice::from_ref(&n)));
    let cast = |builder: &mut BlockBuilder, dim: PrimExpr| -> Result<Arg, IrError> {
        Ok(builder.emit_match_cast("z", (&x).into(), dims(&[dim]), &Span::none()).into())
    };
    let m = sym("m");
    let res =
        builder.emit_if("r", (&cond).into(), |b| cast(b, m.clone()), |b| cast(b, m.clone()), &Span::none());
    assert_eq!(show_type(res.unwrap().ty()), "Tensor<f32, _>");
    // `n` is known from outside, because `y` is used before the cast.
    let outer = |builder: &mut BlockBuilder| {
        builder.emit_op("t", Op::get("exp")?, [Arg::from(&y)], Attrs::new(), &Span::none())?;
        cast(builder, n.clone())
    };
    let res = builder.emit_if("r", (&cond).into(), outer, outer, &Span::none());
    assert_eq!(show_type(res.unwrap().ty()), "Tensor<f32, n>");
}

#[test]
fn closures_recursion_and_cells() {
    let mut builder = BlockBuilder::new(IRModule::new());
    let none = Span::none();
    let (n, m) = (sym("n"), sym("m"));
    let outer = var("outer", dims(std::slice::from_ref(&n)));
    let p = var("p", dims(std::slice::from_ref(&m)));
    // Returns a value of the outer dimension, whatever it is called with; calls itself.
    let body = |builder: &mut BlockBuilder, this: &Var| {
        builder.emit("again", call(Callee::Var(this.clone()), &[&p], None), &none)?;
        Ok(Arg::from(&outer))
    };
    let f = builder
        .emit_function("f", std::slice::from_ref(&p), dims(std::slice::from_ref(&n)), body, &none)
        .unwrap();
    let y = builder.emit("y", call(Callee::Var(f), &[&var("a", fixed(&[7]))], None), &none).unwrap();
    assert_eq!(show_type(y.ty()), "Tensor<f32, n>");

    let wrong =
        builder.emit_function("g", std::slice::from_ref(&p), fixed(&[2, 2]), |_, _| Ok(Arg::from(&p)), &none);
    let want = "function `g` is declared to return Tensor<f32, 2, 2>, its body gives Tensor<f32, m>: expected rank 2, got rank 1";
    assert_eq!(shown(wrong.map(|var| var.ty().clone())), want);

    let cell = builder.emit("cell", Expr::RefCreate(Arg::from(&y)), &none).unwrap();
    assert_eq!(show_type(cell.ty()), "Ref<Tensor<f32, n>>");
    let mut try_emit = |expr: Expr| shown(builder.emit("r", expr, &none).map(|var| var.ty().clone()));
    assert_eq!(try_emit(Expr::RefRead(Arg::from(&cell))), "Tensor<f32, n>");
    assert_eq!(try_emit(Expr::RefWrite(Arg::from(&cell), Arg::from(&y))), "()");
    let wrong = try_emit(Expr::RefWrite(Arg::from(&cell), Arg::Prim(1.into())));
    assert!(wrong.starts_with("cannot store i64 in a cell of Tensor<f32, n>"), "{wrong}");
    assert!(try_emit(Expr::RefRead(Arg::from(&y))).starts_with("expected a mutable cell"));
    let tuple = Arg::Tuple([Arg::from(&y), Arg::Prim(1.into())].into());
    assert_eq!(try_emit(Expr::TupleGetItem(tuple.clone(), 1)), "i64");
    assert_eq!(
        try_emit(Expr::TupleGetItem(tuple, 2)),
        "(Tensor<f32, n>, i64) has 2 fields, there is no field 2"
    );
}

/// `List<A> = Nil | Cons(A, List<A>)`.
fn lists() -> IRModule {
    let a = Type::Param(TypeParam("A".into()));
    let list = Type::Adt(AdtType { name: "List".into(), args: [a.clone()].into() });
    let constructor =
        |name: &str, fields: &[Type]| ConstructorDef { name: name.into(), fields: fields.to_vec().into() };
    let mut module = IRModule::new();
    module.add_type(Arc::new(TypeDef {
        name: "List".into(),
        params: [TypeParam("A".into())].into(),
        constructors: [constructor("Nil", &[]), constructor("Cons", &[a, list])].into(),
    }));
    module
}

fn nil() -> Constructor {
    Constructor { ty: "List".into(), name: "Nil".into(), tag: 0 }
}

fn cons() -> Constructor {
    Constructor { ty: "List".into(), name: "Cons".into(), tag: 1 }
}

#[test]
fn constructors_infer_type_arguments() {
    let mut builder = BlockBuilder::new(lists());
    let none = Span::none();
    let empty = builder.emit("empty", call(Callee::Constructor(nil()), &[], None), &none).unwrap();
    assert_eq!(show_type(empty.ty()), "List<Object>");
    let x = var("x", fixed(&[2]));
    let make = |builder: &mut BlockBuilder, head: &Var, tail: &Var| {
        builder.emit("l", call(Callee::Constructor(cons()), &[head, tail], None), &none)
    };
    let one = make(&mut builder, &x, &empty).unwrap();
    assert_eq!(show_type(one.ty()), "List<Tensor<f32, 2>>");
    let two = make(&mut builder, &var("y", fixed(&[3])), &one).unwrap();
    assert_eq!(show_type(two.ty()), "List<Tensor<f32, _>>");
    let wrong = make(&mut builder, &var("i", Type::Prim(DataType::I64)), &one);
    let text = shown(wrong.map(|var| var.ty().clone()));
    assert!(text.starts_with("field 1 of `List::Cons` is List<A>, got List<Tensor<f32, 2>>"), "{text}");
    let renamed = Constructor { name: "Con".into(), ..cons() };
    let text = shown(infer_type(&call(Callee::Constructor(renamed), &[], None), builder.module()));
    assert_eq!(text, "type `List` has no constructor `Con` of tag 1\n  help: did you mean `Cons`?");
}

#[test]
fn matches_bind_join_and_are_exhaustive() {
    let module = lists();
    let list = Type::Adt(AdtType { name: "List".into(), args: [fixed(&[2])].into() });
    let value = var("l", list.clone());
    let (h, t) = (var("h", fixed(&[2])), var("t", list));
    let clause = |pattern: Pattern, ret: Arg| Clause { pattern, body: Body::value(ret) };
    let infer = |clauses: Vec<Clause>| {
        let it = Match { value: (&value).into(), clauses: clauses.into(), span: Span::none() };
        shown(infer_type(&Expr::Match(Arc::new(it)), &module))
    };
    let any = || Pattern::Wildcard;
    let is_nil = || Pattern::Constructor(nil(), [].into());
    let is_cons = |head: Pattern, tail: Pattern| Pattern::Constructor(cons(), [head, tail].into());
    let zero = || Arg::from(var("zero", fixed(&[2])));

    let whole = vec![
        clause(is_nil(), zero()),
        clause(is_cons(Pattern::Var(h.clone()), Pattern::Var(t)), Arg::from(&h)),
    ];
    assert_eq!(infer(whole), "Tensor<f32, 2>");
    assert_eq!(infer(vec![clause(any(), zero())]), "Tensor<f32, 2>");
    let help = "\n  help: add a clause for each, or `_ => ..` for the rest";
    assert_eq!(
        infer(vec![clause(is_nil(), zero())]),
        format!("`match` does not cover `List::Cons(_, _)`{help}")
    );
    let nested = vec![clause(is_nil(), zero()), clause(is_cons(any(), is_cons(any(), any())), zero())];
    assert_eq!(infer(nested), format!("`match` does not cover `List::Cons(_, List::Nil)`{help}"));
    let wrong = var("i", Type::Prim(DataType::I64));
    let text = infer(vec![clause(is_cons(Pattern::Var(wrong), any()), zero())]);
    assert!(text.starts_with("pattern variable `i` is i64, the value is Tensor<f32, 2>"), "{text}");
    let text = infer(vec![clause(Pattern::Tuple([any()].into()), zero())]);
    assert_eq!(text, "a pattern of 1 fields does not fit List<Tensor<f32, 2>>");
    let text = infer(vec![clause(is_nil(), zero()), clause(any(), Arg::Prim(1.into()))]);
    assert!(text.starts_with("the clauses of `match` have different types"), "{text}");
}
