//! Tests of narrowed kernels: what they become, what stays wide, which calls are refused, and that random programs keep their
//! results, also where numbers are near the limits of `i32`.

use std::sync::Arc;

use expect_test::expect;
use tvm_runtime::abi::Status;
use tvm_runtime::{DataType, Tensor, Value};
use tvm_testing::{Budget, Rng};

use crate::ir::{IRModule, Var};
use crate::pass::{Pass, PassContext};
use crate::target::Target;
use crate::tir::interp::{InterpErrorKind, Program};
use crate::tir::transform::{lower_intrin, narrow_kernel_indices, renew_defs};
use crate::tir::{
    Binary, BinaryOp, Bind, Buffer, For, ForKind, Let, Mutator, Param, PrimExpr, PrimFunc, Stmt, ThreadTag,
    binary,
};

const F32: DataType = DataType::F32;
const I64: DataType = DataType::I64;
const MOST: i64 = i32::MAX as i64;

fn after(func: &PrimFunc, passes: &[Pass]) -> PrimFunc {
    let module = IRModule::from_prim_func(renew_defs(func));
    let context = PassContext::new().target(Target::cuda());
    let apply = |module, pass: &Pass| pass.apply_in(module, &context);
    let module = passes.iter().try_fold(module, apply).unwrap();
    (**module.prim_func(module.functions().next().unwrap().0).unwrap()).clone()
}

fn narrow(func: &PrimFunc) -> String {
    let func = after(func, &[lower_intrin(), narrow_kernel_indices()]);
    format!("{}\n", func.to_string().trim_end())
}

fn bound(tag: ThreadTag, var: &Var, extent: impl Into<PrimExpr>, body: Stmt) -> Stmt {
    For { kind: ForKind::ThreadBinding(tag), ..For::serial(var.clone(), extent, body) }.into()
}

/// A kernel of `blocks` blocks of 256 threads.
fn kernel(
    params: impl IntoIterator<Item = Param>,
    blocks: impl Into<PrimExpr>,
    body: impl FnOnce(PrimExpr, PrimExpr) -> Stmt,
) -> PrimFunc {
    let (bx, tx) = (Var::index("bx"), Var::index("tx"));
    let body = body((&bx).into(), (&tx).into());
    let body = bound(ThreadTag::BlockIdxX, &bx, blocks, bound(ThreadTag::ThreadIdxX, &tx, 256, body));
    PrimFunc::new("f", params.into_iter().collect::<Vec<_>>(), body)
}

fn buffer(name: &str, extent: impl Into<PrimExpr>, dtype: DataType) -> Buffer {
    Buffer::new(name, [extent.into()], dtype)
}

