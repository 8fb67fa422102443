//! The corpus of modules: graph functions of every kind, built without the surface syntax.

use std::sync::Arc;

use tvm::ir::{
    AdtType, Attrs, BaseFunc, ConstructorDef, FuncType, GlobalVar, IRModule, IrError, Op, ShapeType, Span,
    TensorShape, TensorType, Type, TypeDef, Var,
};
use tvm::relax::{Arg, BlockBuilder, Call, Callee, Clause, Constructor, Expr, Function, Match, Pattern};
use tvm::runtime::{DataType, DimBound, Tensor};
use tvm::tir::{BinaryOp, PrimExpr, binary};

const F: DataType = DataType::F32;

/// Builds one module.
type Make = fn() -> Result<IRModule, IrError>;

/// The modules with their names.
pub(crate) fn modules() -> Vec<(&'static str, IRModule)> {
    let made: Vec<(&'static str, Make)> = vec![
        ("operators", operators),
        ("arguments", arguments),
        ("names", names),
        ("casts", casts),
        ("dataflow_blocks", dataflow),
        ("control", control),
        ("functions", functions),
        ("matches", matches),
        ("cells", cells),
        ("calls", calls),
        ("constants", constants),
        ("prelude", || tvm::relay::add_prelude(IRModule::new())),
        ("bounds", bounds),
        ("bounds_fused", || Ok(super::digits::fuse(bounds()?))),
        ("digits", || Ok(super::digits::imported())),
        ("digits_legalized", || Ok(super::digits::legalized())),
        ("digits_fused", || Ok(super::digits::fused())),
    ];
    let made = made.into_iter().map(|(name, make)| {
        let module = make().unwrap_or_else(|err| panic!("{name}: {err}"));
        tvm::ir::well_formed(&module).unwrap_or_else(|err| panic!("{name}: {err}"));
        (name, module)
    });
    made.collect()
}

fn tensor(shape: &[PrimExpr]) -> Type {
    Type::tensor(shape.to_vec(), F)
}

fn fixed(shape: &[i64]) -> Type {
    Type::Tensor(TensorType::fixed(shape, F))
}

fn func_type(params: &[Type], ret: Type, pure: bool) -> Type {
    Type::Func(Arc::new(FuncType { type_params: [].into(), params: params.into(), ret, pure }))
}

fn call(callee: Callee, args: &[Arg], ret: Option<Type>) -> Expr {
    Call { callee, args: args.into(), attrs: Attrs::new(), ret, span: Span::none() }.into()
}

fn emit(builder: &mut BlockBuilder, name: &str, expr: Expr) -> Result<Var, IrError> {
    builder.emit(name, expr, &Span::none())
}

fn op(builder: &mut BlockBuilder, var: &str, op: &str, args: &[Arg], attrs: Attrs) -> Result<Var, IrError> {
    builder.emit_op(var, Op::get(op)?, args, attrs, &Span::none())
}

fn unary(builder: &mut BlockBuilder, name: &str, x: &Var) -> Result<Var, IrError> {
    op(builder, "lv", name, &[x.into()], Attrs::new())
}

/// Replaces the function of `gv` by a modified one.
fn change(builder: &mut BlockBuilder, gv: &GlobalVar, f: impl FnOnce(&mut Function)) {
    let Some(func) = builder.module().relax_func(gv).cloned() else { return };
    let mut func = (*func).clone();
    f(&mut func);
    builder.module_mut().update(gv.clone(), BaseFunc::Relax(func.into()));
}

/// One function per call of the kernel corpus: operators with attributes of every kind.
fn operators() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    for (op, vars, attrs) in super::corpus::calls() {
        let args: Vec<Arg> = vars.iter().map(Arg::from).collect();
        let name = format!("op_{}", op.name.replace('.', "_"));
        builder.add_function(&name, &vars, |builder| {
            let args: Vec<Arg> = if op.name == "concat" { vec![Arg::Tuple(args.into())] } else { args };
            Ok(builder.emit_op("lv", op, args, attrs, &Span::none())?.into())
        })?;
    }
    Ok(builder.into_module())
}

