//! The programs of the other fuzz tests on machines of several sizes: their schedules are well-formed, free of races, and
//! compute the same.

use tvm::dlight::schedule;
use tvm::target::Machine;
use tvm::tir::analysis::well_formed;
use tvm_testing::{Budget, Rng};

use super::batch::machine;
use crate::case::Case;
use crate::check::lowered;
use crate::{kernels, native};

#[test]
fn fuzz_default_schedules() {
    let cases: Vec<Case> = kernels::all().map(Case::new).collect();
    let (mut failures, mut rules, mut rounds) = (Vec::new(), 0, 0);
    for seed in Budget::new("default_schedules", 2) {
        let mut rng = Rng::new(seed);
        let mut batch = Vec::new();
        rounds += 1;
        // A third of the programs at a time: most of the time goes into compiling them.
        for case in cases.iter().skip(rng.below(3)).step_by(3) {
            let machine = machine(&mut rng);
            let Some((func, applied)) = schedule(&case.func, &machine) else { continue };
            rules += applied.len();
            let checked = well_formed(&func)
                .map_err(|err| format!("not well-formed: {err}"))
                .and_then(|()| case.interpret(&func, false))
                .and_then(|_| case.interpret(&lowered(&func, false)?, true));
            match checked {
                Ok(true) => batch.push((case, func)),
                Ok(false) => failures.push(format!("{}: too long", case.kernel.name)),
                Err(text) => failures
                    .push(format!("{} for {machine:?}: {text}\n{applied:?}\n{func}", case.kernel.name)),
            }
        }
        for target in native::targets() {
            for (i, text) in native::check_batch(&target, &batch) {
                failures.push(format!("{}: {text}\n{}", batch[i].0.kernel.name, batch[i].1));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(rules >= 15 * rounds, "{rules} blocks were scheduled in {rounds} rounds");
}

/// Loops that begin at 1, blocks that name a value, and blocks that depend on the iteration before have schedules.
#[test]
fn plain_loops_of_all_forms_are_scheduled() {
    let cases = [
        ("life", vec!["spatial", "spatial"]),
        ("running_rows", vec!["spatial", "ordered"]),
        ("running_columns", vec!["spatial", "ordered"]),
        // The last block has no axis in any order.
        ("distance", vec!["spatial", "spatial"]),
    ];
    for (name, want) in cases {
        let kernel = kernels::all().find(|it| it.name == name).expect("a kernel of this name");
        let (func, applied) = schedule(&Case::new(kernel).func, &Machine::baseline()).expect("not scheduled");
        assert_eq!(applied.iter().map(|it| it.rule).collect::<Vec<_>>(), want, "{func}");
    }
}
