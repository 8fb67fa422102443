//! Inlines the body of a tensor program, on the buffers and scalars of a call.
//!
//! TVM counterpart: the substitution in `relax.transform.FuseTIR`.

use crate::arith::Analyzer;
use crate::arith::dims::within;
use crate::tir::{
    BinaryOp, Block, Buffer, Mutator, Param, PrimExpr, PrimFunc, Stmt, Substitute, Visitor, any_expr,
    substitute_expr, walk_block, walk_stmt,
};

use super::context::analyzer_for;

/// Maps `param` to `arg`, and the dimensions of `param` to the extents of `arg`.
pub(crate) fn bind_buffer(param: &Buffer, arg: &Buffer, map: &mut Substitute) {
    for (extent, value) in param.shape.iter().zip(arg.shape.iter()) {
        if let Some(var) = extent.as_var() {
            map.vars.entry(var.id()).or_insert_with(|| value.clone());
        }
    }
    map.buffers.insert(param.id, arg.clone());
}

/// The buffers of the root block of `callee`, and its body, with the parameters replaced by `map`.
pub(crate) fn inline_body(callee: &PrimFunc, mut map: Substitute) -> (Vec<Buffer>, Stmt) {
    // The shapes of buffers allocated inside use the callee's dimensions.
    let mut local = Allocations::default();
    local.visit_stmt(&callee.body);
    for buffer in local.0 {
        let exprs = |exprs: &[PrimExpr]| exprs.iter().map(|it| substitute_expr(it, &map.vars)).collect();
        let new = buffer.renew(|node| {
            node.shape = exprs(&buffer.shape);
            node.strides = exprs(&buffer.strides);
            node.elem_offset = buffer.elem_offset.as_ref().map(|it| substitute_expr(it, &map.vars));
        });
        map.buffers.insert(buffer.id, new);
    }
    let body = map.mutate_stmt(&callee.body).unwrap_or_else(|| callee.body.clone());
    if let Stmt::BlockRealize(realize) = &body
        && realize.block.iter_vars.is_empty()
        && realize.block.match_buffers.is_empty()
        && realize.block.init.is_none()
        && realize.predicate.is_const(1)
    {
        return (realize.block.alloc_buffers.to_vec(), realize.block.body.clone());
    }
    (Vec::new(), body)
}

/// Describes why a call of `callee` in `caller` does not fit, with the arguments in `map`: an extent that is not proven to
/// be the expected one, or a dimension that may be out of its bounds. `None` when the call fits.
pub(crate) fn misfit_of_call(caller: &PrimFunc, callee: &PrimFunc, map: &Substitute) -> Option<String> {
    let analyzer = known_extents(caller, map);
    for param in callee.params.iter().filter_map(Param::buffer) {
        let Some(arg) = map.buffers.get(&param.id) else { continue };
        for (axis, (extent, got)) in param.shape.iter().zip(arg.shape.iter()).enumerate() {
            let expected = substitute_expr(extent, &map.vars);
            if !analyzer.can_prove_equal(&expected, got) {
                return Some(format!(
                    "axis {axis} of `{}` has extent {got} where `{}` expects {expected} for `{}`",
                    arg.name, callee.name, param.name
                ));
            }
        }
    }
    callee.param_vars().iter().find_map(|dim| {
        let (bound, value) = (dim.bound()?, map.vars.get(&dim.id()).cloned());
        let value = value.unwrap_or_else(|| PrimExpr::from(dim));
        let holds = analyzer.can_prove(&within(&value, bound, BinaryOp::FloorMod));
        let (callee, source) = (&callee.name, bound.source(dim.name()));
        (!holds).then(|| format!("`{callee}` is written for `{source}`, which is not known of {value}"))
    })
}

/// An analyzer for the dimensions of `caller`; other variables in the extents of arguments are indices.
fn known_extents(caller: &PrimFunc, map: &Substitute) -> Analyzer {
    let mut analyzer = analyzer_for(caller);
    let dims = caller.symbolic_dims();
    for extent in map.buffers.values().flat_map(|buffer| buffer.shape.iter()) {
        any_expr(extent, &mut |it| {
            if let Some(var) = it.as_var().filter(|var| !dims.contains(var)) {
                analyzer.bind_index(var);
            }
            false
        });
    }
    analyzer
}

/// Buffers that are allocated or declared inside.
#[derive(Default)]
struct Allocations(Vec<Buffer>);

impl Visitor for Allocations {
    fn visit_block(&mut self, block: &Block) {
        self.0.extend(block.alloc_buffers.iter().cloned());
        self.0.extend(block.match_buffers.iter().map(|it| it.buffer.clone()));
        walk_block(self, block);
    }

    fn visit_stmt(&mut self, stmt: &Stmt) {
        self.0.extend(stmt.as_alloc_buffer().map(|it| it.buffer.clone()));
        self.0.extend(stmt.as_decl_buffer().map(|it| it.buffer.clone()));
        walk_stmt(self, stmt);
    }
}
