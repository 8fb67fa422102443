//! Tests of imported modules, with a toy: polynomials, which a table of coefficients describes.

use super::*;
use crate::vm::{Executable, Instruction as I, PackedIdx, Reg, ValueType, VmFunction, VmParam};
use crate::{DataType, Device, Module, Tensor, Value, register_global_func};

/// Polynomials by name. `NAME` returns the value at a float; `NAME.all` fills a tensor with the values at those of another.
struct Polynomials(BTreeMap<String, Arc<[f64]>>);

const KIND: &str = "test.polynomials";

/// Name of a polynomial, which no other test registers.
const P: &str = "tvm.test.import.p";

fn value(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().rev().fold(0.0, |sum, it| sum * x + it)
}

impl RuntimeModule for Polynomials {
    fn kind(&self) -> &str {
        KIND
    }

    fn function(&self, name: &str) -> Option<PackedFunc> {
        if let Some(name) = name.strip_suffix(".all") {
            let it = self.0.get(name)?.clone();
            return Some(PackedFunc::dps(move |inputs, outputs| {
                let x = inputs[0].try_tensor("x")?.as_slice::<f64>()?;
                let y = outputs[0].as_mut_slice::<f64>()?;
                y.iter_mut().zip(x).for_each(|(y, x)| *y = value(&it, *x));
                Ok(())
            }));
        }
        let it = self.0.get(name)?.clone();
        Some(PackedFunc::typed(move |x: f64| Ok(value(&it, x))))
    }

    /// A line for each polynomial: `p 1 0 2.5`.
    fn save(&self) -> Result<Vec<u8>, RuntimeError> {
        let line = |(name, it): (&String, &Arc<[f64]>)| {
            let numbers: String = it.iter().map(|it| format!(" {it:?}")).collect();
            format!("{name}{numbers}\n")
        };
        Ok(self.0.iter().map(line).collect::<String>().into_bytes())
    }
}

impl Polynomials {
    fn load(bytes: Arc<[u8]>) -> Result<Polynomials, RuntimeError> {
        let text = std::str::from_utf8(&bytes).map_err(|err| RuntimeError::other(err.to_string()))?;
        let mut all = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default().to_string();
            let number = |it: &str| {
                it.parse().map_err(|_| RuntimeError::other(format!("`{it}` in `{name}` is no number")))
            };
            let coefficients: Result<Arc<[f64]>, _> = words.map(number).collect();
            all.insert(name, coefficients?);
        }
        Ok(Polynomials(all))
    }
}

fn polynomial(name: &str, coefficients: &[f64]) -> Polynomials {
    Polynomials(BTreeMap::from([(name.to_string(), coefficients.into())]))
}

/// `one(x: float) = p(x)`, `all(x: 3 floats) = p.all(x)`.
fn program(objects: Vec<CodeObject>) -> Executable {
    let function = |name: &str, code: Vec<I>| {
        let params = vec![VmParam { name: "x".into(), ty: ValueType::Object }];
        VmFunction { name: name.into(), params, ret: ValueType::Object, num_regs: 3, public: true, code }
    };
    let (x, storage, y) = (Reg(0), Reg(1), Reg(2));
    let one = vec![I::InvokePacked { dst: y, func: PackedIdx(0), args: [x].into() }, I::Ret { src: y }];
    let shape = [3].into();
    let all = vec![
        I::AllocStorage { dst: storage, size: 24.into(), align: 64, device: Device::cpu() },
        I::AllocTensor { dst: y, storage, offset: 0.into(), dtype: DataType::F64, shape },
        I::InvokeDpsPacked { func: PackedIdx(1), inputs: [x].into(), outputs: [y].into() },
        I::Ret { src: y },
    ];
    let functions = vec![function("one", one), function("all", all)];
    Executable { functions, packed: vec![P.into(), format!("{P}.all")], objects, ..Executable::default() }
}

fn config(loader: ModuleLoader) -> VmConfig {
    VmConfig { loaders: BTreeMap::from([(KIND.to_string(), loader)]), ..VmConfig::default() }
}

fn run(vm: &Vm) -> (f64, Vec<f64>) {
    let x = Tensor::from_slice(&[0.0, 1.0, 2.0], &[3]).unwrap();
    let all = vm.invoke("all", &[x.into()]).unwrap();
    let one = vm.invoke("one", &[Value::Float(10.0)]).unwrap();
    (one.as_float().unwrap(), all.as_tensor().unwrap().to_vec().unwrap())
}

