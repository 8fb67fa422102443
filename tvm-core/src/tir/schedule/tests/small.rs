//! `add_unit_loop`, `set_scope` and `unannotate`: what they give, and uses that they refuse.

use super::kernels::{AT, each, input, kernel, local, output, s};
use super::*;
use crate::ir::Var;
use crate::tir::{Scope, ThreadTag};

/// Applies `change` to the dense layer of symbolic extents; compares results with the unchanged program, and the replay of
/// the trace with the changed one.
fn changed(change: impl FnOnce(&mut Schedule) -> Result<()>) -> Schedule {
    let [m, n, k] = ["m", "n", "k"].map(|name| PrimExpr::from(Var::index(name)));
    let program = dense(m, n, k);
    let mut sch = Schedule::new(program.clone()).unwrap();
    change(&mut sch).unwrap_or_else(|err| panic!("{err}"));
    well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
    assert!(sch.state().verify());
    for dims in [[3, 4, 5], [1, 1, 1], [2, 3, 0], [0, 4, 2]] {
        let values = |func: &PrimFunc| {
            // The dimensions are numbered by first use: of `x: [m, k]`, then of `w: [k, n]`.
            let [m, n, k] = dims;
            run(func, arguments(func, &[m, k, n]))
        };
        assert_eq!(values(sch.func()), values(&program), "{dims:?}\n{}", sch.func());
    }
    let mut again = Schedule::new(program).unwrap();
    Trace::from_json(&sch.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
    structural_equal(sch.func(), again.func()).unwrap();
    sch
}

/// Applies `change`, which must be refused for the reason `why` and leave the program unchanged.
fn refused(sch: &mut Schedule, why: &str, change: impl FnOnce(&mut Schedule) -> Result<()>) {
    let before = sch.func().clone();
    let err = change(sch).unwrap_err().to_string();
    assert!(err.contains(why), "{why} is missing in\n{err}");
    structural_equal(&before, sch.func()).unwrap();
    assert!(sch.state().verify());
}

#[test]
fn unit_loops_go_around_loops_and_blocks() {
    let sch = changed(|s| {
        let y = s.block("y")?;
        let [i, _, _] = s.loops(y)?;
        let outer = s.add_unit_loop(i)?;
        let inner = s.add_unit_loop(y)?;
        let loops = s.get_loops(y)?;
        assert_eq!(loops.len(), 5);
        assert_eq!([loops[0].id(), loops[4].id()], [outer.id(), inner.id()]);
        let fused = s.fuse([outer, i])?;
        s.parallel(fused)
    });
    let trace = sch.trace().to_string();
    assert!(trace.contains("let v4 = s.add_unit_loop(v1)?;\nlet v5 = s.add_unit_loop(v0)?;\n"), "{trace}");
}

#[test]
fn the_root_block_takes_no_unit_loop() {
    let mut sch = Schedule::new(small_dense()).unwrap();
    let root = sch.block("root").unwrap();
    refused(&mut sch, "the root block is the whole program", |s| s.add_unit_loop(root).map(drop));
}

#[test]
fn buffers_move_to_another_memory() {
    for scope in [Scope::Local, Scope::Shared, Scope::SharedDyn, Scope::Warp, Scope::Global] {
        let sch = changed(|s| {
            let (y, z) = (s.block("y")?, s.block("z")?);
            s.set_scope(y, "y", scope)?;
            s.set_scope(z, 1, Scope::Local)?;
            s.set_scope(z, 1, scope)
        });
        let root = sch.state().get_block(sch.state().root()).unwrap();
        let of = |name: &str| root.block.alloc_buffers.iter().find(|it| &*it.name == name).map(|it| it.scope);
        assert_eq!(of("y"), Some(scope));
        let trace = sch.trace().to_string();
        assert!(trace.contains(&format!("s.set_scope(v0, \"y\", Scope::{scope:?})?;\n")), "{trace}");
    }
}

#[test]
fn parameters_and_unknown_buffers_stay_where_they_are() {
    let mut sch = Schedule::new(small_dense()).unwrap();
    let (y, o) = (sch.block("y").unwrap(), sch.block("o").unwrap());
    refused(&mut sch, "does not allocate `x`", |s| s.set_scope(y, "x", Scope::Local));
    refused(&mut sch, "does not allocate `o`", |s| s.set_scope(o, 0, Scope::Shared));
    refused(&mut sch, "names none", |s| s.set_scope(o, "no such", Scope::Shared));
    refused(&mut sch, "names none", |s| s.set_scope(o, usize::MAX, Scope::Shared));
}

#[test]
fn threads_do_not_share_what_each_needs_for_itself() {
    // Every thread copies the elements that it reads; those of one row are the same.
    let mut sch = Schedule::new(rows()).unwrap();
    let d = sch.block("d").unwrap();
    let row = sch.cache_read(d, "top", Scope::Local).unwrap();
    let [_, j] = sch.loops(d).unwrap();
    sch.compute_at(row, j).unwrap();
    sch.bind(j, ThreadTag::ThreadIdxX).unwrap();
    refused(&mut sch, "are not known to write different elements", |s| s.set_scope(row, 0, Scope::Shared));
}

#[test]
fn memory_that_threads_share_is_not_filled() {
    let func = kernel(|b| {
        let (x, o) = (input(b, "x", &[4]), output(b, "o", &[4]));
        let t = local(b, "t", 4);
        each(b, "i", 3, |i| {
            b.block(AT, "t", [s("v", &i)], |[v]| b.store(AT, &t, [v.clone()], b.load(AT, &x, [v])));
        });
        each(b, "i", 4, |i| {
            b.block(AT, "o", [s("v", &i)], |[v]| b.store(AT, &o, [v.clone()], b.load(AT, &t, [v])));
        });
    });
    let mut sch = Schedule::new(func).unwrap();
    let t = sch.block("t").unwrap();
    refused(&mut sch, "may be read before it is written", |s| s.set_scope(t, "t", Scope::Shared));
    sch.set_scope(t, "t", Scope::Local).unwrap();
}

#[test]
fn hints_are_removed() {
    let plain = Schedule::new(small_dense()).unwrap();
    let sch = changed(|s| {
        let y = s.block("y")?;
        let [i, _, _] = s.loops(y)?;
        s.annotate(y, "hint", 3i64)?;
        s.annotate(i, "hint", "text")?;
        s.annotate(i, "other", true)?;
        s.unannotate(y, "hint")?;
        s.unannotate(i, "hint")?;
        assert!(s.state().get_block(y.id())?.block.annotations.get("hint").is_none());
        let left = &s.state().get_for(i.id())?.annotations;
        assert!(left.get("hint").is_none() && left.get("other").is_some());
        Ok(())
    });
    assert!(
        sch.trace().to_string().ends_with("s.unannotate(v0, \"hint\")?;\ns.unannotate(v1, \"hint\")?;\n")
    );
    let mut sch = plain;
    let y = sch.block("y").unwrap();
    let [i, _, _] = sch.loops(y).unwrap();
    sch.annotate(y, "hint", 3i64).unwrap();
    refused(&mut sch, "there is no annotation `other`", |s| s.unannotate(y, "other"));
    refused(&mut sch, "there is no annotation `hint`", |s| s.unannotate(i, "hint"));
}
