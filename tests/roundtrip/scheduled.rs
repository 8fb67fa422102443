//! Scheduled programs, and programs that no schedule produces: predicates, domains, annotations, layouts, constants of
//! every type.

use std::sync::Arc;

use tvm::ir::{Attrs, Span, Type, Var};
use tvm::prelude::*;
use tvm::runtime::DataType;
use tvm::tir::schedule::LoopRV;
use tvm::tir::{
    BinaryOp, Bind, Block, BlockRealize, Buffer, For, ForKind, Intrinsic, IterKind, IterVar, Param, PrimExpr,
    PrimFunc, Range, Scope, Stmt, binary,
};
use tvm_testing::Rng;

#[prim_func]
fn product(a: &Tensor<f32, 16, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, 16, n>) {
    for [i, j, p] in grid([16, n, k]) {
        block("C", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

#[prim_func]
fn blur(x: &Tensor<i64, n>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    for i in 0..n {
        block("T", [S(i)], |[vi]| {
            t[[vi]] = x[[vi]] * 3;
        });
    }
    for i in 1..n {
        block("Y", [S(i)], |[vi]| {
            y[[vi]] = t[[vi]] - t[[vi - 1]];
        });
    }
}

#[prim_helper]
fn squashed(x: f32) -> f32 {
    let t = tanh(x);
    if t > 0.5 {
        let over = t - 0.5;
        0.5 + over * over
    } else {
        t * t
    }
}

/// Expressions that bind names.
#[prim_func]
fn with_helpers(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        let last = {
            let j = n - 1 - i;
            j / 2 + j % 2
        };
        y[[i]] = squashed(squashed(exp(x[[i]])) + 1.0) * {
            let w = bind(2.0f32);
            w * w
        } + x[[last]];
    }
}

/// Blocks that come from other kernels.
#[prim_func]
fn with_calls(x: &Tensor<i64, n>, times: &Tensor<i64, 1>, y: &mut Tensor<i64, n>) {
    let mut t = alloc::<i64>([n]);
    for i in 0..n {
        t[[i]] = 0;
    }
    for _ in 0..times[[0]] as usize {
        blur(&t, y);
        blur(x, &mut t);
    }
}

/// Assertions, with messages of every kind.
#[prim_func]
fn with_assertions(x: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        assert!(x[[i]] >= 0 && (x[[i]] as usize) < n);
        if i % 2 == 0 {
            assert!(x[[i]] != 7, "seven: \"{{}}\" \\ \n\t\u{7f} é");
        }
        let at = x[[i]] as usize;
        assert!(at > i, "");
        y[[at]] = 1.0;
    }
}

/// Calls of C functions in conditions, indices, operands and arguments.
#[prim_func]
fn with_c_functions(x: &Tensor<f32, n>, k: &Tensor<i64, n>, y: &mut Tensor<f32, n>) {
    unsafe extern "C" {
        fn cbrtf(x: f32) -> f32;
        fn labs(x: i64) -> i64;
        fn ldexpf(x: f32, e: i32) -> f32;
        fn getpid() -> i32;
    }
    for i in 0..n {
        if (unsafe { cbrtf(x[[i]] - 1.5) }) > 0.0 && i < (unsafe { labs(i as i64 - 3) }) as usize {
            let t = unsafe { cbrtf(unsafe { ldexpf(2.0, -1) }) };
            y[[i]] = {
                let u = unsafe { cbrtf(t) };
                u * u
            } - t;
        }
        y[[i]] += (unsafe { getpid() } as f32);
        y[[(unsafe { labs(k[[i]]) }) as usize % n]] = unsafe { cbrtf(-0.0) };
    }
}

/// Matched buffers: of parameters and local buffers, of each other, without leading dimensions, with an init.
#[prim_func]
fn with_matched_buffers(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>, z: &mut Tensor<f32, m, n>) {
    for [i, k] in grid([m, n]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            let row = match_buffer(x[[vi, 0..n]]);
            let total = match_buffer(y[[vi..vi + 1]]);
            init(|| total[[0]] = 0.0);
            total[[0]] += row[[vk]];
        });
    }
    for [i, j] in grid([m / 2, n / 4]) {
        block("tile", [S(i), S(j)], |[vi, vj]| {
            let mut t = alloc::<f32>([2, 4]);
            let from = match_buffer(x[[vi * 2..vi * 2 + 2, 4 * vj..n]]);
            let to = match_buffer(z[[vi * 2..vi * 2 + 2, vj * 4..vj * 4 + 4]]);
            let last = match_buffer(t[[1, 0..4]]);
            let point = match_buffer(last[[3]]);
            for [a, b] in grid([2, 4]) {
                t[[a, b]] = from[[a, b]];
            }
            point[[]] = 3.0;
            for [a, b] in grid([2, 4]) {
                to[[a, b]] = t[[a, b]] + last[[b]];
            }
        });
    }
}

