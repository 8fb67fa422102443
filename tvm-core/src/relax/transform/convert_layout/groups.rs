//! Convolutions of single pixels in groups whose operands are bytes: products of matrices, one for each group. Rules for products take
//! four terms of bytes at a time.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::conv::WEIGHTS;
use super::{Converter, PLAIN};
use crate::ir::Attrs;
use crate::relax::{Arg, Binding, Call, Callee, Expr};
use crate::tir::PrimExpr;

impl Converter<'_> {
    /// `binding`, a convolution of single pixels in groups, as the product that it is; `None` leaves it as it is.
    pub(super) fn product_of_groups(&mut self, binding: &Binding) -> Option<Binding> {
        let Expr::Call(call) = &binding.value else { return None };
        let (groups, weight) = self.pixels_in_groups(call)?;
        let [data, _] = &*call.args else { return None };
        let ((dims, _), result) = (self.shape(data)?, binding.var.ty().as_tensor()?.known_shape()?.to_vec());
        let [images, channels, height, width] = &dims[..] else { return None };
        let of_group = channels.as_int()? / groups;
        let [out, per_group] = [0, 1].map(|axis| weight.as_const().map(|it| it.shape()[axis]));
        let shape = |dims: &[PrimExpr]| Arg::Shape(Arc::from(dims));
        let number = PrimExpr::index;
        data.as_var().map(|it| self.bind_plain_value(it.id()));
        let pixels = height * width;
        let of_weight = shape(&[groups, out? / groups, per_group?].map(number));
        let of_data = shape(&[images.clone(), number(groups), number(of_group), pixels]);
        let span = &call.span;
        let weight = self.emit("weight", "reshape", &[weight, of_weight], Attrs::new(), span)?;
        let data = self.emit("data", "reshape", &[data.clone(), of_data], Attrs::new(), span)?;
        let attrs = Attrs::new().with("out_dtype", DataType::I32);
        let product = self.emit(binding.var.name(), "matmul", &[weight.into(), data.into()], attrs, span)?;
        let var =
            self.emit(binding.var.name(), "reshape", &[product.into(), shape(&result)], Attrs::new(), span)?;
        let last = self.bindings.pop_if(|last| last.var == var)?;
        Some(Binding { value: last.value, ..binding.clone() })
    }

    /// The number of groups and the weights, if `call` convolves single pixels of bytes in groups.
    fn pixels_in_groups(&self, call: &Call) -> Option<(i64, Arg)> {
        let ([data, weight], Callee::Op(op)) = (&*call.args, &call.callee) else { return None };
        let plain =
            |attr: &str, layout: &str| call.attrs.str(attr).is_none_or(|it| it == layout || it.is_empty());
        let all = |attr: &str, number: i64| {
            call.attrs.int_list(attr).is_none_or(|list| list.iter().all(|it| *it == number))
        };
        let weights =
            weight.as_const().filter(|it| it.dtype() == DataType::I8 && it.shape()[2..] == [1, 1])?;
        let groups =
            call.attrs.int("groups").filter(|groups| *groups > 1 && weights.shape()[0] % groups == 0)?;
        let fits = op.name == "nn.conv2d"
            && self.shape(data)?.1 == DataType::U8
            && call.attrs.dtype("out_dtype") == Some(DataType::I32)
            && plain("data_layout", PLAIN)
            && plain("out_layout", PLAIN)
            && plain("kernel_layout", WEIGHTS)
            && all("padding", 0)
            && all("strides", 1);
        fits.then(|| (groups, weight.clone()))
    }
}
