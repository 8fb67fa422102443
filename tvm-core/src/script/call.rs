//! Kernels called by kernels: the statements of the callee, on the caller's buffers, replace the call.
//!
//! The blocks of the callee become blocks of the caller; a number is appended to a name that is taken. Attributes of the
//! callee do not carry over.

use std::any::type_name;
use std::cell::RefCell;
use std::sync::Arc;

use super::{FuncBuilder, FuncSig, KernelValue};
use crate::ir::{BlockId, IrError};
use crate::tir::transform::{bind_buffer, inline_body, misfit_of_call};
use crate::tir::{
    Block, BlockNames, Buffer, Mutator, Param, PrimExpr, PrimFunc, Stmt, Substitute, Visitor, walk_block,
};

/// Maximum number of blocks that calls may add to a kernel: nested calls can grow it exponentially.
const MAX_INLINED: usize = 10_000;

thread_local! {
    /// Type and name of the kernels that are being built for a call, outermost first.
    static OPEN: RefCell<Vec<(&'static str, &'static str)>> = const { RefCell::new(Vec::new()) };
}

/// An argument of a call of a kernel.
#[derive(Clone, Debug)]
pub enum CallArg {
    /// A tensor.
    Buffer(Buffer),
    /// A scalar.
    Value(KernelValue),
}

impl FuncBuilder {
    /// `callee(args)`, where `P` is the type that the callee defines and `build` builds its statements.
    pub fn call<P>(
        &self,
        loc: (u32, u32),
        name: &'static str,
        build: impl FnOnce() -> FuncBuilder,
        args: Vec<CallArg>,
    ) {
        self.check_literals(loc);
        let key = type_name::<P>();
        let chain = OPEN.with_borrow(|open| {
            let start = open.iter().position(|it| it.0 == key)?;
            let names = open[start..].iter().map(|it| it.1).chain([name]);
            Some(names.collect::<Vec<_>>().join("` calls `"))
        });
        if let Some(chain) = chain {
            let message = format!("`{name}` calls itself: `{chain}`");
            return self.error(loc, message, "a kernel is expanded where it is called: use a loop");
        }
        OPEN.with_borrow_mut(|open| open.push((key, name)));
        let built = build().raw();
        OPEN.with_borrow_mut(Vec::pop);
        match built {
            Ok((callee, _)) => {
                if let Err(message) = self.inline(loc, &callee, args) {
                    self.error(loc, message, "pass what the parameters of the kernel say");
                }
            }
            Err(IrError(errors)) => self.state.borrow_mut().errors.extend(errors),
        }
    }

    /// A builder that stands for an invalid kernel: building it reports the error `message`.
    pub fn failed(message: &str) -> FuncBuilder {
        let builder = FuncBuilder::new(&FuncSig { name: "", params: &[] }, "", (0, 0));
        builder.error((0, 0), message, "");
        builder
    }

