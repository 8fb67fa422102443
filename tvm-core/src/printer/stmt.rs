//! Printing statements of tensor programs.

use super::Printer;
use super::expr::{Class, Prec};
use super::module::attrs_arg;
use crate::ir::structural::structural_equal;
use crate::ir::{AttrValue, Attrs};
use crate::tir::analysis::{extent_between, range_of};
use crate::tir::*;
use tvm_runtime::abi::Status;

impl Printer {
    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        crate::support::with_stack(|| match stmt {
            Stmt::BufferStore(it) => self.store(it),
            Stmt::For(it) => self.loops(it),
            Stmt::BlockRealize(it) => self.block(it),
            Stmt::SeqStmt(it) => it.iter().for_each(|stmt| self.stmt(stmt)),
            Stmt::IfThenElse(it) => {
                if it.condition.as_int().is_some() {
                    self.unsayable("a branch on a constant");
                }
                let condition = self.value(&it.condition);
                match &it.else_case {
                    None => self.braces(&format!("if {condition}"), "", |p| p.stmt(&it.then_case)),
                    Some(else_case) => {
                        self.line(format!("if {condition} {{"));
                        self.scope(|p| p.stmt(&it.then_case));
                        self.braces("} else", "", |p| p.stmt(else_case));
                    }
                }
            }
            Stmt::While(it) => {
                let head = format!("while {}", self.value(&it.condition));
                self.braces(&head, "", |p| p.stmt(&it.body));
            }
            Stmt::Bind(it) => {
                let class = self.class(&it.value);
                let value = self.typed_operand(&it.value, class, Prec::None);
                let name = match class {
                    Class::Index => self.name_index(&it.var),
                    Class::Number => self.names.define(&it.var),
                };
                // Without `bind`, a variable or literal on the right would not create a new variable of the program.
                let atom = matches!(it.value, PrimExpr::IntImm(_) | PrimExpr::FloatImm(_) | PrimExpr::Var(_));
                let value = if atom { format!("bind({value})") } else { value };
                self.line(format!("let {name} = {value};"));
            }
            Stmt::AllocBuffer(it) => {
                self.attrs(&it.annotations);
                self.alloc(&it.buffer);
            }
            Stmt::DeclBuffer(it) => {
                let data = self.any_expr(&it.data);
                let shape = self.indices(&it.buffer.shape);
                let name = self.names.define_buffer(&it.buffer);
                self.line(format!("let {name} = decl_buffer::<{}>([{shape}], {data});", it.buffer.dtype));
            }
            Stmt::Evaluate(it) => {
                let value = self.any_expr(&it.value);
                self.line(format!("{value};"));
            }
            Stmt::AssertStmt(it) => {
                let condition = self.value(&it.condition);
                let Failure { status, arg, axis, expected, got, what, span: _ } = &it.failure;
                if is_assertion(&it.failure) {
                    // As in Rust, braces in a message are doubled.
                    let message = what.replace('{', "{{").replace('}', "}}");
                    return self.line(format!("assert!({condition}, {message:?});"));
                }
                let [expected, got] = [expected, got].map(|expr| self.any_expr(expr));
                self.line(format!(
                    "assert!({condition}, status = {status}, arg = {arg}, axis = {axis}, expected = {expected}, got = {got});"
                ));
            }
        });
    }

    fn store(&mut self, it: &BufferStore) {
        let mut target = format!("{}[[{}]]", self.names.buffer(&it.buffer), self.indices(&it.indices));
        if let Some(predicate) = &it.predicate {
            target = format!("masked({target}, {})", self.any_expr(predicate));
        }
        let text = match update(it) {
            Some((op, value)) => format!("{target} {op}= {};", self.value(value)),
            None => format!("{target} = {};", self.value(&it.value)),
        };
        self.line(text);
    }

    pub(super) fn alloc(&mut self, buffer: &Buffer) {
        let shape = self.indices(&buffer.shape);
        let layout = self.layout(buffer);
        let name = self.names.define_buffer(buffer);
        layout.iter().for_each(|attr| self.line(attr));
        if buffer.scope != Scope::Global {
            self.line(format!("#[scope({:?})]", buffer.scope.name()));
        }
        self.line(format!("let mut {name} = alloc::<{}>([{shape}]);", buffer.dtype));
    }

    /// Attributes for strides and offset, if they are not the default.
    pub(super) fn layout(&mut self, buffer: &Buffer) -> Vec<String> {
        let mut res = Vec::new();
        if !buffer.strides.is_empty() {
            res.push(format!("#[strides({})]", self.indices(&buffer.strides)));
        }
        if let Some(offset) = &buffer.elem_offset {
            res.push(format!("#[offset({})]", self.index(offset)));
        }
        res
    }

    /// Perfectly nested loops of one kind print as one `grid`, if they are plain and no extent depends on an outer loop.
    fn loops(&mut self, outer: &For) {
        let mut nest = vec![outer];
        let mut last = outer;
        while let Stmt::For(inner) = &last.body
            && plain(last)
            && plain(inner)
            && inner.kind == outer.kind
            && !nest.iter().any(|it| uses_var(&inner.extent, &it.loop_var))
        {
            nest.push(inner);
            last = inner;
        }
        let mark = self.names.open();
        let range = if let [it] = nest[..] {
            self.range(&it.min, &it.extent)
        } else {
            let extents: Vec<String> = nest.iter().map(|it| self.index(&it.extent)).collect();
            format!("grid([{}])", extents.join(", "))
        };
        let count = self.ranges.len();
        let mut vars = Vec::new();
        for it in &nest {
            vars.push(self.loop_variable(it));
            self.ranges.push((it.loop_var.clone(), it.range()));
        }
        match outer.kind {
            ForKind::Serial => {}
            ForKind::Parallel => self.line("#[parallel]"),
            ForKind::Vectorized => self.line("#[vectorize]"),
            ForKind::Unrolled => self.line("#[unroll]"),
            ForKind::ThreadBinding(tag) => self.line(format!("#[bind(\"{}\")]", tag.name())),
        }
        self.attrs(&outer.annotations);
        let vars = if vars.len() == 1 { vars[0].clone() } else { format!("[{}]", vars.join(", ")) };
        self.braces(&format!("for {vars} in {range}"), "", |p| p.stmt(&last.body));
        self.ranges.truncate(count);
        self.names.close(mark);
    }

    /// The variable of a loop that starts below 0 is a number, that of any other loop an index.
    fn loop_variable(&mut self, it: &For) -> String {
        if counts_numbers(it) { self.names.define(&it.loop_var) } else { self.name_index(&it.loop_var) }
    }

    /// `min..end`
    fn range(&mut self, min: &PrimExpr, extent: &PrimExpr) -> String {
        let class = if min.as_int().is_some_and(|min| min < 0) { Class::Number } else { Class::Index };
        let sum = min.clone() + extent;
        // Prefer an end that is not a sum, if it gives the same extent.
        let end = match (min.as_int(), extent) {
            (Some(0), extent) => extent.clone(),
            (_, PrimExpr::Binary(it)) if it.op == BinaryOp::Sub && structural_equal(&it.b, min).is_ok() => {
                it.a.clone()
            }
            _ => sum.clone(),
        };
        let said = |end: &PrimExpr| structural_equal(&extent_between(min, end.clone()), extent).is_ok();
        let end = if said(&end) { end } else { sum };
        let start = self.expr_in(min, class, Prec::None);
        let start = if start.contains(' ') { format!("({start})") } else { start };
        let text = self.expr_in(&end, class, Prec::None);
        let text = if text.contains(" as ") { format!("({text})") } else { text };
        if said(&end) { format!("{start}..{text}") } else { format!("extent({start}..{text})") }
    }

    /// `#[attrs(key = value)]`
    fn attrs(&mut self, attrs: &Attrs) {
        if let Some(attrs) = attrs_arg(attrs) {
            self.line(format!("#[{attrs}]"));
        }
    }

    fn block(&mut self, it: &BlockRealize) {
        let block = &it.block;
        let axes: Vec<String> = block
            .iter_vars
            .iter()
            .zip(it.iter_values.iter())
            .map(|(iter, value)| {
                let kind = match iter.kind {
                    IterKind::Spatial => "S",
                    IterKind::Reduce => "R",
                    IterKind::Ordered => "O",
                    IterKind::Opaque => "Q",
                };
                let text = format!("{kind}({})", self.index(value));
                let derived = range_of(value, &self.ranges);
                let same = |a: &Range| {
                    structural_equal(&a.min, &iter.dom.min).is_ok()
                        && structural_equal(&a.extent, &iter.dom.extent).is_ok()
                };
                if derived.is_some_and(|it| same(&it)) {
                    return text;
                }
                format!("{text}.within({})", self.range(&iter.dom.min, &iter.dom.extent))
            })
            .collect();
        if it.predicate.is_const(1) {
            return self.block_under(block, &axes);
        }
        if let Some(0) = it.predicate.as_int() {
            self.unsayable("a block that never runs");
        }
        let condition = self.value(&it.predicate);
        self.braces(&format!("if {condition}"), "", |p| p.block_under(block, &axes));
    }

    fn block_under(&mut self, block: &Block, axes: &[String]) {
        let (mark, count) = (self.names.open(), self.ranges.len());
        let vars: Vec<String> = block.iter_vars.iter().map(|iter| self.name_index(&iter.var)).collect();
        self.ranges.extend(block.iter_vars.iter().map(|iter| (iter.var.clone(), iter.dom.clone())));
        self.attrs(&block.annotations);
        let head = format!("block({:?}, [{}], |[{}]|", block.name, axes.join(", "), vars.join(", "));
        self.braces(&head, ");", |p| p.block_body(block));
        self.ranges.truncate(count);
        self.names.close(mark);
    }

    /// Prints allocations, matched buffers, init and body.
    pub(super) fn block_body(&mut self, block: &Block) {
        block.alloc_buffers.iter().for_each(|buffer| self.alloc(buffer));
        for it in block.match_buffers.iter() {
            let said = says_shape(it);
            let source = self.region(&it.source, it.source.region.len().saturating_sub(it.buffer.ndim()));
            let shape = if said { String::new() } else { format!(", [{}]", self.indices(&it.buffer.shape)) };
            let layout = self.layout(&it.buffer);
            let name = self.names.define_buffer(&it.buffer);
            layout.iter().for_each(|attr| self.line(attr));
            self.line(format!("let {name} = match_buffer({source}{shape});"));
        }
        if let Some(init) = &block.init {
            if let Stmt::BufferStore(store) = init {
                let line = self.out.len();
                self.store(store);
                let text = self.out.split_off(line);
                self.line(format!("init(|| {});", text.trim().trim_end_matches(';')));
            } else {
                self.braces("init(||", ");", |p| p.stmt(init));
            }
        }
        self.stmt(&block.body);
    }

    /// `buffer[[i, a..b]]`: the first `hidden` ranges are single indices.
    fn region(&mut self, region: &BufferRegion, hidden: usize) -> String {
        let ranges: Vec<String> = region
            .region
            .iter()
            .enumerate()
            .map(|(axis, range)| match axis < hidden {
                true => self.index(&range.min),
                false => self.range(&range.min, &range.extent),
            })
            .collect();
        format!("{}[[{}]]", self.names.buffer(&region.buffer), ranges.join(", "))
    }
}

