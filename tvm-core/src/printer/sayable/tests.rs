//! Tests: programs without source form are rejected, and print as text that does not compile.

use tvm_runtime::DataType;

use crate::ir::{Type, Var};
use crate::te;
use crate::tir::*;

const F32: DataType = DataType::F32;

fn program(params: Vec<Param>, body: Stmt) -> PrimFunc {
    PrimFunc::new("f", params, BlockRealize::opaque(Block::root(vec![], body)))
}

fn block(body: Stmt) -> Stmt {
    BlockRealize::opaque(Block::new("B", body))
}

/// A program with input `x`, output `y` and the given body.
fn of(body: impl FnOnce(&Buffer, &Buffer) -> Stmt) -> PrimFunc {
    let buffer = |name| Buffer::new(name, [PrimExpr::index(8)], F32);
    let (x, y) = (buffer("x"), buffer("y"));
    let body = body(&x, &y);
    program(vec![Param::In(x), Param::Out(y)], body)
}

/// A block that stores to `view`, which matches four elements of `y`.
fn matched(y: &Buffer, view: Buffer) -> Stmt {
    let region = [Range { min: 2.into(), extent: 4.into() }].into();
    let source = BufferRegion { buffer: y.clone(), region };
    let store = Stmt::store(&view, at(0), PrimExpr::float(1.0, F32));
    let matched = MatchBufferRegion { buffer: view, source };
    BlockRealize::opaque(Block { match_buffers: [matched].into(), ..Block::new("B", store) })
}

fn call_c<const N: usize>(symbol: &str, args: [PrimExpr; N]) -> PrimExpr {
    let (callee, span) = (PrimCallee::PureExtern(symbol.into()), crate::ir::Span::none());
    PrimExpr::Call(std::sync::Arc::new(PrimCall { callee, args: args.into(), dtype: F32, span }))
}

fn at(i: i64) -> [PrimExpr; 1] {
    [PrimExpr::index(i)]
}

#[test]
fn ordinary_programs_have_source() {
    let n = PrimExpr::from(Var::index("n"));
    let x = te::placeholder("x", [n], F32);
    let y = te::compute("y", x.shape(), &[&x], |i: &[PrimExpr]| x.at(i.to_vec()));
    let copy = te::create_prim_func("copy", &[x], &[y]).unwrap();
    for func in [copy, of(|x, y| block(Stmt::store(y, at(0), x.load(at(1)))))] {
        let source = func.source().unwrap();
        assert_eq!(source, func.to_string());
        assert!(!source.contains("compile_error"), "{source}");
    }
}

#[test]
fn what_would_be_something_else_does_not_compile() {
    let raw = |op, a, b| PrimExpr::Binary(std::sync::Arc::new(Binary { op, a, b }));
    let store = |y: &Buffer| Stmt::store(y, at(0), PrimExpr::float(1.0, F32));
    let cases = [
        ("a statement beside blocks", of(|_, y| store(y))),
        ("a statement beside blocks", of(|_, y| Stmt::seq([block(store(y)), store(y)]))),
        (
            "which is `3` when it is compiled",
            of(|x, y| {
                let index = raw(BinaryOp::Add, PrimExpr::index(1), PrimExpr::index(2));
                block(Stmt::store(y, [index], x.load(at(0))))
            }),
        ),
        (
            "when it is compiled",
            of(|x, y| {
                let i = Var::index("i");
                let index = raw(BinaryOp::Mul, PrimExpr::from(&i), PrimExpr::index(1));
                block(For::serial(i, 8, Stmt::store(y, [index], x.load(at(0)))).into())
            }),
        ),
        (
            "when it is compiled",
            of(|x, y| {
                let value = PrimExpr::Cast(std::sync::Arc::new(Cast { dtype: F32, value: x.load(at(0)) }));
                block(Stmt::store(y, at(0), value))
            }),
        ),
        (
            "the allocation of `t` among the statements",
            of(|_, y| {
                let t = Buffer::new("t", at(8), F32);
                block(Stmt::seq([AllocBuffer::new(t.clone()).into(), store(&t), store(y)]))
            }),
        ),
        (
            "an extent of `t` that is the name of a value",
            of(|_, y| {
                let n = Var::index("n");
                let t = Buffer::new("t", [PrimExpr::from(&n)], F32);
                let i = Var::index("i");
                let bind = Bind { var: n, value: PrimExpr::from(&i) + 3 }.into();
                let body = Stmt::seq([bind, AllocBuffer::new(t.clone()).into(), store(&t), store(y)]);
                block(For::serial(i, 4, body).into())
            }),
        ),
        ("a sequence of one statement", of(|_, y| block(Stmt::SeqStmt([store(y)].into())))),
        (
            "a loop outside of blocks whose bounds read memory",
            of(|x, y| {
                let i = Var::index("i");
                For::serial(i, x.load(at(0)).cast(DataType::I64), block(store(y))).into()
            }),
        ),
        (
            "the predicate of block `B`, which reads memory",
            of(|x, y| {
                let predicate = x.load(at(0)).greater(PrimExpr::float(0.0, F32));
                let block = Block::new("B", store(y)).into();
                BlockRealize { iter_values: [].into(), predicate, block }.into()
            }),
        ),
    ];
    for (what, func) in cases {
        let err = func.source().unwrap_err().to_string();
        assert!(err.contains("`f` has no source") && err.contains(what), "{what}: {err}");
        let text = func.to_string();
        assert!(text.contains("compile_error!("), "{what}: {text}");
    }
}

