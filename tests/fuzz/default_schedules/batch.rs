//! Compiles many programs together, runs each on 1, 2 and 7 threads in guarded memory, and compares.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::{bf16, f16};
use tvm::codegen::build;
use tvm::dlight::{Applied, schedule};
use tvm::ir::{BaseFunc, IRModule};
use tvm::pass::PassContext;
use tvm::prelude::*;
use tvm::runtime::{HostArg, Kernel, TensorView, TensorViewMut, ThreadPool, Value, WorkerPool};
use tvm::target::Machine;
use tvm::tir::PrimFunc;
use tvm_testing::{Budget, Rng};

use super::guard::{Guarded, Place, watched};
use super::program::{Expected, Program};
use crate::native;

/// A pool that runs every parallel loop on its threads, however little work it is, and counts them.
struct Eager(WorkerPool);

static LOOPS: AtomicUsize = AtomicUsize::new(0);

impl ThreadPool for Eager {
    fn num_threads(&self) -> usize {
        self.0.num_threads()
    }

    fn parallel_for(&self, extent: usize, _grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        LOOPS.fetch_add(1, Ordering::Relaxed);
        self.0.parallel_for(extent, 1, body);
    }
}

static POOLS: LazyLock<[Eager; 3]> =
    LazyLock::new(|| [1, 2, 7].map(|threads| Eager(WorkerPool::new(threads))));

/// A machine with vectors, registers and caches of random sizes; small ones have whole tiles for small extents.
pub(crate) fn machine(rng: &mut Rng) -> Machine {
    Machine {
        vector_bits: *rng.pick(&[8, 64, 128, 128, 256, 256, 384, 512, 512, 1024]),
        vector_registers: *rng.pick(&[1, 8, 16, 32, 64]),
        l1_bytes: *rng.pick(&[1 << 10, 32 << 10, 48 << 10]),
        l2_bytes: *rng.pick(&[4 << 10, 256 << 10, 2 << 20]),
        l3_bytes: *rng.pick(&[0, 32 << 20]),
        cores: *rng.pick(&[1, 2, 64]),
        // Its sums round otherwise than those of the interpreter.
        bf16_dot: false,
        masked_vectors: rng.one_in(2),
    }
}

/// What a fuzz run did.
#[derive(Default)]
pub(crate) struct Summary {
    programs: usize,
    kernels: usize,
    runs: usize,
    /// Blocks by the rule that scheduled them, and by the type of the program's first input.
    rules: BTreeMap<&'static str, BTreeMap<String, usize>>,
    /// Programs that could not be checked, by the reason.
    unchecked: BTreeMap<String, usize>,
}

/// Runs programs that `make` makes, `many` in a batch; each rule of `rules` has to schedule some of their blocks.
#[expect(clippy::print_stdout, reason = "a fuzz run says what it did; the test harness shows it on demand")]
pub(crate) fn fuzz(
    target: &'static str,
    (batches, many): (u64, usize),
    rules: &[&str],
    make: impl Fn(&mut Rng) -> Program,
) {
    let mut summary = Summary::default();
    let mut cases = 0;
    let loops = LOOPS.load(Ordering::Relaxed);
    for seed in Budget::new(target, batches) {
        let mut rng = Rng::new(seed);
        let machine = machine(&mut rng);
        let opt_level = if rng.one_in(8) { 2 } else { 1 };
        let programs: Vec<Program> = (0..many).map(|_| make(&mut rng)).collect();
        let failures = check(&programs, &machine, opt_level, &mut summary);
        let head = format!("seed {seed} of {target} on {machine:?}, level {opt_level}");
        assert!(failures.is_empty(), "{head}: {} failures\n{}", failures.len(), failures.join("\n"));
        cases += 1;
    }
    let Summary { programs, kernels, runs, rules: by_rule, unchecked } = &summary;
    let loops = LOOPS.load(Ordering::Relaxed) - loops;
    println!(
        "{target}: {programs} programs, {kernels} kernels, {runs} runs, {loops} parallel loops (of all tests); \
         blocks: {by_rule:?}; not checked: {unchecked:?}"
    );
    let missing: Vec<_> = rules.iter().filter(|rule| !by_rule.contains_key(**rule)).collect();
    assert!(cases < batches || missing.is_empty(), "no block was scheduled by {missing:?}: {by_rule:?}");
    let skipped: usize = unchecked.values().sum();
    assert!(skipped * 4 <= *programs || *programs < 8, "{skipped} of {programs} not checked: {unchecked:?}");
}

