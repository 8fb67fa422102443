//! Random programs for the fuzz tests of passes that move computations: loops (also empty ones), branches, assertions, and stores
//! between the loads of a few small buffers. Expressions often repeat. What could fail (quotients by elements, loads outside of a
//! buffer) is behind a condition.

use tvm_runtime::{DataType, Tensor, Value};
use tvm_testing::Rng;

use super::convert_ssa::convert;
use crate::ir::{IRModule, Var};
use crate::pass::{Pass, PassContext};
use crate::tir::interp::Program;
use crate::tir::{
    AllocBuffer, AssertStmt, BinaryOp, Bind, Buffer, Failure, For, Intrinsic, Let, Param, PrimExpr, PrimFunc,
    Scope, Stmt, binary,
};

const F64: DataType = DataType::F64;
const I64: DataType = DataType::I64;
const SIZE: i64 = 8;
const LANES: u16 = 4;

/// A program, and arguments for it.
pub(super) struct Case {
    pub(super) func: PrimFunc,
    inputs: [Vec<f64>; 3],
    table: Vec<i64>,
    n: i64,
}

struct Gen<'r> {
    rng: &'r mut Rng,
    /// Integers in scope.
    ints: Vec<PrimExpr>,
    /// Expressions of floats in scope, to be used again.
    floats: Vec<PrimExpr>,
    buffers: Vec<Buffer>,
    table: Buffer,
    /// Statements that may still be made.
    left: usize,
}

impl Case {
    pub(super) fn random(rng: &mut Rng) -> Case {
        let buffers: Vec<Buffer> =
            ["a", "b", "c"].map(|name| Buffer::new(name, [PrimExpr::index(SIZE)], F64)).to_vec();
        let table = Buffer::new("table", [PrimExpr::index(SIZE)], I64);
        let n = Var::index("n");
        let params = [Param::In(buffers[0].clone()), Param::Out(buffers[1].clone())];
        let rest = [Param::Out(buffers[2].clone()), Param::In(table.clone()), Param::Scalar(n.clone())];
        let (ints, floats) = (vec![PrimExpr::from(&n)], Vec::new());
        let mut make = Gen { rng, ints, floats, buffers, table, left: 14 };
        let body = make.body(3);
        let params: Vec<Param> = params.into_iter().chain(rest).collect();
        let func = PrimFunc::new("f", params, body);
        // Repeated expressions bind their variables twice.
        let func = PrimFunc { body: convert(&func, &func.body).unwrap_or(func.body.clone()), ..func };
        let mut floats = || (0..SIZE).map(|_| rng.below(33) as f64 / 8.0 - 2.0).collect();
        let inputs = [floats(), floats(), floats()];
        let table = (0..SIZE).map(|_| rng.below(7) as i64 - 2).collect();
        Case { func, inputs, table, n: rng.below(4) as i64 }
    }

    /// What `func` leaves in the buffers; `None` if an assertion fails.
    pub(super) fn run(&self, func: &PrimFunc) -> Option<[Vec<u64>; 2]> {
        let mut args: Vec<Value> =
            self.inputs.iter().map(|it| Value::Tensor(Tensor::from_slice(it, &[SIZE]).unwrap())).collect();
        args.push(Value::Tensor(Tensor::from_slice(&self.table, &[SIZE]).unwrap()));
        args.push(Value::Int(self.n));
        match Program::compile(func).and_then(|it| it.strict(1).run(&mut args)) {
            Ok(()) => Some([1, 2].map(|at: usize| {
                let floats: Vec<f64> = args[at].as_tensor().unwrap().to_vec().unwrap();
                floats.into_iter().map(f64::to_bits).collect()
            })),
            Err(err) => {
                assert!(err.to_string().contains("assert"), "{err}\n{func}");
                None
            }
        }
    }

    /// The program after `passes`, which must compute the same.
    pub(super) fn check(&self, passes: &[Pass], seed: u64) -> PrimFunc {
        let mut module = IRModule::from_prim_func(self.func.clone());
        let want = self.run(&self.func);
        for pass in passes {
            module = pass.apply_in(module, &PassContext::default()).unwrap();
        }
        let func = (**module.prim_func(module.functions().next().unwrap().0).unwrap()).clone();
        assert!(self.run(&func) == want, "seed {seed}\n{}\n{func}", self.func);
        func
    }
}

