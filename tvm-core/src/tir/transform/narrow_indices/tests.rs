//! Tests of narrowed vectors: what they become, what stays wide, and that random programs keep their results.

use expect_test::expect;
use tvm_runtime::{DataType, DimBound, Tensor, Value};
use tvm_testing::{Budget, Rng};

use crate::ir::{IRModule, Var};
use crate::pass::{Pass, PassContext};
use crate::tir::interp::Program;
use crate::tir::transform::{lower_intrin, narrow_indices, renew_defs};
use crate::tir::{BinaryOp, Bind, Buffer, For, IfThenElse, Param, PrimExpr, PrimFunc, Stmt, binary};

const F32: DataType = DataType::F32;
const I32: DataType = DataType::I32;
const LANES: u16 = 8;

fn ramp(base: impl Into<PrimExpr>, stride: i64) -> PrimExpr {
    base.into().ramp(PrimExpr::index(stride), LANES)
}

fn all(value: impl Into<PrimExpr>) -> PrimExpr {
    value.into().broadcast(LANES)
}

fn after(func: &PrimFunc, passes: &[Pass]) -> PrimFunc {
    let module = IRModule::from_prim_func(renew_defs(func));
    let apply = |module, pass: &Pass| pass.apply_in(module, &PassContext::default());
    let module = passes.iter().try_fold(module, apply).unwrap();
    (**module.prim_func(module.functions().next().unwrap().0).unwrap()).clone()
}

/// `for i in 0..10 { body }` over `x: [f32; 4096]` and `y: [f32; 80]`.
fn program(params: &[Var], body: impl FnOnce(&Var, &Buffer, &Buffer) -> Stmt) -> PrimFunc {
    let x = Buffer::new("x", [PrimExpr::index(4096)], F32);
    let y = Buffer::new("y", [PrimExpr::index(80)], F32);
    let i = Var::index("i");
    let body = For::serial(i.clone(), 10, body(&i, &x, &y));
    let params = [Param::In(x), Param::Out(y)].into_iter().chain(params.iter().cloned().map(Param::Scalar));
    PrimFunc::new("f", params.collect::<Vec<_>>(), body.into())
}

/// `y[8 i..8 i + 8] = value`.
fn stored(value: impl FnOnce(&Var, &Buffer) -> PrimExpr) -> PrimFunc {
    program(&[], |i, x, y| Stmt::store(y, [ramp(i * 8i64, 1)], value(i, x)))
}

#[test]
fn gathers_conditions_and_conversions() {
    let func = program(&[], |i, x, y| {
        let at = ramp(i * 8i64, 1);
        let from = at.clone().floordiv(3) * 5 + at.clone().floormod(3);
        let condition = at.clone().less(all(i * 9i64));
        let value = condition.select(x.load([from]), at.clone().cast(F32));
        Stmt::store(y, [at], value)
    });
    expect![[r#"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f32, 4096>, y: &mut Tensor<f32, 80>) {
            for i in 0..10 {
                y[[ramp(i * 8, 1, 8)]] = select(ramp(0, 1, 8) < broadcast(i as i32, 8), x[[(floordiv(ramp((i * 8) as i32, 1, 8), broadcast(3, 8)) * broadcast(5, 8) + floormod(ramp((i * 8) as i32, 1, 8), broadcast(3, 8))) as i64x8]], ramp((i * 8) as i32, 1, 8) as f32x8);
            }
        }
    "#]]
    .assert_eq(&format!("{}\n", after(&func, &[narrow_indices()]).to_string().trim_end()));
}

/// The distance of a dimension, of which nothing is known, is clamped to the lanes; unless a condition bounds it.
#[test]
fn comparisons_with_dimensions_are_clamped() {
    let n = Var::index("n");
    let x = Buffer::new("x", [PrimExpr::from(&n)], F32);
    let y = Buffer::new("y", [PrimExpr::index(80)], F32);
    let i = Var::index("i");
    let at = ramp(&i * 8i64, 1);
    let store = |value: f64| {
        let value = PrimExpr::float(value, F32);
        let inside = at.clone().less_equal(all(&n));
        Stmt::store(&y, [at.clone()], inside.select(all(value), all(PrimExpr::float(0.0, F32))))
    };
    let near = PrimExpr::from(&n).less(&i * 8i64 + 4i64).and(PrimExpr::from(&n).greater_equal(&i * 8i64));
    let both = IfThenElse {
        condition: near,
        then_case: store(1.0),
        else_case: Some(store(2.0)),
        span: crate::ir::Span::none(),
    };
    let body = For::serial(i, 10, both.into());
    let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], body.into());
    let text = after(&func, &[narrow_indices()]).to_string();
    for part in ["<= broadcast((n - i * 8) as i32, 8)", "max(min(n - i * 8, 8), -1i64 as usize) as i32"] {
        assert!(text.contains(part), "{text}");
    }
}

