//! Random schedules of many programs: accepted primitives must not change results, and refused ones must not change the
//! program.
//!
//! `TVM_FUZZ_KERNEL` limits a run to the kernels whose name contains it; `TVM_FUZZ_GOES_ON` collects failures instead of
//! stopping at the first.

use std::collections::BTreeMap;

use tvm_testing::{Budget, Rng};

use crate::case::Case;
use crate::check::{Count, check, shrink};
use crate::kernels;
use crate::native::{check_batch, targets};
use crate::steps::step;

/// Number of programs that are compiled as one unit, and number of traces per compiled one.
const BATCH: usize = 48;
const EVERY: u64 = 8;

#[test]
fn fuzz_schedules() {
    let wanted = std::env::var("TVM_FUZZ_KERNEL").unwrap_or_default();
    let go_on = std::env::var("TVM_FUZZ_GOES_ON").is_ok();
    let cases: Vec<Case> = kernels::all().filter(|it| it.name.contains(&wanted)).map(Case::new).collect();
    // By kernel and place: the first failure, and the number of failures.
    let mut failures: BTreeMap<String, (String, usize)> = BTreeMap::new();
    let (mut traces, mut compiled, mut total) = (0u64, 0, Count::default());
    let mut batch = Vec::new();
    let mut flush = |batch: &mut Vec<(&Case, _)>, failures: &mut BTreeMap<String, (String, usize)>| {
        compiled += batch.len();
        for target in targets() {
            for (i, text) in check_batch(&target, batch) {
                let (case, func) = &batch[i];
                let key = format!("kernel `{}`, compiled", case.kernel.name);
                failures.entry(key).or_insert_with(|| (format!("{text}\n{func}"), 0)).1 += 1;
            }
        }
        batch.clear();
    };
    for seed in Budget::new("schedules", 300) {
        let mut rng = Rng::new(seed);
        let case = rng.pick(&cases);
        let seeds: Vec<u64> = (0..rng.range(1, 12)).map(|_| rng.next()).collect();
        traces += 1;
        match check(step, case, &seeds, &mut total) {
            Ok(Some(func)) if traces % EVERY == 0 => batch.push((case, func)),
            Ok(_) => {}
            Err(failure) => {
                let (_, failure) = shrink(step, case, &seeds, failure);
                let key = format!("kernel `{}`, {}", case.kernel.name, failure.at);
                let text = || (format!("seed {seed}: {}", failure.what), 0);
                failures.entry(key).or_insert_with(text).1 += 1;
            }
        }
        if batch.len() == BATCH {
            flush(&mut batch, &mut failures);
        }
        if !failures.is_empty() && !go_on {
            break;
        }
    }
    flush(&mut batch, &mut failures);
    let names: Vec<String> = targets().iter().map(ToString::to_string).collect();
    println!(
        "schedules: {traces} traces of {} kernels, {} steps accepted, {} refused, {} programs too long to run, {} run as \
         threads of a GPU, {compiled} compiled for {}",
        cases.len(),
        total.accepted,
        total.refused,
        total.too_long,
        total.kernels,
        names.join(" and ")
    );
    let texts: Vec<String> =
        failures.iter().map(|(key, (text, count))| format!("{key} ({count} times)\n{text}")).collect();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), texts.join("\n\n"));
}
