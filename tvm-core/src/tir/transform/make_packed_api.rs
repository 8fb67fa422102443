//! Gives a program the parameters of the kernel ABI and checks the arguments.
//!
//! TVM counterpart: `MakePackedAPI`, `ArgBinder`.
//! Requires: flat buffers. Ensures: points 1 and 2 of [the lowered form](super). Scalars are bound first; a dimension is
//! bound at its first occurrence as a whole extent; extents that are expressions, and later occurrences, are checked
//! after all are bound, and so are [equations](super::EXTENTS) between them. Parameters must be compact row-major; their offsets are 0. If the caller promises valid
//! arguments (`Trust::unchecked_args`), everything is bound and the arguments are not checked.

use rustc_hash::FxHashSet;
use tvm_runtime::DataType;
use tvm_runtime::abi::{Status, pack_dtype};

use super::context::is_scalar;
use super::own_dims::Equation;
use crate::arith::dims::within;
use crate::ir::{IrError, Var, VarId};
use crate::pass::{Pass, prim_func_pass};
use crate::tir::{
    AssertStmt, BinaryOp, Bind, Buffer, DeclBuffer, Failure, Intrinsic, Mutator, Param, PrimCallee, PrimExpr,
    PrimFunc, Stmt, Visitor, walk_expr,
};

/// Replaces the parameters by `args`, `num_args`, `ctx`.
pub fn make_packed_api() -> Pass {
    prim_func_pass("MakePackedAPI", |func, _, ctx| {
        Binder::new(func, ctx.config.trust.checks_args()).run().map(Some)
    })
}

struct Binder<'a> {
    func: &'a PrimFunc,
    check: bool,
    args: Var,
    num_args: Var,
    bound: FxHashSet<VarId>,
    stmts: Vec<Stmt>,
    /// Checks that need all dimensions to be bound.
    late: Vec<Stmt>,
}

