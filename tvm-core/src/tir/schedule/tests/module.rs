//! Schedules of a module with several tensor programs.

use super::*;
use crate::ir::{BaseFunc, IRModule};

fn module() -> IRModule {
    let mut module = IRModule::new();
    for (name, func) in [("dense", small_dense()), ("rows", rows()), ("stencil", stencil(dim(8), dim(6)))] {
        module.add(name, BaseFunc::Prim(Arc::new(func)));
    }
    module
}

/// Changes two of the three programs.
fn tile(schedules: &mut ModuleSchedule) -> Result<()> {
    let dense = schedules.work_on("dense")?;
    let block = dense.block("y")?;
    let loops = dense.get_loops(block)?;
    dense.split(loops[0], [None, Some(2)])?;
    let rows = schedules.work_on("rows")?;
    let d = rows.block("d")?;
    rows.compute_inline(d)?;
    // Back to the first one: it is as it was left.
    let dense = schedules.work_on("dense")?;
    let loops = dense.get_loops(block)?;
    assert_eq!(loops.len(), 4);
    dense.parallel(loops[0])
}

#[test]
fn programs_are_scheduled_one_by_one_and_traces_are_applied_to_all() {
    let mut schedules = ModuleSchedule::new(module());
    tile(&mut schedules).unwrap();
    let traces = schedules.traces();
    assert_eq!(traces.keys().collect::<Vec<_>>(), ["dense", "rows"]);
    let scheduled = schedules.into_module();
    let original = module();
    for ((gv, func), (other, before)) in scheduled.functions().zip(original.functions()) {
        let (BaseFunc::Prim(func), BaseFunc::Prim(before)) = (func, before) else { panic!("{gv:?}") };
        assert_eq!(gv.name(), other.name());
        let is_same = structural_equal(&**func, &**before).is_ok();
        assert_eq!(is_same, gv.name() == "stencil", "{}", gv.name());
        assert_eq!(run(func, arguments(func, &[])), run(before, arguments(before, &[])), "{}", gv.name());
    }
    let mut again = ModuleSchedule::new(module());
    again.apply_traces(&traces).unwrap();
    let again = again.into_module();
    structural_equal(&again, &scheduled).unwrap();
}

#[test]
fn wrong_names_handles_and_traces_are_refused_and_change_nothing() {
    let mut schedules = ModuleSchedule::new(module());
    let err = schedules.work_on("row").unwrap_err().to_string();
    assert_eq!(
        err,
        "the module has no tensor program `row`; the tensor programs are dense, rows, stencil\n  help: did you mean `rows`?"
    );
    let block = schedules.work_on("dense").unwrap().block("y").unwrap();
    let foreign = schedules.work_on("rows").unwrap().compute_inline(block);
    assert!(matches!(foreign, Err(ScheduleError::ForeignHandle { .. })), "{foreign:?}");

    let mut done = ModuleSchedule::new(module());
    tile(&mut done).unwrap();
    let mut traces = done.traces();
    let rows = traces["rows"].clone();
    traces.insert("stencil".into(), rows);
    let mut schedules = ModuleSchedule::new(module());
    assert!(schedules.apply_traces(&traces).is_err());
    assert_eq!(schedules.schedules().count(), 0);
    structural_equal(&schedules.into_module(), &module()).unwrap();
}
