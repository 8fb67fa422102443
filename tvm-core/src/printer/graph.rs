//! Graph functions.

use rustc_hash::FxHashSet;
use tvm_runtime::Tensor;

use super::Printer;
use super::names::identifier;
use super::stmt::attr;
use crate::ir::structural::{Field, Fields, Node};
use crate::ir::{Type, Var, VarId};
use crate::relax::*;

/// Operators that the surface writes between their operands.
const INFIX: &[(&str, &str)] = &[
    ("add", "+"),
    ("subtract", "-"),
    ("multiply", "*"),
    ("divide", "/"),
    ("equal", "=="),
    ("not_equal", "!="),
    ("less", "<"),
    ("less_equal", "<="),
    ("greater", ">"),
    ("greater_equal", ">="),
];

/// Most elements of a constant that is printed whole.
const CONSTANT_LIMIT: usize = 16;

impl Printer {
    pub(super) fn function(&mut self, name: &str, func: &Function) {
        self.attrs(&func.attrs);
        if !func.pure {
            self.line("// impure");
        }
        let surface = if is_relay(func.into()) { "relay" } else { "relax" };
        self.line(format!("#[{surface}::func]"));
        let type_params: Vec<&str> = func.type_params.iter().map(|param| &*param.0).collect();
        let generics =
            if type_params.is_empty() { String::new() } else { format!("<{}>", type_params.join(", ")) };
        let mark = self.names.open();
        let params = self.params(func);
        let head = format!("fn {}{generics}({params}) -> {}", identifier(name), self.ty(&func.ret));
        self.braces(&head, "", |p| p.body(&func.body));
        self.names.close(mark);
    }

    fn params(&mut self, func: &Function) -> String {
        let scalars = func.params.iter().filter(|param| matches!(param.ty(), Type::Prim(_)));
        scalars.for_each(|param| {
            self.name_index(param);
        });
        let dims: Vec<Var> = Fields::of(func.into())
            .iter()
            .filter_map(|(_, field)| if let Field::Dim(var) = field { Some((*var).clone()) } else { None })
            .collect();
        for dim in &dims {
            if !self.names.knows(dim) {
                self.name_index(dim);
            }
        }
        let param = |param: &Var| {
            let name = if self.names.knows(param) { self.names.var(param) } else { self.names.define(param) };
            format!("{name}: {}", self.ty(param.ty()))
        };
        let params: Vec<String> = func.params.iter().map(param).collect();
        params.join(", ")
    }

    /// Bindings and the result, in the scope that is open.
    fn body(&mut self, body: &Body) {
        crate::support::with_stack(|| {
            for (i, block) in body.blocks.iter().enumerate() {
                if block.dataflow {
                    self.dataflow(block, &body.blocks[i + 1..], &body.ret);
                } else {
                    block.bindings.iter().for_each(|binding| self.binding(binding));
                }
            }
            let ret = self.arg(&body.ret);
            self.line(ret);
        });
    }

    /// `let (outputs) = dataflow(|| { bindings; (outputs) });`
    fn dataflow(&mut self, block: &BindingBlock, rest: &[BindingBlock], ret: &Arg) {
        let mut used = FxHashSet::default();
        rest.iter().for_each(|block| collect_uses(block.into(), &mut used));
        collect_uses(ret.into(), &mut used);
        let outputs: Vec<&Var> = block
            .bindings
            .iter()
            .map(|binding| &binding.var)
            .filter(|var| used.contains(&var.id()))
            .collect();
        let at = self.out.len();
        let mark = self.names.open();
        let mut inside = String::new();
        self.scope(|p| {
            block.bindings.iter().for_each(|binding| p.binding(binding));
            let names: Vec<String> = outputs.iter().map(|var| p.names.var(var)).collect();
            inside = tuple(&names);
            p.line(inside.clone());
        });
        self.names.close(mark);
        let text = self.out.split_off(at);
        let names: Vec<String> = outputs.iter().map(|var| self.names.define(var)).collect();
        self.line(format!("let {} = dataflow(|| {{", tuple(&names)));
        self.out.push_str(&text);
        self.line("});");
    }

