//! Kernels for another architecture: objects for 64-bit ARM are linked with a small program, which runs under an emulator
//! and must give the results of the interpreter.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use tvm_codegen::{EmitKind, build, emit};
use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::target::{Target, TargetKind};
use tvm_core::te::{compute, create_prim_func, placeholder, reduce_axis, sum};
use tvm_core::tir::transform::renew_defs;
use tvm_core::tir::{ForKind, Intrinsic, PrimExpr, PrimFunc};
use tvm_runtime::abi::kernel_symbol;
use tvm_runtime::{DataType, Tensor, Value};

use super::data::{Rng, assert_close, call};
use super::elementwise::map;
use super::narrow::product;
use super::suite::{Case, matmul, targets, tensor};

const TRIPLE: &str = "aarch64-linux-gnu";
const COMPILER: &str = "aarch64-linux-gnu-gcc";
const EMULATOR: &str = "qemu-aarch64-static";

/// The services of a kernel: one thread, and memory of the C library.
const SERVICES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static int32_t serial(tvm_ctx *ctx, tvm_body body, int64_t extent, uint64_t cost, void *env) {
  return extent > 0 ? body(ctx, 0, extent, env) : 0;
}
static void *get(tvm_ctx *ctx, uint64_t bytes) { return aligned_alloc(64, (bytes + 63) / 64 * 64); }
static void put(tvm_ctx *ctx, void *memory) { free(memory); }
static void *input(uint64_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 64) / 64 * 64);
  if (!memory || fread(memory, 1, bytes, stdin) != bytes) exit(100);
  return memory;
}
"#;

/// True if the tools are installed.
fn tools() -> bool {
    let runs = |tool: &&str| Command::new(tool).arg("--version").output().is_ok_and(|it| it.status.success());
    [COMPILER, EMULATOR].iter().all(runs)
}

/// A tensor program for each kind of kernel, with arguments.
fn cases() -> Vec<Case> {
    use DataType as D;
    let mut rng = Rng(31);
    let mut cases = Vec::new();
    let symbolic = [[1, 1, 1], [17, 33, 9], [32, 32, 32]]
        .map(|[m, n, k]| [[m, k], [k, n], [m, n]].map(|shape| tensor(&shape, D::F32, &mut rng)).to_vec());
    cases.push(Case { func: matmul([ForKind::Serial; 3]), args: symbolic.to_vec(), tolerance: 1e-5 });
    let rows = [
        ([D::F32; 3], 1e-5),
        ([D::F16, D::F16, D::F32], 1e-4),
        ([D::BF16, D::BF16, D::F32], 1e-4),
        ([D::I8, D::I8, D::I32], 0.0),
        ([D::U8, D::I8, D::I32], 0.0),
    ];
    for (i, (types, tolerance)) in rows.into_iter().enumerate() {
        for ([m, n, k], transposed) in [([32, 48, 64], false), ([9, 33, 15], true)] {
            let name = format!("product_{i}_{transposed}");
            let func = product(&name, [m, n, k].map(PrimExpr::index), types, transposed);
            let b = if transposed { [n, k] } else { [k, n] };
            let shapes = [[m, k], b, [m, n]].into_iter().zip(types);
            let args = shapes.map(|(shape, ty)| tensor(&shape, ty, &mut rng)).collect();
            cases.push(Case { func, args: vec![args], tolerance });
        }
    }
    for (func, shapes) in [
        (convolution(), vec![vec![4, 12, 13], vec![8, 4, 3, 3], vec![8, 10, 11]]),
        (row_sums(), vec![vec![19, 77], vec![19]]),
    ] {
        let args = shapes.iter().map(|shape| tensor(shape, D::F32, &mut rng)).collect();
        cases.push(Case { func, args: vec![args], tolerance: 1e-4 });
    }
    for kind in [ForKind::Serial, ForKind::Vectorized] {
        let func = map(&format!("chain_{kind:?}"), kind, &[D::F32; 2], D::F32, |x| {
            let gelu = x[0].clone() * (x[0].clone().unary(Intrinsic::Erf) + PrimExpr::float(1.0, D::F32));
            gelu + x[1].clone().unary(Intrinsic::Exp)
        });
        let args = [0, 1, 7, 64, 203].map(|n| (0..3).map(|_| tensor(&[n], D::F32, &mut rng)).collect());
        cases.push(Case { func, args: args.to_vec(), tolerance: 1e-5 });
    }
    cases
}

