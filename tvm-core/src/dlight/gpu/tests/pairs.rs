//! Reductions of pairs: positions of extremes, and maximum and sum of a softmax in one sweep.

use tvm_runtime::{DataType, Tensor};

use super::{check, rules};
use crate::dlight::gpu::schedule_for_gpu;
use crate::ir::{IRModule, Var};
use crate::pass::{PassContext, Pipelines};
use crate::target::{GpuArch, Target};
use crate::te::{self, TensorExpr};
use crate::tir::analysis::DeviceKernel;
use crate::tir::interp::{Program, Value};
use crate::tir::{PrimExpr, PrimFunc};
use crate::topi;

/// Floats of few values, some of them NaN or infinite, at the places of `x`.
fn elements(x: &TensorExpr, dtype: DataType) -> TensorExpr {
    te::compute("elements", x.shape().to_vec(), &[x], |i: &[PrimExpr]| {
        let value = x.at(i.to_vec()).floormod(13);
        let of = |number: f64| PrimExpr::float(number, dtype);
        let row = i[0].clone().floormod(4);
        let special = |at: i64, kind: i64| value.clone().equal(at).and(row.clone().equal(kind));
        let plain = special(3, 1).select(of(f64::NAN), value.clone().cast(dtype));
        let plain = special(5, 2).select(of(f64::INFINITY), plain);
        row.equal(3).select(of(f64::NEG_INFINITY), plain)
    })
}

fn position(shape: &[PrimExpr], axis: usize, (largest, last): (bool, bool), dtype: DataType) -> PrimFunc {
    let x = te::placeholder("x", shape.to_vec(), DataType::I64);
    let of = match dtype {
        DataType::I64 => x.clone(),
        _ if dtype.is_float() => elements(&x, dtype),
        _ => te::compute("narrow", shape.to_vec(), &[&x], |i: &[PrimExpr]| {
            x.at(i.to_vec()).floormod(13).cast(dtype)
        }),
    };
    let y = topi::arg_extreme("y", &of, &[axis], false, largest, last);
    te::create_prim_func("position", &[x], &[y]).unwrap()
}

#[test]
fn positions_of_extremes_by_threads() {
    let [m, n] = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let int = PrimExpr::index;
    let kinds = [(true, false), (true, true), (false, false), (false, true)];
    let types = [DataType::F32, DataType::F16, DataType::I32, DataType::BF16, DataType::U8, DataType::F64];
    // A shape, the axis that is reduced, the values of its dimensions, and the rules.
    type Case<'a> = (&'a [PrimExpr], usize, &'a [&'a [i64]], &'a [&'a str]);
    let cases: [Case<'_>; 8] = [
        (&[int(8), int(300)], 1, &[&[]], &["reduction"]),
        (&[int(40), int(33)], 1, &[&[]], &["reduction"]),
        (&[m.clone(), n.clone()], 1, &[&[5, 70], &[1, 1], &[0, 3], &[4, 1000]], &["reduction"]),
        (&[int(2), int(600)], 1, &[&[]], &["reduction"]),
        (&[int(100), int(70)], 0, &[&[]], &["columns"]),
        (&[int(700), int(64)], 0, &[&[]], &["columns"]),
        (&[m.clone(), n.clone()], 0, &[&[70, 5], &[1, 1], &[3, 64]], &["columns"]),
        (&[int(12), int(7)], 1, &[&[]], &["fallback"]),
    ];
    for (at, (shape, axis, dims, want)) in cases.into_iter().enumerate() {
        assert_eq!(rules(&position(shape, axis, kinds[at % 4], DataType::I64)), want);
        for (also, kind) in kinds.into_iter().enumerate() {
            for dtype in [types[(at + also) % 6], DataType::I64] {
                let func = position(shape, axis, kind, dtype);
                dims.iter().for_each(|dims| drop(check(&func, dims)));
            }
        }
    }
    let kernels = check(&position(&[int(2), int(9000)], 1, (true, true), DataType::I64), &[]);
    assert_eq!(kernels.len(), 2, "parts, and their results: {kernels:?}");
}

/// A row, what is computed from it, and positions in that: one kernel.
#[test]
fn positions_after_other_reductions() {
    for (shape, kind) in [([6, 70], (true, false)), ([40, 300], (false, true)), ([3, 5000], (true, true))] {
        let x = te::placeholder("x", shape.map(PrimExpr::index), DataType::I64);
        let r = te::reduce_axis("r", shape[1]);
        let least = te::compute("least", [PrimExpr::index(shape[0])], &[&x], |i: &[PrimExpr]| {
            te::min(x.at([i[0].clone(), r.expr()]).floormod(13), &[&r])
        });
        let far = te::compute("far", x.shape().to_vec(), &[&x, &least], |i: &[PrimExpr]| {
            (x.at(i.to_vec()).floormod(13) - least.at([i[0].clone()])).floormod(5)
        });
        let y = topi::arg_extreme("y", &far, &[1], false, kind.0, kind.1);
        let func = te::create_prim_func("positions", &[x], &[y]).unwrap();
        assert_eq!(rules(&func), ["rows"], "{shape:?}");
        assert_eq!(check(&func, &[]).len(), 1, "{shape:?}");
    }
}

