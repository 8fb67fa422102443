//! Artifacts: whatever the bytes, loading ends in an error or in a program that runs within its limits. The checksums
//! are left out, so that decoder, verifier and machine alone must hold.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tvm_runtime::artifact::GpuUnit;
use tvm_runtime::vm::{Executable, Vm, VmConfig};
use tvm_runtime::{DataType, LaunchArg, Module, Tensor, Value};

fuzz_target!(|bytes: &[u8]| {
    let Ok(exe) = Executable::load_ignoring_checksums(bytes) else { return };
    let saved = exe.save().expect("what was read can be written");
    assert_eq!(Executable::load(&saved).expect("and read again").to_string(), exe.to_string());
    let x = LaunchArg::Tensor { shape: &[2, 3], dtype: DataType::F32 };
    for unit in exe.objects.iter().filter_map(|it| GpuUnit::of_object(it).expect("what was read is valid")) {
        for program in unit.programs {
            // Any error will do.
            let _ = program.host.plan(&[x, LaunchArg::Int(2), LaunchArg::Float(1.5), x]);
        }
    }
    let config = VmConfig {
        max_depth: 64,
        max_registers: 1 << 14,
        max_steps: Some(1000),
        max_bytes: 1 << 20,
        ..VmConfig::default()
    };
    let Ok(vm) = Vm::with_config(exe, &Module::default(), config) else { return };
    let values = [
        Value::Int(2),
        Tensor::scalar(1.5f32).into(),
        Value::tuple([Value::Int(1)]),
        Value::from(vec![2, 3]),
    ];
    for func in vm.functions() {
        let args: Vec<_> = (0..func.params.len()).map(|i| values[i % values.len()].clone()).collect();
        // Any error will do.
        let _ = vm.invoke(&func.name, &args);
    }
});
