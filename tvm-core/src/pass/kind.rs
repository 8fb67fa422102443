//! The type of passes, and constructors of passes from closures over one kind of function.

use std::fmt;
use std::sync::Arc;

use super::{PassContext, PassError, registry};
use crate::ir::graph::mutator::{ExprMutator, walk_body};
use crate::ir::graph::{BindingBlock, Body, Function};
use crate::ir::tensor_program::{PrimFunc, mutate_slice};
use crate::ir::{BaseFunc, FirstError, GlobalVar, IRModule, IrError};
use crate::support::in_parallel;

/// Name, level and requirements of a pass.
#[derive(Clone, Debug)]
pub struct PassInfo {
    /// Name, as in TVM, for example `FuseOps`.
    pub name: &'static str,
    /// Runs when the context's level is at least this.
    pub opt_level: u8,
    /// Names of passes that must run before it.
    pub required: &'static [&'static str],
}

/// What a pass works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Whole modules.
    Module,
    /// Graph functions, one by one.
    Function,
    /// Dataflow blocks of graph functions, one by one.
    DataflowBlock,
    /// Tensor programs, one by one.
    PrimFunc,
    /// Other passes.
    Sequential,
}

type Run = dyn Fn(IRModule, &PassContext) -> Result<IRModule, PassError> + Send + Sync;

/// A pass: module in, module out.
#[derive(Clone)]
pub struct Pass {
    /// Name, level and requirements.
    pub info: PassInfo,
    /// What it works on.
    pub kind: PassKind,
    pub(super) parts: Arc<[Pass]>,
    /// Index in the default pipeline that the pass is a part of.
    pub(super) place: Option<usize>,
    pub(super) mandatory: bool,
    pub(super) run: Arc<Run>,
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("info", &self.info).field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Pass {
    /// A pass that calls `run`.
    pub fn new(
        info: PassInfo,
        kind: PassKind,
        run: impl Fn(IRModule, &PassContext) -> Result<IRModule, PassError> + Send + Sync + 'static,
    ) -> Pass {
        registry::note_name(info.name);
        Pass { info, kind, parts: Arc::new([]), place: None, mandatory: false, run: Arc::new(run) }
    }

    /// The passes of a sequence, in order; empty for other passes.
    pub fn parts(&self) -> &[Pass] {
        &self.parts
    }

    /// Sets the passes that must run before this one.
    #[must_use]
    pub fn requires(mut self, required: &'static [&'static str]) -> Pass {
        self.info.required = required;
        self
    }

    /// Makes the pass run in every context: later passes rely on it for safety or correctness.
    #[must_use]
    pub fn mandatory(mut self) -> Pass {
        self.mandatory = true;
        self
    }

    /// Whether the pass runs in every context.
    pub fn is_mandatory(&self) -> bool {
        self.mandatory
    }

    /// Makes the pass run only at this level or above (default 0).
    #[must_use]
    pub fn opt_level(mut self, opt_level: u8) -> Pass {
        self.info.opt_level = opt_level;
        self
    }

    /// Runs the pass under the current [`PassContext`].
    ///
    /// # Errors
    /// The error of the pass, as for [`Pass::apply_in`].
    pub fn apply(&self, module: IRModule) -> Result<IRModule, PassError> {
        self.apply_in(module, &PassContext::current())
    }

    /// Runs the pass under `ctx`, observed by its instruments; a disabled pass returns the module unchanged.
    ///
    /// # Errors
    /// The error of the pass; a name in `ctx` that no pass has; a mandatory pass that `ctx` disables.
    pub fn apply_in(&self, module: IRModule, ctx: &PassContext) -> Result<IRModule, PassError> {
        ctx.check_names()?;
        ctx.instrumented(self, module, |module| (self.run)(module, ctx))
    }
}

/// A pass over whole modules.
pub fn module_pass(
    name: &'static str,
    run: impl Fn(IRModule, &PassContext) -> Result<IRModule, IrError> + Send + Sync + 'static,
) -> Pass {
    Pass::new(info(name), PassKind::Module, move |module, ctx| {
        run(module, ctx).map_err(|err| PassError::ir(name, err))
    })
}

