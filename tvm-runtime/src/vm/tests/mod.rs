//! Tests with hand-written programs.

mod memory;
mod packed;
mod unique;

use std::sync::Arc;

use super::Instruction as I;
use super::*;
use crate::kernel::{DimSig, Kernel, KernelSig, ParamKind, ParamSig};
use crate::module::Module;
use crate::packed::{PackedFunc, register_global_func};
use crate::tensor::Tensor;
use crate::value::{Adt, Closure, RefCell, Value};
use crate::{DataType, Device, HostArg, RuntimeError};

fn r(reg: u32) -> Reg {
    Reg(reg)
}

fn regs<const N: usize>(regs: [u32; N]) -> Regs {
    regs.map(Reg).into()
}

fn func(name: &str, num_params: usize, num_regs: u32, code: Vec<Instruction>) -> VmFunction {
    let param = |i| VmParam { name: format!("a{i}"), ty: ValueType::Object };
    let params = (0..num_params).map(param).collect();
    VmFunction { name: name.into(), params, ret: ValueType::Object, num_regs, public: true, code }
}

fn exe(functions: Vec<VmFunction>) -> Executable {
    Executable { functions, ..Executable::default() }
}

fn vm(exe: Executable) -> Vm {
    Vm::new(exe, &module()).unwrap()
}

fn int_op(op: IntOpKind, dst: u32, lhs: impl Into<IntOperand>, rhs: impl Into<IntOperand>) -> I {
    I::IntOp { op, dst: r(dst), lhs: lhs.into(), rhs: rhs.into() }
}

fn sig(name: &str) -> KernelSig {
    let dim = || vec![DimSig::Var("n".into())];
    let param = |name: &str, kind, shape| ParamSig { name: name.into(), kind, dtype: DataType::F32, shape };
    KernelSig {
        name: name.into(),
        params: vec![
            param("x", ParamKind::In, dim()),
            param("s", ParamKind::Scalar, vec![]),
            param("y", ParamKind::Out, dim()),
        ],
    }
}

/// `y = x * s`
fn module() -> Module {
    let scale = Kernel::host(sig("scale"), |args| {
        let [HostArg::In(x), HostArg::Float(s), HostArg::Out(y)] = args else {
            return Err(RuntimeError::other("kinds"));
        };
        y.as_mut_slice::<f32>()?.iter_mut().zip(x.as_slice::<f32>()?).for_each(|(y, x)| *y = x * *s as f32);
        Ok(())
    });
    Module::new([scale]).unwrap()
}

/// `main(x) = scale(x, 2.0)` for a symbolic extent, with its own storage for the result.
fn scale_exe() -> Executable {
    let code = vec![
        I::CheckTensor {
            src: r(0),
            dtype: Some(DataType::F32),
            dims: Some([DimCheck::Bind(r(1))].into()),
            context: "argument `x`".into(),
        },
        int_op(IntOpKind::Mul, 2, r(1), 4),
        I::AllocStorage { dst: r(3), size: r(2).into(), align: 64, device: Device::cpu() },
        I::MakeShape { dst: r(4), dims: [r(1).into()].into() },
        I::AllocTensorReg {
            dst: r(5),
            storage: r(3),
            offset: 0.into(),
            dtype: DataType::F32,
            shape: r(4),
            max_bytes: None,
        },
        I::LoadConst { dst: r(6), index: ConstIdx(0) },
        I::InvokeKernel { kernel: KernelIdx(0), args: regs([0, 6, 5]) },
        I::KillRegister { reg: r(3) },
        I::Ret { src: r(5) },
    ];
    let tensor = ValueType::Tensor { dtype: Some(DataType::F32), shape: Some(vec![DimSig::Var("n".into())]) };
    let mut main = func("main", 1, 7, code);
    main.params[0] = VmParam { name: "x".into(), ty: tensor.clone() };
    main.ret = tensor;
    Executable {
        constants: vec![Constant::Float(2.0)],
        kernels: vec![sig("scale")],
        target: "c".into(),
        ..exe(vec![main])
    }
}

fn floats(data: &[f32]) -> Value {
    Tensor::from_slice(data, &[data.len() as i64]).unwrap().into()
}

