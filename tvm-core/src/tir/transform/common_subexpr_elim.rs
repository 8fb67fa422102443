//! Computes equal expressions of consecutive statements once.
//!
//! Expressions that cost at least a function call, and that occur twice in statements that run one after the other, get a
//! variable before the first of them; in an arm of a choice, which may not be evaluated, they get a `let`. A load is
//! the same as another one if nothing between them writes to the buffer. So nothing is evaluated that was not evaluated before, and
//! nothing earlier than its first occurrence: what a condition guards stays behind it.
//!
//! Compilers find the same expressions, but only after each occurrence has become an expanded polynomial
//! ([`expand_math`](super::expand_math())) or a piece of C text: element-wise operators that use their argument twice, inlined into one
//! another, double with each of them.
//!
//! The order of the variables is that of the first occurrences.
//!
//! TVM counterpart: `CommonSubexprElim`.
//! Requires: flat buffers, no vectorized and unrolled loops.

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::DataType;

use super::util::{body_pass, is_no_value, with_parts};
use crate::arith::Memo;
use crate::ir::{BufferId, Var, VarId};
use crate::pass::Pass;
use crate::support::with_stack;
use crate::tir::analysis::{WORTH_A_NAME, own_weight};
use crate::tir::{
    AssertStmt, BinaryOp, Bind, Evaluate, IntImm, Intrinsic, Let, Mutator, PrimCallee, PrimExpr, Stmt,
};

/// Computes equal expressions of consecutive statements once.
pub fn common_subexpr_elim() -> Pass {
    body_pass("CommonSubexprElim", |func| CommonSubexprElim.mutate_stmt(&func.body))
}

struct CommonSubexprElim;

impl Mutator for CommonSubexprElim {
    fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
        None
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::SeqStmt(stmts) => self.sequence(stmts),
            Stmt::BufferStore(_) | Stmt::Evaluate(_) | Stmt::AssertStmt(_) => {
                self.sequence(std::slice::from_ref(stmt))
            }
            Stmt::For(_)
            | Stmt::BlockRealize(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_) => self.walk_stmt(stmt),
        }
    }
}

impl CommonSubexprElim {
    fn sequence(&mut self, stmts: &[Stmt]) -> Option<Stmt> {
        let (mut out, mut run, mut changed) = (Vec::new(), Vec::new(), false);
        for stmt in stmts {
            if is_simple(stmt) {
                run.push(stmt);
                continue;
            }
            changed |= Run::rewrite(&std::mem::take(&mut run), &mut out);
            let new = self.mutate_stmt(stmt);
            changed |= new.is_some();
            out.push(new.unwrap_or_else(|| stmt.clone()));
        }
        changed |= Run::rewrite(&run, &mut out);
        changed.then(|| Stmt::seq(out))
    }
}

/// True for statements that run no others, and that change no memory behind the back of the program.
fn is_simple(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::BufferStore(_)
        | Stmt::Bind(_)
        | Stmt::AllocBuffer(_)
        | Stmt::DeclBuffer(_)
        | Stmt::AssertStmt(_) => true,
        Stmt::Evaluate(it) => match &it.value {
            PrimExpr::Call(call) => !matches!(call.callee, PrimCallee::Intrinsic(Intrinsic::StorageSync)),
            _ => true,
        },
        Stmt::For(_) | Stmt::BlockRealize(_) | Stmt::SeqStmt(_) | Stmt::IfThenElse(_) | Stmt::While(_) => {
            false
        }
    }
}

/// What an expression is, beside its operands.
#[derive(PartialEq, Eq, Hash)]
enum Kind {
    Int(IntImm),
    Float(u64, DataType),
    Var(VarId),
    Cast(DataType),
    Not,
    Binary(BinaryOp),
    Select,
    /// With the number of writes to the buffer so far, and of the operands that are indices.
    Load(BufferId, u32, usize),
    Ramp(u16),
    Broadcast(u16),
    Shuffle(std::sync::Arc<[u16]>),
    Intrinsic(Intrinsic, DataType),
    Extern(std::sync::Arc<str>, DataType),
    /// Equal to itself only.
    Unique(usize),
}

/// The number of an expression: equal ones have the same.
type Number = usize;

