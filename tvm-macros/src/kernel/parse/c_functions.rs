//! C functions: their declarations, and calls `unsafe { f(x) }`.

use syn::spanned::Spanned;
use syn::{Expr as SynExpr, ExprCall, ExprUnsafe, ForeignItem, ItemForeignMod, Path, Stmt as SynStmt};

use super::Parser;
use super::scope::Name;
use crate::kernel::ast::ExprKind;
use crate::kernel::intrinsics::function;

const HELP: &str = "in a kernel, `unsafe { f(x) }` calls a C function";

/// Depth of the scopes in the body of a kernel.
const BODY: usize = 3;

/// The call in `unsafe { f(x) }`, and the path of the function.
fn c_call(it: &ExprUnsafe) -> Option<(&ExprCall, &Path)> {
    let [SynStmt::Expr(SynExpr::Call(call), None)] = it.block.stmts.as_slice() else { return None };
    match &*call.func {
        SynExpr::Path(func) if func.qself.is_none() => Some((call, &func.path)),
        _ => None,
    }
}

impl Parser<'_> {
    pub(super) fn c_call(&mut self, it: &ExprUnsafe) -> Option<ExprKind> {
        let Some((call, path)) = c_call(it) else {
            self.errors.push(&it.unsafe_token, "this `unsafe` block is no call of a function", HELP);
            return None;
        };
        if let Some(name) = path.get_ident() {
            let message = match self.scopes.lookup(name) {
                Some(Name::Unknown) | None if function(&name.to_string()).is_some() => {
                    format!("`{name}` is a function of kernels")
                }
                Some(Name::Unknown) => return None,
                Some(_) => format!("`{name}` is no function"),
                None => String::new(),
            };
            if !message.is_empty() {
                let help = format!("call the C function by its path: `unsafe {{ c::{name}(..) }}`");
                self.errors.push(name, message, &help);
                return None;
            }
        }
        if let Some(arg) = call.args.iter().find(|it| self.is_tensor(it)) {
            self.errors.push(arg, "a C function of kernels takes scalars", "pass elements");
            return None;
        }
        let args = call.args.iter().map(|it| self.expr(it)).collect();
        Some(ExprKind::CallC(path.clone(), args))
    }

    /// `unsafe extern "C" { fn f(x: f32) -> f32; }`
    pub(super) fn c_functions(&mut self, item: &ItemForeignMod) {
        if self.scopes.depth() != BODY {
            self.errors.push(&item.abi, "C functions are declared at the start of a kernel", "move it there");
            return;
        }
        for it in &item.items {
            match it {
                ForeignItem::Fn(it) if function(&it.sig.ident.to_string()).is_some() => {
                    let message = format!("`{}` is a function of kernels", it.sig.ident);
                    let help = "declare it in a module outside of the kernel, and call it by its path";
                    self.errors.push(&it.sig.ident, message, help);
                }
                ForeignItem::Fn(it) => {
                    if let Some(attr) = it.attrs.iter().find(|attr| attr.path().is_ident("link_name")) {
                        let message = "the name of a C function is its symbol";
                        self.errors.push(attr, message, "declare it under the name of the symbol");
                    }
                }
                other => {
                    let message = "a kernel declares only functions here";
                    self.errors.push_at(other.span(), message, "declare it outside of the kernel");
                }
            }
        }
        self.c_functions.push(item.clone());
    }
}
