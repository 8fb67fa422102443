//! Printing tensor programs.

use super::Printer;
use super::c_functions::CFunctions;
use super::module::attrs_arg;
use super::sayable::refusal;
use super::scalar::generic_arg;
use crate::tir::{Buffer, Param, PrimFunc, Scope, Stmt};

impl Printer {
    pub(super) fn prim_func(&mut self, name: &str, func: &PrimFunc) {
        let c_functions = CFunctions::of(func);
        self.names.reserve(c_functions.symbols());
        func.symbolic_dims().iter().for_each(|dim| {
            self.name_index(dim);
        });
        let params: Vec<String> = func.params.iter().map(|param| self.param(param)).collect();
        let root = root(&func.body);
        let more = match root {
            Some(root) => attrs_arg(&root.annotations).map(|attrs| attrs.replacen("attrs", "root", 1)),
            None => Some("lowered".to_string()),
        };
        let dims = self.dims_arg(&func.param_vars());
        self.attribute("prim_func", [self.name_arg(name), dims, attrs_arg(&func.attrs), more]);
        let head = format!("fn {}({})", self.context.identifier(name), params.join(", "));
        let silent = refusal(func).filter(|it| it.silent);
        self.braces(&head, "", |p| {
            if let Some(refusal) = silent {
                p.unsayable(&refusal.what);
            }
            c_functions.declaration().iter().for_each(|line| p.line(line));
            match root {
                Some(root) => p.block_body(root),
                None => p.stmt(&func.body),
            }
        });
    }

    fn param(&mut self, param: &Param) -> String {
        match param {
            Param::In(buffer) => {
                let (layout, ty) = (self.param_layout(buffer), self.buffer_type(buffer));
                format!("{layout}{}: &{ty}", self.names.define_buffer(buffer))
            }
            Param::Out(buffer) => {
                let (layout, ty) = (self.param_layout(buffer), self.buffer_type(buffer));
                format!("{layout}{}: &mut {ty}", self.names.define_buffer(buffer))
            }
            Param::Scalar(var) => format!("{}: {}", self.names.define(var), var.dtype()),
        }
    }

    /// Layout and scope of a parameter, if not the default, as attributes that the DSL rejects: it has only compact
    /// parameters in main memory.
    fn param_layout(&mut self, buffer: &Buffer) -> String {
        let mut layout = self.layout(buffer);
        if buffer.scope != Scope::Global {
            layout.push(format!("#[scope({:?})]", buffer.scope.name()));
        }
        layout.iter().map(|attr| format!("{attr} ")).collect()
    }

    fn buffer_type(&mut self, buffer: &Buffer) -> String {
        if buffer.shape.is_empty() {
            return format!("Tensor<{}>", buffer.dtype);
        }
        let extents: Vec<String> = buffer.shape.iter().map(|it| generic_arg(self.index(it))).collect();
        format!("Tensor<{}, {}>", buffer.dtype, extents.join(", "))
    }
}

/// The root block, when `body` realizes a plain one: named `root`, without axes, predicate or init.
pub(super) fn root(body: &Stmt) -> Option<&crate::tir::Block> {
    let Stmt::BlockRealize(it) = body else { return None };
    let plain = it.iter_values.is_empty()
        && it.predicate.is_const(1)
        && &*it.block.name == "root"
        && it.block.init.is_none();
    plain.then_some(&it.block)
}
