//! Builder of tensor programs, statement by statement: loops, branches and blocks open frames; the builder adds access
//! regions and the root block.
//!
//! The builder is shared by reference with the closures that build nested statements. It records errors with their
//! places; [`FuncBuilder::finish`] reports them.

mod alloc;
mod assert;
mod match_buffer;

use std::cell::RefCell;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tvm_runtime::{DataType, DimBound};

use super::call::name_inlined;
use super::host::HostArray;
use super::literal;
use super::table::Table;
use super::unwritten::unwritten_reads;
use super::{FuncSig, KernelValue};
use crate::ir::{AttrValue, Attrs, BlockId, Diagnostic, IrError, Span, Type, Var, VarId};
use crate::tir::analysis::{extent_between, holds_blocks, range_of, with_access_regions};
use crate::tir::schedule::check_loop_kinds;
use crate::tir::{
    BinaryOp, Bind, Block, BlockNames, BlockRealize, Buffer, BufferLoad, BufferStore, For, ForKind,
    IfThenElse, IterKind, IterVar, MatchBufferRegion, Param, PrimExpr, PrimFunc, Range, Scope, Stmt, While,
    any_expr, binary, derive_blocks,
};

/// Line and column in the user's source.
type Loc = (u32, u32);

/// How a loop runs.
#[derive(Clone, Debug, Default)]
pub struct LoopSpec {
    /// Kind of the loop, such as serial or parallel.
    pub kind: ForKind,
    /// Hints for later passes.
    pub annotations: Attrs,
}

impl LoopSpec {
    /// A loop of this kind, without hints.
    pub fn new(kind: ForKind) -> LoopSpec {
        LoopSpec { kind, annotations: Attrs::new() }
    }

    /// Adds the hint `name`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<AttrValue>) -> LoopSpec {
        self.annotations.set(name, value);
        self
    }
}