fn convolution() -> PrimFunc {
    let x = placeholder("x", [4, 12, 13].map(PrimExpr::index).to_vec(), DataType::F32);
    let w = placeholder("w", [8, 4, 3, 3].map(PrimExpr::index).to_vec(), DataType::F32);
    let [c, p, q] = [("c", 4), ("p", 3), ("q", 3)].map(|(name, n)| reduce_axis(name, PrimExpr::index(n)));
    let y = compute("y", [8, 10, 11].map(PrimExpr::index).to_vec(), &[&x, &w], |i: &[PrimExpr]| {
        let element = x.at([c.expr(), i[1].clone() + p.expr(), i[2].clone() + q.expr()]);
        sum(element * w.at([i[0].clone(), c.expr(), p.expr(), q.expr()]), &[&c, &p, &q])
    });
    create_prim_func("convolution", &[x, w], &[y]).unwrap()
}

fn row_sums() -> PrimFunc {
    let x = placeholder("x", [19, 77].map(PrimExpr::index).to_vec(), DataType::F32);
    let k = reduce_axis("k", PrimExpr::index(77));
    let y = compute("y", vec![PrimExpr::index(19)], &[&x], |i: &[PrimExpr]| {
        sum(x.at([i[0].clone(), k.expr()]), &[&k])
    });
    create_prim_func("row_sums", &[x], &[y]).unwrap()
}

fn module_of(cases: &[Case]) -> (IRModule, Vec<String>) {
    let mut module = IRModule::new();
    let add = |case: &Case| {
        let func = BaseFunc::Prim(renew_defs(&case.func).into());
        module.add(case.func.name.clone(), func).name().to_string()
    };
    let names = cases.iter().map(add).collect();
    (module, names)
}

/// The program that reads the arguments of all runs, calls the kernels, and writes the last arguments.
fn driver(names: &[String], cases: &[Case]) -> String {
    let mut source = include_str!("../../src/c/prelude.h").to_string() + SERVICES;
    let mut main = String::new();
    for (name, case) in names.iter().zip(cases) {
        let symbol = kernel_symbol(name);
        let _ = writeln!(source, "int32_t {symbol}(const tvm_arg *, int32_t, tvm_ctx *);");
        for args in &case.args {
            let _ = writeln!(main, "  {{\n    tvm_arg args[{}];", args.len());
            for (i, arg) in args.iter().enumerate() {
                let it = arg.as_tensor().unwrap();
                let (size, ty) = (it.bytes().unwrap().len(), it.dtype());
                let shape: Vec<String> = it.shape().iter().map(ToString::to_string).collect();
                let _ = writeln!(
                    main,
                    "    int64_t shape{i}[] = {{{}}};\n    \
                     tvm_tensor t{i} = {{input({size}), {{1, 0}}, {}, {{{}, {}, 1}}, shape{i}, 0, 0}};\n    \
                     args[{i}].tensor = &t{i};",
                    shape.join(", "),
                    shape.len(),
                    ty.code() as u8,
                    ty.bits(),
                );
            }
            let last = args.len() - 1;
            let size = args[last].as_tensor().unwrap().bytes().unwrap().len();
            let _ = writeln!(
                main,
                "    if ({symbol}(args, {}, &ctx)) {{ fprintf(stderr, \"{name}: status %d\", ctx.error.status); return 1; }}\n    \
                 fwrite(t{last}.data, 1, {size}, stdout);\n  }}",
                args.len(),
            );
        }
    }
    let version = tvm_runtime::abi::ABI_VERSION;
    let _ = writeln!(
        source,
        "int main(void) {{\n  tvm_ctx ctx = {{{version}, 1, serial, get, put, 0, {{0}}}};\n{main}  return 0;\n}}"
    );
    source
}