/// True for a loop whose variable is a number rather than an index.
fn counts_numbers(it: &For) -> bool {
    it.min.as_int().is_some_and(|min| min < 0)
}

/// True for a failure that `assert!` reports.
pub(super) fn is_assertion(failure: &Failure) -> bool {
    failure.status == Status::Assert as i32
        && (failure.arg, failure.axis) == (-1, -1)
        && failure.expected.is_const(0)
        && failure.got.is_const(0)
}

/// True when the matched buffer has the shape that its region gives it: the extents of the ranges after the single indices.
pub(super) fn says_shape(it: &MatchBufferRegion) -> bool {
    let region = &it.source.region;
    let Some(hidden) = region.len().checked_sub(it.buffer.ndim()) else { return false };
    let extent = |range: &Range| extent_between(&range.min, range.min.clone() + &range.extent);
    region[..hidden].iter().all(|range| range.extent.is_const(1))
        && region[hidden..].iter().zip(it.buffer.shape.iter()).all(|(range, shape)| {
            let same = |a: &PrimExpr, b: &PrimExpr| structural_equal(a, b).is_ok();
            same(&range.extent, shape) && same(&extent(range), shape)
        })
}

fn plain(it: &For) -> bool {
    it.min.is_const(0) && it.annotations.is_empty()
}

