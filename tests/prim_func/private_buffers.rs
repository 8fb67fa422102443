//! Iterations of a loop that runs side by side may share no buffer that they write: it is theirs if lowering allocates it in
//! the loop. The lowered programs are run by the strict interpreter, which detects races.

use tvm::codegen;
use tvm::prelude::*;
use tvm::tir::PrimFunc;
use tvm::tir::interp::{Program, Value};
use tvm::tir::schedule::ScheduleError;

#[prim_func]
fn exponents(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    let top = alloc::<f32>([m]);
    for [i, j] in grid([m, n]) {
        block("top", [S(i), R(j)], |[vi, vj]| {
            init(|| top[[vi]] = f32::NEG_INFINITY);
            top[[vi]] = max(top[[vi]], x[[vi, vj]]);
        });
    }
    for [i, j] in grid([m, n]) {
        block("y", [S(i), S(j)], |[vi, vj]| {
            y[[vi, vj]] = exp(x[[vi, vj]] - top[[vi]]);
        });
    }
}

#[prim_func]
fn in_a_while(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    let mut t = alloc::<f32>([1]);
    let mut row = 0i64;
    while row < m as i64 {
        #[parallel]
        for j in 0..n {
            t[[0]] = x[[0, j]] + 1.0;
            y[[row as usize, j]] = t[[0]] * 2.0;
        }
        row += 1;
    }
}

#[prim_func]
fn in_an_else(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    let mut t = alloc::<f32>([1]);
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            if x[[vi, 0]] > 0.5 {
                for j in 0..n {
                    y[[vi, j]] = 0.0;
                }
            } else {
                #[parallel]
                for j in 0..n {
                    t[[0]] = x[[vi, j]] + 1.0;
                    y[[vi, j]] = t[[0]] * 2.0;
                }
            }
        });
    }
}

/// Lowers `func` and runs it in a random order of iterations; the error may be a race.
fn run(func: &PrimFunc, lower: bool) -> Result<Vec<f32>, String> {
    let mut func = func.clone();
    if lower {
        // For the interpreter, which computes exact exponentials.
        let lowered = codegen::lowered(&IRModule::from_prim_func(func), &Target::interpreter());
        func = lowered.map_err(|err| err.to_string())?.pop().ok_or("no program")?.1;
    }
    let x: Vec<f32> = (0..15).map(|i| (i * 7 % 15) as f32 / 10.0).collect();
    let tensor = |data| Tensor::from_vec(data, &[3, 5]).map(Value::Tensor).map_err(|err| err.to_string());
    let mut args = [tensor(x)?, tensor(vec![77.0; 15])?];
    let program = Program::compile(&func).map_err(|err| err.to_string())?;
    let res = if lower { program.strict(1).run(&mut args) } else { program.run(&mut args) };
    res.map_err(|err| format!("{err}\n{func}"))?;
    match &args[1] {
        Value::Tensor(y) => y.to_vec().map_err(|err| err.to_string()),
        other => Err(format!("{other:?}")),
    }
}

type Step = fn(&mut Schedule) -> Result<(), ScheduleError>;

/// Each order of steps that make the iterations of `j` run side by side, `top` be computed in `j`, and `i` run on threads.
#[test]
fn shared_intermediate_buffers_are_not_written_side_by_side() {
    let func = exponents::prim_func().unwrap();
    let want = run(&func, false).unwrap();
    let parallel: Step = |s| {
        let y = s.block("y")?;
        let loops = s.get_loops(y)?;
        s.parallel(loops[loops.len() - 1])
    };
    let compute_at: Step = |s| {
        let (top, y) = (s.block("top")?, s.block("y")?);
        let loops = s.get_loops(y)?;
        s.compute_at(top, loops[loops.len() - 1])
    };
    let threads: [Step; 3] = [
        |s| bind_rows(s, ThreadTag::Vthread),
        |s| bind_rows(s, ThreadTag::BlockIdxX),
        |s| bind_rows(s, ThreadTag::ThreadIdxX),
    ];
    for bind in threads {
        let steps = [parallel, compute_at, bind];
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut s = Schedule::new(func.clone()).unwrap();
            let done = order.map(|step| steps[step](&mut s).is_ok());
            assert!(done[0] && done[1] && !done[2], "{order:?}: the third step is refused\n{}", s.func());
            assert_eq!(run(s.func(), true).unwrap(), want, "{order:?}");
        }
    }
    // Without threads, each iteration has its own buffer.
    let mut s = Schedule::new(func).unwrap();
    compute_at(&mut s).unwrap();
    parallel(&mut s).unwrap();
    assert_eq!(run(s.func(), true).unwrap(), want);
}

fn bind_rows(s: &mut Schedule, tag: ThreadTag) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let loops = s.get_loops(y)?;
    s.bind(loops[0], tag)
}

#[test]
fn buffers_of_loops_in_whiles_and_branches_are_allocated_in_them() {
    for func in [in_a_while::prim_func(), in_an_else::prim_func()] {
        let func = func.unwrap_or_else(|err| panic!("{err}"));
        assert_eq!(run(&func, true).unwrap(), run(&func, false).unwrap(), "{}", func.name);
    }
}
