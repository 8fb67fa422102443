//! `match_buffer`: a buffer that stands for a region of another one.

use tvm::prelude::*;
use tvm::tir::Stmt;

use crate::{agree, data, matrix};

/// Tiles of 2 × 4, written through a matched buffer and read through another.
#[prim_func]
fn tiles(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m, n>) {
    for [i, j] in grid([m / 2, n / 4]) {
        block("tile", [S(i), S(j)], |[vi, vj]| {
            let from = match_buffer(x[[vi * 2..vi * 2 + 2, vj * 4..vj * 4 + 4]]);
            let to = match_buffer(y[[vi * 2..vi * 2 + 2, vj * 4..vj * 4 + 4]]);
            for [a, b] in grid([2, 4]) {
                to[[a, b]] = from[[1 - a, b]] + 1.0;
            }
        });
    }
}

/// A row without its dimension, summed through a matched element with an init; the regions overlap nothing else.
#[prim_func]
fn row_sums(x: &Tensor<f32, m, n>, y: &mut Tensor<f32, m>) {
    for [i, k] in grid([m, n]) {
        block("sum", [S(i), R(k)], |[vi, vk]| {
            let row = match_buffer(x[[vi, 0..n]]);
            let total = match_buffer(y[[vi..vi + 1]]);
            init(|| total[[0]] = 0.0);
            total[[0]] += row[[vk]];
        });
    }
}

/// A matched buffer of a matched buffer of a local one, and integers that wrap.
#[prim_func]
fn nested(x: &Tensor<u8, n>, y: &mut Tensor<u8, n>) {
    for i in 0..n {
        block("n", [S(i)], |[vi]| {
            let mut t = alloc::<u8>([3, 8]);
            let rows = match_buffer(t[[1..3, 2..8]]);
            let row = match_buffer(rows[[1, 1..4]]);
            for [a, b] in grid([3, 8]) {
                t[[a, b]] = 200;
            }
            row[[0]] += x[[vi]];
            rows[[1, 2]] *= 3;
            y[[vi]] = t[[2, 3]] + rows[[1, 2]] + row[[1]];
        });
    }
}

/// A matched row whose extent is a symbolic one, beside another buffer of that extent.
#[prim_func]
fn weighted_rows(x: &Tensor<f32, m, n>, w: &Tensor<f32, n>, y: &mut Tensor<f32, m, n>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            let from = match_buffer(x[[vi, 0..n]]);
            let to = match_buffer(y[[vi, 0..n]]);
            for k in 0..n {
                to[[k]] = from[[k]] * w[[k]];
            }
        });
    }
}

/// A block around one whose local buffer is matched.
#[prim_func]
fn around_local(x: &Tensor<i32, m, n>, y: &mut Tensor<i32, m>) {
    for i in 0..m {
        block("row", [S(i)], |[vi]| {
            for k in 0..n {
                block("sum", [R(k)], |[vk]| {
                    init(|| y[[vi]] = 0);
                    let mut t = alloc::<i32>([4]);
                    let v = match_buffer(t[[1..3]]);
                    v[[1]] = x[[vi, vk]];
                    y[[vi]] += t[[2]] + v[[0]];
                });
            }
        });
    }
}

#[test]
fn matched_buffers_stand_for_regions() {
    for (m, n) in [(2, 4), (6, 12), (0, 8), (8, 0)] {
        agree!(tiles, (&matrix(m, n, 7)) -> matrix(m, n, 8), 0.0);
        agree!(weighted_rows, (&matrix(m, n, 7), &data(n, 5)) -> matrix(m, n, 8), 0.0);
    }
    for (m, n) in [(1, 1), (5, 7), (3, 0), (0, 3)] {
        let y = agree!(row_sums, (&matrix(m, n, 9)) -> data(m, 1), 1e-6);
        assert!(n > 0 || y.iter().all(|it| *it == 0.0), "{y:?}");
    }
    let x = ndarray::Array2::from_shape_fn((3, 5), |(i, k)| (i * 7 + k) as i32);
    let y = agree!(around_local, (&x) -> vec![9i32; 3], 0.0);
    assert_eq!(y, x.rows().into_iter().map(|row| row.sum()).collect::<Vec<_>>());
    let y = agree!(nested, (&[1u8, 60, 255]) -> vec![0u8; 3], 0.0);
    let want =
        [1u8, 60, 255].map(|x| 200u8.wrapping_add(x).wrapping_add(200u8.wrapping_mul(3).wrapping_mul(2)));
    assert_eq!(y, want);
}

/// What remains of a tensor whose extents are no multiples of the tile stays as it was.
#[test]
fn a_region_outside_of_its_buffer_is_an_error() {
    #[prim_func]
    fn pairs(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
        for i in 0..n {
            block("pair", [O(i)], |[vi]| {
                let pair = match_buffer(x[[vi..vi + 2]]);
                y[[vi]] = pair[[1]];
            });
        }
    }
    for target in crate::targets() {
        let f = pairs::compile(&target).unwrap();
        let err = f.call(&[1f32, 2.0], &mut [0f32; 2]).unwrap_err().to_string();
        assert!(err.contains("`pairs`") && err.contains("axis 0 of `x`"), "{target}: {err}");
    }
    assert!(pairs(&[1f32, 2.0], &mut [0f32; 2]).unwrap_err().to_string().contains("out of bounds"));
}