    /// Adds the statements of `callee` to the open scope.
    fn inline(&self, loc: (u32, u32), callee: &PrimFunc, args: Vec<CallArg>) -> Result<(), String> {
        let name = &callee.name;
        if args.len() != callee.params.len() {
            return Err(format!(
                "`{name}` takes {} arguments, but {} are given",
                callee.params.len(),
                args.len()
            ));
        }
        let mut map = Substitute::default();
        for (param, arg) in callee.params.iter().zip(args) {
            let what = param.name();
            match (param, arg) {
                (Param::In(buffer) | Param::Out(buffer), CallArg::Buffer(arg)) => {
                    if buffer.dtype != arg.dtype || buffer.shape.len() != arg.shape.len() {
                        return Err(format!(
                            "`{what}` of `{name}` is a tensor of {} with {} dimensions, `{}` is one of {} with {}",
                            buffer.dtype,
                            buffer.shape.len(),
                            arg.name,
                            arg.dtype,
                            arg.shape.len()
                        ));
                    }
                    if matches!(param, Param::Out(_)) && self.is_input(&arg) {
                        return Err(format!("`{name}` writes `{what}`, but `{}` is an input", arg.name));
                    }
                    bind_buffer(buffer, &arg, &mut map);
                }
                (Param::Scalar(var), CallArg::Value(value)) => {
                    let value = value.into_typed(var.dtype());
                    if value.dtype() != var.dtype() {
                        let (expected, got) = (var.dtype(), value.dtype());
                        return Err(format!("`{what}` of `{name}` is {expected}, the argument is {got}"));
                    }
                    let bound = self.bind(loc, var.name(), KernelValue::typed(value));
                    map.vars.insert(var.id(), bound.into_expr());
                }
                (Param::In(_) | Param::Out(_), CallArg::Value(_)) => {
                    return Err(format!("`{what}` of `{name}` is a tensor"));
                }
                (Param::Scalar(_), CallArg::Buffer(arg)) => {
                    return Err(format!("`{what}` of `{name}` is a scalar, `{}` is a tensor", arg.name));
                }
            }
        }
        self.check_aliases(callee, &map)?;
        let caller = {
            let state = self.state.borrow();
            let func = PrimFunc::new(self.name, state.params.clone(), Stmt::nop());
            PrimFunc { attrs: state.attrs.clone(), ..func }
        };
        if let Some(message) = misfit_of_call(&caller, callee, &map) {
            return Err(message);
        }
        let (buffers, body) = inline_body(callee, map);
        buffers.iter().for_each(|buffer| self.declare(buffer));
        let mut blocks = Blocks::default();
        blocks.visit_stmt(&body);
        let mut state = self.state.borrow_mut();
        state.inlined.extend(blocks.0);
        if state.inlined.len() > MAX_INLINED {
            return Err(format!("calls bring more than {MAX_INLINED} blocks into `{}`", self.name));
        }
        drop(state);
        self.push_all(Some(body));
        Ok(())
    }

    fn is_input(&self, buffer: &Buffer) -> bool {
        self.state.borrow().params.iter().any(|it| matches!(it, Param::In(input) if input == buffer))
    }

    /// Checks that no buffer is passed both for an output and for another parameter.
    fn check_aliases(&self, callee: &PrimFunc, map: &Substitute) -> Result<(), String> {
        let arg = |param: &Param| map.buffers.get(&param.buffer()?.id).cloned();
        for (i, param) in callee.params.iter().enumerate() {
            let (Param::Out(_), Some(out)) = (param, arg(param)) else { continue };
            let other =
                callee.params.iter().enumerate().find(|(j, it)| *j != i && arg(it).as_ref() == Some(&out));
            if let Some((_, other)) = other {
                let (name, out, what, other) = (&callee.name, &out.name, param.name(), other.name());
                return Err(format!(
                    "`{out}` is both `{what}` and `{other}` of `{name}`, which writes `{what}`"
                ));
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Blocks(Vec<BlockId>);

impl Visitor for Blocks {
    fn visit_expr(&mut self, _: &PrimExpr) {}

    fn visit_block(&mut self, block: &Block) {
        self.0.push(block.id);
        walk_block(self, block);
    }
}

/// `body` with unique names for the blocks `inlined`.
pub(super) fn name_inlined(body: Stmt, inlined: &[BlockId], names: &mut BlockNames) -> Stmt {
    struct Rename<'a>(rustc_hash::FxHashSet<BlockId>, &'a mut BlockNames);
    impl Mutator for Rename<'_> {
        fn mutate_expr(&mut self, _: &PrimExpr) -> Option<PrimExpr> {
            None
        }

        fn mutate_block(&mut self, block: &Arc<Block>) -> Option<Block> {
            let name = self.0.contains(&block.id).then(|| self.1.unique(&block.name));
            let walked = self.walk_block(block);
            match name {
                Some(name) if name != block.name => {
                    Some(Block { name, ..walked.unwrap_or_else(|| (**block).clone()) })
                }
                _ => walked,
            }
        }
    }
    if inlined.is_empty() {
        return body;
    }
    let mut rename = Rename(inlined.iter().copied().collect(), names);
    rename.mutate_stmt(&body).unwrap_or(body)
}
