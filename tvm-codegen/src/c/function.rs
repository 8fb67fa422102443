//! Code generation for one kernel: the entry point of the ABI, functions outlined from it, and the state while a
//! function is written.

use std::fmt::Write as _;

use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHashSet};
use tvm_core::ir::{BufferId, Var, VarId};
use tvm_core::tir::analysis::estimate_cost;
use tvm_core::tir::{Buffer, For, Param, PrimExpr, PrimFunc, Stmt, Visitor, walk_expr, walk_stmt};
use tvm_runtime::DataType;

use super::expr::cast_scalar;
use super::{Unit, not_supported, types};
use crate::CodegenError;

/// Names that C or the prelude reserves.
const RESERVED: &[&str] = &[
    "args",
    "num_args",
    "ctx",
    "env",
    "begin",
    "end",
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "asm",
    "typeof",
    "linux",
    "unix",
    "i386",
    "bool",
    "true",
    "false",
    "nullptr",
    "constexpr",
    "main",
];

/// A C function under construction.
pub(super) struct Function<'u> {
    pub(super) unit: &'u mut Unit,
    pub(super) symbol: String,
    pub(super) body: String,
    indent: usize,
    /// The C variables, and their types.
    pub(super) vars: FxHashMap<VarId, (String, DataType)>,
    buffers: FxHashMap<BufferId, (String, DataType)>,
    names: FxHashSet<String>,
    /// Scratch memory to free, in order of allocation.
    pub(super) scratch: Vec<String>,
    /// Set inside a parallel loop: the loops nested in it run serially.
    pub(super) in_parallel: bool,
    /// Set inside a loop whose stores are to go past the caches.
    pub(super) streamed: bool,
    /// Nesting depth of the expression being written.
    pub(super) depth: usize,
    /// Above 0 inside an expression that may be evaluated never, or more than once.
    pub(super) lazy: usize,
    /// Above 0 inside the index of an access.
    pub(super) in_index: usize,
    /// True in a kernel some of whose stores to shared memory take place as late as at the next barrier.
    pub(super) async_copies: bool,
}

/// Writes the kernel `func` under the symbol `symbol`.
pub(super) fn kernel(unit: &mut Unit, symbol: &str, func: &PrimFunc) -> Result<(), CodegenError> {
    let [Param::Scalar(args), Param::Scalar(num_args), Param::Scalar(ctx)] = &*func.params else {
        return not_supported(format!(
            "`{symbol}`, which is not in the lowered form: its parameters are not (args, num_args, ctx)"
        ));
    };
    let mut f = Function::new(unit, symbol);
    for (var, name) in [(args, "args"), (num_args, "num_args"), (ctx, "ctx")] {
        f.vars.insert(var.id(), (name.to_string(), var.dtype()));
    }
    f.kernel_body(&func.body)?;
    f.line("return 0;");
    let body = f.body;
    let head = "__attribute__((visibility(\"default\")))\nint32_t";
    let params = "const tvm_arg *args, int32_t num_args, tvm_ctx *ctx";
    let _ = write!(unit.functions, "{head} {symbol}({params}) {{\n{body}}}\n\n");
    Ok(())
}