impl<'a> Binder<'a> {
    fn new(func: &'a PrimFunc, check: bool) -> Binder<'a> {
        Binder {
            func,
            check,
            args: Var::prim("args", DataType::HANDLE),
            num_args: Var::prim("num_args", DataType::I32),
            bound: FxHashSet::default(),
            stmts: Vec::new(),
            late: Vec::new(),
        }
    }

    fn run(mut self) -> Result<PrimFunc, IrError> {
        let count = self.func.params.len() as i64;
        let got = PrimExpr::from(&self.num_args).cast(DataType::I64);
        self.assert(Status::ArgCount, -1, -1, PrimExpr::index(count), got);
        for (i, param) in self.func.params.iter().enumerate() {
            if let Param::Scalar(var) = param {
                let value = self.arg(Intrinsic::ArgScalar, i as i64, None, var.dtype());
                self.bind(var, value);
                self.bound(var, i as i64, -1);
            }
        }
        for (i, param) in self.func.params.iter().enumerate() {
            if let Some(buffer) = param.buffer() {
                self.tensor(i as i64, buffer)?;
            }
        }
        for (i, param) in self.func.params.iter().enumerate() {
            if let Some(offset) = param.buffer().and_then(|it| it.elem_offset.as_ref()?.as_var()) {
                self.offset(i as i64, offset);
            }
        }
        for (param, extent) in self
            .func
            .params
            .iter()
            .filter_map(Param::buffer)
            .flat_map(|buffer| buffer.shape.iter().map(move |extent| (buffer, extent)))
        {
            if let Some(var) = first_unbound(extent, &self.bound) {
                let (name, dim) = (&param.name, var.name());
                return Err(IrError::new(
                    format!("dimension `{dim}` in the shape of `{name}` has no value"),
                    &self.func.span,
                )
                .help(format!(
                    "give one tensor parameter an extent that is `{dim}` alone, or pass `{dim}` as a scalar"
                )));
            }
        }
        if self.check {
            for equation in Equation::all(self.func) {
                let (param, axis) = (equation.param as i64, equation.axis as i64);
                let got = PrimExpr::from(&equation.dim);
                self.late.push(equality(failure(Status::Extent, param, axis, equation.value(), got)));
            }
        }
        self.stmts.append(&mut self.late);
        let mut handles = Handles { func: self.func, args: &self.args };
        let body = handles.mutate_stmt(&self.func.body).unwrap_or_else(|| self.func.body.clone());
        self.stmts.push(body);
        let ctx = Var::prim("ctx", DataType::HANDLE);
        let params = [self.args, self.num_args, ctx].map(Param::Scalar);
        Ok(PrimFunc { params: params.into(), body: Stmt::seq(self.stmts), ..self.func.clone() })
    }

    fn tensor(&mut self, i: i64, buffer: &Buffer) -> Result<(), IrError> {
        if !buffer.strides.is_empty() {
            return Err(IrError::new(format!("parameter `{}` has strides", buffer.name), &buffer.span)
                .help("parameters are compact row-major; use `match_buffer` inside for a strided view"));
        }
        if buffer.elem_offset.as_ref().is_some_and(|offset| offset.as_var().is_none() && !offset.is_const(0))
        {
            return Err(IrError::new(format!("parameter `{}` has an offset", buffer.name), &buffer.span)
                .help("the offset of a parameter is a variable; use `match_buffer` inside for a region"));
        }
        let rank = self.arg(Intrinsic::ArgNdim, i, None, DataType::I64);
        self.assert(Status::Rank, i, -1, PrimExpr::index(buffer.ndim() as i64), rank);
        let dtype = self.arg(Intrinsic::ArgDType, i, None, DataType::I64);
        self.assert(Status::DType, i, -1, PrimExpr::index(pack_dtype(buffer.dtype)), dtype);
        for (axis, extent) in buffer.shape.iter().enumerate() {
            let got = self.arg(Intrinsic::ArgShape, i, Some(axis as i64), DataType::I64);
            match extent.as_var() {
                Some(var) if !self.bound.contains(&var.id()) && !is_scalar(self.func, var) => {
                    self.bind(var, got);
                    self.bound(var, i, axis as i64);
                }
                _ => {
                    let check = equality(failure(Status::Extent, i, axis as i64, extent.clone(), got));
                    self.late.extend(self.check.then_some(check));
                }
            }
        }
        if self.check {
            let compact = self.arg(Intrinsic::ArgIsCompact, i, None, DataType::I64);
            self.assert(Status::Strides, i, -1, PrimExpr::index(1), compact);
        }
        Ok(())
    }

    /// Binds the offset of argument `i` to 0, because `arg_data` points to its first element; if `offset` is bound to
    /// another value already, checks that it is 0.
    fn offset(&mut self, i: i64, offset: &Var) {
        let zero = PrimExpr::int(0, offset.dtype());
        if self.bound.contains(&offset.id()) {
            // Checked also for trusted arguments: accesses rely on it, and it is not a property of the argument.
            let check = failure(Status::Strides, i, -1, zero, offset.into());
            self.late.push(equality(check));
        } else {
            self.bind(offset, zero);
        }
    }

    fn bind(&mut self, var: &Var, value: PrimExpr) {
        if self.bound.insert(var.id()) {
            self.stmts.push(Bind { var: var.clone(), value }.into());
        }
    }

    /// Checks `var`, which is axis `axis` of argument `arg` or the argument itself, against its bounds.
    fn bound(&mut self, var: &Var, arg: i64, axis: i64) {
        let Some(bound) = var.bound().filter(|_| self.check) else { return };
        let failure = failure(Status::Bound, arg, axis, PrimExpr::index(bound.min()), var.into());
        let failure = Failure { what: bound.to_string().into(), ..failure };
        // A negative scalar fails the comparison with the minimum.
        let condition = within(&var.into(), bound, BinaryOp::Mod);
        self.stmts.push(AssertStmt { condition, failure }.into());
    }

    fn arg(&self, intrinsic: Intrinsic, i: i64, axis: Option<i64>, dtype: DataType) -> PrimExpr {
        let args = [(&self.args).into(), PrimExpr::index(i)].into_iter().chain(axis.map(PrimExpr::index));
        PrimExpr::call(intrinsic, args.collect::<Vec<_>>(), dtype)
    }

    fn assert(&mut self, status: Status, arg: i64, axis: i64, expected: PrimExpr, got: PrimExpr) {
        if self.check {
            self.stmts.push(equality(failure(status, arg, axis, expected, got)));
        }
    }
}

fn failure(status: Status, arg: i64, axis: i64, expected: PrimExpr, got: PrimExpr) -> Failure {
    Failure::new(status as i32, arg as i32, axis as i32, expected, got)
}

/// An assertion that fails unless `expected` and `got` are equal.
fn equality(failure: Failure) -> Stmt {
    AssertStmt { condition: failure.expected.clone().equal(&failure.got), failure }.into()
}

/// The first variable of `expr` that is not in `bound`.
fn first_unbound(expr: &PrimExpr, bound: &FxHashSet<VarId>) -> Option<Var> {
    struct Find<'a>(&'a FxHashSet<VarId>, Option<Var>);
    impl Visitor for Find<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            match expr.as_var() {
                Some(var) if self.1.is_none() && !self.0.contains(&var.id()) => self.1 = Some(var.clone()),
                _ => walk_expr(self, expr),
            }
        }
    }
    let mut find = Find(bound, None);
    find.visit_expr(expr);
    find.1
}

/// Replaces `address_of` the first element of a parameter by `arg_data`.
struct Handles<'a> {
    func: &'a PrimFunc,
    args: &'a Var,
}

impl Mutator for Handles<'_> {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::DeclBuffer(decl) = stmt else { return self.walk_stmt(stmt) };
        let data = self.mutate_expr(&decl.data)?;
        Some(DeclBuffer { buffer: decl.buffer.clone(), data }.into())
    }

    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let PrimExpr::Call(call) = expr
            && call.callee == PrimCallee::Intrinsic(Intrinsic::AddressOf)
            && let [PrimExpr::BufferLoad(load)] = &*call.args
            && let Some(i) = self.func.params.iter().position(|param| param.buffer() == Some(&load.buffer))
        {
            let args = [self.args.into(), PrimExpr::index(i as i64)];
            return Some(PrimExpr::call(Intrinsic::ArgData, args, DataType::HANDLE));
        }
        self.walk_expr(expr)
    }
}
