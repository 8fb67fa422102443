//! Reductions by threads against the programs in order, and schedules that are refused.

use tvm_runtime::DataType;

use crate::ir::{IRModule, Var};
use crate::pass::{PassContext, Pipelines};
use crate::target::Target;
use crate::te::{self, Combiner};
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::Program;
use crate::tir::schedule::{Schedule, ScheduleError};
use crate::tir::testing::arguments;
use crate::tir::{PrimExpr, PrimFunc, Scope, ThreadTag};

/// A row of `x` in one value, by `combiner`, plus the first element of the row.
fn rows(shape: [PrimExpr; 2], combiner: Combiner) -> PrimFunc {
    let [m, n] = shape;
    let x = te::placeholder("x", [m.clone(), n.clone()], DataType::I64);
    let r = te::reduce_axis("r", n);
    let y = te::compute("y", [m.clone()], &[&x], |i: &[PrimExpr]| {
        te::reduce(combiner.clone(), vec![x.at([i[0].clone(), r.expr()])], &[&r])
    });
    let z = te::compute("z", [m], &[&y], |i: &[PrimExpr]| y.at(i.to_vec()) * 2 + 1);
    te::create_prim_func("rows", &[x], &[z]).unwrap()
}

/// The threads of a block along x for a row, and along y for as many rows.
fn by_threads(func: &PrimFunc, [threads, side]: [i64; 2]) -> Result<PrimFunc, ScheduleError> {
    let mut s = Schedule::new(func.clone())?;
    let [y, z] = [s.block("y")?, s.block("z")?];
    let row = s.get_loops(y)?[0];
    let [blocks, own] = s.split(row, [None, Some(side)])?;
    s.reverse_compute_at(z, blocks)?;
    s.set_scope(y, 0, Scope::Shared)?;
    // The value beside a position; a parameter stays where it is.
    s.set_scope(y, 1, Scope::Shared).ok();
    let term = s.get_loops(y)?[2];
    let [_, lane] = s.split(term, [None, Some(threads)])?;
    s.bind(blocks, ThreadTag::BlockIdxX)?;
    if side > 1 {
        s.bind(own, ThreadTag::ThreadIdxY)?;
    }
    s.bind(lane, ThreadTag::ThreadIdxX)?;
    let reader = s.get_loops(z)?[1];
    if side > 1 {
        let unit = s.add_unit_loop(z)?;
        let [_, one] = s.split(unit, [None, Some(threads)])?;
        s.bind(reader, ThreadTag::ThreadIdxY)?;
        s.bind(one, ThreadTag::ThreadIdxX)?;
    } else {
        let [_, reader] = s.split(reader, [None, Some(threads)])?;
        s.bind(reader, ThreadTag::ThreadIdxX)?;
    }
    Ok(s.into_func())
}

fn lower(func: &PrimFunc) -> PrimFunc {
    let context = PassContext::new().target(Target::cuda());
    let module = IRModule::from_prim_func(func.clone());
    let lowered = Pipelines::for_target(&Target::cuda()).tir.apply_in(module, &context);
    let lowered = lowered.unwrap_or_else(|err| panic!("{err}\n{func}"));
    PrimFunc::clone(lowered.prim_func(lowered.functions().next().unwrap().0).unwrap())
}

/// Compares runs of `scheduled`, in order and as threads, with runs of `func`.
fn check(func: &PrimFunc, scheduled: &PrimFunc, dims: &[i64]) -> PrimFunc {
    let lowered = lower(scheduled);
    let mut want = arguments(func, dims);
    Program::compile(func).unwrap().run(&mut want).unwrap();
    for (program, seed) in [(scheduled, 0), (&lowered, 1), (&lowered, 2)] {
        let mut got = arguments(func, dims);
        let run = Program::compile(program).unwrap().strict(seed).run(&mut got);
        run.unwrap_or_else(|err| panic!("{err}\n{program}"));
        for (got, want) in got.iter().zip(&want) {
            let (got, want) = (got.as_tensor().unwrap(), want.as_tensor().unwrap());
            assert_eq!(got.bytes().unwrap(), want.bytes().unwrap(), "{dims:?}: {program}");
        }
    }
    lowered
}

#[test]
fn threads_combine_their_terms() {
    let free = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let combiners = [Combiner::sum, Combiner::max, Combiner::min, Combiner::prod];
    let shapes = [[32, 1], [64, 1], [7, 1], [96, 1], [2, 5], [100, 1], [32, 4], [64, 2], [6, 3], [256, 1]];
    for (at, shape) in shapes.into_iter().enumerate() {
        let func = rows(free.clone(), combiners[at % 4](DataType::I64));
        let scheduled = by_threads(&func, shape).unwrap_or_else(|err| panic!("{shape:?}: {err}"));
        for dims in [[1, 1], [5, 70], [3, 0], [0, 4], [2, 33], [1, 600]] {
            check(&func, &scheduled, &dims);
        }
        let func = rows([5, 77].map(PrimExpr::index), combiners[at / 3](DataType::I64));
        let scheduled = by_threads(&func, shape).unwrap_or_else(|err| panic!("{shape:?}: {err}"));
        let lowered = check(&func, &scheduled, &[]);
        let exchanges = lowered.to_string().contains("warp_shuffle_xor");
        assert_eq!(exchanges, shape[0] % 32 == 0, "{lowered}");
        let kernels = DeviceKernel::all(&lowered);
        let [kernel] = &kernels[..] else { panic!("one kernel is expected: {lowered}") };
        assert_eq!(kernel.block()[0].as_int(), Some(shape[0]));
    }
}