impl<'u> Function<'u> {
    pub(super) fn new(unit: &'u mut Unit, symbol: &str) -> Function<'u> {
        let names = RESERVED.iter().chain(unit.dialect.reserved()).map(ToString::to_string).collect();
        Function {
            unit,
            symbol: symbol.to_string(),
            body: String::new(),
            indent: 1,
            vars: FxHashMap::default(),
            buffers: FxHashMap::default(),
            names,
            scratch: Vec::new(),
            in_parallel: false,
            streamed: false,
            depth: 0,
            lazy: 0,
            in_index: 0,
            async_copies: false,
        }
    }

    /// Outlines everything after the parameter declarations to a function of its own, whose pointers are `restrict`.
    fn kernel_body(&mut self, body: &Stmt) -> Result<(), CodegenError> {
        let stmts: Vec<Stmt> = match body {
            Stmt::SeqStmt(stmts) => stmts.to_vec(),
            other => vec![other.clone()],
        };
        let head =
            stmts.iter().rposition(|stmt| matches!(stmt, Stmt::DeclBuffer(_))).map_or(0, |last| last + 1);
        let (head, tail) = stmts.split_at(head);
        head.iter().try_for_each(|stmt| self.stmt(stmt))?;
        if head.is_empty() {
            return self.stmt(body);
        }
        if tail.is_empty() {
            return Ok(());
        }
        let tail = Stmt::seq(tail.iter().cloned());
        let captures = self.captures(&tail);
        let name = self.outline("main", &captures, "", |inner| inner.stmt(&tail))?;
        self.call(&format!("{name}(ctx{})", captures.arguments("")));
        Ok(())
    }

    /// Runs the iterations of `it` through `ctx->parallel_for`.
    pub(super) fn parallel_loop(&mut self, it: &For) -> Result<(), CodegenError> {
        let min = self.expr(&it.min)?;
        let extent = self.expr(&it.extent)?;
        let mut captures = self.captures(&it.body);
        let first = self.fresh("first");
        self.line(&format!("const int64_t {first} = {min};"));
        captures.vars.insert(Var::index("first").id(), (first.clone(), DataType::I64));
        let bounds = ", int64_t begin, int64_t end";
        let body = self.outline("parallel", &captures, bounds, |inner| {
            inner.in_parallel = true;
            let name = inner.define(&it.loop_var);
            let ty = types::scalar(it.loop_var.dtype());
            inner.streamed_loop(it, |inner| {
                let end = format!("{first} + end");
                inner.loop_hints(it);
                inner.open(&format!("for ({ty} {name} = {first} + begin; {name} < {end}; ++{name}) {{"));
                inner.stmt(&it.body)?;
                inner.close();
                Ok(())
            })
        })?;
        let entry = self.environment(&body, &captures);
        let values = captures.names().collect::<Vec<_>>().join(", ");
        let env = self.fresh("env");
        self.line(&format!("struct {entry}_env {env} = {{{values}}};"));
        let cost = estimate_cost(&it.body);
        self.call(&format!("ctx->parallel_for(ctx, {entry}, {extent}, {cost}u, &{env})"));
        Ok(())
    }

    /// Writes a `tvm_body` that reads the captures of `body` from an environment; returns its name.
    fn environment(&mut self, body: &str, captures: &Captures) -> String {
        let mut fields = String::new();
        for (name, dtype) in captures.vars.values() {
            let ty = self.ty(*dtype);
            let _ = write!(fields, " {ty} {name};");
        }
        for (name, dtype) in captures.buffers.values() {
            let _ = write!(fields, " {} *{name};", types::scalar(*dtype));
        }
        let entry = format!("{body}_entry");
        let args = captures.arguments("env->");
        let _ = write!(
            self.unit.functions,
            "struct {entry}_env {{{fields} }};\n\
             static int32_t {entry}(tvm_ctx *ctx, int64_t begin, int64_t end, void *p) {{\n  \
             struct {entry}_env *env = p;\n  return {body}(ctx, begin, end{args});\n}}\n\n"
        );
        entry
    }

    /// Writes a static function `(ctx, extra, captured…) -> status` with the body that `write_body` writes; returns its
    /// name.
    fn outline(
        &mut self,
        suffix: &str,
        captures: &Captures,
        extra: &str,
        write_body: impl FnOnce(&mut Function<'_>) -> Result<(), CodegenError>,
    ) -> Result<String, CodegenError> {
        self.unit.outlined += 1;
        // This differs from all symbols, because they start with `tvm_kernel_`.
        let name = format!("tvm_{suffix}{}_{}", self.unit.outlined, self.symbol);
        let mut params = String::new();
        for (name, dtype) in captures.vars.values() {
            let ty = self.ty(*dtype);
            let _ = write!(params, ", {ty} {name}");
        }
        for (name, dtype) in captures.buffers.values() {
            let _ = write!(params, ", {} *restrict {name}", types::scalar(*dtype));
        }
        let symbol = self.symbol.clone();
        let mut inner = Function::new(self.unit, &symbol);
        inner.in_parallel = self.in_parallel;
        inner.streamed = self.streamed;
        inner.names.extend(captures.names().map(str::to_string));
        inner.vars.extend(captures.vars.iter().map(|(id, it)| (*id, it.clone())));
        inner.buffers.extend(captures.buffers.iter().map(|(id, it)| (*id, it.clone())));
        write_body(&mut inner)?;
        let body = inner.body;
        let _ = write!(
            self.unit.functions,
            "static int32_t {name}(tvm_ctx *ctx{extra}{params}) {{\n{body}  return 0;\n}}\n\n"
        );
        Ok(name)
    }

    fn captures(&self, stmt: &Stmt) -> Captures {
        let mut collect = Collect { outer: self, found: Captures::default() };
        collect.visit_stmt(stmt);
        collect.found
    }

    /// Writes a call and returns its status if it is not 0.
    fn call(&mut self, call: &str) {
        let status = self.fresh("status");
        self.line(&format!("const int32_t {status} = {call};"));
        self.line(&format!("if ({status}) return {status};"));
    }

    /// Writes one line.
    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "{:width$}{text}", "", width = self.indent * 2);
    }

