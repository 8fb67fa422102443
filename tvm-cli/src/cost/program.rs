//! What a call of a tensor program costs: operations, and the bytes that it reads and writes.
//!
//! Requires a program before schedules. An addition, subtraction, multiplication, division, minimum, maximum or elementary
//! function of elements counts as one operation; indices, conditions and conversions count nothing. Of a choice, the arm with
//! more operations counts.
//!
//! TVM counterpart: `EstimateTIRFlops`, for symbolic extents.

use std::collections::HashMap;

use tvm_core::ir::{BufferId, IRModule, Type};
use tvm_core::relax::Arg;
use tvm_core::relax::analysis::{simplify_dim, type_of_arg};
use tvm_core::tir::{
    Buffer, Intrinsic, Mutator, Operands, Param, PrimCallee, PrimExpr, PrimFunc, Stmt, Substitute,
};

use super::Poly;
use super::poly::Extents;

/// What something costs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    /// Operations.
    pub(crate) flops: Poly,
    /// Bytes that are read or written, if each kernel reads and writes an element at most once.
    pub(crate) bytes: Poly,
    /// Something was counted as if it ran once: a loop of which only a run knows how long it is.
    pub(crate) at_least: bool,
}

impl Cost {
    /// Adds what something else costs.
    pub(crate) fn add(&mut self, other: &Cost) {
        self.flops.add(&other.flops);
        self.bytes.add(&other.bytes);
        self.at_least |= other.at_least;
    }

    /// Of two things, one of which runs: what the more expensive one costs.
    pub(crate) fn or(self, other: Cost) -> Cost {
        let at = |cost: &Cost| (cost.flops.at(&Extents::new()), cost.bytes.at(&Extents::new()));
        if at(&other) > at(&self) { other } else { self }
    }
}

/// What is known of an argument.
#[derive(Clone, Debug)]
pub(crate) enum Actual {
    /// The shape of a tensor.
    Shape(Vec<PrimExpr>),
    /// The value of a scalar.
    Value(PrimExpr),
    /// Nothing.
    Unknown,
}

/// What a call costs with these inputs, which are tensors and then the values of scalar parameters, and outputs of these types.
/// `extents` say which of two expressions is the smaller one.
pub(crate) fn cost(
    func: &PrimFunc,
    inputs: &[Arg],
    outputs: &[Type],
    module: &IRModule,
    extents: &Extents,
) -> Cost {
    let shape = |ty: Type| match ty {
        Type::Tensor(ty) => Actual::Shape(ty.known_shape().unwrap_or_default().to_vec()),
        _ => Actual::Unknown,
    };
    let value = |arg: &Arg| if let Arg::Prim(it) = arg { Actual::Value(it.clone()) } else { Actual::Unknown };
    let tensors = func.params.iter().filter(|param| matches!(param, Param::In(_))).count();
    let (tensors, scalars) = inputs.split_at(tensors.min(inputs.len()));
    let mut tensors = tensors.iter().map(|it| shape(type_of_arg(it, module)));
    let mut scalars = scalars.iter().map(value);
    let mut outputs = outputs.iter().cloned().map(shape);
    let actual = |param: &Param| match param {
        Param::In(_) => tensors.next(),
        Param::Out(_) => outputs.next(),
        Param::Scalar(_) => scalars.next(),
    };
    let args: Vec<Actual> = func.params.iter().map(actual).map(|it| it.unwrap_or(Actual::Unknown)).collect();
    cost_of_call(func, &args, extents)
}

/// What a call costs with these arguments, in the order of the parameters.
pub(crate) fn cost_of_call(func: &PrimFunc, args: &[Actual], extents: &Extents) -> Cost {
    let mut walk = Walk {
        dims: Substitute::default(),
        times: Poly::number(1),
        loads: HashMap::new(),
        cost: Cost::default(),
    };
    for (param, actual) in func.params.iter().zip(args) {
        match (param, actual) {
            (Param::Scalar(var), Actual::Value(value)) => {
                walk.dims.vars.insert(var.id(), value.clone());
            }
            (Param::In(buffer) | Param::Out(buffer), Actual::Shape(shape)) => {
                for (dim, actual) in buffer.shape.iter().zip(shape) {
                    if let PrimExpr::Var(var) = dim {
                        walk.dims.vars.entry(var.id()).or_insert_with(|| actual.clone());
                    }
                }
            }
            _ => {}
        }
    }
    let flops = walk.stmt(&func.body);
    walk.cost.flops = flops;
    for param in func.params.iter() {
        let (buffer, read) = match param {
            Param::In(buffer) => (buffer, walk.loads.get(&buffer.id).cloned().unwrap_or_default()),
            Param::Out(buffer) => (buffer, walk.size(buffer)),
            Param::Scalar(_) => continue,
        };
        // What is looked up in a table is often less than the table.
        let size = walk.size(buffer);
        let elements = if read.at(extents) < size.at(extents) { read } else { size };
        let bytes = Poly::number((buffer.dtype.bytes() as i128).max(1));
        walk.cost.bytes.add(&elements.times(&bytes));
    }
    walk.cost
}

