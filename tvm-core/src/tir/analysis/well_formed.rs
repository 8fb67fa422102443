//! Well-formedness of tensor programs: rules W3 to W5, W7 to W9, W15 to W17 (`docs/guide/src/tir.md`), beside the scope rules.
//!
//! TVM counterpart: `VerifyWellFormed`.

use rustc_hash::{FxHashMap, FxHashSet};
use tvm_runtime::DataType;

use super::init_nest::Mentions;
use super::{holds_blocks, reads_memory};
use crate::ir::well_formed::{Report, Scopes};
use crate::ir::{BufferId, IrError, Span};
use crate::tir::*;

/// Checks one tensor program.
///
/// # Errors
/// Lists what is wrong, with the numbers of the violated rules.
pub fn well_formed(func: &PrimFunc) -> Result<(), IrError> {
    let mut report = Report::default();
    Scopes::default().check(func.into(), &mut report);
    check_rules(func, &mut report);
    report.finish()
}

pub(crate) fn check_rules(func: &PrimFunc, report: &mut Report) {
    let mut rules = Rules::new(&func.span, report);
    for param in func.params.iter() {
        if let Some(buffer) = param.buffer() {
            rules.buffer(buffer);
        }
        if let Param::In(buffer) = param {
            rules.read_only.insert(buffer.id, buffer.clone());
        }
    }
    rules.visit_stmt(&func.body);
}

/// Checks the rules for an expression outside of tensor programs: an extent or scalar of a graph.
pub(crate) fn check_expr(expr: &PrimExpr, span: &Span, report: &mut Report) {
    Rules::new(span, report).visit_expr(expr);
}

struct Rules<'a> {
    report: &'a mut Report,
    span: Span,
    blocks: FxHashSet<std::sync::Arc<str>>,
    /// The parameters that must not be written, by the buffers that name them or regions of them.
    read_only: FxHashMap<BufferId, Buffer>,
}