    /// Writes a line that opens a brace.
    pub(super) fn open(&mut self, text: &str) {
        self.line(text);
        self.indent += 1;
    }

    /// Closes a brace.
    pub(super) fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    /// Returns a name that is unused in this function.
    pub(super) fn fresh(&mut self, hint: &str) -> String {
        let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut base: String = hint.chars().map(legal).collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) || base.starts_with("tvm_") {
            base.insert_str(0, "v_");
        }
        let mut name = base.clone();
        let mut n = 0;
        while !self.names.insert(name.clone()) {
            n += 1;
            name = format!("{base}_{n}");
        }
        name
    }

    /// Declares `var` under a fresh name; returns the name.
    pub(super) fn define(&mut self, var: &Var) -> String {
        self.define_as(var, var.dtype())
    }

    /// Declares `var` under a fresh name, as a C variable of type `dtype`, in which its values fit; returns the name.
    pub(super) fn define_as(&mut self, var: &Var, dtype: DataType) -> String {
        let name = self.fresh(var.name());
        self.vars.insert(var.id(), (name.clone(), dtype));
        name
    }

    /// Declares `buffer` under a fresh name; returns the name.
    pub(super) fn define_buffer(&mut self, buffer: &Buffer) -> String {
        let name = self.fresh(&buffer.name);
        self.buffers.insert(buffer.id, (name.clone(), buffer.dtype));
        name
    }

    pub(super) fn var(&self, var: &Var) -> Result<String, CodegenError> {
        match self.vars.get(&var.id()) {
            Some((name, dtype)) => Ok(cast_scalar(*dtype, var.dtype(), name)),
            None => not_supported(format!("variable `{}`, which has no value", var.name())),
        }
    }

    pub(super) fn buffer(&self, buffer: &Buffer) -> Result<String, CodegenError> {
        match self.buffers.get(&buffer.id) {
            Some((name, _)) => Ok(name.clone()),
            None => not_supported(format!("buffer `{}`, which is not declared", buffer.name)),
        }
    }
}

/// Variables and buffers that a statement uses and that the enclosing function has declared, in order of first use.
#[derive(Default)]
struct Captures {
    vars: IndexMap<VarId, (String, DataType)>,
    buffers: IndexMap<BufferId, (String, DataType)>,
}

impl Captures {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.vars.values().chain(self.buffers.values()).map(|(name, _)| name.as_str())
    }

    /// The text `, name…`, with `prefix` before each name.
    fn arguments(&self, prefix: &str) -> String {
        self.names().map(|name| format!(", {prefix}{name}")).collect()
    }
}

struct Collect<'a, 'u> {
    outer: &'a Function<'u>,
    found: Captures,
}

impl Collect<'_, '_> {
    fn buffer(&mut self, buffer: &Buffer) {
        if let Some(known) = self.outer.buffers.get(&buffer.id) {
            self.found.buffers.insert(buffer.id, known.clone());
        }
    }
}

impl Visitor for Collect<'_, '_> {
    fn visit_expr(&mut self, expr: &PrimExpr) {
        if let PrimExpr::Var(var) = expr
            && let Some(known) = self.outer.vars.get(&var.id())
            && known.0 != "ctx"
        {
            self.found.vars.insert(var.id(), known.clone());
        }
        if let PrimExpr::BufferLoad(load) = expr {
            self.buffer(&load.buffer);
        }
        walk_expr(self, expr);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        if let Stmt::BufferStore(store) = stmt {
            self.buffer(&store.buffer);
        }
        if let Stmt::AllocBuffer(alloc) = stmt {
            alloc.buffer.shape.iter().for_each(|extent| self.visit_expr(extent));
        }
        walk_stmt(self, stmt);
    }
}
