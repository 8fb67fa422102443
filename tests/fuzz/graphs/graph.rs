//! A graph function under construction: the values in scope, their known properties, and the choice of steps.

use std::collections::HashMap;
use std::sync::Arc;

use tvm::DataType;
use tvm::ir::{Attrs, IrError, Op, Span, TensorType, Type, Var, VarId};
use tvm::relax::analysis::{assumptions, simplify_dim, type_dims};
use tvm::relax::{Arg, BlockBuilder, Body, Call, Callee, Expr};
use tvm::tir::{Mutator, PrimExpr, Substitute};
use tvm_testing::Rng;

/// Maximum number of elements of a value.
const MOST: i64 = 600;

pub(super) type Made<T> = Result<T, IrError>;

/// A tensor in scope.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) var: Var,
    /// Upper bound of the absolute values of the elements; infinity for an integer type that may wrap.
    pub(super) most: f64,
    /// True if the elements are integers or bools that do not depend on the order of operations, so that their bits can
    /// be compared.
    pub(super) exact: bool,
}

impl Item {
    pub(super) fn ty(&self) -> &TensorType {
        self.var.ty().as_tensor().expect("items are tensors")
    }

    pub(super) fn dims(&self) -> &[PrimExpr] {
        self.ty().known_shape().expect("the shapes of items are known")
    }

    pub(super) fn dtype(&self) -> DataType {
        self.ty().dtype.expect("the element types of items are known")
    }

    pub(super) fn ndim(&self) -> usize {
        self.dims().len()
    }

    /// True if the extents use no dimensions except `dims`.
    pub(super) fn is_over(&self, dims: &[Var]) -> bool {
        type_dims(self.var.ty()).iter().all(|it| dims.contains(it))
    }

    pub(super) fn arg(&self) -> Arg {
        Arg::from(&self.var)
    }
}

/// What steps there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    /// Use only operations on whose bits all executors agree, except for values that are not [`Item::exact`].
    pub(super) exact: bool,
    /// The device that runs the program.
    pub(super) home: &'static str,
    /// Another device, which some tensors visit.
    pub(super) other: &'static str,
}

impl Mode {
    pub(super) const ANY: Mode = Mode { exact: false, home: "cpu", other: "cpu:1" };
    pub(super) const EXACT: Mode = Mode { exact: true, ..Mode::ANY };
    pub(super) const EXACT_ON_GPU: Mode = Mode { exact: true, home: "cuda:0", other: "cpu" };
}

pub(super) struct Graph<'a> {
    pub(super) rng: &'a mut Rng,
    pub(super) builder: BlockBuilder,
    pub(super) mode: Mode,
    /// Tensors in scope.
    pub(super) items: Vec<Item>,
    /// Dimensions in scope.
    pub(super) dims: Vec<Var>,
    /// Maximum of each dimension.
    pub(super) limits: HashMap<VarId, i64>,
    /// Remaining nesting depth of control flow.
    pub(super) depth: usize,
    /// True if cells may be used, because the function is not declared pure.
    pub(super) impure: bool,
    /// Number of steps that type inference rejected, and of steps that were built.
    pub(super) refused: usize,
    pub(super) made: usize,
    /// Names of the operators that were emitted.
    pub(super) names: Vec<&'static str>,
}

