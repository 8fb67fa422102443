//! Steps that move elements: shapes, axes, joins, parts, indices.

use std::sync::Arc;

use tvm::ir::Attrs;
use tvm::relax::analysis::{product, prove_equal};
use tvm::relax::{Arg, Expr};
use tvm::tir::PrimExpr;

use super::graph::{Graph, Item, Made, refused, same_dims};
use super::operators::none;

impl Graph<'_> {
    pub(super) fn motion(&mut self) -> Made<Item> {
        match self.rng.below(14) {
            0..=1 => self.permuted(),
            2..=4 => self.reshaped(),
            5 => self.joined(),
            6 => self.parted(),
            7 => self.repeated(),
            8..=9 => self.sliced(),
            10..=11 => self.indexed(),
            12 => self.scattered(),
            _ => self.measured(),
        }
    }

    fn moved(&mut self, name: &'static str, x: &Item, more: Vec<Arg>, attrs: Attrs) -> Made<Item> {
        let args = [vec![x.arg()], more].concat();
        let var = self.op(name, args, attrs)?;
        self.item(var, x.most, x.exact)
    }

    fn permuted(&mut self) -> Made<Item> {
        let x = self.pick(|it| it.ndim() > 0)?;
        if self.rng.one_in(4) {
            let (_, axis) = self.axis(x.ndim())?;
            return self.moved("flip", &x, vec![], none().with("axis", vec![axis]));
        }
        let mut axes: Vec<i64> = (0..x.ndim() as i64).collect();
        for i in (1..axes.len()).rev() {
            axes.swap(i, self.rng.below(i + 1));
        }
        let attrs = if self.rng.one_in(3) { none() } else { none().with("axes", axes) };
        self.moved("permute_dims", &x, vec![], attrs)
    }

    /// Builds a reshape, mostly as a view.
    fn reshaped(&mut self) -> Made<Item> {
        let x = self.pick(|_| true)?;
        let mut dims = x.dims().to_vec();
        let shape = |dims: Vec<PrimExpr>| vec![Arg::Shape(dims.into())];
        match self.rng.below(7) {
            0 => self.moved("flatten", &x, vec![], none()),
            1 => self.moved("nn.batch_flatten", &x, vec![], none()),
            2 => {
                let at = self.rng.below(x.ndim() + 1) as i64;
                let at = if self.rng.one_in(2) { at } else { at - x.ndim() as i64 - 1 };
                self.moved("expand_dims", &x, vec![], none().with("axis", vec![at]))
            }
            3 => {
                let ones: Vec<i64> =
                    (0..dims.len() as i64).filter(|&i| dims[i as usize].is_const(1)).collect();
                if ones.is_empty() {
                    return Err(refused("no axis of extent 1"));
                }
                let attrs = if self.rng.one_in(2) { none() } else { none().with("axis", vec![ones[0]]) };
                self.moved("squeeze", &x, vec![], attrs)
            }
            4 if dims.len() > 1 => {
                // Merges two axes into one.
                let at = self.rng.below(dims.len() - 1);
                let other = dims.remove(at + 1);
                dims[at] = product(&[dims[at].clone(), other]);
                if self.rng.one_in(3) {
                    dims[at] = PrimExpr::index(-1);
                }
                self.moved("reshape", &x, shape(dims), none())
            }
            5 if dims.len() > 1 => {
                // The same elements in rows of another length.
                dims.reverse();
                self.moved("reshape", &x, shape(dims), none())
            }
            _ => {
                let at = self.rng.below(dims.len() + 1);
                dims.insert(at, PrimExpr::index(1));
                self.moved("reshape", &x, shape(dims), none())
            }
        }
    }

    fn joined(&mut self) -> Made<Item> {
        let x = self.pick(|_| true)?;
        let like = x.clone();
        let mut all = vec![x.clone()];
        for _ in 0..self.rng.range(1, 2) {
            let other = like.clone();
            all.push(self.pick(move |it| it.dtype() == other.dtype() && same_dims(it.dims(), other.dims()))?);
        }
        let most = all.iter().map(|it| it.most).fold(0.0, f64::max);
        let exact = all.iter().all(|it| it.exact);
        let tuple = Arg::Tuple(all.iter().map(Item::arg).collect());
        // The tensors are passed as a tuple argument, or as a tuple that is bound to a variable.
        let tuple = if self.rng.one_in(2) { tuple } else { self.emit(Expr::Arg(tuple))?.into() };
        let stack = self.rng.one_in(3);
        let (_, axis) = self.axis(x.ndim() + usize::from(stack))?;
        let name = if stack { "stack" } else { "concat" };
        let var = self.op(name, vec![tuple], none().with("axis", axis))?;
        self.item(var, most, exact)
    }

    fn parted(&mut self) -> Made<Item> {
        let x = self.pick(|it| it.ndim() > 0)?;
        let (axis, given) = self.axis(x.ndim())?;
        let attrs = none().with("axis", given);
        let attrs = match x.dims()[axis].as_int() {
            Some(extent) if extent > 1 && self.rng.one_in(2) => {
                attrs.with("indices_or_sections", vec![self.rng.range(1, extent - 1)])
            }
            _ => attrs.with("indices_or_sections", self.rng.range(1, 3)),
        };
        let parts = self.op("split", vec![x.arg()], attrs)?;
        let tvm::ir::Type::Tuple(fields) = parts.ty() else { return Err(refused("no tuple")) };
        let field = self.rng.below(fields.len());
        let var = self.emit(Expr::TupleGetItem(parts.into(), field))?;
        self.item(var, x.most, x.exact)
    }

    fn repeated(&mut self) -> Made<Item> {
        let x = self.pick(|_| true)?;
        match self.rng.below(4) {
            0 => {
                let repeats: Vec<i64> = (0..=x.ndim()).map(|_| self.rng.range(1, 2)).collect();
                self.moved("tile", &x, vec![], none().with("repeats", repeats))
            }
            1 => {
                let (_, axis) = self.axis(x.ndim())?;
                let repeats = self.rng.range(0, 3);
                self.moved("repeat", &x, vec![], none().with("repeats", repeats).with("axis", axis))
            }
            2 => {
                let name = *self.rng.pick(&["tril", "triu"]);
                let k = PrimExpr::index(self.rng.range(-1, 2));
                self.moved(name, &x, vec![Arg::Prim(k)], none())
            }
            _ => {
                let dims = self.dims.clone();
                let mut shape = x.dims().to_vec();
                let new = match dims.first() {
                    Some(dim) if self.rng.one_in(2) => PrimExpr::from(dim),
                    _ => PrimExpr::index(2),
                };
                if let Some(one) = shape.iter_mut().find(|it| it.is_const(1)) {
                    *one = new.clone();
                } else {
                    shape.insert(0, new);
                }
                self.moved("broadcast_to", &x, vec![Arg::Shape(shape.into())], none())
            }
        }
    }

    fn sliced(&mut self) -> Made<Item> {
        let x = self.pick(|it| it.ndim() > 0)?;
        let (_, axis) = self.axis(x.ndim())?;
        let far = i64::from(i32::MAX);
        let (begin, end, stride) = match self.rng.below(6) {
            0 => (1, far, 1),
            1 => (0, -1, 1),
            2 => (self.rng.range(0, 2), self.rng.range(1, 4), self.rng.range(1, 2)),
            3 => (-1, -far, -1),
            4 => (-2, far, 1),
            _ => (0, far, 2),
        };
        let mut shapes = [begin, end, stride].map(|it| Arg::Shape(Arc::new([PrimExpr::index(it)])));
        let dims = self.dims.clone();
        if !dims.is_empty() && self.rng.one_in(6) {
            shapes[1] = Arg::Shape(Arc::new([PrimExpr::from(self.rng.pick(&dims))]));
        }
        self.moved("strided_slice", &x, shapes.into(), none().with("axes", vec![axis]))
    }

    /// Picks indices inside an axis of `extent`; there may be none. With `any`, picks arbitrary integers, to be clamped
    /// by the operator.
    fn inside(&mut self, extent: &PrimExpr, any: bool, fits: impl Fn(&Item) -> bool) -> Made<Item> {
        let found = self.certain(|it| it.dtype().is_integer() && it.ndim() < 4 && fits(it))?;
        if any {
            return Ok(found);
        }
        let dtype = found.dtype();
        let wide = if dtype == tvm::DataType::I64 {
            found
        } else {
            let var = self.op("astype", vec![found.arg()], none().with("dtype", tvm::DataType::I64))?;
            Item { var, ..found }
        };
        let var = self.op("floor_mod", vec![wide.arg(), Arg::Prim(extent.clone())], none())?;
        self.item(var, f64::INFINITY, true)
    }

    fn indexed(&mut self) -> Made<Item> {
        let x = self.pick(|it| it.ndim() > 0)?;
        let (axis, given) = self.axis(x.ndim())?;
        let extent = x.dims()[axis].clone();
        let clip = self.rng.one_in(3);
        let attrs = none().with("axis", given);
        let attrs = if clip { attrs.with("mode", "clip") } else { attrs };
        if self.rng.one_in(3) {
            let dims = x.dims().to_vec();
            let indices = self.inside(&extent, clip, |it| {
                it.ndim() == dims.len()
                    && it
                        .dims()
                        .iter()
                        .zip(&dims)
                        .enumerate()
                        .all(|(i, (a, b))| i == axis || prove_equal(a, b))
            })?;
            return self.moved("gather_elements", &x, vec![indices.arg()], attrs);
        }
        if let Some(extent) = extent.as_int().filter(|&it| it > 0)
            && self.rng.one_in(3)
        {
            let values: Vec<f64> = (0..2).map(|_| self.rng.range(-extent, extent - 1) as f64).collect();
            let indices = tvm::runtime::Tensor::from_f64s(&values, &[2], tvm::DataType::I64);
            let indices = indices.map_err(|err| refused(&err.to_string()))?;
            return self.moved("take", &x, vec![Arg::from(indices)], attrs);
        }
        let indices = self.inside(&extent, clip, |it| it.ndim() < 3)?;
        self.moved("take", &x, vec![indices.arg()], attrs)
    }

    fn scattered(&mut self) -> Made<Item> {
        let x = self.certain(|it| it.ndim() > 0 && !it.dtype().is_bool())?;
        let (axis, given) = self.axis(x.ndim())?;
        let extent = x.dims()[axis].clone();
        let dims = x.dims().to_vec();
        let indices = self.inside(&extent, false, |it| same_dims(it.dims(), &dims))?;
        let dtype = x.dtype();
        let updates = self.certain(|it| it.dtype() == dtype && same_dims(it.dims(), &dims))?;
        let updates = self.small(updates)?;
        let x = self.small(x)?;
        // The order of several updates of the same element is unspecified, so only commutative reductions are used.
        let reduction = *self.rng.pick(&["add", "max", "min"]);
        let attrs = none().with("axis", given).with("reduction", reduction);
        let most = x.most + updates.most * self.count(&dims[axis..=axis]) as f64;
        let var = self.op("scatter_elements", vec![x.arg(), indices.arg(), updates.arg()], attrs)?;
        self.item(var, most, true)
    }

    /// Builds operations on shapes as values.
    fn measured(&mut self) -> Made<Item> {
        let x = self.pick(|_| true)?;
        let shape = self.op("shape_of", vec![x.arg()], none())?;
        match self.rng.below(5) {
            0 => {
                let var = self.op("shape_to_tensor", vec![shape.into()], none())?;
                self.item(var, f64::INFINITY, true)
            }
            1 => {
                let var = self.op("size", vec![x.arg()], none())?;
                self.item(var, f64::INFINITY, true)
            }
            2 => {
                let flat = self.op("flatten", vec![x.arg()], none())?;
                let var = self.op("reshape", vec![flat.into(), shape.into()], none())?;
                self.item(var, x.most, x.exact)
            }
            3 => {
                // A shape that is known only at run time, then checked by a cast.
                let numbers = self.op("shape_to_tensor", vec![shape.into()], none())?;
                let shape = self.op("tensor_to_shape", vec![numbers.into()], none())?;
                let loose = self.op("reshape", vec![x.arg(), shape.into()], none())?;
                self.cast_to(loose.into(), &x)
            }
            _ => {
                let var = self.op("zeros", vec![shape.into()], none().with("dtype", x.dtype()))?;
                self.item(var, 0.0, true)
            }
        }
    }

    /// Builds a `match_cast` of a value to the type of `like`, or to a type with new dimensions.
    pub(super) fn cast_to(&mut self, value: Arg, like: &Item) -> Made<Item> {
        let fresh = self.rng.one_in(3);
        let ty = if fresh {
            let mut dims = Vec::new();
            for dim in like.dims() {
                let limit = self.count(std::slice::from_ref(dim));
                let new = tvm::ir::Var::index("d");
                self.limits.insert(new.id(), limit);
                dims.push(PrimExpr::from(&new));
                self.dims.push(new);
            }
            tvm::ir::Type::tensor(dims, like.dtype())
        } else {
            like.var.ty().clone()
        };
        let var = self.builder.emit_match_cast("cast", value, ty, &tvm::ir::Span::none());
        self.item(var, like.most, like.exact)
    }
}
