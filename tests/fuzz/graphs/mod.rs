//! Random graphs: well-typed programs with symbolic dimensions, views, values that are used many times, tuples, branches,
//! matches, closures and recursion. They must compute the same before and after every pass, and with every code generator.

mod control;
mod functions;
mod graph;
mod motions;
mod operators;
mod places;
mod program;
mod run;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tvm::Device;
use tvm::codegen::compile_module;
use tvm::ir::{IRModule, well_formed};
use tvm::pipeline::default_build;
use tvm::runtime::Tensor;
use tvm_testing::{Budget, Rng};

use crate::gpu;
use crate::native::targets;
use graph::Mode;
use program::Program;
use run::{Same, context, difference, interpreted, optional, passes, results};

/// Number of programs that are compiled as one unit.
const BATCH: usize = 16;

/// Statistics of a run of many programs.
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

impl Count {
    fn add(&mut self, program: &Program, runs: &Results) {
        self.programs += 1;
        self.steps += program.made;
        self.refused += program.refused;
        program.names.iter().for_each(|name| *self.names.entry(name).or_default() += 1);
        self.runs += runs.len();
        self.failing += runs.iter().filter(|it| it.is_err()).count();
    }

    /// Summary of the statistics; asserts that most programs ran to their end.
    fn report(&self) -> String {
        let Count { programs, steps, refused, runs, failing, names } = self;
        assert!(failing * 3 < *runs, "{failing} of {runs} runs fail");
        format!(
            "{programs} programs of {steps} steps ({refused} refused), {runs} runs, {failing} of which fail without \
             optimisation, {} operators: {names:?}",
            names.len()
        )
    }
}

/// Generates the program of `seed`, checks that it is well-formed, and returns it with its results without optimisation.
fn reference(seed: u64, mode: Mode) -> Result<(Program, Results), String> {
    let program = Program::new(&mut Rng::new(seed), mode, IRModule::new());
    let fail = |what: String| format!("seed {seed}: {what}\n{}", program.module);
    well_formed(&program.module).map_err(|err| fail(format!("not well-formed: {err}")))?;
    let plain = interpreted(&program.module, &passes(|_| false), 2)
        .map_err(|err| fail(format!("it does not compile without optimisation: {err}")))?;
    let want = results(&program, &plain);
    Ok((program, want))
}

/// Compares the program of `seed` before and after passes: each pass alone, random subsets, and all passes at every level.
fn check(seed: u64, count: &mut Count) -> Result<(), String> {
    let (program, want) = reference(seed, Mode::ANY)?;
    count.add(&program, &want);
    let mut rng = Rng::new(seed ^ 0x5eed);
    let names = optional();
    let mut variants = Vec::new();
    for &name in &names {
        // Fusion consists of three passes.
        let fusion = ["AnnotateTIROpPattern", "FuseOps", "FuseTIR"];
        let keep = if fusion.contains(&name) { fusion.to_vec() } else { vec![name] };
        variants.push((format!("{keep:?}"), passes(|it| keep.contains(&it)), 2));
    }
    let some: Vec<&str> = names.iter().copied().filter(|_| rng.one_in(2)).collect();
    variants.push((format!("{some:?}"), passes(|it| some.contains(&it)), 2));
    variants.extend((0..=3).map(|level| (format!("all, at level {level}"), default_build(), level)));
    let variants: Vec<_> = match std::env::var("TVM_FUZZ_SECONDS") {
        Ok(_) => variants,
        // In the short form: one pass, a random subset, all passes.
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
    let module = places::placed(&program.module, &mut rng);
    let fail = |what: String| format!("seed {seed} with places: {what}\n{module}");
    let vm = interpreted(&module, &default_build(), 2).map_err(&fail)?;
    let got = on_host(results(&program, &vm));
    difference(&program, &got, &want, Same::Bits).map_or(Ok(()), |what| Err(fail(what)))
}

/// The results on the host.
fn on_host(results: Results) -> Results {
    let moved = |it: Tensor| it.to_device(Device::cpu()).map_err(|err| err.to_string());
    results.into_iter().map(|run| run?.into_iter().map(moved).collect()).collect()
}

fn guarded(seeds: &[u64], check: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|it| (*it).to_string()));
        Err(format!("seeds {seeds:?}: panic: {}", text.unwrap_or_default()))
    })
}

/// Compares the programs of `seeds`, compiled as one module, with the unoptimised programs in the interpreter.
fn check_compiled(seeds: &[u64], count: &mut Count) -> Result<(), String> {
    let (targets, mode) = match gpu::target() {
        Some(gpu) => (vec![gpu], Mode::EXACT_ON_GPU),
        None => (targets(), Mode::EXACT),
    };
    let mut programs: Vec<(Program, Results)> = Vec::new();
    let mut module = IRModule::new();
    for &seed in seeds {
        let (alone, want) = reference(seed, Mode::EXACT)?;
        count.add(&alone, &want);
        let program = Program::new(&mut Rng::new(seed), mode, module);
        module = program.module.clone();
        programs.push((program, want));
    }
    for target in targets {
        let vm = match context(3).scope(|| compile_module(&module, &target)) {
            Ok(vm) => vm,
            Err(err) => {
                return Err(format!("seeds {seeds:?}: it does not compile for {target}: {err}\n{module}"));
            }
        };
        for ((program, want), seed) in programs.iter().zip(seeds) {
            if let Some(what) = difference(program, &on_host(results(program, &vm)), want, Same::Rounding) {
                let alone = Program::new(&mut Rng::new(*seed), mode, IRModule::new());
                return Err(format!("seed {seed}, compiled for {target}: {what}\n{}", alone.module));
            }
        }
    }
    Ok(())
}

/// Runs `check` on the cases and returns the failures: all of them under `TVM_FUZZ_GOES_ON`, else at most the first.
fn run<C>(cases: impl Iterator<Item = C>, mut check: impl FnMut(C) -> Result<(), String>) -> Vec<String> {
    let go_on = std::env::var("TVM_FUZZ_GOES_ON").is_ok();
    let mut failures = Vec::new();
    for case in cases {
        failures.extend(check(case).err());
        if !go_on && !failures.is_empty() {
            break;
        }
    }
    failures
}

#[test]
fn fuzz_graphs() {
    let mut count = Count::default();
    let failures = run(Budget::new("graphs", 16), |seed| guarded(&[seed], || check(seed, &mut count)));
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
    println!("graphs: {}", count.report());
}

#[test]
fn fuzz_compiled_graphs() {
    let mut count = Count::default();
    let mut seeds = Budget::new("compiled_graphs", BATCH as u64);
    let batches = std::iter::from_fn(|| {
        let batch: Vec<u64> = seeds.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then_some(batch)
    });
    let failures = run(batches, |seeds| {
        let together = guarded(&seeds, || check_compiled(&seeds, &mut count));
        // Check each program alone, to find the failing one.
        let alone = |seed: &u64| guarded(&[*seed], || check_compiled(&[*seed], &mut Count::default()));
        together.or_else(|text| seeds.iter().try_for_each(alone).and(Err(text)))
    });
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
    println!("compiled graphs: {}", count.report());
}