/// Arguments that are not variables: scalars, shapes, dimensions and expressions of dimensions.
fn arguments() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let [n, m] = ["n", "m"].map(Var::index);
    let [ne, me] = [&n, &m].map(PrimExpr::from);
    let (x, s) = (Var::new("x", tensor(&[ne.clone(), me.clone()])), Var::prim("s", F));
    let prim = |value: PrimExpr| Arg::Prim(value);
    builder.add_function("dims", &[x.clone(), s.clone(), Var::prim("i", DataType::I32)], |builder| {
        let none = Attrs::new;
        let shape = |values: &[PrimExpr]| Arg::Shape(values.into());
        let flat = op(builder, "flat", "reshape", &[(&x).into(), shape(&[ne.clone() * &me])], none())?;
        let back = op(builder, "back", "reshape", &[flat.into(), shape(&[ne.clone(), me.clone()])], none())?;
        let zero = PrimExpr::index(0);
        let (begin, end) = (shape(&[zero.clone(), zero]), shape(&[ne.clone() - 1i64, me.clone().min(4i64)]));
        let strides = shape(&[PrimExpr::index(1), PrimExpr::index(2)]);
        op(builder, "s", "strided_slice", &[(&back).into(), begin, end, strides], none())?;
        let limits = [prim(PrimExpr::float(-0.5, F)), prim(PrimExpr::float(0.1, F))];
        op(builder, "c", "clip", &[[(&back).into()].as_slice(), &limits].concat(), none())?;
        op(builder, "c", "clip", &[(&back).into(), prim((&s).into()), (&s).into()], none())?;
        let (step, last) = (prim(PrimExpr::index(2)), prim(ne.clone() * 3i64 + 1i64));
        op(
            builder,
            "r",
            "arange",
            &[prim(PrimExpr::index(0)), last, step],
            none().with("dtype", DataType::I32),
        )?;
        let fill: Arg = Tensor::scalar(2.5f32).into();
        op(builder, "f", "full", &[shape(std::slice::from_ref(&ne)), fill], none().with("dtype", F))?;
        emit(builder, "sh", Expr::Arg(shape(&[ne.clone(), PrimExpr::index(4)])))?;
        emit(builder, "empty", Expr::Arg(shape(&[])))?;
        emit(builder, "unit", Expr::Arg(Arg::Tuple([].into())))?;
        let one: Arg = Arg::Tuple([Arg::from(&back)].into());
        let one = emit(builder, "one", Expr::Arg(one))?;
        emit(builder, "field", Expr::TupleGetItem(one.into(), 0))?;
        emit(builder, "other", Expr::TupleGetItem(Arg::Tuple([(&back).into(), (&s).into()].into()), 1))?;
        emit(builder, "alias", Expr::Arg((&back).into()))?;
        emit(builder, "text", Expr::Arg(Arg::Str("a \"quoted\"\n text".into())))?;
        emit(builder, "dtype", Expr::Arg(Arg::DType(DataType::BF16)))?;
        Ok(back.into())
    })?;
    let i = Var::prim("i", DataType::I32);
    let params = [x.renew(), Var::prim("on", DataType::BOOL), i.clone()];
    builder.add_function("scalars", &params, |builder| {
        let (ie, on): (PrimExpr, PrimExpr) = ((&i).into(), (&params[1]).into());
        let int = |value| PrimExpr::int(value, DataType::I32);
        let values = [
            PrimExpr::float(1.5, DataType::F64),
            PrimExpr::float(1.5, DataType::F16),
            PrimExpr::float(f64::NEG_INFINITY, F),
            PrimExpr::float(f64::NAN, F),
            PrimExpr::index(i64::MIN),
            PrimExpr::int(-1, DataType::U64),
            PrimExpr::int(-128, DataType::I8),
            PrimExpr::bool(true),
            (ie.clone() - 2i64) * 3i64 + (ie.clone() - (ie.clone() + 1i64)),
            binary(BinaryOp::Div, ie.clone(), int(3)) + binary(BinaryOp::Mod, ie.clone(), int(-3)),
            ie.clone().floordiv(2).floormod(5) * ie.clone().max(int(7)),
            binary(BinaryOp::BitXor, ie.clone(), int(3)) + binary(BinaryOp::Shl, ie.clone(), int(1)),
            ie.clone().cast(DataType::I64) + &ne,
            ie.clone().cast(F).less(PrimExpr::float(0.5, F)).and(!on.clone()),
            on.clone().or(ie.clone().not_equal(int(1))).equal(on.clone()),
            on.select(ie.clone(), int(4)),
        ];
        for value in values {
            emit(builder, "p", Expr::Arg(Arg::Prim(value)))?;
        }
        Ok(params[0].clone().into())
    })?;
    Ok(builder.into_module())
}

