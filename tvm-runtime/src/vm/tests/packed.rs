//! Tests of packed functions: where they are found, functions as values, destination-passing style.

use std::collections::BTreeMap;

use super::*;

/// `main() = f()` for the packed function `name`.
fn calls(name: &str) -> Executable {
    let call = I::InvokePacked { dst: r(0), func: PackedIdx(0), args: [].into() };
    let main = func("main", 0, 1, vec![call, I::Ret { src: r(0) }]);
    Executable { packed: vec![name.into()], ..exe(vec![main]) }
}

fn number(number: i64) -> PackedFunc {
    PackedFunc::typed(move || Ok(number))
}

fn with_functions(exe: Executable, functions: &[(&str, PackedFunc)]) -> Result<Vm, RuntimeError> {
    let functions: BTreeMap<String, PackedFunc> =
        functions.iter().map(|(name, func)| (name.to_string(), func.clone())).collect();
    Vm::with_config(exe, &module(), VmConfig { functions, ..VmConfig::default() })
}

#[test]
fn each_virtual_machine_has_functions_of_its_own() {
    let name = "tvm.test.vm.scoped";
    let run = |vm: Result<Vm, RuntimeError>| vm.and_then(|vm| vm.invoke("main", &[])).map(|it| it.as_int());
    assert!(run(with_functions(calls(name), &[])).unwrap_err().to_string().contains(name));
    register_global_func(name, number(1)).unwrap();
    assert_eq!(run(with_functions(calls(name), &[(name, number(2))])).unwrap(), Some(2));
    assert_eq!(run(with_functions(calls(name), &[(name, number(3))])).unwrap(), Some(3));
    assert_eq!(run(with_functions(calls(name), &[])).unwrap(), Some(1));
}

#[test]
fn packed_functions_are_called_like_closures() {
    // apply(f, x) = f(x); twice(f, x) = f(f(x))
    let apply = I::TailInvokeClosure { closure: r(0), args: regs([1]) };
    let twice = vec![
        I::InvokeClosure { dst: r(2), closure: r(0), args: regs([1]) },
        I::Invoke { dst: r(3), func: FuncIdx(0), args: regs([0, 2]) },
        I::Ret { src: r(3) },
    ];
    let vm = vm(exe(vec![func("apply", 2, 2, vec![apply]), func("twice", 2, 4, twice)]));
    let triple = Value::from(PackedFunc::typed(|x: i64| Ok(x * 3)));
    assert_eq!(vm.invoke("apply", &[triple.clone(), Value::Int(5)]).unwrap().as_int(), Some(15));
    assert_eq!(vm.invoke("twice", [triple, Value::Int(5)]).unwrap().as_int(), Some(45));
    let err = vm.invoke("twice", [Value::from(number(1)), Value::Int(5)]).unwrap_err().to_string();
    assert!(err.contains("expected 0 argument(s), got 1"), "{err}");
    let err = vm.invoke("apply", [Value::Int(1), Value::Int(5)]).unwrap_err().to_string();
    assert!(err.contains("expected a closure, got an integer"), "{err}");
}

/// `main(x)`: a packed function fills a tensor of the size and type of `x`, which has three elements.
fn fills(inputs: &[u32], outputs: &[u32], dtype: DataType) -> Executable {
    let (storage, shape) = (r(1), [3].into());
    let code = vec![
        I::AllocStorage { dst: storage, size: 12.into(), align: 64, device: Device::cpu() },
        I::AllocTensor { dst: r(2), storage, offset: 0.into(), dtype, shape },
        I::AllocADT { dst: r(3), tag: 1, fields: regs([2]) },
        I::InvokeDpsPacked {
            func: PackedIdx(0),
            inputs: inputs.iter().map(|it| r(*it)).collect(),
            outputs: outputs.iter().map(|it| r(*it)).collect(),
        },
        I::Ret { src: r(2) },
    ];
    Executable { packed: vec!["f".into()], ..exe(vec![func("main", 1, 4, code)]) }
}

#[test]
fn outputs_are_filled_where_the_program_allocated_them() {
    let twice = PackedFunc::dps(|inputs, outputs| {
        let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
        outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y = x * 2.0);
        Ok(())
    });
    let x = floats(&[1., 2., 3.]);
    let run = |exe, f: &PackedFunc| {
        with_functions(exe, &[("f", f.clone())]).unwrap().invoke("main", std::slice::from_ref(&x))
    };
    let y = run(fills(&[0], &[2], DataType::F32), &twice).unwrap();
    assert_eq!(y.as_tensor().unwrap().as_slice::<f32>().unwrap(), [2., 4., 6.]);
    let seven = PackedFunc::dps(|_, outputs| {
        outputs[0].bytes_mut().fill(7);
        Ok(())
    });
    let y = run(fills(&[0], &[2], DataType::BOOL), &seven).unwrap();
    assert_eq!(y.as_tensor().unwrap().as_slice::<bool>().unwrap(), [true; 3]);
    for (inputs, outputs, part) in [
        (&[0][..], &[0][..], "argument `output 0` would be written to, but its memory was not allocated"),
        (&[2], &[2], "`output 0` is written to and shares memory with argument `input 0`"),
        (&[0], &[2, 2], "`output 1` is written to and shares memory with argument `output 0`"),
        (&[3], &[2], "argument `output 0` would be written to"),
        (&[1], &[2], "argument `output 0` would be written to"),
        (&[0], &[3], "expected a tensor"),
    ] {
        let err = run(fills(inputs, outputs, DataType::F32), &seven).unwrap_err().to_string();
        assert!(err.contains(part), "{inputs:?} to {outputs:?}: {err}");
    }
    let err = run(fills(&[0], &[2], DataType::F32), &number(1)).unwrap_err().to_string();
    assert!(err.contains("PackedFunc::dps"), "{err}");
    let panics = PackedFunc::dps(|_, _| panic!("oh"));
    let err = run(fills(&[0], &[2], DataType::F32), &panics).unwrap_err().to_string();
    assert!(err.contains("panicked: oh"), "{err}");
}

#[test]
fn an_input_and_an_output_share_a_storage() {
    let twice = PackedFunc::dps(|inputs, outputs| {
        let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
        outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y = x * 2.0);
        Ok(())
    });
    let (storage, dtype) = (r(1), DataType::F32);
    let alloc =
        |dst, offset: i64| I::AllocTensor { dst, storage, offset: offset.into(), dtype, shape: [3].into() };
    let fill =
        |from, to| I::InvokeDpsPacked { func: PackedIdx(0), inputs: regs([from]), outputs: regs([to]) };
    let code = vec![
        I::AllocStorage { dst: storage, size: 128.into(), align: 64, device: Device::cpu() },
        alloc(r(2), 0),
        fill(0, 2),
        alloc(r(3), 64),
        fill(2, 3),
        I::AllocADT { dst: r(4), tag: 0, fields: regs([2, 3]) },
        I::Ret { src: r(4) },
    ];
    let exe = Executable { packed: vec!["f".into()], ..exe(vec![func("main", 1, 5, code)]) };
    let vm = with_functions(exe, &[("f", twice)]).unwrap();
    let both = vm.invoke("main", &[floats(&[1., 2., 3.])]).unwrap();
    let data = |i: usize| both.as_adt().unwrap().fields()[i].as_tensor().unwrap().to_vec::<f32>().unwrap();
    assert_eq!((data(0), data(1)), (vec![2., 4., 6.], vec![4., 8., 12.]));
}