/// Names and uses in a scope: the statements, or an arm of a choice.
#[derive(Default)]
struct Scope {
    /// How many different expressions of the scope have this one as an operand, or are it.
    uses: FxHashMap<Number, u32>,
    vars: FxHashMap<Number, Var>,
    /// The variables that are not placed yet, with their values.
    new: Vec<(Var, PrimExpr)>,
    /// What may not be evaluated, in the expressions that were counted last.
    arms: Vec<PrimExpr>,
}

/// Statements that run one after the other.
#[derive(Default)]
struct Run {
    numbers: FxHashMap<(Kind, Vec<Number>), Number>,
    weights: Vec<u32>,
    /// The numbers of the expressions since the last write.
    memo: Memo<Number>,
    /// How often a buffer was written so far.
    writes: FxHashMap<BufferId, u32>,
    scopes: Vec<Scope>,
}

impl Run {
    /// Adds `stmts` to `out`, with names for equal expressions; false if there are none.
    fn rewrite(stmts: &[&Stmt], out: &mut Vec<Stmt>) -> bool {
        let mut run = Run { scopes: vec![Scope::default()], ..Run::default() };
        for stmt in stmts {
            each_root(stmt, &mut |root| run.count(root));
            run.count_arms();
            run.written(stmt);
        }
        run.writes.clear();
        run.memo = Memo::default();
        let mut changed = false;
        for stmt in stmts {
            let new = run.statement(stmt);
            changed |= new.is_some();
            let bind = |(var, value)| Bind { var, value }.into();
            out.extend(std::mem::take(&mut run.scopes[0].new).into_iter().map(bind));
            out.push(new.unwrap_or_else(|| (*stmt).clone()));
            run.written(stmt);
        }
        changed
    }

    fn written(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(it) = stmt {
            *self.writes.entry(it.buffer.id).or_default() += 1;
            self.memo = Memo::default();
        }
    }

    fn statement(&mut self, stmt: &Stmt) -> Option<Stmt> {
        match stmt {
            Stmt::BufferStore(it) => {
                let indices = self.mutate_exprs(&it.indices);
                let predicate = it.predicate.as_ref().and_then(|it| self.mutate_expr(it));
                let value = self.mutate_expr(&it.value);
                with_parts(it, indices, value, predicate).map(Stmt::from)
            }
            Stmt::Bind(it) => {
                let value = self.mutate_expr(&it.value)?;
                Some(Bind { var: it.var.clone(), value }.into())
            }
            Stmt::Evaluate(it) => Some(Evaluate { value: self.mutate_expr(&it.value)? }.into()),
            Stmt::AssertStmt(it) => {
                let condition = self.mutate_expr(&it.condition)?;
                Some(AssertStmt { condition, failure: it.failure.clone() }.into())
            }
            Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::For(_)
            | Stmt::BlockRealize(_)
            | Stmt::SeqStmt(_)
            | Stmt::IfThenElse(_)
            | Stmt::While(_) => None,
        }
    }

    /// The number of `expr`.
    fn number(&mut self, expr: &PrimExpr) -> Number {
        self.memo.get(expr).unwrap_or_else(|| {
            let number = with_stack(|| self.new_number(expr));
            self.memo.insert(expr, number);
            number
        })
    }

