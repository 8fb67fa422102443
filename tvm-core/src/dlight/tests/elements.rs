//! Blocks without reduction, over axes of symbolic extents.

use super::*;

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