impl<'a> Rules<'a> {
    fn new(span: &Span, report: &'a mut Report) -> Rules<'a> {
        let (blocks, read_only) = (FxHashSet::default(), FxHashMap::default());
        Rules { report, span: span.clone(), blocks, read_only }
    }

    fn fail(&mut self, rule: &str, message: String) {
        self.report.add(rule, message, &self.span);
    }

    fn expect(&mut self, what: &str, expr: &PrimExpr, want: DataType) {
        let got = expr.dtype();
        if got != want {
            self.fail("W3", format!("{what} is {got}, expected {want}"));
        }
    }

    fn index(&mut self, what: &str, expr: &PrimExpr) {
        self.expect(what, expr, DataType::I64);
    }

    fn range(&mut self, what: &str, range: &Range) {
        self.index(what, &range.min);
        self.index(what, &range.extent);
    }

    fn buffer(&mut self, buffer: &Buffer) {
        let name = &buffer.name;
        for expr in buffer.shape.iter().chain(buffer.strides.iter()).chain(&buffer.elem_offset) {
            self.index(&format!("shape of buffer `{name}`"), expr);
            self.visit_expr(expr);
        }
        for expr in buffer.shape.iter().chain(buffer.strides.iter()).chain(&buffer.elem_offset) {
            if expr.as_int().is_some_and(|value| value < 0) {
                self.fail("W15", format!("buffer `{name}` has a negative extent, stride or offset"));
            }
            if any_expr(expr, &mut |it| matches!(it, PrimExpr::BufferLoad(_))) {
                self.fail("W15", format!("an extent, stride or offset of buffer `{name}` reads memory"));
            }
        }
        let (strides, ndim) = (buffer.strides.len(), buffer.ndim());
        if strides != 0 && strides != ndim {
            self.fail("W4", format!("buffer `{name}` has {ndim} dimensions and {strides} strides"));
        }
    }

    fn access(&mut self, buffer: &Buffer, indices: &[PrimExpr]) {
        let (name, ndim) = (&buffer.name, buffer.ndim());
        if indices.len() != ndim {
            self.fail(
                "W4",
                format!("buffer `{name}` has {ndim} dimensions, accessed with {} indices", indices.len()),
            );
        }
        for (i, index) in indices.iter().enumerate() {
            let lanes = if i + 1 == indices.len() { index.dtype().lanes() } else { 1 };
            self.expect(&format!("index {i} of buffer `{name}`"), index, DataType::I64.with_lanes(lanes));
        }
    }

    /// A predicate has a bool for each lane of an access to a vector of scalars.
    fn predicate(&mut self, predicate: &Option<PrimExpr>, buffer: &Buffer, indices: &[PrimExpr]) {
        let Some(predicate) = predicate else { return };
        let lanes = indices.last().map_or(1, |index| index.dtype().lanes());
        if lanes == 1 || buffer.dtype.lanes() != 1 {
            let message = format!("an access to `{}` has a predicate, and is no vector", buffer.name);
            return self.fail("W3", message);
        }
        let what = format!("predicate of an access to `{}`", buffer.name);
        self.expect(&what, predicate, DataType::BOOL.with_lanes(lanes));
    }

    fn region(&mut self, region: &BufferRegion) {
        let (name, ndim) = (&region.buffer.name, region.buffer.ndim());
        if region.region.len() != ndim {
            let got = region.region.len();
            self.fail("W4", format!("buffer `{name}` has {ndim} dimensions, its region has {got}"));
        }
        for range in region.region.iter() {
            self.range(&format!("region of buffer `{name}`"), range);
        }
    }

    /// W15: checks that `buffer` may name the region `source`. It has the same type and scope, and its dimensions have
    /// the extents of the last ranges of the region; the ranges before these have extent 1.
    fn view(&mut self, buffer: &Buffer, source: &BufferRegion) {
        let (name, of) = (&buffer.name, &source.buffer);
        if (buffer.dtype, buffer.scope) != (of.dtype, of.scope) {
            let (dtype, scope) = (of.dtype, of.scope.name());
            self.fail(
                "W15",
                format!("`{name}` names a region of `{}`, which is {dtype} in {scope}", of.name),
            );
        }
        if source.region.iter().any(|range| reads_memory(&range.min) || reads_memory(&range.extent)) {
            self.fail("W15", format!("a bound of the region that `{name}` names reads memory"));
        }
        let Some(hidden) = source.region.len().checked_sub(buffer.ndim()) else {
            let (got, most) = (buffer.ndim(), source.region.len());
            return self.fail("W15", format!("`{name}` has {got} dimensions, its region has {most}"));
        };
        let ones = source.region[..hidden].iter().map(|range| (&range.extent, 1));
        let extents = source.region[hidden..].iter().zip(buffer.shape.iter());
        let extents = extents.filter_map(|(range, extent)| Some((&range.extent, extent.as_int()?)));
        for (got, want) in ones.chain(extents).filter_map(|(got, want)| Some((got.as_int()?, want))) {
            if got != want {
                self.fail(
                    "W15",
                    format!("an extent of the region that `{name}` names is {got}, expected {want}"),
                );
            }
        }
    }

    fn written(&mut self, buffer: &Buffer) {
        if let Some(param) = self.read_only.get(&buffer.id) {
            let message = format!("parameter `{}` is written but declared as read only", param.name);
            self.fail("W7", message);
        }
    }

    fn binary(&mut self, it: &Binary) {
        let (a, b, op) = (it.a.dtype(), it.b.dtype(), it.op);
        if a != b {
            return self.fail("W3", format!("operands of {} are {a} and {b}", op.name()));
        }
        let fits = match op {
            BinaryOp::And | BinaryOp::Or => a.is_bool(),
            BinaryOp::FloorDiv | BinaryOp::FloorMod | BinaryOp::Shl | BinaryOp::Shr => a.is_integer(),
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => a.is_integer() || a.is_bool(),
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => {
                a.is_integer() || a.is_float()
            }
            BinaryOp::Min | BinaryOp::Max => a.is_integer() || a.is_float() || a.is_bool(),
            BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge => true,
        };
        if !fits {
            self.fail("W3", format!("{} does not take {a}", op.name()));
        }
    }

    fn call(&mut self, it: &PrimCall) {
        let PrimCallee::Intrinsic(intrinsic) = it.callee else { return };
        let (name, want, got) = (intrinsic.name(), intrinsic.arity(), it.args.len());
        if want != got {
            return self.fail("W3", format!("`{name}` takes {want} arguments, got {got}"));
        }
        if let Some(expected) = intrinsic.operands().misfit(&it.args, it.dtype) {
            let types: Vec<String> = it.args.iter().map(|arg| arg.dtype().to_string()).collect();
            let types = types.join(", ");
            self.fail("W3", format!("`{name}` takes {expected}, got ({types}) for {}", it.dtype));
        }
    }

    fn vector(&mut self, expr: &PrimExpr) {
        let scalar = |it: &PrimExpr| it.dtype().lanes() == 1;
        let fits = match expr {
            PrimExpr::Ramp(it) => {
                scalar(&it.base)
                    && it.base.dtype() == it.stride.dtype()
                    && it.base.dtype().is_integer()
                    && it.lanes > 1
            }
            PrimExpr::Broadcast(it) => scalar(&it.value) && it.lanes > 1,
            PrimExpr::Shuffle(it) => {
                let total: usize = it.vectors.iter().map(|vector| usize::from(vector.dtype().lanes())).sum();
                let element = it.vectors.first().map(|vector| vector.dtype().scalar());
                it.vectors.iter().all(|vector| Some(vector.dtype().scalar()) == element)
                    && it.indices.iter().all(|&index| usize::from(index) < total)
                    && !it.indices.is_empty()
            }
            _ => true,
        };
        if !fits {
            self.fail("W3", "operands of a vector expression do not fit".to_string());
        }
    }
}

impl Visitor for Rules<'_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        match expr {
            PrimExpr::IntImm(it) => {
                let scalar = (it.dtype.is_integer() || it.dtype.is_bool()) && it.dtype.lanes() == 1;
                if !scalar || wrap_int(it.value.into(), it.dtype) != it.value {
                    self.fail("W3", format!("the constant {} is no value of {}", it.value, it.dtype));
                }
            }
            PrimExpr::FloatImm(it) => {
                if !it.dtype.is_float() || it.dtype.lanes() != 1 {
                    self.fail("W3", format!("the constant {:?} is no value of {}", it.value, it.dtype));
                }
            }
            PrimExpr::StringImm(_) => {}
            PrimExpr::Var(it) => {
                if !matches!(it.ty(), crate::ir::Type::Prim(_)) {
                    self.fail("W3", format!("variable `{}` is no scalar", it.name()));
                }
            }
            PrimExpr::Cast(it) => {
                let (from, to) = (it.value.dtype().lanes(), it.dtype.lanes());
                if from != to {
                    self.fail("W3", format!("a cast from {from} lanes to {to}"));
                }
            }
            PrimExpr::Not(it) => {
                let lanes = it.value.dtype().lanes();
                self.expect("operand of Not", &it.value, DataType::BOOL.with_lanes(lanes));
            }
            PrimExpr::Binary(it) => self.binary(it),
            PrimExpr::Select(it) => {
                let (a, b) = (it.true_value.dtype(), it.false_value.dtype());
                if a != b {
                    self.fail("W3", format!("arms of Select are {a} and {b}"));
                }
                let lanes = if it.condition.dtype().lanes() == 1 { 1 } else { a.lanes() };
                self.expect("condition of Select", &it.condition, DataType::BOOL.with_lanes(lanes));
            }
            PrimExpr::BufferLoad(it) => {
                let outer = self.enter(&it.span);
                self.access(&it.buffer, &it.indices);
                self.predicate(&it.predicate, &it.buffer, &it.indices);
                walk_expr(self, expr);
                self.span = outer;
                return;
            }
            PrimExpr::Ramp(_) | PrimExpr::Broadcast(_) | PrimExpr::Shuffle(_) => self.vector(expr),
            PrimExpr::Let(it) => {
                self.expect(&format!("value of `{}`", it.var.name()), &it.value, it.var.dtype())
            }
            PrimExpr::Call(it) => {
                let outer = self.enter(&it.span);
                self.call(it);
                walk_expr(self, expr);
                self.span = outer;
                return;
            }
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        let outer = self.span.clone();
        match stmt {
            Stmt::BufferStore(it) => {
                self.enter(&it.span);
                self.access(&it.buffer, &it.indices);
                self.predicate(&it.predicate, &it.buffer, &it.indices);
                self.written(&it.buffer);
                let lanes = it.indices.last().map_or(1, |index| index.dtype().lanes());
                let want = it.buffer.dtype.with_lanes(lanes * it.buffer.dtype.lanes());
                self.expect(&format!("value stored in buffer `{}`", it.buffer.name), &it.value, want);
            }
            Stmt::For(it) => {
                self.enter(&it.span);
                for (what, expr) in
                    [("variable", &it.loop_var.clone().into()), ("start", &it.min), ("extent", &it.extent)]
                {
                    self.index(&format!("{what} of loop `{}`", it.loop_var.name()), expr);
                }
                if let (Some(min), Some(extent)) = (it.min.as_int(), it.extent.as_int())
                    && min.checked_add(extent).is_none()
                {
                    let message = format!("the end of loop `{}` does not fit an i64", it.loop_var.name());
                    self.fail("W3", message);
                }
            }
            Stmt::BlockRealize(it) => {
                self.enter(&it.block.span);
                let (name, axes, values) = (&it.block.name, it.block.iter_vars.len(), it.iter_values.len());
                if axes != values {
                    self.fail("W5", format!("block `{name}` has {axes} axes and {values} values for them"));
                }
                for value in it.iter_values.iter() {
                    self.index(&format!("value of an axis of block `{name}`"), value);
                }
                self.expect(&format!("predicate of block `{name}`"), &it.predicate, DataType::BOOL);
            }
            Stmt::SeqStmt(it) => {
                if it.iter().any(|stmt| matches!(stmt, Stmt::SeqStmt(_))) {
                    self.fail("W8", "a sequence directly inside a sequence".to_string());
                }
            }
            Stmt::IfThenElse(it) => {
                self.enter(&it.span);
                self.expect("condition of if", &it.condition, DataType::BOOL);
            }
            Stmt::While(it) => {
                self.enter(&it.span);
                self.expect("condition of while", &it.condition, DataType::BOOL);
            }
            Stmt::Bind(it) => {
                self.expect(&format!("value of `{}`", it.var.name()), &it.value, it.var.dtype())
            }
            Stmt::AllocBuffer(it) => self.buffer(&it.buffer),
            Stmt::DeclBuffer(it) => {
                self.buffer(&it.buffer);
                self.expect(&format!("data of buffer `{}`", it.buffer.name), &it.data, DataType::HANDLE);
            }
            Stmt::Evaluate(_) => {}
            Stmt::AssertStmt(it) => {
                self.expect("condition of assert", &it.condition, DataType::BOOL);
                self.index("expected value of assert", &it.failure.expected);
                self.index("found value of assert", &it.failure.got);
            }
        }
        walk_stmt(self, stmt);
        self.span = outer;
    }

    fn visit_block(&mut self, block: &Block) {
        let name = &block.name;
        if !self.blocks.insert(name.clone()) {
            self.fail("W5", format!("two blocks are named `{name}`"));
        }
        for iter in block.iter_vars.iter() {
            self.index(&format!("axis `{}` of block `{name}`", iter.var.name()), &iter.var.clone().into());
            self.range(&format!("domain of axis `{}`", iter.var.name()), &iter.dom);
        }
        block.alloc_buffers.iter().for_each(|buffer| self.buffer(buffer));
        for it in block.match_buffers.iter() {
            self.buffer(&it.buffer);
            self.region(&it.source);
            self.view(&it.buffer, &it.source);
            if let Some(param) = self.read_only.get(&it.source.buffer.id) {
                self.read_only.insert(it.buffer.id, param.clone());
            }
        }
        if let Some(matched) = block.match_buffers.first().filter(|_| holds_blocks(&block.body)) {
            let view = &matched.buffer.name;
            self.fail("W17", format!("block `{name}` matches `{view}` to a region, and contains blocks"));
        }
        if let Some(axis) = init_axis(block) {
            self.fail(
                "W16",
                format!("the init of block `{name}` depends on its reduce axis `{}`", axis.name()),
            );
        }
        self.scope(block, &block.body, None);
        block.reads.iter().for_each(|region| self.region(region));
        for region in block.writes.iter() {
            self.region(region);
            self.written(&region.buffer);
        }
        walk_block(self, block);
    }
}

