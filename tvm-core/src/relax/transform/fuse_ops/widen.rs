//! Which group makes elements wider: the one that reads them, so that the narrow ones are stored.
//!
//! ```text
//! conv2d, quantize, dequantize | conv2d, add     becomes     conv2d, quantize | conv2d, dequantize, add
//! ```

use rustc_hash::FxHashMap;

use crate::ir::{OpPattern, Type, VarId};
use crate::relax::{Arg, Binding, Expr};

use super::graph::Node;

/// Moves the element-wise steps at the end of a group, after its narrowest value, to the group that reads the result.
///
/// Only where one element-wise operation reads it, so that each element is still computed once.
/// `index` has the place of each variable in `bindings`.
pub(super) fn widen_where_read(
    bindings: &[&Binding],
    index: &FxHashMap<VarId, usize>,
    nodes: &[Node],
    groups: &mut [usize],
    max_size: usize,
) {
    for last in 0..nodes.len() {
        let [(reader, OpPattern::ElemWise)] = nodes[last].outputs[..] else { continue };
        let (own, to) = (groups[last], groups[reader]);
        if nodes[last].external || own == to {
            continue;
        }
        let steps = widening(bindings, index, nodes, groups, last);
        if steps.is_empty() {
            continue;
        }
        let size = groups.iter().filter(|&&it| it == to).count();
        if size + steps.len() <= max_size {
            steps.into_iter().for_each(|step| groups[step] = to);
        }
    }
}

/// The element-wise steps of a group from its narrowest value to the one of `last`; none if that is not wider.
fn widening(
    bindings: &[&Binding],
    index: &FxHashMap<VarId, usize>,
    nodes: &[Node],
    groups: &[usize],
    last: usize,
) -> Vec<usize> {
    let bits = |i: usize| bindings[i].var.ty().as_tensor().and_then(|ty| ty.dtype).map_or(0, |it| it.bits());
    let (mut steps, mut narrowest) = (Vec::new(), (bits(last), 0));
    let mut step = last;
    while nodes[step].pattern == OpPattern::ElemWise
        && let Some(from) = only_producer(bindings[step], index).filter(|&from| groups[from] == groups[last])
        && nodes[from].outputs.len() == 1
    {
        steps.push(step);
        step = from;
        if bits(from) < narrowest.0 {
            narrowest = (bits(from), steps.len());
        }
    }
    steps.truncate(narrowest.1);
    steps
}

/// The binding that a call takes its only tensor from, constants apart.
fn only_producer(binding: &Binding, index: &FxHashMap<VarId, usize>) -> Option<usize> {
    let Expr::Call(call) = &binding.value else { return None };
    let mut vars = call.args.iter().filter_map(Arg::as_var).filter(|var| matches!(var.ty(), Type::Tensor(_)));
    let (var, None) = (vars.next()?, vars.next()) else { return None };
    index.get(&var.id()).copied()
}