/// `x[floormod(e, 4096)]` of a vector `e` is narrowed exactly if all parts of it fit.
#[test]
fn what_may_not_fit_stays_wide() {
    let narrows = |value: &dyn Fn(&Var, &Buffer) -> PrimExpr| {
        let func = stored(|i, x| value(i, x));
        after(&func, &[narrow_indices()]).to_string().contains("i32")
    };
    let gather = |e: fn(&Var) -> PrimExpr| {
        narrows(&move |i: &Var, x: &Buffer| {
            let index = e(i).floormod(all(PrimExpr::index(4096)));
            x.load([index])
        })
    };
    // The last lane of the last iteration is 79.
    assert!(gather(|i| ramp(i * 8i64, 1) + ((1i64 << 31) - 80)));
    assert!(!gather(|i| ramp(i * 8i64, 1) + ((1i64 << 31) - 79)));
    assert!(gather(|i| ramp(i * 8i64, 1) + -(1i64 << 31)));
    assert!(!gather(|i| ramp(i * 8i64, 1) + -((1i64 << 31) + 1)));
    assert!(!gather(|i| ramp(i * 8i64, 1) - (1i64 << 31)));
    // The quotient fits, the product before it does not.
    assert!(!gather(|i| (ramp(i * 8i64, 1) * (1i64 << 30)).floordiv(1 << 30)));
    assert!(gather(|i| (ramp(i * 8i64, 1) * (1i64 << 24)).floordiv(1 << 24)));
    // A distance that fits, of two numbers that do not.
    assert!(!gather(|i| (ramp(i * 8i64, 1) + (1i64 << 40)) - all(PrimExpr::index(1 << 40))));
    // Contiguous and strided vectors have their places in addresses.
    assert!(!narrows(&|i, x| x.load([ramp(i * 8i64, 1)])));
    assert!(!narrows(&|i, x| x.load([ramp(i * 8i64, 7)])));
    // Elements of a tensor of `i64` are data.
    let table = Buffer::new("table", [PrimExpr::index(80)], DataType::I64);
    let func = program(&[], |i, x, y| {
        let index = table.load([ramp(i * 8i64, 1)]).floormod(all(PrimExpr::index(4096)));
        Stmt::store(y, [ramp(i * 8i64, 1)], x.load([index]))
    });
    let func = PrimFunc { params: func.params.iter().cloned().chain([Param::In(table)]).collect(), ..func };
    assert!(!after(&func, &[narrow_indices()]).to_string().contains("i32"));
}

/// A dimension whose bounds are declared fits where they do.
#[test]
fn declared_bounds_prove_it() {
    for (most, fits) in [(1 << 20, true), (1 << 40, false), (i64::MAX, false)] {
        let n = Var::index("n").within(Some(DimBound::between(1, most).unwrap()));
        let func = program(std::slice::from_ref(&n), |i, x, y| {
            let index = (ramp(i * 8i64, 1) + all(&n)).floormod(all(PrimExpr::index(4096)));
            Stmt::store(y, [ramp(i * 8i64, 1)], x.load([index]))
        });
        let text = after(&func, &[narrow_indices()]).to_string();
        assert_eq!(text.contains("as i32"), fits, "{most}\n{text}");
    }
}

const NUMBERS: [i64; 13] = [1, 2, 3, 7, 16, 40, 100, 4095, 1 << 16, 1 << 27, 1 << 30, (1 << 31) - 9, 1 << 40];

