//! Views of parts of tensors. Kernels take rows that follow each other as they are, wherever they begin in memory, and refuse
//! all other views; a user then passes a copy in row-major order, as the error says. Both give the same results.

use std::sync::Arc;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};
use tvm::prelude::*;
use tvm::runtime::WorkerPool;
use tvm_testing::{Budget, Rng};

use super::guard::{Guarded, Place, watched};

#[prim_func]
fn product(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
    for [i, j, p] in grid([m, n, k]) {
        block("product", [S(i), S(j), R(p)], |[vi, vj, vp]| {
            init(|| c[[vi, vj]] = 0.0);
            c[[vi, vj]] += a[[vi, vp]] * b[[vp, vj]];
        });
    }
}

/// A slice of one axis: all of it or a part, in steps, perhaps backwards.
fn slice(rng: &mut Rng, extent: usize) -> ndarray::Slice {
    let start = rng.below(extent + 1) as isize;
    let end = start + rng.below(extent + 1 - start as usize) as isize;
    match rng.below(4) {
        0 | 1 => ndarray::Slice::new(0, None, 1),
        2 => ndarray::Slice::new(start, Some(end), 1),
        _ => ndarray::Slice::new(start, Some(end), *rng.pick(&[-1, 2, 3, -2])),
    }
}

/// A part of a matrix, perhaps transposed.
fn part<'a>(rng: &mut Rng, whole: &'a [f32], rows: usize) -> ArrayView2<'a, f32> {
    let whole = ArrayView2::from_shape((rows, whole.len() / rows), whole).expect("all of the matrix");
    let (rows, columns) = (slice(rng, whole.nrows()), slice(rng, whole.ncols()));
    let part = whole.slice_move(s![rows, columns]);
    if rng.one_in(4) { part.reversed_axes() } else { part }
}

/// Small integers, whose sums are exact in any order.
fn memory(rng: &mut Rng, place: Place, len: usize) -> Guarded {
    let bytes: Vec<u8> = (0..len).flat_map(|_| (rng.range(-4, 4) as f32).to_le_bytes()).collect();
    Guarded::new(&bytes, place)
}

#[test]
fn fuzz_default_strided() {
    let kernel =
        product::compile(&Target::host()).expect("it compiles").with_pool(Arc::new(WorkerPool::new(2)));
    let (mut taken, mut refused) = (0, 0);
    for seed in Budget::new("default_strided", 300) {
        let rng = &mut Rng::new(seed);
        let place = *rng.pick(&[Place::Begin, Place::End]);
        let [rows, columns, more] = [0; 3].map(|_| rng.range(1, 40) as usize);
        let (a, b) = (memory(rng, place, rows * columns), memory(rng, place, 60 * more));
        let (a, b) = (part(rng, a.slice(), rows), part(rng, b.slice(), 60));
        let k = a.ncols().min(b.nrows());
        let (a, b) = (a.slice(s![.., ..k]), b.slice(s![..k, ..]));
        let about = format!(
            "seed {seed}: {:?} x {:?} of strides {:?}, {:?}",
            a.dim(),
            b.dim(),
            a.strides(),
            b.strides()
        );
        let want = a.dot(&b);
        let mut got = Array2::from_elem(want.dim(), 7.0);
        let compact = a.is_standard_layout() && b.is_standard_layout();
        match watched(&about, || kernel.call(&a, &b, &mut got)) {
            Ok(()) => {
                assert!(compact || a.is_empty() || b.is_empty(), "{about}: a strided view was taken");
                taken += 1;
            }
            Err(err) => {
                assert!(matches!(err, RuntimeError::ArgStrides { .. }) && !compact, "{about}: {err}");
                assert!(got.iter().all(|&it| it == 7.0), "{about}: a refused call wrote its result");
                let copies = [a.as_standard_layout(), b.as_standard_layout()];
                kernel.call(&copies[0], &copies[1], &mut got).unwrap_or_else(|err| panic!("{about}: {err}"));
                refused += 1;
            }
        }
        assert_eq!(got, want, "{about}");
        // A result with gaps is refused, too, and stays as it is.
        if want.nrows() > 1 && want.ncols() > 0 && compact {
            let mut wide = vec![7.0; want.nrows() * (want.ncols() + 1)];
            let shape = (want.nrows(), want.ncols() + 1);
            let mut out = ArrayViewMut2::from_shape(shape, &mut wide).expect("all of the matrix");
            let res = kernel.call(&a, &b, &mut out.slice_mut(s![.., 1..]));
            assert!(matches!(res, Err(RuntimeError::ArgStrides { .. })), "{about}: {res:?}");
            assert!(wide.iter().all(|&it| it == 7.0), "{about}: a refused call wrote its result");
        }
    }
    assert!(taken > 0 && refused > 0 || taken + refused < 20, "{taken} views were taken, {refused} refused");
}