/// Variable names that have another meaning in Rust or in the surface syntax.
const HINTS: &[&str] = &["type", "f32", "dataflow", "constant", "call_tir", "_", "é", "x y", "N", "main_0"];

/// Functions with such names.
fn names() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let mut last: Option<GlobalVar> = None;
    for name in ["main.0", "relu", "match", "self", "add_", "add", "a.b", "a_b", "", "Upper", "0"] {
        let n = Var::index("fn");
        let params =
            ["relu", "__d", "lv"].map(|name| Var::new(name, tensor(&[(&n).into(), PrimExpr::index(3)])));
        let previous = last.clone();
        last = Some(builder.add_function(name, &params, |builder| {
            let [a, b, c] = &params;
            let mut x = unary(builder, "nn.relu", a)?;
            let hints: &[&str] = if previous.is_some() { &["type"] } else { HINTS };
            for name in hints.iter().copied() {
                x = op(builder, name, "add", &[(&x).into(), b.into()], Attrs::new())?;
                x = op(builder, name, "multiply", &[x.into(), c.into()], Attrs::new())?;
            }
            match previous {
                None => Ok(x.into()),
                Some(gv) => {
                    let args = [(&x).into(), a.into(), (&x).into()];
                    Ok(emit(builder, "graph", call(Callee::Global(gv), &args, None))?.into())
                }
            }
        })?);
    }
    builder.module_mut().attrs.set("a.b", "text");
    builder.module_mut().attrs.set("type", vec![1i64, -2]);
    Ok(builder.into_module())
}

/// Types with unknown parts, and casts to more specific types.
fn casts() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let unknown = |dtype| Type::Tensor(TensorType::unknown(dtype));
    let x = Var::new("x", unknown(Some(F)));
    let y = Var::new("y", Type::Tensor(TensorType::ranked(2, None)));
    let [n, k] = ["n", "k"].map(Var::index);
    let z = Var::new(
        "z",
        Type::Tensor(TensorType {
            shape: TensorShape::Known([(&n).into()].into()),
            dtype: None,
            vdevice: None,
        }),
    );
    // The dimension is first used inside an expression.
    let w = Var::new("w", tensor(&[PrimExpr::from(&n) * 2i64, (&n).into()]));
    let shapes = [
        ShapeType { values: None, ndim: None },
        ShapeType { values: None, ndim: Some(2) },
        ShapeType { values: Some([].into()), ndim: Some(0) },
        ShapeType { values: Some([(&n).into(), PrimExpr::index(4)].into()), ndim: Some(2) },
    ]
    .map(|ty| Var::new("s", Type::Shape(ty)));
    let o = Var::new("o", Type::Object);
    let params = [&[w, x.clone(), y.clone(), z, o.clone()], &shapes[..]].concat();
    let gv = builder.add_function("casts", &params, |builder| {
        let span = Span::none();
        let (ke, ne) = (PrimExpr::from(&k), PrimExpr::from(&n));
        let a = builder.emit_match_cast("a", (&x).into(), tensor(&[ke.clone(), PrimExpr::index(3)]), &span);
        let b = unary(builder, "nn.relu", &a)?;
        let l = Var::index("l");
        let pair = Type::Tuple([tensor(&[(&l).into(), ke + &ne]), Type::Object].into());
        builder.emit_match_cast("p", (&o).into(), pair, &span);
        let f = func_type(&[fixed(&[2])], fixed(&[3]), false);
        builder.emit_match_cast("f", (&o).into(), f, &span);
        builder.emit_match_cast("g", (&o).into(), func_type(&[], Type::unit(), true), &span);
        builder.emit_match_cast(
            "s",
            (&o).into(),
            Type::Shape(ShapeType { values: None, ndim: Some(3) }),
            &span,
        );
        builder.emit_match_cast("i", (&o).into(), Type::Prim(DataType::I32), &span);
        emit(builder, "sh", call(Callee::Op(Op::get("shape_of")?), &[(&y).into()], None))?;
        // A variable whose type is less specific than that of its value.
        let weak = Var::new("weak", unknown(Some(F)));
        let value = call(Callee::Op(Op::get("nn.relu")?), &[(&b).into()], None);
        builder.push(tvm::relax::Binding::new(weak.clone(), value));
        Ok(weak.into())
    })?;
    // Casts are checked at run time, so the function is not pure.
    change(&mut builder, &gv, |func| func.pure = false);
    Ok(builder.into_module())
}

