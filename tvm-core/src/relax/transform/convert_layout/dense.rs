//! Products with constant weights, which get panels of columns: a panel is read as one stream, and serves all rows. Where
//! `bf16` are summed in pairs, two terms are a word; four are where the weights are `i8`.

use std::ops::RangeInclusive;

use tvm_runtime::{DataType, Tensor};

use super::{Converter, constant};
use crate::ir::{Attrs, Op, Var};
use crate::relax::{Arg, Binding, Call, Callee, Expr};
use crate::tir::{Layout, PrimExpr, words};

/// Rows of the result for which panels have one vector: a tile then holds all rows, or half of them.
const FEW_ROWS: RangeInclusive<i64> = 9..=32;
/// Terms of a sum from which on panels pay.
const TERMS: i64 = 8;

/// Constant weights, and the letters of their axes: columns (`N`) and terms (`K`).
#[derive(Clone)]
pub(super) struct Weights {
    tensor: Tensor,
    letters: &'static str,
}

/// The call of the operator of this name, if the expression is one.
fn call_of<'a>(name: &str, value: &'a Expr) -> Option<&'a Call> {
    let Expr::Call(call) = value else { return None };
    matches!(call.callee, Callee::Op(op) if op.name == name).then_some(&**call)
}

impl Converter<'_> {
    /// Remembers the transposed constant that is bound here, if it is one.
    pub(super) fn note_transposed(&mut self, var: &Var, value: &Expr) {
        let Some(call) = call_of("permute_dims", value) else { return };
        let [Arg::Const(tensor)] = &*call.args else { return };
        let swaps = call.attrs.int_list("axes").is_none_or(|axes| matches!(axes[..], [1 | -1, 0 | -2]));
        if tensor.shape().len() == 2 && swaps {
            self.transposed.insert(var.id(), Weights { tensor: tensor.clone(), letters: "NK" });
        }
    }

    /// The product with its weights in panels; `None` leaves it as it is.
    pub(super) fn dense_pack(&self, binding: &Binding) -> Option<Binding> {
        let call = call_of("matmul", &binding.value)?;
        let [data, weight] = &*call.args else { return None };
        let Weights { tensor, letters } = match weight {
            Arg::Const(tensor) => Weights { tensor: tensor.clone(), letters: "KN" },
            other => self.transposed.get(&other.as_var()?.id())?.clone(),
        };
        let (dims, dtype) = self.shape(data)?;
        let of_call = call.attrs.dtype("out_dtype").unwrap_or(dtype);
        // What becomes a word, and the type of the sums.
        let narrow = match (dtype, tensor.dtype(), of_call) {
            (DataType::BF16, DataType::BF16, DataType::BF16 | DataType::F32) if self.sums_pairs => {
                Some(DataType::F32)
            }
            (DataType::U8, DataType::I8, DataType::I32) => Some(DataType::I32),
            _ => None,
        };
        let of_weights = tensor.dtype();
        let wide = dtype.is_float() && dtype.bits() >= 32 && dtype == of_call;
        let narrow_weights =
            of_weights == DataType::I8 || of_weights.is_float() && of_weights.bits() < dtype.bits();
        let wide = wide && (of_weights == dtype || narrow_weights);
        let fits = wide || narrow.is_some();
        let (rows, [first, second]) = (dims.split_last()?.1, tensor.shape()) else { return None };
        let (columns, terms) = if letters == "KN" { (*second, *first) } else { (*first, *second) };
        let rows: Option<i64> = rows.iter().map(PrimExpr::as_int).product();
        if !fits || terms < TERMS {
            return None;
        }
        let summed = narrow.unwrap_or(dtype);
        let lanes = i64::from(self.machine.lanes(summed));
        let blocks = match rows {
            Some(rows) if FEW_ROWS.contains(&rows) && columns >= lanes => lanes,
            _ => self.blocks(columns, summed.bits())?.block,
        };
        let multiple = |extent: i64, of: i64| (extent + of - 1) / of * of;
        let mut tensor = constant::pad(&tensor, letters.find('N')?, multiple(columns, blocks))?;
        let layout: Layout = format!("NK{blocks}n").parse().ok()?;
        if narrow.is_some() {
            let parts = words::parts(dtype);
            tensor = constant::pad(&tensor, letters.find('K')?, multiple(terms, parts))?;
            tensor = constant::to_layout(&tensor, letters, &format!("NK{blocks}n{parts}k").parse().ok()?)?;
            tensor = constant::words(&tensor)?;
        } else {
            tensor = constant::to_layout(&tensor, letters, &layout)?;
        }
        let weight = Arg::Const(tensor);
        self.choices.note(super::NAME, || {
            let subject = format!("product with constant weights {terms}×{columns}");
            [
                subject,
                format!("weights in layout {layout}"),
                "a panel of columns is read as one stream".into(),
            ]
        });
        let mut attrs = Attrs::new().with("weight_layout", layout.to_string()).with("units", columns);
        if let Some(given) = call.attrs.dtype("out_dtype") {
            attrs.set("out_dtype", given);
        }
        let args = [data.clone(), weight].into();
        let callee = Callee::Op(Op::get("nn.dense_pack").ok()?);
        let value = Call { callee, args, attrs, ..call.clone() }.into();
        Some(Binding { value, ..binding.clone() })
    }
}