    fn new_number(&mut self, expr: &PrimExpr) -> Number {
        let mut parts = Vec::new();
        let kind = match expr {
            PrimExpr::IntImm(it) => Kind::Int(*it),
            PrimExpr::FloatImm(it) => Kind::Float(it.value.to_bits(), it.dtype),
            PrimExpr::Var(it) => Kind::Var(it.id()),
            PrimExpr::Cast(it) => {
                parts.push(self.number(&it.value));
                Kind::Cast(it.dtype)
            }
            PrimExpr::Not(it) => {
                parts.push(self.number(&it.value));
                Kind::Not
            }
            PrimExpr::Binary(it) => {
                parts.extend([&it.a, &it.b].map(|it| self.number(it)));
                Kind::Binary(it.op)
            }
            PrimExpr::Select(it) => {
                parts.extend([&it.condition, &it.true_value, &it.false_value].map(|it| self.number(it)));
                Kind::Select
            }
            PrimExpr::BufferLoad(it) => {
                parts.extend(it.indices.iter().chain(&it.predicate).map(|it| self.number(it)));
                let writes = self.writes.get(&it.buffer.id).copied().unwrap_or_default();
                Kind::Load(it.buffer.id, writes, it.indices.len())
            }
            PrimExpr::Ramp(it) => {
                parts.extend([&it.base, &it.stride].map(|it| self.number(it)));
                Kind::Ramp(it.lanes)
            }
            PrimExpr::Broadcast(it) => {
                parts.push(self.number(&it.value));
                Kind::Broadcast(it.lanes)
            }
            PrimExpr::Shuffle(it) => {
                parts.extend(it.vectors.iter().map(|it| self.number(it)));
                Kind::Shuffle(it.indices.clone())
            }
            PrimExpr::Call(it) if !is_no_value(it) => {
                parts.extend(it.args.iter().map(|it| self.number(it)));
                match &it.callee {
                    PrimCallee::Intrinsic(intrinsic) => Kind::Intrinsic(*intrinsic, it.dtype),
                    PrimCallee::PureExtern(name) => Kind::Extern(name.clone(), it.dtype),
                }
            }
            PrimExpr::StringImm(_) | PrimExpr::Let(_) | PrimExpr::Call(_) => Kind::Unique(self.weights.len()),
        };
        let weight = parts.iter().fold(own_weight(expr), |sum, &part| sum.saturating_add(self.weights[part]));
        *self.numbers.entry((kind, parts)).or_insert_with(|| {
            self.weights.push(weight);
            self.weights.len() - 1
        })
    }

    /// Counts `expr`, which is evaluated in the innermost scope; its operands when it occurs for the first time.
    fn count(&mut self, expr: &PrimExpr) {
        let number = self.number(expr);
        if self.known(number).is_some() {
            return;
        }
        let Some(scope) = self.scopes.last_mut() else { return };
        let uses = scope.uses.entry(number).or_default();
        *uses += 1;
        if *uses == 1 || of_scalars(expr) {
            each_arm(expr, &mut |arm| scope.arms.push(arm.clone()));
            with_stack(|| each_operand(expr, &mut |operand| self.count(operand)));
        }
    }

    /// Counts what occurs in arms, and is evaluated in the scope around them in any case.
    fn count_arms(&mut self) {
        let Some(mut open) = self.scopes.last_mut().map(|scope| std::mem::take(&mut scope.arms)) else {
            return;
        };
        let mut seen = FxHashSet::default();
        while let Some(expr) = open.pop() {
            let number = self.number(&expr);
            let uses = self.scopes.last_mut().and_then(|scope| scope.uses.get_mut(&number));
            if let Some(uses) = uses {
                *uses += 1;
            } else if seen.insert(number) {
                each_operand(&expr, &mut |operand| open.push(operand.clone()));
                each_arm(&expr, &mut |arm| open.push(arm.clone()));
            }
        }
    }

    /// The variable that holds the value of the expression with this number.
    fn known(&self, number: Number) -> Option<&Var> {
        self.scopes.iter().rev().find_map(|scope| scope.vars.get(&number))
    }

    /// `expr`, which may not be evaluated, with names of its own.
    fn arm(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        self.scopes.push(Scope::default());
        self.count(expr);
        self.count_arms();
        let new = self.mutate_expr(expr);
        let scope = self.scopes.pop().unwrap_or_default();
        let body = new?;
        let lets = scope.new.into_iter().rev();
        Some(lets.fold(body, |body, (var, value)| PrimExpr::Let(Let { var, value, body }.into())))
    }

    fn rewritten(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::Let(it) => {
                let (value, body) = (self.mutate_expr(&it.value), self.arm(&it.body));
                if value.is_none() && body.is_none() {
                    return None;
                }
                let (value, body) = (value.unwrap_or(it.value.clone()), body.unwrap_or(it.body.clone()));
                Some(PrimExpr::Let(Let { var: it.var.clone(), value, body }.into()))
            }
            PrimExpr::Call(it) if is_no_value(it) => None,
            PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
                let mut new = None;
                for (i, arg) in it.args.iter().enumerate() {
                    let arg = if i == 0 { self.mutate_expr(arg) } else { self.arm(arg) };
                    if let Some(arg) = arg {
                        new.get_or_insert_with(|| it.args.to_vec())[i] = arg;
                    }
                }
                Some(PrimExpr::Call(it.with_args(new?).into()))
            }
            PrimExpr::IntImm(_)
            | PrimExpr::FloatImm(_)
            | PrimExpr::StringImm(_)
            | PrimExpr::Var(_)
            | PrimExpr::Cast(_)
            | PrimExpr::Not(_)
            | PrimExpr::Binary(_)
            | PrimExpr::Select(_)
            | PrimExpr::BufferLoad(_)
            | PrimExpr::Ramp(_)
            | PrimExpr::Broadcast(_)
            | PrimExpr::Shuffle(_)
            | PrimExpr::Call(_) => self.walk_expr(expr),
        }
    }
}

