//! Runs graph functions of operator calls: infers, legalises, interprets.

use std::collections::HashMap;

use tvm_core::ir::{
    AttrValue, Attrs, BaseFunc, IRModule, IrError, Op, ShapeType, Span, Type, Var, VarId, structural_equal,
    well_formed,
};
use tvm_core::pipeline::lower_tir;
use tvm_core::relax::op::memory;
use tvm_core::relax::transform::legalize_ops;
use tvm_core::relax::{Arg, BlockBuilder, Callee, Expr, Function};
use tvm_core::tir::transform::zero_outputs;
use tvm_core::tir::{PrimExpr, Stmt, interp};
use tvm_runtime::{DataType, Element, Tensor, Value};

/// The inferred type of a call.
pub(crate) fn infer(op: &str, args: impl Into<Vec<Arg>>, attrs: Attrs) -> Result<Type, IrError> {
    let mut builder = BlockBuilder::new(IRModule::new());
    let var = builder.emit_op("y", Op::get(op)?, args.into(), attrs, &Span::none())?;
    Ok(var.ty().clone())
}

/// A variable of type `Tensor<dtype, dims>`.
pub(crate) fn param(dims: &[PrimExpr], dtype: DataType) -> Var {
    Var::new("x", Type::tensor(dims.to_vec(), dtype))
}

pub(crate) fn shape(dims: &[i64]) -> Arg {
    Arg::Shape(dims.iter().map(|&dim| PrimExpr::index(dim)).collect())
}

pub(crate) fn tensor<T: Element>(data: &[T], shape: &[i64]) -> Tensor {
    Tensor::from_slice(data, shape).expect("the data fits the shape")
}

/// Results of `op` on constant arguments.
pub(crate) fn call(op: &str, args: impl Into<Vec<Arg>>, attrs: Attrs) -> Vec<Tensor> {
    try_call(op, args, attrs).unwrap_or_else(|err| panic!("{op}: {err}"))
}

/// The one result of `op` on constant arguments.
pub(crate) fn call1(op: &str, args: impl Into<Vec<Arg>>, attrs: Attrs) -> Tensor {
    call(op, args, attrs).swap_remove(0)
}

/// [`call1`] for a call that does not support symbolic extents: with them, it fails with a message that contains `why`.
pub(crate) fn call1_fixed(op: &str, args: impl Into<Vec<Arg>>, attrs: Attrs, why: &str) -> Tensor {
    let args = args.into();
    let got = try_call_with(op, &args, &attrs, &mut PrimExpr::index);
    match try_call_with(op, &args, &attrs, &mut symbolic()) {
        Ok(_) => panic!("{op}: works with symbolic extents, expected `{why}`"),
        Err(err) => assert!(err.to_string().contains(why), "{op} with symbolic extents: {err}"),
    }
    got.unwrap_or_else(|err| panic!("{op}: {err}")).swap_remove(0)
}

/// Runs the call on tensors of constant shapes and of symbolic shapes, where equal extents are one dimension. Both must
/// agree.
pub(crate) fn try_call(op: &str, args: impl Into<Vec<Arg>>, attrs: Attrs) -> Result<Vec<Tensor>, IrError> {
    let args = args.into();
    let fixed = try_call_with(op, &args, &attrs, &mut PrimExpr::index)?;
    let symbolic = try_call_with(op, &args, &attrs, &mut symbolic())
        .unwrap_or_else(|err| panic!("{op} with symbolic extents: {err}"));
    assert_eq!(symbolic.len(), fixed.len());
    for (a, b) in symbolic.iter().zip(&fixed) {
        assert_eq!((a.shape(), a.dtype()), (b.shape(), b.dtype()), "{op} of a symbolic shape");
        assert_eq!(a.bytes().expect("host"), b.bytes().expect("host"), "{op} of a symbolic shape");
    }
    Ok(fixed)
}

/// A dimension for every extent but 0 and 1.
fn symbolic() -> impl FnMut(i64) -> PrimExpr {
    let mut dims: HashMap<i64, PrimExpr> = HashMap::new();
    move |extent| match extent {
        0 | 1 => PrimExpr::index(extent),
        _ => dims.entry(extent).or_insert_with(|| Var::index(format!("n{extent}")).into()).clone(),
    }
}

