//! Positions of the largest and the smallest elements, on all executors: ties, NaN, rows of one element and empty ones, all kinds
//! of types, several axes, default schedules and `rfactor`. What is right is computed here, element by element.

use tvm_core::ir::Var;
use tvm_core::te;
use tvm_core::tir::schedule::{Schedule, ScheduleError};
use tvm_core::tir::{PrimExpr, PrimFunc};
use tvm_core::topi;
use tvm_runtime::{DataType, Tensor, Value};

use super::data::Rng;
use super::suite::{Case, check, check_on};

/// Which of the extremes is wanted.
#[derive(Clone, Copy)]
struct Kind {
    largest: bool,
    last: bool,
}

const KINDS: [Kind; 4] = [
    Kind { largest: true, last: false },
    Kind { largest: true, last: true },
    Kind { largest: false, last: false },
    Kind { largest: false, last: true },
];

/// The position of the extreme of `row`: NaN wins, then the value, then the place. Of an empty row, one that is out of bounds.
fn position(row: &[f64], kind: Kind) -> i64 {
    let mut best: Option<usize> = None;
    for (at, &x) in row.iter().enumerate() {
        let takes = best.is_none_or(|best| {
            let old = row[best];
            let better = if kind.largest { x > old } else { x < old };
            let equal = x == old || (x.is_nan() && old.is_nan());
            better || (x.is_nan() && !old.is_nan()) || (equal && kind.last)
        });
        if takes {
            best = Some(at);
        }
    }
    best.map_or(if kind.last { -1 } else { i64::MAX }, |it| it as i64)
}

/// The position in each row of `x`: what is left of `shape` without `axes`.
fn positions(x: &[f64], shape: &[i64], axes: &[usize], kind: Kind) -> Vec<i64> {
    let extents = |of: bool| -> Vec<i64> {
        shape.iter().enumerate().map(|(at, &it)| if axes.contains(&at) == of { it } else { 1 }).collect()
    };
    let (rows, terms) = (extents(false), extents(true));
    let digits = |mut number: i64, extents: &[i64]| -> Vec<i64> {
        let mut res: Vec<i64> = Vec::new();
        for extent in extents.iter().rev() {
            res.push(number % extent);
            number /= extent;
        }
        res.reverse();
        res
    };
    let element = |row: &[i64], term: &[i64]| {
        let at = row.iter().zip(term).zip(shape).fold(0, |at, ((a, b), extent)| at * extent + a + b);
        x[at as usize]
    };
    let count = |extents: &[i64]| extents.iter().product::<i64>();
    let row = |number: i64| -> Vec<f64> {
        let row = digits(number, &rows);
        (0..count(&terms)).map(|term| element(&row, &digits(term, &terms))).collect()
    };
    (0..count(&rows)).map(|number| position(&row(number), kind)).collect()
}

