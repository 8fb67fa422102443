//! Models of which an external code generator made a part: it hands over a module, which the artifact carries.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;

use tvm::codegen::{CodegenError, Compiled};
use tvm::prelude::*;
use tvm::runtime::vm::{Executable, Vm, VmConfig};
use tvm::runtime::{ModuleLoader, PackedFunc, RuntimeError, RuntimeModule, Value};

/// What the code generator makes of `ext.curve`: a polynomial, as a table of its coefficients.
#[derive(Clone)]
struct Curve(Arc<[f32]>);

impl Curve {
    fn load(bytes: Arc<[u8]>) -> Result<Curve, RuntimeError> {
        let (numbers, []) = bytes.as_chunks() else {
            return Err(RuntimeError::other("a coefficient has four bytes"));
        };
        Ok(Curve(numbers.iter().map(|it| f32::from_le_bytes(*it)).collect()))
    }
}

impl RuntimeModule for Curve {
    fn kind(&self) -> &str {
        "curve"
    }

    fn function(&self, name: &str) -> Option<PackedFunc> {
        let coefficients = self.0.clone();
        match name {
            "ext.curve" => Some(PackedFunc::dps(move |inputs, outputs| {
                let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
                let y = outputs[0].as_mut_slice::<f32>()?;
                for (y, x) in y.iter_mut().zip(x) {
                    *y = coefficients.iter().rev().fold(0.0, |sum, it| sum * x + it);
                }
                Ok(())
            })),
            "ext.degree" => {
                Some(PackedFunc::typed(move || Ok(Tensor::scalar(coefficients.len() as f32 - 1.0))))
            }
            _ => None,
        }
    }

    fn save(&self) -> Result<Vec<u8>, RuntimeError> {
        Ok(self.0.iter().flat_map(|it| it.to_le_bytes()).collect())
    }
}

#[relax::func(impure)]
fn main(x: Tensor<f32, n>) -> Tensor<f32, n> {
    let doubled = x + x;
    let y = call_dps_packed("ext.curve", (doubled,), Tensor::<f32, n>);
    let degree = call_packed("ext.degree", (), Tensor::<f32>);
    y + degree
}

fn compiled(coefficients: &[f32]) -> Compiled {
    let compiled = Compiled::new(main::module().unwrap(), &Target::host()).unwrap();
    compiled.with_import(Curve(coefficients.into()))
}

/// A virtual machine for an artifact that was written to a file and read again.
fn load(compiled: Compiled, config: VmConfig) -> Result<Vm, RuntimeError> {
    let bytes = compiled.into_executable().unwrap().save().unwrap();
    let exe = Executable::load(&bytes).unwrap();
    // SAFETY: the artifact was made here.
    unsafe { Vm::linked_with_config(exe, config) }
}

fn with_loader() -> VmConfig {
    let loaders = BTreeMap::from([("curve".to_string(), ModuleLoader::new(Curve::load))]);
    VmConfig { loaders, ..VmConfig::default() }
}

fn run(vm: &Vm) -> Vec<f32> {
    let x = Value::from(Tensor::from_slice(&[0.0f32, 1.0, 2.0], &[3]).unwrap());
    vm.invoke("main", &[x]).unwrap().as_tensor().unwrap().to_vec().unwrap()
}

#[test]
fn a_module_runs_in_its_process_and_from_an_artifact() {
    // 2x is 0, 2, 4.
    let here = compiled(&[1.0, 0.0, 2.0]).into_vm(VmConfig::default()).unwrap();
    let first = load(compiled(&[1.0, 0.0, 2.0]), with_loader()).unwrap();
    let second = load(compiled(&[0.0, 3.0]), with_loader()).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&here), [3.0, 11.0, 35.0]);
        assert_eq!(run(&first), [3.0, 11.0, 35.0]);
        assert_eq!(run(&second), [1.0, 7.0, 13.0], "the same names, another module");
    }
}

#[test]
fn a_program_says_what_it_lacks() {
    let err = load(compiled(&[1.0]), VmConfig::default()).unwrap_err();
    assert!(matches!(err, RuntimeError::NoLoader { kind, .. } if kind == "curve"));
    let err = Compiled::new(main::module().unwrap(), &Target::host()).unwrap().into_vm(VmConfig::default());
    let Err(CodegenError::Runtime(err)) = err else { panic!("the functions are missing") };
    assert!(err.to_string().contains("packed function `ext.curve`, `ext.degree`"), "{err}");
}