/// Softmax, or its logarithm, of rows.
fn of_rows(shape: &[PrimExpr], dtype: DataType, log: bool) -> PrimFunc {
    let x = te::placeholder("x", shape.to_vec(), dtype);
    let y = if log { topi::log_softmax(&x, shape.len() - 1) } else { topi::softmax(&x, shape.len() - 1) };
    te::create_prim_func("rows", &[x], &[y]).unwrap()
}

/// Runs `func` on `x`.
fn run(func: &PrimFunc, x: &[f64], shape: &[i64], as_threads: bool) -> Vec<f64> {
    let tensor = |data: &[f64]| Value::Tensor(Tensor::from_slice(data, shape).unwrap());
    let mut args = vec![tensor(x), tensor(&vec![-77.0; x.len()])];
    let program = Program::compile(func).unwrap();
    let ran = if as_threads { program.strict(1).run(&mut args) } else { program.run(&mut args) };
    ran.unwrap_or_else(|err| panic!("{err}\n{func}"));
    args[1].as_tensor().unwrap().to_vec().unwrap()
}

#[test]
fn maximum_and_sum_of_long_rows_in_one_sweep() {
    let target = Target::cuda().with_arch("sm_90".parse().unwrap());
    let context = PassContext::new().target(target.clone());
    // A row fits a multiprocessor up to 26880 elements.
    let cases = [(13_441, false), (26_880, true), (26_881, false), (26_881, true)];
    for (length, log) in cases {
        let func = of_rows(&[5, length].map(PrimExpr::index), DataType::F64, log);
        let module = IRModule::from_prim_func(func.clone());
        let lowered = Pipelines::for_target(&target).tir.apply_in(module, &context).unwrap();
        let lowered = lowered.prim_func(lowered.functions().next().unwrap().0).unwrap();
        let text = lowered.to_string();
        assert!(text.contains("max_part") && text.contains("sum_part"), "{text}");
        assert_eq!(text.contains("abs("), length > 26_880, "{text}");
        assert_eq!(DeviceKernel::all(lowered).len(), 1, "{text}");
        let row = |at: i64| -> Vec<f64> {
            let of = |j: i64| match (at, j) {
                (0, _) => ((j * 37) % 101) as f64 / 7.0 - 5.0,
                (1, 700) => f64::NAN,
                (2, 1001) => f64::INFINITY,
                (3, _) => f64::NEG_INFINITY,
                (4, _) if j % 3 == 0 => f64::NEG_INFINITY,
                _ => j as f64 / 10.0 - 300.0,
            };
            (0..length).map(of).collect()
        };
        let x: Vec<f64> = (0..5).flat_map(row).collect();
        let want = run(&func, &x, &[5, length], false);
        let got = run(lowered, &x, &[5, length], true);
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            let near = (got - want).abs() <= 1e-12 * want.abs().max(1e-300);
            assert!(got == want || near || (got.is_nan() && want.is_nan()), "{at} of {length}: {got} {want}");
        }
    }
}

/// One sweep, where no block of the architecture has a row in its shared memory.
#[test]
fn one_sweep_where_no_row_fits() {
    let most = |arch: &str| -> i64 {
        let limits = *arch.parse::<GpuArch>().unwrap().limits();
        let one_sweep = |length: i64| {
            let func = of_rows(&[64, length].map(PrimExpr::index), DataType::F32, false);
            let (scheduled, _) = schedule_for_gpu(&func, &limits).unwrap();
            scheduled.to_string().contains("abs(")
        };
        assert!(!one_sweep(300) && !one_sweep(4096), "{arch}: short rows are in caches");
        let (mut fits, mut long) = (4096, 1_000_000);
        assert!(one_sweep(long), "{arch}");
        while long - fits > 1 {
            let middle = (fits + long) / 2;
            *(if one_sweep(middle) { &mut long } else { &mut fits }) = middle;
        }
        fits
    };
    let found = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100"].map(most);
    assert_eq!(found, [12_032, 37_376, 20_992, 53_760, 53_760]);
    // Rows of any length may be short.
    let any = of_rows(&[64.into(), Var::index("n").into()], DataType::F32, false);
    let (scheduled, _) = schedule_for_gpu(&any, GpuArch::DEFAULT.limits()).unwrap();
    assert!(!scheduled.to_string().contains("abs("), "{scheduled}");
}

/// What is no such pair, or narrower than its sum, is swept as it is written.
#[test]
fn other_sums_stay() {
    let narrow = of_rows(&[5, 20_000].map(PrimExpr::index), DataType::F16, false);
    let (scheduled, _) = schedule_for_gpu(&narrow, GpuArch::DEFAULT.limits()).unwrap();
    assert!(!scheduled.to_string().contains("abs("), "{scheduled}");
}