fn dataflow() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let n = Var::index("n");
    let (x, on) = (Var::new("x", tensor(&[(&n).into()])), Var::new("on", Type::tensor([], DataType::BOOL)));
    builder.add_function("main", &[x.clone(), on.clone()], |builder| {
        let before = unary(builder, "exp", &x)?;
        builder.end_block(false);
        let a = unary(builder, "nn.relu", &before)?;
        let b = unary(builder, "tanh", &a)?;
        let c = unary(builder, "sqrt", &b)?;
        builder.end_block(true);
        // No value of this block is used outside.
        unary(builder, "floor", &a)?;
        builder.end_block(true);
        // A local function in a block that remains a dataflow block.
        let p = Var::new("p", x.ty().clone());
        let f = builder.emit_function(
            "f",
            std::slice::from_ref(&p),
            x.ty().clone(),
            |builder, _| Ok(unary(builder, "negative", &p)?.into()),
            &Span::none(),
        )?;
        let d = emit(builder, "d", call(Callee::Var(f), &[(&c).into()], None))?;
        builder.end_block(true);
        let branch = builder.emit_if(
            "branch",
            (&on).into(),
            |builder| {
                let e = unary(builder, "exp", &a)?;
                builder.end_block(true);
                Ok(e.into())
            },
            |_| Ok((&d).into()),
            &Span::none(),
        )?;
        let sum = op(builder, "sum", "add", &[(&branch).into(), (&d).into()], Attrs::new())?;
        builder.end_block(false);
        // A cast in a block: its dimension is visible after the block.
        let k = Var::index("k");
        let cast = builder.emit_match_cast("cast", (&sum).into(), tensor(&[(&k).into()]), &Span::none());
        unary(builder, "exp", &cast)?;
        builder.end_block(true);
        emit(builder, "k", Expr::Arg(Arg::Shape([PrimExpr::from(&k) * 2i64].into())))?;
        Ok(Arg::Tuple([sum.into(), (&c).into()].into()))
    })?;
    Ok(builder.into_module())
}

/// Nested branches, and branches with scalar conditions.
fn control() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let n = Var::index("n");
    let x = Var::new("x", tensor(&[(&n).into()]));
    let on = Var::prim("on", DataType::BOOL);
    builder.add_function("main", &[x.clone(), on.clone()], |builder| {
        let cond = Arg::Prim(PrimExpr::from(&n).less(9));
        let y = unary(builder, "exp", &x)?;
        let outer = builder.emit_if(
            "outer",
            cond,
            |builder| {
                let inner = builder.emit_if(
                    "inner",
                    (&on).into(),
                    |_| Ok((&y).into()),
                    |builder| Ok(unary(builder, "nn.relu", &y)?.into()),
                    &Span::none(),
                )?;
                Ok(Arg::Tuple([inner.into(), Tensor::scalar(1i64).into()].into()))
            },
            |_| Ok(Arg::Tuple([(&x).into(), Tensor::scalar(2i64).into()].into())),
            &Span::none(),
        )?;
        let first = emit(builder, "first", Expr::TupleGetItem(outer.into(), 0))?;
        Ok(op(builder, "less", "less", &[first.into(), (&x).into()], Attrs::new())?.into())
    })?;
    Ok(builder.into_module())
}

/// Local functions, recursion, functions as values, attributes, effects.
/// Bounded dimensions and scalars, also of a local function.
fn bounds() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let bound = |min, max, modulus| DimBound::new(min, max, modulus, 0).ok();
    let (n, m) = (Var::index("n").within(bound(4, 64, 4)), Var::index("m").within(bound(1, i64::MAX, 1)));
    let k = Var::index("k").within(bound(3, 3, 1));
    let [ne, me, ke] = [&n, &m, &k].map(PrimExpr::from);
    let (x, y) = (Var::new("x", tensor(&[ne, me, ke])), Var::new("y", tensor(&[(&k).into()])));
    builder.add_function("bounded", &[y, x.clone(), k.clone()], |builder| {
        let e = unary(builder, "exp", &x)?;
        let i = Var::index("i").within(bound(2, 8, 1));
        let p = Var::new("p", tensor(&[(&i).into()]));
        builder.emit_function(
            "local",
            std::slice::from_ref(&p),
            p.ty().clone(),
            |_, _| Ok((&p).into()),
            &Span::none(),
        )?;
        Ok(unary(builder, "tanh", &e)?.into())
    })?;
    Ok(builder.into_module())
}