#[test]
fn what_has_no_words_is_refused() {
    let handle = Var::new("p", Type::Prim(DataType::HANDLE));
    let one = || PrimExpr::float(1.0, F32);
    let strided = Buffer::new("y", at(8), F32).renew(|node| node.strides = [PrimExpr::index(2)].into());
    let cases = [
        (
            "a vector",
            of(|x, y| {
                let ramp = |buffer: &Buffer| {
                    let ramp = Ramp { base: 0.into(), stride: 1.into(), lanes: 4 };
                    (buffer.clone(), [PrimExpr::Ramp(std::sync::Arc::new(ramp))])
                };
                let (x, index) = ramp(x);
                block(Stmt::store(y, index.clone(), x.load(index)))
            }),
        ),
        (
            "a call of the C function `exp`, whose name has another meaning",
            of(|_, y| block(Stmt::store(y, at(0), call_c("exp", [one()])))),
        ),
        ("a call of the C function `a.b`", of(|_, y| block(Stmt::store(y, at(0), call_c("a.b", []))))),
        (
            "a call of the C function `f`, which is called as a function of several types",
            of(|_, y| block(Stmt::store(y, at(0), call_c("f", [one()]) + call_c("f", [])))),
        ),
        (
            "a call of the C function `f`, which has a type that C functions",
            of(|_, y| block(Stmt::store(y, at(0), call_c("f", [PrimExpr::bool(true)])))),
        ),
        (
            "a call of the C function `f`, which has too many parameters",
            of(|_, y| block(Stmt::store(y, at(0), call_c("f", std::array::from_fn::<_, 9, _>(|_| one()))))),
        ),
        (
            "a failure with the status 9",
            of(|_, y| {
                let failure = Failure::new(9, -1, -1, 0.into(), 0.into());
                let condition = y.load(at(0)).equal(one());
                block(Stmt::seq([AssertStmt { condition, failure }.into(), Stmt::store(y, at(0), one())]))
            }),
        ),
        (
            "the layout of `v`, which matches a region",
            of(|_, y| {
                let view = Buffer::new("v", at(4), F32);
                matched(y, view.renew(|node| node.strides = [PrimExpr::from(Var::index("s"))].into()))
            }),
        ),
        (
            "the shape of `v`, which matches a region of another shape",
            of(|_, y| matched(y, Buffer::new("v", [PrimExpr::from(Var::index("m"))], F32))),
        ),
        (
            "the layout of parameter `y`",
            program(vec![Param::Out(strided.clone())], block(Stmt::store(&strided, at(0), one()))),
        ),
        ("a value of type handle", program(vec![Param::Scalar(handle)], Stmt::nop())),
    ];
    for (what, func) in cases {
        let err = func.source().unwrap_err().to_string();
        assert!(err.contains(what) && err.contains("help:"), "{what}: {err}");
    }
}