#[test]
fn integers() {
    use IntOpKind::*;
    for (op, lhs, rhs, expected) in [
        (Add, 2, 3, Some(5)),
        (Add, i64::MAX, 1, None),
        (Sub, i64::MIN, 1, None),
        (Mul, 1 << 40, 1 << 40, None),
        (FloorDiv, -7, 2, Some(-4)),
        (FloorDiv, 7, -2, Some(-4)),
        (FloorMod, -7, 2, Some(1)),
        (FloorMod, 7, -2, Some(-1)),
        (TruncDiv, -7, 2, Some(-3)),
        (TruncMod, -7, 2, Some(-1)),
        (FloorDiv, 1, 0, None),
        (FloorMod, 1, 0, None),
        (FloorDiv, i64::MIN, -1, None),
        (Min, 2, -3, Some(-3)),
        (Max, 2, -3, Some(2)),
        (Lt, 2, 3, Some(1)),
        (Ge, 2, 3, Some(0)),
        (Eq, 3, 3, Some(1)),
        (Ne, 3, 3, Some(0)),
        (And, 2, 1, Some(1)),
        (Or, 0, 0, Some(0)),
        (BitXor, 6, 3, Some(5)),
        (Shl, 1, 4, Some(16)),
        (Shl, 1, 64, None),
        (Shr, 16, -1, None),
    ] {
        let vm = vm(exe(vec![func("main", 2, 3, vec![int_op(op, 2, r(0), r(1)), I::Ret { src: r(2) }])]));
        let got = vm.invoke("main", &[lhs.into(), rhs.into()]);
        assert_eq!(got.as_ref().ok().and_then(Value::as_int), expected, "{op:?} {lhs} {rhs}: {got:?}");
    }
    for (i, (op, _)) in IntOpKind::ALL.iter().enumerate() {
        assert_eq!(*op as usize, i);
    }
}

#[test]
fn a_kernel_with_a_symbolic_extent() {
    let vm = vm(scale_exe());
    for n in [0usize, 1, 7] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let y = vm.invoke("main", &[floats(&x)]).unwrap();
        let expected: Vec<f32> = x.iter().map(|x| x * 2.0).collect();
        assert_eq!(y.as_tensor().unwrap().as_slice::<f32>().unwrap(), expected);
    }
    let err = |args: &[Value]| vm.invoke("main", args).unwrap_err().to_string();
    assert_eq!(err(&[]), "`main`: expected 1 argument(s), got 0");
    assert_eq!(
        err(&[Tensor::zeros(&[2], DataType::F64).unwrap().into()]),
        "`main`: argument `x`: element type is f64, expected f32"
    );
    assert_eq!(
        err(&[Tensor::zeros(&[2, 2], DataType::F32).unwrap().into()]),
        "`main`: argument `x`: rank is 2, expected 1"
    );
    assert_eq!(err(&[Value::Int(1)]), "`main`: argument `x`: expected a tensor, got an integer");
    assert_eq!(vm.invoke("other", &[]).unwrap_err().to_string(), "not found: function `other`");
}

#[test]
fn disassembly() {
    let text = scale_exe().to_string();
    let expected = "\
target \"c\"
const c0: Float(2.0)
kernel fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>)

pub fn main(%0 x: Tensor<f32, n>) -> Tensor<f32, n> { // 7 registers
    0: check_tensor %0 is f32[=%1] // argument `x`
    1: %2 = mul %1, 4
    2: %3 = alloc_storage %2 bytes align 64 on cpu:0
    3: %4 = make_shape [%1]
    4: %5 = alloc_tensor_reg f32 %4 in %3 at 0
    5: %6 = load_const c0
    6: invoke_kernel scale(%0, %6, %5)
    7: kill_register %3
    8: ret %5
}
";
    assert_eq!(text, expected);
}

