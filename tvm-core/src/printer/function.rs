//! Tensor programs.

use super::Printer;
use super::scalar::generic_arg;
use crate::tir::{Buffer, Param, PrimFunc, Stmt};

impl Printer {
    pub(super) fn prim_func(&mut self, name: &str, func: &PrimFunc) {
        func.symbolic_dims().iter().for_each(|dim| {
            self.name_index(dim);
        });
        let params: Vec<String> = func.params.iter().map(|param| self.param(param)).collect();
        self.attribute("prim_func", Some(name), true, &func.attrs);
        let head = format!("fn {}({})", self.context.identifier(name), params.join(", "));
        self.braces(&head, "", |p| {
            for buffer in func.params.iter().filter_map(Param::buffer) {
                let name = p.names.buffer(buffer);
                p.layout(&name, buffer);
            }
            match root(&func.body) {
                Some(root) => p.block_body(root),
                None => p.stmt(&func.body),
            }
        });
    }

    fn param(&mut self, param: &Param) -> String {
        match param {
            Param::In(buffer) => {
                let ty = self.buffer_type(buffer);
                format!("{}: &{ty}", self.names.define_buffer(buffer))
            }
            Param::Out(buffer) => {
                let ty = self.buffer_type(buffer);
                format!("{}: &mut {ty}", self.names.define_buffer(buffer))
            }
            Param::Scalar(var) => format!("{}: {}", self.names.define(var), var.dtype()),
        }
    }

    fn buffer_type(&mut self, buffer: &Buffer) -> String {
        if buffer.shape.is_empty() {
            return format!("Tensor<{}>", buffer.dtype);
        }
        let extents: Vec<String> = buffer.shape.iter().map(|it| generic_arg(self.index(it))).collect();
        format!("Tensor<{}, {}>", buffer.dtype, extents.join(", "))
    }
}

/// The root block, when the body is the realize of one that nothing is said of.
fn root(body: &Stmt) -> Option<&crate::tir::Block> {
    let Stmt::BlockRealize(it) = body else { return None };
    let plain = it.iter_values.is_empty() && it.predicate.is_const(1) && &*it.block.name == "root";
    plain.then_some(&it.block)
}
