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
        let [data, weight] = &*call.args else { return None };
        let (groups, of_weight) = self.pixels_in_groups(call)?;
        let ((dims, _), result) = (self.shape(data)?, binding.var.ty().as_tensor()?.known_shape()?.to_vec());
        let [images, channels, height, width] = &dims[..] else { return None };
        let of_group = PrimExpr::index(channels.as_int()? / groups);
        let of_data = [images.clone(), PrimExpr::index(groups), of_group, height * width];
        let shape = |dims: &[PrimExpr]| Arg::Shape(Arc::from(dims));
        data.as_var().map(|it| self.bind_plain_value(it.id()));
        let (name, span) = (binding.var.name(), &call.span);
        let of_weight = shape(&of_weight.map(PrimExpr::index));
        let weight = self.emit("weight", "reshape", &[weight.clone(), of_weight], Attrs::new(), span)?;
        let data = self.emit("data", "reshape", &[data.clone(), shape(&of_data)], Attrs::new(), span)?;
        let attrs = Attrs::new().with("out_dtype", DataType::I32);
        let product = self.emit(name, "matmul", &[weight.into(), data.into()], attrs, span)?;
        let var = self.emit(name, "reshape", &[product.into(), shape(&result)], Attrs::new(), span)?;
        let last = self.bindings.pop_if(|last| last.var == var)?;
        Some(Binding { value: last.value, ..binding.clone() })
    }

    /// The number of groups, and the extents of the weights with the groups as an axis of their own, if `call` convolves single
    /// pixels of bytes in groups.
    fn pixels_in_groups(&self, call: &Call) -> Option<(i64, [i64; 3])> {
        let ([data, Arg::Const(weight)], Callee::Op(op)) = (&*call.args, &call.callee) else { return None };
        let &[out, of_group, 1, 1] = weight.shape() else { return None };
        let groups = call.attrs.int("groups").filter(|groups| *groups > 1 && out % groups == 0)?;
        let plain =
            |attr: &str, layout: &str| call.attrs.str(attr).is_none_or(|it| it == layout || it.is_empty());
        let all = |attr: &str, number: i64| {
            call.attrs.int_list(attr).is_none_or(|list| list.iter().all(|it| *it == number))
        };
        let fits = op.name == "nn.conv2d"
            && (self.shape(data)?.1, weight.dtype()) == (DataType::U8, DataType::I8)
            && call.attrs.dtype("out_dtype") == Some(DataType::I32)
            && plain("data_layout", PLAIN)
            && plain("out_layout", PLAIN)
            && plain("kernel_layout", WEIGHTS)
            && all("padding", 0)
            && all("strides", 1);
        fits.then_some((groups, [groups, out / groups, of_group]))
    }
}