impl Rules<'_> {
    /// W9: checks the statements between `block` and the blocks directly inside it. `under` describes the innermost of
    /// them that is not a loop or sequence.
    fn scope(&mut self, block: &Block, stmt: &Stmt, under: Option<&str>) {
        let name = &block.name;
        match stmt {
            Stmt::BlockRealize(it) => {
                let child = &it.block.name;
                if let Some(under) = under {
                    self.fail(
                        "W9",
                        format!("{under} stands between block `{name}` and block `{child}` inside it"),
                    );
                }
                it.iter_values.iter().chain([&it.predicate]).for_each(|expr| self.declared(block, expr));
            }
            Stmt::For(it) if holds_blocks(&it.body) => {
                [&it.min, &it.extent].into_iter().for_each(|expr| self.declared(block, expr));
                self.scope(block, &it.body, under);
            }
            Stmt::SeqStmt(stmts) => stmts.iter().for_each(|stmt| self.scope(block, stmt, under)),
            Stmt::IfThenElse(it) => {
                let cases = [&it.then_case].into_iter().chain(&it.else_case);
                cases.for_each(|stmt| self.scope(block, stmt, Some("a condition")));
            }
            Stmt::While(it) => self.scope(block, &it.body, Some("a `while` loop")),
            Stmt::For(_)
            | Stmt::BufferStore(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => {}
        }
    }

    /// W9: checks that `block` declares that it reads the buffers that `expr` loads, and does not write them.
    fn declared(&mut self, block: &Block, expr: &PrimExpr) {
        any_expr(expr, &mut |it| {
            if let PrimExpr::BufferLoad(load) = it {
                let among = |regions: &[BufferRegion]| regions.iter().any(|it| it.buffer == load.buffer);
                if !among(&block.reads) || among(&block.writes) {
                    let (name, buffer) = (&block.name, &load.buffer.name);
                    self.fail(
                        "W9",
                        format!("a loop or block directly inside block `{name}` depends on `{buffer}`, which `{name}` does not declare as read only"),
                    );
                }
            }
            false
        });
    }

    /// Makes `span` the current span if it is a place; returns the previous span.
    fn enter(&mut self, span: &Span) -> Span {
        let outer = self.span.clone();
        if !span.is_none() {
            self.span = span.clone();
        }
        outer
    }
}

/// A reduction axis that the init of `block` depends on, also through the regions of its matched buffers.
fn init_axis(block: &Block) -> Option<crate::ir::Var> {
    let mut uses = Mentions::default();
    uses.visit_stmt(block.init.as_ref()?);
    // A matched buffer may name a region of one that was matched before it.
    for matched in block.match_buffers.iter().rev() {
        if uses.buffers.contains(&matched.buffer.id) {
            uses.buffers.insert(matched.source.buffer.id);
            let bounds = matched.source.region.iter().flat_map(|range| [&range.min, &range.extent]);
            bounds.for_each(|bound| uses.visit_expr(bound));
        }
    }
    let mut reduce = block.iter_vars.iter().filter(|iter| iter.kind == IterKind::Reduce);
    reduce.find(|iter| uses.vars.contains(&iter.var.id())).map(|iter| iter.var.clone())
}