/// What random vectors are made of.
struct Parts<'a> {
    scalars: &'a [PrimExpr],
    vectors: &'a [Var],
    /// A tensor of `i32`.
    table: &'a Buffer,
    /// Constants, of both signs. They are small beside dimensions: indices are assumed not to overflow.
    numbers: &'a [i64],
    shifts: usize,
}

impl Parts<'_> {
    fn number(&self, rng: &mut Rng) -> i64 {
        let size = *rng.pick(self.numbers);
        if rng.one_in(3) { -size } else { size }
    }

    fn scalar(&self, rng: &mut Rng) -> PrimExpr {
        match rng.below(4) {
            0 => PrimExpr::index(self.number(rng)),
            1 => rng.pick(self.scalars).clone() * self.number(rng),
            _ => rng.pick(self.scalars).clone() + self.number(rng),
        }
    }

    /// A random vector of `i64`.
    fn vector(&self, rng: &mut Rng, depth: usize) -> PrimExpr {
        if depth == 0 || rng.one_in(6) {
            return match rng.below(6) {
                0 => all(self.scalar(rng)),
                1 => self.table.load([ramp(rng.below(72) as i64, 1)]).cast(DataType::I64.with_lanes(LANES)),
                2 if !self.vectors.is_empty() => rng.pick(self.vectors).into(),
                3 => ramp(self.scalar(rng), self.number(rng)),
                _ => ramp(self.scalar(rng), *rng.pick(&[1, 1, 2, 3, -1])),
            };
        }
        let part = |rng: &mut Rng| self.vector(rng, depth - 1);
        match rng.below(10) {
            0 | 1 => part(rng) + part(rng),
            2 => part(rng) - part(rng),
            3 => part(rng) * self.number(rng),
            4 => part(rng).floordiv(rng.below(40) as i64 + 1),
            5 => part(rng).floormod(rng.below(40) as i64 + 1),
            6 => binary(*rng.pick(&[BinaryOp::Min, BinaryOp::Max, BinaryOp::BitAnd]), part(rng), part(rng)),
            7 => {
                let amount = all(PrimExpr::index(rng.below(self.shifts) as i64));
                binary(*rng.pick(&[BinaryOp::Shl, BinaryOp::Shr]), part(rng), amount)
            }
            8 => {
                let (a, b) = (part(rng), all(self.scalar(rng)));
                comparison(rng, a, b).select(part(rng), part(rng))
            }
            _ => part(rng)
                .min(all(PrimExpr::index(self.number(rng))))
                .max(all(PrimExpr::index(-self.number(rng)))),
        }
    }
}

fn comparison(rng: &mut Rng, a: PrimExpr, b: PrimExpr) -> PrimExpr {
    const OPS: [BinaryOp; 6] =
        [BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge, BinaryOp::Eq, BinaryOp::Ne];
    let (a, b) = if rng.one_in(3) { (b, a) } else { (a, b) };
    binary(*rng.pick(&OPS), a, b)
}