#[test]
fn an_artifact_carries_modules() {
    let saved = |coefficients: &[f64]| {
        let object = CodeObject::of_import("curve", &polynomial(P, coefficients)).unwrap();
        program(vec![object]).save().unwrap()
    };
    let (first, second) = (saved(&[1.0, 0.0, 2.0]), saved(&[0.0, 3.0]));
    // The same name means another function in each.
    let vm =
        |bytes: &[u8], config| Vm::with_config(Executable::load(bytes).unwrap(), &Module::default(), config);
    let loader = ModuleLoader::new(Polynomials::load);
    let (first_vm, second_vm) =
        (vm(&first, config(loader.clone())).unwrap(), vm(&second, config(loader)).unwrap());
    assert_eq!(run(&first_vm), (201.0, vec![1.0, 3.0, 9.0]));
    assert_eq!(run(&second_vm), (30.0, vec![0.0, 3.0, 6.0]));

    let err = vm(&first, VmConfig::default()).unwrap_err();
    assert!(matches!(&err, RuntimeError::NoLoader { kind, .. } if kind == KIND));
    let text = "imports the module `curve` of kind `test.polynomials`, for which there is no loader\n  help: add a `ModuleLoader`";
    assert!(err.to_string().contains(text), "{err}");

    let bad = CodeObject { bytes: b"p 1 x".as_slice().into(), ..program_object() };
    let bad = program(vec![bad]).save().unwrap();
    let err = vm(&bad, config(ModuleLoader::new(Polynomials::load))).unwrap_err().to_string();
    assert_eq!(err, "cannot load the module `curve` of kind `test.polynomials`: `x` in `p` is no number");
}

fn program_object() -> CodeObject {
    CodeObject::of_import("curve", &polynomial(P, &[])).unwrap()
}

#[test]
fn functions_of_the_application_come_first_and_global_ones_last() {
    let constant = |value: f64| PackedFunc::typed(move |_: f64| Ok(value));
    let carried =
        |coefficients: &[f64]| CodeObject::of_import("carried", &polynomial(P, coefficients)).unwrap();
    let mut module = Module::default();
    let one = |exe: Executable, module: &Module, functions| {
        let config = VmConfig { functions, ..config(ModuleLoader::new(Polynomials::load)) };
        let exe = Executable { packed: vec![P.into()], functions: exe.functions[..1].to_vec(), ..exe };
        Vm::with_config(exe, module, config)?.invoke("one", &[Value::Float(1.0)]).map(|it| it.as_float())
    };
    let none = BTreeMap::new;
    let err = one(program(vec![]), &module, none()).unwrap_err();
    assert_eq!(err.to_string(), "not found: packed function `tvm.test.import.p`");
    register_global_func(P, constant(5.0)).unwrap();
    assert_eq!(one(program(vec![]), &module, none()).unwrap(), Some(5.0));
    assert_eq!(one(program(vec![carried(&[4.0]), carried(&[9.0])]), &module, none()).unwrap(), Some(4.0));
    module.import(Arc::new(polynomial("q", &[9.0])));
    module.import(Arc::new(polynomial(P, &[3.0])));
    assert_eq!(one(program(vec![carried(&[4.0])]), &module, none()).unwrap(), Some(3.0));
    let functions = BTreeMap::from([(P.to_string(), constant(2.0))]);
    assert_eq!(one(program(vec![carried(&[4.0])]), &module, functions).unwrap(), Some(2.0));
    assert_eq!(
        format!("{:?}", module.imports()),
        "[RuntimeModule(test.polynomials), RuntimeModule(test.polynomials)]"
    );
    crate::remove_global_func(P);
}

/// Code that a process makes for itself.
struct Here;

impl RuntimeModule for Here {
    fn kind(&self) -> &str {
        "here"
    }

    fn function(&self, _: &str) -> Option<PackedFunc> {
        None
    }
}

#[test]
fn what_cannot_be_saved_says_so() {
    let err = CodeObject::of_import("import", &Here).unwrap_err().to_string();
    assert_eq!(err, "cannot be saved: a module of kind `here`, which exists in this process only");
}

#[test]
fn loaders_of_code_are_made_with_a_promise() {
    /// # Safety
    /// The bytes are `[7]`.
    unsafe fn load(bytes: Arc<[u8]>) -> Result<Polynomials, RuntimeError> {
        // SAFETY: there is a first byte by the caller's promise.
        let first = unsafe { *bytes.get_unchecked(0) };
        Ok(polynomial(P, &[first.into()]))
    }
    let exe = program(vec![CodeObject { bytes: [7].as_slice().into(), ..program_object() }]);
    // SAFETY: the loader gets the bytes above only.
    let loader = unsafe { ModuleLoader::of_code(load) };
    assert_eq!(run(&Vm::with_config(exe, &Module::default(), config(loader)).unwrap()).0, 7.0);
}