/// The programs, with unique names.
pub(crate) fn programs() -> Vec<PrimFunc> {
    let mut res = vec![tiled(), constants(), shapes_of_statements()];
    let calls = [with_helpers::prim_func(), with_calls::prim_func()];
    res.extend(calls.into_iter().map(|func| func.unwrap_or_else(|err| panic!("{err}"))));
    let outside =
        [with_assertions::prim_func(), with_c_functions::prim_func(), with_matched_buffers::prim_func()];
    for func in outside.map(|func| func.unwrap_or_else(|err| panic!("{err}"))) {
        for seed in 0..3 {
            let changed = random(func.clone(), &mut Rng::new(seed));
            res.push(PrimFunc { name: format!("{}_{seed}", func.name).into(), ..changed });
        }
        res.push(func);
    }
    for seed in 0..12 {
        let func = if seed % 2 == 0 { product::prim_func() } else { blur::prim_func() };
        let func = random(func.unwrap_or_else(|err| panic!("{err}")), &mut Rng::new(seed));
        res.push(PrimFunc { name: format!("scheduled_{seed}").into(), ..func });
    }
    res
}

fn random(func: PrimFunc, rng: &mut Rng) -> PrimFunc {
    let mut s = Schedule::new(func).unwrap_or_else(|err| panic!("{err}"));
    for _ in 0..8 {
        let blocks: Vec<String> = s.state().blocks().iter().map(|it| it.block.name.to_string()).collect();
        let Ok(block) = s.block(rng.pick::<String>(&blocks)) else { continue };
        let Ok(loops) = s.get_loops(block) else { continue };
        let Some(&innermost) = loops.last() else { continue };
        let (a, b): (LoopRV, LoopRV) = (*rng.pick(&loops), *rng.pick(&loops));
        let factor = *rng.pick(&[2, 3, 5, 8]);
        // A refused primitive changes nothing.
        let _ = match rng.below(14) {
            0..=2 => s.split(a, [None, Some(factor)]).map(drop),
            3 => s.fuse([a, b]).map(drop),
            4 => s.reorder([a, b]),
            5 => s.parallel(a),
            6 => s.vectorize(innermost),
            7 => s.unroll(innermost),
            8 => s.annotate(a, "pragma_x", factor),
            9 => s.cache_write(block, 0, Scope::Local).map(drop),
            10 => s.transform_layout(block, 0, "IJ", "JI"),
            11 => s.rfactor(a, 0).map(drop),
            12 => s.decompose_padding(block, a).map(drop),
            _ => s.decompose_reduction(block, a).map(drop),
        };
    }
    s.into_func()
}

/// Split factors that do not divide the extent, and annotations.
fn tiled() -> PrimFunc {
    let tile = || -> Result<PrimFunc, Box<dyn std::error::Error>> {
        let mut s = Schedule::new(product::prim_func()?)?;
        let c = s.block("C")?;
        let [i, _, k] = s.loops(c)?;
        let [_, inner] = s.split(i, [Some(3), None])?;
        s.split(k, [None, Some(5)])?;
        s.annotate(inner, "pragma.unroll", 4)?;
        s.annotate(c, "tile", vec![3i64, 5])?;
        Ok(PrimFunc { name: "tiled".into(), ..s.into_func() })
    };
    tile().unwrap_or_else(|err| panic!("{err}"))
}

fn block(name: &str, axes: Vec<IterVar>, body: Stmt) -> Arc<Block> {
    let block = Block { iter_vars: axes.into(), ..Block::new(name, body) };
    Arc::new(tvm::tir::analysis::with_access_regions(block))
}

fn func(name: &str, params: Vec<Param>, root: Block) -> PrimFunc {
    PrimFunc::new(name, params, BlockRealize::opaque(root))
}

/// Stores of constants of every type.
fn constants() -> PrimFunc {
    let ints = [
        (DataType::I8, vec![i64::from(i8::MIN), -1, 0, 127]),
        (DataType::I32, vec![i64::from(i32::MIN), i64::from(i32::MAX)]),
        (DataType::I64, vec![i64::MIN, i64::MIN + 1, -1, i64::MAX]),
        (DataType::U8, vec![0, 255]),
        (DataType::U32, vec![i64::from(u32::MAX)]),
        (DataType::U64, vec![0, 1, i64::MAX, i64::MIN, -1]),
        (DataType::BOOL, vec![0, 1]),
    ];
    let floats = [
        (DataType::F32, vec![f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE), 1e-45, 0.1, 16_777_216.0]),
        (DataType::F64, vec![f64::MAX, 5e-324, 0.1, 1e300]),
        (DataType::F16, vec![65504.0, 6e-8, 0.1]),
        (DataType::BF16, vec![half::bf16::MAX.to_f64(), 1e-40, 0.1]),
    ];
    let (mut params, mut stmts) = (Vec::new(), Vec::new());
    let mut add = |dtype: DataType, values: Vec<PrimExpr>| {
        let y = Buffer::new(format!("y_{dtype}"), [PrimExpr::index(64)], dtype);
        stmts.extend(
            values
                .into_iter()
                .enumerate()
                .map(|(i, value)| Stmt::store(&y, [PrimExpr::index(i as i64)], value)),
        );
        params.push(Param::Out(y));
    };
    for (dtype, values) in ints {
        add(dtype, values.into_iter().map(|it| PrimExpr::int(it, dtype)).collect());
    }
    for (dtype, values) in floats {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.5];
        add(dtype, values.into_iter().chain(special).map(|it| PrimExpr::float(it, dtype)).collect());
    }
    func(
        "constants_of_kernels",
        params,
        Block::root(vec![], BlockRealize::opaque((*block("all", vec![], Stmt::seq(stmts))).clone())),
    )
}

