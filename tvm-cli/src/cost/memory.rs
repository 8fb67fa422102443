//! What a compiled model needs: kernels, constants, memory traffic, and the peak of memory of its plan.
//!
//! Requires graph functions with explicit allocations, as the pipeline leaves them. A storage is in use from its allocation to
//! the end of the last value in it. Of a branch, the arm counts that needs more.
//!
//! TVM counterpart: `estimate_memory_usage` of relax.

use std::collections::{HashMap, HashSet};

use tvm_codegen::resolve;
use tvm_core::ir::{AttrValue, BaseFunc, IRModule, MemoryEffect, Type, Var, VarId};
use tvm_core::pass::{PassContext, PassError, Pipelines};
use tvm_core::relax::analysis::type_of_arg;
use tvm_core::relax::op::memory;
use tvm_core::relax::vm::vm_codegen;
use tvm_core::relax::{Arg, Body, Call, Callee, Expr, ExprVisitor};
use tvm_core::support::with_stack;
use tvm_core::target::Target;

use super::poly::{Extents, Poly};
use super::program::{self, Cost};

/// What a compiled model needs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Number of kernels.
    pub(crate) kernels: usize,
    /// Bytes of the constants, as the kernels read them.
    pub(crate) constant_bytes: u64,
    /// The most bytes that intermediate values and outputs take at one time.
    pub(crate) peak: Poly,
    /// Operations and memory traffic of the kernels that run.
    pub(crate) cost: Cost,
}

impl Plan {
    /// The plan of `module` for `target`. `extents` say which of two symbolic sizes is the larger one.
    pub(crate) fn of(module: &IRModule, target: &Target, extents: &Extents) -> Result<Plan, PassError> {
        let target = resolve(target).for_graph();
        let context = PassContext::current().target(target.clone());
        let module = Pipelines::of(&context)?.graph.apply_in(module.clone(), &context)?;
        let (programs, executable) =
            vm_codegen(&module, target.device()).map_err(|err| PassError::ir("VMCodeGen", err))?;
        let mut walk = Walk { module: &module, extents, running: Vec::new() };
        let found = walk.function("main");
        Ok(Plan {
            kernels: programs.functions().filter(|(_, it)| matches!(it, BaseFunc::Prim(_))).count(),
            constant_bytes: executable.constant_bytes() as u64,
            peak: found.peak,
            cost: found.cost,
        })
    }
}

/// What is in use at one point of a body, and what was found so far.
#[derive(Clone, Debug, Default)]
struct State {
    /// Size of each storage, and the values in it; without values, it is free.
    storages: Vec<(Poly, HashSet<VarId>)>,
    /// The storages of each value.
    of: HashMap<VarId, Vec<usize>>,
    used: Poly,
    peak: Poly,
    cost: Cost,
}

impl State {
    fn allocate(&mut self, var: VarId, size: Poly, extents: &Extents) {
        self.of.insert(var, vec![self.storages.len()]);
        self.used.add(&size);
        self.storages.push((size, HashSet::from([var])));
        self.note(&Poly::default(), extents);
    }

    /// Notes that `more` bytes are in use for a moment.
    fn note(&mut self, more: &Poly, extents: &Extents) {
        let now = self.used.clone().plus(more);
        if now.at(extents) > self.peak.at(extents) {
            self.peak = now;
        }
    }

    /// Makes `var` a value in these storages.
    fn share(&mut self, var: VarId, storages: Vec<usize>) {
        for &it in &storages {
            self.storages[it].1.insert(var);
        }
        self.of.insert(var, storages);
    }

    fn kill(&mut self, var: VarId) {
        for it in self.of.remove(&var).unwrap_or_default() {
            let (size, values) = &mut self.storages[it];
            if values.remove(&var) && values.is_empty() {
                self.used.add(&size.times(&Poly::number(-1)));
            }
        }
    }

