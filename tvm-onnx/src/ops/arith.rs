//! A vocabulary for operators that are computed as several graph operators: arithmetic, counting, placing axes.

use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::error::OnnxError;
use crate::node::Node;

type Result<T> = std::result::Result<T, OnnxError>;

impl Node<'_, '_> {
    /// Calls the binary operator `op`.
    pub(super) fn apply(&mut self, op: &str, a: &Arg, b: &Arg) -> Result<Arg> {
        self.call(op, &[a.clone(), b.clone()])
    }

    /// Calls the unary operator `op`.
    pub(super) fn map(&mut self, op: &str, x: &Arg) -> Result<Arg> {
        self.call(op, std::slice::from_ref(x))
    }

    /// Calls the binary operator `op` with a number of the type of `a`.
    pub(super) fn with(&mut self, op: &str, a: &Arg, number: f64) -> Result<Arg> {
        let dtype = self.dtype(a)?;
        let number = self.scalar(number, dtype)?;
        self.apply(op, a, &number)
    }

    /// Calls the binary operator `op` with an integer.
    pub(super) fn with_dim(&mut self, op: &str, a: &Arg, dim: impl Into<PrimExpr>) -> Result<Arg> {
        self.apply(op, a, &Arg::Prim(dim.into()))
    }

    /// The numbers 0, 1, … below `count`.
    pub(super) fn count(&mut self, count: &PrimExpr, dtype: DataType) -> Result<Arg> {
        let limits = [PrimExpr::index(0), count.clone(), PrimExpr::index(1)].map(Arg::Prim);
        self.op("arange", &limits, Attrs::new().with("dtype", dtype))
    }

    /// A vector along axis `axis` of tensors of `rank` axes.
    pub(super) fn along(&mut self, vector: &Arg, axis: usize, rank: usize) -> Result<Arg> {
        let mut shape = vec![PrimExpr::index(1); rank];
        shape[axis] = self.extent(vector, 0)?;
        self.reshape(vector, &shape)
    }

    /// Broadcasts `x` to `shape`.
    pub(super) fn broadcast(&mut self, x: &Arg, shape: &[PrimExpr]) -> Result<Arg> {
        self.call("broadcast_to", &[x.clone(), Arg::Shape(shape.to_vec().into())])
    }

    /// A tensor of `shape` filled with a number.
    pub(super) fn full(&mut self, shape: &[PrimExpr], number: f64, dtype: DataType) -> Result<Arg> {
        let number = self.scalar(number, dtype)?;
        let shape = Arg::Shape(shape.to_vec().into());
        self.op("full", &[shape, number], Attrs::new().with("dtype", dtype))
    }

    /// Calls the operator `op`, which reduces or accumulates along an axis.
    pub(super) fn over(&mut self, op: &str, x: &Arg, axis: usize) -> Result<Arg> {
        self.op(op, std::slice::from_ref(x), Attrs::new().with("axis", axis))
    }

    /// The elements of `x` at `places` along `axis`.
    pub(super) fn take(&mut self, x: &Arg, places: &Arg, axis: usize) -> Result<Arg> {
        self.op("take", &[x.clone(), places.clone()], Attrs::new().with("axis", axis))
    }

    /// The elements `from..to` of `x` along `axis`.
    pub(super) fn part(
        &mut self,
        x: &Arg,
        axis: usize,
        from: impl Into<PrimExpr>,
        to: impl Into<PrimExpr>,
    ) -> Result<Arg> {
        super::index::sliced(self, x.clone(), &[axis as i64], &[from.into()], &[to.into()], &[1])
    }

    /// An extent as a scalar of f32.
    pub(super) fn float_of(&mut self, extent: &PrimExpr) -> Result<Arg> {
        if let Some(extent) = extent.as_int() {
            return self.scalar(extent as f64, DataType::F32);
        }
        let vector = self.call("shape_to_tensor", &[Arg::Shape([extent.clone()].into())])?;
        let scalar = self.reshape(&vector, &[])?;
        self.cast(&scalar, DataType::F32)
    }

    /// `x` with its axes in the order `axes`.
    pub(super) fn permuted(&mut self, x: &Arg, axes: &[i64]) -> Result<Arg> {
        self.op("permute_dims", std::slice::from_ref(x), Attrs::new().with("axes", axes.to_vec()))
    }

    /// The tensors one after the other along `axis`.
    pub(super) fn joined(&mut self, mut parts: Vec<Arg>, axis: usize) -> Result<Arg> {
        if parts.len() == 1 {
            return Ok(parts.remove(0));
        }
        self.op("concat", &[Arg::Tuple(parts.into())], Attrs::new().with("axis", axis))
    }

    /// `yes` where `cond` holds, `no` elsewhere.
    pub(super) fn choice(&mut self, cond: &Arg, yes: &Arg, no: &Arg) -> Result<Arg> {
        self.call("where", &[cond.clone(), yes.clone(), no.clone()])
    }
}