    fn binding(&mut self, binding: &Binding) {
        let var = &binding.var;
        if let Expr::Function(func) = &binding.value {
            let name = self.names.define(var);
            let mark = self.names.open();
            let params = self.params(func);
            let head = format!("let {name} = |{params}| -> {}", self.ty(&func.ret));
            self.braces(&head, ";", |p| p.body(&func.body));
            return self.names.close(mark);
        }
        if binding.match_cast {
            let value = if let Expr::Arg(arg) = &binding.value { self.arg(arg) } else { String::new() };
            let dims: Vec<Var> = Fields::of(binding.into())
                .iter()
                .filter_map(
                    |(_, field)| if let Field::Dim(var) = field { Some((*var).clone()) } else { None },
                )
                .collect();
            for dim in dims {
                if !self.names.knows(&dim) {
                    self.name_index(&dim);
                }
            }
            let ty = self.ty(var.ty());
            let name = self.names.define(var);
            return self.line(format!("let {name} = match_cast({value}, {ty});"));
        }
        match &binding.value {
            Expr::If(it) => {
                let head = format!("if {}", self.arg(&it.cond));
                self.nested(var, &head, |p| {
                    p.scope(|p| p.body(&it.then_branch));
                    p.line("} else {");
                    p.scope(|p| p.body(&it.else_branch));
                });
            }
            Expr::Match(it) => {
                let head = format!("match {}", self.arg(&it.value));
                self.nested(var, &head, |p| {
                    p.scope(|p| it.clauses.iter().for_each(|clause| p.clause(clause)))
                });
            }
            Expr::Arg(_)
            | Expr::Call(_)
            | Expr::TupleGetItem(..)
            | Expr::Function(_)
            | Expr::RefCreate(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..) => {
                let value = self.graph_expr(&binding.value);
                let name = self.names.define(var);
                self.line(format!("let {name} = {value};"));
            }
        }
    }

    /// `let var = head { body };`, where the variable gets its name after the body.
    fn nested(&mut self, var: &Var, head: &str, body: impl FnOnce(&mut Printer)) {
        let at = self.out.len();
        body(self);
        let text = self.out.split_off(at);
        let name = self.names.define(var);
        self.line(format!("let {name} = {head} {{"));
        self.out.push_str(&text);
        self.line("};");
    }

    fn clause(&mut self, clause: &Clause) {
        let mark = self.names.open();
        let pattern = self.pattern(&clause.pattern);
        self.braces(&format!("{pattern} =>"), "", |p| p.body(&clause.body));
        self.names.close(mark);
    }

    fn pattern(&mut self, pattern: &Pattern) -> String {
        match pattern {
            Pattern::Wildcard => "_".to_string(),
            Pattern::Var(var) => self.names.define(var),
            Pattern::Constructor(it, fields) => {
                let fields: Vec<String> = fields.iter().map(|field| self.pattern(field)).collect();
                let fields =
                    if fields.is_empty() { String::new() } else { format!("({})", fields.join(", ")) };
                format!("{}::{}{fields}", it.ty, it.name)
            }
            Pattern::Tuple(fields) => {
                let fields: Vec<String> = fields.iter().map(|field| self.pattern(field)).collect();
                if let [field] = &fields[..] {
                    format!("({field},)")
                } else {
                    format!("({})", fields.join(", "))
                }
            }
        }
    }

    fn graph_expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Arg(arg) => self.arg(arg),
            Expr::Call(call) => self.graph_call(call),
            Expr::TupleGetItem(tuple, index) => format!("{}.{index}", self.arg(tuple)),
            Expr::RefCreate(value) => format!("ref_create({})", self.arg(value)),
            Expr::RefRead(cell) => format!("ref_read({})", self.arg(cell)),
            Expr::RefWrite(cell, value) => format!("ref_write({}, {})", self.arg(cell), self.arg(value)),
            // Only bindings hold these, and they print them.
            Expr::If(_) | Expr::Match(_) | Expr::Function(_) => expr_kind(expr),
        }
    }

    fn graph_call(&mut self, call: &Call) -> String {
        let mut args: Vec<String> = call.args.iter().map(|arg| self.arg(arg)).collect();
        let destination = |p: &mut Printer, callee: String, args: Vec<String>| {
            let args =
                if let [arg] = &args[..] { format!("({arg},)") } else { format!("({})", args.join(", ")) };
            let ret = call.ret.as_ref().map_or(String::new(), |ty| format!(", {}", p.ty(ty)));
            (callee, args, ret)
        };
        let callee = match &call.callee {
            Callee::Op(op) => {
                let infix = INFIX.iter().find(|(name, _)| *name == op.name);
                if let (Some((_, symbol)), [a, b], true) = (infix, &args[..], call.attrs.is_empty()) {
                    return format!("{a} {symbol} {b}");
                }
                args.extend(call.attrs.iter().map(|(name, value)| format!("{name} = {}", attr(value))));
                op.name.replace('.', "::")
            }
            Callee::Global(gv) => identifier(gv.name()),
            Callee::Var(var) => self.names.var(var),
            Callee::Constructor(it) if args.is_empty() => return format!("{}::{}", it.ty, it.name),
            Callee::Constructor(it) => format!("{}::{}", it.ty, it.name),
            Callee::Tir(gv) => {
                let (callee, args, ret) = destination(self, identifier(gv.name()), args);
                return format!("call_tir({callee}, {args}{ret})");
            }
            Callee::DpsPacked(symbol) => {
                let (callee, args, ret) = destination(self, format!("{symbol:?}"), args);
                return format!("call_dps_packed({callee}, {args}{ret})");
            }
            Callee::Packed(symbol) => {
                let (callee, args, ret) = destination(self, format!("{symbol:?}"), args);
                return format!("call_packed({callee}, {args}{ret})");
            }
        };
        format!("{callee}({})", args.join(", "))
    }

    fn arg(&mut self, arg: &Arg) -> String {
        match arg {
            Arg::Var(var) => self.names.var(var),
            Arg::Const(tensor) => constant(tensor),
            Arg::Global(gv) => identifier(gv.name()),
            Arg::Tuple(fields) => {
                let fields: Vec<String> = fields.iter().map(|field| self.arg(field)).collect();
                if let [field] = &fields[..] {
                    format!("({field},)")
                } else {
                    format!("({})", fields.join(", "))
                }
            }
            Arg::Shape(values) => format!("shape([{}])", self.indices(values)),
            Arg::Prim(value) => self.any_expr(value),
            Arg::DType(dtype) => dtype.to_string(),
            Arg::Str(text) => format!("{text:?}"),
        }
    }
}