    /// The storages of the variables in `visit`.
    fn storages(&self, visit: impl FnOnce(&mut dyn ExprVisitor)) -> Vec<usize> {
        struct Find<'a>(&'a State, Vec<usize>);
        impl ExprVisitor for Find<'_> {
            fn visit_arg(&mut self, arg: &Arg) {
                if let Arg::Var(var) = arg {
                    self.1.extend(self.0.of.get(&var.id()).into_iter().flatten());
                }
                tvm_core::relax::visitor::walk_arg(self, arg);
            }
        }
        let mut find = Find(self, Vec::new());
        visit(&mut find);
        find.1.sort_unstable();
        find.1.dedup();
        find.1
    }
}

struct Walk<'a> {
    module: &'a IRModule,
    extents: &'a Extents,
    /// Functions around the current one.
    running: Vec<String>,
}

impl Walk<'_> {
    /// What a call of a function needs.
    fn function(&mut self, name: &str) -> State {
        let Some(BaseFunc::Relax(func)) = self.module.lookup(name) else { return State::default() };
        let mut state = State::default();
        if self.running.iter().any(|it| it == name) {
            state.cost.at_least = true;
            return state;
        }
        self.running.push(name.to_string());
        with_stack(|| self.body(&func.body, &mut state));
        self.running.pop();
        state
    }

    fn body(&mut self, body: &Body, state: &mut State) {
        for binding in body.bindings() {
            let var = binding.var.id();
            match &binding.value {
                Expr::Call(call) => self.call(call, &binding.var, state),
                Expr::If(it) => self.arms(&[&it.then_branch, &it.else_branch], var, state),
                Expr::Match(it) => {
                    let arms: Vec<&Body> = it.clauses.iter().map(|it| &it.body).collect();
                    self.arms(&arms, var, state);
                }
                value => {
                    let storages = state.storages(|find| find.visit_expr(value));
                    state.share(var, storages);
                }
            }
        }
    }

    /// One of several bodies runs.
    fn arms(&mut self, arms: &[&Body], var: VarId, state: &mut State) {
        let before: HashSet<VarId> = state.of.keys().copied().collect();
        let cost = std::mem::take(&mut state.cost);
        let mut ends = Vec::new();
        for arm in arms {
            let mut end = state.clone();
            with_stack(|| self.body(arm, &mut end));
            let result = end.storages(|find| find.visit_arg(&arm.ret));
            end.share(var, result);
            let own: Vec<VarId> =
                end.of.keys().copied().filter(|it| !before.contains(it) && *it != var).collect();
            own.into_iter().for_each(|it| end.kill(it));
            ends.push(end);
        }
        let at = |poly: &Poly| poly.at(self.extents);
        let peak = ends.iter().map(|it| &it.peak).max_by(|a, b| at(a).total_cmp(&at(b))).cloned();
        let costs = ends.iter().map(|it| it.cost.clone()).fold(Cost::default(), Cost::or);
        if let Some(end) = ends.into_iter().max_by(|a, b| at(&a.used).total_cmp(&at(&b.used))) {
            *state = end;
        }
        state.peak = peak.unwrap_or_default();
        state.cost = cost;
        state.cost.add(&costs);
    }

    fn call(&mut self, call: &Call, var: &Var, state: &mut State) {
        let id = var.id();
        match (&call.callee, &call.args[..]) {
            (Callee::Op(op), args) => match (op.name, args) {
                (memory::ALLOC_STORAGE, [Arg::Prim(size)]) => {
                    state.allocate(id, Poly::of(size), self.extents)
                }
                (memory::ALLOC, _) => state.allocate(id, bytes(var.ty()), self.extents),
                (memory::MAKE_UNIQUE, [value]) => {
                    let last = matches!(call.attrs.get("last_use"), Some(AttrValue::Bool(true)));
                    let storages = state.storages(|find| find.visit_arg(value));
                    if last && !storages.is_empty() {
                        state.share(id, storages);
                    } else {
                        state.allocate(id, bytes(var.ty()), self.extents);
                    }
                }
                (memory::KILL, [Arg::Var(value)]) => state.kill(value.id()),
                (memory::INVOKE_TVM_OP, [Arg::Global(gv), Arg::Tuple(inputs), Arg::Tuple(outputs)]) => {
                    if let Some(func) = self.module.prim_func(gv) {
                        let outputs: Vec<Type> =
                            outputs.iter().map(|it| type_of_arg(it, self.module)).collect();
                        let cost = program::cost(func, inputs, &outputs, self.module, self.extents);
                        state.cost.add(&cost);
                    }
                }
                (memory::INVOKE_DPS_PACKED, _) => state.cost.at_least = true,
                _ => match op.memory {
                    MemoryEffect::Fresh if op.name != memory::ALLOC_TENSOR => {
                        state.allocate(id, bytes(var.ty()), self.extents);
                    }
                    MemoryEffect::Reads => {}
                    MemoryEffect::Fresh
                    | MemoryEffect::Reshapes
                    | MemoryEffect::Forwards
                    | MemoryEffect::Keeps => {
                        let storages = state.storages(|find| find.visit_call(call));
                        state.share(id, storages);
                    }
                },
            },
            (Callee::Global(gv), _) => {
                let inner = self.function(gv.name());
                state.note(&inner.peak, self.extents);
                state.cost.add(&inner.cost);
                state.allocate(id, bytes(var.ty()), self.extents);
            }
            (Callee::Constructor(_), _) => {
                let storages = state.storages(|find| find.visit_call(call));
                state.share(id, storages);
            }
            (
                Callee::Var(_)
                | Callee::Tir(_)
                | Callee::TirInplace(_)
                | Callee::DpsPacked(_)
                | Callee::Packed(_),
                _,
            ) => {
                state.cost.at_least = true;
                state.allocate(id, bytes(var.ty()), self.extents);
            }
        }
    }
}