/// A pass over tensor programs; `run` returns `None` for "unchanged". It is called for several programs at a time, each on a
/// thread with the context of the pass.
pub fn prim_func_pass(
    name: &'static str,
    run: impl Fn(&PrimFunc, &IRModule, &PassContext) -> Result<Option<PrimFunc>, IrError> + Send + Sync + 'static,
) -> Pass {
    per_function(name, PassKind::PrimFunc, move |func, module, ctx| match func {
        BaseFunc::Prim(func) => {
            let new = run(func, module, ctx).map_err(|err| err.at(&func.span))?;
            Ok(new.map(|func| BaseFunc::Prim(Arc::new(func))))
        }
        BaseFunc::Relax(_) | BaseFunc::Extern(_) => Ok(None),
    })
}

/// A pass over graph functions; `run` returns `None` for "unchanged".
pub fn function_pass(
    name: &'static str,
    run: impl Fn(&Function, &IRModule, &PassContext) -> Result<Option<Function>, IrError> + Send + Sync + 'static,
) -> Pass {
    relax_pass(name, PassKind::Function, run)
}

/// A pass over dataflow blocks, including those of branches and local functions; `run` returns `None` for "unchanged".
pub fn dataflow_block_pass(
    name: &'static str,
    run: impl Fn(&BindingBlock, &IRModule, &PassContext) -> Result<Option<BindingBlock>, IrError>
    + Send
    + Sync
    + 'static,
) -> Pass {
    struct Blocks<'a> {
        run: &'a dyn Fn(&BindingBlock) -> Result<Option<BindingBlock>, IrError>,
        err: FirstError,
    }
    impl ExprMutator for Blocks<'_> {
        fn mutate_body(&mut self, body: &Body) -> Option<Body> {
            let walked = walk_body(self, body);
            let body = walked.as_ref().unwrap_or(body);
            let blocks = mutate_slice(&body.blocks, |block| {
                if !block.dataflow || !self.err.is_none() {
                    return None;
                }
                self.err.keep((self.run)(block))?
            });
            match blocks {
                Some(blocks) => Some(Body { blocks, ret: body.ret.clone() }),
                None => walked,
            }
        }
    }
    relax_pass(name, PassKind::DataflowBlock, move |func, module, ctx| {
        let mut blocks = Blocks { run: &|block| run(block, module, ctx), err: FirstError::default() };
        let func = blocks.mutate_function(func);
        blocks.err.finish(func)
    })
}

fn relax_pass(
    name: &'static str,
    kind: PassKind,
    run: impl Fn(&Function, &IRModule, &PassContext) -> Result<Option<Function>, IrError> + Send + Sync + 'static,
) -> Pass {
    per_function(name, kind, move |func, module, ctx| match func {
        BaseFunc::Relax(func) => {
            let new = run(func, module, ctx).map_err(|err| err.at(&func.span))?;
            Ok(new.map(|func| BaseFunc::Relax(Arc::new(func))))
        }
        BaseFunc::Prim(_) | BaseFunc::Extern(_) => Ok(None),
    })
}

/// A pass that calls `run` for every function; all calls see the module as it was before the pass. Those for tensor programs
/// run on several threads.
fn per_function(
    name: &'static str,
    kind: PassKind,
    run: impl Fn(&BaseFunc, &IRModule, &PassContext) -> Result<Option<BaseFunc>, IrError> + Send + Sync + 'static,
) -> Pass {
    Pass::new(info(name), kind, move |mut module, ctx| {
        let new = |(gv, func): &(&GlobalVar, &BaseFunc)| {
            let new = ctx.entered(|| run(func, &module, ctx)).map_err(|err| PassError::ir(name, err))?;
            Ok(new.map(|new| ((*gv).clone(), new)))
        };
        let functions: Vec<_> = module.functions().collect();
        let changed = match kind {
            PassKind::PrimFunc => in_parallel(&functions, new)?,
            _ => functions.iter().map(new).collect::<Result<_, _>>()?,
        };
        changed.into_iter().flatten().for_each(|(gv, func)| module.update(gv, func));
        Ok(module)
    })
}

const fn info(name: &'static str) -> PassInfo {
    PassInfo { name, opt_level: 0, required: &[] }
}