/// Gathers, conversions and comparisons of random vectors, of loop variables, dimensions and data; the results stay.
#[test]
fn fuzz_narrow_indices() {
    let (mut narrowed, mut cases) = (0, 0);
    for seed in Budget::new("narrow_indices", 300) {
        let rng = &mut Rng::new(seed);
        let (n, data, i) = (Var::index("n"), Var::index("data"), Var::index("i"));
        let dim = Buffer::new("dim", [PrimExpr::from(&n)], F32);
        let table = Buffer::new("table", [PrimExpr::index(80)], I32);
        let x = Buffer::new("x", [PrimExpr::index(64)], F32);
        let [y, z] = ["y", "z"].map(|name| Buffer::new(name, [PrimExpr::index(80)], F32));
        let w = Buffer::new("w", [PrimExpr::index(80)], DataType::I64);
        let mut scalars = vec![PrimExpr::from(&i), PrimExpr::from(&i) * 8];
        let symbolic = rng.one_in(2);
        if symbolic {
            scalars.push(PrimExpr::from(&n));
        } else if rng.one_in(3) {
            scalars.push(PrimExpr::from(&data));
        }
        let (numbers, shifts) = if symbolic { (&NUMBERS[..6], 2) } else { (&NUMBERS[..], 40) };
        let at = ramp(&i * 8i64, 1);
        let (mut stmts, mut named) = (Vec::new(), Vec::new());
        for _ in 0..rng.below(3) {
            let parts = Parts { scalars: &scalars, vectors: &named, table: &table, numbers, shifts };
            let value = parts.vector(rng, 2);
            let var = Var::prim("v", value.dtype());
            stmts.push(Bind { var: var.clone(), value }.into());
            named.push(var);
        }
        let parts = Parts { scalars: &scalars, vectors: &named, table: &table, numbers, shifts };
        let random = |rng: &mut Rng| parts.vector(rng, 3);
        let index = random(rng).floormod(64);
        stmts.push(Stmt::store(&y, [at.clone()], x.load([index])));
        let (a, b) = if rng.one_in(2) {
            let base = scalars[rng.below(scalars.len())].clone();
            (ramp(base, *rng.pick(&[1, 1, 2, -3])), all(rng.pick(&scalars).clone() + rng.below(9) as i64))
        } else {
            (random(rng), random(rng))
        };
        let condition = comparison(rng, a, b);
        let chosen =
            condition.clone().select(random(rng).cast(F32.with_lanes(LANES)), all(PrimExpr::float(0.5, F32)));
        stmts.push(Stmt::store(&z, [at.clone()], chosen));
        stmts.push(Stmt::store(&w, [at.clone()], condition.select(random(rng), random(rng))));
        let mut body = Stmt::seq(stmts);
        if rng.one_in(3) {
            body = Stmt::if_then_else(PrimExpr::from(&n).less(&i * 8i64 + rng.below(20) as i64), body, None);
        }
        let extent = if rng.one_in(2) { PrimExpr::index(10) } else { PrimExpr::from(&n).min(10) };
        let body = For::serial(i.clone(), extent, body).into();
        let params =
            [Param::In(dim), Param::In(table), Param::In(x), Param::Out(y), Param::Out(z), Param::Out(w)];
        let params = params.into_iter().chain([Param::Scalar(data)]).collect::<Vec<_>>();
        let func = PrimFunc::new("f", params, body);
        let n = rng.below(90) as i64;
        let data = *rng.pick(&[0, 5, -(1 << 31), 1 << 31, i64::MAX, i64::MIN, i64::MAX - 70]);
        let ints: Vec<i32> =
            (0..80).map(|_| *rng.pick(&[0, 1, -7, 63, i32::MAX, i32::MIN, 1 << 20])).collect();
        let run = |func: &PrimFunc| {
            let floats = |len: i64, from: f32| {
                Value::Tensor(Tensor::from_vec((0..len).map(|i| from + i as f32).collect(), &[len]).unwrap())
            };
            let mut args = vec![
                floats(n, 0.0),
                Value::Tensor(Tensor::from_vec(ints.clone(), &[80]).unwrap()),
                floats(64, 1.0),
                floats(80, -1.0),
                floats(80, -2.0),
                Value::Tensor(Tensor::from_vec(vec![0i64; 80], &[80]).unwrap()),
                Value::Int(data),
            ];
            let res = Program::compile(func).unwrap().strict(1).run(&mut args);
            assert!(res.is_ok(), "seed {seed}: {res:?}\n{func}");
            let bytes = |value: &Value| value.as_tensor().unwrap().bytes().unwrap().to_vec();
            args[3..6].iter().map(bytes).collect::<Vec<_>>()
        };
        let want = run(&func);
        let narrow = after(&func, &[narrow_indices()]);
        assert!(run(&narrow) == want, "seed {seed}\n{func}\n{narrow}");
        let lowered = after(&func, &[narrow_indices(), lower_intrin()]);
        assert!(run(&lowered) == want, "seed {seed}\n{func}\n{lowered}");
        cases += 1;
        narrowed += usize::from(narrow.to_string().matches("as i32").count() > 0);
    }
    assert!(narrowed * 4 >= cases, "{narrowed} of {cases}");
}