/// Position and value of the largest or smallest element of each row; of floats, some are NaN, and many are equal.
fn positions(shape: [PrimExpr; 2], dtype: DataType, (largest, last): (bool, bool)) -> PrimFunc {
    let [m, n] = shape;
    let x = te::placeholder("x", [m.clone(), n.clone()], DataType::I64);
    let r = te::reduce_axis("r", n);
    let y = te::compute_many("y", vec![m.clone()], &[&x], |i: &[PrimExpr]| {
        let value = x.at([i[0].clone(), r.expr()]).floormod(11);
        let element = if dtype.is_float() {
            let nan = PrimExpr::float(f64::NAN, dtype);
            value.clone().equal(3).and(i[0].clone().floormod(2).equal(0)).select(nan, value.cast(dtype))
        } else {
            value.cast(dtype)
        };
        te::reduce(Combiner::arg_extreme(dtype, largest, last), vec![r.expr(), element], &[&r])
    });
    let z = te::compute("z", [m], &[&y[0]], |i: &[PrimExpr]| y[0].at(i.to_vec()) * 2);
    te::create_prim_func("positions", &[x], &[z]).unwrap()
}

#[test]
fn threads_combine_positions_and_values() {
    let free = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let types = [DataType::F32, DataType::I32, DataType::F16, DataType::F64, DataType::BF16, DataType::U8];
    let shapes = [[32, 1], [64, 1], [7, 1], [96, 1], [2, 5], [100, 1], [32, 4], [64, 2], [6, 3], [256, 1]];
    for (at, shape) in shapes.into_iter().enumerate() {
        let func = positions(free.clone(), types[at % 6], (at % 2 == 0, at % 4 > 1));
        let scheduled = by_threads(&func, shape).unwrap_or_else(|err| panic!("{shape:?}: {err}"));
        for dims in [[1, 1], [5, 70], [3, 0], [0, 4], [2, 33], [1, 600]] {
            check(&func, &scheduled, &dims);
        }
        let func = positions([5, 77].map(PrimExpr::index), types[at / 2], (at % 3 == 0, at % 5 > 1));
        let scheduled = by_threads(&func, shape).unwrap_or_else(|err| panic!("{shape:?}: {err}"));
        let lowered = check(&func, &scheduled, &[]);
        let exchanges = lowered.to_string().contains("warp_shuffle_xor");
        assert_eq!(exchanges, shape[0] % 32 == 0, "{lowered}");
        assert_eq!(DeviceKernel::all(&lowered).len(), 1, "{lowered}");
    }
}

/// A loop over terms that threads may not divide is refused when it is bound, with the reason.
#[test]
fn other_loops_over_terms_are_refused() {
    type Change = fn(&mut Schedule) -> Result<(), ScheduleError>;
    fn sum(s: &mut Schedule) -> Result<(), ScheduleError> {
        let y = s.block("y")?;
        let [_, term] = s.loops(y)?;
        s.bind(term, ThreadTag::ThreadIdxX)
    }
    let cases: [(&str, Change); 6] = [
        ("by 2000 threads", sum),
        ("drives the Reduce axis", |s| {
            let y = s.block("y")?;
            let [_, term] = s.loops(y)?;
            s.bind(term, ThreadTag::BlockIdxX)
        }),
        ("over results inside of a loop over terms", |s| {
            let y = s.block("y")?;
            let [row, term] = s.loops(y)?;
            let [_, lane] = s.split(term, [None, Some(8)])?;
            s.reorder([lane, row])?;
            s.bind(lane, ThreadTag::ThreadIdxX)
        }),
        ("is not alone in its loops over terms", |s| {
            let y = s.block("y")?;
            let [_, term] = s.loops(y)?;
            let [part, lane] = s.split(term, [None, Some(8)])?;
            let copy = s.cache_read(y, 0, Scope::Shared)?;
            s.compute_at(copy, part)?;
            s.bind(lane, ThreadTag::ThreadIdxX)
        }),
        ("memory of each thread", |s| {
            let y = s.block("y")?;
            s.set_scope(y, 0, Scope::Local)?;
            let [_, term] = s.loops(y)?;
            let [_, lane] = s.split(term, [None, Some(8)])?;
            s.bind(lane, ThreadTag::ThreadIdxX)
        }),
        ("depend on each other", |s| {
            let y = s.block("y")?;
            let [_, term] = s.loops(y)?;
            let [_, lane] = s.split(term, [None, Some(8)])?;
            s.vectorize(lane)
        }),
    ];
    let func = rows([4, 2000].map(PrimExpr::index), Combiner::sum(DataType::I64));
    for (want, change) in cases {
        let err = change(&mut Schedule::new(func.clone()).unwrap()).unwrap_err();
        assert!(err.to_string().contains(want), "{want}: {err}");
    }
}

/// What is computed beside the terms afterwards breaks the loops of the reduction: the primitive is refused.
#[test]
fn later_steps_keep_the_reduction_alone() {
    let func = rows([4, 64].map(PrimExpr::index), Combiner::sum(DataType::I64));
    let mut s = Schedule::new(func).unwrap();
    let y = s.block("y").unwrap();
    let [_, term] = s.loops(y).unwrap();
    let [part, lane] = s.split(term, [None, Some(32)]).unwrap();
    s.bind(lane, ThreadTag::ThreadIdxX).unwrap();
    let copy = s.cache_read(y, 0, Scope::Shared).unwrap();
    let err = s.compute_at(copy, part).unwrap_err();
    assert!(err.to_string().contains("not alone in its loops over terms"), "{err}");
}
