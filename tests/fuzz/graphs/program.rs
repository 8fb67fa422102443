//! A random module: `main` with its parameters, and arguments for it.

use std::collections::HashMap;
use std::sync::Arc;

use tvm::DataType;
use tvm::ir::{BaseFunc, IRModule, TensorType, Type, Var};
use tvm::relax::analysis::erase_to_well_defined;
use tvm::relax::{Arg, BlockBuilder};
use tvm::runtime::{Tensor, Value};
use tvm::tir::PrimExpr;
use tvm_testing::Rng;

use super::control::types;
use super::functions::function;
use super::graph::{Graph, Item, Mode};
use super::operators::DTYPES;

/// Values of the dimensions `n` and `m` in the runs of a program.
pub(super) const SIZES: [[i64; 2]; 4] = [[3, 2], [0, 1], [1, 5], [5, 3]];

pub(super) struct Program {
    pub(super) module: IRModule,
    /// Name of the main function.
    pub(super) name: String,
    /// For each result, whether its bits can be compared.
    pub(super) exact: Vec<bool>,
    /// For each parameter: extents (constants or indices into [`SIZES`]) and element type.
    params: Vec<(Vec<Extent>, DataType)>,
    pub(super) made: usize,
    pub(super) refused: usize,
    pub(super) names: Vec<&'static str>,
}

#[derive(Clone, Copy)]
enum Extent {
    Fixed(i64),
    Size(usize),
}

impl Program {
    /// Generates a program with `rng` and adds it to `module`.
    pub(super) fn new(rng: &mut Rng, mode: Mode, mut module: IRModule) -> Program {
        let sizes = ["n", "m"].map(Var::index);
        let limits = HashMap::from([(sizes[0].id(), 5), (sizes[1].id(), 5)]);
        types().into_iter().for_each(|def| module.add_type(Arc::new(def)));
        let impure = rng.one_in(3);
        let steps = rng.range(3, 16);
        let mut graph = Graph {
            rng,
            builder: BlockBuilder::new(module),
            mode,
            items: Vec::new(),
            dims: Vec::new(),
            limits,
            depth: 2,
            impure,
            refused: 0,
            made: 0,
            names: Vec::new(),
        };
        let params = parameters(&mut graph, &sizes);
        let vars: Vec<Var> = graph.items.iter().map(|it| it.var.clone()).collect();
        let loose = loose_parameter(&mut graph);
        graph.builder.begin_scope();
        if let Some((var, like)) = &loose
            && let Ok(item) = graph.cast_to(var.into(), like)
        {
            graph.items.push(item);
        }
        for _ in 0..steps {
            if graph.rng.one_in(4) {
                dataflow(&mut graph);
            } else {
                graph.grow();
            }
        }
        // The results: some of the values, including the last one, in tuples.
        let mut results = vec![graph.items[graph.items.len() - 1].clone()];
        for _ in 0..graph.rng.below(4) {
            results.push(graph.pick(|_| true).expect("there are parameters"));
        }
        let exact = results.iter().map(|it| it.exact).collect();
        let (args, types) =
            results.iter().fold((Vec::new(), Vec::new()), |(mut args, mut types), item: &Item| {
                args.push(item.arg());
                types.push(erase_to_well_defined(item.var.ty(), &|it| {
                    sizes.iter().any(|size| size.id() == it)
                }));
                (args, types)
            });
        let ret = Type::Tuple(types.into());
        let body = graph.builder.end_scope(Arg::Tuple(args.into()));
        let (made, refused, names) = (graph.made, graph.refused, graph.names);
        let mut module = graph.builder.into_module();
        let (mut vars, mut params) = (vars, params);
        if let Some((var, like)) = loose {
            let at = vars.iter().position(|it| *it == like.var).expect("it is a parameter");
            params.push(params[at].clone());
            vars.push(var);
        }
        let main = BaseFunc::Relax(Arc::new(function("main", vars, body, ret, !impure)));
        let name = module.add("main", main).name().to_string();
        Program { module, name, exact, params, made, refused, names }
    }

    /// Arguments of `main` for the dimensions `sizes`.
    pub(super) fn arguments(&self, sizes: [i64; 2], seed: u64) -> Vec<Value> {
        let mut rng = Rng::new(seed);
        let tensor = |(dims, dtype): &(Vec<Extent>, DataType)| {
            let shape: Vec<i64> = (dims.iter())
                .map(|dim| match *dim {
                    Extent::Fixed(extent) => extent,
                    Extent::Size(i) => sizes[i],
                })
                .collect();
            let count = shape.iter().product::<i64>();
            let values: Vec<f64> = (0..count)
                .map(|_| if dtype.is_bool() { rng.range(0, 1) as f64 } else { rng.range(-4, 5) as f64 })
                .collect();
            Value::from(Tensor::from_f64s(&values, &shape, *dtype).expect("as many values as the shape has"))
        };
        self.params.iter().map(tensor).collect()
    }
}

/// Parameters of `main`: two that bind the dimensions, further ones, and a condition.
fn parameters(graph: &mut Graph<'_>, sizes: &[Var; 2]) -> Vec<(Vec<Extent>, DataType)> {
    let mut params = Vec::new();
    let count = graph.rng.range(3, 5) as usize;
    for i in 0..=count {
        let (dims, dtype) = if i == count {
            (vec![], DataType::BOOL)
        } else {
            let mut dims: Vec<Extent> = (0..graph.rng.range(0, 3)).map(|_| extent(graph)).collect();
            if i < 2 {
                let at = graph.rng.below(dims.len() + 1);
                dims.insert(at, Extent::Size(i));
                dims.truncate(3);
                if !dims.iter().any(|it| matches!(it, Extent::Size(size) if *size == i)) {
                    dims[0] = Extent::Size(i);
                }
            }
            (dims, *graph.rng.pick(&DTYPES))
        };
        let shape = dims.iter().map(|dim| match *dim {
            Extent::Fixed(extent) => PrimExpr::index(extent),
            Extent::Size(i) => PrimExpr::from(&sizes[i]),
        });
        let var = Var::new("x", Type::tensor(shape.collect::<Vec<_>>(), dtype));
        let most = if dtype.is_integer() { f64::INFINITY } else { 5.0 };
        graph.items.push(Item { var, most, exact: true });
        params.push((dims, dtype));
    }
    graph.dims.extend(sizes.iter().cloned());
    params
}

fn extent(graph: &mut Graph<'_>) -> Extent {
    match graph.rng.below(6) {
        0 | 1 => Extent::Size(0),
        2 => Extent::Size(1),
        3 => Extent::Fixed(1),
        _ => Extent::Fixed(graph.rng.range(2, 4)),
    }
}

/// Occasionally, a parameter of known rank only: its argument has the type of another parameter.
fn loose_parameter(graph: &mut Graph<'_>) -> Option<(Var, Item)> {
    if !graph.rng.one_in(4) {
        return None;
    }
    let like = graph.pick(|_| true).ok()?;
    let ty = TensorType::ranked(like.ndim(), Some(like.dtype()));
    Some((Var::new("loose", Type::Tensor(ty)), like))
}

/// Adds a few operators in a dataflow block.
fn dataflow(graph: &mut Graph<'_>) {
    graph.builder.end_block(false);
    let depth = std::mem::replace(&mut graph.depth, 0);
    for _ in 0..graph.rng.range(1, 4) {
        graph.grow();
    }
    graph.depth = depth;
    graph.builder.end_block(true);
}
