//! The digits model as imported and after passes, with its large constants replaced by parameters.

use tvm::ir::{BaseFunc, IRModule, Type, Var};
use tvm::onnx::{ImportOptions, import_file};
use tvm::relax::{Arg, ExprMutator, Function, analysis, transform};
use tvm::runtime::Tensor;

/// Maximum number of elements of a constant that is printed in full.
const SMALL: usize = 16;

struct Extract(Vec<Var>);

impl ExprMutator for Extract {
    fn mutate_arg(&mut self, arg: &Arg) -> Option<Arg> {
        match arg {
            Arg::Const(tensor) if tensor.len() > SMALL => {
                let var = Var::new("weight", type_of(tensor));
                self.0.push(var.clone());
                Some(var.into())
            }
            _ => tvm::relax::mutator::walk_arg(self, arg),
        }
    }
}

fn type_of(tensor: &Tensor) -> Type {
    analysis::type_of_arg(&tensor.clone().into(), &IRModule::new())
}

pub(crate) fn imported() -> IRModule {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/digits_cnn/model.onnx");
    let module = import_file(path, &ImportOptions::default()).unwrap_or_else(|err| panic!("{err}"));
    let mut res = IRModule::new();
    for (gv, func) in module.functions() {
        let BaseFunc::Relax(func) = func else { continue };
        let mut extract = Extract(Vec::new());
        let func = extract.mutate_function(func).unwrap_or_else(|| (**func).clone());
        let params = func.params.iter().cloned().chain(extract.0).collect();
        res.add(gv.name(), BaseFunc::Relax(Function { params, ..func }.into()));
    }
    res
}

fn apply(module: IRModule, passes: Vec<tvm::pass::Pass>) -> IRModule {
    let pass = tvm::pass::Sequential::new("passes", passes);
    pass.apply(module).unwrap_or_else(|err| panic!("{err}"))
}

fn legalize(module: IRModule) -> IRModule {
    apply(module, vec![transform::canonicalize_bindings(), transform::legalize_ops()])
}

pub(crate) fn fuse(module: IRModule) -> IRModule {
    let passes = vec![transform::annotate_tir_op_pattern(), transform::fuse_ops(), transform::fuse_tir()];
    apply(legalize(module), passes)
}

pub(crate) fn legalized() -> IRModule {
    legalize(imported())
}

pub(crate) fn fused() -> IRModule {
    fuse(imported())
}
