//! Checks of blocks: names are unique, reduction axes do not index what is written, accumulators are initialised.

use syn::{Ident, LitStr};

use crate::error::Errors;
use crate::kernel::ast::{Axis, AxisKind, CallArg, Expr, ExprKind, PrimFunc, Stmt};

pub(super) fn check(func: &PrimFunc, errors: &mut Errors) {
    let mut checker = Checker { errors, names: vec![], initialised: vec![], blocks: vec![], in_init: false };
    checker.stmts(&func.body);
}

struct Checker<'a> {
    errors: &'a mut Errors,
    names: Vec<LitStr>,
    /// Buffers that a plain store has written so far.
    initialised: Vec<Ident>,
    /// Axes of the open blocks, and whether they have an `init`.
    blocks: Vec<OpenBlock<'a>>,
    in_init: bool,
}

struct OpenBlock<'a> {
    axes: &'a [Axis],
    has_init: bool,
}

impl<'a> Checker<'a> {
    fn stmts(&mut self, stmts: &'a [Stmt]) {
        stmts.iter().for_each(|stmt| self.stmt(stmt));
    }

    fn stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::For { body, .. } | Stmt::While { body, .. } | Stmt::Scope(body) => self.stmts(body),
            Stmt::If { then, otherwise, .. } => {
                self.stmts(then);
                otherwise.iter().for_each(|it| self.stmts(it));
            }
            Stmt::Init { body, .. } => {
                self.init_place(stmt);
                let outer = std::mem::replace(&mut self.in_init, true);
                self.stmts(body);
                self.in_init = outer;
            }
            Stmt::Block { name, axes, body, .. } => {
                self.name(name);
                let has_init = body.iter().any(|it| matches!(it, Stmt::Init { .. }));
                self.blocks.push(OpenBlock { axes, has_init });
                self.stmts(body);
                self.blocks.pop();
            }
            Stmt::Store { buffer, indices, op, value, .. } => {
                self.reduction_index(buffer, indices);
                if op.is_none() && !reads(value, buffer) {
                    self.initialised.push(buffer.clone());
                } else {
                    self.accumulates(buffer, op.is_some());
                }
            }
            Stmt::Alloc { name, value: Some(_), .. } => self.initialised.push(name.clone()),
            Stmt::Call { args, span, .. } => {
                if self.in_init {
                    let help = "initialise by stores, or call the kernel before the block";
                    self.errors.push_at(*span, "an `init` calls no kernel", help);
                }
                self.initialised.extend(args.iter().filter_map(|arg| match arg {
                    CallArg::Tensor(name) => Some(name.clone()),
                    CallArg::Value(_) => None,
                }));
            }
            Stmt::Match { name, source, .. } if self.initialised.contains(source) => {
                self.initialised.push(name.clone());
            }
            Stmt::Alloc { .. }
            | Stmt::Let { .. }
            | Stmt::Helper { .. }
            | Stmt::Assert { .. }
            | Stmt::Match { .. } => {}
        }
    }

    fn name(&mut self, name: &LitStr) {
        if self.names.iter().any(|it| it.value() == name.value()) {
            let message = format!("a block named `{}` exists already", name.value());
            self.errors.push(
                name,
                message,
                "give each block of a kernel a name of its own: schedules refer to it",
            );
        }
        self.names.push(name.clone());
    }

    /// Checks that `init` stands in a block with a reduction axis.
    fn init_place(&mut self, init: &Stmt) {
        let Stmt::Init { span, .. } = init else { return };
        let at = Ident::new("init", *span);
        match self.blocks.last() {
            None => self.errors.push(&at, "`init` stands outside of a block", "put it in a `block(..)` with a reduction axis"),
            Some(block) if !block.axes.iter().any(|axis| axis.kind == AxisKind::Reduce) => self.errors.push(
                &at,
                "`init` in a block without a reduction axis",
                "it runs before the first iteration of `R(..)` axes: make one a reduction, or store without `init`",
            ),
            Some(_) => {}
        }
    }

    /// Checks that no reduction axis indexes the element that is written.
    fn reduction_index(&mut self, buffer: &Ident, indices: &[Expr]) {
        let Some(block) = self.blocks.last() else { return };
        for axis in block.axes.iter().filter(|axis| axis.kind == AxisKind::Reduce) {
            for index in indices {
                let mut at = None;
                index.walk(&mut |it| {
                    if let ExprKind::Var(name) = &it.kind
                        && *name == axis.var
                    {
                        at.get_or_insert_with(|| name.clone());
                    }
                });
                if let Some(at) = at {
                    let message = format!(
                        "the reduction axis `{at}` chooses the element of `{buffer}` that is written"
                    );
                    let help = format!(
                        "leave `{at}` out of the index; an axis each value of which writes elements of its own is `S(..)`"
                    );
                    self.errors.push(&at, message, &help);
                    return;
                }
            }
        }
    }

    /// Checks that the buffer that a reduction accumulates into has an initial value.
    fn accumulates(&mut self, buffer: &Ident, compound: bool) {
        let Some(block) = self.blocks.last() else { return };
        let reduces = block.axes.iter().find(|axis| axis.kind == AxisKind::Reduce);
        if let Some(axis) = reduces
            && compound
            && !block.has_init
            && !self.initialised.contains(buffer)
        {
            let message = format!(
                "`{buffer}` is accumulated over the reduction axis `{}` and has no first value",
                axis.var
            );
            let help =
                format!("add `init(|| {buffer}[[..]] = 0.0);` to the block, or store to `{buffer}` before");
            self.errors.push(buffer, message, &help);
        }
    }
}

fn reads(value: &Expr, buffer: &Ident) -> bool {
    let mut found = false;
    value.walk(&mut |it| found |= matches!(&it.kind, ExprKind::Load { buffer: it, .. } if it == buffer));
    found
}
