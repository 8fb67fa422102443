//! Blocks in which an axis chooses the expression: `select(i == 0, a + b, select(i == 1, a - b, ..))`, as in the transforms of
//! Winograd's algorithm.
//!
//! The loops of such axes become the innermost ones and are unrolled, so that every copy has one of the expressions. If what
//! the block reads is chosen as well, it is computed there too: all values of one place stay in registers or in the
//! first-level cache.

use super::{outermost, parallel};
use crate::dlight::Rule;
use crate::dlight::analysis::BlockInfo;
use crate::target::Machine;
use crate::tir::schedule::{LoopRV, Schedule, ScheduleError};
use crate::tir::{BinaryOp, PrimExpr, any_expr};

pub(super) const RULE: Rule = Rule {
    name: "choice",
    why: "an axis chooses among expressions: its iterations are unrolled, so that each copy has one of them",
    apply,
};

/// Copies of the innermost loops' body at most.
const COPIES: i64 = 64;

/// An axis that chooses: by its value, or by its remainder.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choice {
    /// Index of the axis.
    axis: usize,
    /// The divisor of the remainder.
    modulus: Option<i64>,
}

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let choices = choices(info);
    if info.reduces || choices.is_empty() {
        return Ok(None);
    }
    if let Some(reader) = only_reader(s, info) {
        let mut fork = s.clone();
        let inner = choices_of_reader(info, &choices, &reader);
        if let Ok(Some(text)) = unrolled(&mut fork, &reader, &inner, Some(info), machine) {
            *s = fork;
            return Ok(Some(format!("{text}, inside of `{}`", reader.name)));
        }
    }
    unrolled(s, info, &choices, None, machine)
}

/// Unrolls the loops of `choices` in the block, in front of a vector, and computes `producer` there.
fn unrolled(
    s: &mut Schedule,
    info: &BlockInfo,
    choices: &[Choice],
    producer: Option<&BlockInfo>,
    machine: &Machine,
) -> Result<Option<String>, ScheduleError> {
    let (Some(column), Some(store)) = (info.contiguous_axis(), &info.store) else { return Ok(None) };
    let extent = |choice: &Choice| choice.modulus.or(info.axes[choice.axis].extent.as_int());
    let copies = choices.iter().try_fold(1i64, |copies, choice| copies.checked_mul(extent(choice)?));
    let Some(copies) = copies.filter(|&copies| copies <= COPIES) else { return Ok(None) };
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    let (mut outer, mut inner, mut vector) = (Vec::new(), Vec::new(), None);
    // Iterations of the loops in `outer`, rounded down.
    let mut counts = Vec::new();
    for (i, &it) in loops.iter().enumerate() {
        match choices.iter().find(|choice| choice.axis == i) {
            Some(_) if i == column => return Ok(None),
            Some(Choice { modulus: Some(modulus), .. }) => {
                let [tile, part] = s.split(it, [None, Some(*modulus)])?;
                outer.push(tile);
                counts.push(info.axes[i].extent.as_int().map(|it| it / modulus));
                inner.push(part);
            }
            Some(_) => inner.push(it),
            None if i == column => {
                let lanes = i64::from(machine.lanes(store.buffer.dtype));
                let [part, lanes] = s.split(it, [None, Some(lanes)])?;
                outer.push(part);
                counts.push(Some(1));
                vector = Some(lanes);
            }
            None => {
                outer.push(it);
                counts.push(info.axes[i].extent.as_int());
            }
        }
    }
    // Parts are images, of which there may be many, or rows of them.
    let longest = (0..outer.len()).rev().max_by_key(|&i| counts[i]);
    let mut order: Vec<usize> = (0..outer.len()).collect();
    order.sort_by_key(|&i| (counts[i].is_some(), Some(i) != longest));
    let outer: Vec<LoopRV> = order.iter().map(|&i| outer[i]).collect();
    let counts: Vec<Option<i64>> = order.iter().map(|&i| counts[i]).collect();
    let (Some(vector), Some(&last)) = (vector, outer.last()) else { return Ok(None) };
    let order: Vec<LoopRV> = outer.iter().chain(&inner).chain([&vector]).copied().collect();
    s.reorder_n(&order)?;
    if let Some(producer) = producer {
        let producer = s.block(&producer.name)?;
        s.compute_at(producer, last)?;
        if let Some((&lanes, rest)) = s.get_loops(producer)?[outer.len()..].split_last() {
            rest.iter().try_for_each(|&it| s.unroll(it))?;
            s.vectorize(lanes)?;
        }
    }
    inner.iter().try_for_each(|&it| s.unroll(it))?;
    s.vectorize(vector)?;
    parallel(s, info, outermost(&outer, &counts, 2, machine))?;
    Ok(Some(format!("{copies} copies")))
}

/// The axes that choose among the expressions of the block.
fn choices(info: &BlockInfo) -> Vec<Choice> {
    let mut found = Vec::new();
    let Some(store) = &info.store else { return found };
    any_expr(&store.value, &mut |expr| {
        if let PrimExpr::Select(select) = expr
            && let PrimExpr::Binary(equal) = &select.condition
            && equal.op == BinaryOp::Eq
            && equal.b.as_int().is_some()
        {
            add(&mut found, choice(info, &equal.a));
        }
        false
    });
    found
}

fn add(choices: &mut Vec<Choice>, choice: Option<Choice>) {
    choices.extend(choice.filter(|choice| !choices.contains(choice)));
}

/// An axis, or its remainder.
fn choice(info: &BlockInfo, expr: &PrimExpr) -> Option<Choice> {
    let (var, modulus) = match expr {
        PrimExpr::Binary(it) if it.op == BinaryOp::FloorMod => (it.a.as_var()?, Some(it.b.as_int()?)),
        _ => (expr.as_var()?, None),
    };
    let axis = info.axes.iter().position(|axis| axis.var == *var)?;
    Some(Choice { axis, modulus })
}

/// The block that reads what the block stores, if there is one and it is element-wise.
fn only_reader(s: &Schedule, info: &BlockInfo) -> Option<BlockInfo> {
    let store = info.store.as_ref()?;
    let reads = |block: &crate::tir::Block| block.reads.iter().any(|read| read.buffer == store.buffer);
    let mut readers =
        s.state().leaf_blocks().iter().filter(|it| it.block.name != info.name && reads(&it.block));
    let (reader, None) = (readers.next()?, readers.next()) else { return None };
    BlockInfo::of(s, &reader.block.name).filter(|reader| !reader.reduces)
}

/// The axes of `reader` that choose among its expressions, or that are the index where an axis of `info` chooses.
fn choices_of_reader(info: &BlockInfo, of_info: &[Choice], reader: &BlockInfo) -> Vec<Choice> {
    let mut found = choices(reader);
    let Some(store) = &info.store else { return found };
    for load in reader.loads.iter().filter(|load| load.buffer == store.buffer) {
        for (index, stored) in load.indices.iter().zip(store.indices.iter()) {
            let chooses = of_info.iter().any(|it| stored.as_var() == Some(&info.axes[it.axis].var));
            add(&mut found, choice(reader, index).filter(|_| chooses));
        }
    }
    found
}
