//! Helpers that build kernels as the DSL does (conditions, halos, scans, unusual bindings), and run them.

use tvm_runtime::{DataType, ParamKind, Tensor};

use crate::script::{DimSpec, FuncBuilder, FuncSig, KernelValue, LoopSpec, ParamSpec};
use crate::tir::interp::{self, Value as Arg};
use crate::tir::testing::I64;
use crate::tir::{Buffer, IterKind, Param, PrimFunc, Scope};

pub(super) const AT: (u32, u32) = (1, 1);
const SIG: FuncSig = FuncSig {
    name: "f",
    params: &[ParamSpec { name: "x", kind: ParamKind::In, dtype: DataType::I64, dims: &[DimSpec::Var("n")] }],
};

pub(super) fn kernel(build: impl FnOnce(&FuncBuilder)) -> PrimFunc {
    let builder = FuncBuilder::new(&SIG, "test.rs", AT);
    build(&builder);
    let func = builder.finish().unwrap();
    crate::tir::analysis::well_formed(&func).unwrap_or_else(|err| panic!("{err}\n{func}"));
    func
}

pub(super) fn input(b: &FuncBuilder, name: &'static str, shape: &[i64]) -> Buffer {
    match *shape {
        [n] => b.input(AT, name, I64, [KernelValue::int(n)]),
        [m, n] => b.input(AT, name, I64, [KernelValue::int(m), KernelValue::int(n)]),
        _ => unreachable!("tests use one or two dimensions"),
    }
}

pub(super) fn output(b: &FuncBuilder, name: &'static str, shape: &[i64]) -> Buffer {
    match *shape {
        [n] => b.output(AT, name, I64, [KernelValue::int(n)]),
        [m, n] => b.output(AT, name, I64, [KernelValue::int(m), KernelValue::int(n)]),
        _ => unreachable!("tests use one or two dimensions"),
    }
}

pub(super) fn local(b: &FuncBuilder, name: &'static str, n: i64) -> Buffer {
    b.alloc(AT, name, I64, [KernelValue::int(n)], Scope::Global)
}

pub(super) fn each(b: &FuncBuilder, name: &'static str, n: i64, body: impl FnOnce(KernelValue)) {
    b.for_range(AT, LoopSpec::default(), name, (KernelValue::int(0), KernelValue::int(n)), body);
}

pub(super) fn s(name: &'static str, value: &KernelValue) -> (IterKind, &'static str, KernelValue) {
    (IterKind::Spatial, name, value.clone())
}

pub(super) fn r(name: &'static str, value: &KernelValue) -> (IterKind, &'static str, KernelValue) {
    (IterKind::Reduce, name, value.clone())
}

/// The outputs of `func`, for several values of its scalars. Output elements start as -77.
pub(super) fn results(func: &PrimFunc) -> Vec<Vec<i64>> {
    let run = |scalar: i64| {
        let value = |(i, param): (usize, &Param)| match param {
            Param::Scalar(_) => Arg::Int(scalar),
            Param::In(buffer) | Param::Out(buffer) => {
                let shape = buffer.const_shape().unwrap();
                let len: i64 = shape.iter().product();
                let fill = |j: i64| match param {
                    Param::In(_) => (j * 7 + i as i64 * 13) % 11 - 5,
                    Param::Out(_) | Param::Scalar(_) => -77,
                };
                Arg::Tensor(Tensor::from_vec((0..len).map(fill).collect(), &shape).unwrap())
            }
        };
        let mut args: Vec<Arg> = func.params.iter().enumerate().map(value).collect();
        interp::run(func, &mut args).unwrap_or_else(|err| panic!("{err}\n{func}"));
        let outs = func.params.iter().zip(args).filter(|(param, _)| matches!(param, Param::Out(_)));
        outs.flat_map(|(_, arg)| arg.as_tensor().unwrap().to_vec::<i64>().unwrap()).collect()
    };
    [-1, 0, 1].into_iter().map(run).collect()
}