#[test]
fn recursion_and_tail_calls() {
    // fact(n) = if n == 0 { 1 } else { n * fact(n - 1) }
    let fact = func(
        "fact",
        1,
        4,
        vec![
            I::If { test: r(0), target: 0, on_eq: Pc(1), on_ne: Pc(3) },
            I::LoadConsti { dst: r(1), value: 1 },
            I::Ret { src: r(1) },
            int_op(IntOpKind::Sub, 1, r(0), 1),
            I::Invoke { dst: r(2), func: FuncIdx(0), args: regs([1]) },
            int_op(IntOpKind::Mul, 3, r(0), r(2)),
            I::Ret { src: r(3) },
        ],
    );
    // sum(n, acc) = if n == 0 { acc } else { sum(n - 1, acc + n) }
    let sum = func(
        "sum",
        2,
        4,
        vec![
            I::If { test: r(0), target: 0, on_eq: Pc(1), on_ne: Pc(2) },
            I::Ret { src: r(1) },
            int_op(IntOpKind::Sub, 2, r(0), 1),
            int_op(IntOpKind::Add, 3, r(1), r(0)),
            I::TailInvoke { func: FuncIdx(1), args: regs([2, 3]) },
        ],
    );
    let forever = func(
        "forever",
        0,
        1,
        vec![I::Invoke { dst: r(0), func: FuncIdx(2), args: regs([]) }, I::Ret { src: r(0) }],
    );
    let exe = Arc::new(exe(vec![fact, sum, forever]));
    let vm = Vm::new(exe.clone(), &Module::default()).unwrap();
    assert_eq!(vm.invoke("fact", &[20.into()]).unwrap().as_int(), Some(2432902008176640000));
    assert!(matches!(
        vm.invoke("fact", &[21.into()]),
        Err(RuntimeError::Vm { source, .. }) if matches!(*source, RuntimeError::Arithmetic { .. })
    ));
    let n = 1_000_000i64;
    assert_eq!(vm.invoke("sum", &[n.into(), 0.into()]).unwrap().as_int(), Some(n * (n + 1) / 2));
    let config = VmConfig { max_depth: 100, ..VmConfig::default() };
    let shallow = Vm::with_config(exe.clone(), &Module::default(), config).unwrap();
    let err = shallow.invoke("forever", &[]).unwrap_err().to_string();
    assert_eq!(err, "in `forever` at 0: call depth limit of 100 reached");
    assert!(shallow.invoke("sum", &[1000.into(), 0.into()]).is_ok());
    assert!(vm.invoke("forever", &[]).is_err());
    let config = VmConfig { max_steps: Some(50), ..VmConfig::default() };
    let err =
        Vm::with_config(exe, &Module::default(), config).unwrap().invoke("sum", &[1000.into(), 0.into()]);
    assert!(err.unwrap_err().to_string().ends_with("step limit of 50 reached"));
}

/// `fold(f, acc, list)` applies a closure along a list of any length; `Nil` is tag 0, `Cons` tag 1.
fn fold_exe() -> Executable {
    let fold = func(
        "fold",
        3,
        8,
        vec![
            I::GetTag { dst: r(3), src: r(2) },
            I::If { test: r(3), target: 0, on_eq: Pc(2), on_ne: Pc(3) },
            I::Ret { src: r(1) },
            I::GetField { dst: r(4), src: r(2), index: 0 },
            I::GetField { dst: r(5), src: r(2), index: 1 },
            I::InvokeClosure { dst: r(6), closure: r(0), args: regs([1, 4]) },
            I::TailInvoke { func: FuncIdx(0), args: regs([0, 6, 5]) },
        ],
    );
    // The captured value comes first: weighted(w, acc, x) = acc + w * x
    let weighted = func(
        "weighted",
        3,
        5,
        vec![
            int_op(IntOpKind::Mul, 3, r(0), r(2)),
            int_op(IntOpKind::Add, 4, r(1), r(3)),
            I::Ret { src: r(4) },
        ],
    );
    let main = func(
        "main",
        2,
        5,
        vec![
            I::AllocClosure { dst: r(2), func: FuncIdx(1), captured: regs([0]) },
            I::LoadConsti { dst: r(3), value: 0 },
            I::Invoke { dst: r(4), func: FuncIdx(0), args: regs([2, 3, 1]) },
            I::Ret { src: r(4) },
        ],
    );
    exe(vec![fold, weighted, main])
}

#[test]
fn closures_over_lists() {
    let vm = vm(fold_exe());
    let list = (1..=100_000)
        .fold(Value::Adt(Adt::new(0, [])), |tail, head| Value::Adt(Adt::new(1, [Value::Int(head), tail])));
    let sum = vm.invoke("main", &[3.into(), list]).unwrap();
    assert_eq!(sum.as_int(), Some(3 * 100_000 * 100_001 / 2));
    // Closures whose function does not exist, and closures called with a wrong number of arguments.
    let nil = || Value::Adt(Adt::new(1, [Value::Int(1), Value::Adt(Adt::new(0, []))]));
    for closure in [Closure::new(vm.id, 99, []), Closure::new(vm.id, 1, []), Closure::new(vm.id, 0, [])] {
        assert!(vm.invoke("fold", &[closure.into(), 0.into(), nil()]).is_err());
    }
}

