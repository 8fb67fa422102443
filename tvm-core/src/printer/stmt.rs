//! Statements of tensor programs.

use super::Printer;
use super::expr::Class;
use crate::ir::structural::structural_equal;
use crate::ir::{AttrValue, Attrs};
use crate::tir::*;

impl Printer {
    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        crate::support::with_stack(|| match stmt {
            Stmt::BufferStore(it) => self.store(it),
            Stmt::For(it) => self.loops(it),
            Stmt::BlockRealize(it) => self.block(it),
            Stmt::SeqStmt(it) => it.iter().for_each(|stmt| self.stmt(stmt)),
            Stmt::IfThenElse(it) => {
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
                let class = self.binder_class(&it.value);
                let value = if class == Class::Index { self.index(&it.value) } else { self.value(&it.value) };
                let name = match class {
                    Class::Index => self.name_index(&it.var),
                    Class::Number => self.names.define(&it.var),
                };
                self.line(format!("let {name} = {value};"));
            }
            Stmt::AllocBuffer(it) => self.alloc(&it.buffer),
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
                let Failure { status, arg, axis, expected, got } = &it.failure;
                let [condition, expected, got] =
                    [&it.condition, expected, got].map(|expr| self.any_expr(expr));
                self.line(format!(
                    "assert!({condition}, status = {status}, arg = {arg}, axis = {axis}, expected = {expected}, got = {got});"
                ));
            }
        });
    }

    fn store(&mut self, it: &BufferStore) {
        let target = format!("{}[[{}]]", self.names.buffer(&it.buffer), self.indices(&it.indices));
        let text = match update(it) {
            Some((op, value)) => format!("{target} {op}= {};", self.value(value)),
            None => format!("{target} = {};", self.value(&it.value)),
        };
        self.line(text);
    }

    pub(super) fn alloc(&mut self, buffer: &Buffer) {
        let shape = self.indices(&buffer.shape);
        let name = self.names.define_buffer(buffer);
        if buffer.scope != Scope::Global {
            self.line(format!("#[scope({:?})]", buffer.scope.name()));
        }
        self.line(format!("let mut {name} = alloc::<{}>([{shape}]);", buffer.dtype));
        self.layout(&name, buffer);
    }

    /// A comment on strides and offset, where they are not the default.
    pub(super) fn layout(&mut self, name: &str, buffer: &Buffer) {
        if !buffer.strides.is_empty() || buffer.elem_offset.is_some() {
            let strides = self.indices(&buffer.strides);
            let offset = buffer.elem_offset.as_ref().map_or("0".to_string(), |offset| self.index(offset));
            self.line(format!("// {name}: strides [{strides}], offset {offset}"));
        }
    }

    /// Loops of one kind directly inside each other print as one `grid`.
    fn loops(&mut self, outer: &For) {
        let mut nest = vec![outer];
        let mut last = outer;
        while let Stmt::For(inner) = &last.body
            && plain(last)
            && plain(inner)
            && inner.kind == outer.kind
            && !nest.iter().any(|it| mentions(&inner.extent, &it.loop_var))
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
        let vars: Vec<String> = nest.iter().map(|it| self.name_index(&it.loop_var)).collect();
        match outer.kind {
            ForKind::Serial => {}
            ForKind::Parallel => self.line("#[parallel]"),
            ForKind::Vectorized => self.line("#[vectorize]"),
            ForKind::Unrolled => self.line("#[unroll]"),
            ForKind::ThreadBinding(tag) => self.line(format!("#[bind(\"{}\")]", tag.name())),
        }
        self.annotations(&outer.annotations);
        let vars = if vars.len() == 1 { vars[0].clone() } else { format!("[{}]", vars.join(", ")) };
        self.braces(&format!("for {vars} in {range}"), "", |p| p.stmt(&last.body));
        self.names.close(mark);
    }

    /// `min..end`
    fn range(&mut self, min: &PrimExpr, extent: &PrimExpr) -> String {
        let end = match (min.as_int(), extent) {
            (Some(0), extent) => extent.clone(),
            (_, PrimExpr::Binary(it)) if it.op == BinaryOp::Sub && structural_equal(&it.b, min).is_ok() => {
                it.a.clone()
            }
            _ => min.clone() + extent,
        };
        let start = self.index(min);
        let start = if start.contains(' ') { format!("({start})") } else { start };
        let end = self.index(&end);
        if end.contains(" as ") { format!("{start}..({end})") } else { format!("{start}..{end}") }
    }

    fn annotations(&mut self, annotations: &Attrs) {
        for (name, value) in annotations.iter() {
            self.line(format!("// {name} = {}", attr(value)));
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
                format!("{kind}({})", self.index(value))
            })
            .collect();
        let predicate = if it.predicate.is_const(1) { None } else { Some(self.value(&it.predicate)) };
        let mark = self.names.open();
        let vars: Vec<String> = block.iter_vars.iter().map(|iter| self.name_index(&iter.var)).collect();
        let head = format!("block({:?}, [{}], |[{}]|", block.name, axes.join(", "), vars.join(", "));
        self.braces(&head, ");", |p| {
            if let Some(predicate) = predicate {
                p.line(format!("// where {predicate}"));
            }
            p.block_body(block);
        });
        self.names.close(mark);
    }

    /// Allocations, matches, annotations, init and body.
    pub(super) fn block_body(&mut self, block: &Block) {
        block.alloc_buffers.iter().for_each(|buffer| self.alloc(buffer));
        for it in block.match_buffers.iter() {
            let source = self.region(&it.source);
            let shape = self.indices(&it.buffer.shape);
            let name = self.names.define_buffer(&it.buffer);
            self.line(format!("let {name} = match_buffer::<{}>([{shape}], {source});", it.buffer.dtype));
            self.layout(&name, &it.buffer);
        }
        self.annotations(&block.annotations);
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

    fn region(&mut self, region: &BufferRegion) -> String {
        let ranges: Vec<String> = region
            .region
            .iter()
            .map(|range| {
                if range.extent.is_const(1) {
                    self.index(&range.min)
                } else {
                    self.range(&range.min, &range.extent)
                }
            })
            .collect();
        format!("{}[[{}]]", self.names.buffer(&region.buffer), ranges.join(", "))
    }
}

fn plain(it: &For) -> bool {
    it.min.is_const(0) && it.annotations.is_empty()
}

fn mentions(expr: &PrimExpr, var: &crate::ir::Var) -> bool {
    any_expr(expr, &mut |it| it.as_var() == Some(var))
}

/// `buffer[indices] op= value`, when the value reads the element that is stored.
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