#[test]
fn constant_bounds() {
    let (x, y) = (buffer("x", 4096, F32), buffer("y", 4096, F32));
    let func = kernel([Param::In(x.clone()), Param::Out(y.clone())], 16, |bx, tx| {
        let at = bx.clone() * 256 + tx;
        // Padding: negative where nothing is read.
        let from = at.clone().floordiv(7) * 14 + bx - 3;
        let inside = from.clone().greater_equal(0).and(from.clone().less(4096));
        let value = inside.select(PrimExpr::float(1.0, F32), at.clone().floormod(3).cast(F32));
        let value = value + x.load([(from - 1).floormod(64)]);
        Stmt::store(&y, [at], value)
    });
    expect![[r##"
        #[prim_func(lowered)]
        fn f(x: &Tensor<f32, 4096>, y: &mut Tensor<f32, 4096>) {
            #[bind("blockIdx.x")]
            for bx in 0..16 {
                #[bind("threadIdx.x")]
                for tx in 0..256 {
                    y[[((bx as i32) * 256 + (tx as i32)) as usize]] = select(((bx as i32) * 256 + (tx as i32)) / 7 * 14 + (bx as i32) - 3 >= 0 && ((bx as i32) * 256 + (tx as i32)) / 7 * 14 + (bx as i32) - 3 < 4096, 1.0, (((bx as i32) * 256 + (tx as i32)) % 3) as f32) + x[[(((bx as i32) * 256 + (tx as i32)) / 7 * 14 + (bx as i32) - 3 - 1 & 63) as usize]];
                }
            }
        }
    "##]].assert_eq(&narrow(&func));
}

/// Data, indices in memory, and numbers that do not fit.
#[test]
fn what_stays_wide() {
    let (x, y) = (buffer("x", 1 << 33, I64), buffer("y", 4096, I64));
    let s = Var::prim("s", I64);
    let params = [Param::In(x.clone()), Param::Out(y.clone()), Param::Scalar(s.clone())];
    let func = kernel(params, 16, |bx, tx| {
        let at = bx.clone() * 256 + tx.clone();
        let far = at.clone() * (1 << 20) + 5;
        let loaded = x.load([x.load([far.clone()]).max(0).min((1 << 33) - 1)]);
        let value = far.less(PrimExpr::from(&s)).select(loaded, PrimExpr::from(&s) * (tx + 1));
        Stmt::store(&y, [at], value)
    });
    expect![[r##"
        #[prim_func(lowered)]
        fn f(x: &Tensor<i64, 8589934592>, y: &mut Tensor<i64, 4096>, s: i64) {
            #[bind("blockIdx.x")]
            for bx in 0..16 {
                #[bind("threadIdx.x")]
                for tx in 0..256 {
                    y[[((bx as i32) * 256 + (tx as i32)) as usize]] = select((((bx as i32) * 256 + (tx as i32)) as i64) * 1048576 + 5 < s, x[[min(max(x[[(((bx as i32) * 256 + (tx as i32)) as usize) * 1048576 + 5]] as usize, 0), 8589934591)]], s * (((tx as i32) + 1) as i64));
                }
            }
        }
    "##]].assert_eq(&narrow(&func));
}

/// `x: [n, m]` and `y: [n, m]`, flat.
fn symbolic() -> ([Var; 2], Buffer, Buffer, Vec<Param>) {
    let [n, m] = ["n", "m"].map(Var::index);
    let dims = Buffer::new("dims", [PrimExpr::from(&n), PrimExpr::from(&m), PrimExpr::index(0)], F32);
    let size = PrimExpr::from(&n) * &m;
    let (x, y) = (buffer("x", size.clone(), F32), buffer("y", size, F32));
    let params = vec![Param::In(dims), Param::In(x.clone()), Param::Out(y.clone())];
    ([n, m], x, y, params)
}

#[test]
fn symbolic_extents() {
    let ([n, m], x, y, params) = symbolic();
    let size = PrimExpr::from(&n) * &m;
    let func = kernel(params, (size.clone() + 255).floordiv(256), |bx, tx| {
        let at = bx * 256 + tx;
        let (row, column) = (at.clone().floordiv(&m), at.clone().floormod(&m));
        let store = Stmt::store(&y, [at.clone()], x.load([column * &n + row]));
        Stmt::if_then_else(at.less(size), store, None)
    });
    expect![[r##"
        #[prim_func(lowered)]
        fn f(dims: &Tensor<f32, n, m, 0>, x: &Tensor<f32, { n * m }>, y: &mut Tensor<f32, { n * m }>) {
            assert!(n <= 2147483647, status = 7, arg = -1, axis = -1, expected = 2147483647, got = n);
            assert!(m <= 2147483647, status = 7, arg = -1, axis = -1, expected = 2147483647, got = m);
            assert!(n * m <= 2147483647, status = 7, arg = -1, axis = -1, expected = 2147483647, got = n * m);
            assert!((n * m + 255) / 256 <= 2147483647, status = 7, arg = -1, axis = -1, expected = 2147483647, got = (n * m + 255) / 256);
            assert!((n * m + 255) / 256 * 256 - 1 <= 2147483647, status = 7, arg = -1, axis = -1, expected = 2147483647, got = (n * m + 255) / 256 * 256 - 1);
            let n_m = (n * m) as i32;
            #[bind("blockIdx.x")]
            for bx in 0..((((n as i64) * (m as i64) + 255) / 256) as usize) {
                #[bind("threadIdx.x")]
                for tx in 0..256 {
                    if (bx as i32) * 256 + (tx as i32) < n_m {
                        y[[((bx as i32) * 256 + (tx as i32)) as usize]] = x[[(((bx as i32) * 256 + (tx as i32)) % (m as i32) * (n as i32) + ((bx as i32) * 256 + (tx as i32)) / (m as i32)) as usize]];
                    }
                }
            }
        }
    "##]].assert_eq(&narrow(&func));
}

/// The last tile reaches beyond the extent: `n <= 2^31 / 32` would refuse the row of one element.
#[test]
fn tiles_refuse_no_tensor() {
    let ([n, m], x, y, params) = symbolic();
    let func = kernel(params, (PrimExpr::from(&n) + 255).floordiv(256), |bx, tx| {
        let row = bx * 256 + tx;
        let k = Var::index("k");
        let at = row.clone() * &m + &k;
        let store = Stmt::store(&y, [at.clone()], x.load([at]));
        let rows = For::serial(k, &m, store).into();
        Stmt::if_then_else(row.less(&n), rows, None)
    });
    let text = narrow(&func);
    let asserted = text.lines().filter(|it| it.contains("assert!")).count();
    assert_eq!(asserted, 3, "two extents and one number of elements: {text}");
    let run = |n: i64, m: i64| {
        let program = Program::compile(&after(&func, &[lower_intrin(), narrow_kernel_indices()])).unwrap();
        let empty = Tensor::from_vec(Vec::<f32>::new(), &[n, m, 0]).unwrap();
        let size = Tensor::from_vec(vec![0f32; usize::try_from(n * m).unwrap_or(0).min(64)], &[n * m]);
        let Ok(size) = size else { return Err(0) };
        let mut args: Vec<Value> = [&empty, &size, &size].map(|it| Value::Tensor((*it).clone())).into();
        program.run(&mut args).map_err(|err| match err.kind {
            InterpErrorKind::Assert { .. } => Status::Assert as i32,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(run(1, 3), Ok(()));
    assert_eq!(run(0, MOST), Ok(()));
    assert_eq!(run(0, MOST + 1), Err(Status::Assert as i32));
}

/// Makes each sum, difference and product of `i32` another number where it wraps.
struct Poison;

impl Mutator for Poison {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let walked = self.walk_expr(expr);
        let PrimExpr::Binary(it) = walked.as_ref().unwrap_or(expr) else { return walked };
        let Binary { op, a, b } = &**it;
        if a.dtype() != DataType::I32 || !matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul) {
            return walked;
        }
        let var = Var::prim("exact", I64);
        let (exact, wide) = (PrimExpr::from(&var), binary(*op, a.clone().cast(I64), b.clone().cast(I64)));
        let cut = exact.clone().cast(DataType::I32);
        let wrong = binary(BinaryOp::BitXor, cut.clone(), PrimExpr::int(0x5a5a_5a5a, DataType::I32));
        let body = cut.clone().cast(I64).equal(exact).select(cut, wrong);
        Some(PrimExpr::Let(Arc::new(Let { var, value: wide, body })))
    }
}

/// Constants: small ones, and those near the limits.
const NUMBERS: [i64; 12] = [1, 2, 3, 7, 16, 1000, 46341, 1 << 20, (1 << 30) - 1, MOST - 3, MOST, MOST + 1];

struct Parts<'a> {
    leaves: &'a [PrimExpr],
    /// At most this many of the numbers.
    numbers: usize,
}

impl Parts<'_> {
    fn number(&self, rng: &mut Rng) -> i64 {
        let size = NUMBERS[rng.below(self.numbers)];
        if rng.one_in(4) { -size } else { size }
    }

    fn condition(&self, rng: &mut Rng, depth: usize) -> PrimExpr {
        const OPS: [BinaryOp; 6] =
            [BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge, BinaryOp::Eq, BinaryOp::Ne];
        let a = self.value(rng, depth);
        let b = if rng.one_in(2) { PrimExpr::index(self.number(rng)) } else { self.value(rng, depth) };
        binary(*rng.pick(&OPS), a, b)
    }

    fn value(&self, rng: &mut Rng, depth: usize) -> PrimExpr {
        if depth == 0 || rng.one_in(7) {
            return match rng.below(6) {
                0 => PrimExpr::index(self.number(rng)),
                _ => rng.pick(self.leaves).clone(),
            };
        }
        let part = |rng: &mut Rng| self.value(rng, depth - 1);
        match rng.below(14) {
            0..=2 => part(rng) + part(rng),
            3 => part(rng) - part(rng),
            4 => part(rng) * *rng.pick(&[2, 3, 5, -1, 64]),
            5 => part(rng).floordiv(self.number(rng).abs()),
            6 => part(rng).floormod(self.number(rng).abs()),
            7 => part(rng).floordiv(rng.pick(self.leaves).clone()),
            8 => part(rng).floormod(rng.pick(self.leaves).clone()),
            9 => binary(*rng.pick(&[BinaryOp::Min, BinaryOp::Max]), part(rng), part(rng)),
            10 => {
                let by = PrimExpr::index(rng.below(40) as i64);
                binary(*rng.pick(&[BinaryOp::Shr, BinaryOp::BitAnd]), part(rng), by)
            }
            11 => self.condition(rng, depth - 1).select(part(rng), part(rng)),
            12 => {
                let var = Var::index("v");
                let body = PrimExpr::from(&var) + part(rng) - PrimExpr::from(&var).floormod(5);
                PrimExpr::Let(Arc::new(Let { var, value: part(rng), body }))
            }
            _ => part(rng).max(0).min(self.number(rng).abs()),
        }
    }
}

/// Values, conditions and indices of random kernels, of loop and thread variables, dimensions and data; the results stay, and
/// no operation on `i32` wraps. Calls with small dimensions are not refused.
#[test]
fn fuzz_narrow_kernel_indices() {
    let (mut narrowed, mut refused, mut cases) = (0, 0, 0);
    for seed in Budget::new("narrow_kernel_indices", 400) {
        let rng = &mut Rng::new(seed);
        let [n, m] = ["n", "m"].map(Var::index);
        let (bx, tx, i, v) = (Var::index("bx"), Var::index("tx"), Var::index("i"), Var::index("v"));
        let dims = Buffer::new("dims", [PrimExpr::from(&n), PrimExpr::from(&m), PrimExpr::index(0)], F32);
        let (y, z) = (buffer("y", 64, I64), buffer("z", 64, F32));
        let data = Var::prim("data", I64);
        let symbolic = rng.one_in(2);
        let mut leaves: Vec<PrimExpr> = [&bx, &tx, &i].map(PrimExpr::from).into();
        leaves.push(PrimExpr::from(&bx) * 4 + &tx);
        if symbolic {
            leaves.extend([(&n).into(), (&m).into(), PrimExpr::from(&n) * &m]);
            leaves.push((PrimExpr::from(&n) + 255).floordiv(256));
        } else if rng.one_in(3) {
            leaves.push((&data).into());
        }
        // Sums of indices are assumed not to overflow: numbers are small beside dimensions.
        let numbers = if symbolic { 8 } else { NUMBERS.len() };
        let parts = Parts { leaves: &leaves, numbers };
        let value = parts.value(rng, 3);
        let guard = rng.one_in(2).then(|| parts.condition(rng, 2));
        leaves.push((&v).into());
        let parts = Parts { leaves: &leaves, numbers };
        let at = PrimExpr::from(&bx) * 16 + PrimExpr::from(&tx) * 4 + PrimExpr::from(&i).floormod(4);
        let index = parts.value(rng, 2).floormod(64);
        let body = [
            Bind { var: v, value }.into(),
            Stmt::store(&y, [at.clone()], parts.value(rng, 4)),
            Stmt::store(&z, [at], z.load([index]) + parts.value(rng, 2).cast(F32)),
        ];
        let mut body = Stmt::seq(body);
        if let Some(guard) = guard {
            body = Stmt::if_then_else(guard, body, None);
        }
        let min =
            if symbolic { 0 } else { *rng.pick(&[0, 0, 1, -2, MOST - 3, MOST - 1, -MOST - 3, 1 << 40]) };
        let serial = For { min: PrimExpr::index(min), ..For::serial(i, rng.below(4) as i64 + 1, body) };
        let threads = bound(ThreadTag::ThreadIdxX, &tx, 4, serial.into());
        let blocks = if symbolic && rng.one_in(2) { PrimExpr::from(&m).min(4) } else { PrimExpr::index(4) };
        let body = bound(ThreadTag::BlockIdxX, &bx, blocks, threads);
        let params = [Param::In(dims), Param::Out(y), Param::Out(z), Param::Scalar(data)];
        let func = PrimFunc::new("f", params, body);
        let small = rng.one_in(2);
        let sizes: &[i64] =
            if small { &[0, 1, 2, 3, 7, 100, 1000] } else { &[0, 1, 2, 5, 65536, MOST - 1, MOST] };
        let (n, m) = (*rng.pick(sizes), *rng.pick(&sizes[..5]));
        let data = *rng.pick(&[0, 5, -7, MOST, MOST + 1, -MOST - 1, -MOST - 2, i64::MAX, i64::MIN]);
        let run = |func: &PrimFunc| {
            let zeros = Tensor::from_vec(vec![0i64; 64], &[64]).unwrap();
            let floats = Tensor::from_vec(vec![1f32; 64], &[64]).unwrap();
            let dims = Tensor::from_vec(Vec::<f32>::new(), &[n, m, 0]).unwrap();
            let mut args =
                vec![Value::Tensor(dims), Value::Tensor(zeros), Value::Tensor(floats), Value::Int(data)];
            let res = Program::compile(func).unwrap().run(&mut args);
            match res {
                Ok(()) => {}
                Err(err) if matches!(err.kind, InterpErrorKind::Assert { .. }) => return None,
                Err(err) => panic!("seed {seed}: {err}\n{func}"),
            }
            let bytes = |value: &Value| value.as_tensor().unwrap().bytes().unwrap().to_vec();
            Some(args[1..3].iter().map(bytes).collect::<Vec<_>>())
        };
        // Without divisions by zero, which trap.
        let func = after(&func, &[lower_intrin()]);
        let want = run(&func);
        let new = after(&func, &[narrow_kernel_indices()]);
        let poisoned = Poison.mutate_stmt(&new.body).map(|body| PrimFunc { body, ..new.clone() });
        for new in [Some(&new), poisoned.as_ref()].into_iter().flatten() {
            match run(new) {
                Some(got) => assert!(Some(got) == want, "seed {seed}: n = {n}, m = {m}\n{func}\n{new}"),
                None => {
                    assert!(!small, "seed {seed}: n = {n}, m = {m}, refused\n{func}\n{new}");
                    refused += 1;
                }
            }
        }
        cases += 1;
        narrowed += usize::from(new.to_string().contains("as i32"));
    }
    println!("narrow_kernel_indices: {cases} kernels, {narrowed} narrowed, {refused} calls refused");
    assert!(narrowed * 4 >= cases * 3 && refused * 4 <= cases, "{narrowed} and {refused} of {cases}");
}