fn functions() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let (x, n) = (Var::new("x", fixed(&[4])), Var::index("n"));
    let span = Span::none();
    let y = x.renew();
    let step = builder
        .add_function("step", std::slice::from_ref(&y), |builder| Ok(unary(builder, "exp", &y)?.into()))?;
    change(&mut builder, &step, |func| {
        func.attrs = Attrs::new()
            .with("global_symbol", "step")
            .with("relax.force_pure", true)
            .with("list", vec![1i64, -2, i64::MIN])
            .with("alpha", f64::NAN)
            .with("beta", -1e-9)
            .with("dtype", DataType::F16);
    });
    let f = Var::new("f", func_type(&[fixed(&[4])], fixed(&[4]), true));
    let twice = builder.add_function("twice", &[f.clone(), x.renew()], |builder| {
        let y = emit(builder, "y", call(Callee::Var(f.clone()), &[Tensor::scalar(0.0f32).into()], None));
        assert!(y.is_err(), "arguments are checked");
        let x = Tensor::from_slice(&[1.0f32; 4], &[4]).map_err(|err| IrError::new(err.to_string(), &span))?;
        let y = emit(builder, "y", call(Callee::Var(f.clone()), &[x.into()], None))?;
        Ok(emit(builder, "z", call(Callee::Var(f.clone()), &[y.into()], None))?.into())
    })?;
    let main = builder.add_function("main", std::slice::from_ref(&x), |builder| {
        let p = Var::new("p", tensor(&[(&n).into()]));
        let captures = builder.emit_function(
            "captures",
            std::slice::from_ref(&p),
            tensor(&[(&n).into()]),
            |builder, own| {
                let q = emit(builder, "q", call(Callee::Var(own.clone()), &[(&p).into()], None))?;
                emit(builder, "h", Expr::Arg((&x).into()))?;
                Ok(q.into())
            },
            &span,
        )?;
        emit(builder, "r", call(Callee::Var(captures), &[(&x).into()], None))?;
        // A parameter with the name of its function.
        let same = Var::new("same", fixed(&[4]));
        let body = builder.scope(|builder| Ok(unary(builder, "tanh", &same)?.into()))?;
        let local = Function {
            name: "same".into(),
            type_params: [].into(),
            params: [same].into(),
            body,
            ret: fixed(&[4]),
            pure: false,
            attrs: Attrs::new().with("note", "impure"),
            span: span.clone(),
        };
        let var = Var::new("same", Type::Func(local.ty().into()));
        builder.push(tvm::relax::Binding::new(var.clone(), Expr::Function(local.into())));
        emit(builder, "effect", call(Callee::Var(var), &[(&x).into()], None))?;
        let args = [Arg::Global(step.clone()), (&x).into()];
        emit(builder, "value", Expr::Arg(Arg::Global(step.clone())))?;
        Ok(emit(builder, "out", call(Callee::Global(twice), &args, None))?.into())
    })?;
    change(&mut builder, &main, |func| func.pure = false);
    Ok(builder.into_module())
}

fn adt(name: &str, args: &[Type]) -> Type {
    Type::Adt(AdtType { name: name.into(), args: args.into() })
}

fn def(name: &str, constructors: &[(&str, &[Type])]) -> TypeDef {
    let constructor =
        |(name, fields): &(&str, &[Type])| ConstructorDef { name: (*name).into(), fields: (*fields).into() };
    TypeDef {
        name: name.into(),
        params: [].into(),
        constructors: constructors.iter().map(constructor).collect(),
    }
}

fn constructor(ty: &str, name: &str, tag: usize) -> Constructor {
    Constructor { ty: ty.into(), name: name.into(), tag }
}

