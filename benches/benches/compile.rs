//! Compile time of models, from ONNX to bytecode and kernels.
#![allow(missing_docs, reason = "criterion's macros")]

use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use tvm::codegen::compile_module;
use tvm::prelude::*;
use tvm::target::TargetKind;

fn models(c: &mut Criterion) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // With the C target, this would measure its cache of compiled kernels.
    let kind = if cfg!(feature = "llvm") { TargetKind::Llvm } else { TargetKind::Interpreter };
    let target = Target::native(kind);
    let mut group = c.benchmark_group(format!("compile for {target}"));
    group.sample_size(10).measurement_time(Duration::from_secs(10));
    for (name, path) in [
        ("digits_cnn", "examples/data/digits_cnn/model.onnx"),
        ("light_squeezenet", "tests/data/light/light_squeezenet/model.onnx"),
    ] {
        let path = root.join(path);
        group.bench_function(name, |b| {
            b.iter(|| {
                let module = tvm::onnx::import_file(&path, &Default::default()).expect("the model imports");
                compile_module(&module, &target).expect("the model compiles")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, models);
criterion_main!(benches);