#[test]
fn a_closure_of_another_program_is_refused() {
    let make = func(
        "make",
        1,
        2,
        vec![I::AllocClosure { dst: r(1), func: FuncIdx(1), captured: regs([0]) }, I::Ret { src: r(1) }],
    );
    let call = func(
        "call",
        2,
        3,
        vec![I::InvokeClosure { dst: r(2), closure: r(0), args: regs([1]) }, I::Ret { src: r(2) }],
    );
    let body = |src| func("body", 2, 2, vec![I::Ret { src }]);
    // Two programs in which the function of the same number differs.
    let [a, b] = [r(0), r(1)].map(|src| vm(exe(vec![make.clone(), body(src), call.clone()])));
    let closure = a.invoke("make", &[7.into()]).unwrap();
    assert_eq!(a.invoke("call", &[closure.clone(), 8.into()]).unwrap().as_int(), Some(7));
    let RuntimeError::Vm { source, .. } = b.invoke("call", &[closure, 8.into()]).unwrap_err() else {
        panic!("an error of the machine")
    };
    assert!(matches!(*source, RuntimeError::ForeignClosure), "{source}");
}

#[test]
fn shapes_scalars_fields_and_cells() {
    let main = func(
        "main",
        1,
        12,
        vec![
            I::ShapeOf { dst: r(1), src: r(0) },
            I::ShapeToTensor { dst: r(2), src: r(1) },
            I::TensorToShape { dst: r(3), src: r(2) },
            I::ShapeDim { dst: r(4), src: r(3), axis: 0 },
            I::ShapeDim { dst: r(5), src: r(0), axis: 1 },
            I::MakeShape { dst: r(6), dims: [r(5).into(), r(4).into()].into() },
            I::ReshapeTensor { dst: r(7), src: r(0), shape: r(6) },
            I::CheckShape {
                src: r(1),
                dims: [DimCheck::Reg(r(4)), DimCheck::Any].into(),
                context: "shape".into(),
            },
            I::MakeScalar { dst: r(8), src: r(4), dtype: DataType::U8 },
            I::ReadScalar { dst: r(9), src: r(8) },
            I::RefNew { dst: r(10), src: r(9) },
            I::RefSet { cell: r(10), src: r(5) },
            I::RefGet { dst: r(11), src: r(10) },
            I::AllocADT { dst: r(0), tag: 0, fields: regs([7, 9, 11]) },
            I::Ret { src: r(0) },
        ],
    );
    let x = Tensor::from_vec((0..6).collect::<Vec<i32>>(), &[2, 3]).unwrap();
    let res = vm(exe(vec![main])).invoke("main", &[x.clone().into()]).unwrap();
    assert_eq!(format!("{res:?}"), "(Tensor<i32>[3, 2] [0, 1, 2, 3, 4, 5], 2, 3)");
    let adt = res.as_adt().unwrap();
    assert_eq!(adt.fields()[0].as_tensor().unwrap().data_ptr(), x.data_ptr(), "reshape shares memory");
}

#[test]
fn wrong_values_are_errors() {
    let cases: Vec<(&str, Vec<Instruction>, &str)> = vec![
        ("null", vec![I::Move { dst: r(2), src: r(3) }], "register %3: expected a value, got nothing"),
        (
            "kind",
            vec![I::GetTag { dst: r(2), src: r(0) }],
            "get_tag: expected a tuple or data type, got an integer",
        ),
        ("field", vec![I::GetField { dst: r(2), src: r(1), index: 5 }], "get_field: field 5 of 1"),
        ("axis", vec![I::MakeShape { dst: r(2), dims: [IntOperand::Const(-1)].into() }], "axis 0 is -1"),
        (
            "size",
            vec![I::AllocStorage { dst: r(2), size: (-1).into(), align: 1, device: Device::cpu() }],
            "negative",
        ),
        (
            "huge",
            vec![I::AllocStorage { dst: r(2), size: (1 << 62).into(), align: 1, device: Device::cpu() }],
            "memory",
        ),
        ("fatal", vec![I::Fatal { message: "no case".into() }], "fatal: no case"),
        (
            "bounds",
            vec![
                I::AllocStorage { dst: r(2), size: 8.into(), align: 1, device: Device::cpu() },
                I::AllocTensor {
                    dst: r(3),
                    storage: r(2),
                    offset: 4.into(),
                    dtype: DataType::F64,
                    shape: [1].into(),
                },
            ],
            "an offset that is not a multiple of the element size",
        ),
        (
            "bounds",
            vec![
                I::AllocStorage { dst: r(2), size: 8.into(), align: 1, device: Device::cpu() },
                I::AllocTensor {
                    dst: r(3),
                    storage: r(2),
                    offset: 8.into(),
                    dtype: DataType::F64,
                    shape: [1].into(),
                },
            ],
            "shape [1] of f64 holds 8 bytes, got 0",
        ),
    ];
    for (what, mut code, expected) in cases {
        code.push(I::Ret { src: r(0) });
        let vm = vm(exe(vec![func("main", 2, 4, code)]));
        let err = vm.invoke("main", &[1.into(), Value::tuple([Value::Int(1)])]).unwrap_err().to_string();
        assert!(err.contains(expected), "{what}: {err}");
    }
}