fn try_call_with(
    op: &str,
    args: &[Arg],
    attrs: &Attrs,
    dim: &mut dyn FnMut(i64) -> PrimExpr,
) -> Result<Vec<Tensor>, IrError> {
    // Constants become parameters, so that nothing can be folded.
    let mut params = Vec::new();
    let mut values = Vec::new();
    let args: Vec<Arg> = args.iter().map(|arg| lift(arg, dim, &mut params, &mut values)).collect();
    let mut builder = BlockBuilder::new(IRModule::new());
    let op = Op::get(op)?;
    builder.add_function("main", &params, |builder| {
        Ok(builder.emit_op("y", op, args, attrs.clone(), &Span::none())?.into())
    })?;
    run(builder.into_module(), &values)
}

fn lift(
    arg: &Arg,
    dim: &mut dyn FnMut(i64) -> PrimExpr,
    params: &mut Vec<Var>,
    values: &mut Vec<Tensor>,
) -> Arg {
    match arg {
        Arg::Const(tensor) => {
            let dims: Vec<PrimExpr> = tensor.shape().iter().map(|&extent| dim(extent)).collect();
            params.push(param(&dims, tensor.dtype()));
            values.push(tensor.clone());
            Arg::Var(params[params.len() - 1].clone())
        }
        Arg::Tuple(fields) => {
            Arg::Tuple(fields.iter().map(|field| lift(field, dim, params, values)).collect())
        }
        _ => arg.clone(),
    }
}

/// Legalises `main` and runs it on `inputs`.
pub(crate) fn run(module: IRModule, inputs: &[Tensor]) -> Result<Vec<Tensor>, IrError> {
    let module =
        legalize_ops().apply(module).map_err(|err| IrError(tvm_core::ir::Diagnose::diagnostics(&err)))?;
    well_formed(&module).unwrap_or_else(|err| panic!("{err}"));
    no_needless_zeros(&module);
    let Some(BaseFunc::Relax(main)) = module.lookup("main") else { panic!("no main") };
    let mut machine = Machine { module: &module, values: HashMap::new(), dims: HashMap::new() };
    machine.bind_params(main, inputs);
    machine.body(main)
}

/// Checks that kernels of operators write all of their results and scratch memory before they read it, and that the
/// compiler proves it: it fills none of it with zeros.
fn no_needless_zeros(module: &IRModule) {
    let kernels = module.functions().filter_map(|(gv, _)| module.prim_func(gv));
    for func in kernels {
        assert!(zero_outputs(func).is_none(), "the results are zeroed first:\n{func}");
        // Scratch memory of an operator is allocated at the root. Sorts of rows have more, in the block of a row, and write it
        // at computed places, so that nothing is proven of it.
        let Stmt::BlockRealize(root) = &func.body else { continue };
        if root.block.alloc_buffers.is_empty() || allocates(&root.block.body) {
            continue;
        }
        let mut lowered = IRModule::from_prim_func((**func).clone());
        for pass in lower_tir().parts() {
            let before = lowered.clone();
            lowered = pass.apply(lowered).unwrap_or_else(|err| panic!("{err}"));
            if pass.info.name == "ZeroUnwritten" {
                structural_equal(&before, &lowered)
                    .unwrap_or_else(|_| panic!("scratch memory is zeroed first:\n{func}"));
                break;
            }
        }
    }
}

/// True if a block inside of `stmt` allocates memory.
fn allocates(stmt: &Stmt) -> bool {
    let own = matches!(stmt, Stmt::BlockRealize(it) if !it.block.alloc_buffers.is_empty());
    own || stmt.children().into_iter().any(allocates)
}

struct Machine<'a> {
    module: &'a IRModule,
    values: HashMap<VarId, Vec<Tensor>>,
    dims: HashMap<VarId, i64>,
}

