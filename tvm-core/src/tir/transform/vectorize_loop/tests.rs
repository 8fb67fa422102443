//! Tests of masked vectors: what they become, that they keep results and access nothing else, and what stays without them.

use std::sync::Arc;

use expect_test::expect;
use tvm_runtime::{DataType, Tensor, Value};
use tvm_testing::Rng;

use crate::ir::{IRModule, Var};
use crate::pass::{Pass, PassContext};
use crate::pipeline::lower_tir;
use crate::tir::interp::Program;
use crate::tir::transform::{simplify, vectorize_loop};
use crate::tir::{
    AllocBuffer, Block, BlockRealize, Buffer, BufferLoad, BufferStore, For, ForKind, Intrinsic, Param,
    PrimExpr, PrimFunc, Scope, Stmt,
};

const F32: DataType = DataType::F32;

fn vectorized(extent: impl Into<PrimExpr>, body: impl FnOnce(PrimExpr) -> Stmt) -> Stmt {
    let lane = Var::index("lane");
    let body = body((&lane).into());
    For { kind: ForKind::Vectorized, ..For::serial(lane, extent, body) }.into()
}

fn choice(condition: PrimExpr, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    let dtype = a.dtype();
    PrimExpr::call(Intrinsic::IfThenElse, [condition, a, b], dtype)
}

fn context(masks: bool) -> PassContext {
    let target = format!("c -vector-bits=512 -masked-vectors={}", i32::from(masks));
    PassContext::new().target(target.parse().unwrap())
}

fn after(func: &PrimFunc, passes: &[Pass], masks: bool) -> PrimFunc {
    let module = IRModule::from_prim_func(crate::tir::transform::renew_defs(func));
    let module =
        passes.iter().try_fold(module, |module, pass| pass.apply_in(module, &context(masks))).unwrap();
    (**module.prim_func(module.functions().next().unwrap().0).unwrap()).clone()
}

fn flat(body: impl FnOnce(&Buffer, &Buffer) -> Stmt) -> PrimFunc {
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(64)], F32));
    let body = body(&x, &y);
    PrimFunc::new("f", [Param::In(x), Param::Out(y)], body)
}

#[test]
fn remainders_and_conditions_become_predicates() {
    let rest =
        flat(|x, y| vectorized(23, |i| Stmt::store(y, [i.clone()], x.load([i]) + PrimExpr::float(1.0, F32))));
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f32, 64>, y: &mut Tensor<f32, 64>) {
            y[[ramp(0, 1, 16)]] = x[[ramp(0, 1, 16)]] + broadcast(1.0, 16);
            masked(y[[ramp(16, 1, 8)]], ramp(0, 1, 8) < broadcast(7, 8)) = masked(x[[ramp(16, 1, 8)]], ramp(0, 1, 8) < broadcast(7, 8)) + broadcast(1.0, 8);
        }
    "#]]
    .assert_eq(&format!("{}\n", after(&rest, &[vectorize_loop(), simplify()], true).to_string().trim_end()));
    let padded = flat(|x, y| {
        vectorized(16, |i| {
            let inside = i.clone().greater_equal(2).and(i.clone().less(13));
            Stmt::store(y, [i.clone()], choice(inside, x.load([i - 2]), PrimExpr::float(0.0, F32)))
        })
    });
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f32, 64>, y: &mut Tensor<f32, 64>) {
            y[[ramp(0, 1, 16)]] = masked(x[[ramp(-2i64 as usize, 1, 16)]], ramp(0, 1, 16) >= broadcast(2, 16) && ramp(0, 1, 16) < broadcast(13, 16));
        }
    "#]]
    .assert_eq(&format!("{}\n", after(&padded, &[vectorize_loop()], true).to_string().trim_end()));
}