/// Few different numbers, so that there are ties: among them both zeros, infinities and NaN, or the limits of integers. Every
/// third row has nothing but the worst value there is.
fn elements(shape: &[i64], dtype: DataType, kind: Kind, rng: &mut Rng) -> Tensor {
    let (low, high) = match dtype {
        DataType::U8 => (0.0, 255.0),
        DataType::I8 => (-128.0, 127.0),
        DataType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        // As far as `f64` holds them.
        DataType::I64 => (-(2f64.powi(52)), 2f64.powi(52)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let worst = if kind.largest { low } else { high };
    let width = shape.last().copied().unwrap_or(1).max(1) as usize;
    let number = |at: usize| match rng.next() % 16 {
        _ if (at / width) % 3 == 2 => worst,
        0 if dtype.is_float() && (at / width).is_multiple_of(2) => f64::NAN,
        1 => low,
        2 if (at / width) % 3 == 1 => high,
        3 if dtype.is_float() => -0.0,
        it => (it % 4) as f64,
    };
    let count = shape.iter().product::<i64>() as usize;
    let data: Vec<f64> = (0..count).map(number).collect();
    Tensor::from_f64s(&data, shape, dtype).unwrap()
}

fn extreme(shape: &[PrimExpr], dtype: DataType, axes: &[usize], kind: Kind) -> PrimFunc {
    let x = te::placeholder("x", shape.to_vec(), dtype);
    let y = topi::arg_extreme("y", &x, axes, false, kind.largest, kind.last);
    te::create_prim_func("extreme", &[x], &[y]).unwrap()
}

/// A program, and what its calls are to write.
struct Wanted {
    case: Case,
    want: Vec<Vec<i64>>,
}

fn wanted(
    func: PrimFunc,
    dtype: DataType,
    axes: &[usize],
    kind: Kind,
    shapes: &[&[i64]],
    rng: &mut Rng,
) -> Wanted {
    let mut res = Wanted { case: Case { func, args: Vec::new(), tolerance: 0.0 }, want: Vec::new() };
    for shape in shapes {
        let x = elements(shape, dtype, kind, rng);
        res.want.push(positions(&x.to_f64s().unwrap(), shape, axes, kind));
        let left = shape.iter().enumerate().filter(|(at, _)| !axes.contains(at));
        let left: Vec<i64> = left.map(|it| *it.1).collect();
        let before = vec![-77i64; left.iter().product::<i64>() as usize];
        let y = Tensor::from_slice(&before, &left).unwrap();
        res.case.args.push(vec![Value::Tensor(x), Value::Tensor(y)]);
    }
    res
}

/// Compares all executors with each other, and the interpreter with what is wanted.
fn check_all(all: Vec<Wanted>) {
    let (cases, want): (Vec<Case>, Vec<_>) = all.into_iter().map(|it| (it.case, it.want)).unzip();
    for ((case, want), got) in cases.iter().zip(&want).zip(check_on(0, &cases, &[])) {
        for (args, want) in got.iter().zip(want) {
            assert_eq!(&args[1].as_tensor().unwrap().to_vec::<i64>().unwrap(), want, "{}", case.func);
        }
    }
    check(&cases);
}

const TYPES: [DataType; 7] =
    [DataType::F32, DataType::F16, DataType::I32, DataType::BF16, DataType::I8, DataType::F64, DataType::U8];

#[test]
fn positions_in_rows_of_all_types() {
    let mut rng = Rng(61);
    let free = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let mut all = Vec::new();
    let any: [&[i64]; 8] = [&[5, 70], &[3, 1], &[1, 1], &[4, 0], &[0, 4], &[3, 33], &[2, 700], &[9, 256]];
    for (at, dtype) in TYPES.into_iter().enumerate() {
        let kind = KINDS[at % 4];
        all.push(wanted(extreme(&free, dtype, &[1], kind), dtype, &[1], kind, &any, &mut rng));
        for (also, shape) in [[7, 300], [64, 33], [6, 1], [3, 0], [2, 9000]].into_iter().enumerate() {
            if (at + also) % 2 == 0 || dtype == DataType::F32 {
                let kind = KINDS[(at + also) % 4];
                let func = extreme(&shape.map(PrimExpr::index), dtype, &[1], kind);
                all.push(wanted(func, dtype, &[1], kind, &[&shape], &mut rng));
            }
        }
    }
    check_all(all);
}

#[test]
fn positions_along_other_axes() {
    let mut rng = Rng(62);
    let free = ["m", "n"].map(|name| PrimExpr::from(Var::index(name)));
    let any: [&[i64]; 6] = [&[70, 5], &[1, 3], &[0, 4], &[4, 0], &[300, 33], &[700, 2]];
    let mut all = Vec::new();
    for (at, kind) in KINDS.into_iter().enumerate() {
        let dtype = TYPES[at];
        all.push(wanted(extreme(&free, dtype, &[0], kind), dtype, &[0], kind, &any, &mut rng));
        let all_axes: [(&[i64], &[usize]); 6] = [
            (&[100, 70], &[0]),
            (&[3, 40, 9], &[1]),
            (&[6, 11, 13], &[1, 2]),
            (&[11, 6, 13], &[0, 2]),
            (&[5, 9, 7], &[0, 1, 2]),
            (&[4, 1, 5], &[1]),
        ];
        for (shape, axes) in all_axes {
            let extents: Vec<PrimExpr> = shape.iter().map(|&it| it.into()).collect();
            let dtype = TYPES[(at + shape.len() + axes.len()) % 7];
            all.push(wanted(extreme(&extents, dtype, axes, kind), dtype, axes, kind, &[shape], &mut rng));
        }
    }
    check_all(all);
}

/// Parts of the terms side by side, of which the last one has fewer.
#[test]
fn positions_of_parts() {
    let halves = |s: &mut Schedule| -> Result<(), ScheduleError> {
        let y = s.block("y")?;
        let [_, term] = s.loops(y)?;
        let [outer, _] = s.split(term, [None, Some(8)])?;
        let parts = s.rfactor(outer, 0)?;
        let [first, _, _] = s.loops(parts)?;
        s.parallel(first)
    };
    let lanes = |s: &mut Schedule| -> Result<(), ScheduleError> {
        let y = s.block("y")?;
        let [row, term] = s.loops(y)?;
        let [_, lane] = s.split(term, [None, Some(4)])?;
        let parts = s.rfactor(lane, 1)?;
        let [_, outer, lane] = s.loops(parts)?;
        s.decompose_reduction(parts, outer)?;
        s.vectorize(lane)?;
        s.parallel(row)
    };
    let columns = |s: &mut Schedule| -> Result<(), ScheduleError> {
        let y = s.block("y")?;
        let [row, term] = s.loops(y)?;
        s.reorder([term, row])
    };
    type Change = fn(&mut Schedule) -> Result<(), ScheduleError>;
    let changes: [Change; 3] = [halves, lanes, columns];
    let mut rng = Rng(63);
    let mut all = Vec::new();
    for (at, dtype) in TYPES.into_iter().enumerate() {
        for (also, change) in changes.into_iter().enumerate() {
            let kind = KINDS[(at + also) % 4];
            for shape in [[5, 29], [3, 9]] {
                let func = extreme(&shape.map(PrimExpr::index), dtype, &[1], kind);
                let mut s = Schedule::new(func).unwrap();
                change(&mut s).unwrap_or_else(|err| panic!("{err}\n{}", s.func()));
                all.push(wanted(s.func().clone(), dtype, &[1], kind, &[&shape], &mut rng));
            }
        }
    }
    check_all(all);
}