impl Machine<'_> {
    fn bind_params(&mut self, func: &Function, inputs: &[Tensor]) {
        assert_eq!(func.params.len(), inputs.len());
        for (param, input) in func.params.iter().zip(inputs) {
            let dims = param.ty().as_tensor().and_then(|ty| ty.known_shape().map(<[_]>::to_vec));
            for (dim, &extent) in dims.unwrap_or_default().iter().zip(input.shape()) {
                if let Some(var) = dim.as_var() {
                    self.dims.insert(var.id(), extent);
                }
            }
            self.values.insert(param.id(), vec![input.clone()]);
        }
    }

    fn dim(&self, dim: &PrimExpr) -> i64 {
        let vars = self.dims.iter().map(|(&id, &value)| (id, PrimExpr::index(value))).collect();
        tvm_core::tir::substitute_expr(dim, &vars).as_int().expect("all dimensions are bound")
    }

    fn body(&mut self, func: &Function) -> Result<Vec<Tensor>, IrError> {
        for binding in func.body.bindings() {
            let value = match &binding.value {
                Expr::Arg(Arg::Shape(extents)) if binding.match_cast => {
                    self.check_extents(extents, binding.var.ty())?;
                    continue;
                }
                Expr::Arg(arg) => self.arg(arg),
                Expr::TupleGetItem(arg, i) => vec![self.arg(arg)[*i].clone()],
                Expr::Call(call) => match &call.callee {
                    Callee::Tir(gv) => self.call_tir(gv, &call.args, call.ret.as_ref().expect("a type"))?,
                    Callee::Op(op) if op.is_view() => {
                        let dims =
                            binding.var.ty().as_tensor().and_then(|ty| ty.known_shape()).expect("known");
                        let dims: Vec<i64> = dims.iter().map(|dim| self.dim(dim)).collect();
                        vec![self.arg(&call.args[0])[0].reshape(&dims).expect("the same number of elements")]
                    }
                    Callee::Op(op) if op.name == memory::CHECK_INDICES => {
                        vec![self.check_indices(&call.args)?]
                    }
                    callee => {
                        let message = format!("{callee:?} is not legalised");
                        return Err(IrError::new(message, &Span::none()));
                    }
                },
                other => panic!("{other:?}"),
            };
            self.values.insert(binding.var.id(), value);
        }
        Ok(self.arg(&func.body.ret))
    }

    fn arg(&self, arg: &Arg) -> Vec<Tensor> {
        match arg {
            Arg::Var(var) => self.values[&var.id()].clone(),
            Arg::Const(tensor) => vec![tensor.clone()],
            Arg::Tuple(fields) => fields.iter().flat_map(|field| self.arg(field)).collect(),
            other => panic!("{other:?} is not a tensor"),
        }
    }

    /// Returns an error unless `extents` are those of the shape type `ty`.
    fn check_extents(&self, extents: &[PrimExpr], ty: &Type) -> Result<(), IrError> {
        let Type::Shape(ShapeType { values: Some(expected), .. }) = ty else {
            panic!("{ty:?} has no extents")
        };
        for (got, expected) in extents.iter().zip(expected.iter()) {
            let (got, expected) = (self.dim(got), self.dim(expected));
            if got != expected {
                return Err(IrError::new(
                    format!("expected the extent {expected}, got {got}"),
                    &Span::none(),
                ));
            }
        }
        Ok(())
    }

    /// The indices, which may count from the end, if all are within their extents.
    fn check_indices(&self, args: &[Arg]) -> Result<Tensor, IrError> {
        let (indices, Arg::Shape(extents)) = (self.arg(&args[0])[0].clone(), &args[1]) else {
            panic!("{args:?} are not indices and extents")
        };
        for (i, index) in indices.to_f64s().expect("host").into_iter().enumerate() {
            let extent = self.dim(&extents[i % extents.len()]) as f64;
            if !(-extent..extent).contains(&index) {
                return Err(IrError::new(format!("index {index} of extent {extent}"), &Span::none()));
            }
        }
        Ok(indices)
    }

    fn call_tir(
        &self,
        gv: &tvm_core::ir::GlobalVar,
        args: &[Arg],
        ret: &Type,
    ) -> Result<Vec<Tensor>, IrError> {
        let func = self.module.prim_func(gv).expect("a tensor program");
        let mut values = Vec::new();
        let mut scalars = Vec::new();
        for arg in args {
            match arg {
                Arg::Prim(value) => scalars.push(Value::Int(self.dim(value))),
                _ => values.extend(self.arg(arg).into_iter().map(Value::Tensor)),
            }
        }
        let outputs = ret.as_tuple().unwrap_or(std::slice::from_ref(ret));
        let first = values.len();
        for ty in outputs {
            let ty = ty.as_tensor().expect("a tensor");
            let dims: Vec<i64> = ty.known_shape().expect("known").iter().map(|dim| self.dim(dim)).collect();
            let memory = Tensor::zeros(&dims, ty.dtype.expect("known"));
            values.push(Value::Tensor(memory.map_err(|err| IrError::new(err.to_string(), &Span::none()))?));
        }
        let count = outputs.len();
        values.extend(scalars);
        interp::run(func, &mut values).unwrap_or_else(|err| panic!("{}: {err}", gv.name()));
        let outputs = values[first..first + count].iter();
        Ok(outputs
            .map(|value| if let Value::Tensor(tensor) = value { tensor.clone() } else { panic!("{value:?}") })
            .collect())
    }
}

