//! Which accesses become vectors, and that programs compute what they did.

use tvm_runtime::DataType;

use super::super::unify_thread_binding::tests::check;
use crate::ir::Var;
use crate::te;
use crate::tir::schedule::Schedule;
use crate::tir::{PrimExpr, PrimFunc, ThreadTag};

const I64: DataType = DataType::I64;

/// `y[i, j] = x[i, j] * w[j * step] + x[i, j]` for `columns` columns, of which a thread has `lanes` that follow each other.
fn rows(columns: PrimExpr, lanes: i64, step: i64) -> PrimFunc {
    let shape = [PrimExpr::index(3), columns.clone()];
    let x = te::placeholder("x", shape.clone(), I64);
    let w = te::placeholder("w", [columns * step], I64);
    let y = te::compute("y", shape, &[&x, &w], |i: &[PrimExpr]| {
        x.at(i.to_vec()) * w.at([i[1].clone() * step]) + x.at(i.to_vec())
    });
    let mut s = Schedule::new(te::create_prim_func("rows", &[x, w], &[y]).unwrap()).unwrap();
    let y = s.block("y").unwrap();
    let [i, j] = s.loops(y).unwrap();
    let [rest, own] = s.split(j, [None, Some(lanes)]).unwrap();
    s.bind(i, ThreadTag::BlockIdxX).unwrap();
    s.bind(rest, ThreadTag::ThreadIdxX).unwrap();
    s.vectorize(own).unwrap();
    s.into_func()
}

/// The statements that access several elements of `buffer` at once.
fn vectors(func: &PrimFunc, buffer: &str) -> usize {
    let text = func.to_string();
    let own = |line: &&str| line.contains(&format!("{buffer}[[")) && line.contains("ramp(");
    text.lines().filter(own).count()
}

#[test]
fn multiples_are_vectors() {
    let lowered = check(&rows(24.into(), 2, 1), &[]);
    for (buffer, want) in [("x", 1), ("w", 1), ("y", 1)] {
        assert_eq!(vectors(&lowered, buffer), want, "{buffer}\n{lowered}");
    }
}

/// An access of other than neighbours is one of scalars, the others are vectors.
#[test]
fn other_accesses_stay_scalars() {
    let lowered = check(&rows(24.into(), 2, 3), &[]);
    for (buffer, want) in [("x", 1), ("w", 0), ("y", 1)] {
        assert_eq!(vectors(&lowered, buffer), want, "{buffer}\n{lowered}");
    }
}

/// Rows of an odd number of elements begin anywhere; four elements of 8 bytes are too many.
#[test]
fn what_is_not_proven_stays_scalar() {
    let free = PrimExpr::from(Var::index("n"));
    for (func, dims) in [
        (rows(23.into(), 2, 1), &[][..]),
        (rows(24.into(), 4, 1), &[]),
        (rows(24.into(), 3, 1), &[]),
        (rows(free.clone(), 2, 1), &[7]),
        (rows(free, 2, 1), &[8]),
    ] {
        let lowered = check(&func, dims);
        for buffer in ["x", "y"] {
            assert_eq!(vectors(&lowered, buffer), 0, "{buffer}\n{lowered}");
        }
    }
}

/// The condition for the end of the elements is the same for both of a pair, because their number is even.
#[test]
fn conditions_of_whole_vectors() {
    for (count, want) in [(18, 1), (19, 0)] {
        let shape = [PrimExpr::index(count)];
        let x = te::placeholder("x", shape.clone(), I64);
        let y = te::compute("y", shape, &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * 3);
        let mut s = Schedule::new(te::create_prim_func("pairs", &[x], &[y]).unwrap()).unwrap();
        let y = s.block("y").unwrap();
        let [i] = s.loops(y).unwrap();
        let [block, thread, own] = s.split(i, [None, Some(8), Some(2)]).unwrap();
        s.bind(block, ThreadTag::BlockIdxX).unwrap();
        s.bind(thread, ThreadTag::ThreadIdxX).unwrap();
        s.vectorize(own).unwrap();
        let lowered = check(&s.into_func(), &[]);
        assert_eq!((vectors(&lowered, "x"), vectors(&lowered, "y")), (want, want), "{lowered}");
    }
}