/// Data types, also recursive ones; nested patterns, wildcards, tuples.
fn matches() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let (list, item) = (adt("List", &[]), fixed(&[4]));
    let pair = Type::Tuple([adt("Maybe", &[]), item.clone()].into());
    builder
        .module_mut()
        .add_type(Arc::new(def("Maybe", &[("Nothing", &[]), ("Just", std::slice::from_ref(&list))])));
    builder.module_mut().add_type(Arc::new(def("List", &[("Nil", &[]), ("Cons", &[pair, list.clone()])])));
    let make = |builder: &mut BlockBuilder, it: Constructor, args: &[Arg]| {
        emit(builder, "it", call(Callee::Constructor(it), args, None))
    };
    let x = Var::new("x", item.clone());
    builder.add_function("make", std::slice::from_ref(&x), |builder| {
        let nil = make(builder, constructor("List", "Nil", 0), &[])?;
        let just = make(builder, constructor("Maybe", "Just", 1), &[(&nil).into()])?;
        let pair = Arg::Tuple([just.into(), (&x).into()].into());
        Ok(make(builder, constructor("List", "Cons", 1), &[pair, nil.into()])?.into())
    })?;
    let l = Var::new("l", list.clone());
    builder.add_function("first", &[l.clone(), x.renew()], |builder| {
        let default = Tensor::from_slice(&[0.0f32, -0.0, 1.0, 2.0], &[4])
            .map_err(|err| IrError::new(err.to_string(), &Span::none()))?;
        let [h, t] = [("h", &item), ("t", &list)].map(|(name, ty)| Var::new(name, ty.clone()));
        let cons = |fields: [Pattern; 2]| Pattern::Constructor(constructor("List", "Cons", 1), fields.into());
        let just = Pattern::Constructor(
            constructor("Maybe", "Just", 1),
            [cons([Pattern::Wildcard, Pattern::Var(t.clone())])].into(),
        );
        let nested = cons([Pattern::Tuple([just, Pattern::Var(h.clone())].into()), Pattern::Wildcard]);
        let body = builder.scope(|builder| {
            emit(builder, "rest", Expr::Arg((&t).into()))?;
            Ok(unary(builder, "exp", &h)?.into())
        })?;
        let rest = builder.scope(|_| Ok(default.into()))?;
        let all = Var::new("all", list.clone());
        let clauses = [Clause { pattern: nested, body }, Clause { pattern: Pattern::Var(all), body: rest }];
        let it = Match { value: (&l).into(), clauses: clauses.into(), span: Span::none() };
        Ok(emit(builder, "m", Expr::Match(it.into()))?.into())
    })?;
    Ok(builder.into_module())
}

fn cells() -> Result<IRModule, IrError> {
    let mut builder = BlockBuilder::default();
    let cell = Var::new("cell", Type::Ref(Arc::new(fixed(&[2]))));
    let main = builder.add_function("main", std::slice::from_ref(&cell), |builder| {
        let old = emit(builder, "old", Expr::RefRead((&cell).into()))?;
        let other = emit(builder, "other", Expr::RefCreate((&old).into()))?;
        emit(builder, "_", Expr::RefWrite((&other).into(), (&old).into()))?;
        Ok(other.into())
    })?;
    change(&mut builder, &main, |func| func.pure = false);
    Ok(builder.into_module())
}