/// An axis of a block: its kind, its name and the value that it takes.
pub type AxisArg = (IterKind, &'static str, KernelValue);

/// Begin and end of the domain of an axis; `None` if the domain is the range of its value.
pub type Domain = Option<(KernelValue, KernelValue)>;

/// Builds one [`PrimFunc`].
pub struct FuncBuilder {
    pub(super) name: &'static str,
    file: Arc<str>,
    span: Span,
    pub(super) state: RefCell<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) params: Vec<Param>,
    /// Statements of the open scopes, innermost last.
    frames: Vec<Vec<Stmt>>,
    /// Open blocks, innermost last.
    blocks: Vec<OpenBlock>,
    /// Ranges of open loops and of the axes of open blocks.
    ranges: Vec<(Var, Range)>,
    block_names: BlockNames,
    /// Blocks that come from called kernels.
    pub(super) inlined: Vec<BlockId>,
    /// Values of `let` variables.
    lets: FxHashMap<VarId, PrimExpr>,
    pub(super) attrs: Attrs,
    /// Bounds of dimensions, by name.
    bounds: Vec<(&'static str, DimBound)>,
    tables: Vec<Table>,
    pub(super) errors: Vec<Diagnostic>,
}

#[derive(Default)]
struct OpenBlock {
    init: Option<Stmt>,
    alloc_buffers: Vec<Buffer>,
    match_buffers: Vec<MatchBufferRegion>,
    annotations: Attrs,
    /// Depth of `frames` at which the block's own statements are.
    depth: usize,
}

impl FuncBuilder {
    /// Starts the program that `sig` describes, written at `loc` of `file`.
    pub fn new(sig: &FuncSig, file: &str, loc: Loc) -> FuncBuilder {
        let root = OpenBlock { depth: 1, ..OpenBlock::default() };
        let state = State { frames: vec![vec![]], blocks: vec![root], ..State::default() };
        literal::take();
        let (name, file) = (sig.name, Arc::from(file));
        let span = Span::rust(&file, loc.0, loc.1);
        FuncBuilder { name, file, span, state: RefCell::new(state) }
    }

    pub(super) fn span(&self, (line, column): Loc) -> Span {
        Span::rust(&self.file, line, column)
    }

    fn push(&self, stmt: impl Into<Stmt>) {
        let mut state = self.state.borrow_mut();
        if let Some(frame) = state.frames.last_mut() {
            frame.push(stmt.into());
        }
    }

    /// Runs `f` in a scope of its own; returns its statements.
    fn scope(&self, f: impl FnOnce()) -> Stmt {
        self.state.borrow_mut().frames.push(vec![]);
        f();
        Stmt::seq(self.state.borrow_mut().frames.pop().unwrap_or_default())
    }

    /// Records an error for each literal that was converted to a type that does not have its value.
    pub(super) fn check_literals(&self, loc: Loc) {
        for message in literal::take() {
            self.error(loc, message, "write a literal of the type, or convert the other side with `as`");
        }
    }

    /// Records an error.
    pub(super) fn error(&self, loc: Loc, message: impl Into<String>, help: &str) {
        let diagnostic = Diagnostic::new(message, &self.span(loc)).help(help);
        self.state.borrow_mut().errors.push(diagnostic);
    }

    /// Sets an attribute of the program.
    pub fn attr(&self, name: &str, value: impl Into<AttrValue>) {
        self.state.borrow_mut().attrs.set(name, value);
    }

    /// Sets an attribute of the open block.
    pub fn annotate(&self, name: &str, value: impl Into<AttrValue>) {
        if let Some(block) = self.state.borrow_mut().blocks.last_mut() {
            block.annotations.set(name, value);
        }
    }

    /// A symbolic dimension; it binds where it first occurs in a parameter's shape.
    pub fn dim(&self, loc: Loc, name: &'static str) -> KernelValue {
        KernelValue::index(self.bounded(loc, name, DataType::I64))
    }

    /// Bounds the dimension or `i64` scalar `dim`, which is created after.
    pub fn bound(&self, dim: &'static str, bound: Option<DimBound>) {
        self.state.borrow_mut().bounds.extend(bound.map(|bound| (dim, bound)));
    }

    fn bounded(&self, loc: Loc, name: &'static str, dtype: DataType) -> Var {
        let bounds = &self.state.borrow().bounds;
        let bound = bounds.iter().find(|(dim, _)| *dim == name).map(|(_, bound)| *bound);
        Var::with_span(name, Type::Prim(dtype), self.span(loc)).within(bound)
    }

    fn buffer<const N: usize>(
        &self,
        loc: Loc,
        name: &'static str,
        dtype: DataType,
        shape: [KernelValue; N],
        scope: Scope,
    ) -> Buffer {
        let shape: Vec<PrimExpr> = shape.into_iter().map(KernelValue::into_index).collect();
        if let Some(extent) = shape.iter().filter_map(PrimExpr::as_int).find(|it| *it < 0) {
            let message = format!("an extent of `{name}` is {extent}");
            self.error(loc, message, "extents are not negative");
        }
        Buffer::with_scope(name, shape, dtype, scope).renew(|node| node.span = self.span(loc))
    }

    /// Adds an input parameter.
    pub fn input<const N: usize>(
        &self,
        loc: Loc,
        name: &'static str,
        dtype: DataType,
        shape: [KernelValue; N],
    ) -> Buffer {
        self.param(Param::In, self.buffer(loc, name, dtype, shape, Scope::Global))
    }

    /// Adds an output parameter.
    pub fn output<const N: usize>(
        &self,
        loc: Loc,
        name: &'static str,
        dtype: DataType,
        shape: [KernelValue; N],
    ) -> Buffer {
        self.param(Param::Out, self.buffer(loc, name, dtype, shape, Scope::Global))
    }

    fn param(&self, kind: fn(Buffer) -> Param, buffer: Buffer) -> Buffer {
        self.state.borrow_mut().params.push(kind(buffer.clone()));
        buffer
    }

    /// Adds a scalar parameter.
    pub fn scalar(&self, loc: Loc, name: &'static str, dtype: DataType) -> KernelValue {
        let var = self.bounded(loc, name, dtype);
        self.state.borrow_mut().params.push(Param::Scalar(var.clone()));
        KernelValue::typed(var)
    }

    /// `buffer[indices]`
    pub fn load<const N: usize>(&self, loc: Loc, buffer: &Buffer, indices: [KernelValue; N]) -> KernelValue {
        KernelValue::typed(PrimExpr::BufferLoad(Arc::new(BufferLoad {
            buffer: buffer.clone(),
            indices: indices.into_iter().map(KernelValue::into_index).collect(),
            predicate: None,
            span: self.span(loc),
        })))
    }

    /// `TABLE[i][j]`: an element of a constant array of the host program.
    pub fn table<A: HostArray, const N: usize>(
        &self,
        loc: Loc,
        name: &'static str,
        array: &A,
        indices: [KernelValue; N],
    ) -> KernelValue {
        let rank = A::extents().len();
        let known = self.state.borrow().tables.iter().position(|it| it.holds(name, array));
        let at = known.unwrap_or_else(|| {
            match Table::new(name, array, &self.span(loc)) {
                Some(table) => self.state.borrow_mut().tables.push(table),
                None => self.error(loc, format!("`{name}` has no elements"), "give it some"),
            }
            self.state.borrow().tables.len().saturating_sub(1)
        });
        if rank != N {
            let message = format!("`{name}` has {rank} dimensions, but is read with {N} indices");
            self.error(loc, message, "kernels read single elements, as in `TABLE[i][j]`");
            return KernelValue::int(0);
        }
        let found = self.state.borrow().tables.get(at).map(|it| (it.buffer.clone(), it.index));
        match found {
            Some((buffer, true)) => KernelValue::index(self.load(loc, &buffer, indices).into_expr()),
            Some((buffer, false)) => self.load(loc, &buffer, indices),
            None => KernelValue::int(0),
        }
    }

    /// `buffer[indices] = value`
    pub fn store<const N: usize>(
        &self,
        loc: Loc,
        buffer: &Buffer,
        indices: [KernelValue; N],
        value: KernelValue,
    ) {
        let value = value.into_typed(buffer.dtype);
        if value.dtype() != buffer.dtype {
            let (name, expected, got) = (&buffer.name, buffer.dtype, value.dtype());
            let message = format!("`{name}` holds {expected}, but the value stored is {got}");
            self.error(loc, message, "convert the value with `as`");
        }
        self.check_literals(loc);
        self.push(BufferStore {
            buffer: buffer.clone(),
            value,
            indices: indices.into_iter().map(KernelValue::into_index).collect(),
            predicate: None,
            span: self.span(loc),
        });
    }

    /// `buffer[indices] op= value`
    pub fn update<const N: usize>(
        &self,
        loc: Loc,
        buffer: &Buffer,
        indices: [KernelValue; N],
        op: BinaryOp,
        value: KernelValue,
    ) {
        let old = self.load(loc, buffer, indices.clone());
        self.store(loc, buffer, indices, old.binary(op, value));
    }

    /// `let name = value;`
    pub fn bind(&self, loc: Loc, name: &str, value: KernelValue) -> KernelValue {
        if value.is_atom() {
            return value;
        }
        self.keep(loc, name, value)
    }

    /// `let name = bind(value);`: creates a variable even if the value is an atom.
    pub fn keep(&self, loc: Loc, name: &str, value: KernelValue) -> KernelValue {
        self.check_literals(loc);
        let var = Var::with_span(name, Type::Prim(value.dtype()), self.span(loc));
        let named = value.renamed(&var);
        let value = value.into_expr();
        self.state.borrow_mut().lets.insert(var.id(), value.clone());
        self.push(Bind { var, value });
        named
    }

    /// `for name in min..end { body }`
    pub fn for_range(
        &self,
        loc: Loc,
        spec: LoopSpec,
        name: &'static str,
        (min, end): (KernelValue, KernelValue),
        body: impl FnOnce(KernelValue),
    ) {
        let dtype = KernelValue::type_of_range(&min, &end);
        let min = min.into_index();
        let end = end.into_index();
        self.check_literals(loc);
        let extent = extent_between(&min, end);
        let loop_var = Var::with_span(name, Type::Prim(DataType::I64), self.span(loc));
        let range = Range { min: min.clone(), extent: extent.clone() };
        self.state.borrow_mut().ranges.push((loop_var.clone(), range));
        let var = match dtype {
            Some(dtype) => KernelValue::typed(&loop_var).cast(dtype),
            None => KernelValue::index(&loop_var),
        };
        let body = self.scope(|| body(var));
        self.state.borrow_mut().ranges.pop();
        let LoopSpec { kind, annotations } = spec;
        self.push(For { loop_var, min, extent, kind, annotations, body, span: self.span(loc) });
    }

    /// `for names in grid(extents) { body }`; all loops are of the kind of `spec`.
    pub fn for_grid<const N: usize>(
        &self,
        loc: Loc,
        spec: &LoopSpec,
        names: [&'static str; N],
        extents: [KernelValue; N],
        body: impl FnOnce([KernelValue; N]),
    ) {
        fn nest<const N: usize>(
            builder: &FuncBuilder,
            (loc, spec): (Loc, &LoopSpec),
            names: [&'static str; N],
            extents: &[KernelValue; N],
            vars: &mut Vec<KernelValue>,
            body: &mut dyn FnMut(&[KernelValue]),
        ) {
            let depth = vars.len();
            if depth == N {
                return body(vars);
            }
            let range = (KernelValue::int(0), extents[depth].clone());
            builder.for_range(loc, spec.clone(), names[depth], range, |var| {
                vars.push(var);
                nest(builder, (loc, spec), names, extents, vars, body);
            });
        }
        let mut body = Some(body);
        nest(self, (loc, spec), names, &extents, &mut Vec::with_capacity(N), &mut |vars| {
            if let (Some(body), Ok(vars)) = (body.take(), <[KernelValue; N]>::try_from(vars.to_vec())) {
                body(vars);
            }
        });
    }

    /// `block(name, axes, |vars| body)`
    pub fn block<const N: usize>(
        &self,
        loc: Loc,
        name: &str,
        axes: [AxisArg; N],
        body: impl FnOnce([KernelValue; N]),
    ) {
        self.block_within(loc, name, axes, [const { None }; N], body);
    }

    /// [`block`](Self::block) with explicit domains for some axes.
    pub fn block_within<const N: usize>(
        &self,
        loc: Loc,
        name: &str,
        axes: [AxisArg; N],
        domains: [Domain; N],
        body: impl FnOnce([KernelValue; N]),
    ) {
        let name: Arc<str> = name.into();
        if !self.state.borrow_mut().block_names.take(&name) {
            let message = format!("a block named `{name}` exists already");
            self.error(loc, message, "give each block of a function a name of its own");
        }
        let mut iter_values = Vec::with_capacity(N);
        let mut iter_vars = Vec::with_capacity(N);
        for ((kind, axis, value), dom) in axes.into_iter().zip(domains) {
            let value = value.into_index();
            let range = match dom {
                Some((min, end)) => {
                    let (min, end) = (min.into_index(), end.into_index());
                    Some(Range { extent: extent_between(&min, end), min })
                }
                None => range_of(&value, &self.state.borrow().ranges),
            };
            let dom = range.unwrap_or_else(|| {
                let message = format!("the range of axis `{axis}` of block `{name}` is not known");
                self.error(loc, message, "bind axes to sums of loop variables times constants");
                Range::point(value.clone())
            });
            let var = Var::with_span(axis, Type::Prim(DataType::I64), self.span(loc));
            iter_values.push(value);
            iter_vars.push(IterVar { var, dom, kind });
        }
        let vars = std::array::from_fn(|i| KernelValue::index(&iter_vars[i].var));
        let outer = {
            let mut state = self.state.borrow_mut();
            let depth = state.frames.len() + 1;
            state.blocks.push(OpenBlock { depth, ..OpenBlock::default() });
            let outer = state.ranges.len();
            state.ranges.extend(iter_vars.iter().map(|iter| (iter.var.clone(), iter.dom.clone())));
            outer
        };
        let body = self.scope(|| body(vars));
        let open = {
            let mut state = self.state.borrow_mut();
            state.ranges.truncate(outer);
            state.blocks.pop().unwrap_or_default()
        };
        if let Some(matched) = open.match_buffers.first().filter(|_| holds_blocks(&body)) {
            let message =
                format!("block `{name}` matches `{}` to a region, and contains blocks", matched.buffer.name);
            self.error(loc, message, "match the region in the inner block that uses it");
        }
        let block = Block {
            iter_vars: iter_vars.into(),
            alloc_buffers: open.alloc_buffers.into(),
            match_buffers: open.match_buffers.into(),
            init: open.init,
            annotations: open.annotations,
            span: self.span(loc),
            ..Block::new(name, body)
        };
        self.push(BlockRealize {
            iter_values: iter_values.into(),
            predicate: PrimExpr::bool(true),
            block: Arc::new(with_access_regions(block)),
        });
    }

    /// `init(|| body)`
    pub fn init(&self, _loc: Loc, body: impl FnOnce()) {
        let init = self.scope(body);
        if let Some(block) = self.state.borrow_mut().blocks.last_mut() {
            block.init = Some(init);
        }
    }

    /// `if condition { then } else { otherwise }`
    pub fn if_else(
        &self,
        loc: Loc,
        condition: KernelValue,
        then: impl FnOnce(),
        otherwise: Option<&mut dyn FnMut()>,
    ) {
        self.check_literals(loc);
        let then_case = self.scope(then);
        let else_case = otherwise.map(|otherwise| self.scope(otherwise));
        let condition = condition.into_expr();
        match condition.as_int() {
            Some(0) => self.push_all(else_case),
            Some(_) => self.push_all(Some(then_case)),
            None => match guarded_block(&condition, &then_case) {
                Some(realize) if else_case.is_none() => self.push(realize),
                _ => self.push(IfThenElse { condition, then_case, else_case, span: self.span(loc) }),
            },
        }
    }

    /// Adds the statements of `stmt` to the open scope.
    pub(super) fn push_all(&self, stmt: Option<Stmt>) {
        match stmt {
            Some(Stmt::SeqStmt(stmts)) => stmts.iter().for_each(|stmt| self.push(stmt.clone())),
            Some(stmt) => self.push(stmt),
            None => {}
        }
    }

    /// `while condition { body }`
    pub fn while_loop(&self, loc: Loc, condition: KernelValue, body: impl FnOnce()) {
        self.check_literals(loc);
        let body = self.scope(body);
        self.push(While { condition: condition.into_expr(), body, span: self.span(loc) });
    }

    /// The program with its statements as written, in a root block, and the names of its blocks.
    pub(super) fn raw(self) -> Result<(PrimFunc, BlockNames), IrError> {
        let mut state = self.state.into_inner();
        if !state.errors.is_empty() {
            return Err(IrError(state.errors));
        }
        let mut root = state.blocks.pop().unwrap_or_default();
        let mut stmts = Vec::new();
        for table in &state.tables {
            let name = state.block_names.unique(&format!("{}_fill", table.name));
            root.alloc_buffers.push(table.buffer.clone());
            stmts.push(table.fill(name));
        }
        stmts.extend(state.frames.pop().unwrap_or_default());
        let body = name_inlined(Stmt::seq(stmts), &state.inlined, &mut state.block_names);
        let annotations = root.annotations;
        let root = Block { annotations, span: self.span.clone(), ..Block::root(root.alloc_buffers, body) };
        let func = PrimFunc::new(self.name, state.params, BlockRealize::opaque(root));
        Ok((PrimFunc { attrs: state.attrs, span: self.span, ..func }, state.block_names))
    }

    /// Ends building: derives the blocks of plain loops, and returns the program or its errors.
    pub fn finish(self) -> Result<PrimFunc, IrError> {
        let (mut func, names) = self.raw()?;
        if let Stmt::BlockRealize(realize) = &func.body {
            let body = derive_blocks(&realize.block.body, names);
            func.body = BlockRealize::opaque(Block { body, ..(*realize.block).clone() });
        }
        let unwritten = unwritten_reads(&func.body);
        if !unwritten.is_empty() {
            return Err(IrError(unwritten));
        }
        check_loop_kinds(&func, true)?;
        Ok(func)
    }
}

/// Makes `if condition { block(..) }` a block under a predicate, if the condition reads no memory and calls nothing.
fn guarded_block(condition: &PrimExpr, then_case: &Stmt) -> Option<BlockRealize> {
    let Stmt::BlockRealize(realize) = then_case else { return None };
    if any_expr(condition, &mut |it| matches!(it, PrimExpr::BufferLoad(_) | PrimExpr::Call(_))) {
        return None;
    }
    let predicate = if realize.predicate.is_const(1) {
        condition.clone()
    } else {
        binary(BinaryOp::And, condition.clone(), realize.predicate.clone())
    };
    Some(BlockRealize { predicate, ..(**realize).clone() })
}
