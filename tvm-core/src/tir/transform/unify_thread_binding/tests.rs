//! Tests of the pipeline for GPUs: scheduled programs are run by the interpreter as threads, before and after lowering.

use tvm_runtime::DataType;

use crate::ir::{IRModule, Var};
use crate::pass::PassContext;
use crate::pipeline::lower_cuda;
use crate::target::Target;
use crate::te;
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::{InterpErrorKind, Program, Value};
use crate::tir::schedule::Schedule;
use crate::tir::testing::{arguments, dense};
use crate::tir::{
    AllocBuffer, Bind, Block, BlockRealize, Buffer, Evaluate, For, ForKind, Intrinsic, Mutator, Param,
    PrimCallee, PrimExpr, PrimFunc, Scope, Stmt, ThreadTag,
};

const I64: DataType = DataType::I64;

pub(in crate::tir::transform) fn lower(func: &PrimFunc) -> Result<PrimFunc, String> {
    let module = IRModule::from_prim_func(func.clone());
    let context = PassContext::new().target(Target::cuda());
    let lowered = lower_cuda().apply_in(module, &context).map_err(|err| err.to_string())?;
    let func = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
    Ok((**func).clone())
}

/// Runs `func` plainly, and what it is lowered to in several orders of its threads; the results must be the same.
pub(in crate::tir::transform) fn check(func: &PrimFunc, dims: &[i64]) -> PrimFunc {
    let mut want = arguments(func, dims);
    Program::compile(func).unwrap().run(&mut want).unwrap();
    let lowered = lower(func).unwrap_or_else(|err| panic!("{err}\n{func}"));
    let program = Program::compile(&lowered).unwrap();
    for seed in 0..6 {
        let mut got = arguments(func, dims);
        program.strict(seed).run(&mut got).unwrap_or_else(|err| panic!("{err}\n{func}\n{lowered}"));
        for (got, want) in got.iter().zip(&want) {
            let (got, want) = (got.as_tensor().unwrap(), want.as_tensor().unwrap());
            assert_eq!(got.bytes().unwrap(), want.bytes().unwrap(), "{func}\n{lowered}");
        }
    }
    lowered
}

/// `x w` in tiles of 4 × 4 × 4, whose operands are in shared memory.
fn tiled(m: PrimExpr, n: PrimExpr, k: PrimExpr) -> PrimFunc {
    tiled_with(m, n, k, &[])
}

/// The same; the loop over groups of terms has these annotations.
pub(in crate::tir::transform) fn tiled_with(
    m: PrimExpr,
    n: PrimExpr,
    k: PrimExpr,
    hints: &[&str],
) -> PrimFunc {
    let x = te::placeholder("x", [m.clone(), k.clone()], I64);
    let w = te::placeholder("w", [k.clone(), n.clone()], I64);
    let r = te::reduce_axis("r", k);
    let y = te::compute("y", [m, n], &[&x, &w], |i: &[PrimExpr]| {
        te::sum(x.at([i[0].clone(), r.expr()]) * w.at([r.expr(), i[1].clone()]), &[&r])
    });
    let mut s = Schedule::new(te::create_prim_func("product", &[x, w], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [i, j, r] = s.loops(y).unwrap();
    let [io, ii] = s.split(i, [None, Some(4)]).unwrap();
    let [jo, ji] = s.split(j, [None, Some(4)]).unwrap();
    let [ro, ri] = s.split(r, [None, Some(4)]).unwrap();
    s.reorder([io, jo, ro, ii, ji, ri]).unwrap();
    for operand in 0..2 {
        let tile = s.cache_read(y, operand, Scope::Shared).unwrap();
        s.compute_at(tile, ro).unwrap();
        let loops = s.get_loops(tile).unwrap();
        let [.., row, column] = loops[..] else { panic!("a tile has two loops") };
        s.bind(row, ThreadTag::ThreadIdxY).unwrap();
        s.bind(column, ThreadTag::ThreadIdxX).unwrap();
    }
    let init = s.decompose_reduction(y, ro).unwrap();
    let loops = s.get_loops(init).unwrap();
    let [.., row, column] = loops[..] else { panic!("the first values have two loops of their own") };
    for (target, tag) in [
        (io, ThreadTag::BlockIdxY),
        (jo, ThreadTag::BlockIdxX),
        (row, ThreadTag::ThreadIdxY),
        (column, ThreadTag::ThreadIdxX),
        (ii, ThreadTag::ThreadIdxY),
        (ji, ThreadTag::ThreadIdxX),
    ] {
        s.bind(target, tag).unwrap();
    }
    for hint in hints {
        s.annotate(ro, hint, true).unwrap();
    }
    s.into_func()
}

pub(in crate::tir::transform) fn barriers(func: &PrimFunc) -> usize {
    let mut count = 0;
    let mut without = Without { left: usize::MAX, seen: &mut count };
    let _ = without.mutate_stmt(&func.body);
    count
}

/// Removes the barrier number `left`.
pub(in crate::tir::transform) struct Without<'a> {
    pub(in crate::tir::transform) left: usize,
    pub(in crate::tir::transform) seen: &'a mut usize,
}

impl Mutator for Without<'_> {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::Evaluate(it) = stmt
            && let PrimExpr::Call(call) = &it.value
            && call.callee == PrimCallee::Intrinsic(Intrinsic::StorageSync)
        {
            *self.seen += 1;
            return (*self.seen - 1 == self.left).then(Stmt::nop);
        }
        self.walk_stmt(stmt)
    }
}

