//! Tensor programs and modules.

use super::Printer;
use super::names::identifier;
use super::stmt::attr;
use crate::ir::{Attrs, BaseFunc, IRModule, TypeDef};
use crate::tir::{Buffer, Param, PrimFunc, Stmt};

impl Printer {
    pub(super) fn prim_func(&mut self, name: &str, func: &PrimFunc) {
        func.symbolic_dims().iter().for_each(|dim| {
            self.name_index(dim);
        });
        let params: Vec<String> = func.params.iter().map(|param| self.param(param)).collect();
        self.attrs(&func.attrs);
        self.line("#[prim_func]");
        let head = format!("fn {}({})", identifier(name), params.join(", "));
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
        format!("Tensor<{}, {}>", buffer.dtype, self.extents(&buffer.shape))
    }

    /// Attributes of a function, as comments.
    pub(super) fn attrs(&mut self, attrs: &Attrs) {
        for (name, value) in attrs.iter() {
            self.line(format!("// {name} = {}", attr(value)));
        }
    }

    /// The items of a module, each with its own names.
    pub(super) fn items(&mut self, module: &IRModule) -> Vec<String> {
        let item = |body: &dyn Fn(&mut Printer)| {
            let mut printer = Printer::default();
            body(&mut printer);
            printer.out
        };
        let mut items = Vec::new();
        if !module.attrs.is_empty() {
            items.push(item(&|p| p.attrs(&module.attrs)));
        }
        items.extend(module.type_defs().map(|def| item(&|p| p.type_def(def))));
        items.extend(module.functions().map(|(gv, func)| {
            item(&|p| match func {
                BaseFunc::Prim(func) => p.prim_func(gv.name(), func),
                BaseFunc::Relax(func) => p.function(gv.name(), func),
                BaseFunc::Extern(func) => p.line(format!("// {} = {func}", gv.name())),
            })
        }));
        items
    }

    fn type_def(&mut self, def: &TypeDef) {
        let params: Vec<&str> = def.params.iter().map(|param| &*param.0).collect();
        let params = if params.is_empty() { String::new() } else { format!("<{}>", params.join(", ")) };
        self.line("#[relay::adt]");
        self.braces(&format!("enum {}{params}", def.name), "", |p| {
            for constructor in def.constructors.iter() {
                let fields: Vec<String> = constructor
                    .fields
                    .iter()
                    .map(|field| {
                        let text = p.ty(field);
                        let recursive = matches!(field, crate::ir::Type::Adt(it) if it.name == def.name);
                        if recursive { format!("Box<{text}>") } else { text }
                    })
                    .collect();
                let fields =
                    if fields.is_empty() { String::new() } else { format!("({})", fields.join(", ")) };
                p.line(format!("{}{fields},", constructor.name));
            }
        });
    }
}

/// The root block, when the body is the realize of one that nothing is said of.
fn root(body: &Stmt) -> Option<&crate::tir::Block> {
    let Stmt::BlockRealize(it) = body else { return None };
    let plain = it.iter_values.is_empty() && it.predicate.is_const(1) && &*it.block.name == "root";
    plain.then_some(&it.block)
}
