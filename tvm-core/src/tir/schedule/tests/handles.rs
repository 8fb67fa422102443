//! Handles are valid in one schedule only; buffers can be selected by name.

use super::*;
use crate::tir::Scope;

#[test]
fn handles_of_another_schedule_are_refused() {
    let program = small_dense();
    let mut a = Schedule::new(program.clone()).unwrap();
    let mut b = Schedule::new(program).unwrap();
    let (y, mine) = (a.block("y").unwrap(), b.block("y").unwrap());
    let before = (b.func().clone(), b.trace().to_json());
    let foreign =
        |res: Result<()>| assert!(matches!(res, Err(ScheduleError::ForeignHandle { .. })), "{res:?}");
    foreign(b.get_loops(y).map(drop));
    let loops = a.loops::<3>(y).unwrap();
    foreign(b.split(loops[0], [None, Some(2)]).map(drop));
    foreign(b.compute_at(mine, loops[1]));
    foreign(b.annotate(loops[2], "hint", 1i64));
    structural_equal(&before.0, b.func()).unwrap();
    assert_eq!(before.1, b.trace().to_json());
    // A clone accepts handles that were returned before it was made; neither accepts what the other returned since.
    let mut fork = a.clone();
    let [outer, _] = fork.split(loops[0], [None, Some(2)]).unwrap();
    foreign(a.parallel(outer));
    let again = a.loops::<3>(y).unwrap();
    foreign(fork.parallel(again[1]));
    a.parallel(again[1]).unwrap();
    for s in [&a, &fork] {
        let trace = Trace::from_json(&s.trace().to_json()).unwrap();
        let mut replayed = Schedule::new(small_dense()).unwrap();
        trace.apply_to_schedule(&mut replayed).unwrap();
        structural_equal(s.func(), replayed.func()).unwrap();
    }
}

#[test]
fn caches_take_names() {
    let mut s = Schedule::new(small_dense()).unwrap();
    let y = s.block("y").unwrap();
    let [.., k] = s.loops::<3>(y).unwrap();
    s.decompose_reduction(y, k).unwrap();
    s.cache_read(y, "w", Scope::Local).unwrap();
    s.cache_write(s.clone().block("o").unwrap(), "o", Scope::Local).unwrap_err();
    let o = s.block("o").unwrap();
    s.cache_write(o, "o", Scope::Local).unwrap();
    let text = s.trace().to_string();
    assert!(text.contains("s.cache_read(v0, \"w\", Scope::Local)"), "{text}");
    let mut again = Schedule::new(small_dense()).unwrap();
    Trace::from_json(&s.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
    structural_equal(s.func(), again.func()).unwrap();
    let err = s.cache_read(o, "nope", Scope::Local).unwrap_err().to_string();
    assert!(err.contains("\"nope\"") && err.contains("0: `z`"), "{err}");
}

#[test]
fn layouts_change_between_blocks() {
    let mut s = Schedule::new(small_dense()).unwrap();
    let (y, before) = (s.block("y").unwrap(), s.func().clone());
    for (buffer, from, to, why) in [
        ("y", "IJ", "JK", "same capital letters"),
        ("y", "I4i", "I4i", "names each axis"),
        ("y", "IJK", "IJK", "`y` has 2 axes, and `IJK` has 3"),
        ("y", "IJ", "IJ64j", "blocks of 64 do not divide the extent"),
        ("x", "IJ", "JI", "`x` is a parameter"),
        ("nope", "IJ", "JI", "\"nope\""),
    ] {
        let err = s.transform_layout(y, buffer, from, to).unwrap_err().to_string();
        assert!(err.contains(why), "{to}: {err}");
        structural_equal(&before, s.func()).unwrap();
    }
    let copy = s.cache_read(y, "w", Scope::Local).unwrap();
    s.transform_layout(copy, 0, "KN", "NK").unwrap();
    s.transform_layout(y, "y", "IJ", "JI3j").unwrap();
    let text = s.trace().to_string();
    assert!(text.contains("s.transform_layout(v1, 0, \"KN\", \"NK\")"), "{text}");
    let mut again = Schedule::new(small_dense()).unwrap();
    Trace::from_json(&s.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
    structural_equal(s.func(), again.func()).unwrap();
    let args = arguments(&before, &[]);
    assert_eq!(run(&before, args.clone()), run(s.func(), args));
}