#[test]
fn tiles_in_shared_memory() {
    let sizes = [4, 8, 6].map(PrimExpr::index);
    let lowered = check(&tiled(sizes[0].clone(), sizes[1].clone(), sizes[2].clone()), &[]);
    let kernels = DeviceKernel::all(&lowered);
    assert_eq!(kernels.len(), 1, "{lowered}");
    assert_eq!(kernels[0].shared.len(), 2, "{lowered}");
    let extents = |it: [PrimExpr; 3]| it.map(|it| it.as_int());
    assert_eq!(extents(kernels[0].grid()), [Some(2), Some(1), Some(1)]);
    assert_eq!(extents(kernels[0].block()), [Some(4), Some(4), Some(1)]);
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let free = tiled(m, n, k);
    for dims in [[4, 4, 4], [5, 3, 7], [1, 2, 9], [9, 8, 7]] {
        let [m, n, k] = dims;
        check(&free, &[m, k, n]);
    }
}

/// Each barrier is needed.
#[test]
fn removed_barriers_are_found() {
    let [m, n, k] = [4, 8, 12].map(PrimExpr::index);
    let lowered = check(&tiled(m, n, k), &[]);
    let count = barriers(&lowered);
    assert!(count >= 2, "{lowered}");
    for left in 0..count {
        let mut seen = 0;
        let body = Without { left, seen: &mut seen }.mutate_stmt(&lowered.body).unwrap();
        let mutant = Program::compile(&PrimFunc { body, ..lowered.clone() }).unwrap();
        let mut args = Vec::new();
        let [x, w, y] = [[4, 12], [12, 8], [4, 8]];
        for shape in [x, w, y] {
            let data: Vec<i64> = (0..shape[0] * shape[1]).collect();
            args.push(Value::Tensor(tvm_runtime::Tensor::from_slice(&data, &shape).unwrap()));
        }
        let err = mutant.strict(1).run(&mut args).unwrap_err();
        let found = matches!(err.kind, InterpErrorKind::Race { .. } | InterpErrorKind::Uninitialised { .. });
        assert!(found, "barrier {left}: {err}");
    }
}

/// Programs without a schedule run as well.
#[test]
fn programs_without_threads() {
    let sizes = [3, 5, 4].map(PrimExpr::index);
    let lowered = check(&dense(sizes[0].clone(), sizes[1].clone(), sizes[2].clone()), &[]);
    assert!(DeviceKernel::all(&lowered).len() >= 2, "{lowered}");
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let free = dense(m, n, k);
    for [m, n, k] in [[1, 1, 1], [3, 2, 5]] {
        check(&free, &[m, k, n]);
    }
}

fn bound(tag: ThreadTag, var: &Var, extent: impl Into<PrimExpr>, body: Stmt) -> Stmt {
    For { kind: ForKind::ThreadBinding(tag), ..For::serial(var.clone(), extent, body) }.into()
}

fn program(body: impl FnOnce(&Buffer, &Buffer) -> Stmt) -> PrimFunc {
    let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [PrimExpr::index(4096)], I64));
    let root = BlockRealize::opaque(Block::root(vec![], body(&x, &y)));
    PrimFunc::new("f", [Param::In(x), Param::Out(y)], root)
}