impl Gen<'_> {
    fn body(&mut self, depth: usize) -> Stmt {
        let scope = (self.ints.len(), self.floats.len(), self.buffers.len());
        let count = 1 + self.rng.below(4);
        let stmts: Vec<Stmt> = (0..count).map(|_| self.stmt(depth)).collect();
        self.ints.truncate(scope.0);
        self.floats.truncate(scope.1);
        self.buffers.truncate(scope.2);
        Stmt::seq(stmts)
    }

    fn stmt(&mut self, depth: usize) -> Stmt {
        let kind = if depth == 0 || self.left == 0 { 4 + self.rng.below(7) } else { self.rng.below(11) };
        self.left = self.left.saturating_sub(1);
        match kind {
            0 | 1 => {
                let var = Var::index("i");
                let extent = match self.rng.below(4) {
                    0 => self.rng.pick(&self.ints).clone().floormod(4),
                    _ => PrimExpr::index(self.rng.below(4) as i64),
                };
                let (ints, floats) = (self.ints.len(), self.floats.len());
                self.ints.push((&var).into());
                let body = self.body(depth - 1);
                self.ints.truncate(ints);
                self.floats.truncate(floats);
                For::serial(var, extent, body).into()
            }
            2 | 3 => {
                let condition = self.condition();
                let then_case = self.body(depth - 1);
                let else_case = self.rng.one_in(2).then(|| self.body(depth - 1));
                Stmt::if_then_else(condition, then_case, else_case)
            }
            4 => {
                let value = self.float(2);
                let var = Var::prim("v", F64);
                self.floats.push((&var).into());
                Bind { var, value }.into()
            }
            5 if self.rng.one_in(3) => {
                let limit = PrimExpr::index(6 - 2 * self.rng.below(2) as i64);
                let condition = self.index().less_equal(limit);
                let zero = PrimExpr::index(0);
                AssertStmt { condition, failure: Failure::new(7, -1, -1, zero.clone(), zero) }.into()
            }
            6 if self.rng.one_in(2) => {
                let buffer = Buffer::with_scope("local", [PrimExpr::index(SIZE)], F64, Scope::Local);
                let zero = PrimExpr::float(0.5, F64).broadcast(SIZE as u16);
                let fill = Stmt::store(&buffer, [ramp(PrimExpr::index(0), SIZE as u16)], zero);
                self.buffers.push(buffer.clone());
                let rest = self.stmt(depth);
                Stmt::seq([AllocBuffer::new(buffer).into(), fill, rest])
            }
            7 => {
                let value = self.float(2).broadcast(LANES) * self.vector();
                let buffer = self.target();
                Stmt::store(&buffer, [ramp(PrimExpr::index(self.rng.below(5) as i64), LANES)], value)
            }
            _ => {
                let (value, index) = (self.float(3), self.index());
                let buffer = self.target();
                Stmt::store(&buffer, [index], value)
            }
        }
    }

    /// A buffer that may be written.
    fn target(&mut self) -> Buffer {
        let at = 1 + self.rng.below(self.buffers.len() - 1);
        self.buffers[at].clone()
    }

    /// An index that is in bounds.
    fn index(&mut self) -> PrimExpr {
        let int = self.rng.pick(&self.ints).clone();
        match self.rng.below(4) {
            0 => PrimExpr::index(self.rng.below(8) as i64),
            1 => self.table.load([int.floormod(SIZE)]).floormod(SIZE),
            _ => (int + self.rng.below(3) as i64).floormod(SIZE),
        }
    }

    fn condition(&mut self) -> PrimExpr {
        match self.rng.below(3) {
            0 => self.index().less(self.rng.below(8) as i64),
            1 => self.float(1).less(PrimExpr::float(0.5, F64)),
            _ => self.rng.pick(&self.ints).clone().less(2),
        }
    }

    fn vector(&mut self) -> PrimExpr {
        let at = self.rng.below(self.buffers.len());
        let load = self.buffers[at].load([ramp(PrimExpr::index(self.rng.below(5) as i64), LANES)]);
        if self.rng.one_in(2) { load.unary(Intrinsic::Tanh) } else { load }
    }

    fn float(&mut self, depth: usize) -> PrimExpr {
        if !self.floats.is_empty() && self.rng.one_in(3) {
            return self.rng.pick(&self.floats).clone();
        }
        let made = self.new_float(depth);
        self.floats.push(made.clone());
        made
    }

    fn new_float(&mut self, depth: usize) -> PrimExpr {
        if depth == 0 {
            let index = self.index();
            let at = self.rng.below(self.buffers.len());
            return match self.rng.below(4) {
                0 => PrimExpr::float(self.rng.below(9) as f64 / 4.0, F64),
                1 => self.rng.pick(&self.ints).clone().cast(F64),
                _ => self.buffers[at].load([index]),
            };
        }
        let functions = [Intrinsic::Tanh, Intrinsic::Sigmoid, Intrinsic::Erf];
        match self.rng.below(9) {
            0 => self.float(depth - 1) + self.float(depth - 1),
            1 => self.float(depth - 1) * self.float(depth - 1),
            2 | 3 => self.float(depth - 1).unary(*self.rng.pick(&functions)),
            4 => binary(BinaryOp::Div, self.float(depth - 1), PrimExpr::float(3.0, F64)),
            5 => {
                let condition = self.condition();
                condition.select(self.float(depth - 1), self.float(depth - 1))
            }
            6 => {
                // Only where the index is in bounds, and only where the divisor is not 0.
                let int = self.rng.pick(&self.ints).clone() * 3;
                let inside = int.clone().less(SIZE).and(int.clone().greater_equal(0));
                let at = self.rng.below(self.buffers.len());
                let value = self.buffers[at].load([int]).unary(Intrinsic::Tanh);
                let other = value.clone() * &value;
                PrimExpr::call(Intrinsic::IfThenElse, [inside, other, self.float(depth - 1)], F64)
            }
            7 => {
                let index = self.index();
                let divisor = self.table.load([index]);
                let quotient = self.index().floordiv(divisor.clone());
                let value = quotient.cast(F64).unary(Intrinsic::Tanh);
                let args = [divisor.not_equal(0), value.clone() + &value, PrimExpr::float(1.0, F64)];
                PrimExpr::call(Intrinsic::IfThenElse, args, F64)
            }
            _ => {
                let (var, value) = (Var::prim("let", F64), self.float(depth - 1));
                let floats = self.floats.len();
                self.floats.push((&var).into());
                let body = self.new_float(depth - 1) + &var;
                self.floats.truncate(floats);
                PrimExpr::Let(Let { var, value, body }.into())
            }
        }
    }
}

fn ramp(base: PrimExpr, lanes: u16) -> PrimExpr {
    base.ramp(PrimExpr::index(1), lanes)
}
