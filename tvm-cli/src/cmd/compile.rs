//! The command `tvmc compile`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;
use serde_json::json;
use tvm_codegen::{Compiled, EmitKind};
use tvm_core::dlight::Applied;
use tvm_core::ir::BaseFunc;
use tvm_core::pass::{Choices, PassContext};
use tvm_runtime::least_level;
use tvm_runtime::vm::Executable;

use super::explain::{explanation, scheduled};
use crate::error::Error;
use crate::model::{self, Options};
use crate::progress::Progress;
use crate::{data, out};

/// Arguments of `tvmc compile`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An ONNX model; `-` is standard input.
    model: PathBuf,
    /// Output file, by default the model's name with the extension .tvm; text goes to standard output by default, as to `-`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output to write instead of an artifact.
    #[arg(long)]
    emit: Option<Emit>,
    /// Says on standard output what was chosen and why: layouts and forms of operators, what became one kernel, the rule and the
    /// parameters of each schedule.
    #[arg(long, conflicts_with_all = ["emit", "json"])]
    explain: bool,
    /// Describes the written file as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: Options,
}

/// Output of one stage of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// Graph function as imported.
    Relax,
    /// Tensor programs, and the bytecode that calls them.
    Tir,
    /// Tensor programs as the default schedules transform them, with the rule and its parameters for each block.
    Schedule,
    /// C source of the kernels.
    C,
    /// CUDA C source of the kernels, with `--target "cuda -arch=SM"`.
    Cuda,
    /// PTX of the kernels, with such a target; NVIDIA's libnvrtc makes it (feature `cuda`).
    Ptx,
    /// Machine code of the kernels for the GPU of the target, made by libnvrtc (feature `cuda`).
    Cubin,
    /// LLVM IR of the kernels.
    Llvm,
    /// Assembly of the kernels.
    Asm,
    /// Object file of the kernels.
    Obj,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let output = match (&args.output, args.emit) {
        (Some(path), _) => path.clone(),
        (None, Some(Emit::Obj)) => return Err(Error::usage("an object file needs --output")),
        (None, Some(Emit::Cubin)) => return Err(Error::usage("a cubin needs --output")),
        (None, None) if data::is_standard(&args.model) => {
            return Err(Error::usage("a model from standard input needs --output"));
        }
        (None, None) => args.model.with_extension("tvm"),
        (None, Some(_)) => PathBuf::from("-"),
    };
    if (args.json || args.explain) && data::is_standard(&output) {
        let option = if args.json { "--json describes" } else { "--explain is about" };
        return Err(Error::usage(format!("{option} a file that is written, and needs --output")));
    }
    data::check_output(&output)?;
    let start = Instant::now();
    let (product, level) = compile(args)?;
    let size = product.write(&output)?;
    if data::is_standard(&output) {
        return Ok(ExitCode::SUCCESS);
    }
    let time = start.elapsed();
    if args.json {
        let cpu = level.trim_start_matches(", ");
        let file = json!({"file": output, "bytes": size, "compile_s": time.as_secs_f64(), "cpu": cpu});
        out::line(file);
        return Ok(ExitCode::SUCCESS);
    }
    let size = out::bytes(size);
    out::line(format_args!("wrote {} ({size}) in {time:.2?}{level}", output.display()));
    Ok(ExitCode::SUCCESS)
}

/// What is written.
enum Product {
    Bytes(Vec<u8>),
    Artifact(Box<Executable>),
}

impl Product {
    /// Writes it; returns its size in bytes. The constants of an artifact are not copied before they are written.
    fn write(&self, output: &Path) -> Result<u64, Error> {
        match self {
            Product::Bytes(bytes) => data::write(output, bytes).map(|()| bytes.len() as u64),
            Product::Artifact(exe) if data::is_standard(output) => {
                let bytes = exe.save()?;
                out::raw(&bytes);
                Ok(bytes.len() as u64)
            }
            Product::Artifact(exe) => {
                exe.save_file(output)?;
                Ok(output.metadata().map_err(Error::io(output))?.len())
            }
        }
    }
}

