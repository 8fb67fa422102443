//! Runs scheduled programs as machine code, many in one unit.

use std::ops::Range;
use std::sync::LazyLock;

use tvm::codegen::build;
use tvm::ir::{BaseFunc, IRModule};
use tvm::pass::PassContext;
use tvm::runtime::WorkerPool;
use tvm::runtime::{HostArg, Kernel, ParamKind, RuntimeError, TensorView, TensorViewMut, ThreadPool, Value};
use tvm::target::Target;
use tvm::tir::PrimFunc;
use tvm::tir::transform::renew_defs;

use crate::case::Case;

/// Runs loops on several threads however little work they are.
struct Eager(WorkerPool);

static POOL: LazyLock<Eager> = LazyLock::new(|| Eager(WorkerPool::new(2)));

impl ThreadPool for Eager {
    fn num_threads(&self) -> usize {
        self.0.num_threads()
    }

    fn parallel_for(&self, extent: usize, _grain: usize, body: &(dyn Fn(Range<usize>) + Sync)) {
        self.0.parallel_for(extent, 1, body);
    }
}

/// The code generators that this run checks.
pub(crate) fn targets() -> Vec<Target> {
    let checked = |it: &Target| tvm_testing::checks(&it.to_string(), cfg!(feature = "llvm"));
    [Target::c(), Target::llvm()].into_iter().filter(checked).collect()
}

/// Compiles the programs for `target` as one unit and compares each with its kernel; returns the index and the
/// description of each failure.
pub(crate) fn check_batch(target: &Target, batch: &[(&Case, PrimFunc)]) -> Vec<(usize, String)> {
    let mut module = IRModule::new();
    let mut names = Vec::new();
    for (_, func) in batch {
        let added = module.add(func.name.clone(), BaseFunc::Prim(renew_defs(func).into()));
        names.push(added.name().to_string());
    }
    let context = PassContext { opt_level: 1, ..PassContext::default() };
    let built = match context.scope(|| build(&module, target)) {
        Ok(built) => built,
        // One of them fails to compile; compile each alone to find it.
        Err(_) if batch.len() > 1 => {
            let alone =
                |i: usize| check_batch(target, &batch[i..=i]).into_iter().map(move |(_, text)| (i, text));
            return (0..batch.len()).flat_map(alone).collect();
        }
        Err(err) => return vec![(0, format!("does not compile for {target}: {err}"))],
    };
    let mut failures = Vec::new();
    for (i, (name, (case, _))) in names.iter().zip(batch).enumerate() {
        let kernel = built.get(name).expect("it was compiled");
        if let Err(text) = case.compare(|args| call(kernel, args).map_err(|err| err.to_string())) {
            failures.push((i, format!("on {target}, {text}")));
        }
    }
    failures
}

/// Calls `kernel` on `args`; outputs are written in place.
fn call(kernel: &Kernel, args: &mut [Value]) -> Result<(), RuntimeError> {
    let mut shapes = vec![Vec::new(); args.len()];
    let mut views = Vec::new();
    for ((arg, param), shape) in args.iter_mut().zip(&kernel.signature().params).zip(&mut shapes) {
        views.push(match (arg, param.kind) {
            (Value::Tensor(tensor), ParamKind::In) => HostArg::In(TensorView::of(tensor)?),
            (Value::Tensor(tensor), _) => HostArg::Out(TensorViewMut::of(tensor, shape)?),
            (Value::Int(value), _) => HostArg::Int(*value),
            (Value::Float(value), _) => HostArg::Float(*value),
            (other, _) => panic!("{other:?} is no argument"),
        });
    }
    kernel.call(&mut views, Some(&*POOL))
}