#[test]
fn launches_that_a_gpu_cannot_run() {
    use ThreadTag::{BlockIdxX, BlockIdxY, ThreadIdxX, ThreadIdxY, ThreadIdxZ};
    let simple = |loops: &[(ThreadTag, i64)]| {
        program(|x, y| {
            let vars: Vec<Var> = loops.iter().map(|(tag, _)| Var::index(tag.name())).collect();
            let mut at = PrimExpr::index(0);
            for (var, (_, extent)) in vars.iter().zip(loops) {
                at = at * *extent + PrimExpr::from(var);
            }
            let at = at.floormod(4096);
            let inside = Stmt::store(y, [at.clone()], x.load([at]));
            let first = PrimExpr::from(&vars[0]).less(1);
            let store = Stmt::if_then_else(first, inside, None);
            vars.iter()
                .zip(loops)
                .rev()
                .fold(store, |body, (var, (tag, extent))| bound(*tag, var, *extent, body))
        })
    };
    for (loops, want) in [
        (&[(ThreadIdxX, 2048)][..], "threadIdx.x has 2048 values in this kernel, sm_80 has at most 1024"),
        (&[(ThreadIdxZ, 128)], "threadIdx.z has 128 values in this kernel, sm_80 has at most 64"),
        (
            &[(ThreadIdxY, 64), (ThreadIdxX, 64)],
            "a block has 4096 threads in this kernel, sm_80 runs at most 1024",
        ),
        (&[(BlockIdxY, 65536)], "blockIdx.y has 65536 values in this kernel, sm_80 has at most 65535"),
        (
            &[(ThreadIdxX, 4), (BlockIdxX, 4)],
            "loop `blockIdx.x` over blockIdx.x is inside of a loop over the threads",
        ),
        (
            &[(ThreadIdxX, 4), (ThreadIdxX, 4)],
            "loop `threadIdx.x` over threadIdx.x is inside of a loop over threadIdx.x",
        ),
    ] {
        let func = simple(loops);
        let err = unchecked(&func).unwrap_err();
        assert!(err.contains(want), "{err}");
    }
}

/// Lowers without the check of independence, which most of the malformed programs here fail first.
fn unchecked(func: &PrimFunc) -> Result<PrimFunc, String> {
    let module = IRModule::from_prim_func(func.clone());
    let context = PassContext::new().target(Target::cuda());
    let passes = lower_cuda();
    let passes =
        passes.parts().iter().filter(|it| !["CheckLoopKinds", "CheckBounds"].contains(&it.info.name));
    let mut module = module;
    for pass in passes.cloned().collect::<Vec<_>>() {
        module = pass.apply_in(module, &context).map_err(|err| err.to_string())?;
    }
    let func = module.prim_func(module.functions().next().unwrap().0).unwrap();
    Ok((**func).clone())
}

#[test]
fn kernels_that_are_no_program_of_one_thread() {
    let [bx, tx, ty] = ["bx", "tx", "ty"].map(Var::index);
    let at = |var: &Var| PrimExpr::from(var);
    let differ = program(|x, y| {
        let a = bound(ThreadTag::ThreadIdxX, &tx, 4, Stmt::store(y, [at(&tx)], x.load([at(&tx)])));
        let b = bound(ThreadTag::ThreadIdxX, &ty, 8, Stmt::store(y, [at(&ty) + 8], x.load([at(&ty)])));
        bound(ThreadTag::BlockIdxX, &bx, 1, Stmt::seq([a, b]))
    });
    let alone = program(|x, y| {
        let a = bound(ThreadTag::ThreadIdxX, &tx, 4, Stmt::store(y, [at(&tx)], x.load([at(&tx)])));
        bound(ThreadTag::BlockIdxX, &bx, 1, Stmt::seq([a, Stmt::store(y, [at(&bx) + 9], PrimExpr::index(1))]))
    });
    let late = program(|x, y| {
        let extent = x.load([at(&bx)]);
        let a = bound(ThreadTag::ThreadIdxX, &tx, extent, Stmt::store(y, [at(&tx)], x.load([at(&tx)])));
        bound(ThreadTag::BlockIdxX, &bx, 1, a)
    });
    let divergent = program(|x, y| {
        let barrier =
            PrimExpr::call(Intrinsic::StorageSync, [PrimExpr::StringImm("shared".into())], DataType::I32);
        let store = Stmt::store(y, [at(&tx)], x.load([at(&tx)]));
        let inside = Stmt::seq([store, Evaluate { value: barrier }.into()]);
        let some = Stmt::if_then_else(at(&tx).less(3), inside, None);
        bound(ThreadTag::ThreadIdxX, &tx, 4, some)
    });
    let large = program(|x, y| {
        let tile = Buffer::with_scope("tile", [PrimExpr::index(9000)], I64, Scope::Shared);
        let each = |var: &Var, body: &dyn Fn(PrimExpr) -> Stmt| {
            let i = Var::index("i");
            let inner = For::serial(i.clone(), 2250, body(at(var) * 2250 + PrimExpr::from(&i)));
            bound(ThreadTag::ThreadIdxX, var, 4, inner.into())
        };
        let fill = each(&tx, &|at| Stmt::store(&tile, [at.clone()], x.load([at.floormod(4096)])));
        let drain = each(&ty, &|at| Stmt::store(y, [at.clone().min(4095)], tile.load([at])));
        let alloc = AllocBuffer::new(tile.clone()).into();
        Stmt::seq([alloc, bound(ThreadTag::BlockIdxX, &bx, 1, Stmt::seq([fill, drain]))])
    });
    for (func, want) in [
        (
            differ,
            "loop `ty` over threadIdx.x has 8 iterations, another loop over threadIdx.x of the same kernel has 4",
        ),
        (alone, "a store to `y` is in a kernel with loops over threadIdx.x, but in none of these loops"),
        (late, "the number of iterations of loop `tx` over threadIdx.x is not known at the launch"),
        (divergent, "threads wait for each other in a branch that not all of them take"),
        (large, "a block has 72000 bytes in the scope `shared` in this kernel, sm_80 has at most 49152"),
    ] {
        let err = unchecked(&func).map(|it| it.to_string()).unwrap_err();
        assert!(err.contains(want), "{err}");
    }
}