/// Without masks, where an element is on the stack, where memory is not contiguous, and where a lane could fail.
#[test]
fn other_loops_have_no_predicates() {
    let masked = |func: &PrimFunc, masks: bool| {
        after(func, &[vectorize_loop()], masks).to_string().contains("masked(")
    };
    let copy = flat(|x, y| vectorized(7, |i| Stmt::store(y, [i.clone()], x.load([i]))));
    assert!(masked(&copy, true) && !masked(&copy, false));
    let one_piece = flat(|x, y| vectorized(20, |i| Stmt::store(y, [i.clone()], x.load([i]))));
    let strided = flat(|x, y| vectorized(7, |i| Stmt::store(y, [i.clone()], x.load([i * 3]))));
    let scalar = flat(|x, y| {
        let k = Var::index("k");
        let body = vectorized(16, |i| {
            let later = i.clone().greater_equal(PrimExpr::from(&k) * 20);
            Stmt::if_then_else(later, Stmt::store(y, [i], x.load([PrimExpr::index(9)])), None)
        });
        For::serial(k, 3, body).into()
    });
    for func in [one_piece, strided, scalar] {
        assert!(!masked(&func, true), "{func}");
    }
    let tile = Buffer::new("tile", [PrimExpr::index(7)], F32).renew(|it| it.scope = Scope::Local);
    let stack = flat(|x, y| {
        let fill = vectorized(7, |i| Stmt::store(&tile, [i.clone()], x.load([i])));
        let show = Stmt::store(y, [PrimExpr::index(0)], tile.load([PrimExpr::index(3)]));
        Stmt::seq([AllocBuffer::new(tile.clone()).into(), fill, show])
    });
    assert!(!masked(&stack, true), "{stack}");
    let ints = |name: &str| Buffer::new(name, [PrimExpr::index(64)], DataType::I32);
    let [a, b, y] = ["a", "b", "y"].map(ints);
    let quotient = vectorized(7, |i| Stmt::store(&y, [i.clone()], a.load([i.clone()]).floordiv(b.load([i]))));
    let quotient = PrimFunc::new("f", [Param::In(a), Param::In(b), Param::Out(y)], quotient);
    assert!(!masked(&quotient, true), "{quotient}");
}

/// Programs of random extents and conditions, lowered with masks, compute in the strict interpreter what the source does.
#[test]
fn masked_vectors_keep_results() {
    let mut rng = Rng::new(3);
    let mut masked = 0;
    for case in 0..120 {
        let (rows, columns, shift) = (rng.below(4) as i64 + 1, rng.below(40) as i64 + 1, rng.below(5) as i64);
        let symbolic = rng.one_in(3);
        let n = Var::index("n");
        let width = if symbolic { PrimExpr::from(&n) } else { PrimExpr::index(columns) };
        let x = Buffer::new("x", [PrimExpr::index(rows), width.clone()], F32);
        let y = Buffer::new("y", [PrimExpr::index(rows), width.clone()], F32);
        let outer = Var::index("i");
        let lanes = *rng.pick(&[4, 8, 16, 32]);
        let kind = rng.below(3);
        let at = |j: PrimExpr| [PrimExpr::from(&outer), j];
        let row = |j: PrimExpr| {
            let from = j.clone() - shift;
            let mut inside = from.clone().greater_equal(0);
            if kind == 1 {
                inside = inside.and(PrimExpr::from(&outer).greater_equal(1));
            }
            let fill = PrimExpr::float(if kind == 2 { 3.0 } else { 0.0 }, F32);
            Stmt::store(&y, at(j), choice(inside, x.load(at(from)), fill) * PrimExpr::float(2.0, F32))
        };
        let body = if rng.one_in(2) {
            let strip = Var::index("strip");
            let inner = vectorized(lanes, |lane| {
                let j = PrimExpr::from(&strip) * lanes + lane;
                Stmt::if_then_else(j.clone().less(width.clone()), row(j), None)
            });
            For::serial(strip, (width.clone() + (lanes - 1)).floordiv(lanes), inner).into()
        } else {
            vectorized(width.clone(), row)
        };
        let body = For::serial(outer.clone(), rows, body).into();
        let block = BlockRealize::opaque(Block::root(vec![], body));
        let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], block);
        let data: Vec<f32> = (0..rows * columns).map(|_| rng.below(1000) as f32 - 500.0).collect();
        let run = |func: &PrimFunc| {
            let tensor = |data: &[f32]| Value::Tensor(Tensor::from_slice(data, &[rows, columns]).unwrap());
            let mut args = [tensor(&data), tensor(&vec![7.0; data.len()])];
            let res = Program::compile(func).unwrap().strict(case).run(&mut args);
            res.unwrap_or_else(|err| panic!("{err}\n{func}"));
            args[1].as_tensor().unwrap().bytes().unwrap().to_vec()
        };
        let lowered = after(&func, &[lower_tir()], true);
        masked += usize::from(lowered.to_string().contains("masked("));
        assert_eq!(run(&lowered), run(&func), "{func}\n{lowered}");
    }
    assert!(masked >= 60, "{masked}");
}

