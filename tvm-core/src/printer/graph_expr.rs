//! Printing graph expressions: calls and arguments.

use super::Printer;
use super::constant::constant;
use super::stmt::attr;
use super::ty::tuple;
use crate::ir::structural::Node;
use crate::ir::{ArgKind, BaseFunc, GlobalVar, Op, Type};
use crate::relax::*;
use crate::script::graph::ops;
use crate::tir::PrimExpr;

/// Operators with infix syntax in the DSL.
const INFIX: &[(&str, &str)] = &[
    ("add", "+"),
    ("subtract", "-"),
    ("multiply", "*"),
    ("divide", "/"),
    ("mod", "%"),
    ("logical_and", "&"),
    ("logical_or", "|"),
    ("logical_xor", "^"),
    ("equal", "=="),
    ("not_equal", "!="),
    ("less", "<"),
    ("less_equal", "<="),
    ("greater", ">"),
    ("greater_equal", ">="),
];

impl Printer {
    pub(super) fn graph_expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Arg(arg) => format!("bind({})", self.arg(arg)),
            Expr::Call(call) => self.graph_call(call),
            Expr::TupleGetItem(tuple @ Arg::Var(_), index) => format!("{}.{index}", self.arg(tuple)),
            Expr::TupleGetItem(tuple, index) => format!("tuple_get_item({}, {index})", self.arg(tuple)),
            Expr::RefCreate(value) => format!("ref_create({})", self.arg(value)),
            Expr::RefRead(cell) => format!("ref_read({})", self.arg(cell)),
            Expr::RefWrite(cell, value) => format!("ref_write({}, {})", self.arg(cell), self.arg(value)),
            // These occur only as values of bindings, and `binding` prints them.
            Expr::If(_) | Expr::Match(_) | Expr::Function(_) => Node::from(expr).kind().to_string(),
        }
    }

    fn graph_call(&mut self, call: &Call) -> String {
        if let Callee::Op(op) = call.callee {
            return self.op_call(op, call);
        }
        let args: Vec<String> = call.args.iter().map(|arg| self.arg(arg)).collect();
        let ret = call.ret.as_ref();
        let (callee, args) = match &call.callee {
            Callee::Op(_) => (String::new(), args),
            Callee::Global(gv) => (self.context.identifier(gv.name()), args),
            Callee::Var(var) => (self.names.var(var), args),
            Callee::Constructor(it) => {
                let types = match ret {
                    Some(Type::Adt(ty)) => {
                        let types: Vec<String> = ty.args.iter().map(|arg| self.ty(arg)).collect();
                        format!("::<{}>", types.join(", "))
                    }
                    _ => String::new(),
                };
                let callee = format!("{}{types}::{}", it.ty, it.name);
                if args.is_empty() {
                    return callee;
                }
                (callee, args)
            }
            Callee::Tir(gv) => {
                ("call_tir".into(), self.destination(self.context.identifier(gv.name()), &args, ret))
            }
            Callee::TirInplace(gv) => {
                let outputs = match ret {
                    Some(Type::Tuple(fields)) => fields.len(),
                    _ => 1,
                };
                let (inputs, initial) = args.split_at(args.len().saturating_sub(outputs));
                let gv = self.context.identifier(gv.name());
                let args = [gv, tuple(inputs), tuple(initial)];
                ("call_tir_inplace".into(), args.into_iter().chain(ret.map(|ty| self.type_arg(ty))).collect())
            }
            Callee::DpsPacked(symbol) => {
                ("call_dps_packed".into(), self.destination(format!("{symbol:?}"), &args, ret))
            }
            Callee::Packed(symbol) => {
                ("call_packed".into(), self.destination(format!("{symbol:?}"), &args, ret))
            }
        };
        let text = format!("{callee}({})", args.join(", "));
        let typed = matches!(call.callee, Callee::Global(_) | Callee::Var(_)) && ret.is_some();
        // The DSL cannot express these: print macro calls, which do not compile because it has no macros.
        match (call.attrs.is_empty(), typed) {
            (true, false) => text,
            (false, _) => format!("with_attributes!({text})"),
            (true, true) => format!("with_type!({text})"),
        }
    }

    /// `callee, (args), Type`
    fn destination(&mut self, callee: String, args: &[String], ret: Option<&Type>) -> Vec<String> {
        [callee, tuple(args)].into_iter().chain(ret.map(|ty| self.type_arg(ty))).collect()
    }

    fn op_call(&mut self, op: Op, call: &Call) -> String {
        let tensor = |arg: &Arg| match arg {
            Arg::Var(var) => !matches!(var.ty(), Type::Prim(_)),
            Arg::Const(_) => true,
            _ => false,
        };
        let infix = INFIX.iter().find(|(name, _)| *name == op.name);
        if let (Some((_, symbol)), [a, b], true) = (infix, &call.args[..], call.attrs.is_empty())
            && tensor(a)
            && tensor(b)
        {
            return format!("{} {symbol} {}", self.arg(a), self.arg(b));
        }
        let mut args: Vec<String> = Vec::new();
        for (i, arg) in call.args.iter().enumerate() {
            args.push(match (op.args.get(i).map(|def| def.kind), arg) {
                (Some(ArgKind::Prim), Arg::Prim(value)) if is_plain(value) => self.scalar(value),
                _ => self.arg(arg),
            });
        }
        args.extend(call.attrs.iter().map(|(name, value)| format!("{name} = {}", attr(value))));
        match ops::function_of(op) {
            Some(function) => format!("{function}({})", args.join(", ")),
            None => {
                args.insert(0, format!("{:?}", op.name));
                format!("call_op({})", args.join(", "))
            }
        }
    }

    pub(super) fn arg(&mut self, arg: &Arg) -> String {
        match arg {
            Arg::Var(var) => self.names.var(var),
            Arg::Const(tensor) => constant(tensor, self.whole),
            Arg::Global(gv) => self.global(gv),
            Arg::Tuple(fields) => {
                let fields: Vec<String> = fields.iter().map(|field| self.arg(field)).collect();
                tuple(&fields)
            }
            Arg::Shape(values) => format!("shape([{}])", self.scalars(values)),
            Arg::Prim(value) => format!("prim({})", self.scalar(value)),
            Arg::DType(dtype) => dtype.to_string(),
            Arg::Str(text) => format!("{text:?}"),
        }
    }

    fn global(&mut self, gv: &GlobalVar) -> String {
        let name = self.context.identifier(gv.name());
        match self.context.module.get(gv) {
            Some(BaseFunc::Prim(_) | BaseFunc::Extern(_)) => name,
            Some(BaseFunc::Relax(_)) | None => format!("function({name})"),
        }
    }
}

/// True when `value` as a literal without suffix, in place of a scalar argument, reads back as the same value.
fn is_plain(value: &PrimExpr) -> bool {
    match value {
        PrimExpr::IntImm(it) => it.dtype == tvm_runtime::DataType::I64 && it.value != i64::MIN,
        PrimExpr::FloatImm(it) => it.dtype == tvm_runtime::DataType::F32 && it.value.is_finite(),
        _ => false,
    }
}
