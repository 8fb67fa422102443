//! Printing graph functions: signatures, bodies, bindings, patterns.

use indexmap::IndexSet;
use rustc_hash::FxHashSet;

use super::Printer;
use super::module::attrs_arg;
use super::ty::tuple;
use crate::ir::structural::{Field, Fields, Node, structural_equal};
use crate::ir::{Type, Var, VarId};
use crate::relax::analysis::{bound_dims, infer_type};
use crate::relax::*;
use crate::script::graph::ops;

impl Printer {
    pub(super) fn function(&mut self, name: &str, func: &Function) {
        self.names.reserve(ops::NAMES.iter().copied());
        let cx = self.context.clone();
        self.names.reserve(cx.identifiers());
        let surface = if is_relay(func.into()) { "relay::func" } else { "relax::func" };
        let type_params: Vec<&str> = func.type_params.iter().map(|param| &*param.0).collect();
        let generics =
            if type_params.is_empty() { String::new() } else { format!("<{}>", type_params.join(", ")) };
        let mark = self.names.open();
        let (params, dims) = (self.params(func), self.bounds(func));
        self.attribute(surface, [self.name_arg(name), impure_arg(func), dims, attrs_arg(&func.attrs)]);
        let head = format!("fn {}{generics}({params}) -> {}", cx.identifier(name), self.ty(&func.ret));
        self.braces(&head, "", |p| p.body(&func.body));
        self.names.close(mark);
    }

    /// Scalars bind first, then dimensions, then the other parameters.
    fn params(&mut self, func: &Function) -> String {
        for scalar in func.params.iter().filter(|param| matches!(param.ty(), Type::Prim(_))) {
            self.names.define(scalar);
        }
        self.new_dims(func.into());
        let param = |param: &Var| {
            let name = if self.names.knows(param) { self.names.var(param) } else { self.names.define(param) };
            format!("{name}: {}", self.ty(param.ty()))
        };
        let params: Vec<String> = func.params.iter().map(param).collect();
        params.join(", ")
    }

    /// `dims(..)` of the scalars and dimensions that `func` binds.
    fn bounds(&mut self, func: &Function) -> Option<String> {
        let mut bound: IndexSet<Var> = IndexSet::new();
        bound.extend(func.params.iter().filter(|param| matches!(param.ty(), Type::Prim(_))).cloned());
        func.params.iter().for_each(|param| {
            bound_dims(param.ty(), &mut |dim| {
                bound.insert(dim.clone());
            });
        });
        self.dims_arg(&bound)
    }

    /// Names the dimensions that `node` binds.
    fn new_dims(&mut self, node: Node<'_>) {
        for (_, field) in Fields::of(node).iter() {
            if let Field::Dim(dim) = field
                && !self.names.knows(dim)
            {
                self.names.define(dim);
            }
        }
    }

    /// Prints the bindings and the result, in the current scope.
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
        let names = |names: &[String]| if let [name] = names { name.clone() } else { tuple(names) };
        // Dimensions that a `match_cast` binds are visible after the block.
        block.bindings.iter().for_each(|binding| self.new_dims(binding.into()));
        let at = self.out.len();
        let mark = self.names.open();
        self.scope(|p| {
            block.bindings.iter().for_each(|binding| p.binding(binding));
            let inside: Vec<String> = outputs.iter().map(|var| p.names.var(var)).collect();
            p.line(names(&inside));
        });
        self.names.close(mark);
        let text = self.out.split_off(at);
        let outside: Vec<String> = outputs.iter().map(|var| self.names.define(var)).collect();
        self.line(format!("let {} = dataflow(|| {{", names(&outside)));
        self.out.push_str(&text);
        self.line("});");
    }

    fn binding(&mut self, binding: &Binding) {
        let var = &binding.var;
        if binding.match_cast {
            let value = if let Expr::Arg(arg) = &binding.value { self.arg(arg) } else { String::new() };
            self.new_dims(binding.into());
            let ty = self.type_arg(var.ty());
            let name = self.names.define(var);
            return self.line(format!("let {name} = match_cast({value}, {ty});"));
        }
        match &binding.value {
            Expr::Function(func) => self.local(var, func),
            Expr::If(it) => {
                let head = format!("if {}", self.arg(&it.cond));
                self.nested(binding, &head, |p| {
                    p.scope(|p| p.body(&it.then_branch));
                    p.line("} else {");
                    p.scope(|p| p.body(&it.else_branch));
                });
            }
            Expr::Match(it) => {
                let head = format!("match {}", self.arg(&it.value));
                self.nested(binding, &head, |p| {
                    p.scope(|p| it.clauses.iter().for_each(|clause| p.clause(clause)))
                });
            }
            Expr::Arg(_)
            | Expr::Call(_)
            | Expr::TupleGetItem(..)
            | Expr::RefCreate(_)
            | Expr::RefRead(_)
            | Expr::RefWrite(..) => {
                let (value, ty) = (self.graph_expr(&binding.value), self.annotation(binding));
                let name = self.names.define(var);
                self.line(format!("let {name}{ty} = {value};"));
            }
        }
    }

    /// `: T` when the type of the variable differs from the inferred type of its value.
    fn annotation(&mut self, binding: &Binding) -> String {
        let ty = binding.var.ty();
        match infer_type(&binding.value, &self.context.module) {
            Ok(inferred) if structural_equal(&inferred, ty).is_err() => format!(": {}", self.ty(ty)),
            _ => String::new(),
        }
    }

    /// `let f = |x: T| -> U { body };`
    fn local(&mut self, var: &Var, func: &Function) {
        for param in func.type_params.iter() {
            self.unsayable(&format!("a local function that is generic over {}", param.0));
        }
        let name = self.names.define(var);
        let mark = self.names.open();
        let (params, dims) = (self.params(func), self.bounds(func));
        let args = [impure_arg(func), dims, attrs_arg(&func.attrs)];
        if args.iter().any(Option::is_some) {
            self.attribute("relax::func", args);
        }
        let head = format!("let {name} = |{params}| -> {}", self.ty(&func.ret));
        self.braces(&head, ";", |p| p.body(&func.body));
        self.names.close(mark);
    }

    /// `let var = head { body };`; the variable is named after the body is printed.
    fn nested(&mut self, binding: &Binding, head: &str, body: impl FnOnce(&mut Printer)) {
        let at = self.out.len();
        body(self);
        let text = self.out.split_off(at);
        let ty = self.annotation(binding);
        let name = self.names.define(&binding.var);
        self.line(format!("let {name}{ty} = {head} {{"));
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
                tuple(&fields)
            }
        }
    }
}

fn impure_arg(func: &Function) -> Option<String> {
    (!func.pure).then(|| "impure".to_string())
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

/// True when the function uses features of the `relay` DSL: data types, matches, cells, type parameters.
fn is_relay(node: Node<'_>) -> bool {
    match node {
        Node::Type(Type::Adt(_) | Type::Ref(_) | Type::Param(_))
        | Node::RelaxExpr(Expr::Match(_) | Expr::RefCreate(_) | Expr::RefRead(_) | Expr::RefWrite(..)) => {
            true
        }
        Node::RelaxExpr(Expr::Call(call)) if matches!(call.callee, Callee::Constructor(_)) => true,
        _ => Fields::of(node)
            .iter()
            .any(|(_, field)| if let Field::Node(node) = field { is_relay(*node) } else { false }),
    }
}