/// Tensor programs, packed functions, mutually recursive functions.
fn calls() -> Result<IRModule, IrError> {
    let mut module = IRModule::new();
    let kernel = |module: &mut IRModule, func: Result<tvm::tir::PrimFunc, IrError>, name: &str| {
        func.map(|func| module.add(name, BaseFunc::Prim(func.into())))
    };
    let axpy = kernel(&mut module, super::axpy::prim_func(), "tanh")?;
    let split = kernel(&mut module, super::split::prim_func(), "two.outputs")?;
    let mut builder = BlockBuilder::new(module);
    let [n, m] = ["n", "m"].map(Var::index);
    let (ne, me) = (PrimExpr::from(&n), PrimExpr::from(&m));
    let x = Var::new("x", tensor(std::slice::from_ref(&ne)));
    let a = Var::prim("a", F);
    let main = builder.add_function(
        "main",
        &[x.clone(), a.clone(), Var::new("w", tensor(std::slice::from_ref(&me)))],
        |builder| {
            let (xa, ty) = (Arg::from(&x), x.ty().clone());
            // Inputs come first, then scalars, whatever their order in the program.
            let values = [Arg::from(&a), Arg::Prim(PrimExpr::float(0.5, F)), Arg::Prim((&a).into())];
            let mut y = xa.clone();
            for value in values {
                let args = [xa.clone(), y, value];
                y = emit(builder, "y", call(Callee::Tir(axpy.clone()), &args, Some(ty.clone())))?.into();
            }
            let two = Type::Tuple([ty.clone(), ty.clone()].into());
            emit(
                builder,
                "two",
                call(Callee::Tir(split.clone()), std::slice::from_ref(&xa), Some(two.clone())),
            )?;
            let initial = [xa.clone(), y.clone(), xa.clone()];
            emit(builder, "two", call(Callee::TirInplace(split.clone()), &initial, Some(two)))?;
            let updated = [xa.clone(), y.clone(), Arg::from(&a), xa.clone()];
            y = emit(builder, "z", call(Callee::TirInplace(axpy.clone()), &updated, Some(ty.clone())))?
                .into();
            let ret = tensor(&[ne.clone() * 2i64, (ne.clone() + &me).floordiv(2)]);
            emit(
                builder,
                "d",
                call(Callee::DpsPacked("my.dps".into()), std::slice::from_ref(&xa), Some(ret)),
            )?;
            emit(builder, "d", call(Callee::DpsPacked("none".into()), &[], Some(ty.clone())))?;
            let nested = [Arg::Tuple([xa.clone(), y.clone()].into()), xa.clone(), Arg::Str("s".into())];
            emit(builder, "p", call(Callee::Packed("my.packed".into()), &nested, Some(Type::Object)))?;
            emit(builder, "p", call(Callee::Packed("my.packed".into()), std::slice::from_ref(&y), None))?;
            let pair = Type::Tuple([func_type(&[], Type::unit(), true), Type::Prim(F)].into());
            let shape = Arg::Shape([ne.clone()].into());
            emit(builder, "p", call(Callee::Packed("my.packed".into()), &[shape], Some(pair)))?;
            Ok(y)
        },
    )?;
    change(&mut builder, &main, |func| func.pure = false);
    Ok(builder.into_module())
}

/// Constants of every element type.
fn constants() -> Result<IRModule, IrError> {
    use tvm::prelude::{bf16, f16};
    fn tensor<T: tvm::runtime::Element>(data: &[T], shape: &[i64]) -> Arg {
        Tensor::from_slice(data, shape).unwrap_or_else(|err| panic!("{err}")).into()
    }
    macro_rules! ints {
        ($($ty:ty)*) => { [$(tensor(&[<$ty>::MIN, 0, 7, <$ty>::MAX], &[2, 2])),*] };
    }
    macro_rules! floats {
        ($($ty:ident)*) => {{
            [$(tensor(
                &[
                    $ty::NAN, $ty::from_bits($ty::NAN.to_bits() + 1), $ty::from_bits(!0), $ty::INFINITY,
                    $ty::NEG_INFINITY, $ty::from_bits(1), $ty::from_bits($ty::NAN.to_bits() / 3), $ty::MAX,
                    $ty::MIN_POSITIVE, $ty::from_bits(1 << ($ty::NAN.to_bits().count_zeros() + 1)),
                    -$ty::from_bits(0), -$ty::MAX,
                ],
                &[3, 2, 2],
            )),*]
        }};
    }
    let mut all = ints!(i8 i16 i32 i64 u8 u16 u32 u64).to_vec();
    all.extend(floats!(f32 f64 f16 bf16));
    all.push(tensor(&[true, false], &[2, 1]));
    all.push(tensor(&[0.1f32], &[]));
    all.push(tensor::<f32>(&[], &[0, 3]));
    all.push(tensor(&[0.1f64, 1e300, 1e-300, 123456789.0], &[4]));
    let many: Vec<f64> =
        (0..100).map(|i| if i == 7 { f64::from_bits(!0) } else { f64::from(i) / 3.0 }).collect();
    all.push(tensor(&many, &[4, 25]));
    all.push(tensor(&[true; 17], &[17]));
    all.push(tensor(&[0.1f32, 1e30, 1e-30, 16777216.0, -1.5], &[5]));
    let mut builder = BlockBuilder::default();
    builder.add_function("main", &[], |builder| {
        for constant in &all {
            emit(builder, "c", Expr::Arg(constant.clone()))?;
        }
        let sum = [tensor(&[1.0f32, 2.0], &[2]), tensor(&[-1.0f32], &[1])];
        Ok(Arg::Tuple([op(builder, "s", "add", &sum, Attrs::new())?.into(), all[0].clone()].into()))
    })?;
    Ok(builder.into_module())
}
