//! Tensors and the stages that compute them.
//!
//! A tensor is a buffer and, unless it is an input, the stage that fills it. The stages form an acyclic graph through
//! the inputs that each declares.
//!
//! TVM counterpart: `te::Tensor`, `te::PlaceholderOp`, `te::ComputeOp`, `te::ScanOp`.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::Reduce;
use crate::ir::Var;
use crate::tir::{Buffer, IterKind, IterVar, PrimExpr, Range, Stmt, any_expr};

/// An input or the result of a stage; cheap to clone.
#[derive(Clone, Debug)]
pub struct TensorExpr {
    buffer: Buffer,
    stage: Option<Arc<Stage>>,
}

/// One computation: its axes, the tensors that it reads, and the value of each element of its outputs.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) name: Arc<str>,
    pub(crate) axes: Vec<IterVar>,
    pub(crate) body: ComputeBody,
    pub(crate) inputs: Vec<TensorExpr>,
    pub(crate) outputs: Vec<Buffer>,
}

impl Drop for Stage {
    /// Drops the inputs iteratively, not recursively: stages may form a long chain.
    fn drop(&mut self) {
        let mut rest = std::mem::take(&mut self.inputs);
        while let Some(tensor) = rest.pop() {
            let stage = tensor.stage.and_then(Arc::into_inner);
            rest.extend(stage.into_iter().flat_map(|mut stage| std::mem::take(&mut stage.inputs)));
        }
    }
}

/// How a stage computes the elements of its outputs.
#[derive(Clone, Debug)]
pub enum ComputeBody {
    /// One value per output.
    Values(Vec<PrimExpr>),
    /// A reduction; one result per output.
    Reduce(Reduce),
    /// An initial value, then updates of single elements.
    Scatter(Scatter),
    /// A statement that writes the elements.
    Routine(Routine),
}

/// Runs `body` for every point of the axes of the stage.
#[derive(Clone, Debug)]
pub struct Routine {
    /// Memory of one run.
    pub scratch: Vec<Buffer>,
    /// Writes elements of the output that no other run writes; reads none of them.
    pub body: Stmt,
}

/// `init` at every index; then, for every point of `domain` in order, `value` is stored at `indices`.
#[derive(Clone, Debug)]
pub struct Scatter {
    /// The initial value, over the axes of the stage.
    pub init: PrimExpr,
    /// Axes of the updates, run in order.
    pub domain: Vec<IterVar>,
    /// The element that an update changes, over `domain`; must be inside the tensor.
    pub indices: Vec<PrimExpr>,
    /// The new value of that element; may read the output.
    pub value: PrimExpr,
}

impl ComputeBody {
    /// Element types of the outputs.
    fn dtypes(&self) -> Vec<DataType> {
        let values = match self {
            ComputeBody::Values(values) => values,
            ComputeBody::Reduce(reduce) => &reduce.combiner.identity,
            ComputeBody::Scatter(scatter) => std::slice::from_ref(&scatter.init),
            // Only `routine` makes such a body, and it knows the type.
            ComputeBody::Routine(_) => &[],
        };
        values.iter().map(PrimExpr::dtype).collect()
    }
}

impl From<PrimExpr> for ComputeBody {
    fn from(value: PrimExpr) -> ComputeBody {
        ComputeBody::Values(vec![value])
    }
}

impl From<Vec<PrimExpr>> for ComputeBody {
    fn from(values: Vec<PrimExpr>) -> ComputeBody {
        ComputeBody::Values(values)
    }
}

impl From<Reduce> for ComputeBody {
    fn from(reduce: Reduce) -> ComputeBody {
        ComputeBody::Reduce(reduce)
    }
}

impl TensorExpr {
    /// The buffer that holds the elements.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Extents, one per dimension.
    pub fn shape(&self) -> &[PrimExpr] {
        &self.buffer.shape
    }

    /// The extent of dimension `axis`.
    pub fn dim(&self, axis: usize) -> PrimExpr {
        self.buffer.shape[axis].clone()
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.buffer.ndim()
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.buffer.dtype
    }

    /// The element at `indices`, one per dimension.
    pub fn at(&self, indices: impl Into<Arc<[PrimExpr]>>) -> PrimExpr {
        self.buffer.load(indices)
    }

    pub(crate) fn stage(&self) -> Option<&Arc<Stage>> {
        self.stage.as_ref()
    }
}

/// An input tensor.
pub fn placeholder(name: &str, shape: impl Into<Arc<[PrimExpr]>>, dtype: DataType) -> TensorExpr {
    TensorExpr { buffer: Buffer::new(name, shape, dtype), stage: None }
}

/// The tensor of extents `shape` with the element `body(index)` at each index; `inputs` are the tensors that `body`
/// reads.
pub fn compute<B: Into<ComputeBody>>(
    name: &str,
    shape: impl Into<Arc<[PrimExpr]>>,
    inputs: &[&TensorExpr],
    body: impl FnOnce(&[PrimExpr]) -> B,
) -> TensorExpr {
    compute_many(name, shape, inputs, body).swap_remove(0)
}

