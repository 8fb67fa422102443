//! Random well-formed graph functions for tests.

use tvm_runtime::Tensor;

use crate::ir::graph::*;
use crate::ir::tensor_program::PrimExpr;
use crate::ir::{Attrs, BaseFunc, FuncType, IRModule, Span, Type, Var};
use crate::relax::testing::{bind, f32s, function};
use tvm_testing::Rng;

/// A module with one random function: tuples, branches, local functions, casts, cells, packed calls.
pub(crate) fn random_graph_module(seed: u64) -> IRModule {
    let mut module = IRModule::new();
    module.add("main", BaseFunc::Relax(random_function(seed).into()));
    module
}

/// A random function over tensors that share one symbolic extent.
pub(crate) fn random_function(seed: u64) -> Function {
    let n = Var::index("n");
    let ty = f32s(&[(&n).into()]);
    let (x, y, s) = (Var::new("x", ty.clone()), Var::new("y", ty.clone()), Var::index("s"));
    let mut graph = Graph { rng: Rng::new(seed), n, ty, vars: vec![x.clone(), y.clone()] };
    let body = graph.body(3);
    let func = function("main", &[&x, &y, &s], vec![], x.clone());
    Function { body, ret: graph.ty, pure: false, attrs: Attrs::new().with("seed", seed as i64 % 5), ..func }
}

struct Graph {
    rng: Rng,
    n: Var,
    ty: Type,
    /// Variables in scope of type `ty`.
    vars: Vec<Var>,
}

impl Graph {
    fn any(&mut self) -> Arg {
        self.rng.pick(&self.vars).into()
    }

    fn body(&mut self, depth: usize) -> Body {
        let outer = self.vars.len();
        let blocks = (0..1 + self.rng.below(2)).map(|_| {
            let dataflow = self.rng.below(2) == 0;
            let mut bindings = Vec::new();
            for _ in 0..1 + self.rng.below(4) {
                self.step(depth, dataflow, &mut bindings);
            }
            BindingBlock { dataflow, bindings: bindings.into() }
        });
        let blocks: Vec<BindingBlock> = blocks.collect();
        let ret = self.any();
        self.vars.truncate(outer);
        Body { blocks: blocks.into(), ret }
    }

    fn step(&mut self, depth: usize, dataflow: bool, out: &mut Vec<Binding>) {
        let ty = self.ty.clone();
        let value = match self.rng.below(if depth == 0 { 4 } else { 8 }) {
            0 => Expr::Arg(self.any()),
            1 => self.packed(&["f", "g"]),
            2 => {
                let fields = [self.any(), self.any()];
                let pair = Type::Tuple([ty.clone(), ty.clone()].into());
                let (pair, binding) = bind("pair", pair, Expr::Arg(Arg::Tuple(fields.into())));
                out.push(binding);
                Expr::TupleGetItem(pair.into(), self.rng.below(2))
            }
            3 => {
                let k = Var::index("k");
                let cast = Var::new("cast", f32s(&[(&k).into()]));
                out.push(Binding { var: cast.clone(), value: Expr::Arg(self.any()), match_cast: true });
                let shape = Arg::Shape([PrimExpr::from(&k) + &self.n].into());
                let args = [cast.into(), shape, Arg::Const(Tensor::scalar(self.rng.below(3) as f32))];
                self.dps("h", args.into())
            }
            4 | 5 if dataflow => self.packed(&["pure"]),
            4 => {
                let cond = Arg::Prim(PrimExpr::from(&self.n).less(self.rng.below(9) as i64));
                let (then_branch, else_branch) = (self.body(depth - 1), self.body(depth - 1));
                Expr::If(If { cond, then_branch, else_branch, span: Span::rust("model.rs", 2, 3) }.into())
            }
            5 => {
                let (cell, create) = bind("cell", Type::Ref(ty.clone().into()), Expr::RefCreate(self.any()));
                let (_, write) = bind("_", Type::unit(), Expr::RefWrite((&cell).into(), self.any()));
                out.extend([create, write]);
                Expr::RefRead(cell.into())
            }
            _ => {
                let m = Var::index("m");
                let param = Var::new("p", f32s(&[(&m).into()]));
                let mut inner = Graph {
                    rng: Rng::new(self.rng.below(1000) as u64),
                    n: m,
                    ty: param.ty().clone(),
                    vars: vec![param.clone()],
                };
                let body = inner.body(depth - 1);
                let func = function("local", &[&param], vec![], param.clone());
                let func = Function { body, ret: param.ty().clone(), pure: false, ..func };
                let func_ty: FuncType = func.ty();
                let (local, binding) = bind("local", Type::Func(func_ty.into()), Expr::Function(func.into()));
                out.push(binding);
                if dataflow {
                    self.packed(&["pure"])
                } else {
                    let args = [self.any()].into();
                    let call = Call { callee: Callee::Var(local), args, ..self.plain_call() };
                    call.into()
                }
            }
        };
        let (var, binding) = bind("t", ty, value);
        out.push(binding);
        self.vars.push(var);
    }

    fn packed(&mut self, names: &[&str]) -> Expr {
        let (name, args) = (*self.rng.pick(names), vec![self.any()]);
        self.dps(name, args)
    }

    fn plain_call(&self) -> Call {
        let callee = Callee::DpsPacked("f".into());
        Call { callee, args: [].into(), attrs: Attrs::new(), ret: None, span: Span::none() }
    }

    fn dps(&mut self, name: &str, args: Vec<Arg>) -> Expr {
        let callee = Callee::DpsPacked(name.into());
        Call { callee, args: args.into(), ret: Some(self.ty.clone()), ..self.plain_call() }.into()
    }
}
