//! The executors of CUDA kernels that need no GPU: the lowered program as threads on the interpreter, which reports races,
//! accesses that are not in order with barriers and reads of what was not written; and the emitted source on a CPU.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tvm_codegen::cuda::{self, Argument, CudaSource, Step};
use tvm_codegen::lowered;
use tvm_core::ir::IRModule;
use tvm_core::target::Target;
use tvm_core::tir::PrimFunc;
use tvm_core::tir::interp::Program;
use tvm_runtime::{Tensor, Value};

const EMULATOR: &str = include_str!("emulator.h");

/// How many checks were left out, of all executors.
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Says that something is not checked.
pub(crate) fn skip(what: &str) {
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    // Not by `eprintln`, which tests that pass keep to themselves.
    let _ = writeln!(std::io::stderr(), "SKIPPED (number {count} in this process): {what}");
}

/// The programs of `module`, lowered for a GPU.
pub(crate) fn lower(module: &IRModule) -> Vec<(String, PrimFunc)> {
    lowered(module, &Target::cuda()).unwrap_or_else(|err| panic!("cuda: {err}"))
}

/// The tensors after each call of each program, from the interpreter in strict mode.
pub(crate) fn interpret(programs: &[(String, PrimFunc)], calls: &[Vec<Vec<Value>>]) -> Vec<Vec<Vec<Value>>> {
    let run = |((name, func), calls): (&(String, PrimFunc), &Vec<Vec<Value>>)| {
        let program = Program::compile(func).unwrap_or_else(|err| panic!("{name}: {err}"));
        let run = |(k, args): (usize, &Vec<Value>)| {
            let mut args: Vec<Value> = args.iter().map(copy).collect();
            let res = program.strict(k as u64 + 1).run(&mut args);
            res.unwrap_or_else(|err| panic!("{name} as threads: {err}\n{func}"));
            args
        };
        calls.iter().enumerate().map(run).collect()
    };
    programs.iter().zip(calls).map(run).collect()
}

/// The same from the emitted source, run by the emulator; `None` where there is no compiler.
pub(crate) fn emulate(
    programs: &[(String, PrimFunc)],
    calls: &[Vec<Vec<Value>>],
) -> Option<Vec<Vec<Vec<Value>>>> {
    let source = match cuda::source(programs) {
        Ok(source) => source,
        Err(err) if err.to_string().contains("does not support a vector") => {
            skip(&format!("the emulator of CUDA kernels: {err}"));
            return None;
        }
        Err(err) => panic!("cuda: {err}"),
    };
    match emulate_source(&source, calls)? {
        Ok(results) => Some(results),
        Err(err) => panic!("{err}"),
    }
}

/// Runs `source`; an error if it stops, or a kernel records a failure. `None` where there is no compiler.
pub(crate) fn emulate_source(
    source: &CudaSource,
    calls: &[Vec<Vec<Value>>],
) -> Option<Result<Vec<Vec<Vec<Value>>>, String>> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("emulated");
    compile(source, &program)?;
    Some(run(source, calls, &program))
}

/// Compiles `source` with the emulator; `None` where there is no compiler.
fn compile(source: &CudaSource, program: &Path) -> Option<()> {
    let kernels = source.programs.iter().flat_map(|it| &it.kernels);
    let row = |it: &cuda::CudaKernel| {
        format!("  {{[](uint64_t *args) {{ call({}, args); }}, {}}},\n", it.name, it.has_barriers())
    };
    let table: String = kernels.map(row).collect();
    let text =
        format!("{EMULATOR}\n{}\nint main() {{\n  return run_calls({{\n{table}  }});\n}}\n", source.text);
    let input = program.with_extension("cc");
    std::fs::write(&input, text).unwrap();
    let own = std::env::var("CXX").ok();
    for compiler in own.iter().map(String::as_str).chain(["c++", "g++", "clang++"]) {
        let mut command = Command::new(compiler);
        command.args([
            "-std=gnu++17",
            "-O1",
            "-w",
            "-U_FORTIFY_SOURCE",
            "-ffp-contract=off",
            "-fno-strict-aliasing",
            "-o",
        ]);
        let Ok(out) = command.arg(program).arg(&input).output() else { continue };
        let message = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{compiler}: {message}\n{}", source.text);
        return Some(());
    }
    skip("the emulator of CUDA kernels: there is no C++ compiler");
    None
}