impl Graph<'_> {
    pub(super) fn emit(&mut self, value: Expr) -> Made<Var> {
        self.builder.emit("v", value, &Span::none())
    }

    pub(super) fn call(&mut self, callee: Callee, args: Vec<Arg>, ret: Option<Type>) -> Made<Var> {
        let call = Call { callee, args: args.into(), attrs: Attrs::new(), ret, span: Span::none() };
        self.emit(call.into())
    }

    /// Emits a call of the operator `name`. Calls that require extents to be equal that may differ are mostly rejected,
    /// because most programs should run to their end.
    pub(super) fn op(&mut self, name: &'static str, args: Vec<Arg>, attrs: Attrs) -> Made<Var> {
        let daring = self.rng.one_in(12);
        let types: Vec<Type> = args.iter().map(|arg| self.builder.type_of(arg)).collect();
        let op = Op::get(name)?;
        let span = Span::none();
        let cx = tvm::ir::InferContext { op, args: &args, types: &types, attrs: &attrs, span: &span };
        tvm::relax::op::check_call(&cx)?;
        let (ty, assumed) = assumptions(|| (op.infer)(&cx));
        let ty = ty?;
        if !assumed.is_empty() && !daring {
            return Err(refused("extents that may differ"));
        }
        if !self.fits(&ty) {
            return Err(refused("too large"));
        }
        self.names.push(name);
        self.builder.emit_op("v", op, args, attrs, &span)
    }

    /// Puts the variable into scope as a tensor. It must have a known shape and element type.
    pub(super) fn item(&mut self, var: Var, most: f64, exact: bool) -> Made<Item> {
        let Some(ty) = var.ty().as_tensor() else { return Err(refused("no tensor")) };
        let (Some(_), Some(dtype)) = (ty.known_shape(), ty.dtype) else { return Err(refused("no shape")) };
        // Integers up to this bound are exact in the type, and so are sums of a few of them.
        let largest = match dtype {
            DataType::F16 => 1024.0,
            DataType::F32 => f64::from(1 << 22),
            _ => f64::INFINITY,
        };
        if self.mode.exact && exact && most > largest {
            return Err(refused("its values would be rounded"));
        }
        Ok(Item { var, most: if dtype.is_integer() { f64::INFINITY } else { most }, exact })
    }

    /// True if every tensor in the type is small for all values of the dimensions.
    fn fits(&self, ty: &Type) -> bool {
        match ty {
            Type::Tensor(ty) => ty.known_shape().is_none_or(|dims| self.count(dims) <= MOST),
            Type::Tuple(fields) => fields.iter().all(|field| self.fits(field)),
            Type::Prim(_)
            | Type::Shape(_)
            | Type::Func(_)
            | Type::Adt(_)
            | Type::Ref(_)
            | Type::Param(_)
            | Type::Object => true,
        }
    }

    /// Maximum number of elements of a tensor with these extents.
    pub(super) fn count(&self, dims: &[PrimExpr]) -> i64 {
        let limits = self.limits.iter().map(|(&id, &limit)| (id, PrimExpr::index(limit))).collect();
        let mut largest = Substitute { vars: limits, ..Substitute::default() };
        let extent = |dim: &PrimExpr, largest: &mut Substitute| {
            let dim = largest.mutate_expr(dim).unwrap_or_else(|| dim.clone());
            tvm::arith::Analyzer::new().simplify(&simplify_dim(&dim)).as_int().unwrap_or(6)
        };
        dims.iter().fold(1, |count: i64, dim| count.saturating_mul(extent(dim, &mut largest).max(1)))
    }

    /// Picks a tensor in scope that `fits`, mostly a recent one, so that older ones become dead.
    pub(super) fn pick(&mut self, fits: impl Fn(&Item) -> bool) -> Made<Item> {
        let found: Vec<&Item> = self.items.iter().filter(|it| fits(it)).collect();
        if found.is_empty() {
            return Err(refused("no such value"));
        }
        let from = if self.rng.one_in(3) { 0 } else { found.len().saturating_sub(4) };
        Ok((*self.rng.pick(&found[from..])).clone())
    }

    /// Picks a tensor for operators that are discontinuous: one whose bits are certain.
    pub(super) fn certain(&mut self, fits: impl Fn(&Item) -> bool) -> Made<Item> {
        let exact = self.mode.exact;
        self.pick(|it| (it.exact || !exact) && fits(it))
    }

    /// Clamps `item` so that no element exceeds 8 in absolute value.
    pub(super) fn small(&mut self, item: Item) -> Made<Item> {
        if !self.mode.exact || item.most <= 8.0 || item.dtype().is_bool() {
            return Ok(item);
        }
        let dtype = item.dtype();
        let low = if dtype.is_uint() { 0.0 } else { -8.0 };
        let limits = [low, 8.0].map(|it| Arg::Prim(PrimExpr::constant(it, dtype)));
        let [low, high] = limits;
        let var = self.op("clip", vec![item.arg(), low, high], Attrs::new())?;
        Ok(Item { var, most: 8.0, exact: item.exact })
    }

    /// Adds one value, if one of the steps that are tried is well-typed.
    pub(super) fn grow(&mut self) {
        for _ in 0..20 {
            match self.step() {
                Ok(item) => {
                    self.made += 1;
                    self.items.push(item);
                    return;
                }
                Err(_) => self.refused += 1,
            }
        }
    }

    fn step(&mut self) -> Made<Item> {
        if self.depth > 0 && self.rng.one_in(4) {
            self.depth -= 1;
            let item = self.control();
            self.depth += 1;
            return item;
        }
        self.operator()
    }

    /// Builds a body of up to `steps` values that ends with the result of `finish`. Its values are out of scope afterwards.
    pub(super) fn scope<R>(
        &mut self,
        steps: usize,
        finish: impl FnOnce(&mut Self) -> Made<(Arg, R)>,
    ) -> Made<(Body, R)> {
        let (items, dims) = (self.items.len(), self.dims.len());
        self.builder.begin_scope();
        for _ in 0..self.rng.below(steps + 1) {
            self.grow();
        }
        let finished = finish(self);
        self.items.truncate(items);
        self.dims.truncate(dims);
        match finished {
            Ok((ret, more)) => Ok((self.builder.end_scope(ret), more)),
            Err(err) => {
                self.builder.end_scope(Arg::Tuple(Arc::new([])));
                Err(err)
            }
        }
    }
}

pub(super) fn refused(why: &str) -> IrError {
    IrError::new(why, &Span::none())
}

/// True if the extents are equal in every run.
pub(super) fn same_dims(a: &[PrimExpr], b: &[PrimExpr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| tvm::relax::analysis::prove_equal(a, b))
}
