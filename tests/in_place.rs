//! In-place calls: a cache that a model extends step by step is never copied, and nobody else sees the writes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use tvm::codegen::{Compiled, compile_module};
use tvm::ir::json::{from_json, to_json};
use tvm::ir::{IRModule, structural_equal};
use tvm::prelude::*;
use tvm::runtime::vm::{Vm, VmConfig};
use tvm::runtime::{PackedFunc, Value};

/// Writes row `at` of a cache.
#[prim_func]
fn append(x: &Tensor<f32, d>, at: i64, cache: &mut Tensor<f32, n, d>) {
    for j in 0..d {
        cache[[at as usize, j]] = x[[j]];
    }
}

#[prim_func]
fn row_sums(cache: &Tensor<f32, n, d>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 0.0;
        for j in 0..d {
            y[[i]] += cache[[i, j]];
        }
    }
}

relax! {
    /// One step of a decoder, without its attention.
    fn step(cache: Tensor<f32, n, d>, x: Tensor<f32, d>, at: i64) -> Tensor<f32, n, d> {
        call_tir_inplace(append, (x, at), cache)
    }

    /// The old cache is used again.
    fn keeps(
        cache: Tensor<f32, n, d>,
        x: Tensor<f32, d>,
        at: i64,
    ) -> (Tensor<f32, n, d>, Tensor<f32, n, d>, Tensor<f32, n>) {
        let new = call_tir_inplace(append, (x, at), cache);
        let sums = call_tir(row_sums, (cache,));
        (cache, new, sums)
    }

    /// Steps on tensors of the run itself, in a branch.
    fn twice(x: Tensor<f32, d>, y: Tensor<f32, d>, again: Tensor<bool>) -> Tensor<f32, 3, d> {
        let start = broadcast_to(x, shape([3, d]));
        let once = call_tir_inplace(append, (y, prim(0)), start);
        if again {
            let more = call_tir_inplace(append, (y, prim(2)), once);
            more + once
        } else {
            once
        }
    }

    /// One step in an arm of a branch; the other arm returns the cache as it is.
    fn perhaps(cache: Tensor<f32, n, d>, x: Tensor<f32, d>, at: i64, on: Tensor<bool>) -> Tensor<f32, n, d> {
        if on {
            call_tir_inplace(append, (x, at), cache)
        } else {
            cache
        }
    }

    /// The program runs with new memory, too: that starts as zero.
    fn both(cache: Tensor<f32, 2, d>, x: Tensor<f32, d>) -> (Tensor<f32, 2, d>, Tensor<f32, 2, d>) {
        let new = call_tir(append, (x, prim(1)), Tensor::<f32, 2, d>);
        let old = call_tir_inplace(append, (x, prim(1)), cache);
        (new, old)
    }
}

fn vm<E: std::fmt::Debug>(module: Result<IRModule, E>) -> Vm {
    compile_module(&module.unwrap(), &Target::host()).unwrap()
}

fn tensor(data: &[f32], shape: &[i64]) -> Value {
    Tensor::from_slice(data, shape).unwrap().into()
}

fn data(value: &Value) -> Vec<f32> {
    value.as_tensor().unwrap().to_vec().unwrap()
}

fn address(value: &Value) -> usize {
    value.as_tensor().unwrap().data_ptr().addr()
}

#[test]
fn a_cache_of_ten_thousand_steps_is_never_copied() {
    const STEPS: i64 = 10_000;
    let vm = vm(step::module());
    let mut cache = Value::from(Tensor::zeros(&[STEPS, 4], DataType::F32).unwrap());
    let at = address(&cache);
    for step in 0..STEPS {
        let x = tensor(&[step as f32; 4], &[4]);
        cache = vm.invoke("step", [cache, x, Value::Int(step)]).unwrap();
        assert_eq!(address(&cache), at, "step {step}");
    }
    let want: Vec<f32> = (0..STEPS).flat_map(|step| [step as f32; 4]).collect();
    assert_eq!(data(&cache), want);
}

#[test]
fn a_cache_that_somebody_has_is_copied() {
    let vm = vm(step::module());
    let cache = tensor(&[0.0; 6], &[3, 2]);
    let x = tensor(&[1.0, 2.0], &[2]);
    // The application keeps it.
    let new = vm.invoke("step", &[cache.clone(), x.clone(), Value::Int(1)]).unwrap();
    assert_eq!(data(&new), [0., 0., 1., 2., 0., 0.]);
    assert_eq!(data(&cache), [0.0; 6]);
    // The program uses it again.
    let all = self::vm(keeps::module()).invoke("keeps", [cache, x.clone(), Value::Int(2)]).unwrap();
    let fields = all.as_adt().unwrap().fields();
    assert_eq!(data(&fields[0]), [0.0; 6]);
    assert_eq!(data(&fields[1]), [0., 0., 0., 0., 1., 2.]);
    assert_eq!(data(&fields[2]), [0.0; 3]);
    // An index outside of the cache is an error.
    let err = vm.invoke("step", &[new.clone(), x, Value::Int(3)]).unwrap_err().to_string();
    assert!(err.contains("append"), "{err}");
    assert_eq!(data(&new), [0., 0., 1., 2., 0., 0.]);
}