/// Each thread of a block fills a part of a tile of so many elements, in the scope `shared.dyn`, and reads another one.
fn filled(elements: PrimExpr) -> PrimFunc {
    let [bx, t, u] = ["bx", "t", "u"].map(Var::index);
    program(|x, y| {
        let tile = Buffer::with_scope("tile", [elements.clone()], I64, Scope::SharedDyn);
        let each = |var: &Var, body: &dyn Fn(PrimExpr) -> Stmt| {
            let i = Var::index("i");
            let part = elements.clone().floordiv(4);
            let at = PrimExpr::from(var) * &part + PrimExpr::from(&i);
            bound(ThreadTag::ThreadIdxX, var, 4, For::serial(i, part, body(at)).into())
        };
        let fill = each(&t, &|at| Stmt::store(&tile, [at.clone()], x.load([at.floormod(4096)])));
        let drain = each(&u, &|at| Stmt::store(y, [at.clone().min(4095)], tile.load([at])));
        let alloc = AllocBuffer::new(tile.clone()).into();
        Stmt::seq([alloc, bound(ThreadTag::BlockIdxX, &bx, 1, Stmt::seq([fill, drain]))])
    })
}

/// More shared memory than a kernel has by itself is asked for at the launch.
#[test]
fn memory_of_the_launch() {
    let lowered = unchecked(&filled(9000.into())).unwrap();
    let [kernel] = &DeviceKernel::all(&lowered)[..] else { panic!("{lowered}") };
    assert_eq!(kernel.dynamic().bytes.as_int(), Some(72_000));
    let err = unchecked(&filled(20_868.into())).map(|it| it.to_string()).unwrap_err();
    let want = "a block has 166944 bytes of shared memory in this kernel, sm_80 has at most 166912";
    assert!(err.contains(want), "{err}");
}

