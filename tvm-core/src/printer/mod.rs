//! Prints programs as source of the DSL: compiling the output gives a structurally equal program.
//!
//! Constructs that the DSL cannot express (lowered forms, vectors, layouts of parameters) are printed in a form that does not
//! compile, and so are those whose text would compile to another program (see `sayable`). Names are unique in a function
//! and valid identifiers; identities are never printed.
//!
//! TVM counterpart: `src/script/printer`.

mod c_functions;
mod constant;
mod expr;
mod function;
mod graph;
mod graph_expr;
mod module;
mod names;
mod sayable;
mod scalar;
mod stmt;
#[cfg(test)]
mod tests;
mod text;
mod ty;

use std::fmt;
use std::sync::Arc;

use module::Context;
use names::Names;
use rustc_hash::FxHashSet;

use crate::arith::Memo;
use crate::ir::{BaseFunc, ExternFunc, IRModule, IrError, Type, Var, VarId};
use crate::relax;
use crate::tir::{PrimExpr, PrimFunc, Range, Stmt};

/// Text under construction.
#[derive(Debug, Default)]
struct Printer {
    out: String,
    indent: usize,
    names: Names,
    /// Variables that hold an index (`usize` when the program runs as Rust); other `i64` variables hold numbers.
    index_vars: FxHashSet<VarId>,
    context: Arc<Context>,
    /// Ranges of the enclosing loops and block axes, as the builder of the DSL sees them.
    ranges: Vec<(Var, Range)>,
    /// True when literals need a type suffix because Rust cannot infer their type from the context.
    suffixes: bool,
    /// Results of the method `untyped`, by expression.
    untyped: Memo<bool>,
    /// True when constants are printed whole, however large.
    whole: bool,
}

impl Printer {
    /// Prints one indented line.
    fn line(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref();
        if !text.is_empty() {
            self.out.extend(std::iter::repeat_n("    ", self.indent));
            self.out.push_str(text);
        }
        self.out.push('\n');
    }

    /// Prints a `compile_error!` in place of `what`, which the DSL cannot express.
    fn unsayable(&mut self, what: &str) {
        self.line(format!("compile_error!({what:?});"));
    }

    /// Prints `head {`, then `body` in a scope, then `}` followed by `tail`.
    fn braces(&mut self, head: &str, tail: &str, body: impl FnOnce(&mut Printer)) {
        self.line(format!("{head} {{"));
        self.scope(body);
        self.line(format!("}}{tail}"));
    }

    /// Prints `body` indented, in a new scope of names.
    fn scope(&mut self, body: impl FnOnce(&mut Printer)) {
        let mark = self.names.open();
        self.indent += 1;
        body(self);
        self.indent -= 1;
        self.names.close(mark);
    }
}

fn print(f: &mut fmt::Formatter<'_>, body: impl FnOnce(&mut Printer)) -> fmt::Result {
    let mut printer = Printer::default();
    body(&mut printer);
    f.write_str(printer.out.trim_end())
}

impl fmt::Display for PrimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, |p| p.out = p.any_expr(self))
    }
}

impl fmt::Display for Stmt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, |p| p.stmt(self))
    }
}

impl fmt::Display for PrimFunc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, |p| p.prim_func(&self.name, self))
    }
}

impl PrimFunc {
    /// The program as source of the DSL, which compiles back to it.
    ///
    /// # Errors
    /// When it contains a construct without source form, such as vectors and lowered forms.
    pub fn source(&self) -> Result<String, IrError> {
        match sayable::refusal(self) {
            Some(refusal) => Err(refusal.error(self)),
            None => Ok(self.to_string()),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, |p| p.out = p.ty(self))
    }
}

impl fmt::Display for relax::Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(f, |p| p.function(&self.name, self))
    }
}

impl fmt::Display for BaseFunc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BaseFunc::Prim(func) => func.fmt(f),
            BaseFunc::Relax(func) => func.fmt(f),
            BaseFunc::Extern(func) => func.fmt(f),
        }
    }
}

impl fmt::Display for ExternFunc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "extern_fn!({:?})", self.symbol)
    }
}

impl fmt::Display for IRModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attrs = module::attrs_arg(&self.attrs).map(|attrs| format!("// {attrs}\n"));
        let items: Vec<String> = attrs.into_iter().chain(Printer::items(self, false)).collect();
        f.write_str(items.join("\n").trim_end())
    }
}

impl IRModule {
    /// The module as a Rust module `name`; its attribute `#[ir_module]` adds a function `module()` that rebuilds the module.
    ///
    /// Constructs that the DSL cannot express (`docs/guide/src/relax.md` lists them) are printed in a form that does not compile.
    pub fn source(&self, name: &str) -> String {
        let mut printer = Printer::default();
        let attrs = module::attrs_arg(&self.attrs).map_or(String::new(), |attrs| format!("({attrs})"));
        printer.line(format!("#[ir_module{attrs}]"));
        printer.braces(&format!("mod {}", names::identifier(name)), "", |p| {
            p.line("use tvm::prelude::*;");
            for item in Printer::items(self, true) {
                p.line("");
                item.lines().for_each(|line| p.line(line));
            }
        });
        printer.out
    }
}