/// Several tensors of one shape that are computed together, one per value that `body` returns (at least one).
pub fn compute_many<B: Into<ComputeBody>>(
    name: &str,
    shape: impl Into<Arc<[PrimExpr]>>,
    inputs: &[&TensorExpr],
    body: impl FnOnce(&[PrimExpr]) -> B,
) -> Vec<TensorExpr> {
    let shape = shape.into();
    let axes = axes(&shape, |_| IterKind::Spatial);
    let indices: Vec<PrimExpr> = axes.iter().map(|axis| axis.var.clone().into()).collect();
    let body = body(&indices).into();
    let dtypes = body.dtypes();
    let outputs: Vec<Buffer> = (dtypes.iter().enumerate())
        .map(|(i, &dtype)| {
            let name = if dtypes.len() == 1 { name.to_string() } else { format!("{name}_v{i}") };
            Buffer::new(name, shape.clone(), dtype)
        })
        .collect();
    finish(name, axes, body, inputs, outputs)
}

/// The tensor whose elements along `axis` depend on those before: `body` computes an element from its index and the
/// output, which it may read at smaller positions of `axis`.
pub fn scan(
    name: &str,
    shape: impl Into<Arc<[PrimExpr]>>,
    dtype: DataType,
    axis: usize,
    inputs: &[&TensorExpr],
    body: impl FnOnce(&[PrimExpr], &TensorExpr) -> PrimExpr,
) -> TensorExpr {
    let shape = shape.into();
    let kind = |i| if i == axis { IterKind::Ordered } else { IterKind::Spatial };
    let axes = axes(&shape, kind);
    let indices: Vec<PrimExpr> = axes.iter().map(|axis| axis.var.clone().into()).collect();
    let output = placeholder(name, shape, dtype);
    let body = body(&indices, &output).into();
    finish(name, axes, body, inputs, vec![output.buffer]).swap_remove(0)
}

/// The tensor of element type `dtype` that statements write: `body` makes a statement from a point of extents `axes` and the
/// output. It writes elements that the statements of other points do not write, and reads only `inputs` and its scratch
/// memory.
pub fn routine(
    name: &str,
    axes: &[PrimExpr],
    (shape, dtype): (&[PrimExpr], DataType),
    inputs: &[&TensorExpr],
    body: impl FnOnce(&[PrimExpr], &Buffer) -> Routine,
) -> TensorExpr {
    let axes = self::axes(axes, |_| IterKind::Spatial);
    let point: Vec<PrimExpr> = axes.iter().map(|axis| axis.var.clone().into()).collect();
    let output = Buffer::new(name, shape.to_vec(), dtype);
    let body = ComputeBody::Routine(body(&point, &output));
    finish(name, axes, body, inputs, vec![output]).swap_remove(0)
}

/// The tensor that is `init` at every index and is then updated. For every point of extents `domain`, in order,
/// `update` computes from the point and the output the indices (inside the tensor) and the new value of one element.
pub fn scatter(
    name: &str,
    shape: impl Into<Arc<[PrimExpr]>>,
    domain: &[PrimExpr],
    inputs: &[&TensorExpr],
    init: impl FnOnce(&[PrimExpr]) -> PrimExpr,
    update: impl FnOnce(&[PrimExpr], &TensorExpr) -> (Vec<PrimExpr>, PrimExpr),
) -> TensorExpr {
    let shape = shape.into();
    let vars = |axes: &[IterVar]| -> Vec<PrimExpr> { axes.iter().map(|it| it.var.clone().into()).collect() };
    let (spatial, domain) = (axes(&shape, |_| IterKind::Spatial), axes(domain, |_| IterKind::Ordered));
    let init = init(&vars(&spatial));
    let output = placeholder(name, shape, init.dtype());
    let (indices, value) = update(&vars(&domain), &output);
    let domain = domain.into_iter().map(|axis| in_any_order(axis, &output, &indices, &value)).collect();
    let body = ComputeBody::Scatter(Scatter { init, domain, indices, value });
    finish(name, spatial, body, inputs, vec![output.buffer]).swap_remove(0)
}

/// `axis` of the updates of `output`; spatial, if it is itself an index of the element that an update changes and of all those
/// that it reads: updates of different values of the axis then have nothing to do with each other.
fn in_any_order(axis: IterVar, output: &TensorExpr, indices: &[PrimExpr], value: &PrimExpr) -> IterVar {
    let is_axis = |index: &PrimExpr| index.as_var() == Some(&axis.var);
    let own = |at: usize| {
        let elsewhere = &mut |it: &PrimExpr| match it {
            PrimExpr::BufferLoad(load) => load.buffer == output.buffer && !is_axis(&load.indices[at]),
            _ => false,
        };
        is_axis(&indices[at])
            && ![indices, std::slice::from_ref(value)].concat().iter().any(|it| any_expr(it, elsewhere))
    };
    let kind = if (0..indices.len()).any(own) { IterKind::Spatial } else { axis.kind };
    IterVar { kind, ..axis }
}

fn axes(shape: &[PrimExpr], kind: impl Fn(usize) -> IterKind) -> Vec<IterVar> {
    let axis = |(i, extent): (usize, &PrimExpr)| IterVar {
        var: Var::index(format!("v_i{i}")),
        dom: Range::from_extent(extent.clone()),
        kind: kind(i),
    };
    shape.iter().enumerate().map(axis).collect()
}

fn finish(
    name: &str,
    axes: Vec<IterVar>,
    body: ComputeBody,
    inputs: &[&TensorExpr],
    outputs: Vec<Buffer>,
) -> Vec<TensorExpr> {
    let inputs = inputs.iter().map(|&tensor| tensor.clone()).collect();
    let stage = Arc::new(Stage { name: name.into(), axes, body, inputs, outputs });
    let tensor = |buffer: &Buffer| TensorExpr { buffer: buffer.clone(), stage: Some(stage.clone()) };
    stage.outputs.iter().map(tensor).collect()
}
