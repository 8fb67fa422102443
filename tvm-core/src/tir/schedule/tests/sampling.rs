//! Sampled integers feed splits; traces replay decisions, or draw new ones.

use super::*;

/// Tiles the rows by sampled factors and a sampled number of columns.
fn tiled(seed: u64) -> Schedule {
    let mut s = Schedule::new(dense(dim(24), dim(30), dim(5))).unwrap();
    s.seed(seed);
    let y = s.block("y").unwrap();
    let [i, j, _] = s.loops(y).unwrap();
    let tile = s.sample_perfect_tile::<3>(i, 4, None).unwrap();
    let [_, i_1, _] = s.split(i, tile).unwrap();
    let width = s.sample_categorical(&[2, 4, 7], &[1.0, 2.0, 1.0], None).unwrap();
    let [j_0, _] = s.split(j, [Factor::Infer, width.into()]).unwrap();
    s.reorder_n(&[j_0, i_1]).unwrap();
    s
}

#[test]
fn a_trace_replays_its_decisions_and_draws_new_ones() {
    let mut programs = Vec::new();
    for seed in 0..20 {
        let s = tiled(seed);
        let trace = Trace::from_json(&s.trace().to_json()).unwrap();
        let mut again = Schedule::new(dense(dim(24), dim(30), dim(5))).unwrap();
        again.seed(seed + 1000);
        trace.apply_to_schedule(&mut again).unwrap();
        structural_equal(s.func(), again.func()).unwrap();
        assert_eq!(s.trace().to_string(), again.trace().to_string());
        let program = s.func().to_string();
        if !programs.contains(&program) {
            programs.push(program);
        }
        assert_eq!(
            run(s.func(), arguments(s.func(), &[])),
            run(&dense(dim(24), dim(30), dim(5)), arguments(&dense(dim(24), dim(30), dim(5)), &[]))
        );
    }
    assert!(programs.len() > 10, "{} programs of 20 seeds", programs.len());

    // Step 2 samples the tile.
    let trace = tiled(1).trace().clone();
    let other = trace.with_decision(2, Some(Decision::Tile(vec![3, 8, 1]))).unwrap();
    let mut s = Schedule::new(dense(dim(24), dim(30), dim(5))).unwrap();
    other.apply_to_schedule(&mut s).unwrap();
    assert!(
        s.trace().to_string().contains("s.sample_perfect_tile(v1, 4, Some([3, 8, 1]))?;"),
        "{}",
        s.trace()
    );
    let open = trace.with_decision(2, None).unwrap();
    let drawn: std::collections::BTreeSet<String> = (0..20)
        .map(|seed| {
            let mut s = Schedule::new(dense(dim(24), dim(30), dim(5))).unwrap();
            s.seed(seed);
            open.apply_to_schedule(&mut s).unwrap();
            s.func().to_string()
        })
        .collect();
    assert!(drawn.len() > 5, "{}", drawn.len());
}

#[test]
fn traces_with_samples_print_as_rust() {
    let text = tiled(0).trace().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[2].starts_with("let [v4, v5, v6] = s.sample_perfect_tile(v1, 4, Some(["), "{text}");
    assert_eq!(
        lines[3],
        "let [v7, v8, v9] = s.split(v1, [Factor::from(v4), Factor::from(v5), Factor::from(v6)])?;"
    );
    assert!(
        lines[4].starts_with("let v10 = s.sample_categorical(&[2, 4, 7], &[1.0, 2.0, 1.0], Some("),
        "{text}"
    );
    assert_eq!(lines[5], "let [v11, v12] = s.split(v2, [Factor::Infer, Factor::from(v10)])?;");
}

#[test]
fn decisions_that_do_not_fit_are_refused() {
    let mut s = Schedule::new(dense(dim(24), dim(30), dim(5))).unwrap();
    let y = s.block("y").unwrap();
    let [i, _, _] = s.loops(y).unwrap();
    for bad in [[5, 5], [24, 0], [-4, -6], [4, 6], [i64::MAX, 2]] {
        let err = s.sample_perfect_tile(i, 4, Some(bad)).unwrap_err().to_string();
        assert!(err.contains("2 factors of 24, the innermost at most 4"), "{err}");
    }
    assert!(
        s.sample_perfect_tile_n(i, 0, 4, None).is_err() && s.sample_perfect_tile_n(i, 2, 0, None).is_err()
    );
    assert!(s.sample_perfect_tile::<1>(i, 4, None).is_err());
    assert!(s.sample_categorical(&[1, 2], &[1.0, 1.0], Some(2)).is_err());
    // A prime extent above the limit has one tiling.
    let mut prime = Schedule::new(dense(dim(23), dim(30), dim(5))).unwrap();
    let y = prime.block("y").unwrap();
    let [i_23, j, _] = prime.loops(y).unwrap();
    for _ in 0..20 {
        let tile = prime.sample_perfect_tile::<2>(i_23, 4, None).unwrap().map(ExprRV::value);
        assert_eq!(tile, [23, 1]);
    }
    // Integers of another schedule are refused, as loops are.
    let [_, factor] = s.sample_perfect_tile::<2>(i, 4, None).unwrap();
    let refused = prime.split(j, [Factor::Infer, factor.into()]);
    assert!(matches!(refused, Err(ScheduleError::ForeignHandle { .. })), "{refused:?}");
    // A step that samples nothing takes no decision.
    let trace = s.trace().clone();
    assert!(trace.with_decision(0, None).is_err() && trace.with_decision(99, None).is_err());
    let n = PrimExpr::from(crate::ir::Var::index("n"));
    let mut symbolic = Schedule::new(dense(n, dim(30), dim(5))).unwrap();
    let y = symbolic.block("y").unwrap();
    let [i, _, _] = symbolic.loops(y).unwrap();
    let err = symbolic.sample_perfect_tile::<2>(i, 4, None).unwrap_err().to_string();
    assert!(err.contains("not a positive constant") && err.contains("sample_categorical"), "{err}");
}