/// A program with its schedule and the results that it is to have.
struct Scheduled<'a> {
    program: &'a Program,
    func: PrimFunc,
    applied: Vec<Applied>,
    expected: Expected,
}

/// Checks the programs on all targets; returns a description of each failure.
pub(crate) fn check(
    programs: &[Program],
    machine: &Machine,
    opt_level: u8,
    summary: &mut Summary,
) -> Vec<String> {
    check_for(native::targets(), programs, machine, opt_level, summary)
}

/// Checks the programs on some targets; returns a description of each failure.
pub(crate) fn check_for(
    targets: Vec<Target>,
    programs: &[Program],
    machine: &Machine,
    opt_level: u8,
    summary: &mut Summary,
) -> Vec<String> {
    let mut batch = Vec::new();
    for program in programs {
        summary.programs += 1;
        let expected = match program.expected() {
            Ok(expected) => expected,
            Err(reason) => {
                *summary.unchecked.entry(reason).or_default() += 1;
                continue;
            }
        };
        let (func, applied) = schedule(&program.func, machine).unwrap_or((program.func.clone(), Vec::new()));
        let dtype = expected.args[0].as_tensor().map_or_else(String::new, |it| it.dtype().to_string());
        for it in &applied {
            *summary.rules.entry(it.rule).or_default().entry(dtype.clone()).or_default() += 1;
        }
        batch.push(Scheduled { program, func, applied, expected });
    }
    let context = PassContext { opt_level, ..PassContext::default() };
    let targets = targets.into_iter().map(|target| Target { machine: *machine, ..target });
    context.scope(|| targets.flat_map(|target| check_on(&target, &batch, summary)).collect())
}