struct Walk {
    /// The dimensions of the caller.
    dims: Substitute,
    /// How often the current statement runs.
    times: Poly,
    /// How many elements of each buffer are read.
    loads: HashMap<BufferId, Poly>,
    cost: Cost,
}

impl Walk {
    fn extent(&mut self, expr: &PrimExpr) -> PrimExpr {
        let expr = self.dims.mutate_expr(expr).unwrap_or_else(|| expr.clone());
        if reads(&expr) {
            self.cost.at_least = true;
            return PrimExpr::index(1);
        }
        simplify_dim(&expr)
    }

    fn size(&mut self, buffer: &Buffer) -> Poly {
        let shape: Vec<PrimExpr> = buffer.shape.iter().map(|dim| self.extent(dim)).collect();
        Poly::product(&shape)
    }

    /// The operations of a statement, which runs `times` times.
    fn stmt(&mut self, stmt: &Stmt) -> Poly {
        match stmt {
            Stmt::BufferStore(it) => self.expr(&it.value),
            Stmt::For(it) => {
                let extent = self.extent(&it.extent);
                // The extents of inner loops may depend on this one: as if it were in its last iteration.
                let last = it.min.clone() + extent.clone() - 1;
                self.dims.vars.insert(it.loop_var.id(), last);
                let inner = self.times.times(&Poly::of(&extent));
                let outer = std::mem::replace(&mut self.times, inner);
                let flops = self.stmt(&it.body);
                self.times = outer;
                flops
            }
            Stmt::BlockRealize(it) => self.stmt(&it.block.body),
            Stmt::SeqStmt(stmts) => {
                let mut flops = Poly::default();
                for stmt in stmts.iter() {
                    flops.add(&self.stmt(stmt));
                }
                flops
            }
            Stmt::IfThenElse(it) => {
                let then = self.stmt(&it.then_case);
                let other = it.else_case.as_ref().map(|it| self.stmt(it)).unwrap_or_default();
                larger(then, other)
            }
            Stmt::While(it) => {
                self.cost.at_least = true;
                self.stmt(&it.body)
            }
            Stmt::Bind(it) => self.expr(&it.value),
            Stmt::Evaluate(it) => self.expr(&it.value),
            Stmt::AllocBuffer(_) | Stmt::DeclBuffer(_) | Stmt::AssertStmt(_) => Poly::default(),
        }
    }

    /// The operations of a value, which is computed `times` times.
    fn expr(&mut self, expr: &PrimExpr) -> Poly {
        match expr {
            PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => {
                Poly::default()
            }
            PrimExpr::Cast(it) => self.expr(&it.value),
            PrimExpr::Not(it) => self.expr(&it.value),
            PrimExpr::Binary(it) => {
                let operands = self.expr(&it.a).plus(&self.expr(&it.b));
                if it.op.is_arithmetic() && !is_index(expr) { operands.plus(&self.times) } else { operands }
            }
            PrimExpr::Select(it) => {
                let (yes, no) = (self.expr(&it.true_value), self.expr(&it.false_value));
                larger(yes, no)
            }
            PrimExpr::BufferLoad(it) => {
                self.loads.entry(it.buffer.id).or_default().add(&self.times);
                Poly::default()
            }
            PrimExpr::Ramp(_) => Poly::default(),
            PrimExpr::Broadcast(it) => self.expr(&it.value),
            PrimExpr::Shuffle(it) => {
                it.vectors.iter().fold(Poly::default(), |flops, vector| flops.plus(&self.expr(vector)))
            }
            PrimExpr::Let(it) => self.expr(&it.value).plus(&self.expr(&it.body)),
            PrimExpr::Call(it) => {
                let PrimCallee::Intrinsic(intrinsic) = &it.callee else {
                    let args = it.args.iter().fold(Poly::default(), |sum, arg| sum.plus(&self.expr(arg)));
                    return args.plus(&self.times);
                };
                if let (Intrinsic::IfThenElse, [_, yes, no]) = (intrinsic, &it.args[..]) {
                    let (yes, no) = (self.expr(yes), self.expr(no));
                    return larger(yes, no);
                }
                let args = it.args.iter().fold(Poly::default(), |sum, arg| sum.plus(&self.expr(arg)));
                let each = operations(*intrinsic);
                args.plus(&self.times.times(&Poly::number(each)))
            }
        }
    }
}

