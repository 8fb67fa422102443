//! `AnnotateTIROpPattern`: stores the fusion pattern of each tensor program in its attribute `op_pattern`.
//!
//! A program that already has the attribute keeps it.
//!
//! TVM counterpart: `relax.transform.AnnotateTIROpPattern`.

use crate::ir::OpPattern;
use crate::pass::{Pass, prim_func_pass};
use crate::relax::analysis::op_pattern;
use crate::tir::PrimFunc;

const ALL: [OpPattern; 7] = [
    OpPattern::ElemWise,
    OpPattern::Broadcast,
    OpPattern::Injective,
    OpPattern::CommReduce,
    OpPattern::OutEWiseFusable,
    OpPattern::Tuple,
    OpPattern::Opaque,
];

/// The pass.
pub fn annotate_tir_op_pattern() -> Pass {
    prim_func_pass("AnnotateTIROpPattern", |func, _, _| {
        let missing = func.attrs.get("op_pattern").is_none();
        Ok(missing.then(|| {
            let attrs = func.attrs.clone().with("op_pattern", format!("{:?}", op_pattern(func)));
            PrimFunc { attrs, ..func.clone() }
        }))
    })
}

/// The pattern that the attribute names; [`OpPattern::Opaque`] without the attribute.
pub(super) fn annotated_pattern(func: &PrimFunc) -> OpPattern {
    let name = func.attrs.str("op_pattern");
    ALL.into_iter().find(|it| name == Some(&format!("{it:?}"))).unwrap_or(OpPattern::Opaque)
}