/// Equal, or within `tolerance` relative to the larger of 1 and the expected value; NaN equals NaN.
pub(crate) fn assert_close(what: &str, got: &Tensor, shape: &[i64], want: &[f32], tolerance: f32) {
    assert_eq!(got.shape(), shape, "{what}: shape");
    let got: Vec<f32> = got.to_vec().expect("f32");
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let same = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= tolerance * w.abs().max(1.0);
        assert!(same, "{what}: element {i} is {g}, expected {w}");
    }
}

/// A small deterministic generator.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number in `-range..range`.
    pub(crate) fn float(&mut self, range: f32) -> f32 {
        ((self.next() >> 40) as f32 / (1u64 << 24) as f32 * 2.0 - 1.0) * range
    }

    /// A number in `low..high`.
    pub(crate) fn int(&mut self, low: i64, high: i64) -> i64 {
        low + (self.next() >> 33) as i64 % (high - low)
    }

    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float(4.0)).collect()
    }

    pub(crate) fn tensor(&mut self, shape: &[i64]) -> Tensor {
        tensor(&self.floats(shape.iter().product::<i64>() as usize), shape)
    }
}

/// A row-major array of `f32` for the plain Rust side.
#[derive(Clone)]
pub(crate) struct Nd {
    pub(crate) shape: Vec<i64>,
    pub(crate) data: Vec<f32>,
}

impl Nd {
    pub(crate) fn of(tensor: &Tensor) -> Nd {
        Nd { shape: tensor.shape().to_vec(), data: tensor.to_vec().expect("f32") }
    }

    pub(crate) fn random(rng: &mut Rng, shape: &[i64]) -> Nd {
        Nd::of(&rng.tensor(shape))
    }

    /// The array of extents `shape` whose element at each index is `f` of that index.
    pub(crate) fn build(shape: &[i64], mut f: impl FnMut(&[i64]) -> f32) -> Nd {
        let data = indices(shape).iter().map(|i| f(i)).collect();
        Nd { shape: shape.to_vec(), data }
    }

    pub(crate) fn at(&self, index: &[i64]) -> f32 {
        assert_eq!(index.len(), self.shape.len());
        let flat = index.iter().zip(&self.shape).fold(0, |flat, (i, n)| {
            assert!((0..*n).contains(i), "{index:?} is outside of {:?}", self.shape);
            flat * n + i
        });
        self.data[flat as usize]
    }

    /// The element, or `outside` when there is none.
    pub(crate) fn at_or(&self, index: &[i64], outside: f32) -> f32 {
        let inside = index.iter().zip(&self.shape).all(|(i, n)| (0..*n).contains(i));
        if inside { self.at(index) } else { outside }
    }

    pub(crate) fn tensor(&self) -> Tensor {
        tensor(&self.data, &self.shape)
    }

    pub(crate) fn arg(&self) -> Arg {
        self.tensor().into()
    }

    pub(crate) fn assert_is(&self, what: &str, got: &Tensor) {
        assert_close(what, got, &self.shape, &self.data, 2e-5);
    }
}

/// All indices of a tensor of extents `shape`, row-major.
pub(crate) fn indices(shape: &[i64]) -> Vec<Vec<i64>> {
    shape.iter().fold(vec![Vec::new()], |outer, &extent| {
        let extend = |index: Vec<i64>| {
            (0..extent).map(move |i| {
                let mut index = index.clone();
                index.push(i);
                index
            })
        };
        outer.into_iter().flat_map(extend).collect()
    })
}

pub(crate) fn ints(values: &[i64]) -> AttrValue {
    values.to_vec().into()
}