fn check_on(target: &Target, batch: &[Scheduled<'_>], summary: &mut Summary) -> Vec<String> {
    let mut module = IRModule::new();
    let names: Vec<String> = batch
        .iter()
        .map(|it| module.add(it.func.name.clone(), BaseFunc::Prim(it.func.clone().into())).name().to_string())
        .collect();
    let built = match build(&module, target) {
        Ok(built) => built,
        // One of them fails to compile; compile each alone to find it.
        Err(_) if batch.len() > 1 => {
            return (0..batch.len()).flat_map(|i| check_on(target, &batch[i..=i], summary)).collect();
        }
        Err(err) if err.to_string().contains("internal compiler error") => {
            *summary.unchecked.entry(format!("a fault of the C compiler for {target}")).or_default() += 1;
            return Vec::new();
        }
        Err(err) => return batch.iter().map(|it| it.about(target, &err.to_string())).collect(),
    };
    let mut failures = Vec::new();
    for (it, name) in batch.iter().zip(&names) {
        let kernel = built.get(name).expect("it was compiled");
        summary.kernels += 1;
        let res = watched(&it.about(target, "stopped"), || it.check(kernel, &mut summary.runs));
        failures.extend(res.err().map(|text| it.about(target, &text)));
    }
    failures
}

impl Scheduled<'_> {
    fn about(&self, target: &Target, text: &str) -> String {
        let Program { func, extents, bound, values, .. } = self.program;
        let applied = &self.applied;
        format!(
            "{text}\non {target} with {extents:?}, {values:?}, {bound:?}\n{applied:?}\n{func}\n{}",
            self.func
        )
    }

    /// Runs the kernel in all ways; the first result is compared with the interpreter's, the others with the first.
    fn check(&self, kernel: &Kernel, runs: &mut usize) -> Result<(), String> {
        let mut first = None;
        for pool in &*POOLS {
            for place in [Place::End, Place::Begin] {
                let got = self.run(kernel, pool, place)?;
                *runs += 1;
                let Some(first) = &first else {
                    self.program.compare(&self.expected, &got)?;
                    first = Some(got);
                    continue;
                };
                if let Some((want, got)) = first.iter().zip(&got).find(|(want, got)| want != got) {
                    let threads = pool.num_threads();
                    return Err(format!("{threads} threads, {place:?}: {}", difference(want, got)));
                }
            }
        }
        Ok(())
    }

    /// Runs the kernel on copies of the arguments in guarded memory; returns its outputs.
    fn run(&self, kernel: &Kernel, pool: &Eager, place: Place) -> Result<Vec<Tensor>, String> {
        let args: Vec<&Tensor> = self.expected.args.iter().filter_map(Value::as_tensor).collect();
        let mut memory: Vec<Guarded> =
            args.iter().map(|it| Guarded::new(it.bytes().expect("on the host"), place)).collect();
        let error = |err: RuntimeError| err.to_string();
        let views = memory.iter_mut().zip(&args).enumerate();
        let views = views.map(|(i, (memory, arg))| view(memory, arg, self.program.is_output(i)));
        // Scalars are the last parameters.
        let scalars = self.expected.args.iter().filter_map(|it| match it {
            Value::Int(value) => Some(Ok(HostArg::Int(*value))),
            _ => None,
        });
        let mut given = views.chain(scalars).collect::<Result<Vec<_>, _>>().map_err(error)?;
        kernel.call(&mut given, Some(pool)).map_err(error)?;
        drop(given);
        let mut outputs = Vec::new();
        for (i, (memory, arg)) in memory.iter().zip(&args).enumerate() {
            if !memory.is_intact()
                || !self.program.is_output(i) && memory.bytes() != arg.bytes().map_err(error)?
            {
                return Err(format!(
                    "argument {i}, {place:?}: bytes were written that are none of the result's"
                ));
            }
            if self.program.is_output(i) {
                outputs.push(Tensor::from_bytes(memory.bytes(), arg.shape(), arg.dtype()).map_err(error)?);
            }
        }
        Ok(outputs)
    }
}

/// Describes how results on several threads differ from those on one.
fn difference(want: &Tensor, got: &Tensor) -> String {
    let numbers = |it: &Tensor| it.to_f64s().unwrap_or_default();
    let bits = |it: f64| it.to_bits();
    let (want, got) = (numbers(want), numbers(got));
    let differ = |(_, (a, b)): &(usize, (&f64, &f64))| bits(**a) != bits(**b);
    let places: Vec<_> = want.iter().zip(&got).enumerate().filter(differ).collect();
    match places.first() {
        Some((at, (want, got))) => {
            let count = places.len();
            format!("{count} elements differ from those on one thread: element {at} is {got:e}, not {want:e}")
        }
        None => "a NaN has other bits than on one thread".into(),
    }
}

/// The argument that `memory` holds.
fn view<'a>(memory: &'a mut Guarded, arg: &'a Tensor, output: bool) -> Result<HostArg<'a>, RuntimeError> {
    macro_rules! of {
        ($($name:ident $ty:ty),*) => {
            match arg.dtype() {
                $(DataType::$name if output => {
                    HostArg::Out(TensorViewMut::new(memory.slice_mut::<$ty>(), arg.shape())?)
                })*
                $(DataType::$name => HostArg::In(TensorView::new(memory.slice::<$ty>(), arg.shape())?),)*
                other => panic!("no program has tensors of {other}"),
            }
        };
    }
    Ok(of!(F32 f32, F64 f64, F16 f16, BF16 bf16, I8 i8, U8 u8, I32 i32, I64 i64))
}