fn larger(a: Poly, b: Poly) -> Poly {
    if b.at(&Extents::new()) > a.at(&Extents::new()) { b } else { a }
}

/// True for values that are computed of indices and constants alone.
fn is_index(expr: &PrimExpr) -> bool {
    !expr.dtype().is_float() && !reads(expr)
}

/// True if an element of a buffer is read for the value.
fn reads(expr: &PrimExpr) -> bool {
    struct Reads(bool);
    impl tvm_core::tir::Visitor for Reads {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 |= matches!(expr, PrimExpr::BufferLoad(_));
            tvm_core::tir::walk_expr(self, expr);
        }
    }
    let mut found = Reads(false);
    tvm_core::tir::Visitor::visit_expr(&mut found, expr);
    found.0
}

/// The operations of an intrinsic.
fn operations(intrinsic: Intrinsic) -> i128 {
    match intrinsic.operands() {
        // Products of four bytes, or of two floats, and their sum.
        Operands::Words => 8,
        Operands::Pairs => 4,
        Operands::Floats if [Intrinsic::Fma, Intrinsic::FMulAdd].contains(&intrinsic) => 2,
        Operands::Floats | Operands::Numbers | Operands::Lanes | Operands::Scaled | Operands::Updated => 1,
        Operands::Bits
        | Operands::Test
        | Operands::SameSize
        | Operands::Choice
        | Operands::Condition
        | Operands::Element
        | Operands::Packed
        | Operands::Scope
        | Operands::Exchange => 0,
    }
}

#[cfg(test)]
mod tests {
    use tvm_core::ir::{TensorType, Var};
    use tvm_core::te;
    use tvm_runtime::DataType;

    use super::*;

    /// The cost of `func` with inputs of these shapes.
    fn cost_of(func: &PrimFunc, inputs: &[&[PrimExpr]], output: &[PrimExpr]) -> Cost {
        let tensor = |shape: &[PrimExpr]| Type::Tensor(TensorType::new(shape.to_vec(), DataType::F32));
        let inputs: Vec<Arg> = inputs.iter().map(|it| Arg::Var(Var::new("x", tensor(it)))).collect();
        cost(func, &inputs, &[tensor(output)], &IRModule::new(), &Extents::new())
    }

    #[test]
    fn products_cost_two_operations_a_term() {
        let (m, n) = (PrimExpr::from(Var::index("m")), PrimExpr::from(Var::index("n")));
        let eight = PrimExpr::index(8);
        let a = te::placeholder("a", vec![m.clone(), eight.clone()], DataType::F32);
        let b = te::placeholder("b", vec![eight.clone(), PrimExpr::index(16)], DataType::F32);
        let k = te::reduce_axis("k", 8);
        let c = te::compute("c", vec![m, PrimExpr::index(16)], &[&a, &b], |at: &[PrimExpr]| {
            te::sum(a.at([at[0].clone(), k.expr()]) * b.at([k.expr(), at[1].clone()]), &[&k])
        });
        let func = te::create_prim_func("f", &[a, b], &[c]).unwrap();
        let sixteen = PrimExpr::index(16);
        let found = cost_of(&func, &[&[n.clone(), eight.clone()], &[eight, sixteen.clone()]], &[n, sixteen]);
        // 2 * n * 16 * 8 operations; n * 8 + 8 * 16 + n * 16 elements of 4 bytes.
        assert_eq!(found.flops.to_string(), "256 * n");
        assert_eq!(found.bytes.to_string(), "96 * n + 512");
        assert!(!found.at_least);
    }
}