#[test]
fn profiles_count_calls() {
    let vm = vm(scale_exe());
    let mut profile = Profile::default();
    for _ in 0..3 {
        vm.invoke_profiled(&mut profile, "main", &[floats(&[1.])]).unwrap();
    }
    let entries = profile.entries();
    assert_eq!((entries.len(), entries[0].0, entries[0].1), (1, ProfileKind::Kernel, "scale"));
    assert_eq!((entries[0].2.calls, profile.instructions), (3, 27));
    assert!(profile.to_string().contains("scale\n"), "{profile}");
}

#[test]
fn missing_kernels_are_all_named() {
    let mut exe = scale_exe();
    exe.kernels.push(sig("b"));
    exe.kernels.push(sig("a"));
    assert_eq!(Vm::new(exe.clone(), &module()).unwrap_err().to_string(), "not found: kernel `b`, `a`");
    exe.kernels.truncate(1);
    exe.packed.push("tvm.test.none".into());
    assert_eq!(
        Vm::new(exe.clone(), &module()).unwrap_err().to_string(),
        "not found: packed function `tvm.test.none`"
    );
    exe.packed.clear();
    exe.kernels[0].params[1].dtype = DataType::F64;
    assert!(matches!(Vm::new(exe, &module()), Err(RuntimeError::Signature { .. })));
}

#[test]
fn eight_threads_share_one_vm() {
    let vm = vm(scale_exe());
    std::thread::scope(|scope| {
        for t in 0..8 {
            let vm = &vm;
            scope.spawn(move || {
                for i in 0..300 {
                    let x: Vec<f32> = (0..1 + (i + t) % 40).map(|v| (v + i) as f32).collect();
                    let y = vm.invoke("main", &[floats(&x)]).unwrap();
                    let expected: Vec<f32> = x.iter().map(|x| x * 2.0).collect();
                    assert_eq!(y.as_tensor().unwrap().as_slice::<f32>().unwrap(), expected);
                }
            });
        }
    });
}

#[test]
fn cyclic_cells_end() {
    // A cell that contains itself, passed to a packed function.
    register_global_func("tvm.test.vm.cycle", PackedFunc::new(|_| Ok(Value::unit()))).unwrap();
    let main = func(
        "main",
        1,
        2,
        vec![
            I::RefSet { cell: r(0), src: r(0) },
            I::InvokePacked { dst: r(1), func: PackedIdx(0), args: regs([0]) },
            I::Ret { src: r(1) },
        ],
    );
    let cell = RefCell::new(Value::unit());
    let exe = Executable { packed: vec!["tvm.test.vm.cycle".into()], ..exe(vec![main]) };
    vm(exe).invoke("main", &[Value::Ref(cell.clone())]).unwrap();
    cell.set(Value::unit());
}

#[test]
fn a_loop_counts() {
    // A loop of four instructions: i = i + 1; t = i < n; if t.
    let main = func(
        "main",
        1,
        4,
        vec![
            I::LoadConsti { dst: r(1), value: 0 },
            int_op(IntOpKind::Add, 1, r(1), 1),
            int_op(IntOpKind::Lt, 2, r(1), r(0)),
            I::Move { dst: r(3), src: r(0) },
            I::If { test: r(2), target: 0, on_eq: Pc(5), on_ne: Pc(1) },
            I::Ret { src: r(1) },
        ],
    );
    let vm = vm(exe(vec![main]));
    let n = 50_000i64;
    assert_eq!(vm.invoke("main", &[n.into()]).unwrap().as_int(), Some(n));
}