fn expr_kind(expr: &Expr) -> String {
    Node::from(expr).kind().to_string()
}

/// One name, or a tuple of them.
fn tuple(names: &[String]) -> String {
    if let [name] = names { name.clone() } else { format!("({})", names.join(", ")) }
}

/// A small constant as a literal, a large one by its type.
fn constant(tensor: &Tensor) -> String {
    let dtype = tensor.dtype();
    if tensor.len() <= CONSTANT_LIMIT
        && let Some(values) = values(tensor)
    {
        let mut at = 0;
        return format!("constant::<{dtype}>({})", nested_list(tensor.shape(), &values, &mut at));
    }
    let shape: Vec<String> = tensor.shape().iter().map(i64::to_string).collect();
    format!("constant::<{dtype}>(/* [{}] */)", shape.join(", "))
}

fn nested_list(shape: &[i64], values: &[String], at: &mut usize) -> String {
    let Some((&len, rest)) = shape.split_first() else {
        let value = values.get(*at).cloned().unwrap_or_default();
        *at += 1;
        return value;
    };
    let items: Vec<String> = (0..len).map(|_| nested_list(rest, values, at)).collect();
    format!("[{}]", items.join(", "))
}

/// The elements as literals, for the types that have some.
fn values(tensor: &Tensor) -> Option<Vec<String>> {
    fn debug<T: tvm_runtime::Element + std::fmt::Debug>(tensor: &Tensor) -> Option<Vec<String>> {
        Some(tensor.as_slice::<T>().ok()?.iter().map(|value| format!("{value:?}")).collect())
    }
    debug::<f32>(tensor)
        .or_else(|| debug::<f64>(tensor))
        .or_else(|| debug::<i64>(tensor))
        .or_else(|| debug::<i32>(tensor))
        .or_else(|| debug::<u8>(tensor))
        .or_else(|| debug::<i8>(tensor))
        .or_else(|| debug::<bool>(tensor))
}

fn collect_uses(node: Node<'_>, out: &mut FxHashSet<VarId>) {
    for (_, field) in Fields::of(node).iter() {
        match field {
            Field::UseVar(var) => {
                out.insert(var.id());
            }
            Field::Node(node) => collect_uses(*node, out),
            _ => {}
        }
    }
}

/// True when the function uses what only the functional surface can say: data types, matches, cells, local recursion.
fn is_relay(node: Node<'_>) -> bool {
    match node {
        Node::Type(Type::Adt(_) | Type::Ref(_))
        | Node::RelaxExpr(Expr::Match(_) | Expr::RefCreate(_) | Expr::RefRead(_) | Expr::RefWrite(..)) => {
            true
        }
        Node::RelaxExpr(Expr::Call(call)) if matches!(call.callee, Callee::Constructor(_)) => true,
        _ => Fields::of(node)
            .iter()
            .any(|(_, field)| if let Field::Node(node) = field { is_relay(*node) } else { false }),
    }
}