/// Operator and operand of `buffer[indices] op= operand`, when the store updates its element in this way.
fn update(it: &BufferStore) -> Option<(&'static str, &PrimExpr)> {
    let PrimExpr::Binary(value) = &it.value else { return None };
    let PrimExpr::BufferLoad(old) = &value.a else { return None };
    let op = match value.op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
        _ => return None,
    };
    let same = old.buffer == it.buffer
        && old.predicate.is_none()
        && it.predicate.is_none()
        && old.indices.len() == it.indices.len()
        && old.indices.iter().zip(it.indices.iter()).all(|(a, b)| structural_equal(a, b).is_ok());
    same.then_some((op, &value.b))
}

/// An attribute's value as Rust source.
pub(super) fn attr(value: &AttrValue) -> String {
    match value {
        AttrValue::Bool(it) => it.to_string(),
        AttrValue::Int(i64::MIN) => "i64::MIN".to_string(),
        AttrValue::Int(it) => it.to_string(),
        AttrValue::Float(it) if it.is_nan() => "f64::NAN".to_string(),
        AttrValue::Float(f64::INFINITY) => "f64::INFINITY".to_string(),
        AttrValue::Float(f64::NEG_INFINITY) => "f64::NEG_INFINITY".to_string(),
        AttrValue::Float(it) => format!("{it:?}"),
        AttrValue::Str(it) => format!("{it:?}"),
        AttrValue::DType(it) => it.to_string(),
        AttrValue::List(it) => format!("[{}]", it.iter().map(attr).collect::<Vec<_>>().join(", ")),
    }
}