fn run(
    source: &CudaSource,
    calls: &[Vec<Vec<Value>>],
    program: &Path,
) -> Result<Vec<Vec<Vec<Value>>>, String> {
    let mut input = Words::default();
    input.word(calls.iter().map(Vec::len).sum::<usize>() as u64);
    let mut first = 0;
    for (host, calls) in source.programs.iter().zip(calls) {
        for args in calls {
            input.call(host, args, first).map_err(|err| err.to_string())?;
        }
        first += host.kernels.len() as u64;
    }
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|err| err.to_string())?;
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input.0));
    let mut output = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut output).map_err(|err| err.to_string())?;
    let out = child.wait_with_output().map_err(|err| err.to_string())?;
    let written = writer.join().unwrap();
    if !out.status.success() || written.is_err() {
        return Err(format!("{}: {}", out.status, String::from_utf8_lossy(&out.stderr)));
    }
    let mut rest = &output[..];
    let mut take = |count: usize| {
        let (bytes, other) = rest.split_at_checked(count).ok_or("the output ends early")?;
        rest = other;
        Ok::<_, String>(bytes)
    };
    let mut results = Vec::new();
    for calls in calls {
        let mut of_program = Vec::new();
        for args in calls {
            let failure: Vec<i64> =
                take(24)?.chunks(8).map(|it| i64::from_le_bytes(it.try_into().unwrap())).collect();
            if failure[0] != 0 {
                let what = &source.failures[failure[0] as usize - 1].what;
                return Err(format!("a kernel failed: {what}: expected {}, got {}", failure[1], failure[2]));
            }
            let mut after = Vec::new();
            for arg in args {
                after.push(match arg {
                    Value::Tensor(it) => {
                        let bytes = take(it.bytes().unwrap().len())?;
                        Value::Tensor(Tensor::from_bytes(bytes, it.shape(), it.dtype()).unwrap())
                    }
                    other => other.clone(),
                });
            }
            of_program.push(after);
        }
        results.push(of_program);
    }
    Ok(results)
}

/// The input of the emulator.
#[derive(Default)]
struct Words(Vec<u8>);

impl Words {
    fn word(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn call(
        &mut self,
        host: &cuda::CudaProgram,
        args: &[Value],
        first: u64,
    ) -> Result<(), tvm_runtime::LaunchError> {
        let plan = host.plan(args)?;
        self.word(args.len() as u64);
        self.word((args.len() + plan.memories.len()) as u64);
        for arg in args {
            let bytes = arg.as_tensor().map_or(&[][..], |it| it.bytes().unwrap());
            self.word(bytes.len() as u64);
            self.0.extend(bytes);
        }
        plan.memories.iter().for_each(|bytes| self.word(*bytes));
        self.word(plan.steps.len() as u64);
        for step in &plan.steps {
            let Step::Launch { kernel, grid, block, shared, args } = step;
            self.word(first + *kernel as u64);
            grid.iter().chain(block).chain([shared]).for_each(|it| self.word((*it).into()));
            self.word(args.len() as u64);
            for arg in args {
                let (kind, value) = match *arg {
                    Argument::Memory(memory) => (0, memory as u64),
                    Argument::Scalar(bits, _) => (1, bits),
                    Argument::Failure => (2, 0),
                };
                self.word(kind);
                self.word(value);
            }
        }
        Ok(())
    }
}

pub(crate) fn copy(value: &Value) -> Value {
    match value {
        Value::Tensor(tensor) => Value::Tensor(
            Tensor::from_bytes(tensor.bytes().unwrap(), tensor.shape(), tensor.dtype()).unwrap(),
        ),
        other => other.clone(),
    }
}
