//! Random graphs: well-typed programs with symbolic dimensions, views, values used many times, tuples, branches, matches,
//! closures and recursion compute the same before and after every pass, and through every code generator.

mod control;
mod functions;
mod graph;
mod motions;
mod operators;
mod program;
mod run;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tvm::ir::well_formed;
use tvm::pipeline::default_build;
use tvm::runtime::Tensor;
use tvm_testing::{Budget, Rng};

use program::Program;
use run::{Same, difference, interpreted, optional, passes, results};

/// What a run of many programs saw.
#[derive(Default)]
struct Count {
    programs: usize,
    steps: usize,
    refused: usize,
    runs: usize,
    failing: usize,
    names: BTreeMap<&'static str, usize>,
}

type Results = Vec<Result<Vec<Tensor>, String>>;

/// The program of `seed`, well-formed, and its results without optimisation.
fn reference(seed: u64, exact: bool, count: &mut Count) -> Result<(Program, Results), String> {
    let program = Program::new(&mut Rng::new(seed), exact);
    count.programs += 1;
    count.steps += program.made;
    count.refused += program.refused;
    program.names.iter().for_each(|name| *count.names.entry(name).or_default() += 1);
    let fail = |what: String| format!("seed {seed}: {what}\n{}", program.module);
    well_formed(&program.module).map_err(|err| fail(format!("not well-formed: {err}")))?;
    let plain = interpreted(&program.module, &passes(|_| false), 2)
        .map_err(|err| fail(format!("it does not compile without optimisation: {err}")))?;
    let want = results(&program, &plain);
    count.runs += want.len();
    count.failing += want.iter().filter(|it| it.is_err()).count();
    Ok((program, want))
}

/// Compares the program of `seed` with itself after passes: each by itself, several, all, at every level.
fn check(seed: u64, count: &mut Count) -> Result<(), String> {
    let (program, want) = reference(seed, false, count)?;
    let mut rng = Rng::new(seed ^ 0x5eed);
    let names = optional();
    let mut variants = Vec::new();
    for &name in &names {
        // Fusion is three passes.
        let fusion = ["AnnotateTIROpPattern", "FuseOps", "FuseTIR"];
        let keep = if fusion.contains(&name) { fusion.to_vec() } else { vec![name] };
        variants.push((format!("{keep:?}"), passes(|it| keep.contains(&it)), 2));
    }
    let some: Vec<&str> = names.iter().copied().filter(|_| rng.one_in(2)).collect();
    variants.push((format!("{some:?}"), passes(|it| some.contains(&it)), 2));
    variants.extend((0..=3).map(|level| (format!("all, at level {level}"), default_build(), level)));
    let variants: Vec<_> = match std::env::var("TVM_FUZZ_SECONDS") {
        Ok(_) => variants,
        // The short form: one pass, some, all.
        Err(_) => {
            let one = rng.below(names.len());
            let len = variants.len();
            variants
                .into_iter()
                .enumerate()
                .filter(|(i, _)| *i == one || (len - 5..len - 2).contains(i))
                .map(|(_, it)| it)
                .collect()
        }
    };
    for (name, pass, level) in variants {
        let fail = |what: String| format!("seed {seed} after {name}: {what}\n{}", program.module);
        let vm = interpreted(&program.module, &pass, level).map_err(&fail)?;
        if let Some(what) = difference(&program, &results(&program, &vm), &want, Same::Bits) {
            return Err(fail(what));
        }
    }
    Ok(())
}

fn guarded(seed: u64, check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|it| (*it).to_string()));
        Err(format!("seed {seed}: panic: {}", text.unwrap_or_default()))
    })
}

#[test]
fn fuzz_graphs() {
    let go_on = std::env::var("TVM_FUZZ_GOES_ON").is_ok();
    let mut count = Count::default();
    let mut failures = Vec::new();
    for seed in Budget::new("graphs", 40) {
        if let Err(text) = guarded(seed, || check(seed, &mut count)) {
            failures.push(text);
            if !go_on {
                break;
            }
        }
    }
    let Count { programs, steps, refused, runs, failing, names } = count;
    println!(
        "graphs: {programs} programs, {steps} steps, {refused} refused, {runs} runs, {failing} of them fail"
    );
    println!("{names:?}");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
    assert!(failing * 3 < runs, "most programs run to their end");
}