/// What to write, and which CPUs or GPUs can run it.
fn compile(args: &Args) -> Result<(Product, String), Error> {
    let progress = Progress::importing(&args.model);
    let module = model::import(&args.model, &args.options.import())?;
    progress.say("compiling");
    let target = &args.options.target;
    let choices = if args.explain { Choices::recorded() } else { Choices::default() };
    let bytes = || {
        let bytes = match args.emit {
            None => {
                let compiled = Compiled::new(module, target)?;
                if args.explain {
                    out::raw(explanation(&compiled, &choices.all()).as_bytes());
                }
                let exe = compiled.into_executable()?;
                let level = cpu_level(&exe);
                return Ok((Product::Artifact(exe.into()), level));
            }
            Some(Emit::Relax) => module.to_string().into_bytes(),
            Some(Emit::Tir) => {
                let compiled = Compiled::new(module, target)?;
                let bytecode = comment(&compiled.executable.to_string());
                format!("{}\n{bytecode}", compiled.programs).into_bytes()
            }
            Some(Emit::Schedule) => schedules(&Compiled::new(module, target)?).into_bytes(),
            Some(kind) => Compiled::new(module, target)?.emit(emit_kind(kind))?,
        };
        Ok((Product::Bytes(bytes), String::new()))
    };
    let context = PassContext { choices: choices.clone(), ..PassContext::current() };
    context
        .scope(|| args.options.scope(&progress, bytes))
        .map_err(|err: Error| err.context(&data::show(&args.model)))
}

/// The tensor programs under their default schedules, after comments that say which rule fits which block.
fn schedules(compiled: &Compiled) -> String {
    let mut text = String::new();
    for (_, func) in compiled.programs.functions() {
        let BaseFunc::Prim(func) = func else { continue };
        match scheduled(compiled, func) {
            Some((scheduled, applied)) => {
                let row = |it: &Applied| format!("block `{}`: {} ({})\n", it.block, it.rule, it.parameters);
                let rows: String = applied.iter().map(row).collect();
                text += &format!("{}{scheduled}\n", comment(&format!("`{}`\n{rows}", func.name)));
            }
            None => {
                text += &format!("{}{func}\n", comment(&format!("`{}` has a schedule of its own", func.name)))
            }
        }
    }
    text
}

/// Describes the CPUs or GPUs that can run an artifact.
fn cpu_level(exe: &Executable) -> String {
    let archs = exe.gpu_archs();
    if !archs.is_empty() {
        return format!(", for {}", archs.join(", "));
    }
    let features: Vec<&str> = exe.cpu_features().collect();
    let levels: Vec<&str> = exe.cpu_levels().collect();
    if !levels.is_empty() {
        return format!(", for {}", levels.join(", "));
    }
    let level = least_level(features.iter().copied());
    let beyond = features.iter().filter(|it| least_level([**it]).is_none()).count();
    match level {
        _ if features.is_empty() => String::new(),
        Some(level) => format!(", for {level}"),
        None => {
            let base = least_level(features.iter().copied().filter(|it| least_level([*it]).is_some()));
            let hint = "`--target \"c -cpu=x86-64-v3\"` is portable";
            format!(", for {} with {beyond} further features; {hint}", base.unwrap_or("this machine"))
        }
    }
}

fn emit_kind(emit: Emit) -> EmitKind {
    match emit {
        Emit::Llvm => EmitKind::LlvmIr,
        Emit::Cuda => EmitKind::Cuda,
        Emit::Ptx => EmitKind::Ptx,
        Emit::Cubin => EmitKind::Cubin,
        Emit::Asm => EmitKind::Asm,
        Emit::Obj => EmitKind::Object,
        Emit::C | Emit::Relax | Emit::Tir | Emit::Schedule => EmitKind::C,
    }
}

fn comment(text: &str) -> String {
    text.lines().map(|line| format!("// {line}\n")).collect()
}