/// What only an arm of a branch uses is updated there.
#[test]
fn a_cache_is_extended_in_an_arm() {
    let vm = vm(perhaps::module());
    let x = tensor(&[1.0, 2.0], &[2]);
    for (on, want) in [(true, [0., 0., 1., 2.]), (false, [0.0; 4])] {
        let cache = tensor(&[0.0; 4], &[2, 2]);
        let at = address(&cache);
        let args = [cache, x.clone(), Value::Int(1), Value::from(Tensor::scalar(on))];
        let new = vm.invoke("perhaps", args).unwrap();
        assert_eq!((data(&new), address(&new)), (want.to_vec(), at), "{on}");
        // The application keeps it.
        let cache = tensor(&[0.0; 4], &[2, 2]);
        let args = [cache.clone(), x.clone(), Value::Int(1), Value::from(Tensor::scalar(on))];
        assert_eq!(data(&vm.invoke("perhaps", &args).unwrap()), want);
        assert_eq!(data(&cache), [0.0; 4]);
    }
}

#[test]
fn tensors_of_the_run_keep_their_values() {
    let (branch, memory) = (vm(twice::module()), vm(both::module()));
    let (x, y) = (tensor(&[1.0, 2.0], &[2]), tensor(&[5.0, 6.0], &[2]));
    let run = |again: bool| {
        let again = Value::from(Tensor::scalar(again));
        data(&branch.invoke("twice", &[x.clone(), y.clone(), again]).unwrap())
    };
    assert_eq!(run(false), [5., 6., 1., 2., 1., 2.]);
    assert_eq!(run(true), [10., 12., 2., 4., 6., 8.]);
    assert_eq!(data(&x), [1., 2.]);
    let both = memory.invoke("both", &[tensor(&[7.0; 4], &[2, 2]), y]).unwrap();
    let fields = both.as_adt().unwrap().fields();
    assert_eq!((data(&fields[0]), data(&fields[1])), (vec![0., 0., 5., 6.], vec![7., 7., 5., 6.]));
}

#[test]
fn the_call_prints_as_it_is_written() {
    let module = step::module().unwrap();
    let text = module.to_string();
    assert!(text.contains("call_tir_inplace(append, (x, at), (cache,), Tensor::<f32, n, d>)"), "{text}");
    let again: IRModule = from_json(&to_json(&module).unwrap()).unwrap();
    structural_equal(&again, &module).unwrap();
}

mod refused {
    use super::*;

    #[relax::func]
    fn too_few(cache: Tensor<f32, n, d>, x: Tensor<f32, d>, at: i64) -> Tensor<f32, n, d> {
        call_tir_inplace(append, (x, at), ())
    }

    #[relax::func]
    fn other_width(cache: Tensor<f32, n, 3>, x: Tensor<f32, 4>, at: i64) -> Tensor<f32, n, 3> {
        call_tir_inplace(append, (x, at), cache)
    }

    #[relax::func]
    fn other_type(cache: Tensor<f16, n, 4>, x: Tensor<f32, 4>, at: i64) -> Tensor<f16, n, 4> {
        call_tir_inplace(append, (x, at), cache)
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (module, part) in [
            (too_few::module(), "expected 3 arguments, got 2"),
            (other_width::module(), "argument `cache`: axis 1 is 3, expected 4"),
            (other_type::module(), "argument `cache`: expected f32 of rank 2"),
        ] {
            let err = module.unwrap_err().to_string();
            assert!(err.contains(part), "{err}");
        }
    }
}

mod packed {
    use super::*;

    #[relax::func]
    fn main(x: Tensor<f32, n>) -> Tensor<f32, n> {
        let y = call_dps_packed("twice", (x,), Tensor::<f32, n>);
        let (z, _sum) = call_dps_packed("sums", (y, y), (Tensor::<f32, n>, Tensor::<f32>));
        z + y
    }

    #[test]
    fn functions_in_destination_passing_style_fill_the_memory_of_the_program() {
        let twice = PackedFunc::dps(|inputs, outputs| {
            let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
            outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x);
            Ok(())
        });
        let sums = PackedFunc::dps(|inputs, outputs| {
            let [a, b] = [0, 1].map(|i| inputs[i].try_tensor("x").unwrap().to_vec::<f32>().unwrap());
            let [z, sum] = outputs else { unreachable!("two outputs") };
            let z = z.as_mut_slice::<f32>()?;
            z.iter_mut().zip(a.iter().zip(b)).for_each(|(z, (a, b))| *z = a + b);
            sum.as_mut_slice::<f32>()?[0] = z.iter().sum();
            Ok(())
        });
        let functions = BTreeMap::from([("twice".to_string(), twice), ("sums".to_string(), sums)]);
        let config = VmConfig { functions, ..VmConfig::default() };
        let compiled = Compiled::new(main::module().unwrap(), &Target::host()).unwrap();
        let vm = compiled.into_vm(config).unwrap();
        for _ in 0..2 {
            let y = vm.invoke("main", &[tensor(&[1.0, 2.0, 3.0], &[3])]).unwrap();
            assert_eq!(data(&y), [6., 12., 18.]);
        }
        // Without the functions, the program says what it lacks.
        let err = compile_module(&main::module().unwrap(), &Target::host()).unwrap_err().to_string();
        assert!(err.contains("packed function `twice`, `sums`"), "{err}");
    }
}