/// Lanes outside of the predicate are no accesses, and zero when read; predicates are refused where analyses take each
/// access as one of all lanes.
#[test]
fn predicates_have_one_bool_per_lane_and_are_not_source() {
    let ramp = |base: i64| PrimExpr::index(base).ramp(PrimExpr::index(1), 8);
    let program = |from: i64, predicate: PrimExpr| {
        let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(6)], F32));
        let load = |predicate: &PrimExpr| {
            let (indices, predicate) = (Arc::new([ramp(from)]), Some(predicate.clone()));
            let span = crate::ir::Span::none();
            PrimExpr::BufferLoad(Arc::new(BufferLoad { buffer: x.clone(), indices, predicate, span }))
        };
        let store = BufferStore {
            buffer: y.clone(),
            value: load(&predicate) + broadcast(1.0),
            indices: Arc::new([ramp(0)]),
            predicate: Some(ramp(0).less(PrimExpr::index(6).broadcast(8))),
            span: crate::ir::Span::none(),
        };
        PrimFunc::new("f", [Param::In(x.clone()), Param::Out(y)], store.into())
    };
    fn broadcast(value: f64) -> PrimExpr {
        PrimExpr::float(value, F32).broadcast(8)
    }
    let inside = ramp(-1).greater_equal(PrimExpr::index(0).broadcast(8));
    let inside = inside.and(ramp(-1).less(PrimExpr::index(5).broadcast(8)));
    let run = |func: &PrimFunc| {
        let tensor = |data: [f32; 6]| Value::Tensor(Tensor::from_slice(&data, &[6]).unwrap());
        let mut args = [tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), tensor([0.0; 6])];
        let res = Program::compile(func).unwrap().strict(1).fresh_outputs().run(&mut args);
        res.map(|()| args[1].as_tensor().unwrap().to_vec::<f32>().unwrap()).map_err(|err| err.to_string())
    };
    let good = program(-1, inside.clone());
    assert_eq!(run(&good).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let all = program(-1, PrimExpr::bool(true).broadcast(8));
    assert!(run(&all).unwrap_err().contains("index -1"));
    // The structure keeps them: JSON, equality.
    let module = IRModule::from_prim_func(good.clone());
    let read = crate::ir::json::from_json(&crate::ir::json::to_json(&module).unwrap()).unwrap();
    crate::ir::structural_equal(&module, &read).unwrap();
    assert!(crate::ir::structural_equal(&module, &IRModule::from_prim_func(all)).is_err());
    let err = lower_tir().apply(module).unwrap_err().to_string();
    assert!(err.contains("has a predicate, which only lowered programs have"), "{err}");
    let narrow = program(0, PrimExpr::bool(true).broadcast(4));
    let err = crate::ir::well_formed(&IRModule::from_prim_func(narrow)).unwrap_err().to_string();
    assert!(err.contains("predicate of an access to `x`"), "{err}");
}