/// Names that collide or are Rust keywords, loops with arbitrary start, domains, predicates, layouts, annotations, and
/// unnecessary variables.
fn shapes_of_statements() -> PrimFunc {
    let n = Var::index("fn");
    let x = Buffer::new("x", [PrimExpr::from(&n)], DataType::I64);
    let y = Buffer::new("x", [PrimExpr::from(&n)], DataType::I64);
    let t = Buffer::with_scope("T", [PrimExpr::index(4), PrimExpr::index(8)], DataType::I64, Scope::Local)
        .renew(|it| {
            it.strides = [PrimExpr::index(16), PrimExpr::index(1)].into();
            it.elem_offset = Some(PrimExpr::index(3));
        });
    let nest = |name: &str,
                min: PrimExpr,
                extent: PrimExpr,
                predicate: PrimExpr,
                dom: Option<Range>,
                body: &dyn Fn(PrimExpr) -> Vec<Stmt>|
     -> Stmt {
        let (i, v) = (Var::index("let"), Var::index("let"));
        let dom = dom.unwrap_or_else(|| Range { min: min.clone(), extent: extent.clone() });
        let axis = IterVar { var: v.clone(), dom, kind: IterKind::Opaque };
        let realize = BlockRealize {
            iter_values: [PrimExpr::from(&i)].into(),
            predicate,
            block: Arc::new(Block {
                annotations: Attrs::new().with("k", 1i64),
                ..(*block(name, vec![axis], Stmt::seq(body((&v).into())))).clone()
            }),
        };
        For {
            loop_var: i,
            min,
            extent,
            kind: ForKind::Serial,
            annotations: Attrs::new().with("a.b", f64::NEG_INFINITY).with("text", "a \"b\"\n"),
            body: realize.into(),
            span: Span::none(),
        }
        .into()
    };
    let load = |at: PrimExpr| x.load([at]);
    let store = |at: PrimExpr, value: PrimExpr| -> Stmt { Stmt::store(&y, [at], value) };
    let yes = || PrimExpr::bool(true);
    let bound = |name: &str, value: PrimExpr| {
        let var = Var::new(name, Type::Prim(value.dtype()));
        (PrimExpr::from(&var), Stmt::from(Bind { var, value }))
    };
    let stmts = vec![
        nest("plain", PrimExpr::index(0), (&n).into(), yes(), None, &|v| vec![store(v.clone(), load(v))]),
        nest(
            "domain",
            PrimExpr::index(0),
            (&n).into(),
            PrimExpr::from(&n).greater(3),
            Some(Range::from_extent(PrimExpr::from(&n) + 7i64)),
            &|v| {
                let ((a, first), (b, second)) = (bound("a", PrimExpr::index(5)), bound("a", load(v.clone())));
                let (c, third) = bound("move", b.clone());
                vec![first, second, third, store(v, a + b + c)]
            },
        ),
        nest("begins", PrimExpr::index(2), PrimExpr::from(&n) - 2i64, yes(), None, &|v| {
            vec![store(v.clone(), load(v - 2i64))]
        }),
        nest("symbolic", PrimExpr::from(&n) - 1i64, PrimExpr::index(1), yes(), None, &|v| {
            vec![store(v.clone(), load(v))]
        }),
        nest("below", PrimExpr::index(-3), PrimExpr::index(5), yes(), None, &|v| {
            vec![store(binary(BinaryOp::Max, v.clone(), 0.into()), v)]
        }),
        nest("counts", PrimExpr::index(0), (&n).into(), yes(), None, &|v| {
            let ones =
                PrimExpr::call(Intrinsic::PopCount, [load(v.clone())], DataType::I64).cast(DataType::U32);
            vec![
                Stmt::store(&t, [PrimExpr::index(0), PrimExpr::index(1)], ones.cast(DataType::I64)),
                store(v, t.load([0, 1].map(PrimExpr::index))),
            ]
        }),
    ];
    let root =
        Block { annotations: Attrs::new().with("root.key", true), ..Block::root(vec![t], Stmt::seq(stmts)) };
    func("self", vec![Param::In(x), Param::Out(y)], root)
}
