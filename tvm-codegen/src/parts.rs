//! Division of a unit of kernels into parts, which are compiled at the same time and one after the other.
//!
//! A part needs memory only while it is compiled. How a unit is divided depends on its kernels alone, so the output is the
//! same on every machine.

use rustc_hash::FxHashMap;
use tvm_core::ir::IRModule;
use tvm_core::support::in_parallel;
use tvm_core::tir::{PrimExpr, PrimFunc, Stmt, Visitor, walk_expr, walk_stmt};
use tvm_runtime::abi::kernel_symbol;
use tvm_runtime::{KernelSig, Module, RuntimeError};

use crate::{CodegenError, signatures};

/// Number of statements and expressions from which on a part is complete.
const PART: usize = 2000;

/// The kernels as parts, in their order. A unit without kernels is one part.
pub(crate) fn parts(kernels: &[(String, PrimFunc)]) -> Vec<&[(String, PrimFunc)]> {
    let (mut parts, mut start, mut nodes) = (Vec::new(), 0, 0);
    for (i, (_, func)) in kernels.iter().enumerate() {
        nodes += count(func);
        if nodes >= PART || i + 1 == kernels.len() {
            parts.push(&kernels[start..=i]);
            (start, nodes) = (i + 1, 0);
        }
    }
    if parts.is_empty() { vec![kernels] } else { parts }
}

/// Number of statements and expressions of a program.
fn count(func: &PrimFunc) -> usize {
    struct Count(usize);
    impl Visitor for Count {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.0 += 1;
            walk_expr(self, expr);
        }
        fn visit_stmt(&mut self, stmt: &Stmt) {
            self.0 += 1;
            walk_stmt(self, stmt);
        }
    }
    let mut nodes = Count(0);
    nodes.visit_stmt(&func.body);
    nodes.0
}

/// The kernels of `module`, whose lowered programs are `kernels`: `load` makes a module of each part and its signatures.
pub(crate) fn load(
    module: &IRModule,
    kernels: &[(String, PrimFunc)],
    load: impl Fn(&[(String, PrimFunc)], &[KernelSig]) -> Result<Module, CodegenError> + Sync,
) -> Result<Module, CodegenError> {
    let sigs = signatures(module);
    let by_symbol: FxHashMap<_, _> = sigs.iter().map(|sig| (kernel_symbol(&sig.name), sig)).collect();
    let loaded = in_parallel(&parts(kernels), |part| {
        let own = part.iter().filter_map(|(symbol, _)| by_symbol.get(symbol).copied().cloned());
        load(part, &own.collect::<Vec<_>>())
    })?;
    let kernels = sigs.iter().map(|sig| {
        let missing = || RuntimeError::NotFound { what: "kernel", names: vec![sig.name.clone()] };
        loaded.iter().find_map(|it| it.get(&sig.name)).cloned().ok_or_else(missing)
    });
    Ok(Module::new(kernels.collect::<Result<Vec<_>, _>>()?)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tvm_core::ir::BaseFunc;
    use tvm_core::target::Target;
    use tvm_core::tir::{Buffer, Param};
    use tvm_runtime::{CompiledFn, DataType, Out};

    use super::*;
    use crate::{EmitKind, build, emit, lowered};

    /// 300 programs, of which number `i` writes `i` and the next numbers to its output of five elements.
    fn module() -> IRModule {
        let mut module = IRModule::new();
        for i in 0..300i64 {
            let y = Buffer::new("y", [PrimExpr::index(5)], DataType::I64);
            let store = |at: i64| Stmt::store(&y, [PrimExpr::index(at)], PrimExpr::index(i + at));
            let body = Stmt::seq((0..5).map(store));
            let func = PrimFunc::new(format!("f{i:03}"), [Param::Out(y.clone())], body);
            module.add(format!("f{i:03}"), BaseFunc::Prim(Arc::new(func)));
        }
        module
    }

    fn compilers() -> Vec<Target> {
        if cfg!(feature = "llvm") { vec![Target::c(), Target::llvm()] } else { vec![Target::c()] }
    }

    fn check(kernels: &Module) {
        for (i, kernel) in kernels.iter().enumerate() {
            let kernel = CompiledFn::<(Out<i64, 1>,)>::new(kernel.clone()).unwrap();
            let mut y = [0i64; 5];
            kernel.call(&mut y[..]).unwrap();
            assert_eq!(y, [0, 1, 2, 3, 4].map(|at| i as i64 + at));
        }
        assert_eq!(kernels.iter().count(), 300);
    }

    #[test]
    fn parts_are_all_kernels_in_order() {
        let kernels = lowered(&module(), &Target::c()).unwrap();
        let parts = parts(&kernels);
        assert!(parts.len() > 1);
        let names =
            |kernels: &[(String, PrimFunc)]| kernels.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
        assert_eq!(parts.iter().flat_map(|it| names(it)).collect::<Vec<_>>(), names(&kernels));
        for part in &parts[..parts.len() - 1] {
            let nodes: Vec<usize> = part.iter().map(|(_, func)| count(func)).collect();
            assert!(nodes.iter().sum::<usize>() >= PART && nodes[1..].iter().sum::<usize>() < PART);
        }
        assert_eq!(super::parts(&[]).len(), 1);
    }

    #[test]
    fn kernels_of_all_parts_are_loaded() {
        for target in compilers() {
            check(&build(&module(), &target).unwrap());
        }
    }

    #[test]
    fn one_library_has_all_parts() {
        let module = module();
        for target in compilers() {
            let bytes = emit(&module, &target, EmitKind::SharedLibrary).unwrap();
            let has = |name: &str| bytes.windows(name.len()).any(|it| it == name.as_bytes());
            for sig in signatures(&module) {
                assert!(has(&format!("{}\0", kernel_symbol(&sig.name))), "{}", sig.name);
            }
        }
    }
}
