//! Blocks without reduction: transposes, and axes of symbolic extents.

use super::*;
use crate::tir::Intrinsic;

/// Elements of a contiguous tensor are one vector loop, however many of its axes are symbolic or follow from scalars.
#[test]
fn elements_of_symbolic_axes_are_one_vector_loop() {
    let [n, s, t, h] = ["n", "s", "t", "h"].map(|name| PrimExpr::from(Var::index(name)));
    let half = |extent: &PrimExpr| simplify_dim(&((extent - 1i64).floordiv(2) + 1i64));
    let rows = simplify_dim(&(half(&half(&h)) * half(&t) + half(&t)));
    for shape in [
        vec![n.clone(), s.clone()],
        vec![n.clone(), s.clone(), 120.into()],
        vec![n.clone(), 8.into(), s.clone(), 15.into()],
        vec![n.clone(), s.clone(), t.clone()],
        vec![n.clone(), s.clone(), 3.into(), t.clone()],
        vec![n.clone(), rows, 120.into()],
        vec![n, half(&h), half(&half(&h)), t],
    ] {
        let x = input("x", &shape);
        let y = compute("y", shape, &[&x], |i: &[PrimExpr]| x.at(i.to_vec()) * 3);
        let (scheduled, applied) = schedule(&create_prim_func("f", &[x], &[y]).unwrap(), &MACHINE).unwrap();
        let got: Vec<_> = applied.iter().map(|it| (it.rule, &*it.parameters)).collect();
        let axes = scheduled.outputs().next().map_or(0, |it| it.shape.len());
        assert_eq!(got, [("spatial", &*format!("{axes} axes as one vector loop"))], "{scheduled}");
    }
}

/// Extents of scalars, as those of images that are enlarged beside others, may be of any sign.
#[test]
fn extents_of_scalars_are_divided_among_threads() {
    let [n, h, w] = ["n", "h", "w"].map(|name| PrimExpr::from(Var::index(name)));
    let twice = |extent: &PrimExpr| simplify_dim(&((extent - 1i64).floordiv(4) * 2i64 + 2i64));
    let four = |extent: &PrimExpr| simplify_dim(&((extent - 1i64).floordiv(4) * 4i64 + 4i64));
    let x = input("x", &[n.clone(), 4.into(), twice(&h), twice(&w), 32.into()]);
    let other = input("other", &[n.clone(), 2.into(), four(&h), four(&w), 32.into()]);
    let shape = [n, 6.into(), four(&h), four(&w), 32.into()];
    let y = compute("y", shape, &[&x, &other], |i: &[PrimExpr]| {
        let half = |at: &PrimExpr| at.clone().floordiv(2);
        let enlarged = x.at([i[0].clone(), i[1].clone(), half(&i[2]), half(&i[3]), i[4].clone()]);
        let at = [i[0].clone(), &i[1] - 4i64, i[2].clone(), i[3].clone(), i[4].clone()];
        PrimExpr::call(Intrinsic::IfThenElse, [i[1].clone().less(4), enlarged, other.at(at)], DataType::F32)
    });
    let (scheduled, applied) =
        schedule(&create_prim_func("f", &[x, other], &[y]).unwrap(), &MACHINE).unwrap();
    let got: Vec<_> = applied.iter().map(|it| it.rule).collect();
    assert_eq!(got, ["spatial"], "{scheduled}");
}

/// Axes that stay beside each other are one axis of a tile, and a tile is not longer than its axis.
#[test]
fn transposes_have_tiles_of_joined_axes() {
    let cases: [(&[i64], &[usize], &str); 8] = [
        (&[1, 64, 56, 56], &[0, 2, 3, 1], "tiles of 16x16"),
        (&[2, 4, 4, 32], &[0, 3, 1, 2], "tiles of 16x16"),
        (&[2, 32, 4, 4], &[0, 2, 3, 1], "tiles of 16x16"),
        (&[2, 4, 32], &[0, 2, 1], "tiles of 4x4"),
        (&[2, 32, 8], &[0, 2, 1], "tiles of 8x8"),
        (&[224, 224, 3], &[2, 0, 1], "tiles of 3x16"),
        (&[3, 224, 224], &[1, 2, 0], "tiles of 16x3"),
        (&[7, 3, 5, 2], &[3, 2, 1, 0], "tiles of 2x7"),
    ];
    for (shape, axes, want) in cases {
        let (_, applied) = schedule(&transpose(shape, axes), &MACHINE).unwrap();
        assert_eq!((applied[0].rule, &*applied[0].parameters), ("spatial", want), "{shape:?} as {axes:?}");
    }
    // Channels in contiguous blocks: the place in a block is an axis of its own.
    for (shape, want) in [
        ([2, 3, 14, 14, 32], "tiles of 16x16"),
        ([1, 5, 7, 3, 4], "tiles of 4x4"),
        ([1, 16, 508, 1, 32], "tiles of 16x16"),
        ([2, 16, 1, 508, 32], "tiles of 16x16"),
    ] {
        let x = input("x", &shape.map(PrimExpr::index));
        let [n, blocks, h, w, width] = shape;
        let y = compute("y", [n, blocks * width, h, w].map(PrimExpr::index), &[&x], |i| {
            let c = || i[1].clone();
            x.at([i[0].clone(), c().floordiv(width), i[2].clone(), i[3].clone(), c().floormod(width)])
        });
        let (_, applied) = schedule(&create_prim_func("f", &[x], &[y]).unwrap(), &MACHINE).unwrap();
        assert_eq!((applied[0].rule, &*applied[0].parameters), ("spatial", want), "{shape:?}");
    }
}