/// Links `object` with the program, and returns what this writes when it reads `input`.
fn run(object: &[u8], source: &str, input: &[u8], dir: &Path) -> Vec<u8> {
    let [code, kernels, program] = ["main.c", "kernels.o", "program"].map(|name| dir.join(name));
    std::fs::write(&code, source).unwrap();
    std::fs::write(&kernels, object).unwrap();
    let mut link = Command::new(COMPILER);
    let link = link.args(["-O1", "-w", "-static", "-o"]).args([&program, &code, &kernels]).arg("-lm");
    let linked = link.output().unwrap();
    assert!(linked.status.success(), "{}", String::from_utf8_lossy(&linked.stderr));
    std::fs::write(dir.join("input"), input).unwrap();
    let stdin = std::fs::File::open(dir.join("input")).unwrap();
    let ran = Command::new(EMULATOR).arg(&program).stdin(Stdio::from(stdin)).output().unwrap();
    assert!(ran.status.success(), "{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
    ran.stdout
}

fn cross() -> impl Iterator<Item = Target> {
    targets().into_iter().map(|it| Target::cross(it.kind, TRIPLE))
}

#[test]
fn objects_for_another_architecture() {
    if !tools() {
        let text = format!("SKIPPED 1 test: {COMPILER} and {EMULATOR} are missing; `cargo xtask setup`\n");
        let _ = std::io::stderr().write_all(text.as_bytes());
        return;
    }
    let cases = cases();
    let (module, names) = module_of(&cases);
    let exact = build(&module, &Target::interpreter()).unwrap();
    let source = driver(&names, &cases);
    let runs: Vec<_> = names
        .iter()
        .zip(&cases)
        .flat_map(|(name, case)| case.args.iter().map(move |it| (name, case, it)))
        .collect();
    let bytes = |value: &Value| value.as_tensor().unwrap().bytes().unwrap().to_vec();
    let input: Vec<u8> = runs.iter().flat_map(|(.., args)| args.iter().flat_map(bytes)).collect();
    for target in cross() {
        let object = emit(&module, &target, EmitKind::Object).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let output = run(&object, &source, &input, dir.path());
        let mut rest = &output[..];
        for (name, case, args) in &runs {
            let copy = |value: &Value| {
                let it = value.as_tensor().unwrap();
                Value::Tensor(Tensor::from_bytes(it.bytes().unwrap(), it.shape(), it.dtype()).unwrap())
            };
            let mut args: Vec<Value> = args.iter().map(copy).collect();
            call(exact.get(name).unwrap(), &mut args).unwrap();
            let want = args.last().unwrap().as_tensor().unwrap();
            let (own, others) = rest.split_at_checked(want.bytes().unwrap().len()).expect("all results");
            rest = others;
            let got = Tensor::from_bytes(own, want.shape(), want.dtype()).unwrap();
            assert_close(&got, want, case.tolerance, &format!("{name} on {target}"));
        }
        assert!(rest.is_empty(), "{target}");
    }
}

#[test]
fn default_schedules_have_vectors_of_the_architecture() {
    for target in cross().filter(|it| it.kind == TargetKind::Llvm || tools()) {
        assert_eq!(target.machine.vector_bits, 128);
        let func: PrimFunc = product("product", [32, 48, 64].map(PrimExpr::index), [DataType::F32; 3], false);
        let asm = emit(&IRModule::from_prim_func(func), &target, EmitKind::Asm).unwrap();
        let asm = String::from_utf8(asm).unwrap();
        let vector = |line: &str| line.trim_start().starts_with("fmla") && line.contains(".4s");
        assert!(asm.lines().filter(|line| vector(line)).count() >= 8, "{target}\n{asm}");
    }
}