impl Mutator for Run {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        let number = self.number(expr);
        if let Some(var) = self.known(number) {
            return Some(var.into());
        }
        let new = self.rewritten(expr);
        let scope = self.scopes.last_mut()?;
        let again = scope.uses.get(&number).is_some_and(|uses| *uses > 1);
        if !again || of_scalars(expr) || self.weights[number] < WORTH_A_NAME || expr.dtype().is_bool() {
            return new;
        }
        let var = Var::prim("common", expr.dtype());
        scope.new.push((var.clone(), new.unwrap_or_else(|| expr.clone())));
        scope.vars.insert(number, var.clone());
        Some(var.into())
    }
}

/// True for vectors that are made of scalars, which get the names: the place of a contiguous access stays a ramp.
fn of_scalars(expr: &PrimExpr) -> bool {
    matches!(expr, PrimExpr::Broadcast(_) | PrimExpr::Ramp(_))
}

/// Calls `f` with the expressions of a simple statement, in the order in which they are evaluated.
fn each_root(stmt: &Stmt, f: &mut dyn FnMut(&PrimExpr)) {
    match stmt {
        Stmt::BufferStore(it) => it.indices.iter().chain(&it.predicate).chain([&it.value]).for_each(f),
        Stmt::Bind(it) => f(&it.value),
        Stmt::Evaluate(it) => f(&it.value),
        Stmt::AssertStmt(it) => f(&it.condition),
        Stmt::AllocBuffer(_)
        | Stmt::DeclBuffer(_)
        | Stmt::For(_)
        | Stmt::BlockRealize(_)
        | Stmt::SeqStmt(_)
        | Stmt::IfThenElse(_)
        | Stmt::While(_) => {}
    }
}

/// Calls `f` with the operands of `expr` that are evaluated whenever it is.
fn each_operand(expr: &PrimExpr, f: &mut dyn FnMut(&PrimExpr)) {
    match expr {
        PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::StringImm(_) | PrimExpr::Var(_) => {}
        PrimExpr::Cast(it) => f(&it.value),
        PrimExpr::Not(it) => f(&it.value),
        PrimExpr::Binary(it) => [&it.a, &it.b].into_iter().for_each(f),
        PrimExpr::Select(it) => [&it.condition, &it.true_value, &it.false_value].into_iter().for_each(f),
        PrimExpr::BufferLoad(it) => it.indices.iter().chain(&it.predicate).for_each(f),
        PrimExpr::Ramp(it) => [&it.base, &it.stride].into_iter().for_each(f),
        PrimExpr::Broadcast(it) => f(&it.value),
        PrimExpr::Shuffle(it) => it.vectors.iter().for_each(f),
        PrimExpr::Let(it) => f(&it.value),
        PrimExpr::Call(it) if is_no_value(it) => {}
        PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
            it.args.iter().take(1).for_each(f);
        }
        PrimExpr::Call(it) => it.args.iter().for_each(f),
    }
}

/// Calls `f` with the operands of `expr` that may not be evaluated, or not outside of it.
fn each_arm(expr: &PrimExpr, f: &mut dyn FnMut(&PrimExpr)) {
    match expr {
        PrimExpr::Let(it) => f(&it.body),
        PrimExpr::Call(it) if it.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse) => {
            it.args.iter().skip(1).for_each(f);
        }
        PrimExpr::IntImm(_)
        | PrimExpr::FloatImm(_)
        | PrimExpr::StringImm(_)
        | PrimExpr::Var(_)
        | PrimExpr::Cast(_)
        | PrimExpr::Not(_)
        | PrimExpr::Binary(_)
        | PrimExpr::Select(_)
        | PrimExpr::BufferLoad(_)
        | PrimExpr::Ramp(_)
        | PrimExpr::Broadcast(_)
        | PrimExpr::Shuffle(_)
        | PrimExpr::Call(_) => {}
    }
}

#[cfg(test)]
mod tests;