/// The regions of a block name what it accesses through matched buffers; schedules see one name for one element.
#[test]
fn blocks_declare_the_sources() {
    let func = row_sums::prim_func().unwrap();
    let text = func.to_string();
    assert!(text.contains("let row = match_buffer(x[[vi, 0..n]]);"), "{text}");
    let Stmt::BlockRealize(root) = &func.body else { panic!("{text}") };
    let mut blocks = Vec::new();
    collect(&root.block.body, &mut blocks);
    let names = |regions: &[tvm::tir::BufferRegion]| {
        regions.iter().map(|it| it.buffer.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!((names(&blocks[0].reads), names(&blocks[0].writes)), (vec!["x".into()], vec!["y".into()]));
}

fn collect(stmt: &Stmt, blocks: &mut Vec<std::sync::Arc<tvm::tir::Block>>) {
    if let Stmt::BlockRealize(it) = stmt {
        blocks.push(it.block.clone());
    }
    stmt.children().into_iter().for_each(|it| collect(it, blocks));
}

/// A kernel that matches regions of its parameters is called with a local buffer in another scope.
#[test]
fn matched_buffers_follow_the_arguments_of_calls() {
    #[prim_func]
    fn both(x: &Tensor<f32, 4, 8>, y: &mut Tensor<f32, 4, 8>) {
        #[scope("local")]
        let mut t = alloc::<f32>([4, 8]);
        tiles(x, &mut t);
        tiles(&t, y);
    }
    let x = matrix(4, 8, 3);
    let y = agree!(both, (&x) -> matrix(4, 8, 4), 0.0);
    assert_eq!(y, x + 2.0);
}

/// A schedule moves what is matched to another scope.
#[test]
fn matched_buffers_follow_caches() {
    let mut s = Schedule::new(row_sums::prim_func().unwrap()).unwrap();
    let sum = s.block("sum").unwrap();
    s.cache_read(sum, 0, Scope::Local).unwrap();
    let func = s.into_func();
    tvm::tir::analysis::well_formed(&func).unwrap();
    assert!(func.to_string().contains("match_buffer(x_local[["), "{func}");
}

/// A loop in a block whose iterations meet through a second name of the elements.
#[test]
fn loops_over_matched_buffers_are_checked() {
    #[prim_func]
    fn apart(x: &Tensor<f32, 8>, y: &mut Tensor<f32, 8>) {
        block("b", [], |[]| {
            let to = match_buffer(y[[0..4]]);
            #[vectorize]
            for i in 0..4 {
                to[[i]] = x[[i + 4]];
            }
        });
    }
    #[prim_func]
    fn shifted(x: &Tensor<f32, 8>, y: &mut Tensor<f32, 8>) {
        block("b", [], |[]| {
            let later = match_buffer(y[[1..8]]);
            for i in 0..8 {
                y[[i]] = x[[i]];
            }
            #[vectorize]
            for i in 0..7 {
                later[[i]] = y[[i]];
            }
        });
    }
    apart::prim_func().unwrap();
    let err = shifted::prim_func().unwrap_err().to_string();
    assert!(err.contains("loop `i` cannot be vectorised"), "{err}");
}

#[test]
fn regions_are_matched_in_blocks_without_blocks() {
    #[prim_func]
    fn outside(y: &mut Tensor<f32, 8>) {
        let v = match_buffer(y[[0..4]]);
        for i in 0..4 {
            v[[i]] = 1.0;
        }
    }
    #[prim_func]
    fn around(y: &mut Tensor<f32, 8>) {
        block("outer", [], |[]| {
            let v = match_buffer(y[[0..4]]);
            for i in 0..4 {
                block("inner", [S(i)], |[vi]| {
                    v[[vi]] = 1.0;
                });
            }
        });
    }
    #[prim_func]
    fn late(at: &Tensor<i64, 1>, y: &mut Tensor<f32, 8>) {
        block("b", [], |[]| {
            let first = at[[0]] as usize;
            let v = match_buffer(y[[first..first + 2]]);
            v[[0]] = 1.0;
        });
    }
    #[prim_func]
    fn named(y: &mut Tensor<f32, 8>) {
        for i in 0..2 {
            block("b", [S(i)], |[vi]| {
                let first = vi * 4;
                let v = match_buffer(y[[first + 1..first + 3]]);
                for k in 0..2 {
                    v[[k]] = 1.0;
                }
            });
        }
    }
    for (func, message, help) in [
        (outside::prim_func(), "`v` matches a region outside of a block", "`block(..)`"),
        (
            around::prim_func(),
            "block `outer` matches `v` to a region, and contains blocks",
            "the inner block",
        ),
        (late::prim_func(), "the bounds of the region of `y` read memory", "computed from axes"),
    ] {
        let err = func.unwrap_err().to_string();
        assert!(err.contains(message) && err.contains(help), "{err}");
        assert!(err.contains("match_buffer.rs"), "{err}");
    }
    let y = agree!(named, () -> data(8, 5), 0.0);
    assert_eq!([y[1], y[2], y[5], y[6]], [1.0; 4]);
}

/// Copies of a loop that copies of it are made of keep the dimensions that matched buffers mention.
#[schedule(row_sums)]
fn row_sums_in_parts(s: &mut Schedule) -> Result<(), ScheduleError> {
    let sum = s.block("sum")?;
    let [i, k] = s.loops(sum)?;
    s.decompose_reduction(sum, k)?;
    let [_, _] = s.loop_partition(k, &[16])?;
    let [_, _] = s.loop_partition(i, &[5])?;
    Ok(())
}
