//! Steps that consist of one operator or a few: arithmetic, reductions, products, comparisons.

use tvm::DataType;
use tvm::ir::{AttrValue, Attrs};
use tvm::relax::Arg;
use tvm::runtime::Tensor;
use tvm::tir::PrimExpr;

use super::graph::{Graph, Item, Made, refused, same_dims};

pub(super) const DTYPES: [DataType; 7] =
    [DataType::F32, DataType::F32, DataType::F16, DataType::I64, DataType::I32, DataType::I8, DataType::BOOL];

pub(super) fn none() -> Attrs {
    Attrs::new()
}

fn number(item: &Item) -> bool {
    !item.dtype().is_bool()
}

fn float(item: &Item) -> bool {
    item.dtype().is_float()
}

impl Graph<'_> {
    pub(super) fn operator(&mut self) -> Made<Item> {
        match self.rng.below(28) {
            0..=2 => self.unary(),
            3..=7 => self.binary(),
            8 => self.comparison(),
            9 => self.choice(),
            10..=11 => self.reduction(),
            12 => self.position(),
            13 => self.running(),
            14 => self.product(),
            15 => self.convert(),
            16 => self.smooth(),
            17 => self.constant(),
            18 => self.window(),
            19..=21 => self.update(),
            22 => self.visit(),
            _ => self.motion(),
        }
    }

    /// An axis of a value of rank `ndim`, as an index and as an attribute that may count from the end.
    pub(super) fn axis(&mut self, ndim: usize) -> Made<(usize, i64)> {
        if ndim == 0 {
            return Err(refused("no axis"));
        }
        let axis = self.rng.below(ndim);
        let from_the_end = self.rng.one_in(2);
        Ok((axis, axis as i64 - if from_the_end { ndim as i64 } else { 0 }))
    }

    fn unary(&mut self) -> Made<Item> {
        let x = self.certain(|_| true)?;
        let names: &[&'static str] = if x.dtype().is_bool() {
            &["logical_not", "bitwise_not"]
        } else if x.dtype().is_integer() {
            &["negative", "abs", "sign", "nn.relu", "bitwise_not", "square"]
        } else if self.mode.exact {
            &["negative", "abs", "sign", "nn.relu", "floor", "ceil", "round", "trunc", "square"]
        } else {
            &[
                "negative", "abs", "sign", "nn.relu", "floor", "round", "square", "exp", "tanh", "sigmoid",
                "sqrt", "erf", "nn.gelu", "nn.silu", "isnan", "rsqrt", "log",
            ]
        };
        let name = *self.rng.pick(names);
        let x = if name == "square" { self.small(x)? } else { x };
        let most = if name == "square" { x.most * x.most } else { x.most };
        let var = self.op(name, vec![x.arg()], none())?;
        self.item(var, most, x.exact)
    }

    /// Picks a value of the same element type that `x` can be combined with.
    pub(super) fn partner(&mut self, x: &Item) -> Made<Item> {
        match self.rng.below(8) {
            0..=3 => {
                let x = x.clone();
                self.pick(move |it| {
                    let broadcasts = it.dims().iter().rev().zip(x.dims().iter().rev()).all(|(a, b)| {
                        a.is_const(1) || b.is_const(1) || tvm::relax::analysis::prove_equal(a, b)
                    });
                    it.dtype() == x.dtype() && broadcasts && (it.exact || !x.exact)
                })
            }
            4 => Ok(x.clone()),
            5 if number(x) => {
                let name = *self.rng.pick(&["max", "min"]);
                let (_, axis) = self.axis(x.ndim())?;
                let var =
                    self.op(name, vec![x.arg()], none().with("axis", vec![axis]).with("keepdims", true))?;
                self.item(var, x.most, x.exact)
            }
            6 => {
                let like = x.clone();
                self.pick(move |it| {
                    it.dtype() == like.dtype() && it.ndim() <= like.ndim() && it.exact == like.exact
                })
            }
            _ => {
                let shape: Vec<i64> = match x.dims().last().and_then(PrimExpr::as_int) {
                    Some(extent) if self.rng.one_in(2) => vec![extent],
                    _ if self.rng.one_in(2) => vec![1],
                    _ => vec![],
                };
                self.fixed(&shape, x.dtype())
            }
        }
    }

    /// Makes a constant of small numbers.
    pub(super) fn fixed(&mut self, shape: &[i64], dtype: DataType) -> Made<Item> {
        let count = shape.iter().product::<i64>();
        let values: Vec<f64> = (0..count).map(|_| self.rng.range(-3, 4) as f64).collect();
        let tensor = Tensor::from_f64s(&values, shape, dtype).map_err(|err| refused(&err.to_string()))?;
        let var = self.emit(tvm::relax::Expr::Arg(Arg::from(tensor)))?;
        self.item(var, 4.0, true)
    }

    fn binary(&mut self) -> Made<Item> {
        let x = self.pick(|_| true)?;
        let names: &[&'static str] = if x.dtype().is_bool() {
            &["logical_and", "logical_or", "logical_xor", "bitwise_and"]
        } else if x.dtype().is_integer() {
            &[
                "add",
                "subtract",
                "multiply",
                "maximum",
                "minimum",
                "divide",
                "floor_divide",
                "mod",
                "floor_mod",
                "bitwise_and",
                "bitwise_xor",
                "left_shift",
                "right_shift",
            ]
        } else if self.mode.exact {
            &["add", "subtract", "multiply", "maximum", "minimum"]
        } else {
            &["add", "subtract", "multiply", "maximum", "minimum", "divide", "floor_mod", "power"]
        };
        let name = *self.rng.pick(names);
        if self.rng.one_in(8) && number(&x) {
            return self.with_scalar(name, x);
        }
        let mut y = self.partner(&x)?;
        let mut x = x;
        if name == "multiply" {
            (x, y) = (self.small(x)?, self.small(y)?);
        }
        let most = match name {
            "multiply" => x.most * y.most,
            "add" | "subtract" => x.most + y.most,
            _ => x.most.max(y.most),
        };
        let exact = x.exact && y.exact;
        let args = if self.rng.one_in(2) { vec![x.arg(), y.arg()] } else { vec![y.arg(), x.arg()] };
        let var = self.op(name, args, none())?;
        self.item(var, most, exact)
    }

    /// Applies `name` to `x` and a scalar, which is a number or a dimension.
    fn with_scalar(&mut self, name: &'static str, x: Item) -> Made<Item> {
        let dims = self.dims.clone();
        let scalar = if x.dtype() == DataType::I64 && !dims.is_empty() && self.rng.one_in(2) {
            PrimExpr::from(self.rng.pick(&dims)) + self.rng.range(-1, 2)
        } else {
            PrimExpr::constant(self.rng.range(-3, 4) as f64, x.dtype())
        };
        let x = self.small(x)?;
        let most = x.most * 4.0 + 4.0;
        let args = [x.arg(), Arg::Prim(scalar)];
        let args = if self.rng.one_in(2) { args.into() } else { args.into_iter().rev().collect() };
        let var = self.op(name, args, none())?;
        self.item(var, most, x.exact)
    }

    fn comparison(&mut self) -> Made<Item> {
        let x = self.certain(number)?;
        let y = self.partner(&x)?;
        if self.mode.exact && !y.exact {
            return Err(refused("it jumps"));
        }
        let name = *self.rng.pick(&["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]);
        let var = self.op(name, vec![x.arg(), y.arg()], none())?;
        self.item(var, 1.0, true)
    }

    fn choice(&mut self) -> Made<Item> {
        let x = self.pick(|_| true)?;
        let y = self.partner(&x)?;
        let dims = x.dims().to_vec();
        let known = self.certain(|it| it.dtype().is_bool() && same_dims(it.dims(), &dims));
        let condition = match known {
            Ok(condition) => condition,
            Err(_) => {
                let a = self.certain(number)?;
                let var =
                    self.op("greater", vec![a.arg(), Arg::Prim(PrimExpr::constant(0.0, a.dtype()))], none())?;
                self.item(var, 1.0, true)?
            }
        };
        let var = self.op("where", vec![condition.arg(), x.arg(), y.arg()], none())?;
        self.item(var, x.most.max(y.most), x.exact && y.exact)
    }

    /// Chooses axes to reduce over; also returns the number of elements that are combined into one.
    fn reduced(&mut self, x: &Item) -> Made<(Attrs, i64)> {
        let mut attrs = none();
        if self.rng.one_in(2) {
            attrs = attrs.with("keepdims", self.rng.one_in(2));
        }
        if self.rng.one_in(5) {
            return Ok((attrs, self.count(x.dims())));
        }
        let (axis, given) = self.axis(x.ndim())?;
        let mut axes = vec![given];
        let mut count = self.count(&x.dims()[axis..=axis]);
        if x.ndim() > 1 && self.rng.one_in(3) {
            let other = (axis + 1) % x.ndim();
            axes.push(other as i64);
            count *= self.count(&x.dims()[other..=other]);
        }
        Ok((attrs.with("axis", axes), count))
    }

    fn reduction(&mut self) -> Made<Item> {
        let x = self.pick(number)?;
        let names: &[&'static str] = if x.dtype().is_integer() {
            &["sum", "sum", "max", "min", "prod"]
        } else if self.mode.exact {
            &["sum", "sum", "max", "min"]
        } else {
            &["sum", "max", "min", "mean", "variance", "std", "prod"]
        };
        let name = *self.rng.pick(names);
        let x = if name == "sum" { self.small(x)? } else { x };
        let (attrs, count) = self.reduced(&x)?;
        let most = if name == "sum" { x.most * count as f64 } else { x.most };
        let var = self.op(name, vec![x.arg()], attrs)?;
        // Reducing no elements yields the least value of the type.
        self.item(var, most, x.exact)
    }

    fn position(&mut self) -> Made<Item> {
        let x = self.certain(number)?;
        let name = *self.rng.pick(&["argmax", "argmin"]);
        let (_, axis) = self.axis(x.ndim())?;
        let attrs = none().with("axis", axis).with("keepdims", self.rng.one_in(2));
        let attrs = attrs.with("select_last_index", self.rng.one_in(2));
        let var = self.op(name, vec![x.arg()], attrs)?;
        self.item(var, f64::INFINITY, true)
    }

    fn running(&mut self) -> Made<Item> {
        let x = self.certain(number)?;
        let x = self.small(x)?;
        let (axis, given) = self.axis(x.ndim())?;
        match self.rng.below(4) {
            0 => {
                let attrs = none().with("axis", given).with("descending", self.rng.one_in(2));
                let name = *self.rng.pick(&["sort", "argsort"]);
                let var = self.op(name, vec![x.arg()], attrs)?;
                self.item(var, x.most, true)
            }
            _ => {
                let most = x.most * self.count(&x.dims()[axis..=axis]) as f64;
                let attrs = none().with("axis", given).with("exclusive", self.rng.one_in(2));
                let var = self.op("cumsum", vec![x.arg()], attrs)?;
                self.item(var, most, true)
            }
        }
    }

    fn product(&mut self) -> Made<Item> {
        let x = self.pick(|it| number(it) && it.ndim() > 0)?;
        let x = self.small(x)?;
        let depth = x.dims()[x.ndim() - 1].clone();
        let y = match depth.as_int() {
            Some(extent) if self.rng.one_in(2) => {
                let columns = self.rng.range(1, 3);
                self.fixed(&[extent, columns], x.dtype())?
            }
            _ if x.ndim() > 1 && self.rng.one_in(2) => {
                let mut axes: Vec<i64> = (0..x.ndim() as i64).collect();
                axes.swap(x.ndim() - 1, x.ndim() - 2);
                let var = self.op("permute_dims", vec![x.arg()], none().with("axes", axes))?;
                Item { var, ..x.clone() }
            }
            _ => {
                let dtype = x.dtype();
                let y = self.pick(move |it| {
                    let at = it.ndim().saturating_sub(2);
                    it.dtype() == dtype
                        && it.dims().get(at).is_some_and(|it| tvm::relax::analysis::prove_equal(it, &depth))
                })?;
                self.small(y)?
            }
        };
        let at = x.ndim() - 1;
        let most = x.most * y.most * self.count(&x.dims()[at..]) as f64;
        let var = self.op("matmul", vec![x.arg(), y.arg()], none())?;
        self.item(var, most, x.exact && y.exact)
    }

    fn convert(&mut self) -> Made<Item> {
        let x = self.certain(|_| true)?;
        let x = self.small(x)?;
        let dtype = *self.rng.pick(&DTYPES);
        let var = self.op("astype", vec![x.arg()], none().with("dtype", dtype))?;
        self.item(var, x.most, x.exact)
    }

    /// Builds an operation on whose results executors agree up to rounding.
    fn smooth(&mut self) -> Made<Item> {
        let x = self.pick(|it| float(it) && it.ndim() > 0)?;
        let x = self.small(x)?;
        let (axis, given) = self.axis(x.ndim())?;
        let var = match self.rng.below(4) {
            0 => self.op("nn.softmax", vec![x.arg()], none().with("axis", given))?,
            1 => self.op("nn.log_softmax", vec![x.arg()], none().with("axis", given))?,
            2 => self.op("mean", vec![x.arg()], none().with("axis", vec![given]).with("keepdims", true))?,
            _ => {
                let Some(extent) = x.dims()[axis].as_int() else { return Err(refused("not known")) };
                let (gamma, beta) = (self.fixed(&[extent], x.dtype())?, self.fixed(&[extent], x.dtype())?);
                let args = vec![x.arg(), gamma.arg(), beta.arg()];
                self.op("nn.layer_norm", args, none().with("axes", vec![given]))?
            }
        };
        self.item(var, 16.0, false)
    }

    fn constant(&mut self) -> Made<Item> {
        let dtype = *self.rng.pick(&DTYPES);
        let like = self.pick(|_| true)?;
        let shape = Arg::Shape(like.dims().into());
        let low = if dtype.is_bool() { 0 } else { -3 };
        let value = PrimExpr::constant(self.rng.range(low, low.abs() + 1) as f64, dtype);
        let dims = self.dims.clone();
        match self.rng.below(6) {
            0 => {
                let (a, b) = (self.rng.range(1, 3), self.rng.range(1, 4));
                self.fixed(&[a, b], dtype)
            }
            1 => {
                let name = *self.rng.pick(&["zeros", "ones"]);
                let var = self.op(name, vec![shape], none().with("dtype", dtype))?;
                self.item(var, 1.0, true)
            }
            2 => {
                let var = self.op("full", vec![shape, Arg::Prim(value)], none())?;
                self.item(var, 4.0, true)
            }
            3 => {
                let name = *self.rng.pick(&["zeros_like", "ones_like"]);
                let var = self.op(name, vec![like.arg()], none())?;
                self.item(var, 1.0, true)
            }
            4 if !dims.is_empty() => {
                let end = PrimExpr::from(self.rng.pick(&dims)) + self.rng.range(-1, 2);
                let (start, step) = (self.rng.range(-1, 1), *self.rng.pick(&[1, 2, -1]));
                let [start, step] = [start, step].map(|it| Arg::Prim(PrimExpr::index(it)));
                let var = self.op("arange", vec![start, Arg::Prim(end), step], none())?;
                self.item(var, f64::INFINITY, true)
            }
            _ if !dims.is_empty() => {
                let (n, k) = (PrimExpr::from(self.rng.pick(&dims)), PrimExpr::index(self.rng.range(-1, 1)));
                let args = [n, PrimExpr::index(3), k].map(Arg::Prim);
                let var = self.op("eye", args.into(), none().with("dtype", dtype))?;
                self.item(var, 1.0, true)
            }
            _ => Err(refused("no dimension")),
        }
    }

    /// Builds convolutions, pools and paddings.
    fn window(&mut self) -> Made<Item> {
        let x = self.pick(|it| float(it) && it.ndim() > 1)?;
        let x = self.small(x)?;
        if self.rng.one_in(3) {
            let width: Vec<i64> = (0..2 * x.ndim()).map(|_| self.rng.range(0, 2)).collect();
            let var =
                self.op("nn.pad", vec![x.arg()], none().with("pad_width", width).with("pad_value", 1.0))?;
            return self.item(var, x.most.max(1.0), x.exact);
        }
        // Convert to an image: [batch, channels, height, width].
        let missing: Vec<AttrValue> =
            (0..4usize.saturating_sub(x.ndim())).map(|it| AttrValue::Int(it as i64)).collect();
        let image = match missing.len() {
            0 => x.clone(),
            _ => {
                let axes: Vec<i64> = (0..missing.len() as i64).collect();
                let var = self.op("expand_dims", vec![x.arg()], none().with("axis", axes))?;
                Item { var, ..x.clone() }
            }
        };
        let padding = none().with("padding", vec![1i64]).with("strides", vec![self.rng.range(1, 2)]);
        if self.rng.one_in(2) {
            let name = *self.rng.pick(&["nn.max_pool2d", "nn.avg_pool2d"]);
            let attrs = padding.with("pool_size", vec![3i64]).with("ceil_mode", self.rng.one_in(2));
            let var = self.op(name, vec![image.arg()], attrs)?;
            return self.item(var, image.most, image.exact && name == "nn.max_pool2d");
        }
        let Some(channels) = image.dims()[1].as_int() else { return Err(refused("not known")) };
        let weight = self.fixed(&[2, channels, 3, 3], image.dtype())?;
        let most = image.most * 4.0 * 9.0 * channels as f64;
        let var = self.op("nn.conv2d", vec![image.arg(), weight.arg()], padding)?;
        self.item(var, most, image.exact)
    }
}
