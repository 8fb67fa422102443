//! Rules W1, W2, W6 and W18: every variable and buffer is bound before its use, in an open scope; nothing is bound twice;
//! only parameters have bounds.

use rustc_hash::FxHashSet;
use tvm_runtime::DataType;

use super::Report;
use crate::ir::graph::Expr;
use crate::ir::structural::{Field, Fields, Node};
use crate::ir::{BlockId, BufferId, Span, VarId};
use crate::support::with_stack;

/// Everything bound so far (`defined`), and the variables and buffers visible now.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    defined: (FxHashSet<VarId>, FxHashSet<BufferId>, FxHashSet<BlockId>),
    vars: FxHashSet<VarId>,
    buffers: FxHashSet<BufferId>,
    trail: Vec<Bound>,
    open: Vec<usize>,
}

#[derive(Debug)]
enum Bound {
    Var(VarId),
    Buffer(BufferId),
}

impl Scopes {
    /// Checks one node, which must have no free variables or buffers.
    pub(crate) fn check(&mut self, node: Node<'_>, report: &mut Report) {
        self.node(node, &Span::none(), report);
    }

    fn node(&mut self, node: Node<'_>, outer: &Span, report: &mut Report) {
        with_stack(|| {
            let fields = Fields::of(node);
            let span = fields.span().unwrap_or(outer);
            for &(_, field) in fields.iter() {
                self.bound(node, field, span, report);
                self.field(field, span, report);
            }
        });
    }

    fn field(&mut self, field: Field<'_>, span: &Span, report: &mut Report) {
        match field {
            Field::Open => self.open.push(self.trail.len()),
            Field::Close => {
                let len = self.open.pop().unwrap_or(0);
                for bound in self.trail.drain(len..) {
                    match bound {
                        Bound::Var(id) => self.vars.remove(&id),
                        Bound::Buffer(id) => self.buffers.remove(&id),
                    };
                }
            }
            Field::DefVar(var) => {
                if !self.defined.0.insert(var.id()) {
                    report.add("W2", format!("variable `{}` is bound twice", var.name()), span);
                }
                self.bind_var(var.id());
            }
            Field::Dim(var) => self.bind_var(var.id()),
            Field::UseVar(var) => {
                if !self.vars.contains(&var.id()) {
                    let message = format!("variable `{}` is used where it is not bound", var.name());
                    report.add("W1", message, if span.is_none() { var.span() } else { span });
                }
            }
            Field::DefBuffer(buffer) => {
                if !self.defined.1.insert(buffer.id) {
                    report.add("W2", format!("buffer `{}` is bound twice", buffer.name), span);
                }
                if self.buffers.insert(buffer.id) {
                    self.trail.push(Bound::Buffer(buffer.id));
                }
            }
            Field::UseBuffer(buffer) => {
                if !self.buffers.contains(&buffer.id) {
                    let message = format!(
                        "buffer `{}` is neither a parameter nor allocated, declared or matched here",
                        buffer.name
                    );
                    report.add("W6", message, if span.is_none() { &buffer.span } else { span });
                }
            }
            Field::Block(id) => {
                if !self.defined.2.insert(id) {
                    report.add("W2", "a block occurs twice; a copy needs `renew_defs`", span);
                }
            }
            Field::Node(node) => self.node(node, span, report),
            Field::Len(_)
            | Field::Name(_)
            | Field::Span(_)
            | Field::Int(_)
            | Field::Float(_)
            | Field::Str(_)
            | Field::DType(_)
            | Field::Device(_)
            | Field::Attrs(_)
            | Field::Tensor(_)
            | Field::Global(_) => {}
        }
    }

    /// Reports a variable with bounds that `field` of `node` binds, unless calls of a function check them. A lowered
    /// function binds its dimensions by statements.
    fn bound(&self, node: Node<'_>, field: Field<'_>, span: &Span, report: &mut Report) {
        let (Field::Dim(var) | Field::Node(Node::VarDef(var))) = field else { return };
        if var.bound().is_none() || self.vars.contains(&var.id()) {
            return;
        }
        let checked = match node {
            Node::PrimFunc(_) | Node::Function(_) | Node::RelaxExpr(Expr::Function(_)) | Node::Type(_) => {
                true
            }
            Node::Stmt(stmt) => stmt.as_bind().is_some(),
            _ => false,
        };
        if !checked || var.dtype() != DataType::I64 {
            let message = format!(
                "`{}` has bounds, but is no `i64` among scalars and dimensions of parameters",
                var.name()
            );
            report.add("W18", message, span);
        }
    }

    fn bind_var(&mut self, id: VarId) {
        if self.vars.insert(id) {
            self.trail.push(Bound::Var(id));
        }
    }
}
