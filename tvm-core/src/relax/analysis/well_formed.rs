//! Well-formedness of graph functions: rules W9 to W14 (`docs/guide/src/relax.md`), in addition to the scope rules.
//!
//! TVM counterpart: `relax.analysis.well_formed`.

use tvm_runtime::DataType;

use super::infer::{infer_body, infer_type};
use super::{Unifier, is_pure, show_type};
use crate::ir::structural::{Field, Fields, Node};
use crate::ir::well_formed::{Report, Scopes};
use crate::ir::{BaseFunc, IRModule, IrError, Span, Type};
use crate::relax::{Arg, Binding, Body, Expr, Function};
use crate::support::with_stack;
use crate::tir::{self, analysis::check_expr};

/// Attribute of a function that counts as pure whatever it contains, because lowering to memory has made effects
/// explicit. The effect rules (W12, W13) do not apply to it. TVM counterpart: `relax.force_pure`.
pub const FORCE_PURE: &str = "relax.force_pure";

/// Checks one graph function of `module`.
///
/// # Errors
/// The violations, each with the number of its rule.
pub fn well_formed(func: &Function, module: &IRModule) -> Result<(), IrError> {
    let mut report = Report::default();
    Scopes::default().check(func.into(), &mut report);
    check_rules(func, module, &mut report);
    report.finish()
}

/// Checks the rules of one function, without the scope rules.
fn check_rules(func: &Function, module: &IRModule, report: &mut Report) {
    check_nodes(func.into(), module, &func.span, report);
    let effects = func.attrs.bool(FORCE_PURE) != Some(true);
    Rules { module, report, effects }.function(func);
}

impl BaseFunc {
    /// Checks the rules of one function of `module`, without the scope rules.
    pub(crate) fn check_rules(&self, module: &IRModule, report: &mut Report) {
        match self {
            BaseFunc::Prim(func) => tir::analysis::check_rules(func, report),
            BaseFunc::Relax(func) => check_rules(func, module, report),
            BaseFunc::Extern(_) => {}
        }
    }
}

impl IRModule {
    /// Checks the rules of type definitions.
    pub(crate) fn check_types(&self, report: &mut Report) {
        let none = Span::none();
        for def in self.type_defs() {
            let name = &def.name;
            for (i, constructor) in def.constructors.iter().enumerate() {
                if def.constructors[..i].iter().any(|other| other.name == constructor.name) {
                    let message = format!("type `{name}` has two constructors `{}`", constructor.name);
                    report.add("W14", message, &none);
                }
            }
            for (i, param) in def.params.iter().enumerate() {
                if def.params[..i].contains(param) {
                    report.add("W14", format!("type `{name}` has two parameters `{}`", param.0), &none);
                }
            }
            check_nodes((&**def).into(), self, &none, report);
        }
    }
}

/// Checks what every node must satisfy by itself: the functions and types that it names exist, and extents are `i64`.
fn check_nodes(node: Node<'_>, module: &IRModule, outer: &Span, report: &mut Report) {
    with_stack(|| {
        let fields = Fields::of(node);
        let span = fields.span().unwrap_or(outer);
        if let Node::Expr(expr) = node {
            return check_expr(expr, span, report);
        }
        if let Node::Type(Type::Adt(adt)) = node {
            match module.type_def(&adt.name) {
                None => report.add("W14", format!("the module has no type `{}`", adt.name), span),
                Some(def) if def.params.len() != adt.args.len() => {
                    let (want, got) = (def.params.len(), adt.args.len());
                    let message = format!("type `{}` has {want} parameters, got {got} arguments", adt.name);
                    report.add("W14", message, span);
                }
                Some(_) => {}
            }
        }
        let extents = matches!(node, Node::Type(_) | Node::Arg(Arg::Shape(_)));
        for &(_, field) in fields.iter() {
            match field {
                Field::Node(Node::Expr(extent)) if extents && extent.dtype() != DataType::I64 => {
                    let message = format!("the extent `{extent}` is {}, expected i64", extent.dtype());
                    report.add("W3", message, span);
                }
                Field::Node(child) => check_nodes(child, module, span, report),
                Field::Global(gv) if module.get(gv).is_none() => {
                    report.add("W9", format!("the module has no function `{}`", gv.name()), span);
                }
                _ => {}
            }
        }
    });
}

struct Rules<'a> {
    module: &'a IRModule,
    report: &'a mut Report,
    /// Whether the effect rules (W12, W13) apply.
    effects: bool,
}

impl Rules<'_> {
    fn function(&mut self, func: &Function) {
        let got = infer_body(&func.body, self.module);
        if let Err(why) = Unifier::fixed(&func.ret).unify(&func.ret, &got) {
            let (name, ret, got) = (&func.name, show_type(&func.ret), show_type(&got));
            let message = format!("function `{name}` returns {ret}, its body gives {got}: {}", why.0);
            self.report.add("W11", message, &func.span);
        }
        self.body(&func.body, func.pure, &func.name);
    }

    /// Checks a body of the function `name`; if `pure`, nothing in it may have a side effect.
    fn body(&mut self, body: &Body, pure: bool, name: &str) {
        with_stack(|| {
            for block in body.blocks.iter() {
                for binding in block.bindings.iter() {
                    self.binding(binding);
                    self.effects(binding, block.dataflow, pure, name);
                    self.inside(&binding.value, pure, name);
                }
            }
        });
    }

    fn inside(&mut self, value: &Expr, pure: bool, name: &str) {
        value.bodies().into_iter().for_each(|body| self.body(body, pure, name));
        if let Expr::Function(func) = value {
            self.function(func);
        }
    }

    fn binding(&mut self, binding: &Binding) {
        let var = &binding.var;
        if binding.match_cast {
            if !matches!(binding.value, Expr::Arg(_)) {
                self.report.add("W10", "`match_cast` takes a value that has a name", var.span());
            }
            return;
        }
        match infer_type(&binding.value, self.module) {
            Err(err) => {
                for diagnostic in err.at(var.span()).0 {
                    self.report.add("W9", diagnostic.message, &diagnostic.span);
                }
            }
            Ok(got) => {
                if let Err(why) = Unifier::fixed(var.ty()).unify(var.ty(), &got) {
                    let (name, ty, got) = (var.name(), show_type(var.ty()), show_type(&got));
                    let message = format!("variable `{name}` is {ty}, its value is {got}: {}", why.0);
                    self.report.add("W10", message, var.span());
                }
            }
        }
    }

    fn effects(&mut self, binding: &Binding, dataflow: bool, pure: bool, name: &str) {
        let branches = matches!(binding.value, Expr::If(_) | Expr::Match(_));
        if dataflow && branches {
            self.report.add("W12", "a dataflow block has no control flow", binding.var.span());
        }
        // The arms of a branch are checked by themselves.
        if branches || !self.effects || is_pure(&binding.value, self.module) {
            return;
        }
        let var = binding.var.name();
        if dataflow {
            let message = format!("`{var}` is computed with a side effect, in a dataflow block");
            self.report.add("W12", message, binding.var.span());
        } else if pure {
            let message = format!("`{var}` is computed with a side effect, but `{name}` is declared pure");
            self.report.add("W13", message, binding.var.span());
        }
    }
}