/// Iterations that write other elements of shared memory than the others do not wait for each other.
#[test]
fn loops_that_fill_shared_memory() {
    /// The place that an iteration of a thread writes, of the iteration, a number that it binds, and the thread.
    type Place = fn(PrimExpr, PrimExpr, PrimExpr) -> PrimExpr;
    let kernel = |binds: bool, place: Place| {
        program(|x, y| {
            let tile = Buffer::with_scope("tile", [PrimExpr::index(32)], I64, Scope::Shared);
            let fill = |binds: bool, place: Place| {
                let [i, a, t] = ["i", "a", "t"].map(Var::index);
                let [at_i, at_a, at_t] = [&i, &a, &t].map(PrimExpr::from);
                let number = if binds { at_a } else { PrimExpr::index(0) };
                let place = place(at_i.clone(), number, at_t.clone());
                let store = Stmt::store(&tile, [place], x.load([at_i.clone() * 8 + at_t]));
                let bind = Bind { var: a, value: at_i.floormod(2) }.into();
                let store = bound(ThreadTag::ThreadIdxX, &t, 8, store);
                let body = Stmt::seq(binds.then_some(bind).into_iter().chain([store]));
                Stmt::from(For::serial(i, 4, body))
            };
            let [bx, t, j] = ["bx", "t", "j"].map(Var::index);
            let at = PrimExpr::from(&j) * 8 + PrimExpr::from(&t);
            let read = Stmt::store(y, [PrimExpr::from(&bx) * 32 + &at], tile.load([at]));
            let read = bound(ThreadTag::ThreadIdxX, &t, 8, For::serial(j, 4, read).into());
            let loops = [fill(false, |i, _, t| i * 8 + t), fill(binds, place), read];
            let alloc = Stmt::from(AllocBuffer::new(tile.clone()));
            let body = Stmt::seq([alloc].into_iter().chain(loops));
            bound(ThreadTag::BlockIdxX, &bx, 2, body)
        })
    };
    let apart = check(&kernel(false, |i, _, t| i * 8 + t), &[]);
    assert_eq!(barriers(&apart), 2, "before the second loop and after it: {apart}");
    check(&kernel(false, |_, _, t| t + 5), &[]);
    let unknown = lower(&kernel(true, |i, a, t| i * 8 + t - a * 5)).unwrap_err();
    assert!(unknown.contains("iterations depend on each other"), "{unknown}");
}

/// Memory that each iteration has for itself: of a constant size in the thread, of any size in a part of an allocation of the
/// host.
#[test]
fn memory_of_threads() {
    for known in [true, false] {
        let n = PrimExpr::from(Var::index("n"));
        let [x, y] = ["x", "y"].map(|name| Buffer::new(name, [n.clone()], I64));
        let size = if known { PrimExpr::index(3) } else { n.clone() };
        let own = Buffer::new("own", [size.clone()], I64);
        let [i, j, k] = ["i", "j", "k"].map(Var::index);
        let at = |var: &Var| [PrimExpr::from(var)];
        let fill = Stmt::store(&own, at(&j), x.load(at(&i)) + PrimExpr::from(&j));
        let fill = Stmt::from(For::serial(j.clone(), size.clone(), fill));
        let sum = Stmt::store(&y, at(&i), y.load(at(&i)) + own.load(at(&k)));
        let sum = Stmt::from(For::serial(k.clone(), size, sum));
        let first = Stmt::store(&y, at(&i), PrimExpr::index(0));
        let alloc = AllocBuffer::new(own.clone()).into();
        let body = Stmt::seq([alloc, fill, first, sum]);
        let body = For { kind: ForKind::Parallel, ..For::serial(i.clone(), n.clone(), body) }.into();
        let root = BlockRealize::opaque(Block::root(vec![], body));
        let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], root);
        for n in [0, 1, 5, 300] {
            let lowered = check(&func, &[n]);
            let kernels = DeviceKernel::all(&lowered);
            assert_eq!(kernels.len(), 1, "{lowered}");
            let workspace = kernels[0].buffers.iter().any(|it| &*it.name == "own");
            assert_eq!(workspace, !known, "{lowered}");
        }
    }
}

/// A kernel with a negative number of blocks has no memory for its threads.
#[test]
fn kernels_without_iterations() {
    let [m, n, i, j, k] = ["m", "n", "i", "j", "k"].map(Var::index);
    let buffer = |name: &str, extent: &Var| Buffer::new(name, [PrimExpr::from(extent)], I64);
    let (x, y) = (buffer("x", &m), buffer("y", &n));
    let own = Buffer::with_scope("own", [PrimExpr::from(&m)], I64, Scope::Local);
    let at = |var: &Var| [PrimExpr::from(var)];
    let each = |var: &Var, body: Stmt| Stmt::from(For::serial(var.clone(), PrimExpr::from(&m), body));
    let body = Stmt::seq([
        AllocBuffer::new(own.clone()).into(),
        each(&j, Stmt::store(&own, at(&j), x.load(at(&j)) * 2)),
        each(&k, Stmt::store(&y, at(&i), own.load(at(&k)))),
    ]);
    let kernel = bound(ThreadTag::BlockIdxX, &i, PrimExpr::from(&n) - 2, body);
    let root = BlockRealize::opaque(Block::root(vec![], kernel));
    let func = PrimFunc::new("f", [Param::In(x), Param::Out(y)], root);
    for dims in [[3, 5], [2, 1], [2, 0], [0, 4]] {
        check(&func, &dims);
    }
}