/// Bytes of the tensors of a type; those of unknown size count nothing.
fn bytes(ty: &Type) -> Poly {
    match ty {
        Type::Tensor(it) => match (it.known_shape(), it.dtype) {
            (Some(shape), Some(dtype)) => {
                Poly::product(shape).times(&Poly::number((dtype.bytes() as i128).max(1)))
            }
            _ => Poly::default(),
        },
        Type::Tuple(fields) => fields.iter().fold(Poly::default(), |sum, it| sum.plus(&bytes(it))),
        Type::Prim(_)
        | Type::Shape(_)
        | Type::Func(_)
        | Type::Adt(_)
        | Type::Ref(_)
        | Type::Param(_)
        | Type::Object => Poly::default(),
    }
}

#[cfg(test)]
mod tests {
    use tvm_onnx::ImportOptions;
    use tvm_runtime::vm::VmConfig;
    use tvm_runtime::{DataType, Tensor};

    use super::*;
    use crate::model::Model;

    /// A run needs exactly the peak: with less memory it fails.
    #[test]
    fn the_peak_is_what_a_run_needs() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits_cnn/model.onnx");
        let target = Target::interpreter();
        for (options, n) in [(ImportOptions::default(), 3), (ImportOptions::default().dim("n", 2.into()), 2)]
        {
            let module = tvm_onnx::import_file(path, &options).unwrap();
            let extents = Extents::from([("n".to_string(), n)]);
            let peak = Plan::of(&module, &target, &extents).unwrap().peak.at(&extents) as usize;
            let image = Tensor::zeros(&[n, 1, 8, 8], DataType::F32).unwrap();
            for (max_bytes, enough) in [(peak, true), (peak - 1, false)] {
                let config = VmConfig { max_bytes, ..VmConfig::default() };
                let model = Model::compile(module.clone(), &target, config).unwrap();
                let res = model.run(std::slice::from_ref(&image));
                assert_eq!(res.is_ok(), enough, "n = {n}, {max_bytes} bytes: {:?}", res.err());
            }
        }
    }
}
